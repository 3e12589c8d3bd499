"""`make run`: ready by itself, serves its models, leaves nothing running; on either store."""

import array
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import wave
from pathlib import Path

import pytest

import chat
import speech
from http_client import Call, format_request
from processes import BUILD, ROOT, KeptPort, program, wait_until
from providers import sound


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
STORES = ["embedded", "postgres"]
DEMO_PACKS = [("coral", "standard"), ("patient-onyx", "lite"), ("eager-nova", "pro")]


def heed_signals():
    """A shell cannot trap what was ignored at its start: as by nohup, or in a job behind "&"."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


# What is installed and built already is left as it is.
MAKE_RUN = ["make", "-s", "-C", ROOT, "-o", "packages-run", "-o", "programs", "run"]


class Demonstration:
    """demo/run in a session of its own, as a terminal would start it."""

    def __init__(self, run_dir, by_make=False, **environment):
        self.run_dir = run_dir
        self._kept_port = KeptPort()
        self.port = self._kept_port.number
        self.log = run_dir.parent / f"{run_dir.name}.log"
        with self.log.open("wb") as output:
            self.child = subprocess.Popen(
                MAKE_RUN if by_make else [ROOT / "demo" / "run"],
                cwd=run_dir.parent,
                env=os.environ
                | {"PORT": str(self.port), "WORKERS": "4", "BUILD": str(BUILD)}
                | {"RUN_DIR": str(run_dir) if by_make else run_dir.name}
                | environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=heed_signals,
            )

    def says(self, text):
        return text in self.log.read_text()

    def wait_ready(self):
        wait_until(lambda: self.says("Ready on") or self.child.poll() is not None, "the demonstration is ready", 60)
        assert self.child.poll() is None, self.log.read_text()

    def headers(self):
        key = (self.run_dir / "caller.key").read_text().strip()
        return {"authorization": f"Bearer {key}", "content-type": "application/json"}

    def ask(self, model, stream=False):
        body = json.dumps(chat.request(model, stream)).encode()
        return Call(self.port, format_request("POST", "/v1/chat/completions", self.headers(), body)).reply()

    def say(self, model="demo-tts", **members):
        body = json.dumps(speech.request(model, **members)).encode()
        return Call(self.port, format_request("POST", "/v1/audio/speech", self.headers(), body)).reply()

    def get(self, path):
        return Call(self.port, format_request("GET", path, self.headers())).reply()

    def voices(self, query):
        return self.get(f"/v1/audio/voices{query}").json()["voices"]

    def processes(self):
        """What runs in its session."""
        listing = subprocess.run(
            ["ps", "-ww", "-o", "pid=,args=", "-s", str(self.child.pid)], capture_output=True, text=True, check=False
        )
        return listing.stdout.splitlines()

    def wait_ended(self, timeout=20):
        status = self.child.wait(timeout)
        wait_until(lambda: not self.processes(), f"nothing is left of it, but: {self.processes()}", 5)
        return status

    def stop(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            self.wait_ended()
        for line in self.processes():  # a test that failed
            os.kill(int(line.split()[0]), signal.SIGKILL)


@pytest.fixture
def demonstrate():
    program("llm-router-admin")
    started = []
    # Not below pytest's folder: root's Postgres runs as another user, who may not enter it.
    folder = Path(tempfile.mkdtemp(prefix="llm-router-demo-"))
    folder.chmod(0o755)

    def start(**environment):
        demonstration = Demonstration(folder / "run", **environment)
        started.append(demonstration)
        return demonstration

    yield start
    for demonstration in started:
        demonstration.stop()
    shutil.rmtree(folder)


@pytest.mark.parametrize("store", STORES)
def test_it_is_ready_by_itself_and_serves_both_models(demonstrate, store):
    demo = demonstrate(STORE=store)
    demo.wait_ready()
    for model in ("demo", "demo-fallback"):
        assert "Hello!" in demo.ask(model).json()["choices"][0]["message"]["content"]
        reply = demo.ask(model, stream=True)
        assert chat.text_of(reply.body).startswith("Hello!")
        assert reply.body.endswith(chat.DONE.encode())
    # Others may pass to the servers that run as users of their own, and see nothing.
    is_passed = store == "postgres" and os.geteuid() == 0
    assert oct(demo.run_dir.stat().st_mode & 0o777) == ("0o711" if is_passed else "0o700")
    readable = [path for path in demo.run_dir.iterdir() if path.stat().st_mode & 0o007]
    assert not readable, readable


def assert_heard(audio):
    """A WAV file with a sound of some length in it."""
    with wave.open(io.BytesIO(audio)) as file:
        assert (file.getnchannels(), file.getsampwidth()) == (1, 2)
        samples = array.array("h", file.readframes(file.getnframes()))
        assert len(samples) / file.getframerate() > 0.3
        assert max(map(abs, samples)) > 3000


@pytest.mark.parametrize("store", STORES)
def test_it_speaks_with_every_voice_that_it_lists(demonstrate, store):
    demo = demonstrate(STORE=store)
    demo.wait_ready()
    voices = demo.voices("?model=demo-tts")
    assert voices == demo.voices("")
    assert {"alloy", "coral", "onyx"} <= {voice["id"] for voice in voices}
    for voice in voices:
        reply = demo.say(voice=voice["id"], response_format="wav")
        assert (reply.status, reply.is_whole, reply.headers["content-type"]) == (200, True, "audio/wav")
        assert_heard(reply.body)
    by_default = demo.say(..., response_format="wav")
    assert_heard(by_default.body)
    events = speech.payloads(demo.say(response_format="wav", stream_format="sse").body)
    assert speech.audio_of(events) == by_default.body
    as_mp3 = demo.say()
    assert (as_mp3.status, as_mp3.headers["content-type"]) == (200, "audio/mpeg")
    assert sound.decode(as_mp3.body) > 0.3


@pytest.mark.parametrize("store", STORES)
def test_its_voice_packs_are_on_their_page_and_speak(demonstrate, store):
    demo = demonstrate(STORE=store)
    demo.wait_ready()
    assert demo.get("/voice-packs/").headers["content-type"].startswith("text/html")
    packs = demo.get("/v1/voice-packs").json()["voicePacks"]
    assert [(pack["id"], pack["tier"]) for pack in packs] == DEMO_PACKS
    for pack, _ in DEMO_PACKS:
        assert_heard(demo.say(voice=pack, model=..., response_format="wav").body)


def test_on_postgres_its_processes_know_one_store(demonstrate):
    demo = demonstrate(STORE="postgres")
    demo.wait_ready()
    token = (demo.run_dir / "admin.token").read_text().strip()
    headers = {"authorization": f"Bearer {token}"}

    def status():
        return Call(demo.port, format_request("GET", "/api/admin/status", headers, b"")).reply().json()

    assert status()["store"]["kind"] == "postgres"
    wait_until(lambda: len(status()["instances"]) == 1 and not status()["behind"], "the instance is current")
    assert not (demo.run_dir / "state" / "configkv").exists()
    ready = Call(demo.port, format_request("GET", "/readyz", {}, b"")).reply().json()
    assert ready["checks"]["db"] == ready["checks"]["redis"] == "ok"


def test_the_commands_that_it_prints_work(demonstrate):
    demo = demonstrate()
    demo.wait_ready()
    commands = [part for part in demo.log.read_text().split("\n\n") if part.startswith("curl ")]
    assert len(commands) == 3
    for command in commands:
        done = subprocess.run(
            command, shell=True, cwd=demo.run_dir.parent, capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode == 0, done
        if "/audio/speech" in command:
            assert_heard((demo.run_dir.parent / "hello.wav").read_bytes())
        else:
            assert "Hello!" in done.stdout, done


@pytest.mark.parametrize("store, number", [("embedded", number) for number in SIGNALS] + [("postgres", signal.SIGINT)])
def test_it_leaves_nothing_running(demonstrate, store, number):
    demo = demonstrate(STORE=store)
    demo.wait_ready()
    assert len(demo.processes()) > 4
    if number == signal.SIGINT:
        os.killpg(demo.child.pid, number)  # as a terminal sends it: to all of them
    else:
        demo.child.send_signal(number)
    assert demo.wait_ended() == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", demo.port), 1)


def test_it_leaves_nothing_running_when_only_make_is_told_to_end(demonstrate):
    demo = demonstrate(by_make=True)
    demo.wait_ready()
    demo.child.terminate()
    demo.wait_ended()


@pytest.mark.parametrize("store", STORES)
def test_it_leaves_nothing_running_when_it_is_killed(demonstrate, store):
    demo = demonstrate(STORE=store)
    demo.wait_ready()
    demo.child.kill()
    demo.wait_ended()


@pytest.mark.parametrize("store", STORES)
def test_it_uses_its_keys_and_its_tree_again(demonstrate, store):
    first = demonstrate(STORE=store)
    first.wait_ready()
    kept = {name: (first.run_dir / name).read_text() for name in ("master.key", "caller.key", "admin.token")}
    first.stop()
    again = demonstrate(STORE=store)
    again.wait_ready()
    assert kept == {name: (again.run_dir / name).read_text() for name in kept}
    assert again.ask("demo-fallback").status == 200


def test_a_change_of_the_store_changes_the_key_with_it(demonstrate):
    for store in ("embedded", "postgres", "embedded"):
        demo = demonstrate(STORE=store)
        demo.wait_ready()
        assert demo.ask("demo").status == 200, store
        demo.stop()


PROGRAMS = [("embedded", name) for name in ("lighttpd", "llm-router", "llm-router-admin", "upstream")]
SERVERS = [("postgres", name) for name in ("postgres", "redis")]


@pytest.mark.parametrize("store, name", PROGRAMS + SERVERS)
def test_it_ends_when_one_of_its_programs_does(demonstrate, store, name):
    demo = demonstrate(STORE=store)
    demo.wait_ready()
    words = {
        "lighttpd": "lighttpd -D",
        "upstream": "upstream.py",
        "postgres": "postgres -D",
        "redis": "redis-server",
    }.get(name, f"/{name} --listen")
    pids = [int(line.split()[0]) for line in demo.processes() if words in line and "setpriv" not in line]
    os.kill(min(pids), signal.SIGKILL)
    assert demo.wait_ended() == 1
    assert demo.says(f"{name} has ended by itself")


REFUSED = {
    "an unknown store": ({"STORE": "paper"}, "'paper'"),
    "a port that is no number": ({"PORT": "http"}, "'http'"),
}


@pytest.mark.parametrize("name", ["llm-router", "llm-router-admin"])
def test_no_setting_of_who_calls_it_is_the_demonstrations(name):
    """Each variable that a program reads by its --help is set by demo/run, or taken away."""
    usage = subprocess.run([program(name), "--help"], capture_output=True, text=True, timeout=20, check=True).stdout
    read = set(re.findall(r"\b(?:LLM_ROUTER|DATABASE|REDIS)_[A-Z_]+\b", usage))
    script = (ROOT / "demo" / "run").read_text()
    taken = {word for line in re.findall(r"^unset (.*)$", script, re.M) for word in line.split()}
    given = set(re.findall(r"^export ([A-Z_]+)=", script, re.M))
    assert read and read - taken - given == set()


@pytest.mark.parametrize("environment, words", REFUSED.values(), ids=REFUSED.keys())
def test_a_setting_that_means_nothing_is_refused(demonstrate, environment, words):
    demo = demonstrate(**environment)
    assert demo.wait_ended() == 1
    assert demo.says(words)


def test_a_busy_port_is_said_plainly(demonstrate):
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = busy.getsockname()[1]
        demo = demonstrate(PORT=str(port))
        assert demo.wait_ended() == 1
        assert demo.says(f"cannot listen on 127.0.0.1:{port}")


def test_a_run_dir_that_is_too_long_for_a_socket_is_said_plainly(tmp_path):
    run_dir = tmp_path / ("x" * 100)
    demo = Demonstration(run_dir)
    assert demo.wait_ended() == 1
    assert demo.says("108 bytes")
    shutil.rmtree(run_dir)

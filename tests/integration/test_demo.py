"""`make run`: ready by itself, serves both models, leaves nothing running."""

import json
import os
import shutil
import signal
import socket
import subprocess

import pytest

import chat
from http_client import Call, format_request
from processes import BUILD, ROOT, KeptPort, program, wait_until


SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def heed_signals():
    """A shell cannot trap what was ignored at its start: as by nohup, or in a job behind "&"."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


class Demonstration:
    """demo/run in a session of its own, as a terminal would start it."""

    def __init__(self, run_dir, **environment):
        self.run_dir = run_dir
        self._kept_port = KeptPort()
        self.port = self._kept_port.number
        self.log = run_dir.parent / f"{run_dir.name}.log"
        with self.log.open("wb") as output:
            self.child = subprocess.Popen(
                [ROOT / "demo" / "run"],
                cwd=run_dir.parent,
                env=os.environ
                | {"PORT": str(self.port), "RUN_DIR": run_dir.name, "WORKERS": "4", "BUILD": str(BUILD)}
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
        wait_until(lambda: self.says("Ready on") or self.child.poll() is not None, "the demonstration is ready", 30)
        assert self.child.poll() is None, self.log.read_text()

    def ask(self, model, stream=False):
        key = (self.run_dir / "caller.key").read_text().strip()
        headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
        body = json.dumps(chat.request(model, stream)).encode()
        return Call(self.port, format_request("POST", "/v1/chat/completions", headers, body)).reply()

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


@pytest.fixture
def demonstrate(tmp_path):
    program("llm-router-admin")
    started = []

    def start(**environment):
        demonstration = Demonstration(tmp_path / "run", **environment)
        started.append(demonstration)
        return demonstration

    yield start
    for demonstration in started:
        demonstration.stop()


def test_it_is_ready_by_itself_and_serves_both_models(demonstrate):
    demo = demonstrate()
    demo.wait_ready()
    for model in ("demo", "demo-fallback"):
        assert "Hello!" in demo.ask(model).json()["choices"][0]["message"]["content"]
        reply = demo.ask(model, stream=True)
        assert chat.text_of(reply.body).startswith("Hello!")
        assert reply.body.endswith(chat.DONE.encode())
    assert oct(demo.run_dir.stat().st_mode & 0o777) == "0o700"


def test_the_commands_that_it_prints_work(demonstrate):
    demo = demonstrate()
    demo.wait_ready()
    commands = [part for part in demo.log.read_text().split("\n\n") if part.startswith("curl ")]
    assert len(commands) == 2
    for command in commands:
        done = subprocess.run(
            command, shell=True, cwd=demo.run_dir.parent, capture_output=True, text=True, timeout=30, check=False
        )
        assert "Hello!" in done.stdout, done


@pytest.mark.parametrize("number", SIGNALS)
def test_it_leaves_nothing_running(demonstrate, number):
    demo = demonstrate()
    demo.wait_ready()
    assert len(demo.processes()) > 4
    if number == signal.SIGINT:
        os.killpg(demo.child.pid, number)  # as a terminal sends it: to all of them
    else:
        demo.child.send_signal(number)
    assert demo.wait_ended() == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", demo.port), 1)


def test_it_leaves_nothing_running_when_it_is_killed(demonstrate):
    demo = demonstrate()
    demo.wait_ready()
    demo.child.kill()
    demo.wait_ended()


def test_it_uses_its_keys_and_its_tree_again(demonstrate):
    first = demonstrate()
    first.wait_ready()
    kept = {name: (first.run_dir / name).read_text() for name in ("master.key", "caller.key", "admin.token")}
    first.stop()
    again = demonstrate()
    again.wait_ready()
    assert kept == {name: (again.run_dir / name).read_text() for name in kept}
    assert again.ask("demo-fallback").status == 200


@pytest.mark.parametrize("name", ["lighttpd", "llm-router", "llm-router-admin", "upstream"])
def test_it_ends_when_one_of_its_programs_does(demonstrate, name):
    demo = demonstrate()
    demo.wait_ready()
    words = {"lighttpd": "lighttpd -D", "upstream": "upstream.py"}.get(name, f"/{name} --listen")
    pids = [int(line.split()[0]) for line in demo.processes() if words in line and "setpriv" not in line]
    os.kill(min(pids), signal.SIGKILL)
    assert demo.wait_ended() == 1
    assert demo.says(f"{name} has ended by itself")


REFUSED = {
    "a store that is not there yet": ({"STORE": "postgres"}, "not supported yet"),
    "an unknown store": ({"STORE": "paper"}, "'paper'"),
    "a port that is no number": ({"PORT": "http"}, "'http'"),
}


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

"""A whole gateway on a private folder: llm-router behind a web server, its routing
tree, and a client."""

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

import chat
from fastcgi import takes_connections
import speech
import transcripts
from http_client import Call, format_request
from processes import BROKEN, ROOT, Process, StartedByAnother, contents_of, program, wait_until
from spool import Spool
from tree import KeyRing, elsewhere, model, render
from web_servers import CHOSEN, IN_FRONT

MOUNTS = ("/v1", "/api/v1/openai")


def confinement(name="llm-router"):
    """What a program is run by under the filter of its systemd unit, where CONFINED is set."""
    unit = ROOT / "lighttpd" / f"{name}.service"
    return [sys.executable, str(Path(__file__).parent / "confine.py"), str(unit)] if os.environ.get("CONFINED") else []


class Gateway:
    def __init__(
        self,
        folder,
        base_urls,
        upstream,
        workers=8,
        flags=(),
        caller_auth="keys",
        router_environment=None,
        web_server=IN_FRONT[CHOSEN],
        edits=(),
        nofile=None,
        servers=None,
        peer=None,
    ):
        """web_server, edits: what stands in front (web_servers.py).
        servers: DATABASE_URL and so on, where the store is not the state directory.
        peer: another gateway on the same store, whose master key and caller are ours too."""
        self.folder = folder
        self.upstream = upstream
        self.front = web_server(folder, edits)
        self.port = self.front.port
        self.run_dir = self.front.run_dir
        self.state_dir = folder / "state"
        self._base_urls = base_urls
        self._flags = ["--workers", str(workers), "--caller-auth", caller_auth, *flags]
        self._router_environment = router_environment or {}  # besides environment(); None takes one away
        self._nofile = nofile  # the soft limit of file descriptors of llm-router
        self._servers = servers or {}
        self._generation = 0
        for path in (self.run_dir / "www", self.state_dir, self.state_dir / "configkv"):
            path.mkdir(mode=0o700)
        self.master_key_file = folder / "master.key"
        self.master_key = peer.master_key if peer else self.ctl("keygen").strip()
        self.master_key_file.write_text(self.master_key + "\n")
        self.keys = peer.keys if peer else KeyRing(program("llm-routerctl"), self.master_key_file)
        self.caller_key = peer.caller_key if peer else self.ctl("caller-key", "add", "--id", "tests").strip()
        self.spool = Spool(self.state_dir)
        self.router = None
        self.web_server = None

    # Programs

    @property
    def program(self):
        return program("llm-router")

    @property
    def socket(self):
        """The workers'."""
        return self.run_dir / self.front.socket_name

    def environment(self):
        kept = {name: os.environ[name] for name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}
        return kept | {
            "LLM_ROUTER_MASTER_KEY_FILE": str(self.master_key_file),
            "LLM_ROUTER_STATE_DIR": str(self.state_dir),
            "LLM_ROUTER_RUN_DIR": str(self.run_dir),
            "PORT": str(self.port),
        } | self._servers

    def _whole_environment(self):
        """What llm-router has."""
        environment = self.environment() | self._router_environment
        return {name: value for name, value in environment.items() if value is not None}

    def ctl(self, *arguments, given=""):
        done = subprocess.run(
            [program("llm-routerctl"), *arguments],
            env=self.environment(),
            input=given,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
        assert done.returncode == 0, f"llm-routerctl {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def start(self):
        try:
            self.start_programs()
        except BaseException:
            self.stop_programs()
            raise

    def start_programs(self):
        if self.front.starts_instance:
            self.start_web_server()
            self.router = StartedByAnother(self.run_dir / "llm-router.pid", self.web_server)
            wait_until(self.router.is_running, "the web server has started llm-router")
        else:
            self.start_router()
            # Where nobody was at its first connect, lighttpd does not look again for a second or two.
            wait_until(self._takes_probes, "llm-router listens")
            self.start_web_server()
        wait_until(self._is_ready, "/readyz answers 200")

    def start_web_server(self):
        if self.front.starts_instance or self.front.starts_programs:
            self.web_server = self.front.start_with([*self._limit(), str(self.program)], self._flags, self._whole_environment())
        else:
            self.web_server = self.front.start(self.environment())

    def start_router(self):
        assert not self.front.starts_instance, "the web server alone starts it"
        self.router = Process(
            [*self._limit(), *self._confinement(), *self._router_command(), *self._flags],
            self._whole_environment(),
            self.folder / "llm-router.log",
        )
        self.front.wait_for_router(self.router, self.socket)

    def _limit(self):
        return [] if self._nofile is None else ["prlimit", f"--nofile={self._nofile}:"]

    def _confinement(self):
        return confinement()

    def _router_command(self):
        return self.front.router_command(self.program, self.socket, self._whole_environment())

    def _takes_probes(self):
        assert self.router.is_running(), f"llm-router ended: {self.router.log_text()}"
        return takes_connections(self.run_dir / "health.sock")

    def _is_ready(self):
        assert self.router.is_running(), f"llm-router ended: {self.router.log_text()}"
        assert self.web_server.is_running(), f"the web server ended: {self.web_server.log_text()}"
        try:
            return self.get("/readyz", key=None).status == 200
        except (OSError, AssertionError):
            return False

    def stop(self):
        try:
            self.stop_programs()
        finally:
            self.front.close()

    def stop_programs(self):
        try:
            if self.web_server is not None:
                self.web_server.stop(self.front.ends_within_s)
        finally:
            if self.router is not None:
                self.router.stop()

    def assert_unbroken(self):
        """No sanitizer's words, and no crashed worker, since the last call."""
        text = self.router.new_log_text()
        for word in BROKEN:
            assert word not in text, f"llm-router is broken:\n{text}"
        crashes = [line for line in text.splitlines() if '"child_died"' in line]
        assert not crashes, f"a process crashed: {crashes}"

    # What it leaves, and what runs

    def contents(self):
        """Of every file of this gateway's and of its web server's, by its place: run/..., state/... and so on."""
        return contents_of(self.folder) | contents_of(self.run_dir.parent)

    def log_lines(self, event=None):
        """Lines of the log, each of which must be an object; of one kind if it is named."""
        text = self.router.log_text().splitlines(True)
        if self.front.starts_programs:
            text += [line for line in self.web_server.log_text().splitlines(True) if line.startswith("{")]
        lines = [json.loads(line) for line in text if line.endswith("\n")]
        return [line for line in lines if event is None or line["event"] == event]

    def log_lines_of(self, reply, event=None):
        """Those about its request. They pass through the master, and come a moment later."""
        return [line for line in self.log_lines(event) if line.get("request_id") == reply.request_id]

    def process_of(self, role):
        return next(pid for pid, name in self.router.roles().items() if name == role)

    def workers(self):
        return {pid for pid, name in self.router.roles().items() if name == "worker"}

    def status(self):
        return self.get("/status", key=None).json()

    def settle(self):
        """Waits until the keeper has nothing left to do, and every worker has what is in force."""

        def is_settled():
            before = self.status()
            time.sleep(0.3)
            now = self.status()
            return now["reloads"] == before["reloads"] and now["workersCurrent"] == now["workersAlive"]

        wait_until(is_settled, "what was written is in force everywhere")

    def checks(self):
        return self.get("/readyz", key=None).json()["checks"]

    def metrics(self):
        text = self.get("/metrics", key=None).body.decode()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in text.splitlines() if line[0] != "#"}

    def metric(self, name):
        return self.metrics()[name]

    # Configuration

    def write_entry(self, name, text):
        path = self.state_dir / "configkv" / f"{name}.json"
        fresh = path.with_suffix(".fresh")
        fresh.write_text(text)
        fresh.chmod(0o600)
        fresh.replace(path)

    def remove_entry(self, name):
        (self.state_dir / "configkv" / f"{name}.json").unlink(missing_ok=True)

    def reload(self):
        self.router.signal(signal.SIGHUP)

    def render(self, tree):
        """The document, and the name of a model that no other tree has."""
        self._generation += 1
        marker = f"tree-{self._generation}"
        tree.models = [m for m in tree.models if not m[0].startswith("tree-")]
        tree.models.append(model(marker, elsewhere("http://127.0.0.1:9/none", "none", "none")))
        return render(tree, self._base_urls, self.keys), marker

    def use(self, tree, by_signal=True):
        """Puts a tree in force, and waits until it is."""
        document, marker = self.render(tree)
        # Each change is heard by itself: what is waited for is the last one.
        for entry, name in (("DEFAULT_CHAT_MODEL", tree.default), ("DEFAULT_TTS_MODEL", tree.default_tts)):
            if name is None:
                self.remove_entry(entry)
            else:
                self.write_entry(entry, json.dumps(name))
        self.write_entry("LLM_ROUTER_CONFIG", document)
        if by_signal:
            self.reload()
        wait_until(lambda: marker in self.model_names(), f"the tree with {marker} is in force")

    def model_names(self):
        reply = self.get("/v1/models")
        return [entry["id"] for entry in reply.json().get("data", [])] if reply.status == 200 else []

    def script(self, model_name, key_id, *scripts):
        """Binds upstream scripts to the key of a model."""
        self.upstream.bind(self.keys.plaintext(model_name, key_id), *scripts)

    # Requests

    def call(self, method, path, body=b"", headers=None, key="caller", **options):
        """Sends a request; the reply is the caller's to read."""
        lines = {}
        if key == "caller":
            lines["authorization"] = f"Bearer {self.caller_key}"
        elif key is not None:
            lines["authorization"] = f"Bearer {key}"
        if method == "POST":
            lines["content-type"] = "application/json"
        lines |= headers or {}
        payload = json.dumps(body).encode() if isinstance(body, dict) else body
        return self._send(method, path, lines, payload, **options)

    def _send(self, method, path, headers, payload, **options):
        return Call(self.port, format_request(method, path, headers, payload), **options)

    def get(self, path, **options):
        return self.call("GET", path, **options).reply()

    def post(self, body, mount="/v1", **options):
        return self.call("POST", f"{mount}/chat/completions", body, **options).reply()

    def chat(self, model_name, stream=False, mount="/v1", **options):
        """One chat completion, read to its end."""
        return self.post(chat.request(model_name, stream), mount, **options)

    def speak(self, model_name, /, mount="/v1", headers=None, **members):
        """One request for speech under way, with a request id of ours: call.request_id."""
        request_id = secrets.token_hex(16)
        call = self.call(
            "POST",
            f"{mount}/audio/speech",
            speech.request(model_name, **members),
            headers={"x-request-id": request_id} | (headers or {}),
        )
        call.request_id = request_id
        return call

    def say(self, model_name, /, mount="/v1", **members):
        """One request for speech, read to its end."""
        return self.speak(model_name, mount, **members).reply()

    def transcribe(self, body, mount="/v1", headers=None, **options):
        """One request for a transcription under way, with a request id of ours: call.request_id."""
        request_id = secrets.token_hex(16)
        call = self.call(
            "POST",
            f"{mount}/audio/transcriptions",
            body,
            headers=transcripts.FORM | {"x-request-id": request_id} | (headers or {}),
            **options,
        )
        call.request_id = request_id
        return call

    def hear(self, model_name, *parts, mount="/v1", **fields):
        """One request for a transcription, read to its end."""
        return self.transcribe(transcripts.request(model_name, *parts, **fields), mount).reply()

    def begin(self, model_name, stream=False, mount="/v1", headers=None, **options):
        """A chat completion under way, with a request id of ours: call.request_id.
        The caller may leave."""
        request_id = secrets.token_hex(16)
        call = self.call(
            "POST",
            f"{mount}/chat/completions",
            chat.request(model_name, stream),
            headers={"x-request-id": request_id} | (headers or {}),
            **options,
        )
        call.request_id = request_id
        return call

    def event(self, reply_or_call):
        return self.spool.wait_event(reply_or_call.request_id)

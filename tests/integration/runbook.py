"""A host on which the commands of admin/RUNBOOK.md are run as they stand there.

Its places are in a folder, its supervisor (`systemctl`) starts what the runbook's unit says,
`sudo` changes nobody's user, and `$EDITOR` makes the edit that the test has laid ready.
"""

import contextlib
import os
import re
import signal
import socket
import subprocess
import textwrap
import threading
from pathlib import Path

from processes import BUILD, ROOT, KeptPort, Process

TEXT = (ROOT / "admin" / "RUNBOOK.md").read_text()
UNITS = ("llm-router", "llm-router-admin")

SUDO = """#!/bin/sh
[ "$1" != -u ] || shift 2
exec "$@"
"""

EDITOR = """#!/usr/bin/env python3
# The edit of FILE: FILE.text replaces it, or FILE.py changes the document `tree`.
import json, os, pathlib, sys
file = pathlib.Path(sys.argv[1])
edits = pathlib.Path(os.environ["EDITS"]) / file.name
text, code = edits.with_name(edits.name + ".text"), edits.with_name(edits.name + ".py")
if text.exists():
    file.write_text(text.read_text())
    text.unlink()
else:
    tree = json.loads(file.read_text())
    exec(code.read_text(), {"tree": tree})
    file.write_text(json.dumps(tree, indent=2))
    code.unlink()
"""

SYSTEMCTL = """#!/usr/bin/env python3
import os, socket, sys
with socket.socket(socket.AF_UNIX) as supervisor:
    supervisor.connect(os.environ["SUPERVISOR"])
    supervisor.sendall("\\n".join(sys.argv[1:]).encode())
    supervisor.shutdown(socket.SHUT_WR)
    answer = supervisor.makefile().read()
sys.exit(answer or 0)  # a text goes to stderr, and is a failure
"""


class Supervisor:
    """As much of systemd as the runbook uses: sockets that it owns, and services that get them as
    their standard input."""

    def __init__(self, folder, units):
        self.path = folder / "supervisor.sock"
        self._folder = folder
        self._units = units  # name -> ([command, …], environment file, socket)
        self._sockets = {}
        self.services = {}
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self):
        while True:
            peer, _ = self._listener.accept()
            with peer:
                words = peer.makefile().read().split("\n")
                if words == ["end"]:
                    return
                try:
                    answer = self._do(words[0], [word for word in words[1:] if word != "--now"])
                except Exception as exception:  # whoever asked is to see it
                    answer = repr(exception)
                peer.sendall(answer.encode())

    def _do(self, action, names):
        actions = {"enable": [self._start], "start": [self._start], "stop": [self._stop],
                   "restart": [self._stop, self._start], "daemon-reload": []}
        for name in names:
            for step in actions[action]:
                step(name)
        return "" if action in actions else f"systemctl {action} is not known here"

    def _start(self, name):
        if name.endswith(".socket"):
            path = self._units[name.removesuffix(".socket")][2]
            listener = self._sockets[name] = socket.socket(socket.AF_UNIX)
            listener.bind(str(path))
            listener.listen(4096)
            return
        command, environment_file, _ = self._units[name]
        lines = environment_file.read_text().splitlines()
        with (self._folder / f"{name}.log").open("ab") as log:
            self.services[name] = subprocess.Popen(
                command, env=dict(line.split("=", 1) for line in lines) | {"PATH": os.environ["PATH"]},
                stdin=self._sockets[f"{name}.socket"], stdout=log, stderr=log, start_new_session=True)

    def _stop(self, name):
        self.services[name].terminate()
        self.services[name].wait(15)

    def logs(self):
        return "".join(path.read_text(errors="replace") for path in self._folder.glob("*.log"))

    def end(self):
        with socket.socket(socket.AF_UNIX) as peer:
            peer.connect(str(self.path))
            peer.sendall(b"end")
        self._thread.join()
        for service in self.services.values():
            service.terminate()
            try:
                service.wait(15)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(service.pid, signal.SIGKILL)
        for listener in (self._listener, *self._sockets.values()):
            listener.close()


def sections():
    """title -> its blocks, each (language, text)."""
    found = {}
    for part in re.split(r"^##+ ", TEXT, flags=re.M):
        title, _, body = part.partition("\n")
        blocks = re.findall(r"^```(\w+)\n(.*?)^```$", body, re.M | re.S)
        found[title if not title.startswith("# ") else ""] = blocks
    return found


SECTIONS = sections()


class Host:
    def __init__(self, folder):
        self.folder = folder
        self.etc, self.state, self.run_dir = (folder / name for name in ("etc", "state", "run"))
        self.work, self.units, self.edits = (folder / name for name in ("work", "units", "edits"))
        bin_dir = folder / "bin"
        for path in (self.work, self.units, self.edits, bin_dir):
            path.mkdir()
        for name, text in (("sudo", SUDO), ("editor", EDITOR), ("systemctl", SYSTEMCTL)):
            self.write_script(bin_dir / name, text)
        self.bin = bin_dir
        self._kept_port = KeptPort()
        self.port = self._kept_port.number
        self.followed = set()
        self.supervisor = Supervisor(self.units, self._read_units())
        self.environment = {
            "PATH": f"{bin_dir}:{BUILD}:{os.environ['PATH']}",
            "EDITOR": str(bin_dir / "editor"),
            "EDITS": str(self.edits),
            "SUPERVISOR": str(self.supervisor.path),
            "ETC": str(self.etc),
            "STATE": str(self.state),
            "RUN": str(self.run_dir),
            "URL": f"http://127.0.0.1:{self.port}",
        }
        self.lighttpd = None

    @staticmethod
    def write_script(path, text):
        path.write_text(text)
        path.chmod(0o755)

    def _read_units(self):
        """The runbook's units, with this host's places."""
        texts = [text for language, text in SECTIONS["First installation"] if language == "ini"]
        of_socket, of_service = (dict(line.split("=", 1) for line in text.splitlines() if "=" in line) for text in texts)
        assert of_service["StandardInput"] == "socket"
        units = {}
        for name in UNITS:
            program, *flags = of_service["ExecStart"].split()
            assert program == "/usr/local/sbin/llm-router" and of_socket["ListenStream"] == "/run/llm-router/llm-router.sock"
            environment = self.etc / Path(of_service["EnvironmentFile"]).name
            units[name] = ([str(BUILD / name), *flags], environment, self.run_dir / f"{name}.sock")
        return units

    def start_web_server(self):
        (self.run_dir / "www").mkdir(parents=True, exist_ok=True)
        self.lighttpd = Process(
            ["lighttpd", "-D", "-f", str(ROOT / "lighttpd" / "lighttpd.conf")],
            {"PATH": os.environ["PATH"], "PORT": str(self.port), "LLM_ROUTER_RUN_DIR": str(self.run_dir)},
            self.folder / "lighttpd.log",
        )

    def edit(self, file, text=None, code=None):
        """What $EDITOR will do to the file of this name, the next time."""
        suffix, words = ("text", text) if text is not None else ("py", code)
        (self.edits / f"{file}.{suffix}").write_text(textwrap.dedent(words))

    def follow(self, title, block=None, **variables):
        """Runs the commands of a section in one shell, as somebody would who goes through it, or
        those of one of its blocks. What they printed."""
        blocks = [text for language, text in SECTIONS[title] if language == "sh"]
        self.followed |= {(title, i) for i in range(len(blocks)) if block in (None, i)}
        return self.shell("\n".join(blocks) if block is None else blocks[block], title, **variables)

    def shell(self, script, title="a command", **variables):
        prelude = "[ ! -e \"$ETC/environment\" ] || { set -a; . \"$ETC/environment\"; set +a; }\n"
        done = subprocess.run(
            ["bash", "-eu", "-c", prelude + script],
            env=self.environment | variables, cwd=self.work, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{title} failed:\n{script}\n{done.stdout}\n{done.stderr}\n{self.logs()[-5000:]}"
        assert not list(self.edits.iterdir()), f"{title} did not edit {list(self.edits.iterdir())}"
        return done.stdout

    def logs(self):
        return self.supervisor.logs()

    def stop(self):
        if self.lighttpd is not None:
            self.lighttpd.stop()
        self.supervisor.end()
        self._kept_port.close()

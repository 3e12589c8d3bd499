"""The programs under test, and lighttpd, as child processes."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")

# What a sanitizer, the C library or the loader says when a program is broken.
BROKEN = (
    "AddressSanitizer",
    "LeakSanitizer",
    "runtime error:",
    "stack smashing detected",
    "buffer overflow detected",
    "free(): ",
    "malloc(): ",
    "double free",
    "Assertion",
)


# llm-router closes /proc/PID/{fd,mem,smaps_rollup} of its processes to its own user, too.
CAN_LOOK_INSIDE = os.geteuid() == 0


def is_sanitized():
    """Whether the programs under test have AddressSanitizer in them (make integration SANITIZE=1)."""
    path = BUILD / "llm-router"
    return path.exists() and b"__asan_init" in path.read_bytes()


# AddressSanitizer keeps what was freed.
CAN_MEASURE_MEMORY = CAN_LOOK_INSIDE and not is_sanitized()
MEMORY_REASON = "only root may look at the memory of llm-router, and AddressSanitizer's is another"


def asan_options(*added):
    """The environment in which AddressSanitizer does this too."""
    return {"ASAN_OPTIONS": ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), *added]))}


def count_descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def program(name):
    path = BUILD / name
    assert path.exists(), f"{path} is missing: run make first"
    return str(path)


def contents_of(folder):
    """Of every file below the folder, by its path from there; not of one that is removed meanwhile."""
    found = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file():
                found[str(path.relative_to(folder))] = path.read_bytes()
    return found


def _look_at(pid):
    """pid, state and name; None: it has ended."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        head, _, rest = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")
        return int(pid), rest.split()[0], head.partition("(")[2]
    return None


class KeptPort:
    """A port of all addresses that is ours until it is closed. Nobody listens on it, so
    that a child which sets SO_REUSEADDR too may; meanwhile the kernel gives it to no
    other who asks for any port, nor to a connection as its own end."""

    def __init__(self):
        family, address = (socket.AF_INET6, "::") if socket.has_dualstack_ipv6() else (socket.AF_INET, "")
        self._socket = socket.socket(family)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            self._socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        self._socket.bind((address, 0))
        self.number = self._socket.getsockname()[1]

    def close(self):
        self._socket.close()


def wait_until(condition, what, timeout=10.0):
    end = time.monotonic() + timeout
    while True:
        result = condition()
        if result:
            return result
        assert time.monotonic() < end, f"after {timeout} s still not: {what}"
        time.sleep(0.01)


class Program:
    """One that runs, with a pid and a log."""

    def __init__(self, log):
        self.log = Path(log)
        self._log_read = 0

    def signal(self, number):
        os.kill(self.pid, number)

    def children(self):
        return [pid for pid, _, _ in self._look_at_children()]

    def roles(self):
        """pid -> name of each child that lives; of a child that is just being made, the program's."""
        return {pid: name for pid, state, name in self._look_at_children() if state not in "ZX"}

    def zombies(self):
        return [child for child in self._look_at_children() if child[1] == "Z"]

    def _look_at_children(self):
        """(pid, state, name) of each. The list may lack one while another ends: it is read until it stays the same."""
        pids = None
        while pids != (now := self._list_children()):
            pids = now
        return [child for child in map(_look_at, pids) if child is not None]

    def _list_children(self):
        """Those of each thread."""
        pids = []
        for path in Path(f"/proc/{self.pid}/task").glob("*/children"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                pids += path.read_text(encoding="ascii").split()
        return pids

    def log_text(self):
        return self._said(self.log.read_bytes())

    def new_log_text(self):
        """What was logged since the last call."""
        with self.log.open("rb") as file:
            file.seek(self._log_read)
            data = file.read()
        self._log_read += len(data)
        return self._said(data)

    def _said(self, data):
        return data.decode(errors="replace")


class Process(Program):
    """A child in a process group of its own, with its stderr in a file."""

    def __init__(self, command, environment, log):
        super().__init__(log)
        with self.log.open("ab") as stderr:
            self._child = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
                start_new_session=True,
            )
        self.pid = self._child.pid

    def is_running(self):
        return self._child.poll() is None

    def wait(self, timeout=10.0):
        """The exit status, when the process has ended by itself or by a signal sent before."""
        return self._child.wait(timeout)

    def group_is_empty(self):
        """Whether neither the process nor any child that stayed in its group lives."""
        if self._child.poll() is None:
            return False
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def stop(self, timeout=10.0):
        """Ends the process, and asserts that it went by itself, left nothing running and
        was not broken: what leaked is said at the very end."""
        if self.is_running():
            self.signal(signal.SIGTERM)
        try:
            self.wait(timeout)
            wait_until(self.group_is_empty, f"all processes of {self._child.args[0]} have ended", 3.0)
        finally:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self._child.wait(5)
        text = self.log_text()
        for word in BROKEN:
            assert word not in text, f"{self._child.args[0]} is broken:\n{text}"


class StartedByAnother(Program):
    """A daemon that a web server has started, and alone ends again: found by its pid file. What it says is in the
    web server's log."""

    # What lighttpd and multiwatch say themselves.
    theirs = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d: |\*\* |Child\[).*\n|^\n", re.MULTILINE)

    def __init__(self, pid_file, web_server):
        super().__init__(web_server.log)
        self._pid_file = pid_file

    @property
    def pid(self):
        """Of the one that runs, or comes."""
        return wait_until(self._read_pid, f"{self._pid_file} names a process")

    def _read_pid(self):
        text = self._pid_file.read_text() if self._pid_file.exists() else ""
        return int(text) if text.strip() else None

    def is_running(self):
        pid = self._read_pid()
        look = _look_at(pid) if pid is not None else None
        return look is not None and look[1] not in "ZX"

    def stop(self):
        """Asserts that the web server, which was stopped before, has ended it."""
        wait_until(lambda: not self.is_running(), "it has ended with its web server", 3.0)

    def _said(self, data):
        return self.theirs.sub("", super()._said(data))

"""What a worker does, counted from outside: its system calls (strace), its instructions and allocations (callgrind)."""

import re
import signal
import subprocess
from pathlib import Path

import pytest

from front_ends import BareGateway
from processes import wait_until

SLOW_S = 120.0  # under callgrind, on a machine that has other things to do


class SystemCalls:
    """The system calls of a process, from now until stop()."""

    def __init__(self, pid, folder):
        self._lines = folder / f"strace.{pid}"
        self._words = folder / f"strace.{pid}.stderr"
        with self._words.open("wb") as words:
            self._strace = subprocess.Popen(
                ["strace", "-qq", "-e", "signal=none", "-o", self._lines, "-p", str(pid)], stderr=words
            )
        tracer = f"TracerPid:\t{self._strace.pid}\n"
        status = Path(f"/proc/{pid}/status")
        wait_until(lambda: tracer in status.read_text() or self._strace.poll() is not None, "strace looks on", SLOW_S)
        if self._strace.poll() is not None:
            said = self._words.read_text().strip()
            if "Operation not permitted" in said:
                pytest.skip(f"ptrace is forbidden here: {said}")
            raise AssertionError(f"strace ended: {said}")

    def stop(self):
        """Each call as strace writes it: "close(11) = 0"."""
        self._strace.send_signal(signal.SIGINT)
        self._strace.wait(SLOW_S)
        return [line for line in self._lines.read_text(errors="replace").splitlines() if re.match(r"\w+\(", line)]


def names_of(lines):
    return [line.partition("(")[0] for line in lines]


def split_before(lines, pattern):
    """Each piece begins with a line that has the pattern; what stands before the first is left out."""
    pieces = []
    for line in lines:
        if re.search(pattern, line):
            pieces.append([])
        if pieces:
            pieces[-1].append(line)
    return pieces


# What a function of ours asks for memory by, and what libraries do.
OURS = ("xmalloc", "xcalloc", "xrealloc", "xstrdup")
ALLOCATE = ("malloc", "calloc", "realloc")
OF_LIBCURL = ("wiping_malloc", "wiping_calloc", "wiping_realloc", "wiping_strdup")
OF_OPENSSL = ("CRYPTO_malloc", "CRYPTO_realloc")


class Profile:
    """One file of callgrind's: of one run of a function, and of all that it calls."""

    def __init__(self, text):
        self.instructions = int(re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)[1])
        self._calls = {}  # (caller, callee): how often
        names, caller, callee = {}, None, None
        for kind, number, name, count in re.findall(
            r"^(?:(c?fn)=\((\d+)\)(?: (.+))?|calls=(\d+) .*)$", text, re.MULTILINE
        ):
            if name:
                names[number] = name
            if kind == "fn":
                caller = names[number]
            elif kind == "cfn":
                callee = names[number]
            else:
                self._calls[caller, callee] = self._calls.get((caller, callee), 0) + int(count)

    def callers(self, callees):
        """Who called one of these, and how often."""
        found = {}
        for (caller, callee), count in self._calls.items():
            if callee in callees and count > 0:
                found[caller] = found.get(caller, 0) + count
        return found

    def allocations(self):
        """Of libcurl, and of OpenSSL; and what else there was, by the function that asked."""
        asked = self.callers(ALLOCATE)
        libcurl = sum(count for caller, count in asked.items() if caller in OF_LIBCURL)
        openssl = sum(count for caller, count in asked.items() if caller in OF_OPENSSL)
        theirs = (*OURS, *OF_LIBCURL, *OF_OPENSSL, *ALLOCATE)  # realloc calls malloc
        others = {caller: count for caller, count in asked.items() if caller not in theirs}
        return libcurl, openssl, others | self.callers(OURS)


class ProfiledGateway(BareGateway):
    """Under callgrind, which writes a file for each request."""

    def _confinement(self):
        return []  # callgrind's own system calls are not a unit's

    def _router_command(self):
        return [
            "valgrind",
            "--quiet",
            "--tool=callgrind",
            "--collect-atstart=no",
            "--toggle-collect=edge_serve",
            "--dump-after=edge_serve",
            f"--callgrind-out-file={self.folder}/callgrind.%p",
            *super()._router_command(),
        ]

    def start(self):
        self.start_router()
        wait_until(self._answers, "the bare socket answers", SLOW_S)

    def stop_programs(self):
        if self.router is not None:
            self.router.stop(SLOW_S)

    def profiles(self, pid):
        """Those of a worker's requests so far, the oldest first."""
        paths = sorted(self.folder.glob(f"callgrind.{pid}.*"), key=lambda path: int(path.suffix[1:]))
        texts = [path.read_text() for path in paths]
        return [Profile(text) for text in texts if re.search("^totals: ", text, re.MULTILINE)]

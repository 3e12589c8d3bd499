"""A gateway whose program can be replaced while it runs."""

import fcntl
import functools
import os
import signal
import struct
from pathlib import Path

import chat
from gateway import Gateway
from processes import count_descriptors, program, wait_until

VERSION = b"0.1.0\0"


OTHER_LAYOUT = "other-layout/llm-router"  # whose processes share other things: make other-layout


def build(path, version, of="llm-router"):
    """llm-router as of another version: the same program that calls itself so, or one of another layout."""
    text = Path(program(of)).read_bytes()
    assert VERSION in text and len(version) == len(VERSION) - 1
    put(path, text.replace(VERSION, version.encode() + b"\0"))


def put(path, text):
    """Replaces a program that may be running."""
    fresh = path.with_suffix(".fresh")
    fresh.write_bytes(text)
    fresh.chmod(0o755)
    fresh.replace(path)


def begin_streams(gateway, n):
    """Of the model "slow", until each has begun."""
    calls = [gateway.begin("slow", stream=True) for _ in range(n)]
    for call in calls:
        call.read_until("content")
    return calls


def expect_whole(calls):
    for call in calls:
        reply = call.reply()
        assert reply.is_whole and reply.body.endswith(chat.DONE.encode())


class UpgradableGateway(Gateway):
    def __init__(self, *arguments, flags=(), **options):
        """Drains for as long as it does by default, also where bin-path.conf says less."""
        super().__init__(*arguments, flags=["--drain-timeout-ms", "600000", *flags], **options)

    @functools.cached_property
    def program(self):
        path = self.folder / "llm-router"
        build(path, "0.1.0")
        return path

    def upgrade(self, version, timeout=60.0, of="llm-router"):
        """To this version, until it is in charge and no worker of the one before takes requests."""
        before = self.workers()
        build(self.program, version, of)
        self.signal_upgrade()
        told = f"this is version {version};"
        wait_until(lambda: self.log_lines("upgraded")[-1:] and told in self.log_lines("upgraded")[-1]["message"],
                   f"version {version} is in charge", timeout)  # fmt: skip
        idle = lambda: {w["pid"] for w in self.status()["workers"] if w["stage"] == "idle"}  # noqa: E731
        is_somebody_idle = "ondemand" not in self._flags
        wait_until(
            lambda: not (now := idle()) & before and (now or not is_somebody_idle),
            "the old workers take no requests",
            timeout,
        )
        return before

    def signal_upgrade(self):
        self.router.signal(signal.SIGUSR2)

    def wait_refused(self, n=1):
        wait_until(lambda: len(self.log_lines("upgrade_refused")) >= n, "the upgrade is refused", 30)
        return self.log_lines("upgrade_refused")[-1]["message"]

    def expect_collected(self):
        """Who has ended is no zombie for long, and nobody has died."""
        wait_until(lambda: not self.router.zombies(), "those that have ended are collected")
        assert self.log_lines("child_died") == []

    def descriptors(self):
        return count_descriptors(self.router.pid)

    def holder_of_lock(self):
        """The process that holds the lock of the pid file; 0: none does."""
        # struct flock of Linux on 64 bits: type, whence, start, len, pid
        question = struct.pack("hhqqixxxx", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        with open(self.run_dir / "llm-router.pid", "rb+") as file:
            kind, _, _, _, pid = struct.unpack("hhqqixxxx", fcntl.fcntl(file, fcntl.F_GETLK, question))
        return 0 if kind == fcntl.F_UNLCK else pid

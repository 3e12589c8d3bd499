"""What the systemd units promise, shown without systemd: the protocol of readiness and watchdog, and
the filter of system calls."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

import chat
from confine import allowed_calls, settings
from processes import BUILD, ROOT, is_sanitized, wait_until
from scripts import answer, data, end, head, pause
from tree import Tree, hostile, model
from upgradable import UpgradableGateway, put

FOLDER = ROOT / "lighttpd"
UNITS = ["llm-router.service", "llm-router.socket", "llm-router-admin.service", "llm-router-admin.socket"]


def tree():
    return Tree(model("m", hostile("a", "k1")), model("slow", hostile("b", "k2")))


class Supervisor:
    """Hears what a service says, all the time: the kernel keeps ten messages for who does not, and loses the next."""

    def __init__(self, path):
        self.path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(self.path)
        self._socket.settimeout(0.05)
        self._heard = []
        self._pauses = 0  # without a message
        self._is_over = False
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self):
        while not self._is_over:
            try:
                self._heard.append(self._socket.recv(4096).decode())
            except TimeoutError:
                self._pauses += 1

    def hear(self):
        """Everything so far, when nothing more is on its way."""
        before = self._pauses
        wait_until(lambda: self._pauses > before, "it is silent for a moment")
        return list(self._heard)

    def said(self, begin):
        return [text for text in self.hear() if text.startswith(begin)]

    def close(self):
        self._is_over = True
        self._thread.join()
        self._socket.close()


@pytest.fixture
def supervisor(tmp_path):
    supervisor = Supervisor(tmp_path / "notify")
    yield supervisor
    supervisor.close()


@pytest.fixture
def gateway(start_gateway, supervisor):
    environment = {"NOTIFY_SOCKET": supervisor.path, "WATCHDOG_USEC": "600000"}
    gateway = start_gateway(tree(), kind=UpgradableGateway, workers=2, router_environment=environment)
    gateway.script("m", "k1", answer(200, chat.completion()))
    return gateway


def states(supervisor):
    """What was said, but for the watchdog's."""
    return [text.split("\n")[0] for text in supervisor.hear() if not text.startswith("WATCHDOG")]


# Readiness


def test_a_supervisor_is_told_when_it_serves_reloads_and_stops(gateway, supervisor):
    # `use` has sent SIGHUP
    wait_until(lambda: states(supervisor) == ["READY=1", "RELOADING=1", "READY=1"], "it is told of the reload")
    reloads = supervisor.said("RELOADING=1")
    assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", reloads[0])
    gateway.router.stop()
    assert states(supervisor)[-1] == "STOPPING=1"


def test_a_supervisor_is_told_of_an_upgrade_and_of_one_that_is_refused(gateway, supervisor):
    wait_until(lambda: states(supervisor)[2:] == ["READY=1"], "the reload of `use` is over")
    gateway.upgrade("0.1.1")
    wait_until(lambda: states(supervisor)[3:] == ["RELOADING=1", "READY=1"], "it is told of the upgrade", 30)
    put(gateway.program, b"#!/bin/sh\nexit 3\n")
    gateway.signal_upgrade()
    gateway.wait_refused()
    wait_until(lambda: states(supervisor)[5:] == ["RELOADING=1", "READY=1"], "it is told of the refusal", 30)
    assert gateway.chat("m").status == 200


def begin_reload_that_nobody_follows(gateway, supervisor):
    """The keeper, which stands still."""
    wait_until(lambda: states(supervisor)[2:] == ["READY=1"], "the reload of `use` is over")
    keeper = gateway.process_of("keeper")
    os.kill(keeper, signal.SIGSTOP)
    gateway.write_entry("DEFAULT_CHAT_MODEL", json.dumps("m"))
    gateway.reload()
    wait_until(lambda: states(supervisor)[3:] == ["RELOADING=1"], "it is told that the reload has begun")
    return keeper


def test_a_supervisor_hears_that_a_reload_is_over_when_the_change_is_in_force(gateway, supervisor):
    assert gateway.chat("auto").status == 503, "there is no default model yet"
    keeper = begin_reload_that_nobody_follows(gateway, supervisor)
    time.sleep(1)
    assert states(supervisor)[4:] == []
    os.kill(keeper, signal.SIGCONT)
    wait_until(lambda: states(supervisor)[4:] == ["READY=1"], "it is told that the reload is over")
    assert gateway.chat("auto").status == 200
    assert not gateway.log_lines("reload_late")


def test_a_keeper_that_stands_still_holds_no_supervisor_up(gateway, supervisor):
    begun = time.monotonic()
    keeper = begin_reload_that_nobody_follows(gateway, supervisor)
    wait_until(lambda: states(supervisor)[4:] == ["READY=1"], "it is not waited for any more", 30)
    assert time.monotonic() - begun >= 5
    assert len(gateway.log_lines("reload_late")) == 1
    os.kill(keeper, signal.SIGCONT)
    wait_until(lambda: gateway.chat("auto").status == 200, "the change is in force all the same")


def test_a_keeper_that_is_replaced_meanwhile_has_followed(gateway, supervisor):
    keeper = begin_reload_that_nobody_follows(gateway, supervisor)
    os.kill(keeper, signal.SIGKILL)
    wait_until(lambda: states(supervisor)[4:] == ["READY=1"], "it is told that the reload is over", 30)
    assert gateway.chat("auto").status == 200
    assert not gateway.log_lines("reload_late")


def test_it_is_not_ready_before_a_worker_serves(start_gateway, supervisor):
    environment = {"NOTIFY_SOCKET": supervisor.path}
    gateway = start_gateway(workers=1, router_environment=environment)
    gateway.router.stop()
    begun = len(supervisor.hear())
    gateway.start_router()
    wait_until(lambda: supervisor.hear()[begun:] == ["READY=1"], "it is ready")
    assert gateway.get("/status", key=None).json()["workersAlive"] == 1


# The watchdog


def test_the_watchdog_is_fed_also_after_an_upgrade(gateway, supervisor):
    for version in ("0.1.1", "0.1.0"):
        gateway.upgrade(version)
        before = len(supervisor.said("WATCHDOG=1"))
        time.sleep(2)
        assert len(supervisor.said("WATCHDOG=1")) >= before + 3, "every 300 ms"


def test_a_master_that_stands_still_does_not_feed_it(gateway, supervisor):
    gateway.router.signal(signal.SIGSTOP)
    supervisor.hear()
    time.sleep(0.2)
    before = len(supervisor.said("WATCHDOG=1"))
    time.sleep(1.5)
    assert len(supervisor.said("WATCHDOG=1")) == before
    gateway.router.signal(signal.SIGCONT)
    wait_until(lambda: len(supervisor.said("WATCHDOG=1")) > before, "it is fed again")


# Units


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_understands_the_units(tmp_path):
    for name in UNITS:
        text = (FOLDER / name).read_text()
        (tmp_path / name).write_text(text.replace("/usr/local/sbin/", f"{BUILD}/"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / name) for name in UNITS)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    said = [line for line in (done.stdout + done.stderr).splitlines() if str(tmp_path) in line or "llm-router" in line]
    assert done.returncode == 0 and said == [], done.stdout + done.stderr


def test_both_services_are_confined_alike():
    about = {"SystemCallFilter", "RestrictAddressFamilies", "NoNewPrivileges", "ProtectSystem", "PrivateTmp",
             "CapabilityBoundingSet", "MemoryDenyWriteExecute", "RestrictNamespaces", "KillMode", "Type", "User",
             "RuntimeDirectoryPreserve"}  # fmt: skip
    services = [[row for row in settings(FOLDER / name) if row[0] in about] for name in UNITS if ".service" in name]
    assert services[0] == services[1]
    assert {name for name, _ in services[0]} == about


# The filter


needs_filter = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None or is_sanitized(),
    reason="systemd-analyze knows the sets of calls; a sanitizer has calls of its own",
)


@needs_filter
def test_the_filter_refuses_what_no_service_needs():
    allowed = allowed_calls(FOLDER / "llm-router.service")
    assert not allowed & {"mount", "ptrace", "bpf", "reboot", "init_module", "kexec_load", "setuid", "chroot"}
    confine = [sys.executable, str(ROOT / "tests/integration/confine.py"), str(FOLDER / "llm-router.service")]
    for program in (["/usr/sbin/chroot", "/", "/bin/true"], ["/usr/bin/unshare", "-n", "/bin/true"]):
        done = subprocess.run([*confine, *program], capture_output=True, timeout=60, check=False)
        assert done.returncode == -signal.SIGSYS, program


@needs_filter
def test_a_representative_part_of_the_tests_passes_under_the_filter():
    """Whoever needs a call that the unit refuses would be killed."""
    files = [f"test_{name}.py" for name in ("fallback", "edge", "tls", "body_memory", "spool", "voices")]
    command = [sys.executable, "-m", "pytest", "-c", "pytest.ini", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(
        command, cwd=ROOT / "tests/integration", env=os.environ | {"CONFINED": "1"}, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]


@needs_filter
def test_an_upgrade_works_under_the_filter(start_gateway, monkeypatch):
    monkeypatch.setenv("CONFINED", "1")
    gateway = start_gateway(tree(), kind=UpgradableGateway, workers=2)
    words = [step for n in range(8) for step in (data(chat.chunk({"content": f"w{n} "})), pause(0.2))]
    gateway.script("slow", "k2", [head(), *words, data(chat.FINISH), data(chat.DONE), end()])
    call = gateway.begin("slow", stream=True)
    call.read_until("w1")
    before = gateway.upgrade("0.1.1")
    reply = call.reply()
    assert reply.is_whole and reply.body.endswith(chat.DONE.encode())
    wait_until(lambda: not gateway.workers() & before, "the old ones have ended", 30)
    killed = gateway.workers().pop()
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: len(gateway.workers() - {killed}) == 2, "it is replaced")
    with open(f"/proc/{gateway.router.pid}/status", encoding="ascii") as file:
        assert "Seccomp:\t2" in file.read(), "the filter is in force"

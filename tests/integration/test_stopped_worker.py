"""A worker that is stopped at the worst moment, with a lock that all want, holds up nobody but its own caller."""

import os
import signal
from pathlib import Path

import pytest

import chat
from preloaded import preload
from processes import wait_until
from scripts import answer
from test_limits import new_caller
from tree import Tree, hostile, model

WORKERS = 4
CALLS = 6
UNCOUNTED = "airi_gen_ai_gateway_limits_uncounted_total"

TREE = Tree(model("m", hostile("a", "k")), model("slots", hostile("a", "k", maxConcurrency=2)))


@pytest.fixture
def armed(tmp_path):
    """The file that arms it."""
    return tmp_path / "armed"


@pytest.fixture
def gateway(start_gateway, tmp_path, armed):
    environment = preload("stopping_lock", tmp_path) | {"STOPPING_LOCK": str(armed)}
    flags = ["--queue-timeout-ms", "30000"]
    gateway = start_gateway(TREE, workers=WORKERS, router_environment=environment, flags=flags)
    for name in ("m", "slots"):
        gateway.script(name, "k", answer(200, chat.completion()))
    yield gateway
    for pid in stopped(gateway):
        os.kill(pid, signal.SIGCONT)


def stopped(gateway):
    """Its workers that are."""
    def state(pid):
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2][0]

    return [pid for pid in gateway.workers() if state(pid) == "T"]


def stop_one(gateway, armed, name, **options):
    """A call whose worker is stopped with a lock, and that worker."""
    armed.touch()
    call = gateway.begin(name, **options)
    [pid] = wait_until(lambda: stopped(gateway), "a worker is stopped with a lock", 30)
    assert not armed.exists()
    return call, pid


def test_callers_whose_minutes_it_keeps_are_served_and_counted_again_afterwards(gateway, armed):
    key = new_caller(gateway, requests_per_minute=3)
    assert gateway.chat("m", key=key).status == 200
    before = gateway.metric(UNCOUNTED)
    call, pid = stop_one(gateway, armed, "m", key=key)
    assert [gateway.chat("m", key=key).status for _ in range(CALLS)] == [200] * CALLS
    assert stopped(gateway) == [pid]
    wait_until(lambda: gateway.metric(UNCOUNTED) == before + CALLS, "they are told as not counted")
    os.kill(pid, signal.SIGCONT)
    assert call.reply().status == 200
    assert [gateway.chat("m", key=key).status for _ in range(2)] == [200, 429]
    assert gateway.metric(UNCOUNTED) == before + CALLS


def test_slots_are_given_out_meanwhile_and_none_is_lost(gateway, armed):
    call, pid = stop_one(gateway, armed, "slots")
    assert [gateway.chat("slots").status for _ in range(CALLS)] == [200] * CALLS
    assert stopped(gateway) == [pid]
    os.kill(pid, signal.SIGCONT)
    assert call.reply().status == 200
    assert [gateway.chat("slots").status for _ in range(CALLS)] == [200] * CALLS


def test_one_that_is_killed_then_hands_the_lock_on(gateway, armed):
    key = new_caller(gateway, requests_per_minute=2)
    call, pid = stop_one(gateway, armed, "m", key=key)
    assert gateway.chat("m", key=key).status == 200
    os.kill(pid, signal.SIGKILL)
    assert call.reply().status >= 500
    assert [gateway.chat("m", key=key).status for _ in range(3)] == [200, 200, 429]

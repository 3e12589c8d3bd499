"""How many workers there are: --pm."""

import os
import signal
import time

import pytest

import chat
from load import Ask, Front, closed_loop
from processes import wait_until
from scripts import answer, data, hang, head, pause
from tree import Tree, hostile, model
from upgradable import UpgradableGateway

SLACK_S = 2.0


def tree():
    return Tree(model("m", hostile("a", "k1")), model("held", hostile("b", "k2")))


@pytest.fixture
def start(start_gateway):
    def start(*flags, **options):
        gateway = start_gateway(tree(), flags=flags, **options)
        gateway.script("m", "k1", [pause(0.05), *answer(200, chat.completion())])
        gateway.script("held", "k2", [head(), data(chat.HELLO), hang()])
        return gateway

    return start


def hold(gateway, n):
    """So many workers that have a stream in hand."""
    calls = [gateway.begin("held", stream=True) for _ in range(n)]
    for call in calls:
        call.read_until("Hello")
    return calls


def burst(gateway, callers, count):
    outcomes, _ = closed_loop(
        Front(gateway.caller_key, port=gateway.port), [Ask("plain", "m")], callers, count=count
    ).result(90)
    return [outcome for outcome in outcomes if not outcome.is_served]


def test_on_demand_there_are_none_until_somebody_comes_and_none_long_after(start):
    gateway = start("--pm", "ondemand", "--idle-timeout-ms", "500", workers=8)
    wait_until(lambda: gateway.workers() == set(), "those that put the tree in force have left", 20)
    assert sorted(gateway.router.roles().values()) == ["keeper", "overflow", "shipper"]
    assert gateway.get("/readyz", key=None).json()["checks"]["workers"] == "ok", "they rest"
    begun = time.monotonic()
    assert gateway.chat("m").status == 200
    assert time.monotonic() - begun < SLACK_S, "the first one waits for a worker's start, and no longer"
    assert len(gateway.workers()) == 1
    wait_until(lambda: gateway.workers() == set(), "it has left", 20)
    assert gateway.log_lines("child_died") == []


def test_on_demand_a_burst_is_served_and_there_are_never_too_many(start):
    gateway = start("--pm", "ondemand", "--max-workers", "6", "--queue-timeout-ms", "20000")
    assert burst(gateway, 12, 120) == []
    assert 1 <= len(gateway.workers()) <= 6


def test_on_demand_a_worker_with_a_request_in_hand_is_not_idle(start):
    gateway = start("--pm", "ondemand", "--idle-timeout-ms", "300", workers=4)
    calls = hold(gateway, 2)
    wait_until(lambda: len(gateway.workers()) == 2, "the idle ones have left", 20)
    time.sleep(2.5)  # two more would have left
    assert len(gateway.workers()) == 2
    for call in calls:
        call.close()


def test_some_are_always_idle_and_not_many(start):
    gateway = start("--pm", "dynamic", "--min-spare-workers", "2", "--max-spare-workers", "3", workers=12)
    wait_until(lambda: 2 <= len(gateway.workers()) <= 3, "the spare ones are there", 30)
    calls = hold(gateway, 5)
    wait_until(lambda: 7 <= len(gateway.workers()) <= 8, "and beside those that are busy", 30)
    before = gateway.workers()
    for call in calls:
        call.close()
    wait_until(lambda: len(gateway.workers()) == 3, "they leave again", 30)
    assert gateway.workers() <= before, "and no other was begun for that"
    assert gateway.log_lines("child_died") == []


def test_a_burst_is_served_also_by_those_that_are_not_there_yet(start):
    gateway = start("--pm", "dynamic", "--queue-timeout-ms", "20000", workers=16)
    wait_until(lambda: len(gateway.workers()) <= 4, "there are few", 40)
    assert burst(gateway, 24, 200) == []
    assert len(gateway.workers()) <= 16


def test_those_that_leave_refuse_nobody(start):
    """Workers come and go all the time, under callers."""
    gateway = start("--pm", "ondemand", "--idle-timeout-ms", "0", "--queue-timeout-ms", "20000", workers=4)
    end = time.monotonic() + 5
    while time.monotonic() < end:
        assert burst(gateway, 3, 12) == []


def test_workers_that_die_young_are_begun_with_growing_delays_on_demand_too(start):
    gateway = start("--pm", "ondemand", "--idle-timeout-ms", "60000", "--max-workers", "1")
    time.sleep(1.1)
    for _ in range(4):
        pid = wait_until(gateway.workers, "there is a worker").pop()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda gone=pid: gone not in gateway.workers(), "it is gone")
        begun = time.monotonic()
        assert gateway.chat("m").status in (200, 503)
        took = time.monotonic() - begun
    assert took >= 0.25, f"the fourth came after {took:.3f} s"


@pytest.mark.parametrize("pm", ["dynamic", "ondemand"])
def test_an_upgrade_keeps_the_kind_of_pool(start, pm):
    gateway = start("--pm", pm, "--queue-timeout-ms", "20000", workers=6, kind=UpgradableGateway)
    calls = hold(gateway, 2)
    before = gateway.workers()
    gateway.upgrade("0.1.1")
    assert burst(gateway, 6, 30) == []
    assert len(gateway.workers() - before) <= 6
    for call in calls:
        call.close()
    wait_until(lambda: not gateway.workers() & before, "the old ones have left", 30)


@pytest.mark.parametrize(
    "flags",
    [
        ["--pm", "elastic"],
        ["--max-workers", "4"],
        ["--pm", "dynamic", "--min-spare-workers", "5", "--max-spare-workers", "4"],
        ["--pm", "dynamic", "--max-spare-workers", "5", "--max-workers", "4"],
        ["--pm", "ondemand", "--idle-timeout-ms", "-1"],
    ],
)
def test_a_pool_that_cannot_be_is_refused(start_gateway, flags):
    gateway = start_gateway(tree(), workers=1)
    gateway.router.stop()
    gateway._flags = flags
    gateway.start_router()
    assert gateway.router.wait(5) == 2
    assert flags[-2] in gateway.router.log_text()

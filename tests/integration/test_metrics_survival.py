"""The counts outlive every process but the master, and agree with the spool and with what callers saw."""

import os
import random
import signal
import threading
import time
from collections import Counter

import pytest

import chat
from load import Ask, Front, closed_loop
from metrics import COUNTED, Q, by_status, moved, series, total
from processes import wait_until
from scripts import answer, data, end, head, pause
from spool import Spool
from tree import Tree, hostile, model

KILLS = 100
REQUESTS = 400
WORKERS = 32
CALLERS = 12
TIMES = (f"{Q}queue_duration_seconds_count", f"{Q}overhead_duration_seconds_sum")

SLOW = [pause(0.15), *answer(200, chat.completion())]
WORDS = [step for n in range(5) for step in (data(chat.chunk({"content": f"w{n} "})), pause(0.03))]
STREAM = [head(), *WORDS, data(chat.FINISH), data(chat.DONE), end()]


def tree():
    return Tree(
        model("plain", hostile("a", "k1")),
        model("streamed", hostile("a", "k1")),
        model("falls-back", hostile("a", "k1", "k2")),
        model("exhausted", hostile("a", "k1")),
    )


def start(start_gateway, **options):
    gateway = start_gateway(tree(), **options)
    gateway.script("plain", "k1", SLOW)
    gateway.script("streamed", "k1", STREAM)
    gateway.script("falls-back", "k1", answer(429, "{}"))
    gateway.script("falls-back", "k2", SLOW)
    gateway.script("exhausted", "k1", answer(401, "{}"))
    return gateway


def kill(gateway, pid):
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: pid not in gateway.router.roles(), "it is gone")


@pytest.mark.parametrize("role", ["worker", "keeper", "overflow"])
def test_the_counts_outlive_a_process_that_is_killed(start_gateway, role):
    gateway = start(start_gateway, workers=2)
    for name in ("plain", "falls-back", "exhausted", "no-such-model"):
        gateway.chat(name)
    before = gateway.metrics()
    assert total(before, f"{Q}requests_total") > 4
    old = gateway.process_of(role)
    kill(gateway, old)
    wait_until(lambda: role in gateway.router.roles().values(), "another is there")
    if role == "worker":
        wait_until(lambda: gateway.metric(f"{Q}worker_deaths_total") == 1, "the death is counted")
    gateway.use(tree())  # through the keeper, whichever it is
    gateway.chat("plain")
    after = gateway.metrics()
    lost = {one for one in before if name_is_counted(one) and after.get(one, -1) < before[one]}
    assert not lost, lost
    assert after[series(f"{Q}requests_total", surface="chat", model="plain", status_code="200")] == 2
    assert after["process_start_time_seconds"] == before["process_start_time_seconds"]
    assert_every_connection_is_accounted_for(gateway)


def name_is_counted(one):
    return one.partition("{")[0] in (*COUNTED, *TIMES, f"{Q}config_reload_total", f"{Q}connections_accepted_total")


def assert_every_connection_is_accounted_for(gateway):
    """Each that was accepted is in the histogram of waiting, once, a tick later."""

    def is_accounted_for():
        metrics = gateway.metrics()
        return metrics[f"{Q}queue_duration_seconds_count"] == metrics[f"{Q}connections_accepted_total"]

    wait_until(is_accounted_for, "every connection is accounted for, and none twice")


def test_the_waiting_of_those_who_wait_is_measured(start_gateway):
    gateway = start(start_gateway, workers=1, flags=["--queue-timeout-ms", "10000"])
    wait_until(lambda: gateway.metric(series(f"{Q}workers", state="idle")) == 1, "the worker is free")
    before = gateway.metrics()
    outcomes, _ = closed_loop(Front(gateway.caller_key, port=gateway.port), [Ask("plain", "plain")], 4, count=12).result(60)
    assert [outcome.status for outcome in outcomes] == [200] * 12
    assert_every_connection_is_accounted_for(gateway)
    after = gateway.metrics()
    waited = after[f"{Q}queue_duration_seconds_sum"] - before[f"{Q}queue_duration_seconds_sum"]
    # Three wait at any time, for 150 ms each; at the beginning and the end fewer.
    assert waited > 12 * 0.15 * 1.5, waited
    assert waited < sum(outcome.took_s for outcome in outcomes)


def test_our_own_time_is_more_than_none_and_less_than_all(start_gateway):
    gateway = start(start_gateway, workers=2)
    before = gateway.metrics()
    begun = time.monotonic()
    for name in ("plain", "streamed", "falls-back", "exhausted"):
        gateway.chat(name, stream=name == "streamed")
    took_s = time.monotonic() - begun
    spent = moved(before, gateway.metrics(), [f"{Q}overhead_duration_seconds_sum"])
    ours = spent[series(f"{Q}overhead_duration_seconds_sum", surface="chat")]
    events = [gateway.spool.events_that(model=name)[-1] for name in ("plain", "streamed", "falls-back", "exhausted")]
    assert ours == pytest.approx(sum(event["overhead_us"] for event in events) / 1e6)
    assert 0 < ours < took_s - 2 * 0.15, "the upstreams' 0.3 s and more are no time of ours"


class Murderer(threading.Thread):
    """Kills workers, whatever they do, until it has killed enough."""

    def __init__(self, gateway):
        super().__init__()
        self.gateway = gateway
        self._pids = set()

    @property
    def killed(self):
        return len(self._pids)

    def run(self):
        while self.killed < KILLS:
            there = sorted(self.gateway.workers() - self._pids)  # who was killed may live on for a moment, and dies once
            for pid in random.sample(there, min(3, len(there))):
                try:
                    os.kill(pid, signal.SIGKILL)
                    self._pids.add(pid)
                except ProcessLookupError:
                    pass  # it was about to end anyway
                time.sleep(random.uniform(0, 0.04))
            time.sleep(0.001)


def test_requests_sent_are_counted_and_logged_per_status_while_workers_are_killed(start_gateway):
    gateway = start(start_gateway, workers=WORKERS, flags=["--queue-timeout-ms", "20000"])
    before = gateway.metrics()
    spooled = len(events_of(gateway))
    # At the socket itself: a web server may try a connection again that broke.
    front = Front(gateway.caller_key, socket=gateway.socket)
    asks = [Ask("plain", "plain", weight=2), Ask("streamed", "streamed", stream=True, weight=2),
            Ask("falls back", "falls-back"), Ask("exhausted", "exhausted"), Ask("unknown", "no-such-model")]
    murderer = Murderer(gateway)
    load = closed_loop(front, asks, CALLERS, count=REQUESTS)
    murderer.start()
    outcomes, _ = load.result(120)
    murderer.join(60)
    assert murderer.killed >= KILLS and len(outcomes) == REQUESTS
    wait_until(lambda: gateway.metric(f"{Q}worker_deaths_total") == murderer.killed, "every death is counted", 30)

    events = events_of(gateway)[spooled:]
    ids = Counter(event["id"] for event in events)
    assert max(ids.values()) == 1, [event for event in events if ids[event["id"]] > 1]
    after = gateway.metrics()
    counted = by_status({one: after[one] - before.get(one, 0) for one in after})
    logged = Counter(str(event.get("status", "none")) for event in events)
    cut = [outcome for outcome in outcomes if outcome.status is None]
    hung = [outcome for outcome in outcomes if "no answer" in outcome.trouble]
    assert not hung, hung
    print(f"{murderer.killed} workers killed; counted {counted}, logged {dict(logged)}, {len(cut)} without an answer")
    assert counted == logged
    assert sum(counted.values()) == REQUESTS
    # A request whose caller has its whole answer is counted with that status; one that was cut died.
    known = {event["request_id"]: event for event in events if event.get("request_id")}
    for outcome in outcomes:
        event = known.get(outcome.request_id)
        if outcome.reply is not None and outcome.reply.is_whole:
            assert event is not None and event["status"] == outcome.status, (outcome, event)
    nameless = sum(1 for event in events if not event.get("request_id"))  # died before it was read
    assert sum(1 for outcome in outcomes if outcome.request_id not in known) == nameless
    assert sum(1 for event in events if event["end"] == "worker_died") <= murderer.killed
    assert_every_connection_is_accounted_for(gateway)
    assert len(counted) >= 4, "too little happened for this to show anything"


def events_of(gateway):
    """All of them, in the spool's order."""
    lines = gateway.spool.read_bytes().split(b"\n")
    return [event for event in map(Spool._parse, lines) if event is not None]

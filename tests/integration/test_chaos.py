"""Processes that are killed, stopped and made to crash under load. What is lost is
the killed worker's own request, and it is told of; nothing else happens."""

import contextlib
import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

import chat
from fastcgi import FastCgiCall, parse_reply, request_params
from load import Ask, Front, closed_loop, open_loop
from processes import BROKEN, CAN_LOOK_INSIDE, CAN_MEASURE_MEMORY, asan_options, count_descriptors, wait_until
from scripts import answer, data, end, head, hang, pause
from tree import Tree, hostile, model

SECONDS = float(os.environ.get("CHAOS_SECONDS", "120"))
REQUESTS = 10_000
WORKERS = 8
PER_SECOND = 30
STEADY_S = 0.25  # between two attacks, on average

WORDS = [step for n in range(5) for step in (data(chat.chunk({"content": f"w{n} "})), pause(0.02))]
ASKS = [
    Ask("plain", "plain", weight=4),
    Ask("streamed", "streamed", stream=True, weight=4),
    Ask("large", "plain", body_bytes=100_000),
]


def tree():
    return Tree(
        model("plain", hostile("a", "k1")), model("streamed", hostile("a", "k1")), model("held", hostile("a", "k1"))
    )


def start(start_gateway, **options):
    # A SIGSEGV of ours is not to be explained.
    gateway = start_gateway(tree(), workers=WORKERS, router_environment=asan_options("handle_segv=0"), **options)
    gateway.script("plain", "k1", [pause(0.1), *answer(200, chat.completion())])
    gateway.script("streamed", "k1", [head(), *WORDS, data(chat.FINISH), data(chat.DONE), end()])
    gateway.script("held", "k1", [hang()])
    return gateway


def kill(pid):
    os.kill(pid, signal.SIGKILL)


def crash(pid):
    os.kill(pid, signal.SIGSEGV)


def stop_for_a_while(pid):
    os.kill(pid, signal.SIGSTOP)
    time.sleep(random.uniform(0.05, 0.8))
    os.kill(pid, signal.SIGCONT)


ATTACKS = {"SIGKILL": kill, "SIGSEGV": crash, "SIGSTOP": stop_for_a_while}
VICTIMS = ["worker", "worker", "worker", "keeper", "overflow", "shipper"]


def attack_while(load, gateway):
    """Counts of (attack, role)."""
    done = Counter()
    while load.is_running():
        role, (name, attack) = random.choice(VICTIMS), random.choice(list(ATTACKS.items()))
        there = [pid for pid, of in gateway.router.roles().items() if of == role]
        if there:
            try:
                attack(random.choice(there))
                done[name, role] += 1
            except ProcessLookupError:
                pass  # it was about to end anyway
        time.sleep(random.uniform(0, 2 * STEADY_S))
    return done


def at_rest(gateway):
    """What there is of everything that could leak, while nobody asks for anything."""

    def is_idle():
        return gateway.metric('airi_gen_ai_gateway_workers{state="idle"}') == WORKERS and not gateway.router.zombies()

    wait_until(is_idle, "all workers are there, and idle", 15)
    pids = [gateway.router.pid, *gateway.router.roles()]
    roles = {gateway.router.pid: "master"} | gateway.router.roles()
    assert Counter(roles.values()) == {"master": 1, "keeper": 1, "overflow": 1, "shipper": 1, "worker": WORKERS}, roles
    rest = {"files": sorted(path.name for path in gateway.run_dir.iterdir() if not path.name.startswith("snapshot."))}
    if CAN_LOOK_INSIDE:
        rest["descriptors"] = {
            role: max(count_descriptors(pid) for pid in pids if roles[pid] == role) for role in set(roles.values())
        }
    if CAN_MEASURE_MEMORY:
        rest["private_kb"] = {pid: private_kb(pid) for pid in gateway.workers()}
        rest["master_kb"] = private_kb(gateway.router.pid)
    return rest


def private_kb(pid):
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
        if line.startswith("Private_Dirty:"):
            return int(line.split()[1])
    raise AssertionError(f"no Private_Dirty of {pid}")


def assert_back_to_rest(gateway, before):
    after = at_rest(gateway)
    assert after["files"] == before["files"]
    assert gateway.metric("airi_gen_ai_gateway_queue_length") == 0
    if CAN_LOOK_INSIDE:
        for role, count in after["descriptors"].items():
            # A worker keeps one connection to its upstream, and curl a wake-up pair.
            assert count <= before["descriptors"][role] + (4 if role == "worker" else 0), (role, before, after)
    if CAN_MEASURE_MEMORY:
        assert after["master_kb"] < before["master_kb"] + 512, (before, after)


def test_what_is_lost_is_the_killed_workers_own_request_and_is_told_of(start_gateway):
    gateway = start(start_gateway)
    front = Front(gateway.caller_key, port=gateway.port)
    closed_loop(front, ASKS, WORKERS, count=4 * WORKERS).result(60)
    before = at_rest(gateway)
    load = open_loop(front, ASKS, PER_SECOND, SECONDS)
    done = attack_while(load, gateway)
    outcomes, _ = load.result(60)
    assert sum(done.values()) > SECONDS / 4, f"too few to show anything: {done}"

    lost = [outcome for outcome in outcomes if not outcome.is_served and not outcome.is_shed]
    shed = sum(1 for outcome in outcomes if outcome.is_shed)
    print(f"{len(outcomes)} requests, {shed} shed, {len(lost)} lost; attacks: {dict(done)}")
    deaths = gateway.spool.events_that(end="worker_died")
    told = {event["request_id"] for event in deaths if event.get("request_id")}
    untold = [outcome for outcome in lost if outcome.request_id not in told]
    nameless = sum(1 for event in deaths if not event.get("request_id"))  # died before it had read the request
    assert len(untold) <= nameless, f"{len(untold)} of {len(lost)} were lost without an event: {untold[:5]} {done}"
    workers_ended = sum(n for (name, role), n in done.items() if role == "worker" and name != "SIGSTOP")
    assert len(lost) <= workers_ended, f"{len(lost)} were lost with {workers_ended} workers: {lost[:5]}"
    hung = [outcome for outcome in outcomes if "no answer" in outcome.trouble]
    assert not hung, hung
    for outcome in outcomes:
        if outcome.is_served or outcome.is_shed:
            ends = gateway.spool.ends_of(outcome.request_id)
            assert ("done" if outcome.is_served else "overflow") in ends, (outcome, ends)
    assert_back_to_rest(gateway, before)
    text = gateway.router.new_log_text()
    assert not [word for word in BROKEN if word in text], text
    assert gateway.metric("airi_gen_ai_gateway_worker_deaths_total") == workers_ended


@pytest.fixture
def on_one_processor():
    """This thread stays on one processor, which it keeps until it waits."""
    everywhere = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(everywhere)})
    yield min(everywhere)
    os.sched_setaffinity(0, everywhere)


@pytest.mark.alone
def test_a_wake_up_that_died_with_a_worker_is_repaired(start_gateway, on_one_processor):
    """A worker is killed between its wake-up and its accept, and its successor is
    not there at once: the other one sleeps beside a waiting connection."""
    gateway = start_gateway(tree(), workers=2)
    gateway.script("plain", "k1", answer(200, chat.completion()))
    for _ in range(20):
        make_successors_late(gateway)
        wait_until(lambda: gateway.metric('airi_gen_ai_gateway_workers{state="idle"}') == 2, "both workers sleep")
        first = min(gateway.workers())  # the kernel wakes in the order in which they began to wait
        os.sched_setaffinity(first, {on_one_processor})
        os.sched_setscheduler(first, os.SCHED_IDLE, os.sched_param(0))  # woken, it runs when we do not
        body = json.dumps(chat.request("plain")).encode()
        begun = time.monotonic()
        call = FastCgiCall(
            gateway.socket, request_params("/v1/chat/completions", len(body), gateway.caller_key)
        )
        os.kill(first, signal.SIGKILL)
        with contextlib.suppress(BrokenPipeError):
            call.send_body(body)
        while call.read_some():
            pass
        if call.received == b"":
            continue  # it was quick, and had the connection before it was killed
        assert parse_reply(call.received).status == 200, call.received
        assert time.monotonic() - begun < 0.5
        if gateway.metric("airi_gen_ai_gateway_wakeups_repaired_total") > 0:
            return
    raise AssertionError("no wake-up was lost in twenty tries: this test shows nothing")


def make_successors_late(gateway):
    """Who dies young is replaced with a delay that doubles: until it is 1.6 s."""
    for _ in range(5):
        doomed = wait_until(
            lambda: gateway.workers() if len(gateway.workers()) == 2 else None, "both workers are there"
        )
        for pid in sorted(doomed):
            kill(pid)
        wait_until(lambda gone=doomed: not gone & gateway.workers(), "both workers are gone")
    wait_until(lambda: len(gateway.workers()) == 2, "both workers are there")


@pytest.mark.parametrize("role", ["keeper", "overflow", "shipper"])
def test_requests_go_on_without_the_other_processes(start_gateway, role):
    gateway = start(start_gateway)
    os.kill(gateway.process_of(role), signal.SIGSTOP)
    try:
        outcomes, _ = closed_loop(Front(gateway.caller_key, port=gateway.port), ASKS, WORKERS, count=50).result(60)
        assert [outcome for outcome in outcomes if not outcome.is_served] == []
    finally:
        os.kill(gateway.process_of(role), signal.SIGCONT)


def test_many_requests_and_departures_leave_nothing_behind(start_gateway):
    gateway = start(start_gateway, flags=["--max-requests", "0"])
    front = Front(gateway.caller_key, port=gateway.port)
    asks = [
        *ASKS,
        Ask("leaves a plain wait", "held", leaves_after_s=0.1, weight=0.5),
        Ask("leaves a stream", "held", stream=True, leaves_after_s=0.1, weight=0.5),
    ]
    gateway.script("plain", "k1", answer(200, chat.completion()))
    closed_loop(front, asks, WORKERS, count=REQUESTS // 4).result(120)
    before, workers = at_rest(gateway), gateway.workers()
    outcomes, _ = closed_loop(front, asks, WORKERS, count=REQUESTS).result(60 + REQUESTS / 20)
    left = [outcome for outcome in outcomes if outcome.has_left]
    wrong = [outcome for outcome in outcomes if not outcome.is_served and not outcome.has_left]
    assert not wrong, wrong[:5]
    assert 0.05 * REQUESTS < len(left) < 0.15 * REQUESTS
    assert_back_to_rest(gateway, before)
    assert gateway.workers() == workers, "a worker was replaced"
    after = at_rest(gateway)
    print(f"{len(outcomes)} requests, {len(left)} departures; at rest before: {before}, after: {after}")
    for pid, kb in after.get("private_kb", {}).items():
        assert kb < before["private_kb"][pid] + 256, f"worker {pid} grew from {before['private_kb'][pid]} to {kb} kB"
    ends = Counter(end for outcome in left for end in gateway.spool.ends_of(outcome.request_id) or ["none"])
    assert set(ends) <= {"client_gone", "none"}, ends
    assert ends["none"] <= len(left) / 20, "only who leaves while the machine pauses may be gone before it is seen"
    asked = [record for record in gateway.upstream.records if record.key == gateway.keys.plaintext("held", "k1")]
    told = [event for event in gateway.spool.events_that(model="held") if event["attempts"]]
    assert 0 < len(asked) <= len(told), f"{len(asked)} requests reached the upstream, and {len(told)} have an event"

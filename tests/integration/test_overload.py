"""More callers than workers. Workers have an upstream that takes 100 ms."""

import json
import os
import resource
import select
import signal
import socket
import time

import pytest

import chat
import fastcgi
from errors import assert_error
from load import Ask, Front, closed_loop, open_loop, percentile
from processes import wait_until
from scripts import answer, hang, pause
from tree import Tree, hostile, model

pytestmark = pytest.mark.alone

SECONDS = 60
WORKERS = 6
WORK_S = 0.1
QUEUE_S = 1.0  # --queue-timeout-ms, as it is by default
PROMISED_S = 0.1  # beyond the queue's timeout, and for a probe
SLACK_S = 0.25  # the test machine's

CODES = {"/v1": "overloaded", "/api/v1/openai": "SERVICE_UNAVAILABLE"}
ASKS = [Ask("v1", "m", mount="/v1"), Ask("coded", "m", mount="/api/v1/openai")]
WORK = [pause(WORK_S), *answer(200, chat.completion())]


def tree():
    return Tree(model("m", hostile("a", "k1")))


@pytest.fixture
def gateway(start_gateway):
    gateway = start_gateway(tree(), workers=WORKERS)
    gateway.script("m", "k1", WORK)
    return gateway


@pytest.fixture
def front(gateway):
    return Front(gateway.caller_key, port=gateway.port)


def measured_capacity(front):
    """Requests a second, as this machine has it now."""
    outcomes, _ = closed_loop(front, [Ask("v1", "m")], WORKERS, seconds=2).result(60)
    return len(outcomes) / 2


def assert_probes_answered(probes):
    assert len(probes) > 40
    wrong = [probe for probe in probes if probe[2] != 200]
    assert not wrong, f"probes failed: {wrong[:5]}"
    slowest = max(probes)
    assert slowest[0] < PROMISED_S + SLACK_S, f"a probe took {slowest[0]:.3f} s: {slowest[1]}"


def test_at_twice_the_capacity_the_excess_is_answered_503_and_the_rest_is_served(gateway, front):
    capacity = measured_capacity(front)
    health = gateway.run_dir / "health.sock"
    begun = time.monotonic()
    outcomes, probes = open_loop(front, ASKS, 2 * capacity, SECONDS, health=health).result(SECONDS + 60)
    served = [outcome for outcome in outcomes if outcome.status == 200]
    shed = [outcome for outcome in outcomes if outcome.is_shed]
    others = [outcome for outcome in outcomes if outcome not in served and outcome not in shed]
    assert not others, f"{len(others)} of {len(outcomes)} were neither served nor shed: {others[:5]}"
    assert len(served) > 0.75 * capacity * SECONDS, f"{len(served)} were served, at {capacity:.0f} a second"
    assert len(shed) > 0.5 * capacity * SECONDS, f"{len(shed)} were shed"

    slowest = max(outcome.took_s for outcome in shed)
    assert slowest < QUEUE_S + PROMISED_S + SLACK_S, f"one was shed after {slowest:.3f} s"
    # The queue builds up for its timeout before it is known to stand; from then on
    # nobody waits for more than a tenth of that.
    settled = [outcome.took_s for outcome in served if outcome.begun > begun + 2 * QUEUE_S + 1]
    print(
        f"{capacity:.0f} requests a second are the capacity; of {len(outcomes)}, {len(served)} were served, settled"
        f" ones in {percentile(settled, 50):.3f} s at the median and {percentile(settled, 99):.3f} s at p99;"
        f" {len(shed)} were shed within {slowest:.3f} s; the slowest probe took {max(probes)[0]:.3f} s"
    )
    assert percentile(settled, 50) < QUEUE_S / 10 + WORK_S + PROMISED_S + SLACK_S
    assert percentile(settled, 99) < QUEUE_S + WORK_S + PROMISED_S + SLACK_S
    assert_probes_answered(probes)
    for outcome in shed:
        assert_error(outcome.reply, outcome.mount, 503, CODES[outcome.mount])
        assert outcome.reply.headers["retry-after"] == "1"
        assert outcome.reply.headers["x-request-id"] == outcome.request_id
    assert_events_of(gateway, shed)


def assert_events_of(gateway, shed):
    """Each has its event, and there is no other of its kind."""
    for outcome in shed:
        event = gateway.spool.wait_event(outcome.request_id)
        assert event["end"] == "overflow", event
        assert event["mount"] == outcome.mount and event["status"] == 503, event
        assert "attempts" not in event or event["attempts"] == []
    assert len(gateway.spool.events_that(end="overflow")) == len(shed)


@pytest.mark.parametrize("callers", [WORKERS, WORKERS + 2], ids=["all workers busy", "a queue that moves"])
def test_at_the_whole_capacity_nothing_is_shed(gateway, front, callers):
    seconds = SECONDS / 6
    health = gateway.run_dir / "health.sock"
    outcomes, probes = closed_loop(front, ASKS, callers, seconds=seconds, health=health).result(seconds + 60)
    assert [outcome for outcome in outcomes if not outcome.is_served] == []
    assert len(outcomes) > 0.6 * seconds * WORKERS / WORK_S
    assert gateway.spool.events_that(end="overflow") == []
    assert_probes_answered(probes)


def test_service_is_as_before_when_the_rush_is_over(gateway, front):
    open_loop(front, ASKS, 3 * WORKERS / WORK_S, 3).result(60)
    outcomes, _ = closed_loop(front, ASKS[:1], WORKERS, count=60).result(60)
    assert [outcome for outcome in outcomes if not outcome.is_served] == []
    wait_until(lambda: gateway.metric("airi_gen_ai_gateway_queue_length") == 0, "the queue is empty")


def fill_queue(gateway, count):
    """Connections with a request each, as many as the kernel takes of `count`."""
    request = fastcgi.whole_request(fastcgi.request_params("/v1/chat/completions", 2, gateway.caller_key), b"{}")
    waiting = []
    for _ in range(count):
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        try:
            connection.connect(str(gateway.socket))
        except BlockingIOError:
            connection.close()
            break
        connection.send(request)
        waiting.append(connection)
    return waiting


def read_all(connections, seconds):
    """What each got, once all of them have been closed by the other side."""
    poll, received, open_ones = select.poll(), {}, {}
    for connection in connections:
        poll.register(connection, select.POLLIN)
        open_ones[connection.fileno()] = connection
        received[connection.fileno()] = b""
    end = time.monotonic() + seconds
    while open_ones:
        assert time.monotonic() < end, f"{len(open_ones)} of {len(connections)} have no answer after {seconds} s"
        for fd, _ in poll.poll(100):
            data = open_ones[fd].recv(65536)
            received[fd] += data
            if not data:
                poll.unregister(fd)
                open_ones.pop(fd)
    for connection in connections:
        connection.close()
    return list(received.values())


@pytest.fixture
def many_descriptors():
    """For this process and the gateway's soft limit back to what services usually have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 12000:
        pytest.skip(f"this needs 12000 file descriptors, and at most {hard} are allowed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (12000, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_as_many_wait_as_the_kernel_allows_and_each_is_answered(start_gateway, many_descriptors):
    """Nobody takes connections: the workers are held, and so is the overflow process.
    When it goes on, everybody is answered, although its soft limit of descriptors
    was the usual 1024 when the gateway was started."""
    gateway = start_gateway(tree(), workers=2, nofile=1024)
    gateway.script("m", "k1", [hang()])
    held = [gateway.begin("m") for _ in range(2)]
    gateway.upstream.wait_record(2)
    overflow = gateway.process_of("overflow")
    os.kill(overflow, signal.SIGSTOP)
    try:
        bound = min(4096, int(open("/proc/sys/net/core/somaxconn", encoding="ascii").read()))
        waiting = fill_queue(gateway, bound + 10)
        assert bound <= len(waiting) <= bound + 1, f"{len(waiting)} connections fit into a queue of {bound}"
    finally:
        os.kill(overflow, signal.SIGCONT)
    begun = time.monotonic()
    replies = [fastcgi.parse_reply(data) for data in read_all(waiting, 20)]
    took = time.monotonic() - begun
    assert all(reply is not None and reply.is_whole and reply.status == 503 for reply in replies)
    assert took < QUEUE_S + PROMISED_S + 10 * SLACK_S, f"{len(replies)} were answered after {took:.3f} s"
    for call in held:
        call.close()


def test_what_waits_is_served_when_a_worker_is_free_in_time(start_gateway):
    """Two requests for one worker: the second waits for half a second, and is served."""
    gateway = start_gateway(tree(), workers=1)
    gateway.script("m", "k1", [pause(0.5), *answer(200, chat.completion())])
    first, second = gateway.begin("m"), gateway.begin("m")
    assert [first.reply().status, second.reply().status] == [200, 200]


def test_the_queues_timeout_is_a_setting(start_gateway):
    gateway = start_gateway(tree(), workers=1, flags=["--queue-timeout-ms", "300"])
    gateway.script("m", "k1", [hang()])
    held = gateway.begin("m")
    gateway.upstream.wait_record()
    begun = time.monotonic()
    reply = gateway.chat("m")
    took = time.monotonic() - begun
    assert json.loads(reply.body)["error"]["code"] == "overloaded"
    assert 0.2 < took < 0.3 + PROMISED_S + SLACK_S, f"it was shed after {took:.3f} s"
    held.close()

"""A clock of the day that is set: by hours, forwards and backwards, while requests are in hand.
What waits and what lapses is measured by the monotonic clock; only what is written down has the
time of day, and says what that clock said."""

import os
import signal
import time

import pytest

import chat
from preloaded import Clock
from processes import wait_until
from scripts import answer, data, end, hang, head, pause
from tree import Tree, hostile, model

HOUR_S = 3600
JUMPS = {"forwards": 5 * HOUR_S, "backwards": -5 * HOUR_S}
DEADLINE_S = 1.0
SLACK_S = 5.0  # far below an hour


def tree(name="m"):
    return Tree(
        model(name, hostile("a", "k1"), hostile("b", "k2")),
        perAttemptTimeoutMs=int(DEADLINE_S * 1000),
        streamIdleTimeoutMs=int(DEADLINE_S * 1000),
    )


@pytest.fixture
def clock(tmp_path):
    return Clock(tmp_path)


@pytest.fixture
def start(start_gateway, clock):
    def start(**options):
        more = options.pop("router_environment", {})
        gateway = start_gateway(tree(), router_environment=clock.environment | more, **options)
        gateway.script("m", "k1", answer(200, chat.completion()))
        gateway.script("m", "k2", answer(200, chat.completion()))
        return gateway

    return start


@pytest.fixture(params=JUMPS.values(), ids=JUMPS.keys())
def jump_s(request):
    return request.param


def test_a_stream_goes_on_and_its_event_keeps_the_time_of_its_beginning(start, clock, jump_s):
    gateway = start(workers=2)
    gateway.script("m", "k1", [head(), data(chat.HELLO), pause(0.5), data(chat.FINISH), data(chat.DONE), end()])
    call = gateway.begin("m", stream=True)
    call.read_until("Hello")
    clock.move(jump_s)
    reply = call.reply()
    assert reply.body.endswith(chat.DONE.encode())
    event = gateway.event(call)
    assert event["end"] == "done" and clock.is_about(event["time"], 0), event
    assert 0.4e6 < event["total_us"] < SLACK_S * 1e6, event["total_us"]
    assert 0 <= event["attempts"][0]["start_us"] < SLACK_S * 1e6, event["attempts"]


def test_deadlines_are_the_monotonic_clocks(start, clock, jump_s):
    gateway = start(workers=2)
    gateway.script("m", "k1", [hang()])
    begun = time.monotonic()
    call = gateway.begin("m")
    gateway.upstream.wait_record()
    clock.move(jump_s)
    assert call.reply().status == 200
    assert DEADLINE_S <= time.monotonic() - begun < DEADLINE_S + SLACK_S
    first, second = gateway.event(call)["attempts"]
    assert (first["verdict"], second["verdict"]) == ("timeout", "ok")
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()])
    call = gateway.begin("m", stream=True)
    call.read_until("Hello")
    begun = time.monotonic()
    clock.move(0)
    assert "error" in call.reply().body.decode()
    assert 0.5 * DEADLINE_S < time.monotonic() - begun < DEADLINE_S + SLACK_S


def test_events_have_the_clocks_time_and_ids_of_it_that_are_never_the_same(start, clock):
    gateway = start(workers=2)
    events, ahead = [], []
    for jump in (0, 5 * HOUR_S, -5 * HOUR_S, 0, 0):
        clock.move(jump)
        for _ in range(10):
            reply = gateway.chat("m")
            assert reply.status == 200
            events.append(gateway.event(reply))
            ahead.append(jump)
    for event, jump in zip(events, ahead):
        assert clock.is_about(event["time"], jump), (event["time"], jump)
        assert int(event["id"].replace("-", "")[:12], 16) == event["time"] // 1000
    assert len({event["id"] for event in events}) == len(events)


def test_a_callers_minute_is_neither_cut_nor_lengthened(start, clock, jump_s):
    gateway = start(workers=2)
    key = gateway.ctl("caller-key", "add", "--id", "limited", "--requests-per-minute", "2").strip()
    gateway.reload()
    wait_until(lambda: gateway.get("/v1/models", key=key).status == 200, "the key is known")
    replies = []
    for jump in (0, jump_s, 0, jump_s):
        clock.move(jump)
        replies.append(gateway.chat("m", key=key))
    assert [reply.status for reply in replies] == [200, 200, 429, 429], replies
    for refused in replies[2:]:
        assert 0 < int(refused.headers["retry-after"]) <= 60, refused.headers


def test_changes_are_found_and_probes_are_content(start, clock, jump_s):
    gateway = start(workers=2)
    clock.move(jump_s)
    gateway.write_entry("LLM_ROUTER_CONFIG", gateway.render(tree("later"))[0])  # found, without a signal
    wait_until(lambda: "later" in gateway.model_names(), "the new tree is in force")
    for _ in range(8):
        assert gateway.get("/readyz", key=None).status == 200
        time.sleep(0.2)
    clock.move(0)
    (age,) = (n for name, n in gateway.metrics().items() if "config_version_age" in name)
    assert age == 0 if jump_s > 0 else 4 * HOUR_S < age < 6 * HOUR_S, "it is what the clock says, and never below"
    assert gateway.get("/readyz", key=None).status == 200
    assert gateway.get("/status", key=None).status == 200


def test_who_dies_is_replaced_and_the_program_ends_in_time(start, clock, receiver, jump_s):
    """Also with a receiver of traces: what waits for a thread waits by the monotonic clock."""
    gateway = start(
        workers=2,
        router_environment={"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_METRICS_EXPORTER": "none"},
    )
    clock.move(jump_s)
    (doomed, *_) = gateway.workers()
    os.kill(doomed, signal.SIGKILL)
    wait_until(lambda: len(gateway.workers() - {doomed}) == 2, "it is replaced")
    reply = gateway.chat("m")
    assert reply.status == 200
    begun = time.monotonic()
    gateway.router.stop(timeout=2 * SLACK_S)
    assert time.monotonic() - begun < 2 * SLACK_S
    gateway.web_server.stop()


def times_of(export):
    """(start, time) of each point of a sum or a histogram, in ns."""
    for metric in export.metrics().values():
        kind = metric.WhichOneof("data")
        for point in getattr(metric, kind).data_points if kind != "gauge" else []:
            yield point.start_time_unix_nano, point.time_unix_nano


@pytest.mark.parametrize("temporality", ["cumulative", "delta"])
def test_no_interval_of_a_metric_ends_before_it_begins(start, clock, receiver, jump_s, temporality):
    gateway = start(
        workers=2,
        router_environment={
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OTEL_TRACES_EXPORTER": "none",
            "OTEL_METRIC_EXPORT_INTERVAL": "200",
            "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": temporality,
        },
    )
    for jump in (0, jump_s, 0):
        clock.move(jump)
        assert gateway.chat("m").status == 200
        seen = len(receiver.exports)

        def moved(begun=seen, ahead=jump):
            times = [pair for export in receiver.exports[begun:] for pair in times_of(export)]
            return times if any(clock.is_about(at / 1000, ahead) for _, at in times) else None

        for begin, at in wait_until(moved, "metrics of that time are exported", 15):
            assert begin <= at, f"it began {(begin - at) / 1e9} s after its end"

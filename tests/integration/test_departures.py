"""A departed caller cancels the upstream within 200 ms in every phase, however it
leaves. 200 ms is the promise; the rest is the test machine's."""

import json
import signal
import time

import pytest

import chat
from fastcgi import FastCgiCall, request_params
from scripts import JSON, answer, data, end, flood, hang, head, pause
from tree import Tree, hostile, model

TREE = Tree(model("m", hostile("a", "k1"), hostile("b", "k2")), clientStallTimeoutMs=1500)

PROMISED_S = 0.2
SLACK_S = 0.5

# phase: (is_stream, script, what the caller reads before it leaves)
PHASES = {
    "before the upstream's headers": (True, [hang()], None),
    "between headers and the first event": (True, [head(), hang()], None),
    "after the role, before content": (True, [head(), data(chat.ROLE), hang()], None),
    "mid-stream, in silence": (True, [head(), data(chat.HELLO), hang()], "Hello"),
    "mid-stream, while events come": (True, [head(), flood(chat.HELLO, delay=0.02)], "Hello"),
    "in a plain wait": (False, [hang()], None),
    "in a plain reply's middle": (False, [head(200, JSON, length=1000), data('{"choices":'), hang()], None),
}
WAYS = ["close", "half_close", "reset"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_stream, script, seen", PHASES.values(), ids=PHASES.keys())
def test_a_departed_caller_closes_the_upstream(gateway, is_stream, script, seen, way):
    gateway.script("m", "k1", script)
    call = gateway.begin("m", is_stream)
    record = gateway.upstream.wait_record()
    if seen is not None:
        call.read_until(seen)
    time.sleep(0.15)  # everything that was sent is on its way or here
    left = getattr(call, way)()
    closed = record.wait_closed(2)
    assert closed - left < PROMISED_S + SLACK_S, f"the upstream was closed {closed - left:.3f} s after the caller left"
    event = gateway.event(call)
    assert event["end"] == "client_gone"
    assert event["attempts"][-1]["verdict"] == "cancelled"
    assert event["attempts"][-1]["fault"] == "none"
    assert not event["attempts"][-1]["counts_for_health"]
    assert len(gateway.upstream.records) == 1, "a departure must not fall back"


@pytest.mark.behind("lighttpd")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_caller_that_lighttpd_does_not_look_at_is_looked_at_by_us(gateway, is_stream, way):
    """A request that is there, whole, when its new connection is accepted leaves lighttpd
    without any interest in that connection until the reply begins: connections.c of 1.4.69,
    connection_set_fdevent_interest, has nothing for CON_STATE_HANDLE_REQUEST."""
    gateway.script("m", "k1", [hang()])
    gateway.web_server.signal(signal.SIGSTOP)
    call = gateway.begin("m", is_stream)
    gateway.web_server.signal(signal.SIGCONT)
    record = gateway.upstream.wait_record()
    time.sleep(0.15)
    left = getattr(call, way)()
    assert record.wait_closed() - left < PROMISED_S + SLACK_S
    assert gateway.event(call)["end"] == "client_gone"


def test_a_caller_whose_addresses_say_nothing_is_waited_for(gateway):
    """As behind a web server on another machine, or one that tells its client's client."""
    gateway.script("m", "k1", [pause(0.5), *answer(200, chat.completion())])
    body = json.dumps(chat.request("m")).encode()
    params = request_params("/v1/chat/completions", len(body), gateway.caller_key)
    params |= {"REMOTE_ADDR": "192.0.2.1", "REMOTE_PORT": "4711", "SERVER_ADDR": "127.0.0.1", "SERVER_PORT": "80"}
    call = FastCgiCall(gateway.socket, params)
    call.send_body(body)
    assert call.reply().status == 200


@pytest.mark.parametrize("way", ["close", "half_close", "abort"])
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_front_end_that_leaves_closes_the_upstream(gateway, is_stream, way):
    """As web servers say it: a close, a half close, FCGI_ABORT_REQUEST."""
    gateway.script("m", "k1", [hang()])
    body = json.dumps(chat.request("m", is_stream)).encode()
    params = request_params("/v1/chat/completions", len(body), gateway.caller_key)
    call = FastCgiCall(gateway.socket, params)
    call.send_body(body)
    record = gateway.upstream.wait_record()
    left = time.monotonic()
    getattr(call, way)()
    assert record.wait_closed() - left < PROMISED_S + SLACK_S


def test_a_departure_during_the_second_attempt_cancels_that_one(gateway):
    gateway.script("m", "k1", answer(500, "{}"))
    gateway.script("m", "k2", [hang()])
    call = gateway.begin("m", stream=True)
    record = gateway.upstream.wait_record(2)
    left = call.close()
    assert record.wait_closed() - left < PROMISED_S + SLACK_S
    event = gateway.event(call)
    assert [attempt["verdict"] for attempt in event["attempts"]] == ["server", "cancelled"]


def test_workers_are_free_again_after_departures(gateway):
    """More departures than there are workers, then a request."""
    gateway.script("m", "k1", [hang()])
    for n in range(20):
        call = gateway.begin("m", stream=True)
        gateway.upstream.wait_record(n + 1)
        call.close()
    gateway.script("m", "k1", answer(200, chat.completion()))
    assert gateway.chat("m").status == 200


def test_a_caller_that_stops_reading_ends_at_its_own_deadline(gateway):
    """The stall clock is the caller's; the upstream is not blamed for it."""
    event_text = chat.chunk({"content": "x" * 4000})
    gateway.script("m", "k1", [head(), flood(event_text)])
    call = gateway.begin("m", stream=True, receive_buffer=4096)
    call.read_until("xxxx")
    record = gateway.upstream.records[0]
    start = time.monotonic()
    closed = record.wait_closed(20)
    assert 1.0 < closed - start < 6.0
    event = gateway.event(call)
    assert event["end"] == "client_gone"
    assert event["attempts"][0]["verdict"] == "cancelled"
    assert event["client_wait_us"] > 1_000_000
    call.reset()


def test_a_slow_caller_that_goes_on_reading_is_served(gateway):
    """Pauses below the stall deadline are the caller's right."""
    piece = chat.chunk({"content": "y" * 4000})
    gateway.script("m", "k1", [head(), *[data(piece)] * 300, data(chat.FINISH), data(chat.DONE), end()])
    call = gateway.begin("m", stream=True, receive_buffer=4096)
    read = 0
    while b"[DONE]" not in call.received[-200:]:
        got = call.read_some()
        assert got, "the stream ended early"
        read += len(got)
        if read > 300_000:
            time.sleep(0.4)
            read = 0
    assert gateway.event(call)["end"] == "done"
    call.close()

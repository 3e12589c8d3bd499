"""The four clocks: connect, first content, idle, chain. Each has its own reason
in the record. The bounds leave room for a busy machine."""

import time

import pytest

import chat
from errors import assert_exhausted
from scripts import answer, data, dribble, end, flood, hang, head, pause, stream
from tree import Tree, hostile, model, silent

ATTEMPT_MS = 600
IDLE_MS = 700
CHAIN_MS = 1500

TREE = Tree(
    model("connect", silent("a", "k1", connectTimeoutMs=400), hostile("b", "k2")),
    model("attempt", hostile("a", "k1"), hostile("b", "k2")),
    model("alone", hostile("a", "k1")),
    model("chain", hostile("a", "k1", "k2", "k3", "k4", "k5")),
    model("patient", hostile("a", "k1", plainTimeoutMs=4000)),
    model("final", hostile("a", "k1"), hostile("b", "k2"), fallbackTriggers={"onTimeout": False}),
    perAttemptTimeoutMs=ATTEMPT_MS,
    fullChainTimeoutMs=CHAIN_MS,
    streamIdleTimeoutMs=IDLE_MS,
)

both = pytest.mark.parametrize("is_stream", [False, True], ids=["plain", "streamed"])
SLACK_S = 0.8


def good(is_stream):
    return stream(*chat.GOOD_STREAM) if is_stream else answer(200, chat.completion())


class Timed:
    """assert_between, on the time that a block took."""

    def __enter__(self):
        self.start = time.monotonic()
        return self

    def __exit__(self, *_):
        self.took = time.monotonic() - self.start

    def assert_about(self, milliseconds):
        low = milliseconds / 1000 - 0.05
        assert low <= self.took <= low + SLACK_S, f"took {self.took:.3f} s, expected about {milliseconds} ms"


def reasons(event):
    return [(attempt["verdict"], attempt.get("reason")) for attempt in event["attempts"]]


@both
def test_the_connect_deadline_moves_on_with_its_own_reason(gateway, is_stream):
    gateway.script("connect", "k2", good(is_stream))
    with Timed() as timed:
        reply = gateway.chat("connect", is_stream)
    assert reply.status == 200
    timed.assert_about(400)
    assert reasons(gateway.event(reply))[0] == ("timeout", "timeout_connect")


@pytest.mark.parametrize(
    "script",
    [[hang()], [head(), hang()], [head(), data(chat.ROLE), hang()], [head(), flood(": wait\n\n", delay=0.05)]],
    ids=["silence", "headers only", "role only", "comments only"],
)
def test_a_stream_without_content_meets_the_first_content_deadline(gateway, script):
    gateway.script("attempt", "k1", script)
    gateway.script("attempt", "k2", good(True))
    with Timed() as timed:
        reply = gateway.chat("attempt", stream=True)
    assert reply.body == "".join(chat.GOOD_STREAM).encode()
    timed.assert_about(ATTEMPT_MS)
    assert reasons(gateway.event(reply))[0] == ("timeout", "timeout_first_content")


@pytest.mark.parametrize("script", [[hang()], [head(length=100), hang()]], ids=["silence", "headers only"])
def test_a_plain_request_meets_the_first_content_deadline(gateway, script):
    gateway.script("attempt", "k1", script)
    gateway.script("attempt", "k2", good(False))
    with Timed() as timed:
        reply = gateway.chat("attempt")
    assert reply.status == 200
    timed.assert_about(ATTEMPT_MS)
    assert reasons(gateway.event(reply))[0] == ("timeout", "timeout_first_content")


def test_the_abandoned_upstream_is_closed_at_the_deadline(gateway):
    gateway.script("attempt", "k1", [hang()])
    gateway.script("attempt", "k2", good(False))
    assert gateway.chat("attempt").status == 200
    record = gateway.upstream.records[0]
    assert record.wait_closed() - record.arrived < ATTEMPT_MS / 1000 + SLACK_S


def test_plain_timeout_extends_the_attempt_and_the_chain(gateway):
    """A plain reply's first byte is the end of its generation."""
    gateway.script("patient", "k1", [pause(2.2), *answer(200, chat.completion("late"))])
    reply = gateway.chat("patient")
    assert reply.status == 200, reply
    assert b"late" in reply.body


def test_plain_timeout_does_not_extend_a_stream(gateway):
    gateway.script("patient", "k1", [pause(2.2), *stream(*chat.GOOD_STREAM)])
    with Timed() as timed:
        reply = gateway.chat("patient", stream=True)
    assert_exhausted(reply, "/v1", 504, "GATEWAY_TIMEOUT", 1, 1, "timeout")
    timed.assert_about(ATTEMPT_MS)


@both
def test_the_chain_deadline_ends_all_attempts(gateway, is_stream):
    for key in ("k1", "k2", "k3", "k4", "k5"):
        gateway.script("chain", key, [hang()])
    with Timed() as timed:
        reply = gateway.chat("chain", is_stream)
    timed.assert_about(CHAIN_MS)
    assert_exhausted(reply, "/v1", 504, "GATEWAY_TIMEOUT", 3, 1, "timeout")
    event = gateway.event(reply)
    assert reasons(event) == [
        ("timeout", "timeout_first_content"),
        ("timeout", "timeout_first_content"),
        ("timeout", "timeout_chain"),
    ]


def test_silence_after_content_ends_the_stream_with_an_error_event(gateway):
    gateway.script("attempt", "k1", [head(), data(chat.HELLO), hang()])
    with Timed() as timed:
        reply = gateway.chat("attempt", stream=True)
    timed.assert_about(IDLE_MS)
    assert reply.status == 200
    *_, last = chat.payloads(reply.body)
    assert "error" in last and "[DONE]" not in last
    event = gateway.event(reply)
    assert event["end"] == "cut"
    assert reasons(event) == [("timeout", "timeout_idle")]
    assert len(gateway.upstream.records) == 1


def test_comments_after_content_are_no_silence(gateway):
    quiet = [
        head(),
        data(chat.HELLO),
        *[pause(0.4), data(": keep-alive\n\n")] * 4,
        data(chat.FINISH),
        data(chat.DONE),
        end(),
    ]
    gateway.script("attempt", "k1", quiet)
    reply = gateway.chat("attempt", stream=True)
    assert reply.body.endswith(chat.DONE.encode())
    assert gateway.event(reply)["end"] == "done"


def test_a_stream_may_take_longer_than_the_chains_deadline_once_it_has_content(gateway):
    script = [head(), *[data(chat.HELLO), pause(0.3)] * 7, data(chat.FINISH), data(chat.DONE), end()]
    gateway.script("alone", "k1", script)
    with Timed() as timed:
        reply = gateway.chat("alone", stream=True)
    assert timed.took > CHAIN_MS / 1000
    assert chat.text_of(reply.body) == "Hello" * 7


def test_a_first_event_in_single_bytes_has_until_the_deadline(gateway):
    slow = [head(), dribble(chat.HELLO[:40], 0.0005), data(chat.HELLO[40:])]
    gateway.script("alone", "k1", [*slow, data(chat.FINISH), data(chat.DONE), end()])
    reply = gateway.chat("alone", stream=True)
    assert chat.text_of(reply.body) == "Hello"


@both
def test_a_timeout_ends_the_chain_where_the_model_says_so(gateway, is_stream):
    gateway.script("final", "k1", [hang()])
    reply = gateway.chat("final", is_stream)
    assert_exhausted(reply, "/v1", 504, "GATEWAY_TIMEOUT", 1, 1, "timeout")
    assert len(gateway.upstream.records) == 1

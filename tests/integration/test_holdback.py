"""Nothing is committed before there is content; what is held back then comes
first, byte for byte."""

import json
import time

import pytest

import chat
from scripts import answer, data, end, head, pause, stream
from tree import Tree, hostile, model

TREE = Tree(model("pair", hostile("a", "k1"), hostile("b", "k2")), perAttemptTimeoutMs=5000)

TOOL_CALL = chat.chunk(
    {"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}]}
)

# First events that promise nothing.
EMPTY = {
    "role only": chat.ROLE,
    "role and null content": chat.chunk({"role": "assistant", "content": None}),
    "an empty delta": chat.chunk({}),
    "no choices": chat.chunk(choices=[]),
    "Azure's prompt filter results": chat.chunk(choices=[], prompt_filter_results=[{"prompt_index": 0}]),
    "a comment": ": OPENROUTER PROCESSING\n\n",
    "many comments": ": keep-alive\n\n" * 50,
    "blank lines": "\n\n\n",
}

CONTENT = {
    "text": chat.HELLO,
    "a tool call": TOOL_CALL,
    "reasoning": chat.chunk({"reasoning_content": "Hm."}),
    "reasoning, as OpenRouter has it": chat.chunk({"reasoning": "Hm."}),
    "a refusal": chat.chunk({"refusal": "No."}),
    "a finish reason": chat.FINISH,
    "an unknown member of a delta": chat.chunk({"hologram": "x"}),
    "an event that nobody recognises": 'event: news\ndata: {"whatever":1}\n\n',
}


@pytest.mark.parametrize("event", EMPTY.values(), ids=EMPTY.keys())
def test_after_an_event_without_content_a_failure_still_falls_back(gateway, event):
    gateway.script("pair", "k1", stream(event, chat.event(chat.error("quota", "insufficient_quota"))))
    gateway.script("pair", "k2", stream(*chat.GOOD_STREAM))
    reply = gateway.chat("pair", stream=True)
    assert reply.status == 200
    assert reply.body == "".join(chat.GOOD_STREAM).encode()


@pytest.mark.parametrize("event", EMPTY.values(), ids=EMPTY.keys())
def test_an_event_without_content_reaches_the_caller_with_the_content(gateway, event):
    events = (event, *chat.GOOD_STREAM)
    gateway.script("pair", "k1", stream(*events))
    reply = gateway.chat("pair", stream=True)
    assert reply.body == "".join(events).encode()


@pytest.mark.parametrize("event", EMPTY.values(), ids=EMPTY.keys())
def test_an_event_without_content_sends_no_headers(gateway, event):
    gateway.script(
        "pair", "k1", [head(), data(event), pause(0.5), data(chat.HELLO), data(chat.FINISH), data(chat.DONE), end()]
    )
    call = gateway.begin("pair", stream=True)
    gateway.upstream.wait_record()
    call.socket.settimeout(0.3)
    with pytest.raises(TimeoutError):
        call.read_some()
    call.socket.settimeout(10)
    assert call.reply().status == 200


@pytest.mark.parametrize("event", CONTENT.values(), ids=CONTENT.keys())
def test_content_reaches_the_caller_at_once(gateway, event):
    gateway.script("pair", "k1", [head(), data(event), pause(1.0), data(chat.FINISH), data(chat.DONE), end()])
    call = gateway.begin("pair", stream=True)
    record = gateway.upstream.wait_record()
    came = call.read_until(event.rstrip("\n"))
    assert came - record.arrived < 0.5
    assert call.reply().is_whole


@pytest.mark.parametrize("event", CONTENT.values(), ids=CONTENT.keys())
def test_after_content_a_failure_does_not_fall_back(gateway, event):
    gateway.script("pair", "k1", stream(event, chat.event(chat.error())))
    reply = gateway.chat("pair", stream=True)
    assert reply.body.startswith(event.encode())
    assert "error" in json.loads(chat.payloads(reply.body)[-1])
    assert len(gateway.upstream.records) == 1
    assert gateway.event(reply)["end"] == "error_mid"


def test_each_chunk_reaches_the_caller_when_the_upstream_sends_it(gateway):
    words = [chat.chunk({"content": f"word-{n}"}) for n in range(8)]
    script = [head()]
    for word in words:
        script += [data(word), pause(0.15)]
    gateway.script("pair", "k1", [*script, data(chat.FINISH), data(chat.DONE), end()])
    call = gateway.begin("pair", stream=True)
    times = [call.read_until(f"word-{n}") for n in range(8)]
    gaps = [later - earlier for earlier, later in zip(times, times[1:])]
    assert min(gaps) > 0.05, f"chunks arrived together: {gaps}"
    assert call.reply().is_whole


def test_what_is_held_back_is_bounded(gateway):
    """More than 64 KiB without content is sent on, as it came."""
    comments = ": " + "x" * 1000 + "\n\n"
    script = [head(), *[data(comments)] * 80, pause(1.0), data(chat.HELLO), data(chat.FINISH), data(chat.DONE), end()]
    gateway.script("pair", "k1", script)
    start = time.monotonic()
    call = gateway.begin("pair", stream=True)
    assert call.read_until("xxxx") - start < 0.8
    reply = call.reply()
    assert reply.body == (comments * 80 + chat.HELLO + chat.FINISH + chat.DONE).encode()


def test_reply_headers_are_the_winners(gateway):
    gateway.script("pair", "k1", answer(500, "{}", {"content-type": "text/x-loser", "x-loser": "1"}))
    gateway.script("pair", "k2", stream(*chat.GOOD_STREAM))
    reply = gateway.chat("pair", stream=True)
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert "x-loser" not in reply.headers

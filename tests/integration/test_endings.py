"""Every stream ends in exactly one way: the terminal mark when the upstream
finished, an error event when it did not."""

import json

import pytest

import chat
from gateway import MOUNTS
from scripts import close, data, hang, head, pause, raw, reset, stream
from tree import Tree, hostile, model

TREE = Tree(model("m", hostile("a", "k1"), hostile("b", "k2")), perAttemptTimeoutMs=5000, streamIdleTimeoutMs=1000)

SECOND_CHOICE = chat.chunk(choices=[{"index": 1, "delta": {"content": "other"}, "finish_reason": None}])
SECOND_FINISH = chat.chunk(choices=[{"index": 1, "delta": {}, "finish_reason": "stop"}])

FINISHED = {
    "with [DONE]": stream(*chat.GOOD_STREAM),
    "without [DONE] after a finish reason": stream(chat.HELLO, chat.FINISH),
    "closed without the last chunk after [DONE]": [head(), *map(data, chat.GOOD_STREAM), pause(0.05), close()],
    "with [DONE] twice": stream(*chat.GOOD_STREAM, chat.DONE),
    "with events after [DONE]": stream(*chat.GOOD_STREAM, chat.HELLO),
    "with every choice finished, without [DONE]": stream(chat.HELLO, SECOND_CHOICE, chat.FINISH, SECOND_FINISH),
    "with [DONE] that no blank line follows": stream(chat.HELLO, chat.FINISH, "data: [DONE]\n"),
    "with a finish event that no blank line follows": stream(chat.HELLO, chat.FINISH.rstrip("\n") + "\n"),
}

# The connection or its contents broke off: the record says "cut".
CUT = {
    "cut after content": [head(), data(chat.HELLO), pause(0.05), close()],
    "reset after content": [head(), data(chat.HELLO), reset()],
    "clean end without finish reason": stream(chat.HELLO, chat.WORLD),
    "clean end with one of two choices finished": stream(chat.HELLO, SECOND_CHOICE, chat.FINISH),
    "cut inside an event": [head(), data(chat.HELLO), data(chat.WORLD[:40]), pause(0.05), close()],
    "silence": [head(), data(chat.HELLO), hang()],
    "a broken chunk header": [head(), data(chat.HELLO), pause(0.05), raw("zz\r\nxx\r\n")],
}

# The upstream said that it failed: the record says "error_mid".
FAILED = {
    "an error event": stream(chat.HELLO, chat.event(chat.error("overloaded", "server_error"))),
    "an error event, then [DONE]": stream(chat.HELLO, chat.event(chat.error()), chat.DONE),
    "a named error event": stream(chat.HELLO, "event: error\ndata: broken\n\n"),
    "an error beside choices": stream(chat.HELLO, chat.chunk(error={"message": "x", "code": 502})),
    "finish_reason error": stream(chat.HELLO, chat.chunk({}, "error")),
    "bare JSON without data": stream(chat.HELLO, json.dumps(chat.error()) + "\n\n"),
}

BROKEN = [pytest.param(script, "cut", id=name) for name, script in CUT.items()]
BROKEN += [pytest.param(script, "error_mid", id=name) for name, script in FAILED.items()]


@pytest.mark.parametrize("script", FINISHED.values(), ids=FINISHED.keys())
def test_a_finished_stream_gets_exactly_one_terminal_mark(gateway, script):
    gateway.script("m", "k1", script)
    reply = gateway.chat("m", stream=True)
    assert reply.status == 200
    assert reply.is_whole
    assert reply.body.count(b"[DONE]") == 1, reply
    assert reply.body.endswith(chat.DONE.encode()), reply
    assert b'"error"' not in reply.body
    event = gateway.event(reply)
    assert event["end"] == "done"
    assert event["attempts"][0]["verdict"] == "ok"


@pytest.mark.parametrize("script, ending", BROKEN)
@pytest.mark.parametrize("mount", MOUNTS)
def test_a_broken_stream_ends_with_one_error_event_and_no_mark(gateway, mount, script, ending):
    gateway.script("m", "k1", script)
    reply = gateway.chat("m", stream=True, mount=mount)
    assert reply.status == 200
    assert reply.is_whole
    assert chat.payloads(reply.body)[0] == chat.payloads(chat.HELLO.encode())[0]
    assert b"[DONE]" not in reply.body, reply
    errors = [payload for payload in chat.payloads(reply.body) if "error" in _members(payload)]
    assert len(errors) == 1, reply
    assert chat.payloads(reply.body)[-1] == errors[0]
    assert {"message", "type", "code"} <= set(json.loads(errors[0])["error"]), errors
    event = gateway.event(reply)
    assert event["end"] == ending
    assert event["committed"]
    assert event["attempts"][0]["verdict"] != "ok"
    assert len(gateway.upstream.records) == 1


def _members(payload):
    try:
        return json.loads(payload)
    except ValueError:
        return {}

"""What an upstream writes into its head adds nothing to ours."""

import pytest

import chat
from scripts import answer
from tree import Tree, hostile, model

TREE = Tree(model("m", hostile("a", "k1")), perAttemptTimeoutMs=8000)

TYPES = {
    "an escape character": "application/json; a=\x1b[31m",
    "more than any media type has": "application/json; a=" + 30000 * "x",
}


STREAM = "".join(chat.GOOD_STREAM)
# Caddy makes one up, where body and head arrive together.
NONE = (None, "text/plain; charset=utf-8")
# name: (streamed, status, body, what we may say that its type is)
REPLIES = {
    "a plain reply": (False, 200, chat.completion("hello"), ("application/json",)),
    "a stream": (True, 200, STREAM, ("text/event-stream",)),
    "a refusal": (False, 413, '{"error":"too large"}', NONE),
}


@pytest.mark.parametrize("content_type", TYPES.values(), ids=TYPES.keys())
@pytest.mark.parametrize("is_stream, status, body, expected", REPLIES.values(), ids=REPLIES.keys())
def test_a_media_type_that_is_none_is_not_passed_on(gateway, is_stream, status, body, expected, content_type):
    gateway.script("m", "k1", answer(status, body, {"content-type": content_type}))
    call = gateway.begin("m", stream=is_stream)
    reply = call.reply()
    assert (reply.status, reply.is_whole) == (status, True)
    assert reply.headers.get("content-type") in expected
    head = call.received.partition(b"\r\n\r\n")[0]
    assert len(head) < 2000
    assert not any(byte < 0x20 for line in head.split(b"\r\n") for byte in line), head

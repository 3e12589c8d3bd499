"""The record is there by the time the caller has the whole reply."""

import pytest

import chat
from scripts import answer, stream
from tree import Tree, hostile, model

TREE = Tree(model("m", hostile("a", "k1")))
TIMES = 20

# name: (script of the upstream, whether it is streamed, how the event says it ended)
ENDINGS = {
    "a plain reply": (answer(200, chat.completion()), False, "done"),
    "a stream": (stream(chat.HELLO, chat.FINISH, chat.DONE), True, "done"),
    "a stream whose mark is ours": (stream(chat.HELLO, chat.FINISH), True, "done"),
    "a stream that breaks off": (stream(chat.HELLO), True, "cut"),
    "a failure": (answer(500, "{}"), False, "error_before"),
}


@pytest.mark.parametrize("script, is_stream, end", ENDINGS.values(), ids=ENDINGS.keys())
def test_nobody_has_a_whole_reply_of_which_there_is_no_record(gateway, script, is_stream, end):
    gateway.script("m", "k1", *[script] * TIMES)
    for _ in range(TIMES):
        reply = gateway.chat("m", stream=is_stream)
        assert gateway.spool.wait_event(reply.request_id, timeout=0)["end"] == end

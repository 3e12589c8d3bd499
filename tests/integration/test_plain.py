"""Plain replies: held whole to 1 MiB and checked, relayed beyond that."""

import json

import pytest

import chat
from scripts import JSON, answer, close, data, dribble, end, head, pause
from tree import Tree, hostile, model

TREE = Tree(model("m", hostile("a", "k1"), hostile("b", "k2")), perAttemptTimeoutMs=8000)

MIB = 1024 * 1024


def sized(size):
    """A completion of exactly so many bytes."""
    empty = chat.completion("")
    return chat.completion("x" * (size - len(empty)))


@pytest.mark.parametrize("size", [1000, 8192, 65536, MIB - 1, MIB, MIB + 1, 3 * MIB])
def test_a_reply_of_any_size_arrives_byte_for_byte(gateway, size):
    body = sized(size).encode()
    assert len(body) == size
    gateway.script("m", "k1", answer(200, body))
    reply = gateway.chat("m")
    assert (reply.status, reply.is_whole) == (200, True)
    assert reply.body == body
    assert reply.headers["content-type"] == "application/json"
    assert gateway.event(reply)["end"] == "done"


@pytest.mark.parametrize("size", [1000, MIB, 3 * MIB])
def test_usage_is_counted_whatever_the_size(gateway, size):
    gateway.script("m", "k1", answer(200, sized(size)))
    usage = gateway.event(gateway.chat("m"))["usage"]
    assert (usage["input"], usage["output"], usage["source"]) == (7, 3, "upstream")


@pytest.mark.parametrize("size", [1000, MIB - 100])
def test_a_cut_within_the_bound_falls_back(gateway, size):
    body = sized(size)
    gateway.script("m", "k1", [head(200, JSON, length=size), data(body[: size - 5]), pause(0.05), close()])
    gateway.script("m", "k2", answer(200, chat.completion("whole")))
    reply = gateway.chat("m")
    assert json.loads(reply.body)["choices"][0]["message"]["content"] == "whole"


def test_a_cut_beyond_the_bound_aborts_the_reply(gateway):
    """It must not look like a whole reply, whatever the framing."""
    size = 3 * MIB
    gateway.script("m", "k1", [head(200, JSON), data(sized(size)[: 2 * MIB]), pause(0.2), close()])
    call = gateway.begin("m")
    reply = call.reply()
    assert reply.status == 200
    assert not reply.is_whole
    event = gateway.event(call)
    assert event["end"] == "cut"
    assert len(gateway.upstream.records) == 1


def test_a_chunked_reply_in_single_bytes_arrives(gateway):
    body = chat.completion("slowly").encode()
    gateway.script("m", "k1", [head(200, JSON), dribble(body), end()])
    assert gateway.chat("m").body == body


def test_blank_keep_alives_before_the_reply_are_no_failure(gateway):
    """DeepSeek sends blank lines while it works."""
    script = [head(200, JSON), *[data("\n"), pause(0.05)] * 5, data(chat.completion("after blanks")), end()]
    gateway.script("m", "k1", script)
    reply = gateway.chat("m")
    assert reply.json()["choices"][0]["message"]["content"] == "after blanks"


@pytest.mark.parametrize(
    "body",
    ['{"choices":[]}', '{"object":"chat.completion"}', "[]", "null", '"text"', '{"choices":null}', '{"choices":[{}]'],
)
def test_a_reply_without_a_choice_is_unusable(gateway, body):
    gateway.script("m", "k1", answer(200, body))
    gateway.script("m", "k2", answer(200, chat.completion("usable")))
    reply = gateway.chat("m")
    assert reply.json()["choices"][0]["message"]["content"] == "usable"
    assert gateway.event(reply)["attempts"][0]["verdict"] == "server"


def test_an_error_member_that_says_nothing_is_no_error(gateway):
    for value in ("null", '""', "{}"):
        body = chat.completion()[:-1] + f',"error":{value}}}'
        gateway.script("m", "k1", answer(200, body))
        assert gateway.chat("m").body == body.encode()


def test_an_html_page_is_unusable_whatever_its_status(gateway):
    gateway.script(
        "m", "k1", answer(200, "<!DOCTYPE html><html><body>Sign in</body></html>", {"content-type": "text/html"})
    )
    gateway.script("m", "k2", answer(200, chat.completion("usable")))
    reply = gateway.chat("m")
    assert reply.json()["choices"][0]["message"]["content"] == "usable"
    assert gateway.event(reply)["attempts"][0]["verdict"] in ("server", "config")

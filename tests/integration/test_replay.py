"""Kept connections to upstreams: one that went stale costs one free replay, and
the record shows it."""

import time

import pytest

import chat
from scripts import answer, close, reset
from tree import Tree, hostile, model

TREE = Tree(model("m", hostile("a", "k1")), model("pair", hostile("a", "k1"), hostile("b", "k2")))

ANSWER = answer(200, chat.completion())


def ask_until_reused(gateway, name, next_script):
    """Fills each worker's pool, then binds the script: a request over a kept connection meets it."""
    gateway.script(name, "k1", ANSWER)
    for _ in range(12):
        assert gateway.chat(name).status == 200
    before = len(gateway.upstream.records)
    gateway.script(name, "k1", *next_script)
    return before


def test_connections_are_kept_and_used_again(gateway):
    ask_until_reused(gateway, "m", [ANSWER])
    reply = gateway.chat("m")
    attempt = gateway.event(reply)["attempts"][0]
    assert attempt["reused"]
    assert len({record.connection for record in gateway.upstream.records}) < len(gateway.upstream.records)


@pytest.mark.parametrize("ending", [close(), reset()], ids=["closed", "reset"])
def test_a_stale_kept_connection_costs_one_replay_and_no_failure(gateway, ending):
    before = ask_until_reused(gateway, "m", [[ending], ANSWER])
    reply = gateway.chat("m")
    assert reply.status == 200, reply
    records = gateway.upstream.records[before:]
    assert len(records) == 2
    assert records[0].body == records[1].body
    assert records[0].connection != records[1].connection
    event = gateway.event(reply)
    assert len(event["attempts"]) == 1
    assert event["attempts"][0]["replayed"]


def test_there_is_never_a_second_replay(gateway):
    before = ask_until_reused(gateway, "pair", [[close()]])
    gateway.script("pair", "k2", ANSWER)
    reply = gateway.chat("pair")
    assert reply.status == 200
    to_first = [record for record in gateway.upstream.records[before:] if record.path.startswith("/a/")]
    assert len(to_first) == 2
    verdicts = [attempt["verdict"] for attempt in gateway.event(reply)["attempts"]]
    assert verdicts == ["connect", "ok"]


def test_a_connection_that_the_upstream_closed_while_idle_is_not_used(gateway):
    gateway.script("m", "k1", [*ANSWER, close()])
    for _ in range(10):
        reply = gateway.chat("m")
        assert reply.status == 200
        time.sleep(0.02)
    assert len(gateway.upstream.records) == 10, "nothing was sent twice"

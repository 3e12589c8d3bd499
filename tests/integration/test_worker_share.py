"""maxWorkerShare: one slow provider does not get all workers."""

import os
import signal

import pytest

import chat
from load import Ask, Front, closed_loop
from processes import wait_until
from scripts import answer, data, hang, head
from tree import Tree, hostile, model

WORKERS = 8


def tree():
    return Tree(
        model("slow", hostile("a", "k1"), maxWorkerShare=50),
        model("scarce", hostile("b", "k2"), maxWorkerShare=1),
        model("m", hostile("c", "k3")),
    )


@pytest.fixture
def gateway(start_gateway):
    gateway = start_gateway(tree(), workers=WORKERS)
    gateway.script("slow", "k1", [head(), data(chat.HELLO), hang()])
    gateway.script("scarce", "k2", [head(), data(chat.HELLO), hang()])
    gateway.script("m", "k3", answer(200, chat.completion()))
    return gateway


def hold(gateway, name, n):
    calls = [gateway.begin(name, stream=True) for _ in range(n)]
    for call in calls:
        call.read_until("Hello")
    return calls


@pytest.mark.parametrize("mount, code", [("/v1", "model_busy"), ("/api/v1/openai", "SERVICE_UNAVAILABLE")])
def test_beyond_its_share_a_model_is_refused_and_others_are_served(gateway, mount, code):
    calls = hold(gateway, "slow", WORKERS // 2)
    reply = gateway.chat("slow", mount=mount)
    assert reply.status == 503 and reply.headers["retry-after"] == "1"
    error = reply.json()["error"]
    assert (error if isinstance(error, str) else error["code"]) == code
    event = gateway.event(reply)
    assert event["code"] == "model_busy" and event["status"] == 503 and event["attempts"] == []
    assert gateway.chat("m").status == 200
    for call in calls:
        call.close()
    gateway.script("slow", "k1", answer(200, chat.completion()))
    wait_until(lambda: gateway.chat("slow").status == 200, "it is served again")


def test_one_worker_is_always_allowed(gateway):
    calls = hold(gateway, "scarce", 1)
    assert gateway.chat("scarce").status == 503
    calls[0].close()


def test_what_a_dead_worker_had_is_free(gateway):
    calls = hold(gateway, "slow", WORKERS // 2)
    assert gateway.chat("slow").status == 503
    busy = [w["pid"] for w in gateway.status()["workers"] if w["stage"] == "streaming"]
    os.kill(busy[0], signal.SIGKILL)
    wait_until(lambda: len(gateway.workers() - set(busy)) == WORKERS // 2 + 1, "another is there")
    calls += hold(gateway, "slow", 1)
    assert gateway.chat("slow").status == 503
    for call in calls:
        call.close()


def test_at_a_rush_the_share_is_given_out_whole_and_never_exceeded(gateway):
    """As many as there are workers, at once."""
    front = Front(gateway.caller_key, port=gateway.port)
    asks = [Ask("slow", "slow", stream=True, leaves_after_s=2)]
    load = closed_loop(front, asks, WORKERS, count=WORKERS)
    streaming = lambda: sum(w["stage"] == "streaming" for w in gateway.status()["workers"])  # noqa: E731
    wait_until(lambda: streaming() == WORKERS // 2, "half of them have it", 20)
    outcomes, _ = load.result(60)
    refused = [outcome for outcome in outcomes if outcome.status == 503]
    assert len(refused) == WORKERS // 2, outcomes

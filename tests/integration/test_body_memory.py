"""The memory of large bodies is bounded over all workers together."""

import os
import signal
import threading

import pytest

import chat
from errors import assert_error
from fastcgi import FastCgiCall, request_params
from gateway import MOUNTS
from processes import wait_until
from scripts import answer, hang, until
from tree import Tree, hostile, model

LIMIT = 1_000_000
FLAGS = ["--max-body-bytes", str(LIMIT), "--body-memory-bytes", str(LIMIT)]


@pytest.fixture
def gateway(start_gateway):
    raced = model("raced", hostile("a", "k1"), hostile("b", "k2"), hedgeAfterMs=100)
    gateway = start_gateway(Tree(model("m", hostile("a", "k1")), raced), workers=4, flags=FLAGS)
    gateway.script("m", "k1", answer(200, chat.completion()))
    return gateway


def body_of(size, name="m"):
    frame = b'{"model":"%s","x":""}' % name.encode()
    return frame[:-2] + b"x" * (size - len(frame)) + frame[-2:]


def hold(gateway, size):
    """A request whose body has come but for its end."""
    params = request_params("/v1/chat/completions", size, gateway.caller_key)
    call = FastCgiCall(gateway.socket, params)
    call.send_body(body_of(size)[:-1], is_end=False)
    return call


def announce(gateway, size, mount="/v1"):
    """The answer to a request of which no byte of the body ever comes, if there is one."""
    params = request_params(f"{mount}/chat/completions", size, gateway.caller_key)
    return FastCgiCall(gateway.socket, params, timeout=2).read_reply()


def is_full(gateway):
    return gateway.post(body_of(500_000)).status == 503


@pytest.mark.parametrize("mount", MOUNTS)
def test_a_body_for_which_there_is_no_memory_is_refused_before_it_comes(gateway, mount):
    holder = hold(gateway, 900_000)
    wait_until(lambda: is_full(gateway), "the body in hand is reserved")
    status, headers, _ = announce(gateway, 200_000, mount)
    assert status == 503
    assert headers["retry-after"] == "1"
    reply = gateway.post(body_of(200_000), mount)
    assert_error(reply, mount, 503, "body_memory_full" if mount == "/v1" else "SERVICE_UNAVAILABLE")
    assert reply.headers["retry-after"] == "1"
    event = gateway.event(reply)
    assert event["code"] == "body_memory_full" and event["status"] == 503 and event["attempts"] == []
    assert gateway.chat("m").status == 200, "a small body needs none of it"
    holder.send_body(b"}")
    assert holder.read_reply()[0] == 200
    assert gateway.post(body_of(LIMIT), mount).status == 200


def test_a_departed_callers_memory_is_given_back(gateway):
    holder = hold(gateway, 900_000)
    wait_until(lambda: is_full(gateway), "the body in hand is reserved")
    holder.close()
    wait_until(lambda: gateway.post(body_of(LIMIT)).status == 200, "there is memory again", 3)


def test_a_dead_workers_memory_is_given_back(gateway):
    holder = hold(gateway, 900_000)
    wait_until(lambda: is_full(gateway), "the body in hand is reserved")
    for pid in gateway.router.children():
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: gateway.post(body_of(LIMIT)).status == 200, "there is memory again", 10)
    holder.close()


def test_every_way_to_end_gives_the_memory_back(gateway):
    """A reply is there a moment before the worker that wrote it lets go of the body."""
    for frame in (b"%s", b'{"model":"none","x":"%s"}', b'{"model":7,"x":"%s"}'):
        body = frame % (b"x" * 900_000)
        wait_until(lambda body=body: gateway.post(body).status in (400, 404), "there is memory for it", 3)
        wait_until(lambda: gateway.post(body_of(LIMIT)).status == 200, "there is memory again", 3)


@pytest.mark.parametrize("ending", ["an answer", "the caller leaves", "the worker is killed"])
def test_a_body_that_two_upstreams_are_sent_is_reserved_once_and_given_back(gateway, ending):
    """Side by side: hedgeAfterMs."""
    has_begun = threading.Event()
    gateway.script("raced", "k1", [hang()])
    gateway.script("raced", "k2", [until(has_begun), *answer(200, chat.completion())])
    call = gateway.call("POST", "/v1/chat/completions", body_of(600_000, "raced"))
    gateway.upstream.wait_record(2, timeout=15)
    assert [len(record.body) for record in gateway.upstream.records] == [600_000] * 2
    assert gateway.post(body_of(350_000)).status == 200, "there is memory beside it"
    assert gateway.post(body_of(450_000)).status == 503, "and not more"
    if ending == "an answer":
        has_begun.set()
        assert call.reply().status == 200
    elif ending == "the caller leaves":
        call.close()
    else:
        (worker,) = [worker["pid"] for worker in gateway.status()["workers"] if worker["stage"] == "waiting"]
        os.kill(worker, signal.SIGKILL)
    wait_until(lambda: gateway.post(body_of(LIMIT)).status == 200, "there is memory again")

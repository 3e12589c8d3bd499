"""The chain: order, counts, what the caller is told, and the seeds' acceptance
examples by name."""

import pytest

import chat
from errors import assert_error, assert_exhausted
from gateway import MOUNTS
from scripts import answer, stream
from tree import Tree, hostile, model

TREE = Tree(
    model("three-keys", hostile("a", "k1", "k2", "k3")),
    model("two-upstreams", hostile("a", "a1", "a2"), hostile("b", "b1", "b2")),
    model("own-codes", hostile("a", "k1", "k2"), fallbackTriggers={"httpCodes": [418]}),
)

ALIVE = answer(200, chat.completion("alive"))
RATE = answer(429, "{}")
DEAD = answer(401, "{}")


def paths_and_keys(gateway, model_name, keys):
    names = {gateway.keys.plaintext(model_name, key): key for key in keys}
    return [(record.path.split("/")[1], names[record.key]) for record in gateway.upstream.records]


@pytest.mark.parametrize("mount", MOUNTS)
def test_ae1_a_rate_limited_key_falls_back_to_the_next_key(gateway, mount):
    gateway.script("three-keys", "k1", RATE)
    gateway.script("three-keys", "k2", ALIVE)
    reply = gateway.chat("three-keys", mount=mount)
    assert reply.status == 200
    event = gateway.event(reply)
    assert event["fallback_depth"] == 1
    assert str(event["fallback_reason"]) == "429"
    assert paths_and_keys(gateway, "three-keys", ["k1", "k2"]) == [("a", "k1"), ("a", "k2")]


@pytest.mark.parametrize("mount", MOUNTS)
def test_ae2_dead_keys_are_a_server_error_for_the_caller_not_a_401(gateway, mount):
    for key in ("k1", "k2", "k3"):
        gateway.script("three-keys", key, DEAD)
    reply = gateway.chat("three-keys", mount=mount)
    assert_exhausted(reply, mount, 502, "BAD_GATEWAY", 3, 1, 401)
    assert paths_and_keys(gateway, "three-keys", ["k1", "k2", "k3"]) == [("a", "k1"), ("a", "k2"), ("a", "k3")]


@pytest.mark.parametrize(
    "mount, status, code", [("/v1", 404, "model_not_found"), ("/api/v1/openai", 400, "BAD_REQUEST")]
)
def test_ae3_an_unknown_model_is_refused_before_any_upstream(gateway, mount, status, code):
    reply = gateway.chat("no-such-model", mount=mount)
    details = assert_error(reply, mount, status, code)
    if mount != "/v1":
        assert reply.json()["message"] == "unknown_model"
        assert details["requested"] == "no-such-model"
        assert {"three-keys", "two-upstreams", "own-codes"} <= set(details["available"])
    assert gateway.upstream.records == []
    event = gateway.event(reply)
    assert event["end"] == "refused"
    assert event.get("attempts", []) == []
    assert not event.get("fallback_depth")


def test_ae7_keys_of_one_upstream_come_before_the_next_upstream(gateway):
    for key in ("a1", "a2"):
        gateway.script("two-upstreams", key, RATE)
    gateway.script("two-upstreams", "b1", ALIVE)
    reply = gateway.chat("two-upstreams")
    assert reply.status == 200
    event = gateway.event(reply)
    assert event["fallback_depth"] == 2
    assert [attempt["upstream"] for attempt in event["attempts"]] == ["a", "a", "b"]
    order = paths_and_keys(gateway, "two-upstreams", ["a1", "a2", "b1"])
    assert order == [("a", "a1"), ("a", "a2"), ("b", "b1")]


@pytest.mark.parametrize("mount", MOUNTS)
@pytest.mark.parametrize("is_stream", [False, True])
def test_ae7_when_both_upstreams_are_used_up_the_caller_sees_the_last_failure(gateway, mount, is_stream):
    for key in ("a1", "a2", "b1"):
        gateway.script("two-upstreams", key, RATE)
    gateway.script("two-upstreams", "b2", answer(500, "{}"))
    reply = gateway.chat("two-upstreams", is_stream, mount)
    assert_exhausted(reply, mount, 502, "BAD_GATEWAY", 4, 2, 500)
    assert len(gateway.upstream.records) == 4


def test_a_wrong_path_skips_the_upstreams_other_keys(gateway):
    gateway.script("two-upstreams", "a1", answer(404, "{}"))
    gateway.script("two-upstreams", "b1", ALIVE)
    assert gateway.chat("two-upstreams").status == 200
    assert paths_and_keys(gateway, "two-upstreams", ["a1", "b1"]) == [("a", "a1"), ("b", "b1")]


def test_the_configured_codes_move_on_and_replace_the_defaults(gateway):
    gateway.script("own-codes", "k1", answer(418, "{}"))
    gateway.script("own-codes", "k2", ALIVE)
    assert gateway.chat("own-codes").status == 200


@pytest.mark.parametrize("mount", MOUNTS)
def test_retry_after_is_the_smallest_that_any_attempt_saw(gateway, mount):
    for key, seconds in (("k1", "30"), ("k2", "12"), ("k3", "55")):
        gateway.script("three-keys", key, answer(429, "{}", {"retry-after": seconds}))
    reply = gateway.chat("three-keys", mount=mount)
    assert_exhausted(reply, mount, 503, "SERVICE_UNAVAILABLE", 3, 1, 429)
    assert reply.headers["retry-after"] == "12"


def test_retry_after_is_one_second_when_no_attempt_named_any(gateway):
    for key in ("k1", "k2", "k3"):
        gateway.script("three-keys", key, RATE)
    assert gateway.chat("three-keys").headers["retry-after"] == "1"


def test_retry_after_is_never_more_than_an_hour(gateway):
    for key in ("k1", "k2", "k3"):
        gateway.script("three-keys", key, answer(429, "{}", {"retry-after": "86400"}))
    assert gateway.chat("three-keys").headers["retry-after"] == "3600"


def test_the_body_is_sent_whole_to_every_candidate(gateway):
    for key in ("k1", "k2"):
        gateway.script("three-keys", key, RATE)
    gateway.script("three-keys", "k3", ALIVE)
    body = chat.request("three-keys", padding="x" * 200_000)
    assert gateway.post(body).status == 200
    bodies = [record.body for record in gateway.upstream.records]
    assert len(bodies) == 3
    assert bodies[0] == bodies[1] == bodies[2]
    assert len(bodies[0]) > 200_000


def test_a_stream_falls_back_before_its_first_content(gateway):
    gateway.script("two-upstreams", "a1", stream(chat.ROLE, chat.event(chat.error())))
    gateway.script("two-upstreams", "a2", RATE)
    gateway.script("two-upstreams", "b1", stream(*chat.GOOD_STREAM))
    reply = gateway.chat("two-upstreams", stream=True)
    assert reply.body == "".join(chat.GOOD_STREAM).encode()
    assert gateway.event(reply)["fallback_depth"] == 2

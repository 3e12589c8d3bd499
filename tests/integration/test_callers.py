"""Who may call, and which models they see."""

import hashlib
import json

import pytest

import chat
from errors import assert_error
from gateway import MOUNTS
from processes import wait_until
from scripts import answer
from tree import Tree, hostile, model

TREE = Tree(model("m", hostile("a", "k1")), model("other", hostile("a", "k1")))

at_each_mount = pytest.mark.parametrize("mount", MOUNTS)


@at_each_mount
@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer ", "Bearer wrong", "Basic dGVzdDp0ZXN0", "wrong", "Bearer a b"],
)
def test_a_request_without_a_valid_key_is_refused(gateway, mount, authorization):
    headers = {} if authorization is None else {"authorization": authorization}
    reply = gateway.post(chat.request("m"), mount, key=None, headers=headers)
    assert_error(reply, mount, 401, "UNAUTHORIZED")
    assert "www-authenticate" in reply.headers
    assert gateway.upstream.records == []
    assert gateway.event(reply)["end"] == "refused"


@at_each_mount
def test_a_key_that_differs_in_its_last_character_is_refused(gateway, mount):
    last = "A" if gateway.caller_key[-1] != "A" else "B"
    reply = gateway.post(chat.request("m"), mount, key=gateway.caller_key[:-1] + last)
    assert_error(reply, mount, 401, "UNAUTHORIZED")


@at_each_mount
def test_the_scheme_is_written_in_any_case(gateway, mount):
    reply = gateway.get(f"{mount}/models", key=None, headers={"authorization": f"bearer {gateway.caller_key}"})
    assert reply.status == 200


@at_each_mount
def test_the_models_are_listed_in_the_documents_order(gateway, mount):
    reply = gateway.get(f"{mount}/models")
    assert reply.json()["object"] == "list"
    entries = reply.json()["data"]
    assert [entry["id"] for entry in entries][:2] == ["m", "other"]
    assert all(entry["object"] == "model" for entry in entries)


def test_a_key_bound_to_models_sees_and_reaches_only_those(gateway):
    key = gateway.ctl("caller-key", "add", "--id", "narrow", "--models", "other").strip()
    gateway.reload()
    try:
        gateway.script("m", "k1", answer(200, chat.completion()))
        gateway.script("other", "k1", answer(200, chat.completion()))
        _wait_for_key(gateway, key)
        assert gateway.chat("other", key=key).status == 200
        assert gateway.chat("m", key=key).status in (403, 404)
        assert [entry["id"] for entry in gateway.get("/v1/models", key=key).json()["data"]] == ["other"]
    finally:
        gateway.ctl("caller-key", "revoke", "narrow")
        gateway.reload()


def test_a_revoked_key_is_refused(gateway):
    key = gateway.ctl("caller-key", "add", "--id", "passing").strip()
    gateway.reload()
    _wait_for_key(gateway, key)
    gateway.ctl("caller-key", "revoke", "passing")
    gateway.reload()
    _wait_for_key(gateway, key, status=401)


def _wait_for_key(gateway, key, status=200):
    wait_until(lambda: gateway.get("/v1/models", key=key).status == status, f"the key gets {status}")


def test_the_event_names_the_caller(gateway):
    gateway.script("m", "k1", answer(200, chat.completion()))
    event = gateway.event(gateway.chat("m"))
    assert event["key_id"] == hashlib.sha256(gateway.caller_key.encode()).hexdigest()[:16]
    assert gateway.caller_key not in json.dumps(event)

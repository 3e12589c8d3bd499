"""Callers' keys over the administrators' API, row by row; on each of the stores."""

import json
import secrets
import threading

import pytest

from administrator import API, PATCH_TYPE, assert_error, fingerprint, paths_of
from processes import wait_until
from test_secrets import assert_clean

CALLERS = f"{API}/caller-keys"


@pytest.fixture
def name(admin):
    """An id that no caller key has yet."""
    return f"caller-{secrets.token_hex(4)}"


def create(admin, name, **members):
    reply = admin.send("POST", CALLERS, {"id": name, **members})
    assert reply.status == 201, reply
    return reply.json()


def rows(admin):
    reply = admin.get(CALLERS)
    assert reply.status == 200, reply
    return {row["id"]: row for row in reply.json()["keys"]}


def serves(admin, key):
    return admin.gateway.get("/v1/models", key=key).status == 200


def test_a_new_key_is_shown_once_and_serves(admin, name):
    reply = admin.send("POST", CALLERS, {"id": name, "owner": "Ada", "models": ["m"]})
    assert reply.status == 201, reply
    made = reply.json()
    key = made.pop("key")
    assert key.startswith("lr-") and len(key) == 46
    assert made.pop("version") == reply.headers["etag"].strip('"') and made.pop("createdAt")
    assert made == {"id": name, "owner": "Ada", "models": ["m"], "fingerprint": fingerprint(key)}
    assert rows(admin)[name].items() >= made.items()
    wait_until(lambda: serves(admin, key), "the key serves", 5)
    texts = {"log": admin.process.log.read_bytes(), "list": admin.get(CALLERS).body, "audit": admin.get(f"{API}/audit-log").body}
    assert_clean([key], texts | admin.gateway.store.contents())


def test_no_more_of_a_hash_is_shown_than_its_beginning(admin, name):
    create(admin, name)
    (stored,) = [row for row in json.loads(admin.gateway.store.value("CALLER_KEYS"))["keys"] if row["id"] == name]
    shown = admin.get(CALLERS).body + admin.get(f"{API}/audit-log").body
    assert stored["sha256"][:8].encode() in shown and stored["sha256"][8:16].encode() not in shown


def test_a_revoked_key_serves_no_more_and_others_do(admin, name):
    key, other = create(admin, name)["key"], create(admin, name + "-2")["key"]
    wait_until(lambda: serves(admin, other), "both keys serve", 5)
    reply = admin.ask("DELETE", f"{CALLERS}/{name}")
    assert reply.status == 200 and reply.json()["version"], reply
    wait_until(lambda: not serves(admin, key), "the key is refused", 5)
    assert serves(admin, other) and serves(admin, admin.gateway.caller_key)
    assert name not in rows(admin)
    assert_error(admin.ask("DELETE", f"{CALLERS}/{name}"), 404, "NOT_FOUND")


@pytest.mark.parametrize("content_type", [PATCH_TYPE, "application/json"])
def test_owner_and_models_of_a_key_can_be_changed(admin, name, content_type):
    made = create(admin, name, owner="Ada", models=["m"])
    path = f"{CALLERS}/{name}"
    reply = admin.send("PATCH", path, {"owner": None, "models": ["m", "n"]}, content_type=content_type)
    assert reply.status == 200, reply
    row = rows(admin)[name]
    assert "owner" not in row and row["models"] == ["m", "n"] and row["fingerprint"] == made["fingerprint"]
    assert "key" not in reply.json()
    line = admin.audit(1)[0]
    assert (line["action"], line["object"]) == ("change", f"CALLER_KEYS/{name}")
    assert line["changes"] == [{"field": "/owner", "before": "Ada"}, {"field": "/models/1", "after": "n"}]


@pytest.mark.parametrize(
    "method, body, paths",
    [
        ("POST", {}, ["/id"]),
        ("POST", {"id": "a|b"}, ["/id"]),
        ("POST", {"id": "x", "key": "lr-mine"}, ["/key"]),
        ("POST", {"id": "x", "sha256": "0" * 64}, ["/sha256"]),
        ("POST", {"id": "x", "ownr": "Ada"}, ["/ownr"]),
        ("POST", {"id": "x", "models": "m"}, ["/models"]),
        ("POST", [], [""]),
        ("PATCH", {"id": "other"}, ["/id"]),
        ("PATCH", {"sha256": "0" * 64}, ["/sha256"]),
        ("PATCH", {"models": ["m", ""]}, ["/models/1"]),
    ],
)
def test_every_fault_of_a_row_is_named(admin, name, method, body, paths):
    create(admin, name)
    before = admin.get(CALLERS).body
    path = CALLERS if method == "POST" else f"{CALLERS}/{name}"
    details = assert_error(admin.send(method, path, body), 400, "BAD_REQUEST")
    assert paths_of(details) == paths
    assert admin.get(CALLERS).body == before


def test_an_id_is_given_once_and_may_hold_a_slash(admin, name):
    odd = f"{name}/a b/é"
    create(admin, odd)
    assert_error(admin.send("POST", CALLERS, {"id": odd}), 409, "CONFLICT")
    reply = admin.ask("DELETE", f"{CALLERS}/{name}/a%20b/%C3%A9")
    assert reply.status == 200, reply
    assert_error(admin.send("PATCH", f"{CALLERS}/{odd.replace(' ', '%20').replace('é', '%C3%A9')}", {}), 404, "NOT_FOUND")


def test_a_version_may_be_asked_for_and_is_then_kept_to(admin, name):
    first = create(admin, name)["version"]
    create(admin, name + "-2")
    reply = admin.send("PATCH", f"{CALLERS}/{name}", {"owner": "Ada"}, if_match=f'"{first}"')
    assert_error(reply, 409, "CONFLICT")
    assert "owner" not in rows(admin)[name]


def test_creations_at_once_are_all_kept(admin, name):
    made, barrier = {}, threading.Barrier(16)

    def make(n):
        barrier.wait()
        made[n] = create(admin, f"{name}-{n}")

    makers = [threading.Thread(target=make, args=(n,)) for n in range(16)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(60)
    assert len({key["key"] for key in made.values()}) == 16
    assert {f"{name}-{n}" for n in range(16)} <= set(rows(admin))


def test_a_revocation_can_be_rehearsed(admin, name):
    made = create(admin, name)
    reply = admin.ask("DELETE", f"{CALLERS}/{name}?dryRun=true")
    assert reply.status == 200, reply
    [change] = reply.json()["changes"]
    assert change["path"] == "" and change["before"]["fingerprint"] == made["fingerprint"] and "after" not in change
    assert name in rows(admin)


def test_rows_that_somebody_broke_are_left_alone(admin, name):
    good = admin.gateway.store.value("CALLER_KEYS")
    admin.gateway.store.set_value("CALLER_KEYS", '{"keys":[{"id":"a"}]}')
    try:
        for reply in (admin.get(CALLERS), admin.send("POST", CALLERS, {"id": name}), admin.ask("DELETE", f"{CALLERS}/a")):
            assert_error(reply, 500, "INTERNAL_SERVER_ERROR")
    finally:
        admin.gateway.store.set_value("CALLER_KEYS", good)

"""Changing the routing tree in other ways than as a whole: rehearsed, patched, restored;
the small entries; and what is on record afterwards. On each of the stores."""

import json
import secrets

import pytest

import chat
from administrator import API, CONFIG, PATCH_TYPE, assert_error, document, fingerprint, keys_of, new_key, paths_of
from processes import wait_until
from scripts import answer
from test_secrets import assert_clean

EMPTY = {"llm": {"models": {}}}


def models_of(admin):
    return list(admin.get().json()["llm"]["models"])


def changes_of(reply):
    assert reply.status == 200, reply
    body = reply.json()
    assert body["dryRun"] is True and body["further"] == 0, body
    return body["changes"]


# Rehearsing


def rehearse(admin, method, tree, if_match="*", content_type="application/json"):
    return admin.send(method, f"{CONFIG}?dryRun=true", tree, if_match, content_type)


def test_a_dry_run_shows_the_difference_and_writes_nothing(admin):
    old, new = new_key(), new_key()
    tag = admin.create(document(admin, {"id": "k1", "key": old}))
    lines = len(admin.audit())
    tree = admin.get().json()
    keys_of(tree)[0] = {"id": "k1", "key": new}
    tree["defaults"] = {"connectTimeoutMs": 500}
    reply = rehearse(admin, "PUT", tree, tag)
    [key, defaults] = changes_of(reply)
    assert key["path"] == "/llm/models/m/upstreams/0/keys/0"
    assert key["before"]["keyFingerprint"] == fingerprint(old)
    assert (key["after"]["id"], key["after"]["keyFingerprint"]) == ("k1", fingerprint(new))
    assert defaults == {"path": "/defaults", "after": {"connectTimeoutMs": 500}}
    assert f'"{reply.json()["version"]}"' == reply.headers["etag"] == tag
    assert_clean([old, new], {"reply": reply.body})
    assert admin.get().headers["etag"] == tag
    assert len(admin.audit()) == lines


def test_a_dry_run_of_the_first_document_is_all_new(admin):
    reply = rehearse(admin, "PUT", EMPTY)
    assert changes_of(reply) == [{"path": "", "after": EMPTY}]
    assert reply.json()["version"] is None
    assert_error(admin.get(), 404, "NOT_FOUND")


def test_a_dry_run_of_what_is_there_differs_in_nothing(admin):
    tag = admin.create(document(admin))
    assert changes_of(rehearse(admin, "PUT", admin.get().json(), tag)) == []


def test_a_dry_run_is_refused_for_what_the_change_would_be(admin):
    tag = admin.create(document(admin))
    assert_error(rehearse(admin, "PUT", EMPTY, None), 412, "PRECONDITION_REQUIRED")
    assert_error(rehearse(admin, "PUT", EMPTY, '"stale"'), 409, "CONFLICT")
    details = assert_error(rehearse(admin, "PUT", {"llm": 5}, tag), 400, "BAD_REQUEST")
    assert paths_of(details) == ["/llm"]
    assert_error(rehearse(admin, "PATCH", {"surprise": 1}, tag, PATCH_TYPE), 400, "BAD_REQUEST")


@pytest.mark.parametrize("value", ["1", "yes", "", "TRUE"])
def test_what_may_have_been_meant_as_a_dry_run_changes_nothing(admin, value):
    reply = admin.send("PUT", f"{CONFIG}?dryRun={value}", EMPTY, "*")
    assert_error(reply, 400, "BAD_REQUEST")
    assert_error(admin.send("POST", f"{API}/caller-keys?dryRun=true", {"id": "x"}), 400, "BAD_REQUEST")
    assert_error(admin.get(), 404, "NOT_FOUND")


# Patching


def test_a_patch_changes_what_it_names_and_keeps_the_keys(admin):
    plaintext = new_key()
    tag = admin.create(document(admin, {"id": "k1", "key": plaintext}))
    before = keys_of(admin.stored())
    reply = admin.patch({"llm": {"models": {"m": {"heartbeatMs": 1000}}}, "defaults": {"plainTimeoutMs": 9}}, tag)
    assert reply.status == 200 and reply.headers["etag"] != tag, reply
    tree = admin.stored()
    assert tree["llm"]["models"]["m"]["heartbeatMs"] == 1000 and tree["defaults"] == {"plainTimeoutMs": 9}
    assert keys_of(tree) == before
    assert admin.patch({"defaults": None}, "*", "application/json").status == 200
    assert "defaults" not in admin.stored()


def test_a_patch_can_bring_a_model_with_a_plaintext_key_and_take_one_away(admin):
    plaintext = new_key()
    admin.create(document(admin))
    reply = admin.patch(document(admin, {"id": "k1", "key": plaintext}, name="new"), "*")
    assert reply.status == 200, reply
    assert sorted(models_of(admin)) == ["m", "new"]
    assert keys_of(admin.get().json(), "new")[0]["keyFingerprint"] == fingerprint(plaintext)
    assert admin.patch({"llm": {"models": {"m": None}}}, "*").status == 200
    assert models_of(admin) == ["new"]
    assert_clean([plaintext], admin.gateway.store.contents() | {"reply": reply.body})


def test_a_patch_is_under_the_rules_of_a_put(admin):
    assert_error(admin.patch({}, "*"), 404, "NOT_FOUND")
    tag = admin.create(document(admin))
    assert_error(admin.patch({}), 412, "PRECONDITION_REQUIRED")
    details = assert_error(admin.patch({}, '"stale"'), 409, "CONFLICT")
    assert f'"{details["currentVersion"]}"' == tag
    assert_error(admin.patch({}, tag, "text/plain"), 415, "UNSUPPORTED_MEDIA_TYPE")
    assert_error(admin.put(document(admin), tag, PATCH_TYPE), 415, "UNSUPPORTED_MEDIA_TYPE")
    assert paths_of(assert_error(admin.patch(b'{"a":1,"a":2}', tag), 400, "BAD_REQUEST")) == [""]
    assert paths_of(assert_error(admin.patch({"llm": {"model": {}}}, tag), 400, "BAD_REQUEST")) == ["/llm/model"]
    assert paths_of(assert_error(admin.patch([1], tag), 400, "BAD_REQUEST")) == [""]
    assert admin.get().headers["etag"] == tag


def test_a_patch_that_changes_nothing_makes_no_version(admin):
    tag = admin.create(document(admin))
    lines = len(admin.audit())
    reply = admin.patch({}, tag)
    assert reply.status == 200 and reply.headers["etag"] == tag
    assert len(admin.audit()) == lines


# History


def test_versions_are_listed_the_newest_first_and_shown_without_keys(admin):
    plaintexts = [new_key() for _ in range(3)]
    tags = [admin.create(document(admin, {"id": "k1", "key": key}, name=f"m{n}")) for n, key in enumerate(plaintexts)]
    body = admin.get(f"{CONFIG}/versions?limit=2").json()
    assert [f'"{line["version"]}"' for line in body["versions"]] == [tags[2], tags[1]]
    assert [line["isInForce"] for line in body["versions"]] == [True, False]
    assert [line["author"] for line in body["versions"]] == ["token"] * 2
    assert body["versions"][0]["time"] > body["versions"][1]["time"] and body["total"] >= 3
    old = admin.get(f"{CONFIG}/versions/{tags[0].strip(chr(34))}")
    assert keys_of(old.json(), "m0")[0]["keyFingerprint"] == fingerprint(plaintexts[0])
    assert set(keys_of(old.json(), "m0")[0]) == {"id", "ciphertextFingerprint", "keyFingerprint"}


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "x", "", "1.5"])
def test_a_limit_is_a_number_within_bounds(admin, limit):
    for path in (f"{CONFIG}/versions", f"{API}/audit-log"):
        assert_error(admin.get(f"{path}?limit={limit}"), 400, "BAD_REQUEST")


@pytest.mark.parametrize("version", ["none", "0" * 32, "0" * 33, "..", "%2e%2e%2f%2e%2e", "*", "lock", "log"])
def test_a_version_that_never_was_is_not_found(admin, version):
    admin.create(document(admin))
    assert_error(admin.get(f"{CONFIG}/versions/{version}"), 404, "NOT_FOUND")
    assert_error(admin.restore(version), 404, "NOT_FOUND")


def test_one_call_brings_a_version_back_with_its_keys(admin):
    gateway, plaintext, name = admin.gateway, new_key(), f"m-{secrets.token_hex(4)}"
    first = admin.create(document(admin, {"id": "k1", "key": plaintext}, name=name)).strip('"')
    second = admin.create(EMPTY)
    wait_until(lambda: name not in gateway.model_names(), "the second version is served", 5)
    reply = admin.restore(first, second)
    assert reply.status == 200, reply
    gateway.upstream.bind(plaintext, answer(200, chat.completion()))
    wait_until(lambda: name in gateway.model_names(), "the first version is served", 5)
    assert gateway.chat(name).status == 200
    line = admin.audit(1)[0]
    assert (line["action"], line["object"]) == ("restore", f"LLM_ROUTER_CONFIG/versions/{first}")
    assert f'"{line["versionBefore"]}"' == second
    logged = admin.wait_for_log("admin_write", version=line["versionAfter"], action="restore")
    assert (logged["object"], logged["restored"]) == ("LLM_ROUTER_CONFIG", first)


def test_a_restore_is_under_the_rules_of_a_put(admin):
    first = admin.create(document(admin)).strip('"')
    second = admin.create(EMPTY)
    assert_error(admin.ask("POST", f"{CONFIG}/versions/{first}/restore"), 412, "PRECONDITION_REQUIRED")
    details = assert_error(admin.restore(first, f'"{first}"'), 409, "CONFLICT")
    assert f'"{details["currentVersion"]}"' == second == admin.get().headers["etag"]
    reply = admin.ask("POST", f"{CONFIG}/versions/{first}/restore?dryRun=true", headers={"if-match": second})
    assert [change["path"] for change in changes_of(reply)] == ["/llm/models/m", "/tts"]
    assert admin.get().headers["etag"] == second


# Small entries


ENTRIES = {
    "DEFAULT_CHAT_MODEL": ("gpt", 5),
    "DEFAULT_TTS_MODEL": ("speech", "a|b"),
    "DEFAULT_TTS_VOICES": ({"speech": {"zh-CN": "v1", "en": "v2"}}, {"speech": {"zh_CN": "v"}}),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_has_versions_like_the_tree(admin, name):
    path, (good, bad) = f"{API}/entries/{name}", ENTRIES[name]
    assert_error(admin.get(path), 404, "NOT_FOUND")
    assert_error(admin.send("PUT", path, good), 412, "PRECONDITION_REQUIRED")
    assert_error(admin.send("PUT", path, bad, "*"), 400, "BAD_REQUEST")
    assert_error(admin.send("PUT", path, good, '"0123"'), 409, "CONFLICT")
    reply = admin.send("PUT", path, good, "*")
    assert reply.status == 200 and reply.headers["etag"] == f'"{reply.json()["version"]}"'
    got = admin.get(path)
    assert (got.json(), got.headers["etag"]) == (good, reply.headers["etag"])
    line = admin.audit(1)[0]
    assert (line["actor"], line["action"], line["object"]) == ("token", "put", name)
    assert line["changes"] == [{"field": "", "after": good}]


@pytest.mark.parametrize("name", ["LLM_ROUTER_CONFIG", "CALLER_KEYS", "default_chat_model", "X", "DEFAULT_CHAT_MODEL/x"])
def test_other_entries_are_not_reached_this_way(admin, name):
    assert_error(admin.get(f"{API}/entries/{name}"), 404, "NOT_FOUND")
    assert_error(admin.send("PUT", f"{API}/entries/{name}", "x", "*"), 404, "NOT_FOUND")


def test_the_default_model_is_served_at_once_and_may_be_set_before_its_model(admin):
    gateway, plaintext, name = admin.gateway, new_key(), f"m-{secrets.token_hex(4)}"
    assert admin.send("PUT", f"{API}/entries/DEFAULT_CHAT_MODEL", name, "*").status == 200
    gateway.upstream.bind(plaintext, answer(200, chat.completion()))
    admin.create(document(admin, {"id": "k1", "key": plaintext}, name=name))
    wait_until(lambda: gateway.chat("auto").status == 200, "the default model serves", 5)


# What is on record


def test_each_change_is_on_record_with_who_what_and_from_where(admin):
    plaintext = new_key()
    first = admin.create(document(admin, {"id": "k1", "key": plaintext}))
    headers = {"content-type": PATCH_TYPE, "if-match": first, "x-request-id": "change-of-mine"}
    body = json.dumps({"defaults": {"plainTimeoutMs": 9}}).encode()
    reply = admin.ask("PATCH", body=body, headers=headers)
    line = admin.audit(1)[0]
    assert f'"{line["versionBefore"]}"' == first and f'"{line["versionAfter"]}"' == reply.headers["etag"]
    assert line["time"].endswith("Z") and line["requestId"] == "change-of-mine"
    assert (line["actor"], line["action"], line["object"]) == ("token", "patch", "LLM_ROUTER_CONFIG")
    assert line["sourceAddress"] == "127.0.0.1"
    assert line["changes"] == [{"field": "/defaults", "after": {"plainTimeoutMs": 9}}]
    created = admin.audit(2)[1]
    [change] = created["changes"]
    assert keys_of(change["after"]) == keys_of(admin.get().json())
    logged = admin.wait_for_log("admin_write", version=line["versionAfter"])
    assert logged["action"] == "patch"
    assert (logged["actor"], logged["object"], logged["key_count"]) == ("token", "LLM_ROUTER_CONFIG", 1)
    assert (logged["source_address"], logged["request_id"]) == ("127.0.0.1", "change-of-mine")
    assert_clean([plaintext, admin.token], {"log": admin.process.log.read_bytes(), "audit": json.dumps(line).encode()})


def test_what_is_refused_is_not_on_record(admin):
    admin.create(document(admin))
    lines = admin.audit()
    admin.put({"llm": 5}, "*")
    admin.put(document(admin), '"stale"')
    admin.patch({"surprise": 1}, "*")
    assert admin.audit() == lines


def test_a_document_that_somebody_broke_can_be_replaced_but_not_patched(admin):
    admin.create(document(admin))
    admin.gateway.store.set_value("LLM_ROUTER_CONFIG", '{"llm":')
    assert_error(admin.get(), 500, "INTERNAL_SERVER_ERROR")
    assert_error(admin.patch({}, "*"), 500, "INTERNAL_SERVER_ERROR")
    assert admin.put(document(admin), "*").status == 200
    assert admin.get().status == 200

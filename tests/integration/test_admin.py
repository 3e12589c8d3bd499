"""The administrators' API: the routing tree over HTTP, with versions and with keys that go in only."""

import copy
import json
import secrets
import subprocess
import threading

import pytest

import chat
from administrator import (
    API,
    CONFIG,
    Admin,
    Deployment,
    ask_as_user,
    ask_directly,
    assert_error,
    document,
    fingerprint,
    keys_of,
    new_key,
    paths_of,
)
from processes import Process, program, wait_until
from scripts import answer
from test_secrets import assert_clean

MAX_BODY_BYTES = 200_000
EMAIL = "Ada.Lovelace@example.org"


@pytest.fixture(scope="module", params=["directory", "postgres"])
def module_admin(request, tmp_path_factory, base_urls, upstream):
    postgres = request.getfixturevalue("postgres") if request.param == "postgres" else None
    gateway = Deployment(tmp_path_factory.mktemp("admin"), base_urls, upstream, postgres, workers=2)
    gateway.start()
    flags = ["--max-body-bytes", str(MAX_BODY_BYTES), "--auth-failures-per-minute", "1000"]
    admin = Admin(gateway, flags, {"LLM_ROUTER_ADMIN_EMAILS": f"x@y.z, {EMAIL}"})
    try:
        admin.wait_for_socket()
        yield admin
    finally:
        admin.process.stop()
        gateway.stop()


@pytest.fixture
def admin(module_admin, upstream):
    """The API, without any document yet, and an upstream without memories."""
    upstream.reset()
    module_admin.gateway.remove_entry("LLM_ROUTER_CONFIG")
    yield module_admin
    module_admin.assert_unbroken()
    module_admin.gateway.assert_unbroken()


# Who asks


@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
@pytest.mark.parametrize("key", [None, "", "wrong", "the token's start", "the caller's", "in upper case"])
def test_who_is_no_administrator_gets_and_changes_nothing(admin, method, key):
    keys = {
        "the token's start": admin.token[:-1],
        "the caller's": admin.gateway.caller_key,
        "in upper case": admin.token.upper(),
    }
    before = admin.create(document(admin, {"id": "k1", "key": new_key()}))
    body = json.dumps(document(admin, {"id": "k1", "key": new_key()})).encode()
    headers = {"content-type": "application/json", "if-match": "*"}
    reply = admin.ask(method, body=body if method != "GET" else b"", headers=headers, key=keys.get(key, key))
    assert_error(reply, 401, "UNAUTHORIZED")
    assert reply.headers["www-authenticate"] == "Bearer"
    assert "etag" not in reply.headers
    assert admin.get().headers["etag"] == before


@pytest.mark.parametrize(
    "params, is_admin",
    [
        ({"REMOTE_USER": EMAIL}, True),
        ({"REMOTE_USER": EMAIL.lower()}, True),
        ({"REMOTE_USER": "x@y.z"}, True),
        ({"REMOTE_USER": "someone@example.org"}, False),
        ({"REMOTE_USER": "z"}, False),
        ({"REMOTE_USER": f"x@y.z, {EMAIL}"}, False),
        ({"REMOTE_USER": ""}, False),
        ({"HTTP_REMOTE_USER": EMAIL}, False),  # a header that a caller made up
        ({}, False),
    ],
    ids=str,
)
def test_a_user_of_the_web_server_is_an_administrator_if_listed(admin, params, is_admin):
    admin.create(document(admin))
    status, _, _ = ask_as_user(admin, **params)
    is_known = bool(params.get("REMOTE_USER"))
    assert status == (200 if is_admin else 403 if is_known else 401)


@pytest.mark.parametrize(
    "token, words",
    [(None, "LLM_ROUTER_ADMIN_TOKEN_FILE"), ("short", "16"), ("", "16")],
    ids=["no administrators", "a short token", "an empty token"],
)
def test_without_a_usable_way_to_know_administrators_it_does_not_start(module_admin, tmp_path, token, words):
    environment = module_admin.gateway.environment() | {"LLM_ROUTER_RUN_DIR": str(tmp_path / "run")}
    if token is not None:
        (tmp_path / "token").write_text(token)
        environment["LLM_ROUTER_ADMIN_TOKEN_FILE"] = str(tmp_path / "token")
    process = Process(
        [program("llm-router-admin"), "--listen", f"unix:{tmp_path}/s.sock"], environment, tmp_path / "log"
    )
    assert process.wait(5) == 1
    assert words in process.log_text()


# Reading and writing


def test_before_any_document_there_is_none_to_read(admin):
    assert_error(admin.get(), 404, "NOT_FOUND")


def test_a_put_without_if_match_is_refused(admin):
    assert_error(admin.put(document(admin)), 412, "PRECONDITION_REQUIRED")
    assert_error(admin.get(), 404, "NOT_FOUND")


def test_a_star_creates_and_the_entity_tag_names_what_was_stored(admin):
    reply = admin.put(document(admin), "*")
    assert reply.status == 200, reply
    version = reply.json()["version"]
    assert reply.headers["etag"] == f'"{version}"'
    got = admin.get()
    assert got.status == 200
    assert got.headers["etag"] == f'"{version}"'
    assert got.headers["cache-control"] == "no-store"
    assert list(got.json()["llm"]["models"]) == ["m"]


def test_a_version_of_nothing_is_a_conflict(admin):
    details = assert_error(admin.put(document(admin), '"0123"'), 409, "CONFLICT")
    assert details == {"currentVersion": None}


@pytest.mark.parametrize("form", ["{}", "W/{}", " {} ", "unquoted"])
def test_an_entity_tag_is_taken_in_every_form(admin, form):
    tag = admin.create(document(admin))
    if_match = tag.strip('"') if form == "unquoted" else form.format(tag)
    assert admin.put(document(admin, name="m2"), if_match).status == 200
    assert list(admin.get().json()["llm"]["models"]) == ["m2"]


def test_a_stale_version_is_a_conflict_that_names_the_current_one(admin):
    stale = admin.create(document(admin))
    current = admin.put(document(admin, name="second"), stale)
    assert current.status == 200
    details = assert_error(admin.put(document(admin, name="third"), stale), 409, "CONFLICT")
    assert details == {"currentVersion": current.json()["version"]}
    assert list(admin.get().json()["llm"]["models"]) == ["second"]
    assert admin.put(document(admin, name="third"), f'"{details["currentVersion"]}"').status == 200


@pytest.mark.parametrize("tag", ['"*"', "W/*", 'W/"*"'])
def test_only_a_bare_asterisk_stands_for_any_version(admin, tag):
    """Inside quotes it is an entity tag that no version has (RFC 9110, section 13.1.1)."""
    admin.create(document(admin))
    assert_error(admin.put(document(admin, name="second"), tag), 409, "CONFLICT")
    assert list(admin.get().json()["llm"]["models"]) != ["second"]


def test_what_was_read_can_be_written_back_unchanged(admin):
    admin.create(document(admin, {"id": "k1", "key": new_key()}, {"id": "k2", "key": new_key()}))
    before, ciphertexts = admin.get(), keys_of(admin.stored())
    assert admin.put(before.body, before.headers["etag"]).status == 200
    assert admin.get().json() == before.json()
    assert keys_of(admin.stored()) == ciphertexts


def test_of_two_writes_on_one_version_exactly_one_wins(admin):
    for round_number in range(8):
        tag = admin.create(document(admin, name=f"start-{round_number}"))
        replies = {}
        barrier = threading.Barrier(2)

        def put(name, tag=tag, replies=replies, barrier=barrier):
            barrier.wait()
            replies[name] = admin.put(document(admin, name=name), tag)

        writers = [threading.Thread(target=put, args=(name,)) for name in ("one", "two")]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(20)
        assert sorted(reply.status for reply in replies.values()) == [200, 409]
        winner, loser = sorted(replies, key=lambda name: replies[name].status)
        assert list(admin.get().json()["llm"]["models"]) == [winner]
        assert replies[loser].json()["details"]["currentVersion"] == replies[winner].json()["version"]


# Keys


def test_a_plaintext_key_is_sealed_shown_by_its_prints_and_used(admin):
    gateway, plaintext, name = admin.gateway, new_key(), f"m-{secrets.token_hex(4)}"
    admin.create(document(admin, {"id": "k1", "key": plaintext}, name=name))
    (stored,) = keys_of(admin.stored(), name)
    assert set(stored) == {"id", "ciphertext"}
    assert keys_of(admin.get().json(), name) == [
        {
            "id": "k1",
            "ciphertextFingerprint": fingerprint(stored["ciphertext"]),
            "keyFingerprint": fingerprint(plaintext),
        }
    ]
    gateway.upstream.bind(plaintext, answer(200, chat.completion()))
    wait_until(lambda: name in gateway.model_names(), "the keeper has seen the document", 5)
    assert gateway.chat(name).status == 200
    assert [record.key for record in gateway.upstream.records] == [plaintext]


def test_one_key_is_replaced_while_others_are_kept(admin):
    first, second, third = new_key(), new_key(), new_key()
    tag = admin.create(document(admin, {"id": "k1", "key": first}, {"id": "k2", "key": second}))
    kept_ciphertext = keys_of(admin.stored())[0]["ciphertext"]
    tree = admin.get().json()
    keys = keys_of(tree)
    del keys[0]["keyFingerprint"]  # it is shown only
    keys[1] = {"id": "k2", "key": third}
    assert admin.put(tree, tag).status == 200
    assert keys_of(admin.stored())[0]["ciphertext"] == kept_ciphertext
    assert [key["keyFingerprint"] for key in keys_of(admin.get().json())] == [fingerprint(first), fingerprint(third)]


def test_a_ciphertext_is_taken_only_where_it_opens(admin):
    keys = admin.gateway.keys
    good = {"id": "k1", "ciphertext": keys.ciphertext("m", "k1")}
    admin.create(document(admin, good))
    assert keys_of(admin.stored()) == [good]
    for ciphertext in (keys.ciphertext("m", "k2"), keys.ciphertext("other", "k1"), good["ciphertext"][:-2], "v1.x", 5):
        reply = admin.put(document(admin, {"id": "k1", "ciphertext": ciphertext}), "*")
        details = assert_error(reply, 400, "BAD_REQUEST")
        assert "/llm/models/m/upstreams/0/keys/0/ciphertext" in paths_of(details)


def test_a_print_of_no_stored_key_is_a_fault(admin):
    tag = admin.create(document(admin, {"id": "k1", "key": new_key()}))
    tree = admin.get().json()
    moved, unknown = copy.deepcopy(tree), copy.deepcopy(tree)
    keys_of(moved)[0]["id"] = "k2"  # a ciphertext is bound to its place
    keys_of(unknown)[0]["ciphertextFingerprint"] = "00000000"
    for wrong in (moved, unknown):
        details = assert_error(admin.put(wrong, tag), 400, "BAD_REQUEST")
        assert paths_of(details) == ["/llm/models/m/upstreams/0/keys/0/ciphertextFingerprint"]


@pytest.mark.parametrize(
    "key",
    ["", " ", "sk canary\n", "sk-canary-\u007f", "x" * 8193, 5, None, ["sk-canary"]],
    ids=lambda key: repr(key)[:20],
)
def test_what_no_header_could_carry_is_no_key(admin, key):
    reply = admin.put(document(admin, {"id": "k1", "key": key}), "*")
    details = assert_error(reply, 400, "BAD_REQUEST")
    assert "/llm/models/m/upstreams/0/keys/0/key" in paths_of(details)
    assert_error(admin.get(), 404, "NOT_FOUND")


def test_a_plaintext_stays_in_the_request_alone(admin):
    """Also one that was refused, replaced, or came with a conflict."""
    gateway = admin.gateway
    plaintexts = [new_key() for _ in range(6)]
    name = f"m-{secrets.token_hex(4)}"
    key = [{"id": "k1", "key": plaintext} for plaintext in plaintexts]
    replies = [admin.put(document(admin, key[0], name=name), "*")]
    tag = replies[0].headers["etag"]
    replies.append(admin.put(document(admin, key[1], name=name), tag))  # replaces
    replies.append(admin.put(document(admin, key[2], name=name), tag))  # conflicts
    replies.append(admin.put(document(admin, key[3] | {"ciphertext": "v1.x"}, name=name), "*"))  # two forms
    replies.append(admin.put(document(admin, key[4] | {plaintexts[4]: 1}, name=name) | {"surprise": 1}, "*"))
    replies.append(admin.put(json.dumps(document(admin, key[5], name=name)).encode()[:-1], "*"))  # half of a document
    assert [reply.status for reply in replies] == [200, 200, 409, 400, 400, 400]
    wait_until(lambda: name in gateway.model_names(), "the keeper has seen the document", 5)
    replies.append(admin.get())
    texts = {f"reply {n}": reply.body + str(reply.headers).encode() for n, reply in enumerate(replies)}
    replies.append(admin.get(f"{API}/audit-log"))
    texts |= gateway.contents()
    texts |= gateway.store.contents()
    assert any(name.encode() in text for place, text in texts.items() if "LLM_ROUTER_CONFIG" in place or "test_" in place)
    assert any(place.startswith("run/snapshot.") for place in texts), texts.keys()
    del texts[admin.token_file.name], texts["master.key"]
    texts["reply 4"] = texts["reply 4"].replace(plaintexts[4].encode(), b"")  # the name of an unknown member
    assert_clean([*plaintexts, admin.token, gateway.master_key], texts)


# Faults


def test_every_fault_of_a_document_is_named_and_nothing_stored(admin):
    tree = document(admin, {"id": "k1", "key": new_key()}, {"id": "k1"})
    tree["surprise"] = 1
    tree["llm"]["models"]["m"]["upstreams"][0]["baseURL"] = "ftp://x"
    details = assert_error(admin.put(tree, "*"), 400, "BAD_REQUEST")
    paths = paths_of(details)
    for place in ("/surprise", "/llm/models/m/upstreams/0/baseURL", "/llm/models/m/upstreams/0/keys/1"):
        assert place in paths, paths
    assert_error(admin.get(), 404, "NOT_FOUND")


def test_a_refused_document_leaves_the_one_in_force(admin):
    tag = admin.create(document(admin))
    assert_error(admin.put({"llm": {"models": 5}}, tag), 400, "BAD_REQUEST")
    assert admin.get().headers["etag"] == tag


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"null", b"[]", b'"x"', b"\xff", b'{"llm":{},"llm":{}}', b'{"llm":"\\u0000"}'],
    ids=repr,
)
def test_what_is_no_document_is_refused(admin, body):
    details = assert_error(admin.put(body, "*"), 400, "BAD_REQUEST")
    assert len(paths_of(details)) > 0


def test_hundreds_of_faults_are_counted_and_the_first_hundred_named(admin):
    tree = document(admin) | {f"surprise-{n}": n for n in range(300)}
    reply = admin.put(tree, "*")
    details = assert_error(reply, 400, "BAD_REQUEST")
    assert len(paths_of(details)) == 100
    assert "300" in reply.json()["message"]


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/x-www-form-urlencoded"])
def test_only_json_is_taken(admin, content_type):
    assert_error(admin.put(document(admin), "*", content_type), 415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_document_over_the_limit_is_refused(admin):
    tree = document(admin)
    filler = MAX_BODY_BYTES - len(json.dumps(tree))
    fits = json.dumps(tree).encode() + b" " * filler
    assert_error(admin.put(fits + b" ", "*"), 413, "PAYLOAD_TOO_LARGE")
    assert_error(admin.put(fits + b" " * 20_000_000, "*"), 413, "PAYLOAD_TOO_LARGE")
    assert_error(admin.get(), 404, "NOT_FOUND")
    assert admin.put(fits, "*").status == 200


@pytest.mark.parametrize(
    "path, methods, allowed",
    [
        (CONFIG, ["POST", "DELETE"], "GET, HEAD, PUT, PATCH"),
        (CONFIG + "/rotate-key", ["GET", "HEAD", "PUT"], "POST"),
        (CONFIG + "/versions", ["POST"], "GET, HEAD"),
        (CONFIG + "/versions/v", ["PUT"], "GET, HEAD"),
        (CONFIG + "/versions/v/restore", ["GET", "DELETE"], "POST"),
        ("/api/admin/entries/DEFAULT_CHAT_MODEL", ["POST", "DELETE", "PATCH"], "GET, HEAD, PUT"),
        ("/api/admin/caller-keys", ["PUT", "DELETE"], "GET, HEAD, POST"),
        ("/api/admin/caller-keys/a/b", ["GET", "PUT", "POST"], "PATCH, DELETE"),
        ("/api/admin/status", ["POST"], "GET, HEAD"),
        ("/api/admin/audit-log", ["DELETE"], "GET, HEAD"),
        ("/api/admin/metrics", ["PUT"], "GET, HEAD"),
    ],
)
def test_other_methods_are_named_not_allowed(admin, path, methods, allowed):
    for method in methods:
        status, headers, body = ask_directly(admin, method, path)
        assert (status, headers["allow"]) == (405, allowed), (method, body)


def test_head_tells_what_get_would_without_its_body(admin):
    tag = admin.create(document(admin))
    reply = admin.gateway.call("HEAD", CONFIG, headers={"connection": "close"}, key=admin.token)
    while reply.read_some():
        pass
    head, _, body = reply.received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ") and body == b"", reply.received
    assert tag.encode() in head


@pytest.mark.parametrize("path", ["/api/admin", "/api/admin/", "/api/admin/other", CONFIG + "/", CONFIG + "x"])
def test_other_paths_hold_nothing(admin, path):
    assert_error(admin.ask("GET", path), 404, "NOT_FOUND")


def test_a_path_that_only_begins_like_ours_holds_nothing(admin):
    """Some web servers pass it on, and some do not."""
    path = "/api/adminX" + CONFIG
    status, _, body = ask_directly(admin, path=path)
    assert (status, json.loads(body)["error"]) == (404, "NOT_FOUND")
    assert admin.ask("GET", path).status == 404


# The master key


NO_MODELS = {"llm": {"models": {}}, "tts": {"models": {}}}


def test_without_a_master_key_only_keys_cannot_be_set(module_admin, base_urls, upstream, tmp_path):
    gateway = Deployment(tmp_path, base_urls, upstream)
    bare = Admin(gateway, environment={"LLM_ROUTER_MASTER_KEY_FILE": ""})
    try:
        bare.wait_for_socket()
        key = {"id": "k1", "key": new_key()}
        replies = [put_directly(bare, document(module_admin, key)), put_directly(bare, NO_MODELS)]
    finally:
        bare.process.stop()
    status, body = replies[0]
    assert status == 400
    assert paths_of(body["details"]) == ["/llm/models/m/upstreams/0/keys/0/key"]
    assert "master key" in body["details"][0]["message"]
    assert replies[1][0] == 200


def put_directly(admin, tree):
    """Past lighttpd, which this gateway does not have."""
    status, _, text = ask_directly(admin, "PUT", body=json.dumps(tree).encode(), HTTP_IF_MATCH="*")
    return status, json.loads(text)


@pytest.mark.parametrize("name", ["llm-router", "llm-router-admin"])
def test_more_headers_than_parameters_can_hold_are_not_promised(name):
    done = subprocess.run([program(name), "--max-header-bytes", "65537"], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "--max-header-bytes" in done.stderr and "from 1024 to 65536" in done.stderr

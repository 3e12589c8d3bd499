"""What a write tells others through Redis: after it is in force, in order, and not when it is not.

The scenarios that the plan listed for the write endpoint (U9):

| scenario | here |
|---|---|
| 1 GET hides ciphertexts | test_admin: test_a_plaintext_key_is_sealed_shown_by_its_prints_and_used |
| 2 a PUT without If-Match is 412 | test_admin: test_a_put_without_if_match_is_refused |
| 3 a stale If-Match is 409 with the version in force | test_admin: test_a_stale_version_is_a_conflict_that_names_the_current_one |
| 4 what is stored is encrypted and serves | test_admin: test_a_plaintext_key_is_sealed_shown_by_its_prints_and_used |
| 5 a PUT is told to subscribers | test_a_put_is_told_when_it_is_in_force |
| 6 a PUT leaves a line of the log and of the audit log | test_admin_changes: test_each_change_is_on_record_with_who_what_and_from_where |
| 7 a transaction that fails is told to nobody | test_what_the_database_refuses_is_told_to_nobody |
| 8 two PUTs are told in their order | test_puts_are_told_in_their_order |
| 9 who is not listed is refused | test_admin_identity: test_a_user_who_is_known_but_not_listed_is_told_so_and_changes_nothing |
| 10 a forged message changes nothing | test_plane: test_messages_that_do_not_verify_change_nothing_and_are_counted |

Of scenario 6 the telemetry event has no counterpart: administrators' requests are in the log and in the
audit log, and events are of callers' requests.
"""

import json

import pytest

from administrator import API, Admin, Deployment, ask_directly
from operator_shell import Database
from redis import Redis
from test_secrets import assert_clean

PREFIX = "news:"
CHANNEL = f"{PREFIX}configkv:invalidate"


@pytest.fixture(scope="module")
def module_admin(tmp_path_factory, base_urls, upstream, postgres):
    redis, store = Redis(), Database(postgres)
    store.environment |= {"REDIS_URL": redis.address(), "LLM_ROUTER_REDIS_PREFIX": PREFIX}
    admin = Admin(Deployment(tmp_path_factory.mktemp("news"), base_urls, upstream, store=store))
    admin.redis, admin.postgres = redis, postgres
    try:
        admin.wait_for_socket()
        yield admin
    finally:
        admin.process.stop()
        redis.stop()
    admin.assert_unbroken()


class Listener:
    def __init__(self, admin):
        self._client = admin.redis.connect()
        assert self._client.command("SUBSCRIBE", CHANNEL)[0] == "subscribe"

    def hear(self):
        kind, channel, payload = self._client.read()
        assert (kind, channel) == ("message", CHANNEL)
        return json.loads(payload)


@pytest.fixture
def admin(module_admin):
    """With somebody who listens."""
    module_admin.listener = Listener(module_admin)
    return module_admin


def put(admin, name, if_match="*", **params):
    tree = {"credentials": {"c": {"key": "sk-canary-of-the-news"}}}
    tree |= {"llm": {"models": {name: {"upstreams": [{"baseURL": "https://x.example", "keys": [{"id": "k", "credential": "c"}]}]}}}}
    status, headers, body = ask_directly(admin, "PUT", body=json.dumps(tree).encode(), HTTP_IF_MATCH=if_match, **params)
    return status, headers.get("etag", "").strip('"'), body


def test_a_put_is_told_when_it_is_in_force(admin):
    status, version, body = put(admin, "told")
    assert status == 200, body
    news = admin.listener.hear()
    assert set(news) == {"key", "version", "publishedAt", "hmac"}
    assert (news["key"], news["version"]) == ("LLM_ROUTER_CONFIG", version)
    assert admin.wait_for_log("admin_write", version=version)["is_published"] is True
    assert_clean(["sk-canary-of-the-news", admin.gateway.master_key], {"news": json.dumps(news).encode()})


def test_puts_are_told_in_their_order(admin):
    versions = [put(admin, f"m{n}")[1] for n in range(10)]
    assert [admin.listener.hear()["version"] for _ in versions] == versions


def test_each_entry_is_told_by_its_name(admin):
    status, _, body = ask_directly(admin, "POST", f"{API}/caller-keys", b'{"id":"told"}')
    assert status == 201, body
    path = f"{API}/entries/DEFAULT_CHAT_MODEL"
    assert ask_directly(admin, "PUT", path, b'"told"', HTTP_IF_MATCH="*")[0] == 200
    assert [admin.listener.hear()["key"] for _ in range(2)] == ["CALLER_KEYS", "DEFAULT_CHAT_MODEL"]


def test_what_changes_nothing_is_told_to_nobody(admin):
    put(admin, "before")
    admin.listener.hear()
    assert put(admin, "rehearsed", QUERY_STRING="dryRun=true")[0] == 200
    assert put(admin, "stale", '"stale"')[0] == 409
    assert put(admin, "a|b")[0] == 400
    version = put(admin, "after")[1]
    assert admin.listener.hear()["version"] == version


def test_what_the_database_refuses_is_told_to_nobody(admin):
    name = admin.gateway.store.name
    before = put(admin, "before")[1]
    admin.listener.hear()
    # A trigger is the last word before the commit.
    admin.postgres.sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no'; END $$;"
        "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON config_kv_history INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION refuse()",
        name,
    )
    try:
        status, _, body = put(admin, "refused")
        assert (status, json.loads(body)["error"]) == (503, "CONFIG_UNAVAILABLE"), body
    finally:
        admin.postgres.sql("DROP TRIGGER refuse ON config_kv_history; DROP FUNCTION refuse", name)
    assert ask_directly(admin)[1]["etag"] == f'"{before}"'
    version = put(admin, "after")[1]
    assert admin.listener.hear()["version"] == version
    versions = [line["versionAfter"] for line in admin_audit(admin)[:2]]
    assert versions == [version, before], "the refused change is not on record"


def admin_audit(admin):
    _, _, body = ask_directly(admin, path=f"{API}/audit-log", QUERY_STRING="limit=10")
    return json.loads(body)["entries"]


def test_without_redis_a_put_is_in_force_all_the_same(admin):
    admin.redis.end()
    try:
        status, version, body = put(admin, "unheard")
        assert status == 200, body
        assert admin.wait_for_log("admin_write", version=version)["is_published"] is False
    finally:
        admin.redis.start()
    assert put(admin, "heard")[0] == 200

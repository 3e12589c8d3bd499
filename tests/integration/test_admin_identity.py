"""Who may administer: by token or as a user of the web server, not from another site's page,
and not by guessing."""

import json

import pytest

from administrator import API, CONFIG, Admin, Deployment, ask_as_user, ask_directly, document
from processes import wait_until

EMAIL = "ada@example.org"
LIMIT = 5
HERE = "router.example:8443"


@pytest.fixture
def admin(tmp_path, base_urls, upstream):
    """One with default settings but for the number of failures, which it has not seen any of."""
    admin = Admin(
        Deployment(tmp_path, base_urls, upstream),
        ["--auth-failures-per-minute", str(LIMIT)],
        {"LLM_ROUTER_ADMIN_EMAILS": EMAIL},
    )
    admin.wait_for_socket()
    yield admin
    admin.process.stop()
    admin.assert_unbroken()


# (9) A user who is not listed


def test_a_user_who_is_known_but_not_listed_is_told_so_and_changes_nothing(admin):
    body = json.dumps({"llm": {"models": {}}}).encode()
    for method in ("GET", "PUT"):
        status, headers, text = ask_as_user(admin, method, body=body, REMOTE_USER="eve@example.org", HTTP_IF_MATCH="*")
        assert (status, json.loads(text)["error"]) == (403, "FORBIDDEN")
        assert "www-authenticate" not in headers
    assert ask_as_user(admin, REMOTE_USER=EMAIL)[0] == 404


# Another site's page


CROSS = [
    {"HTTP_ORIGIN": "https://evil.example"},
    {"HTTP_ORIGIN": f"https://evil.example/{HERE}"},
    {"HTTP_ORIGIN": "https://router.example"},
    {"HTTP_ORIGIN": f"https://{HERE}0"},
    {"HTTP_ORIGIN": "null"},
    {"HTTP_ORIGIN": ""},
    {"HTTP_SEC_FETCH_SITE": "cross-site"},
    {"HTTP_SEC_FETCH_SITE": "same-site"},
    {"HTTP_SEC_FETCH_SITE": "surprise"},
    {"HTTP_SEC_FETCH_SITE": "cross-site", "HTTP_ORIGIN": f"https://{HERE}"},
]
OURS = [
    {},
    {"HTTP_ORIGIN": f"https://{HERE}"},
    {"HTTP_ORIGIN": f"https://{HERE.upper()}"},
    {"HTTP_SEC_FETCH_SITE": "same-origin"},
    {"HTTP_SEC_FETCH_SITE": "none"},
    {"HTTP_SEC_FETCH_SITE": "same-origin", "HTTP_ORIGIN": "https://behind.a.proxy.example"},
]
WRITES = [
    ("PUT", CONFIG),
    ("PATCH", CONFIG),
    ("POST", f"{CONFIG}/rotate-key"),
    ("POST", f"{CONFIG}/versions/v/restore"),
    ("PUT", f"{API}/entries/DEFAULT_CHAT_MODEL"),
    ("POST", f"{API}/caller-keys"),
    ("DELETE", f"{API}/caller-keys/tests"),
]


@pytest.mark.parametrize("params", CROSS, ids=str)
def test_a_page_of_another_site_changes_nothing(admin, params):
    before = admin.gateway.store.contents()
    for method, path in WRITES:
        for ask in (ask_directly, ask_as_user):
            user = {"REMOTE_USER": EMAIL} if ask is ask_as_user else {}
            status, _, text = ask(admin, method, path, b"{}", HTTP_HOST=HERE, HTTP_IF_MATCH="*", **user, **params)
            assert (status, json.loads(text)["error"]) == (403, "FORBIDDEN"), (method, path, text)
    after = admin.gateway.store.contents()  # an empty file may have come meanwhile: the spool's first
    assert after.keys() >= before.keys()
    assert not [name for name, content in after.items() if content != before.get(name, b"")]


@pytest.mark.parametrize("params", OURS, ids=str)
def test_our_own_page_and_programs_may_change_things(admin, params):
    body = json.dumps({"llm": {"models": {}}}).encode()
    status, _, text = ask_as_user(
        admin, "PUT", body=body, REMOTE_USER=EMAIL, HTTP_HOST=HERE, HTTP_IF_MATCH="*", **params
    )
    assert status == 200, text


def test_reading_is_left_to_the_browsers_rules(admin):
    status, headers, _ = ask_as_user(admin, REMOTE_USER=EMAIL, HTTP_SEC_FETCH_SITE="cross-site")
    assert status == 404 and "access-control-allow-origin" not in headers


# Guessing


def test_who_guesses_is_told_to_wait_and_keeps_nobody_out(admin):
    def guess(address="192.0.2.1"):
        status, headers, _ = ask_directly(admin, token="a-wrong-token-canary", REMOTE_ADDR=address)
        return status, int(headers.get("retry-after", 0))

    assert [guess()[0] for _ in range(LIMIT)] == [401] * LIMIT
    status, retry_after_s = guess()
    assert status == 429 and 0 < retry_after_s <= 60
    assert guess("192.0.2.2")[0] == 401
    assert guess("2001:db8::1")[0] == 401
    assert ask_directly(admin, REMOTE_ADDR="192.0.2.1")[0] == 404
    assert ask_as_user(admin, REMOTE_USER=EMAIL, REMOTE_ADDR="192.0.2.1")[0] == 404
    assert guess()[0] == 429


def test_failures_are_counted_over_all_workers_and_logged_without_what_was_guessed(admin):
    statuses = [ask_directly(admin, token="a-wrong-token-canary", REMOTE_ADDR="192.0.2.1")[0] for _ in range(20)]
    assert statuses == [401] * LIMIT + [429] * (20 - LIMIT)
    wait_until(lambda: len(admin.log_lines("authentication_failed")) == LIMIT, "the failures are logged")
    line = admin.log_lines("authentication_failed")[0]
    assert (line["level"], line["source_address"]) == ("warn", "192.0.2.1") and line["request_id"]
    assert "canary" not in admin.process.log_text()


def test_a_user_who_is_not_listed_guesses_no_more_than_others(admin):
    def guess():
        return ask_directly(
            admin, token="a-wrong-token-canary", REMOTE_ADDR="192.0.2.1", REMOTE_USER="eve@example.org"
        )[0]

    assert [guess() for _ in range(LIMIT + 2)] == [403] * LIMIT + [429] * 2
    wait_until(lambda: len(admin.log_lines("authentication_failed")) == LIMIT, "the failures are logged")
    line = admin.log_lines("authentication_failed")[0]
    assert (line["source_address"], line["user"]) == ("192.0.2.1", "eve@example.org")


# Bodies


def test_a_body_has_at_most_four_mebibytes(admin):
    tree = json.dumps(document(admin)).encode()
    most = 4 * 1024 * 1024
    status, _, text = ask_directly(admin, "PUT", body=tree + b" " * (most - len(tree) + 1), HTTP_IF_MATCH="*")
    assert (status, json.loads(text)["error"]) == (413, "PAYLOAD_TOO_LARGE")
    assert ask_directly(admin, "PUT", body=tree + b" " * (most - len(tree)), HTTP_IF_MATCH="*")[0] == 200

"""Who may read /metrics and /status: whom the settings name, and administrators."""

import json

import pytest

import chat
import fastcgi
from errors import assert_error
from processes import wait_until
from scripts import answer
from tree import Tree, hostile, model

PAGES = ["/metrics", "/status"]
OPEN = ["/livez", "/readyz"]
EMAIL = "ada@example.org"
TOKEN = "metrics-canary-0123456789abcdef"


def tree():
    return Tree(model("m", hostile("a", "k1")))


def start(start_gateway, tmp_path, access=None):
    token_file = tmp_path / "admin.token"
    token_file.write_text(TOKEN + "\n")
    environment = {"LLM_ROUTER_ADMIN_TOKEN_FILE": str(token_file), "LLM_ROUTER_ADMIN_EMAILS": EMAIL}
    if access is not None:
        environment["LLM_ROUTER_METRICS_ACCESS"] = access
    return start_gateway(tree(), workers=1, router_environment=environment)


def ask_health(gateway, path, method="GET", **params):
    """Past lighttpd, at the health socket."""
    call = fastcgi.FastCgiCall(gateway.run_dir / "health.sock", fastcgi.meta_variables(method, path, {}, 0) | params)
    call.send_body(b"")
    return call.reply()


def statuses(gateway, paths, **params):
    return {ask_health(gateway, path, **params).status for path in paths}


def test_by_default_this_host_and_administrators_may_read_them(start_gateway, tmp_path):
    gateway = start(start_gateway, tmp_path)
    for path in PAGES:
        assert gateway.get(path, key=None).status == 200  # through lighttpd, from 127.0.0.1
    assert statuses(gateway, PAGES) == {200}  # at the socket itself
    for address in ("127.0.0.2", "::1", "::ffff:127.0.0.1"):
        assert statuses(gateway, PAGES, REMOTE_ADDR=address) == {200}, address
    for address in ("192.0.2.1", "2001:db8::1", "::ffff:192.0.2.1", ""):
        assert statuses(gateway, PAGES, REMOTE_ADDR=address) == {403}, address
        assert statuses(gateway, OPEN, REMOTE_ADDR=address) == {200}, address
    stranger = {"REMOTE_ADDR": "192.0.2.1"}
    assert statuses(gateway, PAGES, **stranger, HTTP_AUTHORIZATION=f"Bearer {TOKEN}") == {200}
    assert statuses(gateway, PAGES, **stranger, REMOTE_USER=EMAIL.upper()) == {200}
    assert statuses(gateway, PAGES, **stranger, HTTP_AUTHORIZATION=f"Bearer {TOKEN}x") == {403}
    assert statuses(gateway, PAGES, **stranger, HTTP_AUTHORIZATION=f"Bearer {gateway.caller_key}") == {403}
    assert statuses(gateway, PAGES, **stranger, REMOTE_USER="eve@example.org") == {403}


def test_where_loopback_is_not_listed_only_administrators_of_this_host_read_them(start_gateway, tmp_path):
    gateway = start(start_gateway, tmp_path, access="127.0.0.2, 192.0.2.0/24, 2001:db8::/32")
    for path in PAGES:
        assert_error(gateway.get(path, key=None), "/v1", 403, "forbidden")
        assert gateway.get(path, key=TOKEN).status == 200
        assert gateway.get(path, key=None, headers={"x-forwarded-for": "192.0.2.1"}).status == 403
    for path in OPEN:
        assert gateway.get(path, key=None).status == 200
    for address in ("127.0.0.2", "192.0.2.255", "::ffff:192.0.2.1", "2001:db8:ffff::1"):
        assert statuses(gateway, PAGES, REMOTE_ADDR=address) == {200}, address
    for address in ("127.0.0.1", "192.0.3.0", "2001:db9::1"):
        assert statuses(gateway, PAGES, REMOTE_ADDR=address) == {403}, address


@pytest.mark.parametrize("access, status", [("all", 200), ("none", 403)])
def test_all_and_none_mean_what_they_say(start_gateway, tmp_path, access, status):
    gateway = start(start_gateway, tmp_path, access=access)
    for address in ("127.0.0.1", "192.0.2.1", ""):
        assert statuses(gateway, PAGES, REMOTE_ADDR=address) == {status}
    assert statuses(gateway, PAGES, REMOTE_ADDR="192.0.2.1", HTTP_AUTHORIZATION=f"Bearer {TOKEN}") == {200}


def test_a_refusal_is_in_the_mounts_form_and_says_no_more(start_gateway, tmp_path):
    gateway = start(start_gateway, tmp_path)
    for mount, code in (("/v1", "forbidden"), ("/api/v1/openai", "FORBIDDEN")):
        reply = ask_health(gateway, f"{mount}/metrics", REMOTE_ADDR="192.0.2.1")
        assert assert_error(reply, mount, 403, code) is None
        assert "www-authenticate" not in reply.headers and reply.headers["x-request-id"]
        for hint in (b"token", b"Bearer", b"address", b"192.0.2.1", b"administrator", b"loopback"):
            assert hint not in reply.body
    assert ask_health(gateway, "/metrics", method="POST", REMOTE_ADDR="192.0.2.1").status == 405


def test_a_source_that_is_refused_is_logged_once_a_minute_without_what_it_tried(start_gateway, tmp_path):
    gateway = start(start_gateway, tmp_path)
    spooled = gateway.spool.read_bytes()
    for address in ["192.0.2.1"] * 5 + ["192.0.2.2"] * 5:
        assert statuses(gateway, PAGES, REMOTE_ADDR=address, HTTP_AUTHORIZATION="Bearer guessed-canary") == {403}

    def refusals():
        lines = [json.loads(line) for line in gateway.router.log_text().splitlines() if '"metrics_refused"' in line]
        return [(line["level"], line["path"], line["source_address"]) for line in lines]

    expected = [("warn", "/metrics", "192.0.2.1"), ("warn", "/metrics", "192.0.2.2")]
    wait_until(lambda: refusals() == expected, "each is logged once")
    assert "canary" not in gateway.router.log_text()
    assert gateway.spool.read_bytes() == spooled


@pytest.mark.parametrize("content, reason", [(None, "No such file"), (b"too-short\n", "at least 16")])
def test_a_token_that_is_none_makes_nobody_an_administrator_and_callers_are_served(start_gateway, tmp_path, content, reason):
    file = tmp_path / "a.token"
    if content is not None:
        file.write_bytes(content)
    flags = ["--metrics-access", "none", "--admin-token-file", str(file)]
    gateway = start_gateway(tree(), workers=1, flags=flags)
    [said] = gateway.log_lines("admin_token_unusable")
    assert str(file) in said["message"] and reason in said["message"], said
    gateway.script("m", "k1", answer(200, chat.completion()))
    assert gateway.chat("m").status == 200
    assert gateway.get("/metrics", key="too-short").status == gateway.get("/metrics", key="").status == 403


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("LLM_ROUTER_METRICS_ACCESS", "loopback,10.0.0.1/8", '"10.0.0.1/8" is not the beginning of a network: that is'),
        ("LLM_ROUTER_METRICS_ACCESS", "localhost", '"localhost" is no address or network'),
    ],
)
def test_what_is_wrong_is_said_at_the_start(start_gateway, name, value, message):
    gateway = start_gateway(tree(), workers=1)
    gateway.router.stop()
    gateway._router_environment = {name: value}
    gateway.start_router()
    assert gateway.router.wait(5) == 2
    last = gateway.router.log_text().splitlines()[-1]
    assert last.startswith("llm-router: --") and message in last, last

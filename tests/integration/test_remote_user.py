"""--caller-auth remote-user: the web server has authenticated, and says whom in
REMOTE_USER. Spoken to without a web server, as one that authenticates would."""

import hashlib
import json

import pytest

import chat
from fastcgi import FastCgiCall, request_params
from gateway import MOUNTS
from processes import wait_until
from scripts import answer
from tree import Tree, hostile, model

NAME = "alice@example.org"


@pytest.fixture
def remote(start_gateway):
    gateway = start_gateway(workers=2, caller_auth="remote-user")
    document, _ = gateway.render(Tree(model("m", hostile("a", "k1")), model("other", hostile("a", "k1"))))
    gateway.write_entry("LLM_ROUTER_CONFIG", document)
    gateway.reload()
    wait_until(lambda: ask(gateway, REMOTE_USER=NAME)[0] not in (404, 503), "the tree is in force")
    gateway.upstream.reset()
    return gateway


def ask(gateway, mount="/v1", **params):
    body = json.dumps(chat.request("m")).encode()
    params = request_params(f"{mount}/chat/completions", len(body), "no-key-of-ours", **params)
    call = FastCgiCall(gateway.socket, params)
    call.send_body(body)
    return call.read_reply()


def test_who_the_web_server_names_may_use_every_model(remote):
    remote.script("m", "k1", answer(200, chat.completion()))
    status, headers, body = ask(remote, REMOTE_USER=NAME)
    assert status == 200, body
    event = remote.spool.wait_event(headers["x-request-id"])
    assert event["end"] == "done"
    assert event["remote_user"] == hashlib.sha256(NAME.encode()).hexdigest()[:16]
    assert "key_id" not in event and "owner" not in event


@pytest.mark.parametrize("mount", MOUNTS)
@pytest.mark.parametrize(
    "params",
    [{}, {"REMOTE_USER": ""}, {"HTTP_REMOTE_USER": NAME}, {"REDIRECT_REMOTE_USER": NAME}],
    ids=["none", "empty", "a header of the caller's", "another parameter"],
)
def test_whom_the_web_server_does_not_name_is_refused(remote, mount, params):
    status, headers, body = ask(remote, mount, **params)
    assert status == 401
    error = json.loads(body)["error"]
    assert (error if isinstance(error, str) else error["code"]) in ("UNAUTHORIZED", "invalid_api_key")
    event = remote.spool.wait_event(headers["x-request-id"])
    assert event["end"] == "refused" and "remote_user" not in event
    assert remote.upstream.records == []


def test_a_callers_key_counts_for_nothing(remote):
    status, _, _ = ask(remote, HTTP_AUTHORIZATION=f"Bearer {remote.caller_key}")
    assert status == 401


def test_the_name_is_written_nowhere(remote):
    remote.script("m", "k1", answer(200, chat.completion()))
    _, headers, _ = ask(remote, REMOTE_USER=NAME)
    remote.spool.wait_event(headers["x-request-id"])
    for record in remote.upstream.records:
        assert NAME not in repr(vars(record))
    assert NAME.encode() not in remote.spool.read_bytes()
    assert NAME not in remote.router.log_text()
    assert NAME.encode() not in (remote.run_dir / "llm-router.map").read_bytes()

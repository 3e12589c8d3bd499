"""The edge: what is refused before any upstream is asked, and how."""

import json
import re

import pytest

import chat
from errors import assert_error
from fastcgi import FastCgiCall, request_params
from gateway import MOUNTS
from scripts import answer
from tree import Tree, hostile, model

TREE = Tree(model("m", hostile("a", "k1")))
LIMIT = 25_000_000

at_each_mount = pytest.mark.parametrize("mount", MOUNTS)


def code(mount, v1, coded):
    return v1 if mount == "/v1" else coded


def message_of(reply):
    body = reply.json()
    return body["error"]["message"] if isinstance(body["error"], dict) else body["message"]


@at_each_mount
def test_a_body_over_the_limit_is_refused(gateway, mount):
    reply = gateway.post(b'{"model":"m","x":"' + b"x" * LIMIT + b'"}', mount)
    assert_error(reply, mount, 413, code(mount, "body_too_large", "PAYLOAD_TOO_LARGE"))
    assert gateway.event(reply)["end"] == "refused"


@at_each_mount
def test_a_body_over_the_limit_is_refused_before_it_comes(gateway, mount):
    """Not a byte of the body is sent: the answer must not wait for it."""
    params = request_params(f"{mount}/chat/completions", LIMIT + 1, gateway.caller_key)
    call = FastCgiCall(gateway.socket, params, timeout=5)
    status, headers, _ = call.read_reply()
    assert status == 413
    assert "x-request-id" in headers


def test_a_body_of_exactly_the_limit_is_served(gateway):
    gateway.script("m", "k1", answer(200, chat.completion()))
    frame = b'{"model":"m","x":""}'
    body = frame[:-2] + b"x" * (LIMIT - len(frame)) + frame[-2:]
    assert len(body) == LIMIT
    assert gateway.post(body).status == 200


def test_a_body_that_ends_early_is_refused(gateway):
    params = request_params("/v1/chat/completions", 100, gateway.caller_key)
    call = FastCgiCall(gateway.socket, params, timeout=5)
    call.send_body(b'{"model":"m"}')
    status, _, body = call.read_reply()
    assert status == 400
    assert json.loads(body)["error"]["code"] == "body_incomplete"


@at_each_mount
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_another_method_is_refused_with_the_allowed_ones(gateway, mount, method):
    reply = gateway.call(method, f"{mount}/chat/completions").reply()
    assert_error(reply, mount, 405, code(mount, "method_not_allowed", "METHOD_NOT_ALLOWED"))
    assert "POST" in reply.headers["allow"]


@at_each_mount
@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", "multipart/form-data; boundary=x"],
)
def test_another_media_type_is_refused(gateway, mount, content_type):
    reply = gateway.post(chat.request("m"), mount, headers={"content-type": content_type})
    assert_error(reply, mount, 415, code(mount, "unsupported_media_type", "UNSUPPORTED_MEDIA_TYPE"))


@pytest.mark.parametrize(
    "content_type", ["application/json", "application/json; charset=utf-8", "Application/JSON ;charset=UTF-8"]
)
def test_json_is_accepted_however_it_is_written(gateway, content_type):
    gateway.script("m", "k1", answer(200, chat.completion()))
    assert gateway.post(chat.request("m"), headers={"content-type": content_type}).status == 200


@at_each_mount
@pytest.mark.parametrize(
    "body, offset",
    [(b"", 0), (b"{", 1), (b'{"model":"m",}', 13), (b'{"model":"m"} x', 14), (b'{"a":01}', 6), (b'{"a":"\xff"}', 6)],
    ids=["empty", "open", "comma", "rest", "number", "UTF-8"],
)
def test_malformed_json_is_refused_with_the_place_of_the_fault(gateway, mount, body, offset):
    reply = gateway.post(body, mount)
    assert_error(reply, mount, 400, code(mount, "invalid_json", "BAD_REQUEST"))
    assert re.search(rf"\b{offset}\b", message_of(reply)), message_of(reply)
    assert gateway.upstream.records == []


@at_each_mount
@pytest.mark.parametrize(
    "body, word",
    [
        ('{"model":7}', "model"),
        ('{"model":["m"]}', "model"),
        ('{"model":true}', "model"),
        ('{"model":"m","stream":"yes"}', "stream"),
        ('{"model":"m","stream":1}', "stream"),
        ('{"model":"m","stream":true,"stream_options":7}', "stream_options"),
        ("[]", "object"),
        ('"text"', "object"),
    ],
)
def test_a_member_of_the_wrong_type_is_refused_by_name(gateway, mount, body, word):
    reply = gateway.post(body.encode(), mount)
    assert_error(reply, mount, 400, code(mount, "invalid_request", "BAD_REQUEST"))
    assert word in message_of(reply)


@at_each_mount
@pytest.mark.parametrize(
    "body",
    ['{"model":"m","model":"m"}', '{"model":"x","mod\\u0065l":"m"}', '{"stream":true,"model":"m","stream":false}'],
)
def test_a_repeated_member_that_we_read_is_refused(gateway, mount, body):
    """Two readers of such a body may disagree on what it says."""
    reply = gateway.post(body.encode(), mount)
    assert reply.status == 400
    assert gateway.upstream.records == []


@at_each_mount
def test_too_many_header_bytes_are_refused(gateway, mount):
    reply = gateway.post(chat.request("m"), mount, headers={f"x-filler-{n}": "x" * 4000 for n in range(12)})
    assert_error(reply, mount, 431, code(mount, "headers_too_large", "HEADERS_TOO_LARGE"))


@pytest.mark.parametrize(
    "path", ["/v1/", "/v1/nothing", "/v1/chat", "/v1/chat/completions/x", "/api/v1/openai/nothing", "/v1/../v1/nothing"]
)
def test_an_unknown_path_is_not_found(gateway, path):
    mount = "/v1" if path.startswith("/v1") else "/api/v1/openai"
    reply = gateway.call("POST", path, b"{}").reply()
    assert_error(reply, mount, 404, code(mount, "not_found", "NOT_FOUND"))


def test_a_request_id_is_made_where_the_caller_sent_none(gateway):
    first, second = gateway.get("/v1/models"), gateway.get("/v1/models")
    assert re.fullmatch(r"[0-9a-f]{32}", first.request_id)
    assert first.request_id != second.request_id


def test_the_callers_request_id_is_kept(gateway):
    reply = gateway.get("/v1/models", headers={"x-request-id": "caller-id_1.2"})
    assert reply.request_id == "caller-id_1.2"


@pytest.mark.parametrize("value", ["", "x" * 300, 'a"b', "a b", "a\tb", "a:b", "é"])
def test_a_request_id_that_could_spoil_a_log_is_replaced(gateway, value):
    reply = gateway.get("/v1/models", headers={"x-request-id": value})
    assert re.fullmatch(r"[0-9a-f]{32}", reply.request_id)


@pytest.mark.parametrize("path, status", [("/livez", {"status": "live"}), ("/readyz", None)])
def test_health_needs_no_key(gateway, path, status):
    reply = gateway.get(path, key=None)
    assert reply.status == 200
    if status is not None:
        assert reply.json() == status
    else:
        assert reply.json()["status"] == "ready"
        assert set(reply.json()["checks"].values()) == {"ok"}
    assert "x-request-id" in reply.headers

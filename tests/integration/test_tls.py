"""Upstreams behind TLS: those that nobody vouches for get no request, and fall back."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

import chat
from errors import assert_exhausted
from processes import wait_until
from scripts import answer, close, data, end, hang, head, reset, stream
from test_deadlines import Timed, reasons
from tree import Tree, at, hostile, model

IMPOSTORS = {"untrusted": "issuer certificate", "expired": "expired", "misnamed": "subject name"}  # what the log says
CONNECT_MS = 400
PATIENT_MS = 10000

TREE = Tree(
    model("trusted", at("tls", "a", "k1")),
    model("two", at("tls", "a", "k1"), at("tls", "b", "k2")),
    *[model(kind, at(kind, "a", "k1"), hostile("b", "k2")) for kind in IMPOSTORS],
    model("only-impostor", at("untrusted", "a", "k1", "k2")),
    model("mute", at("mute", "a", "k1", connectTimeoutMs=CONNECT_MS), at("tls", "b", "k2")),
    model("patient", at("mute", "a", "k1", connectTimeoutMs=PATIENT_MS)),
)

both = pytest.mark.parametrize("is_stream", [False, True], ids=["plain", "streamed"])


def good(is_stream):
    return stream(*chat.GOOD_STREAM) if is_stream else answer(200, chat.completion())


@both
def test_a_trusted_upstream_answers_and_its_handshake_is_in_the_record(gateway, is_stream):
    gateway.script("trusted", "k1", good(is_stream))
    reply = gateway.chat("trusted", is_stream)
    assert reply.status == 200, reply
    (attempt,) = gateway.event(reply)["attempts"]
    assert attempt["verdict"] == "ok"
    assert attempt.get("reused") or attempt["tls_us"] > attempt["connect_us"] > 0


@pytest.mark.parametrize("kind", IMPOSTORS)
@both
def test_an_upstream_that_nobody_vouches_for_gets_no_request_and_the_next_one_answers(gateway, kind, is_stream):
    gateway.script(kind, "k2", good(is_stream))
    reply = gateway.chat(kind, is_stream)
    assert reply.status == 200, reply
    event = gateway.event(reply)
    assert reasons(event)[0] == ("connect", "tls")
    assert event["attempts"][0]["bytes_out"] == 0
    (line,) = wait_until(lambda: gateway.log_lines_of(reply), "the log says so")
    assert IMPOSTORS[kind] in line["detail"]
    assert len(gateway.upstream.records) == 1


@both
def test_when_no_upstream_is_trusted_the_caller_is_told_that_none_was_reached(gateway, is_stream):
    reply = gateway.chat("only-impostor", is_stream)
    assert_exhausted(reply, "/v1", 502, "BAD_GATEWAY", 2, 1, "connect")
    assert gateway.upstream.records == []


@both
def test_a_handshake_that_hangs_meets_the_connect_deadline(gateway, is_stream):
    gateway.script("mute", "k2", good(is_stream))
    with Timed() as timed:
        reply = gateway.chat("mute", is_stream)
    assert reply.status == 200, reply
    timed.assert_about(CONNECT_MS)
    assert reasons(gateway.event(reply))[0] == ("timeout", "timeout_connect")


def is_somebody_connected_to(url):
    peer = f":{urlsplit(url).port:04X} 01 "  # established
    return any(peer in line for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines())


def test_a_caller_that_leaves_during_a_handshake_is_noticed(gateway, base_urls):
    url = base_urls["mute"]("a")
    wait_until(lambda: not is_somebody_connected_to(url), "who asked before has gone")
    call = gateway.begin("patient")
    wait_until(lambda: is_somebody_connected_to(url), "the handshake has begun")
    call.close()
    event = gateway.event(call)
    assert event["end"] == "client_gone", event
    assert event["total_us"] < PATIENT_MS * 1000, f"noticed late: {event}"
    assert gateway.upstream.records == []


@pytest.mark.parametrize("ending", [close(), reset()], ids=["close", "reset"])
def test_a_cut_inside_tls_is_a_cut(gateway, ending):
    gateway.script("two", "k1", [head(), data(chat.HELLO), ending])
    reply = gateway.chat("two", stream=True)
    *_, last = chat.payloads(reply.body)
    assert "error" in last and "[DONE]" not in last
    assert gateway.event(reply)["end"] == "cut"


def test_a_cut_before_content_falls_back(gateway):
    gateway.script("two", "k1", [head(), data(chat.ROLE), close()])
    gateway.script("two", "k2", good(True))
    reply = gateway.chat("two", stream=True)
    assert reply.body == "".join(chat.GOOD_STREAM).encode()


def test_a_caller_that_leaves_ends_the_request_at_an_upstream_behind_tls(gateway):
    gateway.script("trusted", "k1", [head(), data(chat.HELLO), hang()])
    call = gateway.begin("trusted", stream=True)
    call.read_until("Hello")
    left = call.close()
    assert gateway.upstream.records[0].wait_closed() - left < 1.0


def test_a_large_body_and_a_large_reply_pass_through_tls(gateway):
    text = "x" * 3_000_000
    gateway.script("trusted", "k1", [head(), data(chat.chunk({"content": text})), data(chat.FINISH), data(chat.DONE), end()])
    request = chat.request("trusted", True, messages=[{"role": "user", "content": text}])
    reply = gateway.post(request)
    assert chat.text_of(reply.body) == text
    assert text.encode() in gateway.upstream.records[0].body


@pytest.mark.parametrize("content", [None, "", "no certificate"], ids=["missing", "empty", "text"])
def test_without_a_usable_file_of_authorities_https_fails_closed_and_http_is_served(start_gateway, tmp_path, content):
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    tree = Tree(model("m", at("tls", "a", "k1"), hostile("b", "k2")))
    gateway = start_gateway(tree, workers=2, flags=["--ca-file", str(path)])
    gateway.script("m", "k2", answer(200, chat.completion()))
    reply = gateway.chat("m")
    assert reply.status == 200, reply
    assert reasons(gateway.event(reply))[0] == ("connect", "tls")
    (warning,) = [line for line in gateway.router.log_text().splitlines() if "ca_file_unusable" in line]
    assert str(path) in warning and '"level":"warn"' in warning


def test_the_systems_variable_names_the_authorities_where_no_setting_does(start_gateway, authority):
    tree = Tree(model("m", at("tls", "a", "k1")))
    gateway = start_gateway(tree, workers=2, router_environment={"SSL_CERT_FILE": str(authority.file)})
    gateway.script("m", "k1", answer(200, chat.completion()))
    assert gateway.chat("m").status == 200

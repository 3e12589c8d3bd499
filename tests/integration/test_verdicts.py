"""Each row of the verdict table: what comes next, and what the caller sees when
nothing does."""

import hashlib
import json

import pytest

import chat
from errors import assert_exhausted
from gateway import MOUNTS
from scripts import answer, close, data, hang, head, reset, stream
from tree import Tree, elsewhere, hostile, model, refused

TREE = Tree(
    model("last", hostile("a", "k1")),
    model("pair", hostile("a", "k1", "k2"), hostile("b", "k3")),
    model("refused", refused("a", "k1")),
    model("refused-first", refused("a", "k1"), hostile("b", "k3")),
    model("nowhere", elsewhere("http://no-such-host.invalid/v1", "a", "k1")),
    perAttemptTimeoutMs=700,
    fullChainTimeoutMs=10000,
)

OPENAI_401 = json.dumps(chat.error("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"))
EMPTY_ACCOUNT = json.dumps(chat.error("You exceeded your current quota.", "insufficient_quota", "insufficient_quota"))

# name: (script, verdict, next, the caller's status and code, lastStatusCode)
FAILURES = {
    "401": (answer(401, OPENAI_401), "auth", "k2", 502, "BAD_GATEWAY", 401),
    "402": (answer(402, "{}"), "quota", "k2", 502, "BAD_GATEWAY", 402),
    "429 with an empty account": (answer(429, EMPTY_ACCOUNT), "quota", "k2", 502, "BAD_GATEWAY", 429),
    "429": (answer(429, "{}"), "rate", "k2", 503, "SERVICE_UNAVAILABLE", 429),
    "500": (answer(500, "{}"), "server", "k2", 502, "BAD_GATEWAY", 500),
    "503": (answer(503, "{}"), "server", "k2", 502, "BAD_GATEWAY", 503),
    "529": (answer(529, "{}"), "server", "k2", 502, "BAD_GATEWAY", 529),
    "599": (answer(599, "not even JSON"), "server", "k2", 502, "BAD_GATEWAY", 599),
    "404": (answer(404, "{}"), "config", "k3", 502, "BAD_GATEWAY", 404),
    "302": (answer(302, "", {"location": "http://127.0.0.1:1/"}), "config", "k3", 502, "BAD_GATEWAY", 302),
    "408": (answer(408, "{}"), "timeout", "k2", 504, "GATEWAY_TIMEOUT", 408),
    "504": (answer(504, "{}"), "timeout", "k2", 504, "GATEWAY_TIMEOUT", 504),
    "418": (answer(418, "{}"), "other", None, 502, "BAD_GATEWAY", 418),
    "an empty 200": (answer(200, ""), "server", "k2", 502, "BAD_GATEWAY", "invalid"),
    "a 200 of blanks": (answer(200, " \r\n\n  "), "server", "k2", 502, "BAD_GATEWAY", "invalid"),
    "a 200 that is no JSON": (answer(200, "all is well"), "server", "k2", 502, "BAD_GATEWAY", "invalid"),
    "a 200 that is cut": (
        [head(200, {"content-type": "application/json"}, length=500), data('{"choices":[{"in'), close()],
        "server", "k2", 502, "BAD_GATEWAY", "invalid",
    ),
    "a 200 with an error in it": (
        answer(200, json.dumps(chat.error())), "server", "k2", 502, "BAD_GATEWAY", "invalid",
    ),
    "silence": ([hang()], "timeout", "k2", 504, "GATEWAY_TIMEOUT", "timeout"),
    "headers, then silence": ([head(), hang()], "timeout", "k2", 504, "GATEWAY_TIMEOUT", "timeout"),
    "a reset before the headers": ([reset()], "connect", "k2", 504, "GATEWAY_TIMEOUT", "reset"),
    "a close before the headers": ([close()], "connect", "k2", 504, "GATEWAY_TIMEOUT", "reset"),
}  # fmt: skip

# What only a stream can do.
STREAM_FAILURES = {
    "an error event first": (stream(chat.event(chat.error())), "server", "k2", 502, "BAD_GATEWAY", "invalid"),
    "an error event of a dead key": (
        stream(chat.event(OPENAI_401)), "auth", "k2", 502, "BAD_GATEWAY", "invalid",
    ),
    "an error event after the role": (
        stream(chat.ROLE, chat.event(chat.error())), "server", "k2", 502, "BAD_GATEWAY", "invalid",
    ),
    "nothing but [DONE]": (stream(chat.DONE), "server", "k2", 502, "BAD_GATEWAY", "invalid"),
    "a stream without events": (stream(), "server", "k2", 502, "BAD_GATEWAY", "invalid"),
    "a cut after the role": ([head(), data(chat.ROLE), close()], "server", "k2", 502, "BAD_GATEWAY", "invalid"),
    "a reset after the role": ([head(), data(chat.ROLE), reset()], "server", "k2", 502, "BAD_GATEWAY", "invalid"),
    "comments, then silence": (
        [head(), data(": processing\n\n"), hang()], "timeout", "k2", 504, "GATEWAY_TIMEOUT", "timeout",
    ),
    "the role, then silence": (
        [head(), data(chat.ROLE), hang()], "timeout", "k2", 504, "GATEWAY_TIMEOUT", "timeout",
    ),
}  # fmt: skip

CASES = [(name, False, row) for name, row in FAILURES.items()]
CASES += [(name, True, row) for name, row in (FAILURES | STREAM_FAILURES).items()]
cases = pytest.mark.parametrize(
    "is_stream, row", [pytest.param(s, row, id=f"{name}, {'streamed' if s else 'plain'}") for name, s, row in CASES]
)

FAULTS = {
    "auth": ("config", False),
    "quota": ("config", False),
    "rate": ("upstream", True),
    "server": ("upstream", True),
    "timeout": ("upstream", True),
    "connect": ("upstream", True),
    "config": ("config", False),
    "client": ("client", False),
    "other": ("upstream", False),
}


def good(is_stream):
    return stream(*chat.GOOD_STREAM) if is_stream else answer(200, chat.completion())


def key_fp(gateway, model_name, key_id):
    return hashlib.sha256(gateway.keys.plaintext(model_name, key_id).encode()).hexdigest()[:8]


@cases
def test_a_failure_moves_on_to_the_candidate_that_the_table_says(gateway, is_stream, row):
    script, verdict, following, status, code, last = row
    gateway.script("pair", "k1", script)
    for key in ("k2", "k3"):
        gateway.script("pair", key, good(is_stream))
    reply = gateway.chat("pair", is_stream)
    event = gateway.event(reply)
    tried = [attempt["key_fp"] for attempt in event["attempts"]]
    first = event["attempts"][0]
    assert (first["verdict"], (first["fault"], first["counts_for_health"])) == (verdict, FAULTS[verdict]), first
    if following is None:
        assert_exhausted(reply, "/v1", status, code, 1, 1, last)
        assert tried == [key_fp(gateway, "pair", "k1")]
        return
    assert reply.status == 200, reply
    assert tried == [key_fp(gateway, "pair", "k1"), key_fp(gateway, "pair", following)]
    assert event["attempts"][1]["verdict"] == "ok"
    assert event["end"] == "done"
    assert event["fallback_depth"] == 1


@pytest.mark.parametrize("mount", MOUNTS)
@cases
def test_the_last_failure_decides_what_the_caller_sees(gateway, mount, is_stream, row):
    script, verdict, _, status, code, last = row
    gateway.script("last", "k1", script)
    reply = gateway.chat("last", is_stream, mount)
    assert_exhausted(reply, mount, status, code, 1, 1, last)
    event = gateway.event(reply)
    assert event["end"] == "error_before"
    assert event["status"] == status
    assert not event["committed"]
    assert event["attempts"][0]["verdict"] == verdict


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_refused_address_is_a_bad_gateway_and_moves_on(gateway, is_stream):
    reply = gateway.chat("refused", is_stream)
    assert_exhausted(reply, "/v1", 502, "BAD_GATEWAY", 1, 1, "connect")
    assert gateway.event(reply)["attempts"][0]["verdict"] == "connect"
    gateway.script("refused-first", "k3", good(is_stream))
    assert gateway.chat("refused-first", is_stream).status == 200


def test_an_unresolvable_address_is_a_bad_gateway(gateway):
    reply = gateway.chat("nowhere")
    assert_exhausted(reply, "/v1", 502, "BAD_GATEWAY", 1, 1, "connect")


CALLERS_MISTAKES = {
    "a context too long": (
        400,
        chat.error("This model's maximum context length is 10.", "invalid_request_error", "context_length_exceeded"),
    ),
    "an unsupported parameter": (
        400,
        chat.error("Unsupported parameter: 'x'.", "invalid_request_error", "unsupported_parameter"),
    ),
    "a body too large": (413, chat.error("Too large.", "invalid_request_error", "request_too_large")),
}


@pytest.mark.parametrize("mount", MOUNTS)
@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("status, body", CALLERS_MISTAKES.values(), ids=CALLERS_MISTAKES.keys())
def test_the_callers_mistake_is_passed_through_and_tried_nowhere_else(gateway, mount, is_stream, status, body):
    text = json.dumps(body, indent=3)
    gateway.script("pair", "k1", answer(status, text))
    reply = gateway.chat("pair", is_stream, mount)
    assert (reply.status, reply.body) == (status, text.encode())
    event = gateway.event(reply)
    assert [(a["verdict"], a["fault"]) for a in event["attempts"]] == [("client", "client")]
    assert len(gateway.upstream.records) == 1


def test_an_unknown_refusal_is_asked_of_one_further_candidate(gateway):
    gateway.script("pair", "k1", answer(400, '{"error":{"message":"Hm."}}'))
    for key in ("k2", "k3"):
        gateway.script("pair", key, answer(200, chat.completion("from another")))
    reply = gateway.chat("pair")
    assert reply.status == 200
    assert len(gateway.upstream.records) == 2


def test_an_unknown_refusal_that_another_candidate_repeats_is_passed_through(gateway):
    first = '{"error":{"message":"Hm, the first."}}'
    gateway.script("pair", "k1", answer(422, first))
    for key in ("k2", "k3"):
        gateway.script("pair", key, answer(422, '{"error":{"message":"Hm, the second."}}'))
    reply = gateway.chat("pair")
    assert (reply.status, reply.body.decode()) == (422, first)
    assert len(gateway.upstream.records) == 2

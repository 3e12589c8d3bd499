"""Heartbeats: comments between the events of a stream where nothing else goes out.
Before content they commit the status and nothing more. The bounds leave room for
a busy machine."""

import json
import time

import openai
import pytest

import chat
from errors import V1_CODES
from scripts import answer, data, end, hang, head, pause, stream
from tree import Tree, hostile, model
from web_servers import CALLER, REWRITTEN

BEAT = ": heartbeat\n\n"
BEAT_S = 0.2
SLACK_S = 0.5

TREE = Tree(
    model("m", hostile("a", "k1"), hostile("b", "k2"), heartbeatMs=200),
    model("calm", hostile("a", "k1"), hostile("b", "k2"), heartbeatMs=800),
    model("hasty", hostile("a", "k1"), heartbeatMs=10),
    model("default", hostile("a", "k1")),
    model("off", hostile("a", "k1"), heartbeatMs=0),
    perAttemptTimeoutMs=1500,
    streamIdleTimeoutMs=20000,
)

SUCCESS = "".join(chat.GOOD_STREAM)
REFUSAL = chat.error("Too long.", "invalid_request_error", "context_length_exceeded")


def beats(text):
    return text.count(BEAT)


def split(body):
    """The heartbeats before the first other event, and the rest."""
    text = body.decode()
    count = 0
    while text.startswith(BEAT):
        text = text[len(BEAT) :]
        count += 1
    return count, text


def last_payload(body):
    return json.loads(chat.payloads(body)[-1])


# Before content


FAILURES = {
    "a status": [pause(0.7), *answer(500, "{}")],
    "silence": [hang()],
    "a head and no more": [head(), hang()],
    "a role, then an error": [head(), data(chat.ROLE), pause(0.7), data(chat.event(chat.error()))],
    "its own comments": [head(), *[data(": wait\n\n"), pause(0.2)] * 4, data(chat.event(chat.error()))],
}


@pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES.keys())
def test_fallback_goes_on_behind_heartbeats(gateway, failure):
    gateway.script("m", "k1", failure)
    gateway.script("m", "k2", stream(*chat.GOOD_STREAM))
    reply = gateway.chat("m", stream=True)
    assert reply.status == 200 and reply.is_whole
    count, rest = split(reply.body)
    assert 2 <= count <= 8
    assert rest == SUCCESS, "what the first upstream sent must not be there"
    event = gateway.event(reply)
    assert event["end"] == "done" and event["committed"] and event["status"] == 200
    assert [attempt["verdict"] for attempt in event["attempts"]][1] == "ok"
    assert event["ttft_us"] > 650_000, "a heartbeat is no content"


def test_a_heartbeat_commits_the_head_of_a_stream(gateway):
    gateway.script("m", "k1", [pause(1.0), *stream(*chat.GOOD_STREAM)])
    start = time.monotonic()
    call = gateway.begin("m", stream=True)
    came = call.read_until(BEAT) - start
    assert BEAT_S <= came < BEAT_S + SLACK_S
    reply = call.reply()
    assert reply.headers["content-type"] == "text/event-stream"
    assert reply.headers["cache-control"] == "no-cache"
    assert reply.headers["x-request-id"] == call.request_id
    assert split(reply.body)[1] == SUCCESS


def test_the_clock_runs_from_the_start_of_the_request_over_all_attempts(gateway):
    gateway.script("calm", "k1", [pause(0.5), *answer(500, "{}")])
    gateway.script("calm", "k2", [pause(0.9), *stream(*chat.GOOD_STREAM)])
    start = time.monotonic()
    call = gateway.begin("calm", stream=True)
    came = call.read_until(BEAT) - start
    assert 0.8 <= came < 1.2, f"after {came:.3f} s; counted from the second attempt it would be 1.3 s"
    assert split(call.reply().body) == (1, SUCCESS)


def test_a_final_failure_behind_heartbeats_is_the_error_event_and_the_end(gateway):
    gateway.script("m", "k1", [pause(0.5), *answer(500, "{}")])
    gateway.script("m", "k2", answer(429, "{}"))
    reply = gateway.chat("m", stream=True)
    assert reply.status == 200 and reply.is_whole
    assert split(reply.body)[0] >= 2
    assert len(chat.payloads(reply.body)) == 1
    error = last_payload(reply.body)["error"]
    assert error["code"] == V1_CODES["SERVICE_UNAVAILABLE"] and error["message"]
    event = gateway.event(reply)
    assert event["end"] == "error_before" and event["committed"] and event["status"] == 200
    assert event["code"] == error["code"]
    assert "ttft_us" not in event
    assert len(event["attempts"]) == 2


REFUSALS = {
    "as OpenAI has it": (json.dumps(REFUSAL), REFUSAL),
    "indented": (json.dumps(REFUSAL, indent=2), REFUSAL),
    "as validators have it": (
        '{"detail":[{"loc":["body","n"],"msg":"Input should be 1","type":"literal_error"}]}',
        {
            "error": {
                "message": "The upstream refused the request.",
                "type": "invalid_request_error",
                "param": None,
                "code": "upstream_refused",
                "details": {
                    "detail": [{"loc": ["body", "n"], "msg": "Input should be 1", "type": "literal_error"}]
                },
            }
        },
    ),
}


@pytest.mark.parametrize("body, expected", REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_behind_heartbeats_is_an_error_event_with_the_upstreams_words(gateway, body, expected):
    gateway.script("m", "k1", [pause(0.5), *answer(400, body)])
    gateway.script("m", "k2", answer(400, body))
    reply = gateway.chat("m", stream=True)
    assert reply.status == 200 and reply.is_whole
    assert [json.loads(payload) for payload in chat.payloads(reply.body)] == [expected]
    event = gateway.event(reply)
    assert event["end"] == "refused" and event["code"] == "upstream_refused" and event["committed"]


def test_by_default_nothing_is_committed_before_content(gateway):
    gateway.script("default", "k1", [pause(1.0), *answer(500, "{}")])
    assert gateway.chat("default", stream=True).status == 502


@pytest.mark.parametrize("name", ["m", "hasty"])
def test_a_plain_request_has_no_heartbeats(gateway, name):
    gateway.script(name, "k1", [pause(0.7), *answer(200, chat.completion())])
    reply = gateway.chat(name)
    assert reply.body == chat.completion().encode()
    assert reply.headers["content-type"] == "application/json"


# After content


def test_heartbeats_come_between_events_when_nothing_else_does(gateway):
    script = [head(), data(chat.HELLO), pause(1.1), data(chat.WORLD), data(chat.FINISH), data(chat.DONE), end()]
    gateway.script("m", "k1", script)
    call = gateway.begin("m", stream=True)
    start = call.read_until("Hello")
    came = call.read_until(BEAT) - start
    assert BEAT_S - 0.05 <= came < BEAT_S + SLACK_S
    text = call.reply().body.decode()
    assert 2 <= beats(text) <= 5
    assert text.replace(BEAT, "") == chat.HELLO + chat.WORLD + chat.FINISH + chat.DONE
    assert text.startswith(chat.HELLO + BEAT) and text.endswith(chat.FINISH + chat.DONE)


def test_a_stream_that_flows_has_no_heartbeats(gateway):
    script = [head(), *[data(chat.HELLO), pause(0.1)] * 12, data(chat.FINISH), data(chat.DONE), end()]
    gateway.script("calm", "k1", script)
    reply = gateway.chat("calm", stream=True)
    assert reply.body.decode() == chat.HELLO * 12 + chat.FINISH + chat.DONE


def test_by_default_a_silence_of_fifteen_seconds_has_a_heartbeat(gateway):
    script = [head(), data(chat.HELLO), pause(15.8), data(chat.FINISH), data(chat.DONE), end()]
    gateway.script("default", "k1", script)
    call = gateway.begin("default", stream=True)
    start = call.read_until("Hello")
    came = call.read_until(BEAT) - start
    assert 14.9 <= came < 15.7
    assert call.reply().body.decode() == chat.HELLO + BEAT + chat.FINISH + chat.DONE


def test_heartbeats_are_off_where_the_model_says_so(gateway):
    script = [pause(0.6), head(), data(chat.HELLO), pause(0.6), data(chat.FINISH), data(chat.DONE), end()]
    gateway.script("off", "k1", script)
    reply = gateway.chat("off", stream=True)
    assert reply.body.decode() == chat.HELLO + chat.FINISH + chat.DONE


def test_no_heartbeat_goes_into_an_event(gateway):
    """Not into one that is waited for, nor into one so large that it passes in parts."""
    small, large = chat.chunk({"content": "x" * 100}), chat.chunk({"content": "y" * 200_000})
    script = [head(), data(chat.HELLO), data(small[:50]), pause(0.7), data(small[50:])]
    script += [data(large[:150_000]), pause(0.7), data(large[150_000:])]
    gateway.script("m", "k1", [*script, data(chat.FINISH), data(chat.DONE), end()])
    text = gateway.chat("m", stream=True).body.decode()
    assert text.replace(BEAT, "") == chat.HELLO + small + large + chat.FINISH + chat.DONE
    assert small in text and large in text
    assert 2 <= beats(text) <= 4, "while the small one is waited for"


ENDS = {
    "the mark": (chat.DONE, chat.DONE),
    "an error event": (chat.event(chat.error()), None),
}


@pytest.mark.parametrize("last, ending", ENDS.values(), ids=ENDS.keys())
def test_no_heartbeat_follows_an_end(gateway, last, ending):
    gateway.script("hasty", "k1", [head(), data(chat.HELLO), pause(0.1), data(last), hang()])
    reply = gateway.chat("hasty", stream=True)
    assert reply.is_whole
    assert BEAT in reply.body.decode()
    tail = reply.body.decode().split(BEAT)[-1]
    assert tail == ending if ending is not None else "error" in last_payload(tail.encode())


def test_heartbeats_put_off_no_deadline(gateway):
    """Neither that of the first content nor the caller's knowledge of it."""
    gateway.script("hasty", "k1", [hang()])
    start = time.monotonic()
    reply = gateway.chat("hasty", stream=True)
    took = time.monotonic() - start
    assert 1.4 <= took < 1.5 + 4 * SLACK_S
    assert last_payload(reply.body)["error"]["code"] == V1_CODES["GATEWAY_TIMEOUT"]


# Who reads them


@pytest.fixture
def client(gateway):
    base_url = f"http://127.0.0.1:{gateway.port}/v1"
    with openai.OpenAI(api_key=gateway.caller_key, base_url=base_url, max_retries=0, timeout=20) as client:
        yield client


def ask(client):
    messages = [{"role": "user", "content": "Say hello."}]
    return client.chat.completions.create(model="m", messages=messages, stream=True)


def test_openais_client_reads_over_heartbeats(gateway, client):
    gateway.script("m", "k1", [pause(0.5), *answer(500, "{}")])
    gateway.script("m", "k2", [head(), data(chat.HELLO), pause(0.5), data(chat.FINISH), data(chat.DONE), end()])
    assert "".join(chunk.choices[0].delta.content or "" for chunk in ask(client)) == "Hello"


def test_openais_client_raises_the_error_behind_heartbeats(gateway, client):
    gateway.script("m", "k1", [pause(0.5), *answer(400, json.dumps(REFUSAL))])
    with pytest.raises(openai.APIError, match="Too long."):
        list(ask(client))


def test_heartbeats_find_out_that_the_caller_has_left(start_gateway):
    """Where the front end says so only on a write, and we cannot see it for ourselves."""
    silent = ('"tcp-fin-propagate" => "enable"', '"tcp-fin-propagate" => "disable"')
    gateway = start_gateway(TREE, front_end="lighttpd", edits=[silent, *REWRITTEN["lighttpd"]])
    for name in ("m", "off"):
        gateway.script(name, "k1", [head(), data(chat.HELLO), hang()])
    noticed = {}
    for name in ("m", "off"):
        call = gateway.begin(name, stream=True, headers=CALLER)
        call.read_until("Hello")
        record = gateway.upstream.records[-1]
        left = call.close()
        try:
            noticed[name] = record.wait_closed(2.0) - left
        except AssertionError:
            noticed[name] = None
        if noticed[name] is not None:
            assert gateway.event(call)["end"] == "client_gone"
    assert noticed["off"] is None, "the front end tells by itself: this test shows nothing"
    assert noticed["m"] is not None and noticed["m"] < 4 * BEAT_S + SLACK_S

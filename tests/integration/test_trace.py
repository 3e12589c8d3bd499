"""Traces: whose is continued, what is sampled, what an upstream is told, and what an
event says of each attempt."""

import hashlib
import os
import re
import signal

import pytest

import chat
import transcripts
from gateway import MOUNTS
from processes import wait_until
from scripts import answer, hang, stream
from speech import MP3, audio
from tree import Tree, elsewhere, hostile, model, speaker

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
HEADER = f"00-{TRACE}-{PARENT}-01"
STATE = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7"

TREE = Tree(
    model("m", hostile("a", "k1")),
    model("told", hostile("a", "k1", "k2", propagateTrace=True), hostile("b", "k3", propagateTrace=True)),
    model("second-told", hostile("a", "k1"), hostile("b", "k2", propagateTrace=True)),
    model("named", hostile("a", "k1", provider="azure")),
    speech=[
        speaker("say", "openai", hostile("a", "k1")),
        speaker("say-told", "openai", hostile("a", "k1", propagateTrace=True)),
    ],
)

GOOD = answer(200, chat.completion())
DEAD = answer(401, '{"error":{"message":"Incorrect API key provided.","code":"invalid_api_key"}}')
LIMITED = answer(429, '{"error":{"message":"Slow down.","code":"rate_limit_exceeded"}}')
SPOKEN = answer(200, audio(400), MP3)


def is_id(text, digits):
    return re.fullmatch(f"[0-9a-f]{{{digits}}}", text) is not None and text.strip("0") != ""


def ask(gateway, model_name="m", **headers):
    """One chat completion with these headers; its event."""
    return gateway.event(gateway.chat(model_name, headers=headers))


def attempt_span(event, n):
    return hashlib.sha256(f"{event['span_id']}/{n}".encode()).hexdigest()[:16]


# Whose trace it is


@pytest.mark.parametrize("mount", MOUNTS)
def test_a_callers_trace_is_continued_whatever_is_asked(gateway, mount):
    headers = {"traceparent": HEADER}
    gateway.script("m", "k1", GOOD, stream(*chat.GOOD_STREAM), answer(200, transcripts.transcript()))
    gateway.script("say", "k1", SPOKEN)
    replies = [
        gateway.chat("m", mount=mount, headers=headers),
        gateway.chat("m", stream=True, mount=mount, headers=headers),
        gateway.transcribe(transcripts.request("m"), mount, headers=headers).reply(),
        gateway.speak("say", mount, headers=headers).reply(),
        gateway.get(f"{mount}/models", headers=headers),
        gateway.get(f"{mount}/nothing", headers=headers),
        gateway.chat("m", mount=mount, headers=headers, key="wrong"),
        gateway.chat("nobody", mount=mount, headers=headers),
    ]
    events = [gateway.event(reply) for reply in replies]
    assert [event["status"] for event in events[:5]] == [200] * 5, events
    for event in events:
        assert (event["trace_id"], event["parent_span_id"], event["sampled"]) == (TRACE, PARENT, True)
        assert is_id(event["span_id"], 16)
    spans = {event["span_id"] for event in events}
    assert len(spans) == len(events) and PARENT not in spans


@pytest.mark.parametrize(
    "header",
    [None, "", "nonsense", HEADER.upper(), HEADER + "-01", f"ff-{TRACE}-{PARENT}-01", f"00-{'0' * 32}-{PARENT}-01",
     f"00-{TRACE}-{'0' * 16}-01", f"{HEADER}, {HEADER}"],
)  # fmt: skip
def test_without_one_that_can_be_read_a_trace_begins(gateway, header):
    gateway.script("m", "k1", GOOD)
    event = ask(gateway, **({} if header is None else {"traceparent": header}))
    assert is_id(event["trace_id"], 32) and is_id(event["span_id"], 16)
    assert event["trace_id"] != TRACE and "parent_span_id" not in event
    assert event["sampled"] is True


def test_a_probe_leaves_no_event_and_so_no_trace(gateway):
    for path in ("/livez", "/readyz", "/metrics", "/v1/livez"):
        gateway.get(path, key=None, headers={"traceparent": f"00-{'ab' * 16}-{PARENT}-01"})
    gateway.script("m", "k1", GOOD)
    ask(gateway)
    assert not gateway.spool.events_that(trace_id="ab" * 16)


# What is sampled


def test_a_callers_decision_counts(gateway):
    gateway.script("m", "k1", GOOD)
    assert ask(gateway, traceparent=HEADER)["sampled"] is True
    assert ask(gateway, traceparent=f"00-{TRACE}-{PARENT}-00")["sampled"] is False


@pytest.mark.parametrize(
    "environment, of_sampled, of_unsampled, root, ignored",
    [
        ({"OTEL_TRACES_SAMPLER": "always_off"}, False, False, False, None),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0"}, True, False, False, None),
        ({"OTEL_TRACES_SAMPLER": "xray", "OTEL_TRACES_SAMPLER_ARG": "0"}, True, False, True, "OTEL_TRACES_SAMPLER"),
        ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "7"}, True, True, True,
         "OTEL_TRACES_SAMPLER_ARG"),
        ({"OTEL_PROPAGATORS": "b3"}, True, True, True, "OTEL_PROPAGATORS"),
    ],
)  # fmt: skip
def test_the_environment_names_the_sampler(start_gateway, environment, of_sampled, of_unsampled, root, ignored):
    gateway = start_gateway(TREE, workers=1, router_environment=environment)
    gateway.script("m", "k1", GOOD)
    assert ask(gateway, traceparent=HEADER)["sampled"] is of_sampled
    assert ask(gateway, traceparent=f"00-{TRACE}-{PARENT}-00")["sampled"] is of_unsampled
    assert ask(gateway)["sampled"] is root
    warnings = [line for line in gateway.router.log_text().splitlines() if '"telemetry_setting_ignored"' in line]
    assert len(warnings) == (0 if ignored is None else 1), warnings
    assert all(f'"{ignored}: ' in line for line in warnings)


# What an upstream is told


def told(record):
    return {name: value for name, value in record.headers.items() if name in ("traceparent", "tracestate", "baggage")}


CALLERS = {"traceparent": HEADER, "tracestate": STATE, "baggage": "user=lovelace"}


def test_an_upstream_is_told_nothing_unless_it_is_to_be(gateway):
    gateway.script("m", "k1", GOOD)
    gateway.script("say", "k1", SPOKEN)
    gateway.chat("m", headers=CALLERS)
    gateway.transcribe(transcripts.request("m"), headers=CALLERS).reply()
    gateway.speak("say", headers=CALLERS).reply()
    records = gateway.upstream.records
    assert len(records) == 3
    for record in records:
        assert not told(record)
        for word in (TRACE, PARENT, "congo", "lovelace"):
            assert word not in record.raw_head.decode("latin-1")


def test_one_that_is_to_be_is_told_of_its_attempt(gateway):
    gateway.script("told", "k1", DEAD)
    gateway.script("told", "k2", LIMITED)
    gateway.script("told", "k3", GOOD)
    event = ask(gateway, "told", **CALLERS)
    assert [attempt["n"] for attempt in event["attempts"]] == [1, 2, 3]
    assert [told(record) for record in gateway.upstream.records] == [
        {"traceparent": f"00-{TRACE}-{attempt_span(event, n)}-01", "tracestate": STATE} for n in (1, 2, 3)
    ]


def test_of_two_upstreams_the_one_is_told_that_is_to_be(gateway):
    gateway.script("second-told", "k1", DEAD)
    gateway.script("second-told", "k2", GOOD)
    event = ask(gateway, "second-told", **CALLERS)
    first, second = gateway.upstream.records
    assert not told(first)
    assert told(second)["traceparent"] == f"00-{TRACE}-{attempt_span(event, 2)}-01"


def test_an_upstream_that_speaks_is_told_as_well(gateway):
    gateway.script("say-told", "k1", SPOKEN)
    event = gateway.event(gateway.speak("say-told", headers=CALLERS).reply())
    (record,) = gateway.upstream.records
    assert told(record) == {"traceparent": f"00-{TRACE}-{attempt_span(event, 1)}-01", "tracestate": STATE}


@pytest.mark.parametrize(
    "callers, flags",
    [
        ({}, "01"),
        ({"traceparent": "nonsense", "tracestate": STATE}, "01"),
        ({"tracestate": STATE}, "01"),
        ({"traceparent": f"00-{TRACE}-{PARENT}-00", "tracestate": "no state"}, "00"),
        ({"traceparent": f"00-{TRACE}-{PARENT}-02", "tracestate": "a=1,a=2"}, "02"),
    ],
)
def test_a_state_goes_on_with_its_trace_only_and_if_it_is_well_formed(gateway, callers, flags):
    gateway.script("told", "k1", GOOD)
    event = ask(gateway, "told", **callers)
    (record,) = gateway.upstream.records
    assert told(record) == {"traceparent": f"00-{event['trace_id']}-{attempt_span(event, 1)}-{flags}"}


def test_without_the_propagator_nobody_is_told(start_gateway):
    gateway = start_gateway(TREE, workers=1, router_environment={"OTEL_PROPAGATORS": "none"})
    gateway.script("told", "k1", GOOD)
    event = ask(gateway, "told", **CALLERS)
    assert event["trace_id"] != TRACE and "parent_span_id" not in event
    (record,) = gateway.upstream.records
    assert not told(record)


# What dies with its worker


def test_the_event_of_a_killed_worker_keeps_the_ids_that_its_upstream_was_told(start_gateway):
    gateway = start_gateway(TREE, workers=1)
    gateway.script("told", "k1", [hang()])
    call = gateway.begin("told", headers={"traceparent": HEADER})
    record = gateway.upstream.wait_record()
    (worker,) = gateway.workers()
    os.kill(worker, signal.SIGKILL)
    call.reply()
    event = gateway.event(call)
    assert event["end"] == "worker_died"
    assert (event["trace_id"], event["parent_span_id"], event["sampled"]) == (TRACE, PARENT, True)
    assert record.headers["traceparent"] == f"00-{TRACE}-{attempt_span(event, 1)}-01"


def test_the_event_of_a_killed_worker_has_a_trace_of_its_own_where_the_caller_had_none(start_gateway):
    gateway = start_gateway(TREE, workers=1, router_environment={"OTEL_TRACES_SAMPLER": "always_off"})
    gateway.script("m", "k1", [hang()])
    call = gateway.begin("m")
    gateway.upstream.wait_record()
    (worker,) = gateway.workers()
    os.kill(worker, signal.SIGKILL)
    call.reply()
    event = gateway.event(call)
    assert event["end"] == "worker_died"
    assert is_id(event["trace_id"], 32) and is_id(event["span_id"], 16)
    assert "parent_span_id" not in event and event["sampled"] is False
    wait_until(gateway.workers, "the worker is replaced")


# What an event says of an attempt and its reply


def test_an_attempt_says_which_upstream_it_asked_and_where(gateway):
    gateway.script("second-told", "k1", DEAD)
    gateway.script("second-told", "k2", GOOD)
    attempts = ask(gateway, "second-told")["attempts"]
    base = f"http://127.0.0.1:{gateway.upstream.port}"
    assert [(attempt["upstream_index"], attempt["url"]) for attempt in attempts] == [
        (0, f"{base}/a/chat/completions"),
        (1, f"{base}/b/chat/completions"),
    ]
    assert [attempt["provider"] for attempt in attempts] == ["127.0.0.1"] * 2


def test_an_attempt_names_the_provider_as_the_tree_has_it(gateway):
    gateway.script("named", "k1", GOOD)
    assert ask(gateway, "named")["attempts"][0]["provider"] == "azure"


def test_an_attempt_at_speech_names_the_service_and_an_address_without_a_query(start_gateway, upstream):
    base = upstream.base_url("speak")
    tree = Tree(speech=[speaker("say", "volcengine", elsewhere(f"{base}?secret=of-the-query", "a", "k1", adapterParams={"appid": "1"}))])
    gateway = start_gateway(tree, workers=1)
    gateway.script("say", "k1", answer(500, "{}"))
    upstream.bind("", answer(500, "{}"))
    call = gateway.speak("say")
    call.reply()
    (attempt,) = gateway.event(call)["attempts"]
    assert (attempt["provider"], attempt["url"]) == ("volcengine.tts", base)
    assert b"of-the-query" not in gateway.spool.read_bytes()


@pytest.mark.parametrize("is_stream", [False, True], ids=["plain", "streamed"])
def test_an_event_says_what_the_upstream_calls_its_model_and_why_it_ended(gateway, is_stream):
    gateway.script("m", "k1", stream(*chat.GOOD_STREAM) if is_stream else GOOD)
    event = gateway.event(gateway.chat("m", stream=is_stream))
    assert (event["response_model"], event["finish_reason"]) == ("real-model", "stop")


REPLIES = {
    "none": (chat.completion(model=""), None, "stop"),
    "a long one": (chat.completion(model="model " * 100), ("model " * 100)[:128], "stop"),
    "with another reason": (
        chat.completion(choices=[{"index": 0, "message": {"content": "Hi"}, "finish_reason": "eos"}]),
        "real-model",
        "_OTHER",
    ),
    "tool calls": (
        chat.completion(choices=[{"index": 0, "message": {"content": "Hi"}, "finish_reason": "tool_calls"}]),
        "real-model",
        "tool_calls",
    ),
}


@pytest.mark.parametrize("body, name, reason", REPLIES.values(), ids=REPLIES.keys())
def test_what_an_upstream_says_of_itself_is_bounded(gateway, body, name, reason):
    gateway.script("m", "k1", answer(200, body))
    event = ask(gateway)
    assert (event.get("response_model"), event.get("finish_reason")) == (name, reason)


def test_an_upstream_that_calls_its_model_by_the_key_does_not_put_it_into_the_record(gateway):
    key = gateway.keys.plaintext("m", "k1")
    gateway.script("m", "k1", answer(200, chat.completion(model=key)))
    assert key not in str(ask(gateway))

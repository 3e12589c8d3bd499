"""The sixteen faults by which failoverbench, a benchmark of others, compares gateways: what a
caller with OpenAI's own client sees, and what the event says.

The first upstream has the fault and the second is good, unless a row says otherwise. Each test
prints its row at the end of the run. A row whose `differs` is set does not do what that benchmark
likes best, and says why."""

import json
import secrets
import time
from dataclasses import dataclass, field

import openai
import pytest

import chat
from scripts import answer, close, data, end, hang, head, pause, reset, stream
from tree import Tree, hostile, model

DEADLINE_S = 0.8  # until first content, and between bytes after it
SLACK_S = 5.0  # far below what the faults would take by themselves
FAULT_S = 20  # of silence, where a fault is that
OUTAGE = 10  # requests while the first upstream flaps

TREE = Tree(
    model("m", hostile("first", "k1"), hostile("second", "k2")),
    perAttemptTimeoutMs=int(DEADLINE_S * 1000),
    streamIdleTimeoutMs=int(DEADLINE_S * 1000),
)

QUESTION = [{"role": "user", "content": "Say hello."}]
USAGE = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}


def words(model_name):
    """A whole stream of this model, with its usage."""
    events = [chat.chunk({"content": word}, model=model_name) for word in ("Hello", " world")]
    return [*events, chat.chunk({}, "stop", model=model_name), chat.chunk(choices=[], usage=USAGE, model=model_name)]


def whole_stream(model_name):
    return stream(*words(model_name), chat.DONE)


def whole_answer(model_name):
    return answer(200, chat.completion("Hello world", model=model_name))


def good(model_name, is_stream):
    return whole_stream(model_name) if is_stream else whole_answer(model_name)


def refusal(status, code, headers=None):
    return answer(status, json.dumps(chat.error("It was refused.", "refused", code)), headers)


BUSY = {"content-type": "application/json", "retry-after": "2"}
ROLE_AND_WORD = [head(), data(chat.ROLE), data(chat.HELLO)]


@dataclass
class Fault:
    name: str
    first: list  # the script of the first upstream
    expected: str
    is_served: bool = True  # by the second upstream; else an error comes
    status: int | None = None  # of the client's exception; None: it came inside a stream
    code: str | None = None  # of that exception
    verdict: str = ""  # of the first attempt
    reason: str | None = None  # of that verdict: which clock
    end: str = "done"  # of the request
    is_stream_only: bool = False
    takes_s: float = 0.0  # at most, besides SLACK_S
    is_once: bool = False  # the first upstream is good when it is asked again
    second: list = field(default_factory=list)  # the other's script; none: it is good
    differs: str = ""


SERVED = "the second upstream's whole answer"
AN_ERROR = "an error after what had come; never a whole answer, nor a second one behind it"

FAULTS = [
    Fault(
        "429 with Retry-After",
        refusal(429, "rate_limit_exceeded", BUSY),
        f"{SERVED}, at once",
        is_once=True,
        verdict="rate",
        differs="the wait is not waited: who can answer now is asked now",
    ),
    Fault("429 without Retry-After", refusal(429, "rate_limit_exceeded"), SERVED, verdict="rate"),
    Fault(
        "500 once",
        refusal(500, "server_error"),
        f"{SERVED}; the first is asked once",
        is_once=True,
        verdict="server",
        differs="no candidate is asked twice in one request",
    ),
    Fault("503 for ever", refusal(503, "overloaded"), SERVED, verdict="server"),
    Fault("reset before headers", [reset()], SERVED, verdict="connect"),
    Fault(
        "silence",
        [hang()],
        f"{SERVED}, after one deadline",
        verdict="timeout",
        reason="timeout_first_content",
        takes_s=DEADLINE_S,
    ),
    Fault(
        "first token after 20 s",
        [head(), data(chat.ROLE), pause(FAULT_S), data(chat.HELLO), data(chat.FINISH), data(chat.DONE), end()],
        f"{SERVED}, after one deadline",
        verdict="timeout",
        reason="timeout_first_content",
        is_stream_only=True,
        takes_s=DEADLINE_S,
    ),
    Fault(
        "cut mid-stream",
        [*ROLE_AND_WORD, pause(0.05), close()],
        AN_ERROR,
        is_served=False,
        end="cut",
        is_stream_only=True,
        differs="what has gone out is not taken back, and no other model goes on with it",
    ),
    Fault(
        "stall mid-stream",
        [*ROLE_AND_WORD, pause(FAULT_S), close()],
        f"{AN_ERROR}; after one deadline",
        is_served=False,
        verdict="timeout",
        reason="timeout_idle",
        end="cut",
        is_stream_only=True,
        takes_s=DEADLINE_S,
        differs="what has gone out is not taken back",
    ),
    Fault(
        "malformed chunk",
        [*ROLE_AND_WORD, data('data: {"choices":[{"del\n\n'), data(chat.FINISH), data(chat.DONE), end()],
        AN_ERROR,
        is_served=False,
        end="error_mid",
        is_stream_only=True,
        differs="it is not skipped: what stood in it is missing",
    ),
    Fault(
        "no [DONE]",
        stream(*words("first-model")),
        "the first upstream's whole answer, with its usage, and the mark that it had left out",
        is_stream_only=True,
        verdict="ok",
    ),
    Fault(
        "context length exceeded",
        refusal(400, "context_length_exceeded"),
        "the upstream's 400 with its code; the second is not asked",
        is_served=False,
        status=400,
        code="context_length_exceeded",
        verdict="client",
        end="refused",
        differs="a model's upstreams serve one model: another would refuse it as well",
    ),
    Fault(
        "content filter",
        refusal(400, "content_policy_violation"),
        "the upstream's 400 with its code; the second is not asked",
        is_served=False,
        status=400,
        code="content_policy_violation",
        verdict="client",
        end="refused",
    ),
    Fault(
        "cut, and the second rejects prefilled answers",
        [*ROLE_AND_WORD, pause(0.05), close()],
        f"{AN_ERROR}; the second is not asked to go on",
        is_served=False,
        end="cut",
        is_stream_only=True,
        second=refusal(400, "prefill_not_supported"),
        differs="nothing is ever prefilled",
    ),
]


@dataclass
class Seen:
    """What the caller saw."""

    request_id: str
    text: str = ""
    model: str | None = None
    usage: object = None
    is_finished: bool = False
    error: Exception | None = None
    took_s: float = 0.0


@pytest.fixture
def client(gateway):
    base_url = f"http://127.0.0.1:{gateway.port}/v1"
    with openai.OpenAI(api_key=gateway.caller_key, base_url=base_url, max_retries=0, timeout=60) as client:
        yield client


def ask(client, is_stream):
    seen = Seen(secrets.token_hex(16))
    options = {"stream": True, "stream_options": {"include_usage": True}} if is_stream else {}
    begun = time.monotonic()
    try:
        reply = client.chat.completions.create(
            model="m", messages=QUESTION, extra_headers={"x-request-id": seen.request_id}, **options
        )
        if not is_stream:
            seen.text, seen.model, seen.usage = reply.choices[0].message.content, reply.model, reply.usage
            seen.is_finished = reply.choices[0].finish_reason == "stop"
        for part in reply if is_stream else []:
            seen.model, seen.usage = part.model, part.usage
            for choice in part.choices:
                seen.text += choice.delta.content or ""
                seen.is_finished = seen.is_finished or choice.finish_reason == "stop"
    except openai.APIError as error:
        seen.error = error
    seen.took_s = time.monotonic() - begun
    return seen


def assert_served(seen, event, by):
    assert seen.error is None, f"the caller got {seen.error!r}"
    assert (seen.text, seen.model, seen.is_finished) == ("Hello world", f"{by}-model", True), seen
    assert seen.usage is not None and seen.usage.total_tokens == USAGE["total_tokens"], seen
    assert event["end"] == "done" and event["attempts"][-1]["upstream"] == by, event
    assert event["attempts"][-1]["verdict"] == "ok", event


def assert_error(seen, event, fault):
    assert seen.error is not None, f"the caller took it for whole: {seen}"
    assert getattr(seen.error, "status_code", None) == fault.status, seen.error
    assert not seen.is_finished and seen.text == ("" if fault.status else "Hello"), seen
    if fault.code is not None:
        assert seen.error.code == fault.code, seen.error
    assert event["end"] == fault.end, event
    assert [attempt["upstream"] for attempt in event["attempts"]] == ["first"], event


def cases():
    """Each fault, and how it is asked for."""
    for number, fault in enumerate(FAULTS, 1):
        for is_stream in (True,) if fault.is_stream_only else (True, False):
            yield pytest.param(number, fault, is_stream, id=f"{fault.name}{'' if is_stream else ', plain'}")


def put_down(record_property, number, name, expected, differs="", way="streamed"):
    note = f" (it differs: {differs})" if differs else ""
    record_property(f"fault {number:2}, {way:<8} | {name:<45} | passed", f"{expected}{note}")


@pytest.mark.parametrize("number, fault, is_stream", list(cases()))
def test_a_fault(gateway, client, record_property, number, fault, is_stream):
    well = good("first-model", is_stream)
    gateway.script("m", "k1", fault.first, well if fault.is_once else fault.first)
    gateway.script("m", "k2", fault.second or good("second-model", is_stream))
    seen = ask(client, is_stream)
    event = gateway.spool.wait_event(seen.request_id)
    assert seen.took_s < fault.takes_s + SLACK_S, f"it took {seen.took_s:.1f} s"
    by = "first" if fault.verdict == "ok" else "second"
    if fault.is_served:
        assert_served(seen, event, by)
    else:
        assert_error(seen, event, fault)
    asked = [record.key for record in gateway.upstream.records]
    first, second = (gateway.keys.plaintext("m", key) for key in ("k1", "k2"))
    attempt = event["attempts"][0]
    replays = [first] if attempt.get("replayed") else []  # on a kept connection that was found closed
    assert asked == [first, *replays, *([second] if fault.is_served and by == "second" else [])], event
    if fault.verdict:
        assert attempt["verdict"] == fault.verdict, event
    if fault.reason is not None:
        assert attempt["reason"] == fault.reason, event
    gateway.script("m", "k1", well)
    after = ask(client, is_stream)
    assert_served(after, gateway.spool.wait_event(after.request_id), "first")
    put_down(record_property, number, fault.name, fault.expected, fault.differs, "streamed" if is_stream else "plain")


def test_an_upstream_that_flaps(gateway, client, record_property):
    """Down for ten requests, then well again."""
    gateway.script("m", "k1", *[refusal(503, "overloaded")] * OUTAGE, whole_stream("first-model"))
    gateway.script("m", "k2", whole_stream("second-model"))
    for by in ["second"] * OUTAGE + ["first"]:
        seen = ask(client, True)
        assert_served(seen, gateway.spool.wait_event(seen.request_id), by)
    put_down(
        record_property,
        15,
        "an upstream that flaps",
        f"{SERVED} to each of {OUTAGE} while it is down; then at once the first's",
        "it is asked in each request: nothing is remembered between two",
    )


def test_only_the_attempt_that_served_is_billed(gateway, client, record_property):
    """Also where the one that failed had said what it used."""
    gateway.script("m", "k1", answer(503, json.dumps(chat.error() | {"usage": {"prompt_tokens": 500}})))
    gateway.script("m", "k2", whole_stream("second-model"))
    seen = ask(client, True)
    event = gateway.spool.wait_event(seen.request_id)
    assert_served(seen, event, "second")
    assert [attempt["upstream"] for attempt in event["attempts"]] == ["first", "second"]
    assert (event["usage"]["input"], event["usage"]["output"]) == (7, 3), event["usage"]
    assert event["usage"]["source"] == "upstream"
    put_down(
        record_property, 16, "billing", "the second's model and usage to the caller and in the event, nothing of the first"
    )

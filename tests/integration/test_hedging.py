"""hedgeAfterMs: a first candidate that has produced nothing for so long gets another beside it, and who answers first
has answered. Where the second one is asked, the first hangs: no test depends on which of two is faster by a little.
"""

import signal
import threading

import pytest

import chat
from pools import SPOKEN
from processes import wait_until
from scripts import JSON, answer, close, data, end, hang, head, pause, raw, stream, until
from speech import audio
from tree import Tree, hostile, model, speaker

HEDGE_MS = 100
PATIENT_MS = 1000  # where an upstream has to answer before it, on a busy machine too
PROMISED_S = 0.2
SLACK_S = 0.5
HEARTBEAT = b": heartbeat\n\n"

TREE = Tree(
    model("m", hostile("a", "k1"), hostile("b", "k2"), hostile("c", "k3"), hedgeAfterMs=HEDGE_MS),
    model("keys", hostile("a", "k1", "k2"), hedgeAfterMs=HEDGE_MS),
    model("alone", hostile("a", "k1"), hedgeAfterMs=HEDGE_MS),
    model("patient", hostile("a", "k1"), hostile("b", "k2"), hedgeAfterMs=PATIENT_MS),
    model("off", hostile("a", "k1"), hostile("b", "k2")),
    model(
        "final",
        hostile("a", "k1", timeoutMs=1000),
        hostile("b", "k2"),
        hedgeAfterMs=HEDGE_MS,
        fallbackTriggers={"onTimeout": False},
    ),
    model("beating", hostile("a", "k1"), hostile("b", "k2"), hedgeAfterMs=HEDGE_MS, heartbeatMs=50),
    speech=[speaker("say", "openai", hostile("a", "k1"), hostile("b", "k2"), hedgeAfterMs=HEDGE_MS)],
    perAttemptTimeoutMs=10000,
    fullChainTimeoutMs=15000,
)

both = pytest.mark.parametrize("is_stream", [False, True], ids=["plain", "streamed"])


def good(is_stream, text="Hello"):
    if is_stream:
        return stream(chat.ROLE, chat.chunk({"content": text}), chat.FINISH, chat.usage_event(), chat.DONE)
    return answer(200, chat.completion(text))


def text_of(reply, is_stream):
    if is_stream:
        return chat.text_of(reply.body)
    return reply.json()["choices"][0]["message"]["content"]


def verdicts(event):
    return [(attempt["upstream"], attempt["verdict"], attempt.get("reason")) for attempt in event["attempts"]]


def assert_lost(attempt):
    """It is nobody's failure."""
    assert (attempt["verdict"], attempt["reason"], attempt["fault"]) == ("cancelled", "hedge_lost", "none"), attempt
    assert not attempt["counts_for_health"]


def wait_keys(gateway, model_name, *keys):
    """Until the upstream was asked with these, in this order: the records."""
    gateway.upstream.wait_record(len(keys))
    records = gateway.upstream.records
    assert [record.key for record in records] == [gateway.keys.plaintext(model_name, key) for key in keys]
    return records


# Who answers


@both
@pytest.mark.parametrize("name, second", [("m", "b"), ("keys", "a")])
def test_a_silent_first_is_beaten_by_the_next_candidate(gateway, is_stream, name, second):
    gateway.script(name, "k1", [hang()])
    gateway.script(name, "k2", good(is_stream, "from the second"))
    reply = gateway.chat(name, is_stream)
    assert reply.status == 200 and text_of(reply, is_stream) == "from the second"
    first, beside = wait_keys(gateway, name, "k1", "k2")
    assert first.wait_closed() - beside.answered < PROMISED_S + SLACK_S
    event = gateway.event(reply)
    assert verdicts(event) == [("a", "cancelled", "hedge_lost"), (second, "ok", None)]
    assert_lost(event["attempts"][0])
    assert "hedged" not in event["attempts"][0] and "decided" not in event["attempts"][0]
    assert event["attempts"][1]["hedged"] and event["attempts"][1]["decided"]
    assert (event["hedge"], event["end"], event["fallback_depth"]) == ("won", "done", 0)
    assert "fallback_reason" not in event
    assert event["attempts"][1]["start_us"] >= HEDGE_MS * 1000
    assert event["usage"]["output"] == 3
    assert event["upstream_us"] <= event["total_us"]


@both
def test_a_first_that_answers_after_all_beats_the_one_beside_it(gateway, is_stream):
    is_asked = threading.Event()
    gateway.script("m", "k1", [until(is_asked), *good(is_stream, "from the first")])
    gateway.script("m", "k2", [hang()])
    call = gateway.begin("m", is_stream)
    _, beside = wait_keys(gateway, "m", "k1", "k2")
    is_asked.set()
    reply = call.reply()
    assert text_of(reply, is_stream) == "from the first"
    beside.wait_closed()
    event = gateway.event(call)
    assert verdicts(event) == [("a", "ok", None), ("b", "cancelled", "hedge_lost")]
    assert_lost(event["attempts"][1])
    assert event["attempts"][0]["decided"] and event["attempts"][1]["hedged"]
    assert (event["hedge"], event["fallback_depth"]) == ("lost", 0)


@both
def test_a_fast_first_is_alone(gateway, is_stream):
    gateway.script("patient", "k1", good(is_stream))
    reply = gateway.chat("patient", is_stream)
    event = gateway.event(reply)
    assert verdicts(event) == [("a", "ok", None)] and "hedge" not in event and "decided" not in event["attempts"][0]


@both
@pytest.mark.parametrize("name", ["off", "alone"])
def test_without_the_member_or_another_candidate_nobody_is_asked_twice(gateway, name, is_stream):
    gateway.script(name, "k1", [pause(4 * HEDGE_MS / 1000), *good(is_stream)])
    reply = gateway.chat(name, is_stream)
    event = gateway.event(reply)
    assert verdicts(event) == [("a", "ok", None)] and "hedge" not in event


def test_what_is_no_content_keeps_no_hedge_off(gateway):
    gateway.script("m", "k1", [head(), data(": wait\n\n"), data(chat.ROLE), hang()])
    gateway.script("m", "k2", good(True, "from the second"))
    reply = gateway.chat("m", stream=True)
    assert text_of(reply, True) == "from the second"
    assert gateway.event(reply)["hedge"] == "won"


def test_content_keeps_it_off_however_long_the_rest_takes(gateway):
    gateway.script("patient", "k1", [head(), data(chat.HELLO), pause(1.5 * PATIENT_MS / 1000), data(chat.FINISH + chat.DONE), end()])
    event = gateway.event(gateway.chat("patient", stream=True))
    assert verdicts(event) == [("a", "ok", None)] and "hedge" not in event


def test_a_plain_reply_that_has_begun_keeps_it_off(gateway):
    body = chat.completion()
    gateway.script("patient", "k1", [head(200, JSON, len(body)), raw(body[:9]), pause(1.5 * PATIENT_MS / 1000), raw(body[9:])])
    event = gateway.event(gateway.chat("patient"))
    assert verdicts(event) == [("a", "ok", None)] and "hedge" not in event


def test_speech_is_hedged_as_well(gateway):
    gateway.script("say", "k1", [hang()])
    gateway.script("say", "k2", SPOKEN)
    reply = gateway.say("say")
    assert reply.status == 200 and reply.body == audio(2000)
    wait_keys(gateway, "say", "k1", "k2")[0].wait_closed()
    event = gateway.event(reply)
    assert verdicts(event) == [("a", "cancelled", "hedge_lost"), ("b", "ok", None)]
    assert (event["hedge"], event["fallback_depth"]) == ("won", 0) and event["usage"]["characters"] > 0


# When one of them fails


@both
def test_a_hedge_that_fails_is_not_tried_again_and_the_first_goes_on(gateway, is_stream):
    has_failed = threading.Event()
    gateway.script("m", "k1", [until(has_failed), *good(is_stream, "from the first")])
    gateway.script("m", "k2", answer(500, "{}"))
    call = gateway.begin("m", is_stream)
    _, beside = wait_keys(gateway, "m", "k1", "k2")
    wait_until(lambda: beside.answered is not None, "it has failed")
    has_failed.set()
    reply = call.reply()
    assert text_of(reply, is_stream) == "from the first"
    event = gateway.event(call)
    assert [verdict[:2] for verdict in verdicts(event)] == [("a", "ok"), ("b", "server")]
    assert (event["hedge"], event["fallback_depth"]) == ("failed", 0)
    assert event["attempts"][0]["decided"] and "fallback_reason" not in event
    assert len(gateway.upstream.records) == 2


@both
def test_a_first_that_fails_leaves_the_chain_to_the_one_beside_it(gateway, is_stream):
    is_asked, has_failed = threading.Event(), threading.Event()
    gateway.script("m", "k1", [until(is_asked), *answer(503, "{}")])
    gateway.script("m", "k2", [until(has_failed), *good(is_stream, "from the second")])
    call = gateway.begin("m", is_stream)
    first, _ = wait_keys(gateway, "m", "k1", "k2")
    is_asked.set()
    wait_until(lambda: first.answered is not None, "it has failed")
    has_failed.set()
    reply = call.reply()
    assert text_of(reply, is_stream) == "from the second"
    event = gateway.event(call)
    assert [verdict[:2] for verdict in verdicts(event)] == [("a", "server"), ("b", "ok")]
    assert (event["hedge"], event["fallback_depth"], event["fallback_reason"]) == ("won", 1, "503")
    assert len(gateway.upstream.records) == 2


@both
def test_when_both_fail_the_chain_goes_on_behind_them(gateway, is_stream):
    has_failed = threading.Event()
    gateway.script("m", "k1", [until(has_failed), *answer(503, "{}")])
    gateway.script("m", "k2", answer(500, "{}"))
    gateway.script("m", "k3", good(is_stream, "from the third"))
    call = gateway.begin("m", is_stream)
    _, beside = wait_keys(gateway, "m", "k1", "k2")
    wait_until(lambda: beside.answered is not None, "it has failed")
    has_failed.set()
    reply = call.reply()
    assert text_of(reply, is_stream) == "from the third"
    event = gateway.event(call)
    assert [verdict[:2] for verdict in verdicts(event)] == [("a", "server"), ("b", "server"), ("c", "ok")]
    assert (event["hedge"], event["fallback_depth"], event["fallback_reason"]) == ("failed", 2, "503")


def test_a_refusal_by_the_one_beside_refuses_nobody_whom_the_first_serves(gateway):
    has_refused = threading.Event()
    gateway.script("m", "k1", [until(has_refused), *good(False)])
    gateway.script("m", "k2", answer(400, "{}"))
    call = gateway.begin("m")
    _, beside = wait_keys(gateway, "m", "k1", "k2")
    wait_until(lambda: beside.answered is not None, "it has refused")
    has_refused.set()
    assert call.reply().status == 200
    assert gateway.event(call)["hedge"] == "failed"


@both
def test_a_failure_that_ends_the_chain_ends_the_one_beside_too(gateway, is_stream):
    """onTimeout is false: nothing follows a timeout, also where it is under way."""
    gateway.script("final", "k1", [hang()])
    gateway.script("final", "k2", [hang()])
    reply = gateway.chat("final", is_stream)
    assert reply.status == 504
    wait_keys(gateway, "final", "k1", "k2")[1].wait_closed()
    event = gateway.event(reply)
    assert verdicts(event) == [("a", "timeout", "timeout_first_content"), ("b", "cancelled", "chain_ended")]
    assert (event["hedge"], event["fallback_depth"]) == ("cancelled", 0)


def test_the_chains_deadline_is_that_of_both(start_gateway):
    gateway = start_gateway(
        Tree(model("m", hostile("a", "k1"), hostile("b", "k2"), hedgeAfterMs=HEDGE_MS), fullChainTimeoutMs=800)
    )
    for key in ("k1", "k2"):
        gateway.script("m", key, [hang()])
    for is_stream in (False, True):
        reply = gateway.chat("m", is_stream)
        assert reply.status == 504
        event = gateway.event(reply)
        assert verdicts(event) == [("a", "timeout", "timeout_chain"), ("b", "timeout", "timeout_chain")]
        assert (event["hedge"], event["fallback_depth"]) == ("failed", 1)
        assert 800_000 <= event["total_us"]


def test_a_winner_that_is_cut_is_cut_for_its_caller(gateway):
    """Bytes have gone out: there is no way back to the other."""
    gateway.script("m", "k1", [hang()])
    gateway.script("m", "k2", [head(), data(chat.HELLO), pause(0.1), close()])
    reply = gateway.chat("m", stream=True)
    assert chat.text_of(reply.body.split(b"data: {\"error\"")[0]) == "Hello" and b"[DONE]" not in reply.body
    event = gateway.event(reply)
    assert event["end"] == "cut" and event["hedge"] == "won"
    assert [verdict[1] for verdict in verdicts(event)] == ["cancelled", "server"]


# What one attempt has, two have


@both
def test_an_upstream_that_knows_no_stream_options_is_asked_again_beside_the_other(gateway, is_stream):
    refusal = answer(400, '{"error":{"message":"Unknown parameter: stream_options.","param":"stream_options"}}')
    gateway.script("m", "k1", [hang()])
    gateway.script("m", "k2", *([refusal] if is_stream else []), good(is_stream))
    reply = gateway.chat("m", is_stream)
    assert reply.status == 200, reply
    event = gateway.event(reply)
    assert event["hedge"] == "won" and len(event["attempts"]) == 2


def test_heartbeats_go_on_while_two_are_asked(gateway):
    is_over = threading.Event()
    gateway.script("beating", "k1", [hang()])
    gateway.script("beating", "k2", [until(is_over), *good(True, "from the second")])
    call = gateway.begin("beating", stream=True)
    wait_keys(gateway, "beating", "k1", "k2")
    while call.received.count(HEARTBEAT) < 3:
        assert call.read_some(), call.received
    is_over.set()
    reply = call.reply()
    assert chat.text_of(reply.body) == "from the second"
    assert gateway.event(call)["hedge"] == "won"


def test_both_go_on_while_the_program_ends(start_gateway):
    gateway = start_gateway(TREE)
    is_ending = threading.Event()
    gateway.script("m", "k1", [hang()])
    gateway.script("m", "k2", [until(is_ending), *good(True, "from the second")])
    call = gateway.begin("m", stream=True)
    wait_keys(gateway, "m", "k1", "k2")
    idle = gateway.workers()
    gateway.router.signal(signal.SIGTERM)
    wait_until(lambda: len(gateway.workers()) < len(idle), "those without a request have ended")
    is_ending.set()
    assert chat.text_of(call.reply().body) == "from the second"
    assert gateway.router.wait(20) == 0
    assert gateway.event(call)["hedge"] == "won"


@both
@pytest.mark.parametrize("way", ["close", "reset"])
def test_a_caller_that_leaves_closes_both(gateway, is_stream, way):
    gateway.script("m", "k1", [hang()])
    gateway.script("m", "k2", [hang()])
    call = gateway.begin("m", is_stream)
    records = wait_keys(gateway, "m", "k1", "k2")
    left = getattr(call, way)()
    assert max(record.wait_closed() for record in records) - left < PROMISED_S + SLACK_S
    event = gateway.event(call)
    assert event["end"] == "client_gone" and event["hedge"] == "cancelled"
    assert verdicts(event) == [("a", "cancelled", "caller_left"), ("b", "cancelled", "caller_left")]

"""The usage of a stream is asked for whether or not the caller does. An upstream
that refuses to be asked is asked again without it, and that is remembered."""

import json

import pytest

import chat
from scripts import answer, data, end, hang, head, pause, stream
from tree import Tree, hostile, model

# Who words it how: (status, body)
WORDINGS = {
    "Mistral": (
        422,
        {
            "object": "error",
            "message": {
                "detail": [
                    {
                        "type": "extra_forbidden",
                        "loc": ["body", "stream_options", "include_usage"],
                        "msg": "Extra inputs are not permitted",
                        "input": True,
                    }
                ]
            },
        },
    ),
    "FastAPI": (
        422,
        {
            "detail": [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", "stream_options"],
                    "msg": "Extra inputs are not permitted",
                    "input": {"include_usage": True},
                }
            ]
        },
    ),
    "vLLM": (
        400,
        {
            "object": "error",
            "message": "[{'type': 'extra_forbidden', 'loc': ('body', 'stream_options'), "
            "'msg': 'Extra inputs are not permitted', 'input': {'include_usage': True}}]",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
    ),
    "Azure, old versions": (
        400,
        {
            "error": {
                "message": "Unrecognized request argument supplied: stream_options",
                "type": "invalid_request_error",
                "param": "stream_options",
                "code": "unknown_parameter",
            }
        },
    ),
    "Azure, data extension": (
        400,
        {
            "error": {
                "requestid": "6f4a",
                "code": 400,
                "message": "Validation error at #/stream_options: Extra inputs are not permitted",
            }
        },
    ),
    "new-api": (
        400,
        {
            "error": {
                "message": "Unknown parameter: 'stream_options'. (request id: 20250101)",
                "type": "invalid_request_error",
                "param": "stream_options",
                "code": "unknown_parameter",
            }
        },
    ),
    "Poe": (400, {"error": {"message": "Unknown parameter: 'stream_options'", "type": "invalid_request_error"}}),
    "OpenAI": (
        400,
        {
            "error": {
                "message": "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
                "type": "invalid_request_error",
                "param": "stream_options",
                "code": None,
            }
        },
    ),
    "Cohere": (400, {"message": "invalid request: unknown field 'stream_options'"}),
}
NAMES = list(WORDINGS)
STATUS, BODY = WORDINGS["Azure, old versions"]
REFUSAL = answer(STATUS, json.dumps(BODY))
IN_BAND = chat.event({"error": {"message": "Unknown parameter: 'stream_options'", "code": 400}})

TESTS = ("shared", "changed", "asked", "own", "left", "in-band", "late", "unasked", "plain")
TREE = Tree(
    *[model(f"w{n}", hostile("a", "k1")) for n in range(len(NAMES))],
    *[model(name, hostile("a", "k1"), hostile("b", "k2")) for name in TESTS],
    perAttemptTimeoutMs=5000,
)


def asks(record):
    """What the upstream was asked for, of stream_options; None: nothing."""
    return json.loads(record.body).get("stream_options")


USAGE = {"include_usage": True}


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_an_upstream_that_refuses_stream_options_is_asked_again_without_them(gateway, number):
    status, body = WORDINGS[NAMES[number]]
    gateway.script(f"w{number}", "k1", answer(status, json.dumps(body)), stream(*chat.GOOD_STREAM))
    reply = gateway.chat(f"w{number}", stream=True)
    assert reply.status == 200
    assert reply.body == "".join(chat.GOOD_STREAM).encode()
    assert [asks(record) for record in gateway.upstream.records] == [USAGE, None]
    event = gateway.event(reply)
    assert event["end"] == "done" and event["fallback_depth"] == 0 and "fallback_reason" not in event
    [attempt] = event["attempts"]
    assert attempt["verdict"] == "ok" and attempt["status"] == 200
    assert attempt["reason"] == "without_stream_options"

    gateway.upstream.reset()
    gateway.script(f"w{number}", "k1", stream(*chat.GOOD_STREAM))
    reply = gateway.chat(f"w{number}", stream=True)
    assert [asks(record) for record in gateway.upstream.records] == [None], "it is remembered"
    assert gateway.event(reply)["attempts"][0]["reason"] == "without_stream_options"


def learn(gateway, name):
    gateway.script(name, "k1", REFUSAL, stream(*chat.GOOD_STREAM))
    assert gateway.chat(name, stream=True).status == 200
    assert [asks(record) for record in gateway.upstream.records] == [USAGE, None]
    gateway.upstream.reset()


def asks_next(gateway, name):
    """What the next request of a caller without wishes asks for."""
    gateway.upstream.reset()
    gateway.script(name, "k1", stream(*chat.GOOD_STREAM))
    assert gateway.chat(name, stream=True).status == 200
    [record] = gateway.upstream.records
    return asks(record)


def test_what_one_worker_learns_all_know(gateway):
    slow = [head(), data(chat.HELLO), pause(1.0), data(chat.FINISH), data(chat.DONE), end()]
    gateway.script("shared", "k1", REFUSAL, slow, stream(*chat.GOOD_STREAM))
    call = gateway.begin("shared", stream=True)
    call.read_until("Hello")
    other = gateway.chat("shared", stream=True)
    call.reply()
    assert [asks(record) for record in gateway.upstream.records] == [USAGE, None, None]
    assert gateway.event(call)["worker"] != gateway.event(other)["worker"]


def test_a_changed_tree_asks_again(gateway):
    learn(gateway, "changed")
    gateway.reload()
    assert asks_next(gateway, "changed") is None, "nothing has changed"
    gateway.use(TREE)
    assert asks_next(gateway, "changed") == USAGE


def test_other_models_of_the_upstream_are_still_asked(gateway):
    learn(gateway, "plain")
    assert asks_next(gateway, "late") == USAGE


def test_a_refusal_is_the_callers_if_he_asked_himself(gateway):
    gateway.script("asked", "k1", REFUSAL)
    reply = gateway.post(chat.request("asked", True, stream_options=USAGE))
    assert (reply.status, reply.json()) == (STATUS, BODY)
    assert len(gateway.upstream.records) == 1
    assert gateway.event(reply)["end"] == "refused"
    assert asks_next(gateway, "asked") == USAGE, "it is not remembered"


def test_options_of_the_callers_own_are_refused_twice_and_not_remembered(gateway):
    gateway.script("own", "k1", REFUSAL)
    reply = gateway.post(chat.request("own", True, stream_options={"x": 1}))
    assert (reply.status, reply.json()) == (STATUS, BODY)
    assert [asks(record) for record in gateway.upstream.records] == [{"x": 1} | USAGE, {"x": 1}]
    assert len(gateway.event(reply)["attempts"]) == 1
    assert asks_next(gateway, "own") == USAGE


def test_a_caller_that_leaves_teaches_nothing(gateway):
    gateway.script("left", "k1", REFUSAL, [hang()])
    call = gateway.begin("left", stream=True)
    record = gateway.upstream.wait_record(2)
    call.close()
    record.wait_closed()
    assert gateway.event(call)["end"] == "client_gone"
    assert asks_next(gateway, "left") == USAGE


def test_a_refusal_inside_a_stream_counts_as_well(gateway):
    gateway.script("in-band", "k1", stream(IN_BAND), stream(*chat.GOOD_STREAM))
    reply = gateway.chat("in-band", stream=True)
    assert reply.body == "".join(chat.GOOD_STREAM).encode()
    assert [asks(record) for record in gateway.upstream.records] == [USAGE, None]


def test_what_comes_of_asking_again_is_the_attempts_outcome(gateway):
    gateway.script("late", "k1", REFUSAL, answer(500, "{}"))
    gateway.script("late", "k2", stream(*chat.GOOD_STREAM))
    reply = gateway.chat("late", stream=True)
    assert reply.status == 200
    assert [asks(record) for record in gateway.upstream.records] == [USAGE, None, USAGE]
    first, second = gateway.event(reply)["attempts"]
    assert (first["verdict"], first["status"], first["reason"]) == ("server", 500, "status")
    assert second["verdict"] == "ok" and "reason" not in second


def test_usage_that_nobody_asked_for_is_left_where_it_is(gateway):
    learn(gateway, "unasked")
    events = (chat.HELLO, chat.FINISH, chat.usage_event(), chat.DONE)
    gateway.script("unasked", "k1", stream(*events))
    reply = gateway.chat("unasked", stream=True)
    assert reply.body == "".join(events).encode()
    assert gateway.event(reply)["usage"]["input"] == 7


def test_a_plain_request_is_not_asked_twice(gateway):
    gateway.script("plain", "k1", REFUSAL)
    reply = gateway.chat("plain")
    assert (reply.status, reply.json()) == (STATUS, BODY)
    assert len(gateway.upstream.records) == 1

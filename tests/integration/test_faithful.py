"""Bytes: the upstream gets the caller's, except where we own a member; the caller
gets the upstream's."""

import json

import pytest

import chat
from scripts import answer, data, dribble, end, head, stream
from tree import Tree, hostile, model

TREE = Tree(
    model("m", hostile("a", "k1", overrideModel="vendor/real-model", headers={"x-title": "Tests"})),
    model("same", hostile("a", "k1")),
    model("api-key", hostile("a", "k1", headerName="api-key", headerTemplate="{KEY}")),
    default="m",
)

# The caller's body, and what the upstream must get. Members, order, spelling of
# numbers, escapes and white space are the caller's.
PLAIN_BODIES = {
    "the model in the middle": (
        '{"b":1.0e5,"model":"m","a":[1,2,3.10],"z":"\\u00e9\\/"}',
        '{"b":1.0e5,"model":"vendor/real-model","a":[1,2,3.10],"z":"\\u00e9\\/"}',
    ),
    "white space": (
        ' \n{ "messages" : [ ] ,\t"model"\n:\n"m" }\n',
        ' \n{ "messages" : [ ] ,\t"model"\n:\n"vendor/real-model" }\n',
    ),
    "unknown members and large numbers": (
        '{"model":"m","vendor_x":{"n":123456789012345678901234567890,"e":-0.0}}',
        '{"model":"vendor/real-model","vendor_x":{"n":123456789012345678901234567890,"e":-0.0}}',
    ),
    "a model deeper down is not ours": (
        '{"metadata":{"model":"m"},"model":"m","tools":[{"model":"m"}]}',
        '{"metadata":{"model":"m"},"model":"vendor/real-model","tools":[{"model":"m"}]}',
    ),
    "an escaped name and value": (
        '{"mod\\u0065l":"\\u006d","x":1}',
        '{"mod\\u0065l":"vendor/real-model","x":1}',
    ),
    "raw UTF-8": (
        '{"model":"m","messages":[{"role":"user","content":"héllo 你好 🎉"}]}',
        '{"model":"vendor/real-model","messages":[{"role":"user","content":"héllo 你好 🎉"}]}',
    ),
    "stream_options of a request that is no stream": (
        '{"model":"m","stream":false,"stream_options":{"x":1}}',
        '{"model":"vendor/real-model","stream":false,"stream_options":{"x":1}}',
    ),
}


@pytest.mark.parametrize("sent, wanted", PLAIN_BODIES.values(), ids=PLAIN_BODIES.keys())
def test_the_upstream_gets_the_callers_bytes_with_its_own_model_name(gateway, sent, wanted):
    gateway.script("m", "k1", answer(200, chat.completion()))
    assert gateway.post(sent.encode()).status == 200
    assert gateway.upstream.records[0].body.decode() == wanted


@pytest.mark.parametrize(
    "sent", ['{"messages":[]}', "{}", '{ "model":"" }', '{"model":null,"a":1}', '{"model":"auto"}']
)
def test_a_body_without_a_model_gets_the_default_ones(gateway, sent):
    gateway.script("m", "k1", answer(200, chat.completion()))
    assert gateway.post(sent.encode()).status == 200
    got = json.loads(gateway.upstream.records[0].body)
    assert got.pop("model") == "vendor/real-model"
    expected = json.loads(sent)
    expected.pop("model", None)
    assert got == expected


def test_without_an_override_the_body_is_untouched(gateway):
    body = b'{"model" : "same" ,"messages":[],"n":1.50}'
    gateway.script("same", "k1", answer(200, chat.completion()))
    assert gateway.post(body).status == 200
    assert gateway.upstream.records[0].body == body


STREAM_BODIES = {
    "none": ('{"model":"same","stream":true}', {"include_usage": True}),
    "null": ('{"model":"same","stream":true,"stream_options":null}', {"include_usage": True}),
    "empty": ('{"model":"same","stream":true,"stream_options":{}}', {"include_usage": True}),
    "others": ('{"model":"same","stream":true,"stream_options":{"x":1}}', {"include_usage": True, "x": 1}),
    "declined": ('{"model":"same","stream":true,"stream_options":{"include_usage":false}}', {"include_usage": True}),
    "asked": ('{"model":"same","stream":true,"stream_options":{"include_usage":true}}', {"include_usage": True}),
}


@pytest.mark.parametrize("sent, options", STREAM_BODIES.values(), ids=STREAM_BODIES.keys())
def test_usage_is_asked_for_in_every_stream_and_nothing_else_changes(gateway, sent, options):
    gateway.script("same", "k1", stream(*chat.GOOD_STREAM))
    assert gateway.post(sent.encode()).status == 200
    got = json.loads(gateway.upstream.records[0].body)
    assert got == json.loads(sent) | {"stream_options": options}
    if 'include_usage":true' in sent:
        assert gateway.upstream.records[0].body == sent.encode()


def test_a_large_body_with_an_image_arrives(gateway):
    image = "iVBORw0KGgo" * 1_900_000
    body = json.dumps({"model": "same", "messages": [{"role": "user", "content": image}]}).encode()
    assert 20_000_000 < len(body) < 25_000_000
    gateway.script("same", "k1", answer(200, chat.completion()))
    assert gateway.post(body).status == 200
    assert gateway.upstream.records[0].body == body


ODD_STREAMS = {
    "CR LF": (chat.HELLO + chat.FINISH + chat.DONE).replace("\n", "\r\n"),
    "comments between events": ": one\n\n" + chat.HELLO + ": two\n: three\n\n" + chat.FINISH + chat.DONE,
    "event, id and retry lines": "event: message\nid: 7\nretry: 100\n" + chat.HELLO + chat.FINISH + chat.DONE,
    "data without a space": chat.HELLO.replace("data: ", "data:") + chat.FINISH + chat.DONE,
    "data on several lines": chat.HELLO.replace(', "object"', ',\ndata: "object"') + chat.FINISH + chat.DONE,
    "unknown members": chat.chunk({"content": "x"}, vendor={"a": [1, 2]}) + chat.FINISH + chat.DONE,
    "a large event": chat.chunk({"content": "y" * 300_000}) + chat.FINISH + chat.DONE,
    "escapes and raw UTF-8": chat.event('{"choices":[{"index":0,"delta":{"content":"\\u00e9 é 🎉"}}]}')
    + chat.FINISH
    + chat.DONE,
    "extra blank lines": chat.HELLO + "\n\n" + chat.FINISH + "\n" + chat.DONE,
}


@pytest.mark.parametrize("text", ODD_STREAMS.values(), ids=ODD_STREAMS.keys())
def test_a_streams_bytes_reach_the_caller_as_they_came(gateway, text):
    gateway.script("same", "k1", [head(), data(text), end()])
    reply = gateway.chat("same", stream=True)
    assert reply.body == text.encode()
    assert gateway.event(reply)["end"] == "done"


SHORT_STREAMS = {name: text for name, text in ODD_STREAMS.items() if len(text) < 10_000}


@pytest.mark.parametrize("text", SHORT_STREAMS.values(), ids=SHORT_STREAMS.keys())
def test_a_stream_in_single_bytes_reaches_the_caller_as_it_came(gateway, text):
    gateway.script("same", "k1", [head(), dribble(text), end()])
    reply = gateway.chat("same", stream=True)
    assert reply.body == text.encode()
    assert gateway.event(reply)["end"] == "done"


def test_what_the_upstream_sees_of_the_caller_is_only_the_body(gateway):
    gateway.script("m", "k1", answer(200, chat.completion()))
    reply = gateway.post(
        chat.request("m"),
        headers={
            "cookie": "session=1",
            "x-forwarded-for": "10.0.0.1",
            "openai-organization": "org-1",
            "user-agent": "callers-own",
        },
    )
    assert reply.status == 200
    record = gateway.upstream.records[0]
    assert (record.method, record.path) == ("POST", "/a/chat/completions")
    assert record.headers["authorization"] == f"Bearer {gateway.keys.plaintext('m', 'k1')}"
    assert record.headers["content-type"] == "application/json"
    assert record.headers["x-title"] == "Tests"
    assert "expect" not in record.headers
    for name in ("cookie", "x-forwarded-for", "openai-organization"):
        assert name not in record.headers
    assert gateway.caller_key.encode() not in record.raw_head
    assert b"callers-own" not in record.raw_head


def test_the_key_stands_where_the_upstream_wants_it(gateway):
    key = gateway.keys.plaintext("api-key", "k1")
    gateway.upstream.bind("", answer(200, chat.completion()))  # no Bearer value
    assert gateway.chat("api-key").status == 200
    record = gateway.upstream.records[0]
    assert record.headers["api-key"] == key
    assert "authorization" not in record.headers


def test_only_known_reply_headers_reach_the_caller(gateway):
    headers = {
        "content-type": "application/json",
        "set-cookie": "a=b",
        "openai-organization": "org-of-the-operator",
        "x-ratelimit-limit-requests": "10",
        "server": "secret-upstream",
    }
    gateway.script("m", "k1", answer(200, chat.completion(), headers))
    reply = gateway.chat("m")
    assert reply.status == 200
    for name in ("set-cookie", "openai-organization", "x-ratelimit-limit-requests"):
        assert name not in reply.headers
    assert "secret-upstream" not in str(reply.headers)

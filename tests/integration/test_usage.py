"""Usage of streams: understood in every shape, hidden when only we asked for it."""

import pytest

import chat
from scripts import stream
from tree import Tree, hostile, model

TREE = Tree(model("m", hostile("a", "k1")))

OPENAI_FULL = chat.usage_event(
    prompt_tokens=100,
    completion_tokens=50,
    prompt_tokens_details={"cached_tokens": 40, "audio_tokens": 2},
    completion_tokens_details={"reasoning_tokens": 20, "audio_tokens": 3},
)
COUNTS = {"prompt_tokens": 7, "completion_tokens": 3}
EARLY = {"prompt_tokens": 7, "completion_tokens": 1}

# name: (events before [DONE], expected usage, is the usage event ours to hide)
SHAPES = {
    "OpenAI": (
        (chat.HELLO, chat.FINISH, OPENAI_FULL),
        {"input": 100, "output": 50, "cached_read": 40, "reasoning": 20, "audio_in": 2, "audio_out": 3},
    ),
    "usage null in earlier chunks": (
        (chat.chunk({"content": "x"}, usage=None), chat.FINISH, chat.usage_event()),
        {"input": 7, "output": 3},
    ),
    "no choices member": ((chat.HELLO, chat.FINISH, chat.event({"usage": COUNTS})), {"input": 7, "output": 3}),
    "choices null": (
        (chat.HELLO, chat.FINISH, chat.event({"choices": None, "usage": COUNTS})),
        {"input": 7, "output": 3},
    ),
    "DeepSeek's cache": (
        (
            chat.HELLO,
            chat.FINISH,
            chat.usage_event(
                prompt_tokens=9, completion_tokens=4, prompt_cache_hit_tokens=5, prompt_cache_miss_tokens=4
            ),
        ),
        {"input": 9, "output": 4, "cached_read": 5},
    ),
    "xAI: another chunk without choices after it": (
        (chat.HELLO, chat.FINISH, chat.usage_event(), chat.chunk(choices=[])),
        {"input": 7, "output": 3},
    ),
}
IN_CONTENT = {
    "Moonshot: in the choice of the finish chunk": (
        (chat.HELLO, chat.chunk(choices=[{"index": 0, "delta": {}, "finish_reason": "stop", "usage": COUNTS}])),
        {"input": 7, "output": 3},
    ),
    "Groq: x_groq": (
        (chat.HELLO, chat.chunk({}, "stop", x_groq={"id": "r", "usage": COUNTS})),
        {"input": 7, "output": 3},
    ),
    "Mistral: on the finish chunk": ((chat.HELLO, chat.chunk({}, "stop", usage=COUNTS)), {"input": 7, "output": 3}),
    "Perplexity: running totals": (
        (chat.chunk({"content": "x"}, usage=EARLY), chat.chunk({}, "stop", usage=COUNTS)),
        {"input": 7, "output": 3},
    ),
}

every_shape = pytest.mark.parametrize("events, usage", (SHAPES | IN_CONTENT).values(), ids=(SHAPES | IN_CONTENT).keys())


def assert_counted(gateway, reply, usage):
    event = gateway.event(reply)
    assert {name: event["usage"].get(name) for name in usage} == usage
    assert event["usage"]["source"] == "upstream"


@every_shape
def test_usage_is_counted_and_shown_when_the_caller_asked(gateway, events, usage):
    gateway.script("m", "k1", stream(*events, chat.DONE))
    reply = gateway.post(chat.request("m", True, stream_options={"include_usage": True}))
    assert reply.body == "".join([*events, chat.DONE]).encode()
    assert_counted(gateway, reply, usage)


@pytest.mark.parametrize("events, usage", SHAPES.values(), ids=SHAPES.keys())
def test_the_usage_chunk_is_hidden_when_only_we_asked(gateway, events, usage):
    gateway.script("m", "k1", stream(*events, chat.DONE))
    reply = gateway.chat("m", stream=True)
    shown = [event for event in events if '"prompt_tokens"' not in event]
    assert reply.body == "".join([*shown, chat.DONE]).encode()
    assert_counted(gateway, reply, usage)


@pytest.mark.parametrize("events, usage", IN_CONTENT.values(), ids=IN_CONTENT.keys())
def test_usage_inside_content_chunks_is_left_where_it_is(gateway, events, usage):
    gateway.script("m", "k1", stream(*events, chat.DONE))
    reply = gateway.chat("m", stream=True)
    assert reply.body == "".join([*events, chat.DONE]).encode()
    assert_counted(gateway, reply, usage)


def test_a_stream_without_usage_is_recorded_without_counts(gateway):
    gateway.script("m", "k1", stream(*chat.GOOD_STREAM))
    event = gateway.event(gateway.chat("m", stream=True))
    assert "input" not in event.get("usage", {})

"""Usage of streams: understood in every shape, hidden when only we asked for it, and
estimated where a stream broke off before it came (the rule is in core/record/usage.h)."""

import json

import pytest

import chat
import speech
import transcripts
from scripts import answer, close, data, end, flood, hang, head, pause, stream
from speech import MP3, audio
from tree import Tree, hostile, model, speaker

TREE = Tree(
    model("m", hostile("a", "k1")),
    speech=[speaker("say", "openai", hostile("a", "k1"))],
    streamIdleTimeoutMs=1000,
)

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


# A stream that breaks off: "Say hello." are 10 characters, "Hello world" are 11.

CUTS = {
    "it breaks off": ((chat.ROLE, chat.HELLO, chat.WORLD), close(), "cut"),
    "silence": ((chat.HELLO, chat.WORLD), hang(), "cut"),
    "an error": ((chat.HELLO, chat.WORLD, chat.event(chat.error())), hang(), "error_mid"),
    "it ends in the middle": ((chat.HELLO, chat.WORLD), end(), "cut"),
}


@pytest.mark.parametrize("events, then, ending", CUTS.values(), ids=CUTS.keys())
def test_a_stream_that_was_cut_is_estimated(gateway, events, then, ending):
    gateway.script("m", "k1", [head(), *map(data, events), then, close()])
    event = gateway.event(gateway.chat("m", stream=True))
    assert event["end"] == ending
    assert event["usage"] == {"input": 3, "output": 3, "source": "estimated"}


def test_a_stream_that_its_caller_left_is_estimated_too(gateway):
    gateway.script("m", "k1", [head(), data(chat.HELLO), data(chat.WORLD), flood(": still here\n\n", delay=0.05)])
    call = gateway.begin("m", stream=True)
    call.read_until("world")
    call.close()
    event = gateway.event(call)
    assert event["end"] == "client_gone"
    assert event["usage"] == {"input": 3, "output": 3, "source": "estimated"}


@pytest.mark.parametrize(
    "delta, output",
    [
        ({"content": "你好，世界"}, 4),  # three quarters each
        ({"reasoning_content": "Hmm, hmm."}, 3),
        ({"reasoning": "Hmm, hmm.", "reasoning_content": "Hmm, hmm."}, 3),
        ({"tool_calls": [{"index": 0, "id": "call_1", "function": {"name": "look_up", "arguments": '{"a":1}'}}]}, 4),
        ({"refusal": "No."}, 1),
    ],
)
@pytest.mark.parametrize("is_ascii", [True, False], ids=["escaped", "utf-8"])
def test_what_counts_is_what_the_model_wrote(gateway, delta, output, is_ascii):
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    event = f"data: {json.dumps({'choices': [choice]}, ensure_ascii=is_ascii)}\n\n"
    gateway.script("m", "k1", [head(), data(event), close()])
    assert gateway.event(gateway.chat("m", stream=True))["usage"]["output"] == output


def test_what_the_upstream_had_counted_before_it_broke_off_stays(gateway):
    counted = chat.chunk({"content": "x"}, usage={"prompt_tokens": 700, "completion_tokens": 300})
    gateway.script("m", "k1", [head(), data(chat.HELLO), data(counted), close()])
    event = gateway.event(gateway.chat("m", stream=True))
    assert event["end"] == "cut"
    assert event["usage"] == {"input": 700, "output": 300, "source": "upstream"}


def test_an_estimate_fills_what_the_upstream_had_not_counted(gateway):
    counted = chat.chunk({"content": "Hello"}, usage={"prompt_tokens": 700, "prompt_tokens_details": {"cached_tokens": 5}})
    gateway.script("m", "k1", [head(), data(counted), close()])
    event = gateway.event(gateway.chat("m", stream=True))
    assert event["usage"] == {"input": 700, "output": 2, "cached_read": 5, "source": "estimated"}


def test_a_transcription_that_was_cut_is_estimated_by_what_was_heard(gateway):
    heard = chat.event({"type": "transcript.text.delta", "delta": "Hello world"})
    gateway.script("m", "k1", [head(), data(heard), close()])
    call = gateway.transcribe(transcripts.request("m", stream="true"))
    call.reply()
    event = gateway.event(call)
    assert event["end"] == "cut"
    assert event["usage"] == {"output": 3, "source": "estimated"}


def test_an_attempt_that_failed_before_content_has_no_usage(gateway):
    gateway.script("m", "k1", [head(), data(chat.ROLE), close()])
    assert "usage" not in gateway.event(gateway.chat("m", stream=True))


def test_speech_that_was_cut_is_counted_by_its_text(gateway):
    gateway.script("say", "k1", [head(200, MP3), data(audio(400)), pause(0.1), close()])
    call = gateway.speak("say", input="Say hello.")
    call.reply()
    event = gateway.event(call)
    assert event["end"] == "cut"
    assert event["usage"] == {"characters": 10, "source": "estimated"}


def test_speech_that_says_its_tokens_is_no_estimate(gateway):
    counted = speech.done(input_tokens=14, output_tokens=101, total_tokens=115)
    gateway.script("say", "k1", stream(speech.delta(audio(400)), counted))
    reply = gateway.say("say", stream_format="sse", input="Say hello.")
    usage = gateway.event(reply)["usage"]
    assert usage == {"input": 14, "output": 101, "characters": 10, "source": "upstream"}


def test_no_word_of_what_was_counted_is_in_the_record(gateway):
    said, asked = "zanzibar-said", "zanzibar-asked"
    gateway.script("m", "k1", [head(), data(chat.chunk({"content": said})), close()], answer(200, chat.completion(said)))
    body = chat.request("m", True, messages=[{"role": "user", "content": asked}])
    gateway.event(gateway.post(body))
    gateway.event(gateway.post(body | {"stream": False}))
    assert b"zanzibar" not in gateway.spool.read_bytes()

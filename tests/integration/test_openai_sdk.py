"""OpenAI's own client library for Python, at both mounts."""

import io
import json

import openai
import pytest

import chat
import transcripts
from gateway import MOUNTS
from scripts import answer, close, data, hang, head, pause, reset, stream
from tree import Tree, hostile, model

TREE = Tree(
    model("m", hostile("a", "k1")),
    model("two", hostile("a", "k1"), hostile("b", "k2")),
    default="m",
    perAttemptTimeoutMs=600,
    streamIdleTimeoutMs=600,
)

MESSAGES = [{"role": "user", "content": "Say hello."}]
TOOLS = [
    {
        "type": "function",
        "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
]


@pytest.fixture(params=MOUNTS)
def client(gateway, request):
    with openai.OpenAI(
        api_key=gateway.caller_key,
        base_url=f"http://127.0.0.1:{gateway.port}{request.param}",
        max_retries=0,
        timeout=20,
    ) as client:
        client.mount = request.param
        yield client


def ask(client, name="m", **members):
    return client.chat.completions.create(model=name, messages=MESSAGES, **members)


def test_a_plain_answer(gateway, client):
    gateway.script("m", "k1", answer(200, chat.completion("Hello from upstream.")))
    done = ask(client, temperature=0.5)
    assert done.choices[0].message.content == "Hello from upstream."
    assert done.usage.total_tokens == 10
    assert len(done._request_id) == 32


def test_a_streamed_answer(gateway, client):
    gateway.script("m", "k1", stream(*chat.GOOD_STREAM, delay=0.01))
    chunks = list(ask(client, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello world"
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_streamed_answer_with_usage(gateway, client):
    gateway.script("m", "k1", stream(chat.HELLO, chat.FINISH, chat.usage_event(), chat.DONE))
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].usage.completion_tokens == 3


def hear(client, **members):
    file = io.BytesIO(transcripts.SOUND)
    file.name = 'a "quoted" name.wav'
    return client.audio.transcriptions.create(model="m", file=file, **members)


def test_a_transcription(gateway, client):
    gateway.script("m", "k1", answer(200, transcripts.transcript(usage=transcripts.TOKENS)))
    done = hear(client, language="en", timestamp_granularities=["word", "segment"], prompt="Names: Åsa")
    assert done.text == "Hello from upstream."
    assert done.usage.total_tokens == 59
    record = gateway.upstream.records[0]
    assert record.path == "/a/audio/transcriptions"
    for part in (transcripts.SOUND, "Names: Åsa".encode(), b'name="timestamp_granularities[]"'):
        assert part in record.body


def test_a_transcription_as_text(gateway, client):
    gateway.script("m", "k1", answer(200, "WEBVTT\n\n", transcripts.TEXT))
    assert hear(client, response_format="vtt") == "WEBVTT\n\n"


def test_a_streamed_transcription(gateway, client):
    gateway.script("m", "k1", stream(*transcripts.GOOD_STREAM, delay=0.01))
    events = list(hear(client, stream=True))
    assert "".join(event.delta for event in events[:-1]) == events[-1].text == "Hello world"
    assert events[-1].usage.total_tokens == 59


def test_a_broken_stream_of_a_transcription_is_an_error(gateway, client):
    gateway.script("m", "k1", [head(), data(transcripts.delta("Hello")), pause(0.05), close()])
    with pytest.raises(openai.APIError, match="broke off"):
        list(hear(client, stream=True))


def test_an_answer_with_tool_calls(gateway, client):
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": None, "tool_calls": [call]},
        "finish_reason": "tool_calls",
    }
    gateway.script("m", "k1", answer(200, chat.completion(choices=[choice])))
    done = ask(client, tools=TOOLS, tool_choice="auto")
    assert json.loads(done.choices[0].message.tool_calls[0].function.arguments) == {"city": "Paris"}
    assert json.loads(gateway.upstream.records[0].body)["tools"] == TOOLS


def test_streamed_tool_calls(gateway, client):
    def part(**function):
        return chat.chunk({"tool_calls": [{"index": 0, "function": function}]})

    first = chat.chunk(
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
            ],
        }
    )
    pieces = [part(arguments=text) for text in ('{"ci', 'ty":"Pa', 'ris"}')]
    gateway.script("m", "k1", stream(first, *pieces, chat.chunk({}, "tool_calls"), chat.DONE))
    with client.chat.completions.stream(model="m", messages=MESSAGES, tools=TOOLS) as events:
        done = events.get_final_completion()
    assert done.choices[0].message.tool_calls[0].function.name == "weather"
    assert json.loads(done.choices[0].message.tool_calls[0].function.arguments) == {"city": "Paris"}


def test_structured_output(gateway, client):
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    wanted = {"type": "json_schema", "json_schema": {"name": "number", "strict": True, "schema": schema}}
    gateway.script("m", "k1", answer(200, chat.completion('{"n":7}')))
    done = ask(client, response_format=wanted)
    assert json.loads(done.choices[0].message.content) == {"n": 7}
    assert json.loads(gateway.upstream.records[0].body)["response_format"] == wanted


def test_the_list_of_models(client):
    assert {"m", "two"} <= {entry.id for entry in client.models.list()}


def test_fallback_is_invisible(gateway, client):
    gateway.script("two", "k1", answer(401, "{}"))
    gateway.script("two", "k2", stream(*chat.GOOD_STREAM))
    chunks = list(ask(client, "two", stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello world"


ERRORS = {
    "dead keys": (answer(401, "{}"), openai.InternalServerError, 502),
    "rate": (answer(429, "{}"), openai.InternalServerError, 503),
    "timeout": ([hang()], openai.InternalServerError, 504),
    "the caller's mistake": (
        answer(400, json.dumps(chat.error("Too long.", "invalid_request_error", "context_length_exceeded"))),
        openai.BadRequestError,
        400,
    ),
}


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("script, kind, status", ERRORS.values(), ids=ERRORS.keys())
def test_an_error_is_the_librarys_own_exception(gateway, client, script, kind, status, is_stream):
    gateway.script("m", "k1", script)
    with pytest.raises(kind) as caught:
        ask(client, stream=is_stream)
    assert caught.value.status_code == status
    assert caught.value.request_id


def test_an_unknown_model_is_the_librarys_own_exception(client):
    with pytest.raises(openai.NotFoundError if client.mount == "/v1" else openai.BadRequestError) as caught:
        ask(client, "no-such-model")
    if client.mount == "/v1":
        assert caught.value.code == "model_not_found"


def test_a_wrong_key_is_an_authentication_error(gateway, client):
    with pytest.raises(openai.AuthenticationError):
        ask(client.with_options(api_key="wrong"))


BROKEN_STREAMS = {
    "cut": [head(), data(chat.HELLO), pause(0.05), close()],
    "reset": [head(), data(chat.HELLO), reset()],
    "silent": [head(), data(chat.HELLO), hang()],
    "an error": stream(chat.HELLO, chat.event(chat.error())),
}


@pytest.mark.parametrize("script", BROKEN_STREAMS.values(), ids=BROKEN_STREAMS.keys())
def test_a_broken_stream_raises(gateway, client, script):
    gateway.script("m", "k1", script)
    text = ""
    with pytest.raises(openai.APIError):
        for chunk in ask(client, stream=True):
            text += chunk.choices[0].delta.content or ""
    assert text == "Hello"


def test_the_library_retries_what_a_retry_can_help(gateway, client):
    gateway.script("m", "k1", answer(500, "{}"), answer(200, chat.completion("at last")))
    done = ask(client.with_options(max_retries=2))
    assert done.choices[0].message.content == "at last"
    assert len(gateway.upstream.records) == 2


def test_the_library_does_not_retry_what_no_retry_can_help(gateway, client):
    """Dead keys: x-should-retry says no."""
    gateway.script("m", "k1", answer(401, "{}"))
    with pytest.raises(openai.InternalServerError) as caught:
        ask(client.with_options(max_retries=2))
    assert caught.value.response.headers["x-should-retry"] == "false"
    assert len(gateway.upstream.records) == 1


def test_closing_a_stream_cancels_the_upstream(gateway, client):
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()])
    with ask(client.with_options(timeout=5), stream=True) as events:
        next(iter(events))
    record = gateway.upstream.wait_record()
    record.wait_closed(0.8)

"""OpenAI's own client library for JavaScript, at both mounts."""

import base64
import json
import subprocess

import pytest

import chat
import speech
import transcripts
from gateway import MOUNTS
from providers import sound
from scripts import answer, close, data, end, hang, head, pause, stream
from speech import MP3
from tree import Tree, hostile, model, speaker

TREE = Tree(
    model("m", hostile("a", "k1")),
    model("two", hostile("a", "k1"), hostile("b", "k2")),
    speech=[speaker("speaks", "openai", hostile("a", "k1"), hostile("b", "k2"))],
    perAttemptTimeoutMs=1000,
    streamIdleTimeoutMs=1000,
)
MESSAGES = [{"role": "user", "content": "Say hello."}]
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}]


@pytest.fixture(params=MOUNTS)
def client(gateway, request, node_folder):
    """A function: members of the request -> what ask.mjs says came of it."""

    def ask(name="m", stream=False, job=None, **members):
        body = {"model": name, "messages": MESSAGES, **members} | ({"stream": True} if stream else {})
        base_url = f"http://127.0.0.1:{gateway.port}{request.param}"
        whole = {"baseURL": base_url, "apiKey": gateway.caller_key, "body": body} | (job or {})
        done = subprocess.run(
            ["node", "ask.mjs"],
            cwd=node_folder,
            input=json.dumps(whole).encode(),
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    def say(in_pieces=False, job=None, **members):
        body = speech.request("speaks", **members)
        result = ask(job={"wants": "speech", "body": body, "inPieces": in_pieces} | (job or {}))
        result["audio"] = base64.b64decode(result.get("done", ""))
        result["audio"] += b"".join(base64.b64decode(piece) for _, piece in result["chunks"])
        return result

    ask.mount = request.param
    ask.say = say
    return ask


def text_of(result):
    return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in result["chunks"])


def test_a_plain_answer(gateway, client):
    gateway.script("m", "k1", answer(200, chat.completion("Hello from upstream.")))
    result = client(temperature=0.5)
    assert result["done"]["choices"][0]["message"]["content"] == "Hello from upstream."
    assert len(result["requestID"]) == 32
    event = gateway.spool.wait_event(result["requestID"])
    assert (event["end"], event["client"]) == ("done", "openai-node")


def test_a_streamed_answer(gateway, client):
    gateway.script("m", "k1", stream(*chat.GOOD_STREAM, delay=0.01))
    result = client(stream=True)
    assert "error" not in result
    assert text_of(result) == "Hello world"
    assert result["chunks"][-1]["choices"][0]["finish_reason"] == "stop"


def test_streamed_tool_calls(gateway, client):
    def part(**function):
        return chat.chunk({"tool_calls": [{"index": 0, "function": function}]})

    opening = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
    first = chat.chunk({"role": "assistant", "content": None, "tool_calls": [opening]})
    pieces = [part(arguments=text) for text in ('{"ci', 'ty":"Pa', 'ris"}')]
    gateway.script("m", "k1", stream(first, *pieces, chat.chunk({}, "tool_calls"), chat.DONE))
    result = client(stream=True, tools=TOOLS)
    calls = [chunk["choices"][0]["delta"].get("tool_calls") for chunk in result["chunks"]]
    assert "".join(call[0]["function"]["arguments"] for call in calls if call) == '{"city":"Paris"}'
    assert json.loads(gateway.upstream.records[0].body)["tools"] == TOOLS


def test_a_plain_answer_with_tool_calls(gateway, client):
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    gateway.script("m", "k1", answer(200, chat.completion(choices=[choice])))
    assert client(tools=TOOLS)["done"]["choices"][0]["message"]["tool_calls"] == [call]


@pytest.mark.parametrize("is_stream", [False, True], ids=["plain", "streamed"])
def test_a_transcription(gateway, client, is_stream):
    gateway.script("m", "k1", stream(*transcripts.GOOD_STREAM) if is_stream else answer(200, transcripts.transcript()))
    sound = base64.b64encode(transcripts.SOUND).decode()
    result = client(job={"wants": "transcription", "file": sound, "body": {"model": "m", "stream": is_stream}})
    assert "error" not in result
    if is_stream:
        assert [event["type"] for event in result["chunks"]] == [
            "transcript.text.delta",
            "transcript.text.delta",
            "transcript.text.done",
        ]
        assert result["chunks"][-1]["text"] == "Hello world"
    else:
        assert result["done"]["text"] == "Hello from upstream."
    assert transcripts.SOUND in gateway.upstream.records[0].body


def test_the_list_of_models(gateway, client):
    assert {"m", "two"} <= set(client(job={"wants": "models"})["models"])


def test_a_fallback_is_invisible(gateway, client):
    gateway.script("two", "k1", answer(401, "{}"))
    gateway.script("two", "k2", stream(*chat.GOOD_STREAM))
    assert text_of(client("two", stream=True)) == "Hello world"


TOO_LONG = json.dumps(chat.error("Too long.", "invalid_request_error", "context_length_exceeded"))
ERRORS = {
    "dead keys": (answer(401, "{}"), "InternalServerError", 502),
    "rate": (answer(429, "{}"), "InternalServerError", 503),
    "timeout": ([hang()], "InternalServerError", 504),
    "the caller's mistake": (answer(400, TOO_LONG), "BadRequestError", 400),
}


@pytest.mark.parametrize("is_stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("script, name, status", ERRORS.values(), ids=ERRORS.keys())
def test_an_error_is_the_librarys_own(gateway, client, script, name, status, is_stream):
    gateway.script("m", "k1", script)
    error = client(stream=is_stream)["error"]
    assert (error["name"], error["status"]) == (name, status)
    assert error["requestID"]


def test_a_wrong_key_and_an_unknown_model_are_the_librarys_own_errors(gateway, client):
    assert client(job={"apiKey": "wrong"})["error"]["name"] == "AuthenticationError"
    unknown = client("no-such-model")["error"]
    if client.mount == "/v1":
        assert (unknown["name"], unknown["code"]) == ("NotFoundError", "model_not_found")
    else:
        assert unknown["name"] == "BadRequestError"


@pytest.mark.parametrize(
    "script",
    [
        [head(), data(chat.HELLO), pause(0.05), close()],
        [head(), data(chat.HELLO), hang()],
        stream(chat.HELLO, chat.event(chat.error())),
    ],
    ids=["cut", "silent", "an error"],
)
def test_a_broken_stream_is_an_error(gateway, client, script):
    gateway.script("m", "k1", script)
    result = client(stream=True)
    assert text_of(result) == "Hello"
    assert result["error"]["name"] == "APIError", result["error"]


def test_the_library_retries_what_a_retry_can_help(gateway, client):
    gateway.script("m", "k1", answer(500, "{}"), answer(200, chat.completion("at last")))
    result = client(job={"maxRetries": 2})
    assert result["done"]["choices"][0]["message"]["content"] == "at last"
    assert len(gateway.upstream.records) == 2


def test_the_library_does_not_retry_what_no_retry_can_help(gateway, client):
    gateway.script("m", "k1", answer(401, "{}"))
    assert client(job={"maxRetries": 2})["error"]["status"] == 502
    assert len(gateway.upstream.records) == 1


def test_an_aborted_stream_cancels_the_upstream(gateway, client):
    gateway.script("m", "k1", [head(), data(chat.HELLO), data(chat.WORLD), hang()])
    result = client(stream=True, job={"abortAfterChunks": 1})
    assert result["aborted"] and "error" not in result
    gateway.upstream.wait_record().wait_closed(5)  # far below what it would take by itself


@pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "in pieces"])
@pytest.mark.parametrize("kind", ["mp3", "wav"])
def test_speech_can_be_played(gateway, client, kind, in_pieces):
    audio = sound.tone(kind, 24000, 1.5)
    gateway.script("speaks", "k1", answer(200, audio, {"content-type": "application/octet-stream"}))
    result = client.say(in_pieces, response_format=kind, speed=1.25)
    assert "error" not in result
    assert result["audio"] == audio
    assert result["contentType"] == {"mp3": "audio/mpeg", "wav": "audio/wav"}[kind]
    assert sound.decode(result["audio"]) == pytest.approx(1.5, abs=0.1)
    sent = json.loads(gateway.upstream.records[0].body)
    assert (sent["voice"], sent["response_format"], sent["speed"]) == ("alloy", kind, 1.25)
    event = gateway.spool.wait_event(result["requestID"])
    assert (event["end"], event["client"], event["endpoint"]) == ("done", "openai-node", "audio/speech")


def test_speech_is_played_as_it_comes(gateway, client):
    audio = speech.audio(4000)
    gateway.script("speaks", "k1", [head(200, MP3), data(audio[:1000]), pause(0.6), data(audio[1000:]), end()])
    result = client.say(in_pieces=True)
    assert result["audio"] == audio
    times_ms = [at_ms for at_ms, _ in result["chunks"]]
    assert times_ms[-1] > 600
    assert times_ms[-1] - times_ms[0] > 300, "the first piece waited for the last"


def test_speech_falls_back_unseen(gateway, client):
    gateway.script("speaks", "k1", answer(401, "{}"))
    gateway.script("speaks", "k2", answer(200, speech.audio(4000), MP3))
    assert client.say()["audio"] == speech.audio(4000)


@pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "in pieces"])
def test_speech_that_broke_off_is_an_error(gateway, client, in_pieces):
    gateway.script("speaks", "k1", [head(200, MP3), data(speech.audio(4000)), pause(0.05), close()])
    result = client.say(in_pieces)
    assert result["error"], result
    assert len(gateway.upstream.records) == 1


def test_a_refusal_of_speech_is_the_librarys_own_error(gateway, client):
    error = client.say(input="x" * 4097)["error"]
    assert (error["name"], error["status"]) == ("BadRequestError", 400)
    assert error["requestID"]
    if client.mount == "/v1":
        assert "4097" in error["message"]


def test_aborted_speech_cancels_the_upstream(gateway, client):
    gateway.script("speaks", "k1", [head(200, MP3), data(speech.audio(4000)), hang()])
    result = client.say(in_pieces=True, job={"abortAfterChunks": 1})
    assert result["aborted"] and "error" not in result
    gateway.upstream.wait_record().wait_closed(5)  # far below what it would take by itself

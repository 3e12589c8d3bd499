"""Speech through the openai adapter: what is asked of upstreams, how audio comes, what
is told of failures. The seeds' acceptance examples for speech, by name."""

import json
import time

import openai
import pytest

import speech
from errors import assert_error, assert_exhausted
from gateway import MOUNTS
from processes import CAN_MEASURE_MEMORY, MEMORY_REASON, wait_until
from scripts import JSON, SSE, answer, close, data, dribble, end, flood, hang, head, pause, reset, stream
from speech import MP3, audio
from test_chaos import private_kb
from tree import Tree, hostile, refused, speaker

TREE = Tree(
    speech=[
        speaker("one", "openai", hostile("a", "k1", "k2")),
        speaker("two", "openai", hostile("a", "a1", "a2"), hostile("b", "b1")),
        speaker("renamed", "openai", hostile("a", "k1", adapterParams={"model": "tts-1", "defaultVoice": "nova"})),
        speaker("refused-first", "openai", refused("a", "k1"), hostile("b", "k2")),
        speaker("once", "openai", hostile("a", "k1", "k2"), fallbackTriggers={"onTimeout": False}),
    ],
    default_tts="one",
    perAttemptTimeoutMs=1500,
    fullChainTimeoutMs=4000,
    streamIdleTimeoutMs=2000,
)

SOUND = audio(4000)
SPOKEN = answer(200, SOUND, MP3)
CHINESE = "你好，世界。" * 300

at_each_mount = pytest.mark.parametrize("mount", MOUNTS)


def error(message="It failed.", type="server_error", code=None, param=None):
    return json.dumps({"error": {"message": message, "type": type, "param": param, "code": code}})


DEAD = answer(401, error("Incorrect API key provided.", "invalid_request_error", "invalid_api_key"))
RATE = answer(429, error("Slow down.", "requests", "rate_limit_exceeded"))


def keys_asked(gateway, model_name, *keys):
    """In order; a request that was sent again on a fresh connection counts once."""
    names = {gateway.keys.plaintext(model_name, key): key for key in keys}
    return list(dict.fromkeys(names[record.key] for record in gateway.upstream.records))


# What is asked, and what comes


@at_each_mount
def test_ae4_chinese_text_comes_back_as_audio(gateway, mount):
    """With the openai provider; each adapter has it in its own file."""
    gateway.script("one", "k1", SPOKEN)
    reply = gateway.say("one", mount, input=CHINESE)
    assert (reply.status, reply.is_whole) == (200, True)
    assert reply.headers["content-type"] == "audio/mpeg"
    assert reply.body == SOUND
    sent = gateway.upstream.records[0]
    assert sent.path == "/a"
    assert json.loads(sent.body) == speech.request("one", input=CHINESE)
    event = gateway.event(reply)
    assert (event["dialect"], event["endpoint"], event["mount"], event["end"]) == (
        "speech",
        "audio/speech",
        mount,
        "done",
    )
    assert event["usage"] == {"characters": len(CHINESE), "source": "estimated"}
    assert event["text_utf16"] == len(CHINESE.encode("utf-16-le")) // 2
    assert event["attempts"][0]["verdict"] == "ok"


def test_the_body_reaches_the_upstream_as_it_was_written(gateway):
    gateway.script("renamed", "k1", SPOKEN)
    body = b'{ "speed" : 1.50, "x":[1, 2], "input":"\\u0048i", "model" : "renamed","voice":"ash" }'
    reply = gateway.call("POST", "/v1/audio/speech", body).reply()
    assert reply.status == 200
    assert gateway.upstream.records[0].body == body.replace(b'"renamed"', b'"tts-1"')


def test_the_default_model_and_the_default_voice_fill_gaps(gateway):
    gateway.script("one", "k1", SPOKEN)
    for missing in (..., "", "auto", None):
        assert gateway.say(missing).status == 200
    gateway.script("renamed", "k1", SPOKEN)
    assert gateway.say("renamed", voice=...).status == 200
    assert json.loads(gateway.upstream.records[-1].body)["voice"] == "nova"


FORMATS = {
    "mp3": ("audio/mpeg", b"\xff\xfb\x90\x00" + bytes(400)),
    "opus": ("audio/ogg", b"OggS" + bytes(400)),
    "aac": ("audio/aac", b"\xff\xf1\x50\x80" + bytes(400)),
    "flac": ("audio/flac", b"fLaC" + bytes(400)),
    "wav": ("audio/wav", b"RIFF\x00\x00\x00\x00WAVE" + bytes(400)),
    "pcm": ("audio/pcm", b"\xff\xfb\x90\x00" + bytes(400)),
}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("claimed", [{}, speech.OCTETS])
def test_the_content_type_is_that_of_the_format(gateway, format, claimed):
    content_type, sound = FORMATS[format]
    gateway.script("one", "k1", answer(200, sound, claimed))
    reply = gateway.say("one", response_format=format)
    assert (reply.headers["content-type"], reply.body) == (content_type, sound)


def test_the_content_type_follows_what_was_really_delivered(gateway):
    """Asked for opus, told mp3, sent a WAV file."""
    gateway.script("one", "k1", answer(200, FORMATS["wav"][1], MP3))
    assert gateway.say("one", response_format="opus").headers["content-type"] == "audio/wav"


@pytest.mark.parametrize("size", [1, 5000, 65536, 3_000_000])
def test_audio_of_any_size_arrives_byte_for_byte(gateway, size):
    body = audio(size)
    gateway.script("one", "k1", answer(200, body, MP3))
    reply = gateway.say("one")
    assert reply.is_whole
    assert reply.body == body


def test_audio_is_passed_on_as_it_comes(gateway):
    first, rest = audio(700), b"rest"
    gateway.script("one", "k1", [head(200, MP3), data(first), pause(0.7), data(rest), end()])
    call = gateway.speak("one")
    record = gateway.upstream.wait_record()
    call.read_until(first)
    assert record.answered is None, "the upstream was not done"
    assert call.reply().body == first + rest
    event = gateway.event(call)
    assert event["ttft_us"] < event["total_us"] - 500_000


def test_audio_in_single_bytes_arrives(gateway):
    body = audio(600)
    gateway.script("one", "k1", [head(200, MP3), dribble(body), end()])
    assert gateway.say("one").body == body


@pytest.mark.skipif(not CAN_MEASURE_MEMORY, reason=MEMORY_REASON)
@pytest.mark.parametrize("stream_format", ["audio", "sse"])
@pytest.mark.parametrize("source", ["audio", "events"])
def test_a_long_file_takes_no_more_memory_than_a_short_one(start_gateway, source, stream_format):
    """Ten minutes of WAV at 24 kHz, in which memory is looked at when most of it has passed."""
    gateway = start_gateway(TREE, workers=1)
    piece = audio(48_000)
    chunk = piece if source == "audio" else speech.delta(piece)
    kind = MP3 if source == "audio" else SSE

    def relay(count):
        gateway.script("one", "k1", [head(200, kind), *[data(chunk)] * count, hang()])
        call = gateway.speak("one", stream_format=stream_format)
        size = 0
        while size < count * len(piece):  # of base64 there is more
            size += len(call.socket.recv(1 << 20))
        used = private_kb(*gateway.workers())
        call.close()
        gateway.event(call)
        return used

    before = relay(20)
    assert relay(600) < before + 256


# Streams of events


def test_a_stream_of_events_is_made_of_plain_audio(gateway):
    body = audio(200_000)
    gateway.script("one", "k1", [head(200, MP3), data(body[:10]), pause(0.05), data(body[10:]), end()])
    reply = gateway.say("one", stream_format="sse")
    assert reply.headers["content-type"] == "text/event-stream"
    events = speech.payloads(reply.body)
    assert [e["type"] for e in events] == ["speech.audio.delta"] * (len(events) - 1) + ["speech.audio.done"]
    assert speech.audio_of(events) == body
    assert json.loads(gateway.upstream.records[0].body)["stream_format"] == "sse"
    event = gateway.event(reply)
    assert (event["stream"], event["end"]) == (True, "done")


def test_a_stream_of_events_passes_with_its_usage(gateway):
    usage = {"input_tokens": 4, "output_tokens": 90, "total_tokens": 94}
    gateway.script("one", "k1", stream(speech.delta(SOUND[:100]), speech.delta(SOUND[100:]), speech.done(**usage)))
    reply = gateway.say("one", stream_format="sse")
    events = speech.payloads(reply.body)
    assert speech.audio_of(events) == SOUND
    assert events[-1] == {"type": "speech.audio.done", "usage": usage}
    event = gateway.event(reply)
    assert (event["usage"]["input"], event["usage"]["output"]) == (4, 90)
    assert event["usage"]["source"] == "upstream"


def test_events_become_audio_for_who_did_not_ask_for_them(gateway):
    gateway.script("one", "k1", stream(speech.delta(SOUND), speech.done()))
    reply = gateway.say("one")
    assert (reply.headers["content-type"], reply.body) == ("audio/mpeg", SOUND)


BROKEN_STREAMS = {
    "an error event": (stream(speech.delta(SOUND), speech.event({"type": "error", "error": {"message": "no"}})), "error_mid"),
    "no end": (stream(speech.delta(SOUND)), "cut"),
    "a cut": ([head(), data(speech.delta(SOUND)), pause(0.05), close()], "cut"),
    "silence": ([head(), data(speech.delta(SOUND)), hang()], "cut"),
}


@pytest.mark.parametrize("script, how", BROKEN_STREAMS.values(), ids=BROKEN_STREAMS.keys())
def test_a_stream_of_events_that_breaks_ends_with_an_error_event(gateway, script, how):
    gateway.script("one", "k1", script)
    reply = gateway.say("one", stream_format="sse")
    assert (reply.status, reply.is_whole) == (200, True)
    events = speech.payloads(reply.body)
    assert [e["type"] for e in events] == ["speech.audio.delta", "error"]
    assert events[-1]["error"]["code"] == ("upstream_timeout" if script[-1:] == BROKEN_STREAMS["silence"][0][-1:] else "upstream_unavailable")
    assert gateway.event(reply)["end"] == how
    assert len(gateway.upstream.records) == 1


# Fallback


@at_each_mount
@pytest.mark.parametrize("stream_format", ["audio", "sse"])
@pytest.mark.parametrize("first", [DEAD, RATE, answer(500, "{}"), answer(402, "{}"), [reset()], answer(200, b"", MP3),
                                   answer(200, error(), JSON), answer(200, error(), MP3), [head(200, MP3), close()],
                                   stream(speech.event({"error": {"message": "no"}})), stream(speech.done())],
                         ids=["dead key", "rate", "500", "402", "reset", "no audio", "JSON", "JSON as audio", "cut at once",
                              "error event", "end without audio"])
def test_what_failed_before_audio_falls_back_over_keys_and_upstreams(gateway, mount, first, stream_format):
    gateway.script("two", "a1", first)
    gateway.script("two", "a2", first)
    gateway.script("two", "b1", SPOKEN)
    reply = gateway.say("two", mount, stream_format=stream_format)
    assert reply.status == 200
    assert (reply.body if stream_format == "audio" else speech.audio_of(speech.payloads(reply.body))) == SOUND
    assert keys_asked(gateway, "two", "a1", "a2", "b1") == ["a1", "a2", "b1"]
    assert gateway.event(reply)["fallback_depth"] == 2


def test_an_upstream_that_refuses_connections_falls_back(gateway):
    gateway.script("refused-first", "k2", SPOKEN)
    assert gateway.say("refused-first").body == SOUND


@at_each_mount
def test_dead_keys_are_a_server_error_for_the_caller(gateway, mount):
    for key in ("k1", "k2"):
        gateway.script("one", key, DEAD)
    assert_exhausted(gateway.say("one", mount), mount, 502, "BAD_GATEWAY", 2, 1, 401)


@at_each_mount
def test_a_rate_limit_is_told_with_the_smallest_wait(gateway, mount):
    for key, seconds in (("k1", "30"), ("k2", "7")):
        gateway.script("one", key, answer(429, error("Slow down.", "requests", "rate_limit_exceeded"), {"retry-after": seconds}))
    reply = gateway.say("one", mount)
    assert_exhausted(reply, mount, 503, "SERVICE_UNAVAILABLE", 2, 1, 429)
    assert reply.headers["retry-after"] == "7"


def test_an_empty_account_is_told_apart_from_a_rate_limit(gateway):
    gateway.script("one", "k1", answer(429, error("You exceeded your current quota.", "insufficient_quota", "insufficient_quota")))
    gateway.script("one", "k2", RATE)
    event = gateway.event(gateway.say("one"))
    assert [attempt["verdict"] for attempt in event["attempts"]] == ["quota", "rate"]


@at_each_mount
def test_audio_that_does_not_come_in_time_is_a_timeout(gateway, mount):
    for key in ("k1", "k2"):
        gateway.script("one", key, [head(200, MP3), hang()])
    started = time.monotonic()
    assert_exhausted(gateway.say("one", mount), mount, 504, "GATEWAY_TIMEOUT", 2, 1, "timeout")
    assert 2.9 < time.monotonic() - started < 10


def test_a_timeout_ends_the_chain_where_the_model_says_so(gateway):
    gateway.script("once", "k1", [hang()])
    assert gateway.say("once").status == 504
    assert len(gateway.upstream.records) == 1


# The caller's mistakes


@at_each_mount
@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_callers_mistake_ends_the_chain_with_the_upstreams_own_refusal(gateway, mount, status):
    """It is in the caller's dialect already, at both mounts as with completions."""
    refusal = '{ "error": {"message":"Voice `x` is unknown.","type":"invalid_request_error","param":"voice","code":"no_voice"}}\n'
    gateway.script("once", "k1", answer(status, refusal))
    reply = gateway.say("once", mount, voice="x")
    assert (reply.status, reply.body) == (status, refusal.encode())
    assert reply.headers["content-type"] == "application/json"
    assert len(gateway.upstream.records) == 1
    event = gateway.event(reply)
    assert (event["end"], event["status"], event["attempts"][0]["verdict"]) == ("refused", status, "client")


@at_each_mount
@pytest.mark.parametrize("body", ["<html>", "{}", '{"error":"no"}', '{"error":{"message":"' + "x" * 9000 + '"}}', ""])
def test_a_refusal_in_a_form_that_callers_do_not_know_is_ours(gateway, mount, body):
    gateway.script("one", "k1", answer(400, body))
    assert_error(gateway.say("one", mount), mount, 400, "invalid_request" if mount == "/v1" else "BAD_REQUEST")


@at_each_mount
def test_a_refusal_inside_a_2xx_is_ours(gateway, mount):
    refusal = error("The input is too long.", "invalid_request_error", "context_length_exceeded")
    gateway.script("one", "k1", answer(200, refusal, JSON))
    assert_error(gateway.say("one", mount), mount, 400, "invalid_request" if mount == "/v1" else "BAD_REQUEST")
    assert len(gateway.upstream.records) == 1


def test_a_refusal_does_not_carry_a_key(gateway):
    key = gateway.keys.plaintext("two", "a1")
    gateway.script("two", "a1", answer(400, error(f"Key {key} may not use this voice.", "invalid_request_error")))
    reply = gateway.say("two")
    assert reply.status == 400
    assert key.encode() not in reply.body
    assert "[redacted]" in reply.json()["error"]["message"]


def test_the_log_has_the_id_by_which_the_provider_finds_a_failed_request_again(gateway):
    trace = "req_0123456789abcdef"
    gateway.script("one", "k1", answer(401, "{}", {"x-request-id": trace}))
    gateway.script("one", "k2", answer(401, "{}", {"x-request-id": "of no such form"}))
    reply = gateway.say("one")
    lines = wait_until(lambda: len(found := gateway.log_lines_of(reply, "attempt_failed")) == 2 and found, "the log says so")
    assert [line.get("upstream_trace") for line in lines] == [trace, None]


def test_a_model_that_an_upstream_does_not_know_is_asked_of_one_other(gateway):
    unknown = answer(404, error("The model does not exist.", "invalid_request_error", "model_not_found"))
    gateway.script("two", "a1", unknown)
    gateway.script("two", "b1", SPOKEN)
    assert gateway.say("two").body == SOUND
    assert keys_asked(gateway, "two", "a1", "b1") == ["a1", "b1"]
    gateway.script("two", "b1", unknown)
    reply = gateway.say("two")
    assert reply.status == 404
    assert reply.json()["error"]["message"] == "The model does not exist."


BAD_VALUES = {
    "no input": ("input", {"input": ...}),
    "an empty input": ("input", {"input": ""}),
    "an input that is no text": ("input", {"input": 7}),
    "an input of null": ("input", {"input": None}),
    "an input of 4097 characters": ("input", {"input": "字" * 4097}),
    "no voice": ("voice", {"voice": ...}),
    "an empty voice": ("voice", {"voice": ""}),
    "a voice that is a number": ("voice", {"voice": 1}),
    "a voice without id": ("voice", {"voice": {}}),
    "a voice with more than an id": ("voice", {"voice": {"id": "v", "name": "w"}}),
    "a voice with an id that is no text": ("voice", {"voice": {"id": 1}}),
    "a voice with a line end": ("voice", {"voice": "a\r\nb"}),
    "a format that is no text": ("response_format", {"response_format": 1}),
    "a format that nobody knows": ("response_format", {"response_format": "ogg-vorbis"}),
    "a speed that is a text": ("speed", {"speed": "1"}),
    "a speed that is too low": ("speed", {"speed": 0.2}),
    "a speed that is too high": ("speed", {"speed": 4.01}),
    "instructions that are no text": ("instructions", {"instructions": []}),
    "instructions of 4097 characters": ("instructions", {"instructions": "x" * 4097}),
    "a stream_format that nobody knows": ("stream_format", {"stream_format": "ws"}),
    "an extra_body that is no object": ("extra_body", {"extra_body": []}),
    "an extra_body with what operators set": ("extra_body.model", {"extra_body": {"model": "tts-1-hd"}}),
    "an extra_body with what another provider knows": ("extra_body.pitch", {"extra_body": {"pitch": "+2st"}}),
    "a model that is no text": ("model", {"model": 1}),
}


@at_each_mount
@pytest.mark.parametrize("param, members", BAD_VALUES.values(), ids=BAD_VALUES.keys())
def test_each_bad_value_is_told_with_its_name_before_anything_is_asked(gateway, mount, param, members):
    reply = gateway.say("one", mount, **members)
    assert_error(reply, mount, 400, "invalid_request" if mount == "/v1" else "BAD_REQUEST")
    if mount == "/v1":
        assert reply.json()["error"]["param"] == param
        assert param in reply.json()["error"]["message"]
    assert gateway.upstream.records == []
    assert gateway.event(reply)["end"] == "refused"


@pytest.mark.parametrize(
    "members",
    [
        {"input": "字" * 4096},
        {"input": "😀" * 4096},
        {"input": "\x00\x01\x7f"},
        {"voice": {"id": "voice_1234"}},
        {"speed": 0.25},
        {"speed": 4},
        {"speed": None, "instructions": None, "stream_format": None, "response_format": None, "extra_body": None},
        {"instructions": "字" * 4096},
        {"extra_body": {"airi_analytics": {"trigger": "auto"}}},
        {"unknown": True},
    ],
)
def test_what_is_allowed_reaches_the_upstream(gateway, members):
    gateway.script("one", "k1", SPOKEN)
    assert gateway.say("one", **members).status == 200
    sent = json.loads(gateway.upstream.records[0].body)
    expected = speech.request("one", **members)
    expected.pop("extra_body", None)
    assert sent == expected


def test_a_lone_surrogate_reaches_the_upstream_as_it_was_written(gateway):
    gateway.script("one", "k1", SPOKEN)
    body = b'{"model":"one","input":"\\ud83d!","voice":"alloy"}'
    assert gateway.call("POST", "/v1/audio/speech", body).reply().status == 200
    assert gateway.upstream.records[0].body == body


@pytest.mark.parametrize("mount, status, code", [("/v1", 404, "model_not_found"), ("/api/v1/openai", 400, "BAD_REQUEST")])
def test_an_unknown_model_is_refused_before_any_upstream(gateway, mount, status, code):
    details = assert_error(gateway.say("no-such-model", mount), mount, status, code)
    if mount != "/v1":
        assert details["requested"] == "no-such-model"
        assert {"one", "two", "renamed"} <= set(details["available"])
        assert not [name for name in details["available"] if name.startswith("tree-")], "a model of llm speaks not"


def test_models_of_both_parts_are_listed(gateway):
    names = gateway.model_names()
    assert {"one", "two", "renamed"} <= set(names)
    assert gateway.get("/v1/models/one").status == 200


def test_a_chat_completion_does_not_go_to_a_model_that_speaks(gateway):
    assert gateway.chat("one").status == 404


# After the first byte


@pytest.mark.parametrize("broken", [close(), reset(), hang()], ids=["close", "reset", "silence"])
def test_audio_that_breaks_off_looks_broken_and_is_not_asked_again(gateway, broken):
    gateway.script("two", "a1", [head(200, MP3), data(SOUND), pause(0.05), broken])
    call = gateway.speak("two")
    reply = call.reply()
    assert (reply.status, reply.is_whole) == (200, False)
    assert SOUND.startswith(reply.body) or reply.body == SOUND
    event = gateway.event(call)
    assert (event["end"], event["committed"]) == ("cut", True)
    assert len(gateway.upstream.records) == 1


@pytest.mark.parametrize("way", ["close", "reset"])
@pytest.mark.parametrize("script", [[hang()], [head(200, MP3), flood(SOUND, delay=0.02)]], ids=["before", "while"])
def test_a_departed_caller_closes_the_upstream(gateway, script, way):
    gateway.script("one", "k1", script)
    call = gateway.speak("one")
    record = gateway.upstream.wait_record()
    if len(script) > 1:
        call.read_until(SOUND)
    time.sleep(0.15)
    left = getattr(call, way)()
    assert record.wait_closed(5) - left < 0.4
    assert gateway.event(call)["end"] == "client_gone"


# OpenAI's own client


@pytest.fixture(params=MOUNTS)
def client(gateway, request):
    url = f"http://127.0.0.1:{gateway.port}{request.param}"
    with openai.OpenAI(api_key=gateway.caller_key, base_url=url, max_retries=0, timeout=20) as client:
        yield client


def test_the_openai_client_gets_audio_whole(gateway, client):
    gateway.script("one", "k1", SPOKEN)
    spoken = client.audio.speech.create(model="one", voice="alloy", input="Hello.", response_format="mp3", speed=1.25)
    assert spoken.read() == SOUND
    assert json.loads(gateway.upstream.records[0].body)["speed"] == 1.25


def test_the_openai_client_gets_audio_as_it_comes(gateway, client):
    gateway.script("one", "k1", [head(200, MP3), data(SOUND[:1000]), pause(0.7), data(SOUND[1000:]), end()])
    times, received = [], b""
    with client.audio.speech.with_streaming_response.create(model="one", voice="alloy", input="Hello.") as spoken:
        for chunk in spoken.iter_bytes():
            times.append(time.monotonic())
            received += chunk
    assert received == SOUND
    assert times[-1] - times[0] > 0.3, "the pause is at the caller, too"


def test_the_openai_client_fails_on_audio_that_broke_off(gateway, client):
    gateway.script("one", "k1", [head(200, MP3), data(SOUND), pause(0.05), close()])
    with pytest.raises(Exception) as raised:
        client.audio.speech.create(model="one", voice="alloy", input="Hello.").read()
    assert "incomplete" in str(raised.value) or isinstance(raised.value, openai.APIConnectionError), raised.value


def test_the_openai_client_reads_our_refusal(gateway, client):
    with pytest.raises(openai.BadRequestError) as raised:
        client.audio.speech.create(model="one", voice="alloy", input="x" * 4097)
    assert "4097" in raised.value.response.text

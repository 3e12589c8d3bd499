"""Transcriptions: forms on their way to an upstream, byte for byte, and what comes back."""

import json
import time

import pytest

import transcripts
from errors import assert_error, assert_exhausted
from gateway import MOUNTS
from scripts import JSON, answer, close, data, end, flood, hang, head, pause, reset, stream
from test_secrets import Growth, all_secrets, assert_clean
from transcripts import BOUNDARY, FORM, GOOD_STREAM, SOUND, TEXT, TOKENS, delta, done, file, form, part, transcript
from tree import Tree, hostile, model, refused

TREE = Tree(
    model("m", hostile("a", "k1", overrideModel="vendor/real-model")),
    model("same", hostile("a", "k1")),
    model("two", hostile("a", "a1", "a2"), hostile("b", "b1", overrideModel="other")),
    model("refused-first", refused("a", "k1"), hostile("b", "k2")),
    model("patient", hostile("a", "k1", plainTimeoutMs=20000)),
    model("eager", hostile("a", "k1"), heartbeatMs=100),
    default="same",
    perAttemptTimeoutMs=1500,
    fullChainTimeoutMs=4000,
    streamIdleTimeoutMs=1000,
)

LIMIT = 25 * 1024 * 1024
USAGE = {"input": 14, "output": 45, "audio_in": 14}  # of TOKENS
HEARD = answer(200, transcript())
DEAD = answer(401, json.dumps({"error": {"message": "Incorrect API key provided.", "code": "invalid_api_key"}}))

at_each_mount = pytest.mark.parametrize("mount", MOUNTS)


def error(message="It failed.", type="server_error", code=None, param=None):
    return json.dumps({"error": {"message": message, "type": type, "param": param, "code": code}})


def keys_asked(gateway, model_name, *keys):
    names = {gateway.keys.plaintext(model_name, key): key for key in keys}
    return [names[record.key] for record in gateway.upstream.records]


def payloads(body):
    return [json.loads(block.removeprefix("data: ")) for block in body.decode().split("\n\n") if block]


# What an upstream gets


@at_each_mount
def test_a_transcription_is_asked_of_the_upstreams_own_endpoint_and_comes_back(gateway, mount):
    gateway.script("m", "k1", answer(200, transcript(usage=TOKENS)))
    reply = gateway.hear("m", mount=mount, language="en")
    assert (reply.status, reply.body.decode()) == (200, transcript(usage=TOKENS))
    assert reply.headers["content-type"] == "application/json"
    record = gateway.upstream.records[0]
    assert (record.method, record.path) == ("POST", "/a/audio/transcriptions")
    assert record.headers["content-type"] == FORM["content-type"]
    assert record.headers["accept"] == "application/json"
    assert record.body == transcripts.request("vendor/real-model", language="en")
    event = gateway.event(reply)
    assert (event["dialect"], event["endpoint"], event["mount"], event["end"]) == (
        "transcription",
        "audio/transcriptions",
        mount,
        "done",
    )
    assert (event["model"], event["stream"]) == ("m", False)
    assert event["body_bytes"] == len(transcripts.request("m", language="en"))
    assert event["attempts"][0]["dialect"] == "transcription"
    assert event["usage"] == USAGE | {"source": "upstream"}


# The caller's form, and what the upstream must get.
FORMS = {
    "the model first": (form(part("model", "m"), file()), form(part("model", "vendor/real-model"), file())),
    "the model last": (form(file(), part("model", "m")), form(file(), part("model", "vendor/real-model"))),
    "what stands around it": (
        form(file(), part("model", "m"), before=b"a preamble\r\n", after=b" \r\nan epilogue"),
        form(file(), part("model", "vendor/real-model"), before=b"a preamble\r\n", after=b" \r\nan epilogue"),
    ),
    "a length of the part": (
        form(part("model", "m", head="Content-Length: 1\r\n"), file()),
        form(part("model", "vendor/real-model", head="Content-Length: 17\r\n"), file()),
    ),
    "lines in other letters": (
        form(b"content-disposition:form-data;name=model\r\n\r\nm", file()),
        form(b"content-disposition:form-data;name=model\r\n\r\nvendor/real-model", file()),
    ),
    "fields that repeat": (
        form(part("model", "m"), part("include[]", "logprobs"), part("include[]", "x"), part("", ""), file()),
        form(part("model", "vendor/real-model"), part("include[]", "logprobs"), part("include[]", "x"), part("", ""), file()),
    ),
    "a form within the file": (
        form(part("model", "m"), file(form(part("model", "x"), boundary="inner"))),
        form(part("model", "vendor/real-model"), file(form(part("model", "x"), boundary="inner"))),
    ),
}


@pytest.mark.parametrize("sent, wanted", FORMS.values(), ids=FORMS.keys())
def test_the_upstream_gets_the_callers_bytes_with_its_own_model_name(gateway, sent, wanted):
    gateway.script("m", "k1", HEARD)
    assert gateway.transcribe(sent).reply().status == 200
    assert gateway.upstream.records[0].body == wanted


@pytest.mark.parametrize("boundary", ["b", "'()+_,-./:=?", "0" * 70])
def test_the_header_with_the_boundary_reaches_the_upstream_as_it_was_written(gateway, boundary):
    gateway.script("same", "k1", HEARD)
    body = form(part("model", "same"), file(), boundary=boundary)
    kind = f'Multipart/Form-Data;charset="utf-8"; BOUNDARY="{boundary}"'
    assert gateway.transcribe(body, headers={"content-type": kind}).reply().status == 200
    record = gateway.upstream.records[0]
    assert (record.headers["content-type"], record.body) == (kind, body)


def test_a_file_of_any_bytes_and_20_mb_arrives(gateway):
    content = bytes(range(256)) * 80_000
    gateway.script("patient", "k1", HEARD)
    body = transcripts.request("patient", content=content)
    assert gateway.transcribe(body).reply().status == 200
    assert gateway.upstream.records[0].body == body


# What comes back


VTT = {"content-type": "text/vtt"}
WHOLE = {  # fields, body, headers, usage
    "verbose": ({"response_format": "verbose_json"}, transcript(duration=8.47, segments=[]), JSON, {"audio_ms": 8470}),
    "seconds": ({}, transcript(usage={"type": "duration", "seconds": 9}), JSON, {"audio_ms": 9000}),
    "silence": ({}, transcript(""), JSON, None),
    "text": ({"response_format": "text"}, "Hello.\n", TEXT, None),
    "silence as text": ({"response_format": "text"}, "\n", TEXT, None),
    "srt": ({"response_format": "srt"}, "1\n00:00:00,000 --> 00:00:01,000\nHi\n\n", TEXT, None),
    "vtt": ({"response_format": "vtt"}, "WEBVTT\n\n", VTT, None),
    "large": ({"response_format": "json"}, transcript("x" * 1_500_000, usage=TOKENS), JSON, USAGE),
}


@pytest.mark.parametrize("fields, body, kind, usage", WHOLE.values(), ids=WHOLE.keys())
@pytest.mark.parametrize("wish", [{}, {"stream": "true"}], ids=["plain", "asked for as a stream"])
def test_a_whole_reply_comes_as_the_upstream_wrote_it(gateway, fields, body, kind, usage, wish):
    """Also to who asked for a stream: OpenAI's whisper-1 ignores that."""
    gateway.script("same", "k1", answer(200, body, kind))
    reply = gateway.hear("same", **fields, **wish)
    assert (reply.status, reply.is_whole, reply.body.decode()) == (200, True, body)
    assert reply.headers["content-type"] == kind["content-type"]
    event = gateway.event(reply)
    assert (event["end"], event["stream"]) == ("done", bool(wish))
    assert event.get("usage") == (usage and usage | {"source": "upstream"})


def test_a_large_reply_that_breaks_off_is_a_broken_transfer(gateway):
    """Whatever was asked for: what went out is no stream of events."""
    for wish in ({}, {"stream": "true"}):
        gateway.script("same", "k1", [head(200, JSON), data('{"text":"' + "x" * 1_500_000), pause(0.1), close()])
        reply = gateway.hear("same", **wish)
        assert (reply.status, reply.is_whole) == (200, False)
        assert b"error" not in reply.body
        assert gateway.event(reply)["end"] == "cut"


# Streams


@at_each_mount
@pytest.mark.parametrize("mark", ["", "data: [DONE]\n\n"], ids=["as OpenAI ends it", "with a mark"])
def test_a_stream_comes_as_it_is_and_ends_as_the_upstream_ends_it(gateway, mount, mark):
    gateway.script("m", "k1", stream(*GOOD_STREAM, *([mark] if mark else [])))
    reply = gateway.hear("m", mount=mount, stream="true")
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.body.decode() == "".join(GOOD_STREAM) + mark
    assert gateway.upstream.records[0].headers["accept"] == "text/event-stream"
    event = gateway.event(reply)
    assert (event["stream"], event["end"], event["usage"]) == (True, "done", USAGE | {"source": "upstream"})
    assert event["attempts"][0].get("reason") is None


def test_events_are_passed_on_as_they_come(gateway):
    gateway.script("same", "k1", [head(), data(delta("Hello")), pause(0.6), data(done("Hello")), end()])
    call = gateway.transcribe(transcripts.request("same", stream="true"))
    record = gateway.upstream.wait_record()
    call.read_until("Hello")
    assert record.answered is None, "the upstream was not done"
    assert call.reply().body.decode() == delta("Hello") + done("Hello")


BROKEN_STREAMS = {
    "an error event": (stream(delta("Hi"), transcripts.event({"type": "error", "error": {"message": "no"}})), "error_mid"),
    "no end": (stream(delta("Hi")), "cut"),
    "a cut": ([head(), data(delta("Hi")), pause(0.05), close()], "cut"),
    "silence": ([head(), data(delta("Hi")), hang()], "cut"),
}


@pytest.mark.parametrize("script, how", BROKEN_STREAMS.values(), ids=BROKEN_STREAMS.keys())
def test_a_stream_that_breaks_ends_with_an_error_event(gateway, script, how):
    gateway.script("same", "k1", script)
    reply = gateway.hear("same", stream="true")
    assert (reply.status, reply.is_whole) == (200, True)
    assert [event["type"] for event in payloads(reply.body)] == ["transcript.text.delta", "error"]
    assert payloads(reply.body)[-1]["error"]["message"]
    assert gateway.event(reply)["end"] == how


def test_a_heartbeat_stands_between_events_and_never_before_them(gateway):
    """Before them the reply may still become a document."""
    gateway.script("eager", "k1", [head(), pause(0.35), data(delta("Hi")), pause(0.35), data(done("Hi")), end()])
    body = gateway.hear("eager", stream="true").body.decode()
    assert body.startswith(delta("Hi") + ": heartbeat\n\n")
    assert body.endswith(done("Hi"))
    gateway.script("eager", "k1", [pause(0.35), *HEARD])
    assert gateway.hear("eager", stream="true").body.decode() == transcript()


# Fallback


FAILURES = {
    "a dead key": DEAD,
    "a rate": answer(429, error("Slow down.", "requests", "rate_limit_exceeded")),
    "a 500": answer(500, "{}"),
    "an empty account": answer(402, "{}"),
    "a reset": [reset()],
    "nothing": answer(200, ""),
    "an error": answer(200, error()),
    "no text": answer(200, "{}"),
    "a cut": [head(200, JSON, length=100), data('{"text":'), close()],
}
FAILED_STREAMS = {
    "an error event": stream(transcripts.event({"error": {"message": "no"}})),
    "an empty delta and no more": stream(delta("")),
    "a cut at once": [head(), data(delta("")), close()],
}
WISHES = [(name, script, {}) for name, script in FAILURES.items()]
WISHES += [(name, script, {"stream": "true"}) for name, script in (FAILURES | FAILED_STREAMS).items()]
WISHES += [(name, FAILURES[name], {"response_format": "text"}) for name in ("a dead key", "nothing", "an error")]


@pytest.mark.parametrize("script, wish", [row[1:] for row in WISHES], ids=[f"{row[0]}, {row[2] or 'json'}" for row in WISHES])
def test_what_failed_before_a_transcript_falls_back_over_keys_and_upstreams(gateway, script, wish):
    """With the whole form each time, and the model's name as it is there."""
    gateway.script("two", "a1", script)
    gateway.script("two", "a2", script)
    gateway.script("two", "b1", stream(*GOOD_STREAM) if "stream" in wish else HEARD)
    reply = gateway.hear("two", **wish)
    assert reply.body.decode() == ("".join(GOOD_STREAM) if "stream" in wish else transcript())
    keys = list(dict.fromkeys(keys_asked(gateway, "two", "a1", "a2", "b1")))  # a replay counts once
    assert keys == ["a1", "a2", "b1"]
    bodies = [record.body for record in gateway.upstream.records]
    assert bodies[0] == transcripts.request("two", **wish)
    assert bodies[-1] == transcripts.request("other", **wish)
    assert gateway.event(reply)["fallback_depth"] == 2


@pytest.mark.parametrize("wish", [{}, {"stream": "true"}, {"response_format": "text"}], ids=["json", "stream", "text"])
def test_a_page_is_no_transcript_and_the_next_upstream_is_asked(gateway, wish):
    """Not the next key: whoever answers with pages is at the wrong address."""
    gateway.script("two", "a1", answer(200, "<html>Welcome</html>", {"content-type": "text/html"}))
    gateway.script("two", "b1", HEARD)
    assert gateway.hear("two", **wish).body.decode() == transcript()
    assert keys_asked(gateway, "two", "a1", "a2", "b1") == ["a1", "b1"]


@at_each_mount
def test_a_dead_key_is_followed_by_the_next(gateway, mount):
    gateway.script("two", "a1", DEAD)
    gateway.script("two", "a2", HEARD)
    reply = gateway.hear("two", mount=mount)
    assert (reply.status, reply.body.decode()) == (200, transcript())
    assert [attempt["verdict"] for attempt in gateway.event(reply)["attempts"]] == ["auth", "ok"]


def test_an_upstream_that_refuses_connections_falls_back(gateway):
    gateway.script("refused-first", "k2", HEARD)
    assert gateway.hear("refused-first").status == 200


@at_each_mount
def test_dead_keys_are_a_server_error_for_the_caller(gateway, mount):
    for key in ("a1", "a2", "b1"):
        gateway.script("two", key, DEAD)
    assert_exhausted(gateway.hear("two", mount=mount), mount, 502, "BAD_GATEWAY", 3, 2, 401)


@at_each_mount
def test_a_transcript_that_does_not_come_in_time_is_a_timeout(gateway, mount):
    gateway.script("same", "k1", [hang()])
    assert_exhausted(gateway.hear("same", mount=mount), mount, 504, "GATEWAY_TIMEOUT", 1, 1, "timeout")


@at_each_mount
@pytest.mark.parametrize("status", [400, 413])
def test_an_upstreams_refusal_of_the_file_is_passed_on(gateway, mount, status):
    words = error("Invalid file format. Supported formats: ['flac', 'm4a']", "invalid_request_error", None, "file")
    for key in ("a1", "b1"):
        gateway.script("two", key, answer(status, words))
    reply = gateway.hear("two", mount=mount)
    assert (reply.status, reply.body.decode()) == (status, words)
    event = gateway.event(reply)
    assert (event["end"], event["attempts"][0]["verdict"]) == ("refused", "client")
    assert keys_asked(gateway, "two", "a1", "a2", "b1")[0] == "a1"


# What is refused here


@at_each_mount
@pytest.mark.parametrize("name", [None, "", "auto"], ids=["missing", "empty", "auto"])
def test_a_transcription_has_no_default_model(gateway, mount, name):
    """Though there is one for completions."""
    reply = gateway.hear(name, mount=mount)
    assert_error(reply, mount, 400, "MISSING_MODEL")
    if mount == "/v1":
        assert reply.json()["error"]["param"] == "model"
    assert gateway.event(reply)["end"] == "refused"


@at_each_mount
def test_an_unknown_model_does_not_exist(gateway, mount):
    reply = gateway.hear("no-such-model", mount=mount)
    assert reply.status == (404 if mount == "/v1" else 400)
    if mount == "/v1":
        assert reply.json()["error"]["code"] == "model_not_found"
    else:
        assert reply.json()["details"]["requested"] == "no-such-model"
        assert "same" in reply.json()["details"]["available"]


GOOD = transcripts.request("same")
BROKEN_FORMS = {
    "no boundary": (GOOD, {"content-type": "multipart/form-data"}, None),
    "another boundary": (GOOD, {"content-type": "multipart/form-data; boundary=x"}, None),
    "a long boundary": (GOOD, {"content-type": f"multipart/form-data; boundary={'x' * 71}"}, None),
    "nothing": (b"", FORM, None),
    "cut": (GOOD[:-30], FORM, None),
    "no form": (b'{"model":"same"}', FORM, None),
    "two models": (form(part("model", "same"), part("model", "m"), file()), FORM, "model"),
    "a model in another case": (form(part("model", "same"), part("Model", "m"), file()), FORM, "model"),
    "a file as a model": (form(part("model", "same", '; filename="x"'), file()), FORM, "model"),
    "a model hidden behind a bare line feed": (
        form(part("model", "same"), file(b"x\n--%s\r\n%s" % (BOUNDARY.encode(), part("model", "m")))),
        FORM,
        None,
    ),
    "a model behind the end": (GOOD + transcripts.request("m"), FORM, None),
    "a head that is too long": (form(part("model", "same", head=f"x: {'x' * 8192}\r\n")), FORM, None),
    "a stream of neither": (transcripts.request("same", stream="maybe"), FORM, "stream"),
}


@at_each_mount
@pytest.mark.parametrize("body, kind, param", BROKEN_FORMS.values(), ids=BROKEN_FORMS.keys())
def test_a_broken_form_is_refused_and_nothing_is_asked(gateway, mount, body, kind, param):
    reply = gateway.transcribe(body, mount, headers=kind).reply()
    assert_error(reply, mount, 400, "BAD_REQUEST")
    if mount == "/v1":
        assert reply.json()["error"]["param"] == param
    assert gateway.upstream.records == []
    assert gateway.event(reply)["end"] == "refused"


@at_each_mount
@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", "multipart/mixed; boundary=b"])
def test_what_is_no_form_is_415(gateway, mount, kind):
    reply = gateway.transcribe(GOOD, mount, headers={"content-type": kind}).reply()
    assert reply.status == 415
    message = reply.json()["error"]["message"] if mount == "/v1" else reply.json()["message"]
    assert message == "The body must be multipart/form-data."


@at_each_mount
def test_a_form_may_have_25_mib_and_not_a_byte_more(start_gateway, mount):
    gateway = start_gateway(Tree(model("same", hostile("a", "k1"))), workers=1)
    gateway.script("same", "k1", HEARD)
    around = len(transcripts.request("same", content=b""))
    whole = transcripts.request("same", content=bytes(LIMIT - around))
    assert len(whole) == LIMIT
    assert gateway.transcribe(whole, mount).reply().status == 200
    assert gateway.upstream.records[0].body == whole
    reply = gateway.transcribe(transcripts.request("same", content=bytes(LIMIT - around + 1)), mount).reply()
    assert reply.status == 413
    message = reply.json()["error"]["message"] if mount == "/v1" else reply.json()["message"]
    assert message == f"The body has {LIMIT + 1} bytes; at most {LIMIT} are allowed."
    assert len(gateway.upstream.records) == 1


def test_get_is_not_allowed(gateway):
    reply = gateway.get("/v1/audio/transcriptions")
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


# Departures and secrets


DEPARTURES = {
    "before a reply": ({}, [hang()], None),
    "between events": ({"stream": "true"}, [head(), data(delta("Hello")), hang()], "Hello"),
    "while events come": ({"stream": "true"}, [head(), flood(delta("Hello"), delay=0.02)], "Hello"),
}


@pytest.mark.parametrize("fields, script, seen", DEPARTURES.values(), ids=DEPARTURES.keys())
def test_a_departed_caller_closes_the_upstream(gateway, fields, script, seen):
    gateway.script("same", "k1", script)
    call = gateway.transcribe(transcripts.request("same", **fields))
    record = gateway.upstream.wait_record()
    if seen is not None:
        call.read_until(seen)
    time.sleep(0.15)
    left = call.close()
    assert record.wait_closed() - left < 0.2 + 0.5, "200 ms is the promise; the rest is the test machine's"
    event = gateway.event(call)
    assert (event["end"], event["attempts"][-1]["verdict"]) == ("client_gone", "cancelled")


@at_each_mount
def test_neither_a_key_nor_what_was_said_gets_out(gateway, mount):
    growth = Growth(gateway)
    key = gateway.keys.plaintext("two", "a1")
    gateway.script("two", "a1", answer(401, error(f"Incorrect API key provided: {key}", None, key)))
    gateway.script("two", "a2", answer(200, f"<html>{key}</html>"))
    gateway.script("two", "b1", answer(200, transcript("something that was said")))
    reply = gateway.hear("two", mount=mount, prompt="names that are known")
    gateway.event(reply)
    added = growth.added()
    assert_clean(all_secrets(gateway), added | {"the reply": reply.body + str(reply.headers).encode()})
    for place, text in added.items():
        for said in (b"something that was said", b"names that are known", SOUND[:16]):
            assert said not in text, f"{said} is in {place}"

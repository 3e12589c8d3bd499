"""Volcengine's openspeech. v1: one object with all of the audio, of at most 1,024
bytes of text. v3: a row of objects, some of them long lines, or the same as events. One code
carries many failures; the words tell them apart."""

import base64
import json
import secrets

from providers import sound
from providers.exchange import Reply

ENCODINGS = {"mp3": "mp3", "ogg_opus": "opus", "wav": "wav", "pcm": "pcm"}
V1_RATES = {8000, 16000, 24000}
V3_RATES = V1_RATES | {22050, 32000, 44100, 48000}
RESOURCES = {  # of voices, what has to be bought
    "BV001_streaming": "seed-tts-1.0",
    "zh_female_shuangkuaisisi_moon_bigtts": "seed-tts-1.0",
    "zh_female_vv_uranus_bigtts": "seed-tts-2.0",
}
APPIDS = {"4711"}
TEXT_BYTES_MAX = 1024

AUDIO = {
    "speed_ratio": lambda v: 0.2 <= v <= 3,
    "bitrate": lambda v: isinstance(v, int),
    "emotion": lambda v: isinstance(v, str),
    "emotion_scale": lambda v: 1 <= v <= 5,
    "enable_emotion": lambda v: isinstance(v, bool),
    "language": lambda v: isinstance(v, str),
    "explicit_language": lambda v: isinstance(v, str),
    "context_language": lambda v: isinstance(v, str),
    "loudness_ratio": lambda v: 0.5 <= v <= 2,
    "volume_ratio": lambda v: 0.1 <= v <= 3,
    "pitch_ratio": lambda v: 0.1 <= v <= 3,
}
REQUEST = {
    "text_type": lambda v: v in ("plain", "ssml"),
    "silence_duration": lambda v: 0 <= v <= 30000,
    "extra_param": lambda v: isinstance(json.loads(v), dict),
}
AUDIO_PARAMS = {
    "bit_rate": lambda v: isinstance(v, int),
    "speech_rate": lambda v: isinstance(v, int) and -50 <= v <= 100,
    "loudness_rate": lambda v: isinstance(v, int) and -50 <= v <= 100,
    "emotion": lambda v: isinstance(v, str),
    "emotion_scale": lambda v: 1 <= v <= 5,
}

NO_GRANT = "authenticate request: load grant: requested grant not found in SaaS storage"
V1_TROUBLES = {
    "unknown": (401, 3001, NO_GRANT),
    "dead": (200, 3001, NO_GRANT),
    "quota": (429, 3001, "quota exceeded for types: text_words_lifetime"),
    "rate": (200, 3001, "quota exceeded for types: concurrency"),
    "forbidden": (403, 3001, "[resource_id=volc.tts.default] requested resource not granted"),
    "down": (200, 3031, "process error"),
}
V3_TROUBLES = {
    "unknown": (401, 45000010, "load grant: requested grant not found"),
    "dead": (401, 45000010, "load grant: requested grant not found"),
    "quota": (200, 45000292, "quota exceeded for types: text_words_lifetime"),
    "rate": (200, 45000292, "quota exceeded for types: concurrency"),
    "forbidden": (403, 45000030, "[resource_id=seed-tts-1.0] requested resource not granted"),
    "down": (200, 55000000, "server error"),
}


class Refused(Exception):
    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code, self.message = status, code, message


def _check_members(given, known, code):
    for name, value in given.items():
        if name not in known or not known[name](value):
            raise Refused(200, code, f"invalid field {name}")


def _read_v1(request):
    header = request.headers.get("authorization", "")
    if not header.startswith("Bearer;") or " " in header:
        raise Refused(401, 3001, "missing Authorization header")
    trouble = request.trouble(header.removeprefix("Bearer;"))
    if trouble is not None:
        raise Refused(*V1_TROUBLES[trouble])
    try:
        body = json.loads(request.body)
        app, audio, wanted = body["app"], dict(body["audio"]), dict(body["request"])
        voice, encoding, rate_hz = audio.pop("voice_type"), audio.pop("encoding", "pcm"), audio.pop("rate", 24000)
        reqid, text, operation = wanted.pop("reqid"), wanted.pop("text"), wanted.pop("operation")
        named = app["token"] and body["user"]["uid"]
    except (ValueError, KeyError, TypeError):
        raise Refused(400, 3001, "invalid request") from None
    if app["appid"] not in APPIDS or app["cluster"] != "volcano_tts":
        raise Refused(403, 3001, "[resource_id=volc.tts.default] requested resource not granted")
    if not named or operation != "query" or encoding not in ENCODINGS or rate_hz not in V1_RATES:
        raise Refused(200, 3001, "invalid request")
    if reqid in request.providers.seen_ids:
        raise Refused(200, 3006, "duplicate reqid")
    request.providers.seen_ids.add(reqid)
    if voice not in RESOURCES:
        raise Refused(200, 3050, "no such voice_type")
    _check_members(audio, AUDIO, 3001)
    _check_members(wanted, REQUEST, 3001)
    if len(text.encode()) > TEXT_BYTES_MAX:
        raise Refused(200, 3010, "text too long")
    if not sound.readable(text):
        raise Refused(200, 3011, "no text to read")
    request.said = text
    return reqid, sound.tone(ENCODINGS[encoding], rate_hz, sound.seconds_of(text, audio.get("speed_ratio", 1.0)))


def _answer_v1(request):
    head = {"content-type": "application/json", "x-tt-logid": secrets.token_hex(16)}
    try:
        reqid, audio = _read_v1(request)
    except Refused as refused:
        body = {"reqid": "", "code": refused.code, "operation": "", "message": refused.message, "sequence": 0}
        return Reply(refused.status, json.dumps(body).encode(), head)
    body = {"reqid": reqid, "code": 3000, "operation": "query", "message": "Success", "sequence": -1,
            "data": base64.b64encode(audio).decode(), "addition": {"duration": "1960"}}
    return Reply(200, request.providers.pieces(json.dumps(body).encode(), 50_000), head)


def _read_v3(request):
    has_new, has_old = "x-api-key" in request.names, {"x-api-app-id", "x-api-access-key"} <= request.names
    if has_new == has_old or "authorization" in request.names:
        raise Refused(401, 45000010, "load grant: requested grant not found")
    if has_old and request.headers["x-api-app-id"] not in APPIDS:
        raise Refused(403, 45000030, "requested resource not granted")
    trouble = request.trouble(request.headers.get("x-api-key") or request.headers.get("x-api-access-key"))
    if trouble is not None:
        raise Refused(*V3_TROUBLES[trouble])
    try:
        wanted = dict(json.loads(request.body)["req_params"])
        text, speaker, audio = wanted.pop("text"), wanted.pop("speaker"), dict(wanted.pop("audio_params"))
        encoding, rate_hz = audio.pop("format"), audio.pop("sample_rate", 24000)
    except (ValueError, KeyError, TypeError):
        raise Refused(400, 45000001, "payload unmarshal: invalid argument") from None
    if speaker not in RESOURCES:
        raise Refused(200, 45000001, "speaker not found")
    if request.headers.get("x-api-resource-id") != RESOURCES[speaker]:
        raise Refused(200, 55000000, "resource ID is mismatched with speaker related resource")
    if encoding not in ENCODINGS or rate_hz not in V3_RATES:
        raise Refused(200, 45000001, "invalid argument")
    _check_members(audio, AUDIO_PARAMS, 45000001)
    _check_members(wanted, {"additions": lambda v: isinstance(json.loads(v), dict)}, 45000001)
    if not sound.readable(text):
        raise Refused(200, 45002001, "no readable text")
    request.said = text
    speed = 1 + audio.get("speech_rate", 0) / 100
    return encoding, text, sound.tone(ENCODINGS[encoding], rate_hz, sound.seconds_of(text, speed))


def _line(_, **members):
    return json.dumps(members, ensure_ascii=False).encode() + b"\n"


def _event(number, **members):
    return b"event: %d\ndata: %s\n" % (number, _line(number, **members))


def _rows(request, text, audio, row):
    for number, piece in enumerate(request.providers.pieces(audio, 90_000)):
        yield row(352, code=0, message="", data=base64.b64encode(piece).decode())
        if number == 0:
            yield row(351, code=0, message="", data=None, sentence={"text": text, "words": []})
    yield row(152, code=20000000, message="ok", data=None, usage={"text_words": len(text)})


def _answer_v3(request):
    is_sse = request.path.endswith("/sse")
    head = {"content-type": "text/event-stream" if is_sse else "application/json", "x-tt-logid": secrets.token_hex(16)}
    try:
        encoding, text, audio = _read_v3(request)
    except Refused as refused:
        body = {"code": refused.code, "message": refused.message}
        if is_sse and refused.status == 200:
            return Reply(200, _event(153, **body), head)
        head["content-type"] = "application/json"
        return Reply(refused.status, json.dumps(body if refused.status == 200 else {"header": {"reqid": ""} | body}).encode(), head)
    if encoding == "wav":  # the head again with every part
        raise AssertionError("WAV of v3 is no file")
    return Reply(200, _rows(request, text, audio, _event if is_sse else _line), head)


def answer(request):
    if request.method == "POST" and request.path == "/api/v1/tts":
        return _answer_v1(request)
    if request.method == "POST" and request.path in ("/api/v3/tts/unidirectional", "/api/v3/tts/unidirectional/sse"):
        return _answer_v3(request)
    return Reply(404, b"404 page not found", {"content-type": "text/plain"})

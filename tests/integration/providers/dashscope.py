"""Alibaba's DashScope: two paths, each for its models; errors with a code at the top;
audio as events, or as a file that lies elsewhere and is got without a key."""

import base64
import json
import secrets

from providers import sound
from providers.exchange import Reply

SYNTHESIZER = "/api/v1/services/audio/tts/SpeechSynthesizer"
GENERATION = "/api/v1/services/aigc/multimodal-generation/generation"

VOICES = {
    "cosyvoice-v2": {"longxiaochun_v2"},
    "cosyvoice-v3-flash": {"longanyang", "longanhuan_v3"},
    "qwen3-tts-flash": {"Cherry", "Serena"},
    "qwen3-tts-instruct-flash": {"Cherry"},
}
RATES = {8000, 16000, 22050, 24000, 44100, 48000}
LANGUAGES = {"Auto", "Chinese", "English", "German", "Italian", "Portuguese", "Spanish", "Japanese", "Korean", "French",
             "Russian"}

# Members of `input` beside text and voice, and what they may be.
COSYVOICE = {
    "format": lambda v: v in ("mp3", "pcm", "wav", "opus"),
    "sample_rate": lambda v: v in RATES,
    "volume": lambda v: _is_whole(v) and 0 <= v <= 100,
    "rate": lambda v: _is_number(v) and 0.5 <= v <= 2,
    "pitch": lambda v: _is_number(v) and 0.5 <= v <= 2,
    "bit_rate": lambda v: _is_whole(v) and 6 <= v <= 510,
    "enable_ssml": lambda v: isinstance(v, bool),
    "seed": lambda v: _is_whole(v) and 0 <= v <= 65535,
    "language_hints": lambda v: isinstance(v, list) and len(v) == 1,
    "instruction": lambda v: isinstance(v, str),
    "hot_fix": lambda v: isinstance(v, dict) and set(v) <= {"pronunciation", "replace"},
    "enable_markdown_filter": lambda v: isinstance(v, bool),
}
QWEN = {
    "language_type": lambda v: v in LANGUAGES,
    "instructions": lambda v: isinstance(v, str),
    "optimize_instructions": lambda v: isinstance(v, bool),
}

TROUBLES = {
    "unknown": (401, "InvalidApiKey", "Invalid API-key provided."),
    "dead": (401, "InvalidApiKey", "Invalid API-key provided."),
    "quota": (400, "Arrearage", "Access denied, please make sure your account is in good standing."),
    "free-quota": (429, "Throttling.AllocationQuota", "Free allocated quota exceeded."),
    "forbidden": (403, "AccessDenied.Unpurchased", "Access to model denied."),
    "rate": (429, "Throttling.RateQuota", "Requests rate limit exceeded, please try again later."),
    "down": (503, "ModelUnavailable", "Model is unavailable, please try again later."),
}


class Refused(Exception):
    def __init__(self, status, code, message):
        super().__init__(code)
        self.status, self.code, self.message = status, code, message


def _is_whole(value):
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _read(request):
    """The model, the text, the voice and the options; Refused: what the service refuses."""
    if request.headers.get("content-type") != "application/json":
        raise Refused(400, "InvalidParameter", "Content-Type is not application/json")
    try:
        body = json.loads(request.body)
        model, given = body["model"], dict(body["input"])
        text, voice = given.pop("text"), given.pop("voice")
    except (ValueError, KeyError, TypeError):
        raise Refused(400, "InvalidParameter", "Required body invalid, please check the request body format.") from None
    is_qwen = model.startswith("qwen")
    if model not in VOICES or request.path != (GENERATION if is_qwen else SYNTHESIZER):
        raise Refused(400, "InvalidParameter", "url error, please check url！")
    if set(body) != {"model", "input"}:
        raise Refused(400, "InvalidParameter", f"Unknown members {sorted(set(body) - {'model', 'input'})}")
    if voice not in VOICES[model] or not sound.readable(text):
        raise Refused(400, "InvalidParameter", "[cosyvoice:]Engine return error code: 418")
    if is_qwen and len(text) > 600:
        raise Refused(400, "InvalidParameter", "Range of input length should be [0, 600]")
    for name, value in given.items():
        fits = (QWEN if is_qwen else COSYVOICE).get(name)
        if fits is None or not fits(value):
            raise Refused(400, "InvalidParameter", f"{name} is invalid")
    request.said = text
    return is_qwen, text, given


def _make_audio(is_qwen, is_stream, text, options):
    if is_qwen:
        return "pcm" if is_stream else "wav", sound.tone("pcm" if is_stream else "wav", 24000, sound.seconds_of(text))
    kind = options.get("format", "mp3")
    seconds = sound.seconds_of(text, options.get("rate", 1.0))
    return kind, sound.tone(kind, options.get("sample_rate", 22050), seconds)


def _keep_clip(request, kind, audio):
    """A signed link, which is valid without a key and only so."""
    path = f"/dashscope/storage/clips/{secrets.token_hex(8)}.{kind}"
    request.providers.clips[path.removeprefix("/dashscope/storage")] = audio
    return f"{request.origin}{path}?Expires=1795990000&Signature=x%2Fy%3D"


def _event(number, output, usage=None):
    payload = {"request_id": "d1a2", "output": output} | ({"usage": usage} if usage else {})
    text = json.dumps(payload, ensure_ascii=False, separators=(",", ":"))
    return f"id:{number}\nevent:result\n:HTTP_STATUS/200\ndata:{text}\n\n".encode()


def _events(request, audio, url, usage):
    yield _event(1, {"type": "sentence-begin", "finish_reason": "null", "audio": {"data": "", "id": "audio_1"}})
    number = 2
    for piece in request.providers.pieces(audio, 30000):
        data = base64.b64encode(piece).decode()
        yield _event(number, {"type": "sentence-synthesis", "finish_reason": "null", "audio": {"data": data}})
        number += 1
    last = {"data": "", "url": url, "id": "audio_1", "expires_at": 1795990000}
    yield _event(number, {"type": "sentence-end", "finish_reason": "stop", "audio": last}, usage)


def _answer_clip(request):
    if "authorization" in request.names or request.path not in request.providers.clips or "Signature" not in request.query:
        return Reply(403, b"<?xml version='1.0'?><Error><Code>AccessDenied</Code></Error>",
                     {"content-type": "application/xml"})
    audio = request.providers.clips.pop(request.path)
    return Reply(200, request.providers.pieces(audio), {"content-type": "application/octet-stream"})


def answer(request):
    if request.method == "GET":
        return _answer_clip(request)
    try:
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        trouble = request.trouble(key if scheme == "Bearer" else None)
        if trouble is not None:
            raise Refused(*TROUBLES[trouble])
        is_qwen, text, options = _read(request)
    except Refused as refused:
        body = {"code": refused.code, "message": refused.message, "request_id": "d1a2"}
        return Reply(refused.status, json.dumps(body, ensure_ascii=False).encode(), {"content-type": "application/json"})
    is_stream = request.headers.get("x-dashscope-sse") == "enable"
    kind, audio = _make_audio(is_qwen, is_stream, text, options)
    url = _keep_clip(request, kind, audio)
    usage = {"characters": sum(2 if "\u4e00" <= character <= "\u9fff" else 1 for character in text)}
    if is_stream:
        return Reply(200, _events(request, audio, url, usage), {"content-type": "text/event-stream;charset=UTF-8"})
    output = {"finish_reason": "stop", "audio": {"data": "", "url": url, "id": "audio_1", "expires_at": 1795990000}}
    body = json.dumps({"request_id": "d1a2", "output": output, "usage": usage}).encode()
    return Reply(200, body, {"content-type": "application/json"})

"""OpenAI's own speech, for the formats that only it offers."""

import json

from providers import sound
from providers.exchange import Reply

TYPES = {"mp3": "audio/mpeg", "opus": "audio/ogg", "aac": "audio/aac", "flac": "audio/flac", "wav": "audio/wav",
         "pcm": "audio/pcm"}


def answer(request):
    trouble = request.trouble(request.headers.get("authorization", "").removeprefix("Bearer "))
    body = json.loads(request.body)
    kind = body.get("response_format", "mp3")
    if trouble is not None or kind not in TYPES or not isinstance(body["input"], str):
        error = {"message": "Incorrect API key provided.", "type": "invalid_request_error", "param": None,
                 "code": "invalid_api_key"}
        return Reply(401, json.dumps({"error": error}).encode(), {"content-type": "application/json"})
    request.said = body["input"]
    audio = sound.tone(kind, 24000, sound.seconds_of(request.said, body.get("speed", 1.0)))
    return Reply(200, request.providers.pieces(audio), {"content-type": TYPES[kind]})

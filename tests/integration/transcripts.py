"""Forms of transcriptions: requests at the level of bytes, replies, events of streams."""

import json

BOUNDARY = "----a-boundary-of-tests"
FORM = {"content-type": f"multipart/form-data; boundary={BOUNDARY}"}
TEXT = {"content-type": "text/plain; charset=utf-8"}
SOUND = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(range(256)) + b"\r\n--\r\n"
TOKENS = {
    "type": "tokens",
    "input_tokens": 14,
    "input_token_details": {"text_tokens": 0, "audio_tokens": 14},
    "output_tokens": 45,
    "total_tokens": 59,
}


def part(name, value, more="", head=""):
    value = value.encode() if isinstance(value, str) else value
    return f'{head}Content-Disposition: form-data; name="{name}"{more}\r\n\r\n'.encode() + value


def file(content=SOUND, name="speech.wav"):
    return part("file", content, f'; filename="{name}"\r\nContent-Type: audio/wav')


def form(*parts, boundary=BOUNDARY, before=b"", after=b"\r\n"):
    lines = b"".join(b"--" + boundary.encode() + b"\r\n" + one + b"\r\n" for one in parts)
    return before + lines + b"--" + boundary.encode() + b"--" + after


def request(model, *more, content=SOUND, **fields):
    """As the SDKs write it: the fields, then the file. A model of None is left out."""
    fields = ({} if model is None else {"model": model}) | fields
    return form(*(part(name, value) for name, value in fields.items()), *more, file(content))


def transcript(text="Hello from upstream.", **members):
    return json.dumps({"text": text} | members)


def event(payload):
    return f"data: {json.dumps(payload)}\n\n"


def delta(text):
    return event({"type": "transcript.text.delta", "delta": text})


def done(text, **members):
    return event({"type": "transcript.text.done", "text": text} | members)


GOOD_STREAM = (delta("Hello"), delta(" world"), done("Hello world", usage=TOKENS))

"""Bodies of speech: requests, audio, events of streams."""

import base64
import json

MP3 = {"content-type": "audio/mpeg"}
OCTETS = {"content-type": "application/octet-stream"}


def request(model, /, **members):
    body = {"model": model, "input": "Say hello.", "voice": "alloy"} | members
    return {name: value for name, value in body.items() if value is not ...}


def audio(size, mark=b"ID3\x04\x00\x00\x00\x00\x00\x00"):
    """Bytes that begin like audio, and differ at every place."""
    body = mark + b"".join(number.to_bytes(4, "big") for number in range(size // 4))
    return body[:size]


def event(payload):
    return f"data: {json.dumps(payload)}\n\n"


def delta(payload):
    return event({"type": "speech.audio.delta", "audio": base64.b64encode(payload).decode()})


def done(**usage):
    return event({"type": "speech.audio.done"} | ({"usage": usage} if usage else {}))


def payloads(body):
    """The data of each event of a stream, which must be nothing but whole events."""
    text = body.decode()
    assert text.endswith("\n\n"), text[-100:]
    blocks = text.removesuffix("\n\n").split("\n\n")
    assert all(block.startswith("data: ") for block in blocks), blocks
    return [json.loads(block.removeprefix("data: ")) for block in blocks]


def audio_of(events):
    return b"".join(base64.b64decode(e["audio"]) for e in events if e["type"] == "speech.audio.delta")

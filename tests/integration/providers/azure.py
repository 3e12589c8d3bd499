"""Azure's speech service: SSML is parsed, voices and formats are known ones, and an
error has no body: its reason phrase explains."""

import re
import xml.etree.ElementTree as ElementTree

from providers import sound
from providers.exchange import Reply

SYNTHESIS = "{http://www.w3.org/2001/10/synthesis}"
MSTTS = "{https://www.w3.org/2001/mstts}"
LANG = "{http://www.w3.org/XML/1998/namespace}lang"

VOICES = {"zh-CN-XiaoxiaoNeural", "zh-CN-liaoning-XiaobeiNeural", "en-US-AvaNeural", "en-US-Ava:DragonHDLatestNeural"}

FORMATS = {  # kind, rate in Hz, content type
    "audio-24khz-96kbitrate-mono-mp3": ("mp3", 24000, "audio/mpeg"),
    "audio-48khz-192kbitrate-mono-mp3": ("mp3", 48000, "audio/mpeg"),
    "ogg-24khz-16bit-mono-opus": ("opus", 24000, "audio/ogg"),
    "webm-24khz-16bit-mono-opus": ("webm", 24000, "audio/webm"),
    "riff-24khz-16bit-mono-pcm": ("wav", 24000, "audio/x-wav"),
    "raw-24khz-16bit-mono-pcm": ("pcm", 24000, "audio/basic"),
    "raw-16khz-16bit-mono-pcm": ("pcm", 16000, "audio/basic"),
}

TROUBLES = {
    "unknown": (401, "Unauthorized"),
    "dead": (401, "Unauthorized"),
    "quota": (403, "Out of call volume quota"),
    "forbidden": (403, "Forbidden"),
    "rate": (429, "Too Many Requests"),
    "down": (503, "Service Unavailable"),
    "gateway": (502, "Bad Gateway"),
    "region": (404, "Resource Not Found"),
}

PERCENT = re.compile(r"([+-][0-9]+(\.[0-9]+)?)%")


class Refused(Exception):
    """What stands in the reason phrase of a 400."""


def _speed(rate):
    match = PERCENT.fullmatch(rate)
    if not match:
        return 1.0
    return min(2.0, max(0.5, 1 + float(match[1]) / 100))


def _read_element(element, inside_prosody):
    """The text below an element, and how fast it is said."""
    speed = 1.0
    if element.tag == f"{SYNTHESIS}prosody":
        speed = _speed(element.get("rate", ""))
        inside_prosody = True
    elif element.tag == f"{MSTTS}express-as":
        if inside_prosody:
            raise Refused("express-as inside prosody")
        if not element.get("style") and not element.get("role"):
            raise Refused("express-as without style")
    elif element.tag != f"{SYNTHESIS}voice":
        raise Refused(f"Unknown element {element.tag.rpartition('}')[2]}")
    text = element.text or ""
    for child in element:
        inner, inner_speed = _read_element(child, inside_prosody)
        text += inner + (child.tail or "")
        speed *= inner_speed
    return text, speed


def read_ssml(body):
    """What is to be said, and how fast. Refused: what the service refuses."""
    try:
        root = ElementTree.fromstring(body.decode("utf-8"))
    except (UnicodeDecodeError, ElementTree.ParseError) as error:
        raise Refused(f"Invalid SSML: {error}".splitlines()[0]) from error
    if root.tag != f"{SYNTHESIS}speak" or root.get("version") != "1.0" or not root.get(LANG):
        raise Refused("speak needs its version, namespace and language")
    if len(root) != 1 or root[0].tag != f"{SYNTHESIS}voice" or (root.text or "").strip():
        raise Refused("speak needs a voice")
    if root[0].get("name") not in VOICES:
        raise Refused(f"Unsupported voice {root[0].get('name')}.".encode("ascii", "replace").decode())
    return _read_element(root[0], False)


def answer(request):
    if request.method != "POST" or request.path.partition("/")[2].partition("?")[0] != "cognitiveservices/v1":
        return Reply(404, reason="Resource Not Found")
    trouble = request.trouble(request.headers.get("ocp-apim-subscription-key"))
    if trouble is not None:
        status, reason = TROUBLES[trouble]
        return Reply(status, reason=reason)
    if "authorization" in request.names:
        return Reply(400, reason="Key and token")
    if request.headers.get("content-type") != "application/ssml+xml":
        return Reply(415, reason="Unsupported Media Type")
    if not 0 < len(request.headers.get("user-agent", "")) < 255:
        return Reply(400, reason="Missing User-Agent")
    asked = request.headers.get("x-microsoft-outputformat")
    if asked not in FORMATS:
        return Reply(400, reason="Unsupported output format")
    try:
        request.said, speed = read_ssml(request.body)
    except Refused as refused:
        return Reply(400, reason=str(refused))
    kind, rate_hz, content_type = FORMATS[asked]
    audio = sound.tone(kind, rate_hz, sound.seconds_of(request.said, speed))
    return Reply(200, request.providers.pieces(audio), {"content-type": content_type, "x-requestid": "0a" * 16}, "OK")

"""The voice of `make run`'s upstream, with and without the programs that it may use."""

import array
import json
import shutil
import sys
import time

import pytest

from http_client import Call, format_request
from processes import ROOT, Process, wait_until
from providers import sound

RATE_HZ = 24000
SECONDS_PER_PIECE = 0.005  # as demo/upstream.py has it

BOTH, SINGER, BARE = ("ffmpeg", "espeak-ng"), ("ffmpeg",), ()


class Voice:
    """demo/upstream.py on a PATH with these programs and no others."""

    def __init__(self, folder, programs):
        bin_dir = folder / "bin"
        bin_dir.mkdir()
        for name in programs:
            (bin_dir / name).symlink_to(shutil.which(name))
        port_file = folder / "upstream.port"
        command = [sys.executable, str(ROOT / "demo" / "upstream.py"), str(port_file)]
        self.process = Process(command, {"PATH": str(bin_dir)}, folder / "upstream.log")
        wait_until(port_file.exists, "the upstream listens")
        self.port = int(port_file.read_text())

    def begin(self, text, **members):
        body = json.dumps({"model": "any", "voice": "alloy", "response_format": "pcm", "input": text} | members)
        headers = {"authorization": "Bearer sk-demo-living", "content-type": "application/json"}
        return Call(self.port, format_request("POST", "/v1/audio/speech", headers, body.encode()))

    def ask(self, text, **members):
        return self.begin(text, **members).reply()

    def samples(self, text, **members):
        reply = self.ask(text, **members)
        assert (reply.status, reply.is_whole) == (200, True), reply
        return array.array("h", reply.body)


@pytest.fixture(scope="module")
def start_voice(tmp_path_factory):
    started = {}

    def start(programs):
        if programs not in started:
            started[programs] = Voice(tmp_path_factory.mktemp("voice"), programs)
        return started[programs]

    yield start
    for voice in started.values():
        said = voice.process.log_text()
        voice.process.stop()
        assert said == "", said


def loudest(samples):
    return max(map(abs, samples), default=0)


def hertz(samples):
    """Of a tone: how often it rises through zero."""
    return sum(a < 0 <= b for a, b in zip(samples, samples[1:])) / (len(samples) / RATE_HZ)


TYPES = {
    "wav": ("audio/wav", {"wav", "pcm_s16le"}),
    "pcm": ("audio/pcm", None),
    "mp3": ("audio/mpeg", {"mp3"}),
    "opus": ("audio/ogg", {"ogg", "opus"}),
    "flac": ("audio/flac", {"flac"}),
    "aac": ("audio/aac", {"aac"}),
}


@pytest.mark.parametrize("programs", [BOTH, SINGER], ids=["espeak-ng", "a tone"])
@pytest.mark.parametrize("kind", TYPES)
def test_a_file_of_each_format_is_what_it_says_and_as_long_as_its_sound(start_voice, programs, kind):
    voice = start_voice(programs)
    text = "Hello, how long is this?"
    reply = voice.ask(text, response_format=kind)
    content_type, names = TYPES[kind]
    assert (reply.status, reply.is_whole, reply.headers["content-type"]) == (200, True, content_type)
    if names is not None:
        assert names <= sound.describe(reply.body)
    seconds = len(voice.samples(text)) / RATE_HZ
    assert seconds > 1
    assert abs(sound.decode(reply.body, RATE_HZ, kind) - seconds) < 0.15  # an encoder fills its last frame


@pytest.mark.parametrize("programs", [BOTH, BARE], ids=["espeak-ng", "a tone"])
def test_what_is_said_is_heard(start_voice, programs):
    voice = start_voice(programs)
    short = voice.samples("Good morning.")
    assert 3000 < loudest(short) < 32767
    assert len(short) / RATE_HZ > 0.3
    assert voice.samples("Good morning.") == short
    assert len(voice.samples("Good morning, and good evening.")) > 1.5 * len(short), "more text takes longer"
    assert len(voice.samples("Good morning.", speed=2)) < 0.8 * len(short) < len(short)
    assert voice.samples("Good evenings.") != short, "another text is another melody"
    assert voice.samples("Good morning.", voice="onyx") != short, "another voice sounds otherwise"
    assert voice.samples("Good morning.", voice={"id": "alloy"}) == short
    assert loudest(voice.samples("你好，世界")) > 3000
    assert loudest(voice.samples("half a pair: \ud83d")) > 3000


def test_a_note_is_as_high_as_its_letter_and_its_voice(start_voice):
    voice = start_voice(BARE)
    low, high = (voice.samples("n" * 20, voice=name) for name in ("onyx", "nova"))
    assert hertz(high) / hertz(low) == pytest.approx(2 ** (11 / 12), rel=0.1)
    assert hertz(voice.samples("m" * 20)) > 1.2 * hertz(voice.samples("n" * 20))


@pytest.mark.parametrize("kind", ["mp3", "opus", "flac", "aac"])
def test_a_format_that_needs_ffmpeg_is_refused_where_it_is_missing(start_voice, kind):
    reply = start_voice(BARE).ask("Hello.", response_format=kind)
    error = reply.json()["error"]
    assert (reply.status, error["param"]) == (400, "response_format")
    assert kind in error["message"] and "ffmpeg" in error["message"] and "wav" in error["message"]


REFUSED = {
    "input": {"input": ""},
    "voice": {"voice": "nobody"},
    "response_format": {"response_format": "midi"},
    "speed": {"speed": 9},
}


@pytest.mark.parametrize("param, members", REFUSED.items())
def test_what_it_cannot_speak_is_refused_by_name(start_voice, param, members):
    reply = start_voice(BARE).ask("Hello.", **members)
    assert (reply.status, reply.json()["error"]["param"]) == (400, param)


def test_sound_comes_as_it_is_made(start_voice):
    """The first of 200 notes does not wait for the last."""
    call = start_voice(BARE).begin("la" * 100, response_format="wav")
    came = call.read_until(b"RIFF")
    reply = call.reply()
    assert reply.is_whole
    assert time.monotonic() - came > 150 * SECONDS_PER_PIECE
    assert sound.decode(reply.body) > 200 * 0.09


def test_a_caller_that_leaves_leaves_no_encoder_behind(start_voice):
    voice = start_voice(SINGER)
    call = voice.begin("la" * 2000, response_format="flac")
    call.read_until(b"fLaC")
    assert len(voice.process.children()) == 1
    call.close()
    wait_until(lambda: not voice.process.children(), "the encoder has ended")

"""Real audio: tones that are as long as a text, and a decoder that says how long a
file is. Both are ffmpeg."""

import functools
import subprocess

SECONDS_PER_CHARACTER = 0.02
LEAST_SECONDS = 0.1

# What ffmpeg calls them: container, codec, and the rate where it can be only one.
ENCODERS = {
    "mp3": ["-f", "mp3", "-c:a", "libmp3lame", "-b:a", "48k"],
    "opus": ["-f", "ogg", "-c:a", "libopus", "-b:a", "32k"],
    "webm": ["-f", "webm", "-c:a", "libopus", "-b:a", "32k"],
    "wav": ["-f", "wav", "-c:a", "pcm_s16le"],
    "pcm": ["-f", "s16le", "-c:a", "pcm_s16le"],
    "flac": ["-f", "flac", "-c:a", "flac"],
    "aac": ["-f", "adts", "-c:a", "aac"],
}


def readable(text):
    """How many characters can be read out."""
    return sum(character.isalnum() for character in text)


def seconds_of(text, speed=1.0):
    return max(LEAST_SECONDS, readable(text) * SECONDS_PER_CHARACTER / speed)


def tone(kind, rate_hz, seconds):
    """A tone as a file of this kind. Of 16-bit samples, one channel."""
    return _tone(kind, rate_hz, round(seconds * 1000))


@functools.lru_cache(maxsize=256)
def _tone(kind, rate_hz, milliseconds):
    source = f"sine=frequency=440:sample_rate=48000:duration={milliseconds / 1000}"
    return _ffmpeg(["-f", "lavfi", "-i", source, "-ac", "1", "-ar", str(rate_hz), *ENCODERS[kind], "-"])


def decode(audio, rate_hz=None, kind=None):
    """How many seconds of sound a player gets out of a file. It must be one from its
    first byte to its last: a decoder's complaint fails."""
    how = ["-f", "s16le", "-ar", str(rate_hz), "-ac", "1"] if kind == "pcm" else []
    # Where a WAV head leaves the length open, ffmpeg calls the end of the file a cut.
    is_open = audio[:8] == b"RIFF\xff\xff\xff\xff"
    samples = _ffmpeg([*how, "-i", "-", "-f", "s16le", "-ar", "8000", "-ac", "1", "-"], audio,
                      usual=("corrupt", "Ignoring maximum wav data size") if is_open else ())
    return len(samples) / 2 / 8000


def describe(audio):
    """The names of container and codec, as ffprobe sees them."""
    command = ["ffprobe", "-v", "error", "-show_entries", "format=format_name:stream=codec_name", "-of", "default=nw=1:nk=1", "-"]
    done = subprocess.run(command, input=audio, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return set(done.stdout.decode().replace("\n", ",").split(","))


def _ffmpeg(arguments, data=b"", usual=()):
    """What it writes; it must have nothing to complain of but what is usual."""
    command = ["ffmpeg", "-nostdin", "-hide_banner", "-v", "warning", *arguments]
    done = subprocess.run(command, input=data, capture_output=True, timeout=60, check=False)
    usual = (*usual, "Estimating duration from bitrate", "Guessed Channel Layout", "unable to rewrite FLAC header")
    complaints = [line for line in done.stderr.decode().splitlines() if not any(words in line for words in usual)]
    assert done.returncode == 0 and not complaints, f"ffmpeg {' '.join(arguments)}: {complaints}"
    return done.stdout

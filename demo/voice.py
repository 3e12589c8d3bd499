"""The demonstration's voice: from a text to a file of sound.

espeak-ng reads the text where the program is installed. Where it is not, a tone
sings it: each letter and digit is a note of its own, so that another text is another
melody. Samples are 24 kHz, 16 bits, one channel, which is what OpenAI means by pcm;
ffmpeg makes the other formats of them, where it is installed.

Sound comes in pieces, each as soon as it is made: a text may be minutes long.
"""

import array
import functools
import math
import re
import shutil
import struct
import subprocess
import sys
import threading

RATE_HZ = 24000
PIECE_BYTES = 16 * 1024

# OpenAI's built-in voices, each at a height of its own, in semitones above A2.
VOICES = {
    name: semitones
    for semitones, name in enumerate(
        "onyx ash echo cedar verse ballad fable sage alloy marin coral nova shimmer".split(), 2
    )
}

# name -> content type, and how ffmpeg is to make it; of samples as they are, nothing is to be made
FORMATS = {
    "wav": ("audio/wav", None),
    "pcm": ("audio/pcm", None),
    "mp3": ("audio/mpeg", ["-f", "mp3", "-c:a", "libmp3lame", "-b:a", "64k"]),
    "opus": ("audio/ogg", ["-f", "ogg", "-c:a", "libopus", "-b:a", "32k", "-page_duration", "100000"]),
    "flac": ("audio/flac", ["-f", "flac", "-c:a", "flac"]),
    "aac": ("audio/aac", ["-f", "adts", "-c:a", "aac", "-b:a", "64k"]),
}


class Refusal(Exception):
    """What cannot be spoken: the member of the request that is to blame, and why."""

    def __init__(self, param, message):
        super().__init__(message)
        self.param = param


def speak(text, voice, format, speed):
    """The content type, and a generator of the file's pieces. Refusal."""
    if not isinstance(text, str) or not text:
        raise Refusal("input", "'input' must be the text to speak.")
    if not isinstance(voice, str) or voice not in VOICES:
        raise Refusal("voice", f"'voice' must be one of {', '.join(sorted(VOICES))}.")
    if not isinstance(format, str) or format not in FORMATS:
        raise Refusal("response_format", f"'response_format' must be one of {', '.join(FORMATS)}.")
    if isinstance(speed, bool) or not isinstance(speed, (int, float)) or not 0.25 <= speed <= 4:
        raise Refusal("speed", "'speed' must be a number from 0.25 to 4.")
    content_type, encoding = FORMATS[format]
    if encoding is not None and shutil.which("ffmpeg") is None:
        raise Refusal(
            "response_format",
            f"The demonstration makes {format} with ffmpeg, which is not installed here; wav and pcm need no program.",
        )
    # A text may hold half of a surrogate pair, which is no character.
    text = text.encode("utf-8", "replace").decode()
    samples = read_aloud(text, voice, speed) if shutil.which("espeak-ng") else sing(text, voice, speed)
    if encoding is not None:
        return content_type, encode(samples, encoding)
    return content_type, with_wav_head(samples) if format == "wav" else samples


# The tone

PENTATONIC = (0, 2, 4, 7, 9)  # semitones; any of these sounds well after any other
NOTE_S, REST_S, PAUSE_S = 0.09, 0.06, 0.25
FADE_S = 0.012  # a tone that begins or ends at once clicks
LOUDNESS = 0.35


@functools.lru_cache(maxsize=1024)
def note(semitones, n_samples):
    hertz = 110 * 2 ** (semitones / 12)
    fade = FADE_S * RATE_HZ

    def sample(n):
        envelope = min(1.0, n / fade, (n_samples - n) / fade)
        angle = 2 * math.pi * hertz * n / RATE_HZ
        return round(32767 * LOUDNESS * envelope * (math.sin(angle) + 0.4 * math.sin(2 * angle)) / 1.4)

    return little_endian(array.array("h", map(sample, range(n_samples))))


def sing(text, voice, speed):
    """A piece for each character: a note for what can be read out, silence for what is between."""

    def silence(seconds):
        return bytes(2 * round(seconds * RATE_HZ / speed))

    for character in text:
        if character.isalnum():
            octave, step = divmod(ord(character.lower()) % 10, len(PENTATONIC))
            yield note(VOICES[voice] + 12 * octave + PENTATONIC[step], round(NOTE_S * RATE_HZ / speed))
        else:
            yield silence(REST_S if character.isspace() else PAUSE_S)
    yield silence(REST_S)


# espeak-ng's voice

SENTENCE = re.compile(r"[^.!?;:。！？；：\n]+[.!?;:。！？；：\n]*|.+", re.DOTALL)
WAV_HEAD_BYTES = 44
WORDS_PER_MINUTE = 160


def read_aloud(text, voice, speed):
    """A piece for each sentence."""
    for sentence in SENTENCE.findall(text):
        is_chinese = any("\u4e00" <= character <= "\u9fff" for character in sentence)
        command = ["espeak-ng", "--stdin", "--stdout", "-b", "1", "-v", "cmn" if is_chinese else "en"]
        command += ["-p", str(20 + 5 * VOICES[voice]), "-s", str(round(WORDS_PER_MINUTE * speed))]
        spoken = subprocess.run(command, input=sentence.encode(), capture_output=True, check=True).stdout
        rate_hz = int.from_bytes(spoken[24:28], "little")
        yield resample(spoken[WAV_HEAD_BYTES:], rate_hz)


def resample(samples, rate_hz):
    """The same sound at our rate, each sample on the line between its two neighbours."""
    given = little_endian(samples)
    made = array.array("h")
    for n in range(max(0, len(given) - 1) * RATE_HZ // rate_hz):
        at, rest = divmod(n * rate_hz, RATE_HZ)
        made.append(given[at] + (given[at + 1] - given[at]) * rest // RATE_HZ)
    return little_endian(made)


def little_endian(samples):
    """Samples as bytes, and bytes as samples: in a file they are little-endian on any machine."""
    is_array = isinstance(samples, array.array)
    converted = samples if is_array else array.array("h", samples[: len(samples) // 2 * 2])
    if sys.byteorder == "big":
        converted.byteswap()
    return converted.tobytes() if is_array else converted


# Files


def with_wav_head(samples):
    """What comes is not known when the head goes out: its length is left open, as OpenAI leaves it."""
    is_open = 0xFFFFFFFF
    form = struct.pack("<HHIIHH", 1, 1, RATE_HZ, 2 * RATE_HZ, 2, 16)  # PCM, one channel, ..., 16 bits
    yield struct.pack("<4sI4s4sI", b"RIFF", is_open, b"WAVE", b"fmt ", len(form)) + form + struct.pack("<4sI", b"data", is_open)
    yield from samples


def encode(samples, encoding):
    """ffmpeg's file of them. It reads and writes at once, so that a thread has to feed it."""
    command = ["ffmpeg", "-nostdin", "-v", "error", "-f", "s16le", "-ar", str(RATE_HZ), "-ac", "1", "-i", "-"]
    command += [*encoding, "-flush_packets", "1", "-"]
    encoder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    failures = []

    def feed():
        try:
            with encoder.stdin:
                for piece in samples:
                    encoder.stdin.write(piece)
        except Exception as failure:  # told by the other thread
            failures.append(failure)

    feeder = threading.Thread(target=feed, daemon=True)
    feeder.start()
    try:
        while piece := encoder.stdout.read1(PIECE_BYTES):
            yield piece
        feeder.join()
        if failures or encoder.wait() != 0:
            raise failures[0] if failures else OSError("ffmpeg failed")
    finally:
        encoder.kill()  # when the caller left; else it has ended
        encoder.wait()
        feeder.join()
        encoder.stdout.close()

"""Speech through azure, dashscope-cosyvoice and volcengine, against imitations of them
(providers/). What comes is opened by a real decoder."""

import hashlib
import json
import threading
import time

import pytest

import speech
from errors import assert_error, assert_exhausted
from gateway import MOUNTS
from providers import dashscope, sound
from providers.server import Providers
from tree import Tree, at, speaker


def azure(name, *keys, **params):
    return at("like-azure", name, *keys, adapterParams=params)


def synthesizer(name, *keys, **params):
    return at("like-dashscope-synthesizer", name, *keys, adapterParams={"model": "cosyvoice-v3-flash"} | params)


def generation(name, *keys, **params):
    return at("like-dashscope-generation", name, *keys, adapterParams={"model": "qwen3-tts-flash"} | params)


def volcengine_v1(name, *keys, **params):
    return at("like-volcengine-v1", name, *keys, adapterParams={"appid": "4711"} | params)


def volcengine_v3(name, *keys, **params):
    return at("like-volcengine-v3", name, *keys, adapterParams={"api": "v3"} | params)


TREE = Tree(
    speech=[
        speaker("azure", "azure", azure("a", "k1", "k2"), azure("b", "k3")),
        speaker("azure-48k", "azure", azure("a", "k1", outputFormat="audio-48khz-192kbitrate-mono-mp3")),
        speaker("cosyvoice", "dashscope-cosyvoice", synthesizer("a", "k1", "k2"), synthesizer("b", "k3")),
        speaker("cosyvoice-file", "dashscope-cosyvoice", synthesizer("a", "k1", stream=False)),
        speaker("cosyvoice-lost", "dashscope-cosyvoice", at("like-dashscope-generation", "a", "k1",
                                                            adapterParams={"model": "cosyvoice-v3-flash"})),
        speaker("cosyvoice-hasty", "dashscope-cosyvoice",
                at("like-dashscope-synthesizer", "a", "k1", timeoutMs=2500,
                   adapterParams={"model": "cosyvoice-v3-flash", "stream": False})),
        speaker("qwen", "dashscope-cosyvoice", generation("a", "k1", "k2"), generation("b", "k3")),
        speaker("qwen-file", "dashscope-cosyvoice", generation("a", "k1", stream=False)),
        speaker("volcengine", "volcengine", volcengine_v1("a", "k1", "k2"), volcengine_v1("b", "k3")),
        speaker("volcengine-hasty", "volcengine", volcengine_v1("a", "k1"), streamIdleTimeoutMs=1000),
        speaker("volcengine-v3", "volcengine", volcengine_v3("a", "k1", "k2"), volcengine_v3("b", "k3")),
        speaker("volcengine-sse", "volcengine", at("like-volcengine-sse", "a", "k1", "k2", adapterParams={"api": "v3"}),
                volcengine_v3("b", "k3")),
        speaker("volcengine-old", "volcengine", volcengine_v3("a", "k1", appid="4711")),
        speaker("openai", "openai", at("like-openai", "a", "k1")),
    ],
    perAttemptTimeoutMs=20000,
    fullChainTimeoutMs=30000,
)

VOICES = {"azure": "zh-CN-XiaoxiaoNeural", "cosyvoice": "longanyang", "qwen": "Cherry", "volcengine": "BV001_streaming",
          "openai": "alloy"}
FAMILIES = ("azure", "cosyvoice", "qwen", "volcengine", "volcengine-v3")
TEXT = "你好，世界。Hello, world."
VERSE = "春眠不觉晓，处处闻啼鸟。夜来风雨声，花落知多少。"
LONG = (VERSE * 200)[:4096]

# The kinds that players know, as ffprobe names container and codec.
KINDS = {"mp3": ["mp3", "mp3"], "opus": ["opus", "ogg"], "wav": ["pcm_s16le", "wav"], "flac": ["flac", "flac"],
         "aac": ["aac", "aac"]}
TYPES = {"mp3": "audio/mpeg", "opus": "audio/ogg", "wav": "audio/wav", "pcm": "audio/pcm", "flac": "audio/flac",
         "aac": "audio/aac"}

at_each_mount = pytest.mark.parametrize("mount", MOUNTS)
of_each_family = pytest.mark.parametrize("model", FAMILIES)


def voice_of(model):
    return VOICES.get(model) or VOICES[model.partition("-")[0]]


def say(gateway, model, mount="/v1", **members):
    return gateway.say(model, mount, **({"voice": voice_of(model), "input": TEXT} | members))


def trouble(gateway, providers, model, **keys):
    """What is wrong with keys of a model."""
    for key, what in keys.items():
        providers.troubles[gateway.keys.plaintext(model, key)] = what


def assert_sounds(reply, kind, text, speed=1.0, rate_hz=24000, clips=1):
    """A file of this kind, as long as the text is. Encoders of mp3 pad each clip."""
    assert (reply.status, reply.is_whole) == (200, True), reply.body[:300]
    assert reply.headers["content-type"] == TYPES[kind] + ("" if kind != "pcm" or rate_hz == 24000 else f";rate={rate_hz}")
    if kind != "pcm":
        assert set(KINDS[kind]) <= sound.describe(reply.body)
    expected = sound.seconds_of(text, speed)
    found = sound.decode(reply.body, rate_hz, kind)
    slack = 0.02 + clips * {"mp3": 0.13, "opus": 0.04, "aac": 0.1}.get(kind, 0.001)
    assert abs(found - expected) <= slack, f"{found} s instead of {expected} s"


# What comes


@at_each_mount
@of_each_family
def test_ae4_chinese_text_comes_back_as_audio(gateway, providers, model, mount):
    """A caller does not notice what the provider speaks."""
    reply = say(gateway, model, mount, input=VERSE)
    assert_sounds(reply, "wav" if model == "qwen" else "mp3", VERSE)
    assert [request.said for request in providers.requests] == [VERSE]
    event = gateway.event(reply)
    assert (event["end"], event["attempts"][0]["verdict"]) == ("done", "ok")


OFFERED = [
    *[(model, kind) for model in ("azure", "cosyvoice", "volcengine", "volcengine-v3", "volcengine-sse")
      for kind in ("mp3", "opus", "wav", "pcm")],
    *[(model, kind) for model in ("qwen", "qwen-file") for kind in ("wav", "pcm")],
    *[("cosyvoice-file", kind) for kind in ("mp3", "opus", "wav", "pcm")],
    ("volcengine-old", "mp3"),
    *[("openai", kind) for kind in TYPES],
]


@pytest.mark.parametrize("model, kind", OFFERED)
def test_a_file_of_each_format_is_whole_and_as_long_as_its_text(gateway, providers, model, kind):
    text = LONG[:500]
    assert_sounds(say(gateway, model, input=text, response_format=kind), kind, text)


NOT_OFFERED = [
    *[(model, kind) for model in FAMILIES for kind in ("aac", "flac")],
    ("qwen", "mp3"),
    ("qwen", "opus"),
]


@at_each_mount
@pytest.mark.parametrize("model, kind", NOT_OFFERED)
def test_a_format_that_the_provider_lacks_is_refused_and_nothing_is_sent(gateway, providers, model, kind, mount):
    reply = say(gateway, model, mount, response_format=kind)
    assert_error(reply, mount, 400, "invalid_request" if mount == "/v1" else "BAD_REQUEST")
    assert b"this model offers" in reply.body
    assert not providers.requests


@pytest.mark.parametrize("kind", ["mp3", "opus", "wav", "pcm"])
def test_text_that_has_to_be_split_is_one_file(gateway, providers, kind):
    reply = say(gateway, "volcengine", input=LONG, response_format=kind)
    said = [request.said for request in providers.requests]
    assert "".join(said) == LONG
    assert len(said) == 13
    assert all(piece[-1] == "。" for piece in said[:-1]), "the text is cut at the ends of sentences"
    assert_sounds(reply, kind, LONG, clips=len(said))
    event = gateway.event(reply)
    assert len(event["attempts"]) == 1


@pytest.mark.parametrize("model", ["azure", "cosyvoice", "volcengine-v3", "volcengine-sse"])
def test_4096_chinese_characters_are_spoken(gateway, providers, model):
    reply = say(gateway, model, input=LONG)
    assert_sounds(reply, "mp3", LONG)
    assert [request.said for request in providers.requests] == [LONG]


@at_each_mount
def test_a_text_beyond_the_bound_of_qwen_is_refused_and_nothing_is_sent(gateway, providers, mount):
    assert say(gateway, "qwen", mount, input=LONG[:600]).status == 200
    providers.requests.clear()
    reply = say(gateway, "qwen", mount, input=LONG)
    assert_error(reply, mount, 400, "invalid_request" if mount == "/v1" else "BAD_REQUEST")
    assert b"4096 characters; this model takes at most 600" in reply.body
    assert not providers.requests


OPERATORS = {"azure": "outputFormat", "cosyvoice": "workspaceId", "qwen": "stream", "volcengine": "appid", "volcengine-v3": "api"}


@of_each_family
def test_what_only_operators_may_set_is_refused_of_a_caller(gateway, providers, model):
    reply = say(gateway, model, extra_body={OPERATORS[model]: "x"})
    assert (reply.status, reply.json()["error"]["param"]) == (400, f"extra_body.{OPERATORS[model]}")
    assert "only the operator" in reply.json()["error"]["message"]
    assert not providers.requests


SPEEDS = {"azure": (0.5, 2), "cosyvoice": (0.5, 2), "volcengine": (0.25, 3), "volcengine-v3": (0.5, 2)}


@pytest.mark.parametrize("model", SPEEDS)
def test_speed_is_clamped_to_what_the_provider_can_do(gateway, providers, model):
    slowest, fastest = SPEEDS[model]
    for asked, expected in ((0.25, slowest), (1.25, 1.25), (4, fastest)):
        assert_sounds(say(gateway, model, speed=asked, input=VERSE, response_format="pcm"), "pcm", VERSE, expected)


def test_qwen_has_one_speed(gateway, providers):
    assert say(gateway, "qwen", speed=2).status == 400
    assert not providers.requests


def test_an_operators_output_format_is_taken_for_its_kind(gateway, providers):
    assert_sounds(say(gateway, "azure-48k"), "mp3", TEXT)
    assert providers.requests[0].headers["x-microsoft-outputformat"] == "audio-48khz-192kbitrate-mono-mp3"


def test_a_format_by_azures_own_name_is_that_one(gateway, providers):
    reply = say(gateway, "azure", response_format="webm-24khz-16bit-mono-opus")
    assert reply.headers["content-type"] == "audio/webm"
    assert {"opus", "webm"} <= sound.describe(reply.body)
    assert_sounds(say(gateway, "azure", response_format="raw-16khz-16bit-mono-pcm"), "pcm", TEXT, rate_hz=16000)


EXTRAS = {
    "azure": {"pitch": "+2st", "volume": "80", "style": "cheerful", "styleDegree": 1.5, "role": "Girl", "locale": "en-US"},
    "cosyvoice": {"volume": 80, "pitch": 1.2, "sample_rate": 24000, "seed": 7, "language_hints": ["zh"],
                  "hot_fix": {"replace": [{"a": "b"}]}, "enable_ssml": False, "enable_markdown_filter": True},
    "qwen": {"language_type": "Chinese"},
    "volcengine": {"emotion": "happy", "emotion_scale": 4, "enable_emotion": True, "bit_rate": 64, "loudness_ratio": 1.5,
                   "extra_param": {"disable_markdown_filter": True}, "silence_duration": 0, "text_type": "plain",
                   "language": "cn", "explicit_language": "zh", "context_language": "id", "volume_ratio": 1, "pitch_ratio": 1},
    "volcengine-v3": {"emotion": "sad", "emotion_scale": 2, "loudness_rate": -10, "pitch": 3, "bit_rate": 64,
                      "additions": {"disable_markdown_filter": True}},
}


@of_each_family
def test_the_provider_takes_every_parameter_of_its_own(gateway, providers, model):
    reply = say(gateway, model, extra_body=EXTRAS[model])
    assert reply.status == 200, reply.body
    assert [request.said for request in providers.requests] == [TEXT]


# What is said

HOSTILE = [
    "</voice></speak><speak><audio src='http://evil.test/x'/> and more",
    "<mstts:express-as style='angry'>&bomb; ]]> <!-- -->",
    '"},"app":{"token":"x"},"model":"y\\',
    "\\u0000 \\n and a backslash \\",
    "emoji \U0001f600, a family \U0001f469\u200d\U0001f467, a flag \U0001f1e9\U0001f1ea",
    "tabs\tand\nlines",
    "\u2028 and \u2029, and \ufeff a mark",
]


@of_each_family
@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_is_said_and_is_nothing_else(gateway, providers, model, text):
    reply = say(gateway, model, input=text)
    assert reply.status == 200, reply.body
    assert [request.said for request in providers.requests] == [text]


@of_each_family
def test_control_characters_and_lone_surrogates_reach_nobody_as_such(gateway, providers, model):
    body = speech.request(model, voice=voice_of(model), input="MARK")
    text = json.dumps(body).replace("MARK", r"a\u0000b\u0008c\ud83dd\udc00e\uffff")
    reply = gateway.call("POST", "/v1/audio/speech", text.encode()).reply()
    assert reply.status == 200, reply.body
    expected = "abc\ufffdd\ufffde" if model == "azure" else "a\0b\bc\ufffdd\ufffde\uffff"
    assert [request.said for request in providers.requests] == [expected]


@of_each_family
def test_a_voice_may_be_named_by_its_id(gateway, providers, model):
    assert say(gateway, model, voice={"id": voice_of(model)}).status == 200
    assert [request.said for request in providers.requests] == [TEXT]


@of_each_family
@pytest.mark.parametrize("voice", ["a\"/><audio src='x'/>", 'x","y":"z', "a&b;", "\u6653\u6653"])
def test_a_voice_is_a_name_and_nothing_else(gateway, providers, model, voice):
    reply = say(gateway, model, voice=voice)
    assert reply.status == 400
    assert reply.json()["error"]["param"] == "voice"


@of_each_family
def test_ssml_and_json_in_parameters_go_nowhere(gateway, providers, model):
    for name in EXTRAS[model]:
        reply = say(gateway, model, extra_body={name: '"/><audio src="x"/>{"a":1}'})
        assert reply.status == 400, f"{name}: {reply.body}"
        assert reply.json()["error"]["param"] == f"extra_body.{name}"
    assert not providers.requests
    for name in EXTRAS[model]:  # without a blank it may be a name
        reply = say(gateway, model, extra_body={name: "\"/><x/>'},\\"})
        assert reply.status == 400 or [request.said for request in providers.requests] == [TEXT], name
        providers.requests.clear()


def test_ssml_that_the_caller_wrote_goes_on_as_it_is(gateway, providers):
    ssml = ("<speak version='1.0' xmlns='http://www.w3.org/2001/10/synthesis' xml:lang='en-US'>"
            "<voice name='en-US-AvaNeural'>One &amp; <prosody rate='+100%'>two</prosody></voice></speak>")
    reply = say(gateway, "azure", input=ssml, extra_body={"disableSsml": True})
    assert reply.status == 200
    assert providers.requests[0].body == ssml.encode()
    assert providers.requests[0].said == "One & two"


def test_the_second_get_carries_no_key(gateway, providers):
    assert_sounds(say(gateway, "cosyvoice-file"), "mp3", TEXT)
    post, get = providers.requests
    assert (post.method, get.method) == ("POST", "GET")
    assert "authorization" not in get.names
    key = gateway.keys.plaintext("cosyvoice-file", "k1")
    assert key not in str(get.headers) + get.path + get.query


def test_audio_of_events_is_not_got_again_as_a_file(gateway, providers):
    say(gateway, "cosyvoice")
    assert [request.method for request in providers.requests] == ["POST"]


# As it comes


@pytest.mark.parametrize("model, kind", [("azure", "mp3"), ("cosyvoice", "mp3"), ("cosyvoice", "wav"), ("qwen", "wav"),
                                         ("volcengine-v3", "wav"), ("volcengine-v3", "mp3"), ("volcengine-sse", "mp3")])
def test_audio_is_passed_on_before_the_provider_has_finished(gateway, providers, model, kind):
    providers.gate = threading.Event()
    text = LONG[:600]
    call = gateway.speak(model, voice=voice_of(model), input=text, response_format=kind)
    call.read_until(b"RIFF" if kind == "wav" else b"\xff")
    assert not providers.was_gate_shut, "the first piece came when the second was sent"
    providers.gate.set()
    assert_sounds(call.reply(), kind, text)


@of_each_family
def test_a_stream_of_events_is_made_of_every_providers_audio(gateway, providers, model):
    reply = say(gateway, model, stream_format="sse", response_format="pcm")
    events = speech.payloads(reply.body)
    assert events[-1]["type"] == "speech.audio.done"
    assert abs(sound.decode(speech.audio_of(events), 24000, "pcm") - sound.seconds_of(TEXT)) < 0.01


# Failures

MOVES_ON = {  # trouble with the first key: its verdict, and the key that is asked next
    "dead": ("auth", "k2"),
    "quota": ("quota", "k2"),
    "rate": ("rate", "k2"),
    "down": ("server", "k2"),
    "forbidden": ("config", "k3"),
}


@pytest.mark.parametrize("model", [*FAMILIES, "volcengine-sse"])
@pytest.mark.parametrize("what", MOVES_ON)
def test_a_failure_moves_on_as_its_words_mean(gateway, providers, model, what):
    verdict, next_key = MOVES_ON[what]
    trouble(gateway, providers, model, k1=what)
    reply = say(gateway, model)
    assert reply.status == 200, reply.body
    attempts = gateway.event(reply)["attempts"]
    assert [attempt["verdict"] for attempt in attempts] == [verdict, "ok"]
    prints = [hashlib.sha256(gateway.keys.plaintext(model, key).encode()).hexdigest()[:8] for key in ("k1", next_key)]
    assert [attempt["key_fp"] for attempt in attempts] == prints


@at_each_mount
@of_each_family
def test_keys_that_are_all_dead_are_no_fault_of_the_callers(gateway, providers, model, mount):
    trouble(gateway, providers, model, k1="dead", k2="dead", k3="dead")
    status = {"volcengine": 200}.get(model, 401)
    assert_exhausted(say(gateway, model, mount), mount, 502, "BAD_GATEWAY", 3, 2, "invalid" if status == 200 else status)


WORDS = {
    "azure": "Unsupported voice en-US-NobodyNeural.",
    "cosyvoice": "Engine return error code: 418",
    "qwen": "Engine return error code: 418",
    "volcengine": "no such voice_type",
    "volcengine-v3": "speaker not found",
}


@at_each_mount
@of_each_family
def test_an_unknown_voice_ends_the_chain_with_the_providers_words(gateway, providers, model, mount):
    reply = say(gateway, model, mount, voice="en-US-NobodyNeural")
    assert_error(reply, mount, 400, "invalid_request" if mount == "/v1" else "BAD_REQUEST")
    body = reply.json()
    assert WORDS[model] in (body["error"]["message"] if mount == "/v1" else body["message"])
    if mount == "/v1":
        assert body["error"]["param"] == "voice"
    assert len(providers.requests) == 1


@pytest.mark.parametrize("model", ["cosyvoice", "volcengine", "volcengine-v3", "volcengine-sse"])
def test_a_text_that_nobody_can_read_is_the_callers_mistake(gateway, providers, model):
    reply = say(gateway, model, input="？！…\U0001f600")
    assert reply.status == 400
    assert len(providers.requests) == 1


def test_a_model_at_another_models_path_is_the_operators_mistake(gateway, providers):
    reply = say(gateway, "cosyvoice-lost")
    assert reply.status == 502
    assert gateway.event(reply)["attempts"][0]["verdict"] == "config"


def test_an_account_that_is_empty_is_told_from_one_that_is_too_fast(gateway, providers):
    trouble(gateway, providers, "cosyvoice", k1="free-quota", k2="rate")
    attempts = gateway.event(say(gateway, "cosyvoice"))["attempts"]
    assert [attempt["verdict"] for attempt in attempts] == ["quota", "rate", "ok"]


def test_a_file_that_is_gone_moves_on(gateway, providers, monkeypatch):
    monkeypatch.setattr(dashscope, "_keep_clip", lambda request, kind, audio:
                        f"{request.origin}/dashscope/storage/clips/none?Signature=x")
    reply = say(gateway, "cosyvoice-file")
    assert reply.status == 502
    attempt = gateway.event(reply)["attempts"][0]
    assert (attempt["verdict"], attempt["reason"]) == ("server", "storage")


@pytest.mark.parametrize("url", ["http://169.254.169.254/latest/meta-data", "https://x.aliyuncs.com.evil.test/a",
                                 "file:///etc/passwd"])
def test_a_file_elsewhere_is_not_gone_to(gateway, providers, monkeypatch, url):
    monkeypatch.setattr(dashscope, "_keep_clip", lambda request, kind, audio: url)
    reply = say(gateway, "cosyvoice-file")
    assert reply.status == 502
    assert gateway.event(reply)["attempts"][0]["verdict"] == "server"
    assert len(providers.requests) == 1


def delay(monkeypatch, imitation, seconds):
    """Answers of an imitation take so long, the first, the second and so on."""
    answer, delays = Providers.IMITATIONS[imitation], iter(seconds)

    def answer_late(request):
        time.sleep(next(delays))
        return answer(request)

    monkeypatch.setitem(Providers.IMITATIONS, imitation, answer_late)


def test_the_first_byte_is_waited_for_over_all_exchanges_of_an_attempt(gateway, providers, monkeypatch):
    delay(monkeypatch, "dashscope", [1.5, 1.5])
    reply = say(gateway, "cosyvoice-hasty")
    assert reply.status == 504, "either is in time, and both together are not"
    assert [request.method for request in providers.requests] == ["POST", "GET"]
    assert gateway.event(reply)["attempts"][0]["verdict"] == "timeout"


def test_a_silent_piece_after_audio_is_a_broken_transfer(gateway, providers, monkeypatch):
    delay(monkeypatch, "volcengine", [0, 10])
    reply = say(gateway, "volcengine-hasty", input=LONG, response_format="pcm")
    assert (reply.status, reply.is_whole) == (200, False)
    assert len(providers.requests) == 2
    event = gateway.event(reply)
    assert (event["end"], event["attempts"][0]["verdict"]) == ("cut", "timeout")


def test_a_piece_that_fails_after_audio_is_a_broken_transfer(gateway, providers):
    """Nothing follows what the caller has heard, and half a file looks like no whole one."""
    half = {"left": 1}
    key = gateway.keys.plaintext("volcengine", "k1")

    class Troubles(dict):
        def get(self, name, default=None):
            half["left"] -= name == key
            return "down" if name == key and half["left"] < 0 else default

    providers.troubles = Troubles()
    reply = say(gateway, "volcengine", input=LONG, response_format="pcm")
    assert (reply.status, reply.is_whole) == (200, False)
    assert len(providers.requests) == 2
    assert gateway.event(reply)["end"] == "error_mid"

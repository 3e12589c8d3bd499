"""The list of voices, through the web server."""

import contextlib
import json
import re
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from errors import assert_error
from gateway import MOUNTS
from processes import CAN_MEASURE_MEMORY, MEMORY_REASON, ROOT, wait_until
from tree import Tree, hostile, model

TREE = Tree(model("chat", hostile("a", "k1")))

# model -> (provider, what each upstream of it says besides its id and keys)
ENDPOINT = {"baseURL": "http://127.0.0.1:9/speech"}
SPEAKING = {
    "azure-tts": ("azure", [{"region": "eastus"}]),
    "cosy": ("dashscope-cosyvoice", [{"adapterParams": {"model": "cosyvoice-v2"}}]),
    "cosyvoice-v3-plus": ("dashscope-cosyvoice", [ENDPOINT]),
    "cosy-both": (
        "dashscope-cosyvoice",
        [{"adapterParams": {"model": name}} for name in ("cosyvoice-v3-flash", "cosyvoice-v3-plus")],
    ),
    "cosy-apart": (
        "dashscope-cosyvoice",
        [{"adapterParams": {"model": name}} for name in ("cosyvoice-v2", "qwen3-tts-flash")],
    ),
    "qwen": ("dashscope-cosyvoice", [{"adapterParams": {"model": "qwen3-tts-flash-2025-09-18"}}]),
    "volc": ("volcengine", [{"adapterParams": {"appid": "1"}}]),
    "volc-seed": ("volcengine", [{"adapterParams": {"api": "v3", "resourceId": "seed-tts-2.0"}}]),
    "volc-concurr": ("volcengine", [{"adapterParams": {"api": "v3", "resourceId": "seed-tts-1.0-concurr"}}]),
    "tts-1": ("openai", [ENDPOINT]),
    "openai": ("openai", [ENDPOINT | {"adapterParams": {"model": "gpt-4o-mini-tts"}}]),
    "kokoro": ("openai", [ENDPOINT]),
    "eleven": ("elevenlabs", [{}]),
}
RECOMMENDED = {"azure-tts": {"en-US": "en-US-AvaNeural", "zh-CN": "zh-CN-XiaoxiaoNeural"}, "nobody": {"en": "x"}}

at_each_mount = pytest.mark.parametrize("mount", MOUNTS)


def use(gateway, default="azure-tts", recommended=None):
    document, marker = gateway.render(TREE)
    tree = json.loads(document)
    for name, (provider, upstreams) in SPEAKING.items():
        keys = [{"id": "k", "ciphertext": gateway.keys.ciphertext(name, "k")}]
        tree["tts"]["models"][name] = {
            "provider": provider,
            "upstreams": [{"id": f"u{i}", "keys": keys} | upstream for i, upstream in enumerate(upstreams)],
        }
    for entry, value in (("DEFAULT_TTS_MODEL", default), ("DEFAULT_TTS_VOICES", recommended)):
        if value is None:
            gateway.remove_entry(entry)
        else:
            gateway.write_entry(entry, json.dumps(value))
    gateway.write_entry("LLM_ROUTER_CONFIG", json.dumps(tree))
    gateway.reload()
    wait_until(lambda: marker in gateway.model_names(), "the speaking tree is in force")


@pytest.fixture(scope="module")
def speaking(tree, session_gateway):
    use(session_gateway, recommended=RECOMMENDED)
    yield session_gateway
    for entry in ("DEFAULT_TTS_MODEL", "DEFAULT_TTS_VOICES"):
        session_gateway.remove_entry(entry)


@contextlib.contextmanager
def entries(gateway, **changed):
    """Other entries for a while."""
    use(gateway, **changed)
    yield
    use(gateway, recommended=RECOMMENDED)


def ask(gateway, mount="/v1", headers=None, key="caller", **query):
    return gateway.get(f"{mount}/audio/voices?{urlencode(query)}", headers=headers, key=key)


def voices(gateway, name, **query):
    reply = ask(gateway, model=name, **query)
    assert reply.status == 200 and reply.is_whole, reply
    return reply.json()["voices"]


def ids(gateway, name, **query):
    return {voice["id"] for voice in voices(gateway, name, **query)}


def catalog(name):
    """What the repository says: a list of each voice's columns."""
    lines = (ROOT / "voices" / f"{name}.tsv").read_text().splitlines()
    return [line.split("\t")[1:] for line in lines if line.startswith("voice\t")]


VOICE = {
    "id": str,
    "name": str,
    "description": str,
    "labels": dict,
    "tags": list,
    "languages": list,
    "formats": list,
    "compatible_models": list,
    "predefined_options": dict,
    "preview_audio_url": str,
}
LANGUAGE = {"title": str, "code": str}
FORMAT = {
    "name": str,
    "extension": str,
    "mime_type": str,
    "sample_rate": int,
    "bitrate": int,
    "format_code": str,
}


def assert_shape(value, shape):
    assert {name: type(member) for name, member in value.items()} == shape


@pytest.mark.parametrize("name", SPEAKING)
def test_every_voice_has_the_shape_that_callers_of_unspeech_know(speaking, name):
    for voice in voices(speaking, name):
        assert_shape(voice, VOICE)
        assert all(isinstance(text, str) for text in voice["tags"] + voice["compatible_models"])
        assert voice["languages"] and voice["formats"] and voice["compatible_models"]
        for language in voice["languages"]:
            assert_shape(language, LANGUAGE)
        for audio in voice["formats"]:
            assert_shape(audio, FORMAT)
            assert re.fullmatch(r"\.[a-z0-9]+", audio["extension"])
        assert {"accent", "gender", "type"} <= voice["labels"].keys()


@at_each_mount
def test_AE5_the_list_of_azure_is_the_whole_catalog_with_what_is_recommended(speaking, mount):
    reply = ask(speaking, mount, model="azure-tts")
    assert reply.status == 200 and reply.headers["content-type"] == "application/json"
    assert list(reply.json()) == ["voices", "recommended"]
    assert [voice["id"] for voice in reply.json()["voices"]] == [columns[0] for columns in catalog("azure")]
    assert len(reply.json()["voices"]) > 500
    assert reply.json()["recommended"] == RECOMMENDED["azure-tts"]


def of_model(name, *models):
    return {columns[0] for columns in catalog(name) if set(models) <= set(columns[5].split(";"))}


@pytest.mark.parametrize(
    "name, provider, models",
    [
        ("cosy", "dashscope-cosyvoice", ["cosyvoice-v2"]),
        ("cosyvoice-v3-plus", "dashscope-cosyvoice", ["cosyvoice-v3-plus"]),
        ("cosy-both", "dashscope-cosyvoice", ["cosyvoice-v3-flash", "cosyvoice-v3-plus"]),
        ("qwen", "dashscope-cosyvoice", ["qwen3-tts-flash"]),
        ("volc", "volcengine", ["v1"]),
        ("volc-seed", "volcengine", ["seed-tts-2.0"]),
        ("volc-concurr", "volcengine", ["seed-tts-1.0"]),
        ("tts-1", "openai", ["tts-1"]),
        ("openai", "openai", ["gpt-4o-mini-tts"]),
    ],
)
def test_a_voice_is_listed_if_every_upstream_can_speak_with_it(speaking, name, provider, models):
    expected = of_model(provider, *models)
    assert expected and ids(speaking, name) == expected


@pytest.mark.parametrize("name", ["cosy-apart", "kokoro", "eleven"])
def test_a_model_whose_voices_nobody_knows_has_an_empty_list(speaking, name):
    reply = ask(speaking, model=name)
    assert reply.status == 200 and reply.body == b'{"voices":[],"recommended":{}}'


@pytest.mark.parametrize(
    "query, expected",
    [
        ({"locale": "af-ZA", "gender": "male"}, lambda c: "af-ZA" in c[4].split(";") and c[2] == "male"),
        ({"locale": "AF"}, lambda c: any(code.startswith("af-") for code in c[4].split(";"))),
        ({"gender": "Neutral"}, lambda c: c[2] == "neutral"),
        ({"q": "dragonhd"}, lambda c: "dragonhd" in c[0].lower()),
        ({"q": "አምሀ"}, lambda c: c[0] == "am-ET-AmehaNeural"),
        ({"locale": "", "gender": "", "q": ""}, lambda c: True),
        ({"other": "x"}, lambda c: True),
        ({"q": "no such voice"}, lambda c: False),
    ],
)
def test_filters_leave_what_they_say(speaking, query, expected):
    assert ids(speaking, "azure-tts", **query) == {columns[0] for columns in catalog("azure") if expected(columns)}


@at_each_mount
@pytest.mark.parametrize(
    "param, value",
    [("gender", "robot"), ("locale", "en_US"), ("locale", "en;q=1"), ("locale", "e" * 36), ("q", "x" * 257)],
)
def test_a_filter_that_cannot_be_is_refused(speaking, mount, param, value):
    reply = ask(speaking, mount, model="azure-tts", **{param: value})
    assert_error(reply, mount, 400, "BAD_REQUEST")
    assert param in reply.json()["message" if mount != "/v1" else "error"].__str__()


@at_each_mount
@pytest.mark.parametrize("query", ["", "?model=", "?model=auto", "?locale="])
def test_who_names_no_model_gets_the_defaults_voices(speaking, mount, query):
    reply = speaking.get(f"{mount}/audio/voices{query}")
    assert reply.status == 200 and len(reply.json()["voices"]) == len(catalog("azure"))


@at_each_mount
@pytest.mark.parametrize("query", ["", "?model=", "?model=auto"])
def test_without_a_default_a_model_must_be_named(speaking, mount, query):
    with entries(speaking, default=None):
        reply = speaking.get(f"{mount}/audio/voices{query}")
        assert_error(reply, mount, 400, "MISSING_MODEL")
        assert speaking.event(reply)["end"] == "refused"
        assert ask(speaking, mount, model="tts-1").status == 200


@at_each_mount
def test_a_default_that_does_not_exist_is_the_operators_fault(speaking, mount):
    with entries(speaking, default="chat"):
        assert_error(ask(speaking, mount), mount, 503, "CONFIG_NOT_SET")


@pytest.mark.parametrize("name", ["none", "chat", "azure-tt", "azure tts", "\N{LATIN SMALL LETTER E WITH ACUTE}"])
def test_a_model_that_does_not_speak_is_unknown(speaking, name):
    reply = ask(speaking, model=name)
    assert reply.status == 404 and reply.json()["error"]["code"] == "model_not_found"
    reply = ask(speaking, "/api/v1/openai", model=name)
    assert reply.status == 400 and reply.json()["message"] == "unknown_model"
    assert reply.json()["details"] == {"requested": name, "available": list(SPEAKING)}


def test_a_caller_sees_the_voices_of_its_own_models_only(speaking):
    key = speaking.ctl("caller-key", "add", "--id", "voices", "--models", "tts-1").strip()
    speaking.reload()
    try:
        wait_until(lambda: ask(speaking, key=key, model="tts-1").status == 200, "the key is known")
        assert ask(speaking, key=key, model="azure-tts").status == 404
        assert ask(speaking, key=key).status == 404  # the default is not its own
        details = ask(speaking, "/api/v1/openai", key=key, model="azure-tts").json()["details"]
        assert details["available"] == ["tts-1"]
    finally:
        speaking.ctl("caller-key", "revoke", "voices")
        speaking.reload()


@at_each_mount
def test_nobody_gets_a_list_without_a_key_or_by_another_method(speaking, mount):
    assert_error(ask(speaking, mount, key=None, model="azure-tts"), mount, 401, "UNAUTHORIZED")
    reply = speaking.call("POST", f"{mount}/audio/voices?model=azure-tts", b"{}").reply()
    assert_error(reply, mount, 405, "METHOD_NOT_ALLOWED")
    assert reply.headers["allow"] == "GET, HEAD"
    assert speaking.get(f"{mount}/audio/voices/streaming").status == 404


@at_each_mount
def test_who_has_the_list_already_does_not_get_it_again(speaking, mount):
    first = ask(speaking, mount, model="azure-tts")
    etag = first.headers["etag"]
    assert re.fullmatch(r'"[0-9a-f]{32}"', etag)
    assert first.headers["cache-control"] == "private, no-cache"
    for known in (etag, f"W/{etag}", f'"other", {etag}', "*"):
        again = ask(speaking, mount, model="azure-tts", headers={"if-none-match": known})
        assert again.status == 304 and again.body == b"" and again.headers["etag"] == etag
        assert speaking.event(again)["status"] == 304
    for known in ('"other"', etag.strip('"'), ""):
        reply = ask(speaking, mount, model="azure-tts", headers={"if-none-match": known})
        assert reply.status == 200 and reply.body == first.body


def test_the_etag_follows_the_list_and_what_is_recommended(speaking):
    etags = [
        ask(speaking, **query).headers["etag"]
        for query in (
            {"model": "azure-tts"},
            {"model": "azure-tts", "locale": "fr"},
            {"model": "azure-tts", "gender": "male"},
            {"model": "cosy"},
            {"model": "tts-1"},
        )
    ]
    assert len(set(etags)) == len(etags)
    assert ask(speaking).headers["etag"] == etags[0]
    with entries(speaking, recommended={"azure-tts": {"fr": "fr-FR-DeniseNeural"}}):
        reply = ask(speaking, model="azure-tts", headers={"if-none-match": etags[0]})
        assert reply.status == 200 and reply.json()["recommended"] == {"fr": "fr-FR-DeniseNeural"}
    assert ask(speaking, model="azure-tts").headers["etag"] == etags[0]


def test_the_record_says_whose_voices_were_listed(speaking):
    event = speaking.event(ask(speaking, model="auto"))
    assert (event["endpoint"], event["end"], event["status"]) == ("audio/voices", "done", 200)
    assert (event["model"], event["model_routed"]) == ("auto", "azure-tts")
    assert event["attempts"] == []


def test_a_name_is_decoded_before_it_is_looked_up(speaking):
    assert speaking.get(f"/v1/audio/voices?model={quote('tts-1', safe='').replace('-', '%2D')}").status == 200


def test_a_caller_that_leaves_in_the_middle_harms_nobody(speaking):
    call = speaking.call("GET", "/v1/audio/voices?model=azure-tts", headers={"x-request-id": "left-a-list"})
    call.read_until(b'"voices":[')
    call.socket.close()
    assert ask(speaking, model="azure-tts").status == 200


@pytest.mark.skipif(not CAN_MEASURE_MEMORY, reason=MEMORY_REASON)
def test_lists_take_no_memory_of_a_worker(start_gateway):
    gateway = start_gateway(workers=1)
    use(gateway)
    worker = next(iter(gateway.workers()))

    def private_kb():
        lines = Path(f"/proc/{worker}/smaps_rollup").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("Private_Dirty"))

    assert len(voices(gateway, "cosy")) > 0
    before = private_kb()
    for _ in range(20):
        assert len(ask(gateway, model="azure-tts").body) > 3_000_000
    assert private_kb() - before < 100

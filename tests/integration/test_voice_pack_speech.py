"""Speech with voice packs: what a snapshot says reaches the provider, whatever has become of its pack.
The scenarios of seed 002's U10, AE4 and AE5 are named after them."""

import json
import re
import subprocess

import pytest

from administrator import Admin, Deployment
from errors import assert_error
from gateway import MOUNTS
from processes import program, wait_until
from voice_packs import TREE, VOICES, Packs

at_each_mount = pytest.mark.parametrize("mount", MOUNTS)


def begin(folder, base_urls, upstream, postgres):
    """llm-router-admin beside a gateway that has the tree."""
    gateway = Deployment(folder, base_urls, upstream, postgres, workers=2)
    gateway.start()
    admin = Admin(gateway)
    admin.wait_for_socket()
    document, marker = gateway.render(TREE)
    assert admin.put(document.encode(), "*").status == 200
    wait_until(lambda: marker in gateway.model_names(), "the tree is in force")
    return admin


def end(admin):
    admin.process.stop()
    admin.gateway.stop()


@pytest.fixture(scope="module")
def deployment(request, tmp_path_factory, base_urls, upstream):
    """On a state directory, if the test says nothing else."""
    store = getattr(request, "param", "directory")
    postgres = request.getfixturevalue("postgres") if store == "postgres" else None
    admin = begin(tmp_path_factory.mktemp("packs"), base_urls, upstream, postgres)
    yield admin
    end(admin)


@pytest.fixture
def packs(deployment, providers):
    packs = Packs(deployment)
    yield packs
    packs.remove_all()
    deployment.assert_unbroken()
    deployment.gateway.assert_unbroken()


def refusal(gateway, *arguments):
    """What llm-routerctl says when it refuses."""
    done = subprocess.run([program("llm-routerctl"), *arguments], env=gateway.environment(), capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 1, done
    return done.stderr


def sent(providers):
    """What was asked of the provider, without what is new each time."""
    (request,) = providers.requests
    providers.requests.clear()
    return request.path, re.sub(rb'"reqid":"[0-9a-f]+-', b'"reqid":"-', request.body)


def spoken(packs, providers, snapshot, mount="/v1", **members):
    """The audio, and what was asked of the provider."""
    providers.seen_ids.clear()
    reply = packs.say(snapshot, mount, **members)
    assert (reply.status, reply.is_whole) == (200, True), reply
    return reply.body, *sent(providers)


def prosody(body):
    return dict(re.findall(r'(rate|pitch|volume)="([^"]*)"', body.decode()))


def members(*path):
    def read(body):
        found = json.loads(body)
        for name in path:
            found = found[name]
        return found

    return read


# How providers say so.
WORDS = {"pitch", "volume", "speed", "speed_ratio", "loudness_ratio", "pitch_ratio", "volume_ratio", "speech_rate",
         "loudness_rate", "additions"}

# What the params {pitch, volume, rate} of a pack become: of a model's, by its own words.
SPOKEN = [
    ("azure", {"pitch": -5, "volume": 10.5, "rate": 1.2}, prosody, {"pitch": "-5%", "volume": "+10.5%", "rate": "+20%"}),
    ("azure", {"pitch": 0, "volume": 0, "rate": 1}, prosody, {"pitch": "+0%", "volume": "+0%", "rate": "+0%"}),
    ("azure", {"rate": 0.5, "pitch": 50, "volume": -100}, prosody, {"rate": "-50%", "pitch": "+50%", "volume": "-100%"}),
    ("azure", {}, prosody, {}),
    ("cosyvoice", {"pitch": 20, "volume": -40, "rate": 1.5}, members("input"), {"pitch": 1.2, "volume": 30, "rate": 1.5}),
    ("cosyvoice", {"pitch": -50, "volume": 100, "rate": 0.5}, members("input"), {"pitch": 0.5, "volume": 100, "rate": 0.5}),
    ("volcengine", {"volume": -50, "rate": 0.8}, members("audio"), {"loudness_ratio": 0.5, "speed_ratio": 0.8}),
    ("volcengine", {"pitch": 0, "volume": 50}, members("audio"), {"loudness_ratio": 1.5}),
    ("volcengine-v3", {"volume": -20, "rate": 1.5}, members("req_params", "audio_params"), {"loudness_rate": -20, "speech_rate": 50}),
    ("volcengine-v3", {"pitch": 12}, members("req_params"), {"additions": '{"post_process":{"pitch":2}}'}),
    ("openai", {"rate": 1.5, "pitch": 0}, members(), {"speed": 1.5, "model": "openai", "voice": "alloy"}),
    ("qwen", {"rate": 1, "pitch": 0, "volume": 0}, members("input"), {"voice": "Cherry"}),
]


@pytest.mark.parametrize("model, params, read, expected", SPOKEN)
def test_u10_model_voice_and_params_of_a_snapshot_reach_the_provider(packs, providers, model, params, read, expected):
    snapshot = packs.snapshot(packs.create(model, params=params))
    _, _, body = spoken(packs, providers, snapshot)
    asked = read(body)
    assert VOICES[model][1].encode() in body
    assert asked.items() >= expected.items(), asked
    assert set(asked) & WORDS <= set(expected), f"{asked} says what the pack does not"


def test_an_older_voice_of_volcengine_has_ratios_of_its_own(packs, providers):
    snapshot = packs.snapshot(packs.create("volcengine", voice="BV001_streaming", params={"pitch": 10, "volume": -50, "rate": 0.25}))
    audio = json.loads(spoken(packs, providers, snapshot)[2])["audio"]
    assert audio.items() >= {"pitch_ratio": 1.1, "volume_ratio": 0.5, "speed_ratio": 0.25}.items()


@pytest.mark.parametrize("deployment", ["directory", "postgres"], indirect=True)
@at_each_mount
def test_ae4_audio_and_parameters_stay_whatever_becomes_of_the_pack(packs, providers, mount):
    """Edited, disabled and deleted, by SQL or an editor."""
    row = packs.create("openai", name="First", params={"rate": 1.25})
    snapshot = packs.snapshot(row, mount)
    before = spoken(packs, providers, snapshot, mount, response_format="wav")

    def edit(rows):
        rows[-1] |= {"name": "Edited", "voice": "nova", "ttsModelId": "openai-2", "params": {"rate": 2}}

    def disable(rows):
        rows[-1]["enabled"] = False

    packs.behind("UPDATE voice_packs SET name = 'Edited', voice_id = 'nova', tts_model_id = 'openai-2', params = '{\"rate\": 2}'", edit)
    packs.wait(lambda: packs.found().get(row["id"], {}).get("name") == "Edited", "the edit is in force")
    assert spoken(packs, providers, snapshot, mount, response_format="wav") == before
    assert spoken(packs, providers, packs.snapshot(row), mount, response_format="wav") != before
    packs.behind("UPDATE voice_packs SET enabled = false", disable)
    packs.wait_listed()
    assert spoken(packs, providers, snapshot, mount, response_format="wav") == before
    packs.behind("DELETE FROM voice_packs", list.clear)
    packs.wait(lambda: packs.admin.get("/api/admin/voice-packs").json()["voicePacks"] == [], "they are gone")
    assert spoken(packs, providers, snapshot, mount, response_format="wav") == before


# What each model's provider cannot speak, and it is said which parameter it is.
UNSUPPORTED = [
    ("openai", {"pitch": 5}, "pitch"),
    ("openai", {"volume": -5}, "volume"),
    ("qwen", {"rate": 1.1}, "rate"),
    ("qwen", {"pitch": 1}, "pitch"),
    ("qwen", {"volume": 1}, "volume"),
    ("volcengine", {"pitch": 5}, "pitch"),
    ("volcengine", {"volume": -60}, "volume"),
    ("volcengine", {"rate": 0.75}, "rate"),
    ("volcengine-v3", {"volume": -60}, "volume"),
    ("volcengine-v3", {"rate": 2.5}, "rate"),
    ("volcengine-v3", {"pitch": 2}, "pitch"),
    ("cosyvoice", {"rate": 3}, "rate"),
    ("azure", {"pitch": 60}, "pitch"),
    ("azure", {"rate": 2.5}, "rate"),
]


@pytest.mark.parametrize("model, params, name", UNSUPPORTED)
def test_ae5_what_the_provider_cannot_speak_is_refused_by_name(packs, providers, model, params, name):
    snapshot = packs.snapshot(packs.create(model, params={"pitch": 0} | params))
    for mount in MOUNTS:
        reply = packs.say(snapshot, mount)
        assert_error(reply, mount, 400, "BAD_REQUEST")
        assert f"voice_pack.params.{name}".encode() in reply.body
        assert mount != "/v1" or reply.json()["error"]["param"] == f"voice_pack.params.{name}"
    assert not providers.requests


def test_a_pack_of_another_provider_is_not_spoken_by_this_one(packs, providers):
    """Its model has moved: the voice would be somebody else's."""
    snapshot = packs.snapshot(packs.create("openai", provider="azure"))
    reply = packs.say(snapshot)
    assert (reply.status, reply.json()["error"]["param"]) == (400, "voice_pack.provider")
    assert not providers.requests


@at_each_mount
def test_a_pack_may_be_asked_for_by_its_id(packs, providers, mount):
    row = packs.create("openai", params={"rate": 1.5})
    packs.snapshot(row)
    for asked in ({"voice": row["id"]}, {"voice": {"id": row["id"]}, "model": "openai"}, {"voice": row["id"], "model": "auto"}):
        reply = packs.gateway.say(..., mount, **asked)
        assert reply.status == 200, reply
        body = json.loads(sent(providers)[1])
        assert body == {"model": "openai", "input": "Say hello.", "voice": "alloy", "speed": 1.5}
    packs.switch(row, "disable")
    packs.wait_listed()
    reply = packs.gateway.say(..., mount, voice=row["id"])
    assert_error(reply, mount, 400, "BAD_REQUEST")
    assert b"voice" in reply.body and not providers.requests


# What a tamperer may try, each in a snapshot that was right before.
TAMPERED = {
    "packId": lambda s: s | {"packId": "other"},
    "name": lambda s: s | {"name": "Other"},
    "provider": lambda s: s | {"provider": "azure"},
    "model": lambda s: s | {"model": "other"},
    "voiceId": lambda s: s | {"voiceId": "nova"},
    "tier": lambda s: s | {"tier": "lite"},
    "ttsModelId": lambda s: s | {"ttsModelId": "openai-2"},
    "a parameter's value": lambda s: s | {"params": {"rate": 1.5, "volume": 0}},
    "a parameter taken away": lambda s: s | {"params": {"volume": 0}},
    "a parameter added": lambda s: s | {"params": s["params"] | {"pitch": 0}},
    "a parameter moved": lambda s: s | {"params": {"pitch": 0, "rate": 1.25}},
    "the tag": lambda s: s | {"tag": "v1." + "A" * 43},
    "the tag's end": lambda s: s | {"tag": s["tag"] + "A"},
}


@pytest.mark.parametrize("tamper", TAMPERED.values(), ids=TAMPERED)
def test_a_tampered_snapshot_is_refused(packs, providers, tamper):
    snapshot = packs.snapshot(packs.create("openai", params={"rate": 1.25, "volume": 0}))
    reply = packs.say(tamper(snapshot))
    assert (reply.status, reply.json()["error"]["param"]) == (400, "voice_pack.tag"), reply
    assert not providers.requests


MALFORMED = {
    "a text": ("x", "voice_pack"),
    "a list": ([], "voice_pack"),
    "nothing in it": ({}, "voice_pack.tag"),
    "no tag": (lambda s: {name: s[name] for name in s if name != "tag"}, "voice_pack.tag"),
    "no params": (lambda s: {name: s[name] for name in s if name != "params"}, "voice_pack.params"),
    "no voice": (lambda s: {name: s[name] for name in s if name != "voiceId"}, "voice_pack.voiceId"),
    "params of another kind": (lambda s: s | {"params": []}, "voice_pack.params"),
    "a parameter of another kind": (lambda s: s | {"params": {"rate": "1.25"}}, "voice_pack.params.rate"),
    "an unknown parameter": (lambda s: s | {"params": {"speed": 1}}, "voice_pack.params.speed"),
    "an unknown member": (lambda s: s | {"costMultiplier": 0}, "voice_pack.costMultiplier"),
    "a text of another kind": (lambda s: s | {"tier": 1}, "voice_pack.tier"),
    "a very long text": (lambda s: s | {"name": "x" * 5000}, "voice_pack.name"),
}


def test_what_is_no_snapshot_is_refused_by_name(packs, providers):
    snapshot = packs.snapshot(packs.create("openai", params={"rate": 1.25}))
    for make, param in MALFORMED.values():
        reply = packs.say(make(snapshot) if callable(make) else make)
        assert (reply.status, reply.json()["error"]["param"]) == (400, param), reply
    assert not providers.requests


def test_a_snapshot_may_be_written_in_any_way(packs, providers):
    """A client reads and writes it as JSON, and so do those who keep it."""
    snapshot = packs.snapshot(packs.create("openai", name="Wärme / 2", params={"rate": 1.25, "pitch": 0}))
    spellings = [
        json.dumps(snapshot, indent=2, sort_keys=True),
        json.dumps(dict(reversed(snapshot.items())), ensure_ascii=False),
        json.dumps(snapshot).replace("1.25", "125e-2").replace("/", "\\/"),
    ]
    for spelling in spellings:
        body = f'{{"input": "Say hello.", "voice_pack": {spelling}}}'.encode()
        reply = packs.gateway.call("POST", "/v1/audio/speech", body).reply()
        assert reply.status == 200, reply
        assert json.loads(sent(providers)[1])["speed"] == 1.25


CONTRADICTIONS = [
    ({"model": "azure"}, "model"),
    ({"voice": "nova"}, "voice"),
    ({"speed": 2}, "speed"),
    ({"extra_body": {"voice_pack": {}}}, "extra_body.voice_pack"),
]


def test_what_contradicts_a_pack_is_refused_and_what_agrees_is_not(packs, providers):
    snapshot = packs.snapshot(packs.create("openai", params={"rate": 1.25}))
    for besides, param in CONTRADICTIONS:
        reply = packs.say(snapshot, **besides)
        assert (reply.status, reply.json()["error"]["param"]) == (400, param), reply
    assert not providers.requests
    for besides in ({"model": "openai", "voice": "alloy"}, {"model": "auto", "voice": snapshot["packId"], "speed": 1}, {"extra_body": {"x": 1}}):
        assert spoken(packs, providers, snapshot, **besides)[0]


def test_a_callers_own_parameter_does_not_overrule_a_pack(packs, providers):
    snapshot = packs.snapshot(packs.create("azure", params={"pitch": 5}))
    reply = packs.say(snapshot, extra_body={"pitch": "+2st"})
    assert (reply.status, reply.json()["error"]["param"]) == (400, "extra_body.pitch")
    assert not providers.requests
    _, _, body = spoken(packs, providers, snapshot, extra_body={"volume": "80"}, speed=1.5)
    assert prosody(body) == {"pitch": "+5%", "volume": "80", "rate": "+50%"}


def test_a_key_that_may_not_use_the_model_may_not_use_its_packs(packs, providers):
    row = packs.create("openai")
    snapshot = packs.snapshot(row)
    key = packs.gateway.ctl("caller-key", "add", "--id", f"not-{row['id']}", "--models", "azure").strip()
    packs.wait(lambda: packs.gateway.get("/v1/models", key=key).status == 200, "the key serves")
    bodies = [{"input": "x", "voice_pack": snapshot}, {"input": "x", "voice": row["id"]}]
    statuses = [packs.gateway.call("POST", "/v1/audio/speech", body, key=key).reply().status for body in bodies]
    assert statuses == [404, 400] and not providers.requests


@at_each_mount
def test_u10_without_a_pack_speech_is_what_it_was(packs, providers, mount):
    packs.snapshot(packs.create("openai"))
    for besides in ({}, {"voice_pack": None}):
        reply = packs.gateway.say("openai", mount, voice="nova", speed=2, **besides)
        assert reply.status == 200, reply
        assert json.loads(sent(providers)[1]).items() >= {"model": "openai", "voice": "nova", "speed": 2}.items()


def test_events_are_streamed_with_a_pack_and_the_record_says_what_was_asked(packs, providers):
    snapshot = packs.snapshot(packs.create("azure", params={"pitch": 5}))
    reply = packs.say(snapshot, stream_format="sse")
    assert reply.status == 200 and b"speech.audio.done" in reply.body
    event = packs.gateway.event(reply)
    assert (event["model_routed"], event["end"]) == ("azure", "done") and event.get("model", "") == ""


def test_a_rotation_of_the_master_key_changes_no_tag(tmp_path, base_urls, upstream, providers):
    admin = begin(tmp_path, base_urls, upstream, None)
    try:
        gateway, packs = admin.gateway, Packs(admin)
        row = packs.create("openai", params={"rate": 1.25})
        snapshot = packs.snapshot(row)
        stored = gateway.store.value("VOICE_PACK_TAG_KEY")
        gateway.new_master_key()
        words = gateway.ctl("rotate")
        keys = len(TREE.speech) + 1 + 1  # those of the tree, with the one of its marker, and that of the tags
        assert f"keys encrypted anew: {keys}; " in words and f"all {keys} keys" in words
        assert gateway.store.value("VOICE_PACK_TAG_KEY") != stored
        line = admin.audit(1)[0]
        assert (line["action"], line["object"]) == ("rotate", "VOICE_PACK_TAG_KEY")
        assert [set(change) for change in line["changes"]] == [{"field", "before", "after"}]
        gateway.previous_key_file.unlink()
        gateway.router.stop()
        gateway.start_router()
        wait_until(lambda: gateway.get("/v1/voice-packs").status == 200, "it serves with the new key alone")
        assert packs.snapshot(row) == snapshot
        assert packs.say(snapshot).status == 200
        assert f"all {keys} keys" in gateway.ctl("verify")
    finally:
        end(admin)


def test_a_key_of_tags_that_does_not_decrypt_is_said_and_kept(tmp_path, base_urls, upstream, providers):
    admin = begin(tmp_path, base_urls, upstream, None)
    try:
        gateway, packs = admin.gateway, Packs(admin)
        row = packs.create("openai")
        snapshot = packs.snapshot(row)
        other = gateway.keys.encrypt("m", "k1", "x" * 32)  # of another place
        gateway.store.set_value("VOICE_PACK_TAG_KEY", json.dumps({"ciphertext": other}))
        for mount in MOUNTS:
            packs.wait(lambda: packs.ask_snapshot(row["id"], mount).status == 503, "there is no snapshot any more")
            assert_error(packs.ask_snapshot(row["id"], mount), mount, 503, "DECRYPT_FAILED")
            assert_error(packs.say(snapshot, mount), mount, 503, "DECRYPT_FAILED")
        assert json.loads(gateway.store.value("VOICE_PACK_TAG_KEY")) == {"ciphertext": other}
        assert gateway.say("openai", voice="alloy").status == 200
        assert "VOICE_PACK_TAG_KEY: " in refusal(gateway, "verify")
        gateway.ctl("voice-pack", "rekey", "--force")
        packs.wait(lambda: packs.ask_snapshot(row["id"]).status == 200, "there are snapshots again")
        assert packs.say(snapshot).json()["error"]["param"] == "voice_pack.tag"
        assert packs.say(packs.snapshot(row)).status == 200
        assert "all " in gateway.ctl("verify")
    finally:
        end(admin)

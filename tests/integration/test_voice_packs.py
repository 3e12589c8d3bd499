"""Voice packs: administrators' rows, callers' list and snapshots, on each of the stores.
The scenarios of the seed's U5 to U8 are named after it."""

import pytest

from administrator import API
from gateway import MOUNTS
from processes import wait_until

PACKS = f"{API}/voice-packs"


@pytest.fixture
def packs(admin):
    """An administrator of packs, of which there are none."""
    if admin.get(PACKS).json()["voicePacks"]:
        admin.gateway.ctl("config", "put", "--entry", "VOICE_PACKS", "--force", given='{"packs":[]}')
    yield Packs(admin)


def pack(**members):
    row = {
        "name": "Warm", "provider": "azure", "model": "neural", "voice": "en-US-AvaNeural", "ttsModelId": "speech",
        "params": {"pitch": -5, "volume": 10.5, "rate": 1.2}, "tier": "pro",
    } | members
    return {name: value for name, value in row.items() if value is not ...}


class Packs:
    def __init__(self, admin):
        self.admin = admin

    def create(self, **members):
        reply = self.admin.send("POST", PACKS, pack(**members))
        assert reply.status == 201, reply
        return reply.json()

    def listed(self):
        reply = self.admin.get(PACKS)
        assert reply.status == 200, reply
        return reply.json()["voicePacks"]


def test_a_new_pack_is_shown_as_it_was_made(packs):
    made = packs.create(description="Calm.", upstreamVoice="x")
    version = made.pop("version")
    assert made.items() >= pack(description="Calm.", upstreamVoice="x", enabled=True).items()
    assert set(made) == {*pack(), "id", "description", "upstreamVoice", "enabled", "createdAt", "updatedAt"}
    assert packs.listed() == [made]
    assert packs.admin.get(PACKS).headers["etag"] == f'"{version}"'


@pytest.mark.parametrize("mount", MOUNTS)
def test_callers_find_it(packs, mount):
    made = packs.create()
    gateway = packs.admin.gateway
    shown = {"voicePacks": [{"id": made["id"], "name": "Warm", "tier": "pro"}]}
    wait_until(lambda: gateway.get(f"{mount}/voice-packs").json() == shown, "it is listed, and nothing else", 5)
    reply = gateway.call("POST", f"{mount}/voice-packs/{made['id']}/snapshot").reply()
    assert reply.status == 200, reply
    snapshot = reply.json()
    assert snapshot.pop("tag").startswith("v1.")
    assert snapshot == {
        "packId": made["id"], "name": "Warm", "provider": "azure", "model": "neural", "voiceId": "en-US-AvaNeural",
        "params": {"pitch": -5, "volume": 10.5, "rate": 1.2}, "tier": "pro", "ttsModelId": "speech",
    }

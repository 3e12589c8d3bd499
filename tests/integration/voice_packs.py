"""Voice packs as curators keep them and callers use them, on a deployment with models that speak."""

import json

from administrator import API, PATCH_TYPE
from processes import wait_until
from tree import Tree, at, speaker

PACKS = f"{API}/voice-packs"
LONGEST_S = 20  # until a change is in force: promised are five, on a machine that has time

TREE = Tree(
    speech=[
        speaker("azure", "azure", at("like-azure", "a", "k1")),
        speaker("cosyvoice", "dashscope-cosyvoice",
                at("like-dashscope-synthesizer", "a", "k1", adapterParams={"model": "cosyvoice-v3-flash"})),
        speaker("qwen", "dashscope-cosyvoice",
                at("like-dashscope-generation", "a", "k1", adapterParams={"model": "qwen3-tts-flash"})),
        speaker("volcengine", "volcengine", at("like-volcengine-v1", "a", "k1", adapterParams={"appid": "4711"})),
        speaker("volcengine-v3", "volcengine", at("like-volcengine-v3", "a", "k1", adapterParams={"api": "v3"})),
        speaker("openai", "openai", at("like-openai", "a", "k1")),
        speaker("openai-2", "openai", at("like-openai", "b", "k1")),
    ],
)

# A voice of each model, and its provider.
VOICES = {
    "azure": ("azure", "en-US-AvaNeural"),
    "cosyvoice": ("dashscope-cosyvoice", "longanyang"),
    "qwen": ("dashscope-cosyvoice", "Cherry"),
    "volcengine": ("volcengine", "zh_female_shuangkuaisisi_moon_bigtts"),
    "volcengine-v3": ("volcengine", "zh_female_vv_uranus_bigtts"),
    "openai": ("openai", "alloy"),
    "openai-2": ("openai", "alloy"),
}


def pack(model="azure", /, **members):
    """What a pack of a model is made of; `...` leaves a member out."""
    provider, voice = VOICES[model]
    row = {"name": "Warm", "provider": provider, "model": "any", "voice": voice, "ttsModelId": model, "params": {},
           "tier": "pro"} | members
    return {name: value for name, value in row.items() if value is not ...}


class Packs:
    def __init__(self, admin):
        self.admin = admin
        self.gateway = admin.gateway
        self.is_on_postgres = "DATABASE_URL" in admin.gateway.store.environment

    # Curators

    def remove_all(self):
        if self.listed():
            self.gateway.ctl("config", "put", "--entry", "VOICE_PACKS", "--force", given='{"packs":[]}')

    def create(self, model="azure", /, **members):
        """Makes a pack, which callers find soon; its row."""
        reply = self.admin.send("POST", PACKS, pack(model, **members))
        assert reply.status == 201, reply
        made = reply.json()
        del made["version"]
        return made

    def listed(self):
        reply = self.admin.get(PACKS)
        assert reply.status == 200, reply
        return reply.json()["voicePacks"]

    def version(self):
        return self.admin.get(PACKS).headers["etag"]

    def change(self, row, patch, if_match="*"):
        return self.admin.send("PATCH", f"{PACKS}/{row['id']}", patch, if_match, PATCH_TYPE)

    def switch(self, row, action, if_match="*"):
        headers = {} if if_match is None else {"if-match": if_match}
        return self.admin.ask("POST", f"{PACKS}/{row['id']}/{action}", headers=headers)

    def behind(self, sql, edit):
        """Changes the packs behind everybody's back: by SQL, or `edit` of the document's list in the file."""
        if self.is_on_postgres:
            self.gateway.store._sql(sql)
            return
        document = json.loads(self.gateway.store.value("VOICE_PACKS"))
        edit(document["packs"])
        self.gateway.store.set_value("VOICE_PACKS", json.dumps(document))

    # Callers

    def found(self, mount="/v1", **options):
        reply = self.gateway.get(f"{mount}/voice-packs", **options)
        assert reply.status == 200, reply
        return {row["id"]: row for row in reply.json()["voicePacks"]}

    def wait(self, predicate, what):
        return wait_until(predicate, what, LONGEST_S)

    def wait_listed(self, *rows, **options):
        """Until callers find these and no others."""
        ids = {row["id"] for row in rows}
        self.wait(lambda: set(self.found(**options)) == ids, f"{ids} are listed")

    def ask_snapshot(self, pack_id, mount="/v1", **options):
        return self.gateway.call("POST", f"{mount}/voice-packs/{pack_id}/snapshot", **options).reply()

    def snapshot(self, row, mount="/v1"):
        self.wait(lambda: row["id"] in self.found(), f"{row['id']} is listed")
        reply = self.ask_snapshot(row["id"], mount)
        assert reply.status == 200, reply
        return reply.json()

    def say(self, snapshot, mount="/v1", **members):
        """Speaks with a snapshot, without model and voice."""
        return self.gateway.say(..., mount, **({"voice": ..., "voice_pack": snapshot} | members))

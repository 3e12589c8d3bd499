"""The binding page on a gateway's own web server, and character cards to choose there."""

import base64
import contextlib
import json
import struct
import zlib

from administrator import API, Admin
from gateway import Gateway
from processes import wait_until
from tree import Tree, hostile, speaker

TREE = Tree(speech=[speaker("speaks", "openai", hostile("a", "k1"))])

MARKUP = "<img src=x onerror=alert(1)>"

VOICE = {"provider": "openai", "model": "tts-1", "voice": "onyx", "ttsModelId": "speaks", "enabled": True}
PACKS = [
    VOICE | {"name": "Warm", "description": "A low voice.", "tier": "pro", "params": {"rate": 1.25}},
    VOICE | {"name": "Bright", "voice": "nova", "tier": "lite"},
    VOICE | {"name": "Gone", "tier": "standard", "enabled": False},
    VOICE | {"name": MARKUP, "tier": "premium"},
]

SIGNATURE = b"\x89PNG\r\n\x1a\n"


class Site:
    """llm-router and llm-router-admin behind lighttpd: what the page is served by and asks."""

    def __init__(self, folder, base_urls, upstream):
        self.gateway = Gateway(folder, base_urls, upstream, workers=4)
        self.gateway.start()
        self.gateway.use(TREE)
        self.admin = Admin(self.gateway)
        self.admin.wait_for_socket()
        self._ids = {pack["name"]: self._create(pack) for pack in PACKS}
        self._wait_listed(pack["name"] for pack in PACKS if pack["enabled"])
        self.url = f"http://127.0.0.1:{self.gateway.port}/voice-packs/"

    def _create(self, pack):
        reply = self.admin.send("POST", f"{API}/voice-packs", pack, "*")
        assert reply.status == 201, reply
        return reply.json()["id"]

    def _listed(self):
        return [pack["name"] for pack in self.gateway.get("/v1/voice-packs").json()["voicePacks"]]

    def _wait_listed(self, names):
        names = list(names)
        wait_until(lambda: self._listed() == names, f"the voice packs are {names}")

    @contextlib.contextmanager
    def without(self, *names):
        """With these packs disabled."""
        before = self._listed()
        self._switch(names, "disable")
        self._wait_listed(name for name in before if name not in names)
        yield
        self._switch(names, "enable")
        self._wait_listed(before)

    def _switch(self, names, action):
        for name in names:
            reply = self.admin.send("POST", f"{API}/voice-packs/{self._ids[name]}/{action}", b"", "*")
            assert reply.status == 200, reply

    def stop(self):
        self.admin.process.stop()
        self.gateway.stop()

    def assert_unbroken(self):
        self.admin.assert_unbroken()
        self.gateway.assert_unbroken()

    def get(self, name="", method="GET", **headers):
        """What the page, or a file beside it, is answered with for anybody."""
        return self.gateway.call(method, f"/voice-packs{name}", headers=headers, key=None).reply()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def card_chunk(keyword, text, kind=b"tEXt", between=b"\0"):
    """between: what stands between the keyword and the card's text."""
    return chunk(kind, keyword + between + base64.b64encode(text.encode() if isinstance(text, str) else text))


PIXEL = (
    chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)),
    chunk(b"IDAT", zlib.compress(b"\0\x80")),
    chunk(b"IEND", b""),
)


def picture(*cards, behind=b""):
    """A PNG of one pixel, with these chunks between others that nobody may touch."""
    header, pixels, end = PIXEL
    others = chunk(b"tEXt", b"Comment\0kept \xe9"), chunk(b"chRd", bytes(range(256))), chunk(b"tEXt", b"charade\0eA==")
    return SIGNATURE + header + others[0] + b"".join(cards) + others[1] + pixels + others[2] + end + behind


def chunks_of(png):
    """(type, data) of each chunk, all of whose checksums are right."""
    assert png.startswith(SIGNATURE)
    found, at = [], len(SIGNATURE)
    while not found or found[-1][0] != b"IEND":
        (length,) = struct.unpack_from(">I", png, at)
        kind, data = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        (crc,) = struct.unpack_from(">I", png, at + 8 + length)
        assert crc == zlib.crc32(kind + data), kind
        found.append((kind, data))
        at += 12 + length
    return found, png[at:]


def cards_of(png):
    """keyword -> the card in each text chunk that has one."""
    found = {}
    for kind, data in chunks_of(png)[0]:
        keyword, _, text = data.partition(b"\0")
        if kind == b"tEXt" and keyword.lower() in (b"chara", b"ccv3"):
            found[keyword.decode()] = json.loads(base64.b64decode(text))
    return found

"""maxConcurrency: no upstream has more in hand than it may, and as much as it may."""

import threading
import time
from collections import Counter

import pytest

import chat
import speech
from gateway import MOUNTS
from processes import wait_until
from scripts import answer, data, end, hang, head, pause
from speech import MP3, audio
from tree import Tree, hostile, model, speaker


def app(name, app_id=None, slots=None, *keys):
    """An upstream of speech with an app of its own."""
    members = {} if slots is None else {"maxConcurrency": slots}
    return hostile(name, *(keys or (f"k-{name}",)), **members)


SPOKEN = answer(200, audio(2000), MP3)


def test_smoke(start_gateway):
    gateway = start_gateway(
        Tree(
            model("m", hostile("a", "k1", maxConcurrency=1), hostile("b", "k2", maxConcurrency=2)),
            model("free", hostile("c", "k3")),
            speech=[speaker("say", "openai", hostile("d", "k4", maxConcurrency=1))],
        ),
        workers=8,
    )
    for name, key in (("m", "k1"), ("m", "k2"), ("say", "k4")):
        gateway.script(name, key, [head(), data(chat.HELLO), hang()])
    gateway.script("say", "k4", [head(200, MP3), data(audio(2000)), hang()])
    calls = [gateway.begin("m", stream=True) for _ in range(3)]
    for call in calls:
        call.read_until("Hello")
    print(gateway.chat("m"), gateway.chat("m").body)
    call = gateway.speak("say")
    call.read_until("ID3")
    for mount in MOUNTS:
        reply = gateway.say("say", mount=mount)
        print(reply.status, reply.headers, reply.body)
        print(gateway.event(reply))
    call.close()
    for call in calls:
        call.close()
        print(gateway.event(call)["attempts"][0]["upstream"], gateway.event(call)["admission"])
    gateway.script("say", "k4", SPOKEN)
    for i in range(5):
        reply = gateway.say("say")
        print(reply.status, gateway.event(reply)["admission"])
    print({k: v for k, v in gateway.metrics().items() if "pool" in k})
    assert False

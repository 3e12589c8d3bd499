"""A day in the life of a gateway, and then a look at every place where a secret could
have been left: provider keys, a caller's key, the master key, the administrator's token."""

import base64
import json
import os
import signal
from pathlib import Path

import pytest

import chat
import speech
import transcripts
from administrator import Admin, document, new_key
from cgi_program import CgiCall
from fastcgi import meta_variables
from processes import wait_until
from scripts import answer, close, data, hang, head, stream
from test_secrets import all_secrets, assert_clean
from tree import Tree, hostile, model, speaker

TREE = Tree(
    model("m", hostile("a", "k1"), hostile("b", "k2")),
    speech=[speaker("voice", "openai", hostile("a", "k1"), hostile("b", "k2"))],
    perAttemptTimeoutMs=1000,
)


@pytest.fixture
def admin(start_gateway):
    gateway = start_gateway(TREE, workers=2, flags=["--queue-timeout-ms", "100"])
    admin = Admin(gateway)
    admin.wait_for_socket()
    yield admin
    admin.process.stop()


def ask_in_every_way(gateway, mount):
    """Served, refused, fallen back, cut, departed. Returns the replies."""
    gateway.script("m", "k1", answer(401, json.dumps(chat.error("No.", "invalid_request_error", "invalid_api_key"))))
    gateway.script("m", "k2", stream(*chat.GOOD_STREAM))
    replies = [gateway.chat("m", stream=True, mount=mount)]
    gateway.script("m", "k2", [hang()])
    replies.append(gateway.chat("m", mount=mount))
    gateway.script("m", "k1", [head(), data(chat.HELLO), close()])
    replies.append(gateway.chat("m", stream=True, mount=mount))
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()])
    call = gateway.begin("m", stream=True, mount=mount)
    call.read_until("Hello")
    call.close()
    gateway.event(call)
    replies.append(gateway.chat("no-such-model", mount=mount))
    replies.append(gateway.get(f"{mount}/models"))
    replies.append(gateway.post(b"{", mount))
    return replies


def speak_in_every_way(gateway, mount):
    """Served from the second key, refused and cut, by an upstream that sends the key back wherever it can."""
    key = gateway.keys.plaintext("voice", "k1")
    words = json.dumps({"error": {"message": f"{key} is wrong", "code": key, "param": key}})
    echo = {"x-request-id": key, "content-type": f"application/json; {key}", "retry-after": key}
    gateway.script("voice", "k1", answer(401, words, echo, reason=key))
    gateway.script("voice", "k2", answer(200, speech.audio(1000), speech.MP3))
    replies = [gateway.say("voice", mount)]
    for stream_format in ("audio", "sse"):
        gateway.script("voice", "k1", answer(400, words, echo, reason=key))
        replies.append(gateway.say("voice", mount, stream_format=stream_format))
        gateway.script("voice", "k1", [head(200, speech.MP3 | {"x-request-id": key}), data(speech.audio(1000)), close()])
        replies.append(gateway.say("voice", mount, stream_format=stream_format))
    assert [reply.status for reply in replies] == [200, 400, 200, 400, 200]
    return replies


def hear_in_every_way(gateway, mount):
    """Served from the second key, cut, and refused by us, by an upstream that sends the key back."""
    key = gateway.keys.plaintext("m", "k1")
    words = json.dumps({"error": {"message": f"{key} is wrong", "code": key, "param": key}})
    gateway.script("m", "k1", answer(401, words, {"content-type": f"text/plain; {key}"}, reason=key))
    gateway.script("m", "k2", answer(200, transcripts.transcript()))
    replies = [gateway.hear("m", mount=mount), gateway.hear(None, mount=mount)]
    gateway.script("m", "k1", [head(), data(transcripts.delta("Hello")), data(f"data: {words}\n\n"), close()])
    replies.append(gateway.hear("m", stream="true", mount=mount))
    assert [reply.status for reply in replies] == [200, 400, 200]
    return replies


def kill_a_worker_and_be_shed(gateway):
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()])
    calls = [gateway.begin("m", stream=True) for _ in range(2)]
    for call in calls:
        call.read_until("Hello")
    shed = gateway.chat("m")
    assert shed.status == 503
    for pid in gateway.workers():
        os.kill(pid, signal.SIGKILL)
    for call in calls:
        assert gateway.event(call)["end"] == "worker_died"
    wait_until(lambda: len(gateway.workers()) == 2, "the workers are replaced")
    return [shed]


def ask_by_cgi(gateway):
    gateway.script("m", "k1", answer(500, "{}"))
    gateway.script("m", "k2", answer(200, chat.completion()))
    body = json.dumps(chat.request("m")).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {gateway.caller_key}"}
    params = meta_variables("POST", "/v1/chat/completions", headers, len(body))
    return [CgiCall(params, body, gateway.environment(), gateway.folder / "cgi.log").reply()]


def administer(admin):
    """A key is put in, badly and well. Returns the replies, and the key."""
    key = new_key()
    bad = document(admin, {"id": "k1", "key": key, "unknown": 1})
    good = document(admin, {"id": "k1", "key": key})
    replies = [admin.put(bad, "*"), admin.put(good, '"stale"'), admin.put(good, "*"), admin.get()]
    assert [reply.status for reply in replies] == [400, 409, 200, 200]
    return replies, key


def everything_on_disk(gateway, admin):
    """RUN_DIR, STATE_DIR and all logs; not the files that we gave the secrets in."""
    found = gateway.contents()
    del found[gateway.master_key_file.name], found[admin.token_file.name]
    assert {"run/llm-router.map", gateway.router.log.name, "cgi.log", "state/configkv/LLM_ROUTER_CONFIG.json"} <= set(found)
    return found


def everything_of_processes(*masters):
    shown = {}
    for master in masters:
        for pid in [master.pid, *master.children()]:
            for name in ("cmdline", "environ"):
                path = Path(f"/proc/{pid}/{name}")
                if os.access(path, os.R_OK):
                    shown[str(path)] = path.read_bytes()
    assert len(shown) > 8
    return shown


def test_after_all_of_it_no_place_holds_a_secret(admin):
    gateway = admin.gateway
    replies = ask_in_every_way(gateway, "/v1") + ask_in_every_way(gateway, "/api/v1/openai")
    replies += speak_in_every_way(gateway, "/v1") + speak_in_every_way(gateway, "/api/v1/openai")
    replies += hear_in_every_way(gateway, "/v1") + hear_in_every_way(gateway, "/api/v1/openai")
    replies += kill_a_worker_and_be_shed(gateway) + ask_by_cgi(gateway)
    more, key = administer(admin)
    shown = {f"a reply of {reply.status}": reply.body + str(reply.headers).encode() for reply in replies + more}
    shown |= everything_on_disk(gateway, admin)
    shown |= everything_of_processes(gateway.router, admin.process, gateway.web_server)
    master = base64.b64decode(gateway.master_key)
    assert_clean([*all_secrets(gateway), admin.token, key], shown)
    for place, text in shown.items():
        assert master[:12] not in text and master[-12:] not in text, f"the master key's bytes are in {place}"

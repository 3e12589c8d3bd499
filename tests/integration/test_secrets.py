"""Secrets: provider keys, the callers' keys and the master key appear nowhere but
where they belong. Every plaintext is a canary, looked for whole, in part and encoded."""

import base64
import contextlib
import json
import os
from pathlib import Path
from urllib.parse import quote

import pytest

import chat
from gateway import MOUNTS
from processes import contents_of
from scripts import answer, close, data, head, hang, stream
from tree import Tree, at, hostile, model

TREE = Tree(model("m", hostile("a", "k1"), hostile("b", "k2")))
MEMORY_TREE = Tree(
    model("m", hostile("a", "k1"), hostile("b", "k2")),
    model("tls", at("untrusted", "a", "k1"), at("tls", "b", "k2"), at("tls", "c", "k3")),
)


PART = 12  # so much of a secret, from either end, is a leak


def traces(secret):
    """What would show that the secret, or a good part of it, got out."""
    parts = {secret, secret[:PART], secret[-PART:]}
    forms = parts | {quote(secret, safe=""), secret.encode().hex()}
    for part in parts:
        for shift in range(3):  # base64 of the part at each alignment, without the edges
            forms.add(base64.b64encode(b"x" * shift + part.encode()).decode()[4:-4])
    return [form.encode() for form in forms]


def assert_clean(secrets, texts):
    for secret in secrets:
        for trace in traces(secret):
            for place, text in texts.items():
                assert trace not in text, f"a secret is in {place}: {text[max(0, text.find(trace) - 200) :][:400]!r}"


def all_secrets(gateway):
    return [*gateway.keys.canaries, gateway.caller_key, gateway.master_key]


def echo(gateway, key):
    """Upstreams that say the key back, in every place they have."""
    message = f"Incorrect API key provided: {key}. Authorization: Bearer {key} key={key}"
    error = chat.error(message, "invalid_request_error", "invalid_api_key")
    return {
        "a 401 with the key": answer(401, json.dumps(error)),
        "a 500 with the key": answer(500, f"<html>{message}</html>"),
        "headers with the key": answer(503, "{}", {"x-key": key, "retry-after": "3", "content-type": f"text/{key}"}),
        "an error event with the key": stream(chat.event(error)),
        "an error event after content": stream(chat.HELLO, chat.event(error)),
        "a code that is the key": answer(429, json.dumps(chat.error(message, key, key))),
        "garbage with the key": answer(200, message),
    }


class Growth:
    """What a test adds to the log and the spool."""

    def __init__(self, gateway):
        self.gateway = gateway
        self.before = self.read()

    def read(self):
        return {"the log": self.gateway.router.log.read_bytes(), "the spool": self.gateway.spool.read_bytes()}

    def added(self):
        return {place: text[len(self.before[place]) :] for place, text in self.read().items()}


@pytest.mark.parametrize("mount", MOUNTS)
@pytest.mark.parametrize("name", echo(None, ""))
def test_a_key_that_an_upstream_echoes_reaches_neither_caller_nor_log_nor_spool(gateway, mount, name):
    growth = Growth(gateway)
    for key_id in ("k1", "k2"):
        gateway.script("m", key_id, echo(gateway, gateway.keys.plaintext("m", key_id))[name])
    reply = gateway.chat("m", stream="event" in name, mount=mount)
    gateway.event(reply)
    assert_clean(all_secrets(gateway), growth.added() | {"the reply": reply.body + str(reply.headers).encode()})


def test_the_callers_own_key_is_not_echoed(gateway):
    growth = Growth(gateway)
    key = "lr-wrong-canary-0123456789abcdef"
    reply = gateway.post(chat.request("m"), key=key)
    gateway.event(reply)
    assert_clean([key], growth.added() | {"the reply": reply.body + str(reply.headers).encode()})


def processes(gateway):
    return [gateway.router.pid, *gateway.router.children()]


def read_process(pid, name):
    """A file of /proc/PID. Only root may read what could hold secrets, which then is proven."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except PermissionError:
        assert os.geteuid() != 0 and name != "cmdline"
        return b""


def test_processes_show_no_secret_in_arguments_or_environment(start_gateway):
    """Also not where the master key came by the environment: it is overwritten in place."""
    canary = base64.b64encode(os.urandom(32)).decode()
    by_environment = {"LLM_ROUTER_MASTER_KEY_FILE": None, "LLM_ROUTER_MASTER_KEY": canary}
    gateway = start_gateway(workers=2, router_environment=by_environment)
    for pid in processes(gateway):
        shown = {f"/proc/{pid}/{name}": read_process(pid, name) for name in ("cmdline", "environ")}
        assert_clean([canary, gateway.caller_key], shown)
        if os.geteuid() == 0:
            assert b"LLM_ROUTER_STATE_DIR=" in shown[f"/proc/{pid}/environ"], "there is an environment to look at"


def test_no_process_leaves_a_core_dump(gateway):
    for pid in processes(gateway):
        (limit,) = [line for line in read_process(pid, "limits").splitlines() if line.startswith(b"Max core file size")]
        assert limit.split()[4:6] == [b"0", b"0"], limit


def writable_memory(pid):
    """What a process has in memory that it can write to, region by region."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in maps:
            span, rights, *_ = line.split()
            start, end = (int(part, 16) for part in span.split("-"))
            if "w" not in rights or end - start > 1 << 30:  # above: AddressSanitizer's shadow
                continue
            try:
                memory.seek(start)
                yield memory.read(end - start)
            except OSError:
                continue


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may read the memory of llm-router")
def test_no_process_keeps_a_providers_key_in_its_memory(start_gateway, authority):
    """Workers decrypt one for each attempt, the keeper one after the other for their
    fingerprints. What an upstream says back is its reply, and stays while others do."""
    gateway = start_gateway(MEMORY_TREE, workers=2, flags=["--ca-file", str(authority.file)])
    cut = [head(), data(chat.HELLO), close()]
    for key_id, script in (("k1", answer(500, "{}")), ("k2", cut)):
        gateway.script("m", key_id, script)
    for key_id, script in (("k2", answer(401, "{}")), ("k3", stream(*chat.GOOD_STREAM))):
        gateway.script("tls", key_id, script)
    assert gateway.event(gateway.chat("m", stream=True))["end"] == "cut"
    assert gateway.event(gateway.chat("tls", stream=True))["end"] == "done"
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()])
    call = gateway.begin("m", stream=True)
    call.read_until("Hello")
    call.close()
    assert gateway.event(call)["end"] == "client_gone"
    canaries = [canary.encode() for canary in gateway.keys.canaries]
    assert len(canaries) >= 5
    for pid in processes(gateway):
        regions = list(writable_memory(pid))
        assert sum(map(len, regions)) > 100_000
        for region in regions:
            for canary in canaries:
                at_byte = region.find(canary[-16:])
                assert at_byte < 0, f"process {pid}: {region[max(0, at_byte - 64) : at_byte + 64]!r}"


def test_the_run_and_state_directories_hold_no_plaintext(gateway):
    gateway.script("m", "k1", answer(200, chat.completion()))
    assert gateway.chat("m").status == 200
    shown = contents_of(gateway.run_dir) | contents_of(gateway.state_dir)
    assert len(shown) > 3
    assert_clean(all_secrets(gateway), shown)


def test_files_of_the_store_are_not_readable_by_others(gateway):
    for folder in (gateway.run_dir, gateway.state_dir):
        for path in folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # a snapshot that another has replaced meanwhile
                if path.is_file() and path.suffix != ".pid":
                    assert path.stat().st_mode & 0o007 == 0, f"{path}: {path.stat().st_mode:o}"


def test_the_event_holds_no_prompt_and_no_answer(gateway):
    gateway.script("m", "k1", answer(200, chat.completion("the-answer-canary")))
    reply = gateway.post({"model": "m", "messages": [{"role": "user", "content": "the-prompt-canary"}]})
    event = json.dumps(gateway.event(reply))
    assert "canary" not in event
    assert "canary" not in gateway.router.log_text().replace("sk-canary", "")

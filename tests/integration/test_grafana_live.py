"""A real Prometheus looks at a real gateway under traffic, with windows that are shorter by
TIME_SCALE: which alerts fire when keys die, and that every panel shows something."""

import json
import math
import os
import signal
import subprocess
import threading
import time

import pytest

import chat
from metrics import Q, key_id
from processes import ROOT, wait_until
from prometheus import Prometheus
from promql import substituted
from scripts import answer, close, data, hang, head, pause, stream
from speech import MP3, audio
from tree import Tree, at, hostile, model, speaker

TIME_SCALE = 30  # a window of 5 minutes is one of 10 seconds
DASHBOARD = ROOT / "admin" / "grafana" / "dashboards" / "overview.json"
PATIENCE_S = 45

DEAD = answer(401, json.dumps(chat.error("Incorrect API key provided", "invalid_request_error", "invalid_api_key")))
ANSWER = answer(200, chat.completion())
PIECES = stream(chat.ROLE, chat.HELLO, chat.WORLD, chat.FINISH, chat.usage_event(), chat.DONE, delay=0.01)
CUT = [head(), data(chat.HELLO), pause(0.02), close()]

AZURE_VOICE, COSYVOICE = "zh-CN-XiaoxiaoNeural", "longanyang"

# What these show is above 0 after all that was provoked.
PROVOKED = {
    "Errors", "Fallback", "Exhausted", "Error ratio by model", "Interrupted streams", "Exhausted keys",
    "Fallback depth", "Upstream errors by status", "Fallback ratio", "Mean depth", "Fallbacks by first failure",
    "Errors by key", "Share of errors by key", "Errors in this range", "Refused and forged", "Turned away",
    "Deaths and lost wake-ups", "Found full", "Waiting for a slot",
}


def tree():
    return Tree(
        model("plain", hostile("a", "k1", "k2", provider="openrouter")),
        model("streamed", hostile("a", "k1", provider="openrouter")),
        model("cut", hostile("a", "k1", provider="openrouter")),
        model("slow", hostile("a", "k1", provider="slow.example")),
        speech=[
            speaker("scarce", "openai", hostile("a", "k1", maxConcurrency=1), poolWaitMs=5000),
            speaker("azure", "azure", at("like-azure", "a", "k1", "k2")),
            speaker("cosyvoice", "dashscope-cosyvoice",
                    at("like-dashscope-synthesizer", "a", "k1", adapterParams={"model": "cosyvoice-v3-flash"})),
        ],
    )


class Traffic:
    """Chat and speech, one request after the other; what each was answered."""

    def __init__(self, gateway):
        self._gateway = gateway
        self.statuses = {}  # model -> those of its requests, since the last look
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        gateway = self._gateway
        while not self._ends.is_set():
            asked = {
                "plain": [gateway.chat("plain")],
                "streamed": [gateway.chat("streamed", stream=True)],
                "azure": [gateway.say("azure", voice=AZURE_VOICE, response_format="pcm")],
                "cosyvoice": [gateway.say("cosyvoice", voice=COSYVOICE, response_format="pcm")],
            }
            for name, replies in asked.items():
                self.statuses.setdefault(name, []).extend(reply.status for reply in replies)
            self._ends.wait(0.05)

    def take_statuses(self):
        found, self.statuses = self.statuses, {}
        return {name: set(statuses) for name, statuses in found.items()}

    def stop(self):
        self._ends.set()
        self._thread.join()


@pytest.fixture
def gateway(start_gateway, providers):
    gateway = start_gateway(tree(), workers=4, flags=["--queue-timeout-ms", "200"])
    for key in ("k1", "k2"):
        gateway.script("plain", key, ANSWER)
    gateway.script("streamed", "k1", PIECES)
    gateway.script("cut", "k1", CUT)
    gateway.script("slow", "k1", [hang()])
    gateway.script("scarce", "k1", [pause(0.3), *answer(200, audio(2000), MP3)])
    return gateway


@pytest.fixture
def prometheus(gateway, tmp_path):
    rules = tmp_path / "grafana"
    build = ROOT / "admin" / "grafana" / "build"
    subprocess.run([build, "--output", rules, "--time-scale", str(TIME_SCALE)], check=True, timeout=60)
    prometheus = Prometheus(tmp_path, [f"127.0.0.1:{gateway.port}"], [rules / "alerts.rules.yml"])
    yield prometheus
    prometheus.stop()


@pytest.fixture
def traffic(gateway, prometheus):
    """Begins when Prometheus has seen how it was before."""
    wait_until(lambda: prometheus.query(f"{Q}requests_total"), "a first look", PATIENCE_S)
    traffic = Traffic(gateway)
    yield traffic
    traffic.stop()


def wait_for_alert(prometheus, name):
    return wait_until(lambda: prometheus.firing(name), f"{name} fires", PATIENCE_S)


def provoke(gateway):
    """What else can go wrong: a stream that is cut, a caller's mistake, a worker that dies, a
    configuration that is refused, a request that waits for a slot, more callers than workers."""
    for _ in range(3):
        gateway.chat("cut", stream=True)
        assert gateway.chat("no-such-model").status == 404
    os.kill(sorted(gateway.workers())[0], signal.SIGKILL)
    path = gateway.state_dir / "configkv" / "LLM_ROUTER_CONFIG.json"
    good = path.read_text()
    gateway.write_entry("LLM_ROUTER_CONFIG", "{}x")
    gateway.reload()
    wait_until(lambda: gateway.metric(f"{Q}config_refusals_total") > 0, "it is refused")
    gateway.write_entry("LLM_ROUTER_CONFIG", good)
    gateway.reload()
    one, other = gateway.speak("scarce"), gateway.speak("scarce")
    assert (one.reply().status, other.reply().status) == (200, 200)
    calls = [gateway.begin("slow") for _ in range(12)]
    wait_until(lambda: gateway.metric(f"{Q}overflow_count_total") > 0, "some are turned away")
    for call in calls:
        call.close()


def missing_data(prometheus, panel):
    """The queries of a panel that say nothing."""
    missing = []
    for target in panel["targets"]:
        expr = substituted(target["expr"], "20s", "1m")
        values = [value for value in prometheus.query(expr).values() if not math.isnan(value)]
        if not values or (panel["title"] in PROVOKED and target["refId"] == "A" and sum(values) <= 0):
            missing.append(f"{panel['title']} {target['refId']}: {expr}: {values}")
    return missing


def wait_until_shown(prometheus, panels):
    ends = time.monotonic() + PATIENCE_S
    while missing := [line for panel in panels for line in missing_data(prometheus, panel)]:
        assert time.monotonic() < ends, "\n".join(missing)
        time.sleep(0.5)


def test_ae6_one_dead_key_is_a_p2_all_dead_keys_are_a_p0_and_every_panel_shows_it(
        gateway, providers, prometheus, traffic):
    # One key of Azure's is revoked; callers do not notice.
    providers.troubles[gateway.keys.plaintext("azure", "k1")] = "dead"
    [alert] = wait_for_alert(prometheus, "LlmRouterSingleKey")
    assert (gateway.get("/livez", key=None).status, gateway.get("/readyz", key=None).status) == (200, 200)
    assert all(statuses == {200} for statuses in traffic.take_statuses().values())
    revoked = key_id(gateway, "azure", "k1")
    assert (alert["labels"]["key_id"], alert["labels"]["priority"]) == (revoked, "P2")
    assert revoked in alert["annotations"]["summary"] and "%" in alert["annotations"]["summary"]
    assert not prometheus.has_fired("LlmRouterKeysExhausted")
    assert not prometheus.firing("LlmRouterNoInstance")

    # All keys of a model are revoked.
    for key in ("k1", "k2"):
        gateway.script("plain", key, DEAD)
    [alert] = wait_for_alert(prometheus, "LlmRouterKeysExhausted")
    assert {name: alert["labels"][name] for name in ("provider", "status_code", "surface", "priority")} == {
        "provider": "openrouter", "status_code": "401", "surface": "chat", "priority": "P0"}
    wait_for_alert(prometheus, "LlmRouterFallbackRatio")
    assert (gateway.get("/livez", key=None).status, gateway.get("/readyz", key=None).status) == (200, 200)

    # What has happened is seen.
    provoke(gateway)
    panels = [panel for panel in json.loads(DASHBOARD.read_text())["panels"] if panel["type"] != "row"]
    wait_until_shown(prometheus, panels)

"""What goes on when its master does not: workers of a program before an upgrade to another layout of what
processes share, and workers of a master that was killed."""

import secrets
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

import chat
from administrator import Admin, ask_directly
from load import Ask, Front, open_loop
from processes import BUILD, ROOT, program, wait_until
from scripts import answer, data, end, head, until
from tree import Tree, hostile, model
from upgradable import OTHER_LAYOUT, UpgradableGateway, begin_streams, build, expect_whole

STREAMS = 20
SPOOL_BYTES = 512 * 1024  # eight segments of 64 KiB


def tree():
    return Tree(model("m", hostile("a", "k1")), model("slow", hostile("b", "k2")))


@pytest.fixture(scope="module")
def other_layout():
    """Where nobody has said make, as make integration does: it is made here."""
    folder = BUILD.relative_to(ROOT) if BUILD.is_relative_to(ROOT) else BUILD
    done = subprocess.run(["make", "other-layout", f"BUILD={folder}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return OTHER_LAYOUT


@pytest.fixture
def start(start_gateway, receiver, is_over):
    def start(workers):
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        flags = ["--spool-max-bytes", str(SPOOL_BYTES)]
        gateway = start_gateway(tree(), UpgradableGateway, workers=workers, flags=flags, router_environment=environment)
        gateway.script("m", "k1", answer(200, chat.completion()))
        words = [data(chat.chunk({"content": f"w{n} "})) for n in range(3)]
        gateway.script("slow", "k2", [head(), *words, until(is_over), data(chat.FINISH), data(chat.DONE), end()])
        return gateway

    return start


def fill_until_passed(gateway):
    """Requests with large events, until what was written so far is delivered and removed."""
    before = gateway.spool.segments()[-1]

    def ask(_):
        reply = gateway.chat("no-such-model-" + "x" * 240, headers={"x-request-id": secrets.token_hex(64)})
        assert reply.status == 404

    def is_passed():
        ask(None)
        return not before.exists()

    with ThreadPoolExecutor(8) as pool:
        while gateway.spool.segments()[-1] == before:  # no more than that: a full spool takes no events
            list(pool.map(ask, range(40)))
    wait_until(is_passed, f"{before.name} is removed", 60)


def is_ready_as_another(gateway, instance):
    """The old one's health socket may answer once more."""
    return gateway.get("/readyz", key=None).status == 200 and gateway.status()["instance"] != instance


def metric(gateway):
    return gateway.metric("airi_gen_ai_gateway_connections_accepted_total")


def top(gateway, of):
    command = [program(of.replace("llm-router", "llm-routerctl")), "top", "--once", "--run-dir", str(gateway.run_dir)]
    command += ["--state-dir", str(gateway.state_dir)]
    return subprocess.run(command, env=gateway.environment(), capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("of", ["llm-router", OTHER_LAYOUT])
def test_events_of_workers_that_outlive_a_killed_master_reach_the_receiver(start, receiver, is_over, other_layout, of):
    gateway = start(workers=4)
    calls = begin_streams(gateway, 2)
    before, instance = gateway.router, gateway.status()["instance"]
    before.signal(signal.SIGKILL)
    before.wait()
    build(gateway.program, "0.1.1", of)
    gateway.start_router()
    wait_until(lambda: is_ready_as_another(gateway, instance), "the next instance serves", 60)
    assert not before.group_is_empty(), "the old workers have their requests in hand"
    fill_until_passed(gateway)
    is_over.set()
    expect_whole(calls)
    for call in calls:
        receiver.wait_spans_of(call.request_id)
    wait_until(before.group_is_empty, "the old workers have ended", 30)


def test_streams_and_events_go_whole_through_an_upgrade_to_another_layout_and_back(start, receiver, is_over, other_layout):
    gateway = start(workers=STREAMS + 20)
    pid = gateway.router.pid
    calls = begin_streams(gateway, STREAMS)
    short = open_loop(Front(gateway.caller_key, port=gateway.port), [Ask("plain", "m")], 10)
    seen = [(gateway.status(), metric(gateway))]
    for version, of in (("0.1.1", other_layout), ("0.1.0", "llm-router")):
        gateway.upgrade(version, of=of)
        seen.append((gateway.status(), metric(gateway)))
        calls += begin_streams(gateway, 2)
    outcomes, _ = short.stop()
    fill_until_passed(gateway)
    is_over.set()
    expect_whole(calls)
    assert len(outcomes) > 0 and [outcome for outcome in outcomes if not outcome.is_served] == []
    for one in [*calls, *outcomes]:
        receiver.wait_spans_of(one.request_id)
    assert gateway.router.pid == pid == gateway.holder_of_lock()
    assert len(gateway.log_lines("mapping_replaced")) == 2
    assert len({status["instance"] for status, _ in seen}) == 3
    assert seen[0][1] >= STREAMS > seen[1][1], "counts began anew"
    wait_until(lambda: len(gateway.workers()) == STREAMS + 20, "the old workers have ended", 60)
    gateway.expect_collected()


def test_who_looks_understands_its_own_layout_and_says_so_of_another(start, other_layout):
    gateway = start(workers=2)
    admin = Admin(gateway)
    admin.wait_for_socket()
    try:
        for version, of in (("0.1.1", other_layout), ("0.1.0", "llm-router")):
            gateway.upgrade(version, of=of)
            foreign = ({"llm-router", other_layout} - {of}).pop()
            done = top(gateway, of)
            assert (done.returncode, done.stderr) == (0, "") and gateway.status()["instance"] in done.stdout
            done = top(gateway, foreign)
            assert done.returncode == 1 and "llm-router.map is of another version of llm-router" in done.stderr
            page = gateway.get("/status", key=None, headers={"accept": "text/html"})
            assert page.status == 200 and gateway.status()["instance"].encode() in page.body
            assert gateway.status()["programVersion"] == version
            assert ask_directly(admin, path="/api/admin/status")[0] == 200
    finally:
        admin.process.stop()

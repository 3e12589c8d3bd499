"""The program is replaced while it runs: SIGUSR2."""

import os
import signal
import struct
import threading
import time
from pathlib import Path

import pytest

import chat
from administrator import Admin, ask_directly
from front_ends import OPENED_BY_ANOTHER
from load import Ask, Front, open_loop
from preloaded import preload
from processes import CAN_LOOK_INSIDE, wait_until
from scripts import answer, data, data_until, end, hang, head, pause
from tree import Tree, hostile, model
from upgradable import UpgradableGateway, begin_streams, build, expect_whole, put
from upstream import SilentPort

STREAMS = int(os.environ.get("UPGRADE_STREAMS", "50"))


def paced(words, seconds):
    steps = [(data(chat.chunk({"content": f"w{n} "})), pause(seconds / words)) for n in range(words)]
    return [head(), *(step for pair in steps for step in pair), data(chat.FINISH), data(chat.DONE), end()]


SLOW_STREAM = paced(20, 4)


def tree():
    return Tree(model("m", hostile("a", "k1")), model("slow", hostile("b", "k2")))


@pytest.fixture
def start(start_gateway):
    def start(workers=2, **options):
        gateway = start_gateway(tree(), kind=UpgradableGateway, workers=workers, **options)
        gateway.script("m", "k1", answer(200, chat.completion()))
        return gateway

    return start


def deaths(gateway):
    return gateway.log_lines("child_died")


def streaming(gateway):
    return {worker["pid"] for worker in gateway.status()["workers"] if worker["stage"] == "streaming"}


def test_streams_go_on_through_reload_upgrade_and_downgrade_and_nobody_is_refused(start, is_over, record_property):
    gateway = start(workers=STREAMS + 10, flags=["--queue-timeout-ms", "20000"])
    words = data_until(is_over, chat.chunk({"content": "word "}))
    gateway.script("slow", "k2", [head(), words, data(chat.FINISH), data(chat.DONE), end()])
    pid, started = gateway.router.pid, gateway.status()["generation"]
    calls = begin_streams(gateway, STREAMS)
    holders = streaming(gateway)
    assert len(holders) == STREAMS

    def assert_all_are_live(step):
        at_upstream = [one for one in gateway.upstream.records if one.key == key and one.answered is None and one.closed is None]
        counts = (len(holders & streaming(gateway)), len(at_upstream))
        record_property(f"streams that are live after {step}, of {STREAMS}", counts[0])
        assert counts == (STREAMS, STREAMS), f"of workers and at the upstream, after {step}"

    key = gateway.keys.plaintext("slow", "k2")
    short = open_loop(Front(gateway.caller_key, port=gateway.port), [Ask("plain", "m")], 20)
    short.wait_begun()
    gateway.reload()
    wait_until(lambda: gateway.status()["generation"] > started, "it has reloaded", 30)
    assert_all_are_live("the reload")
    old = gateway.upgrade("0.1.1", timeout=120)
    assert_all_are_live("the upgrade")
    old |= gateway.upgrade("0.1.0", timeout=120)
    assert_all_are_live("the downgrade")
    others, _ = short.stop()
    is_over.set()
    expect_whole(calls)
    assert len(others) > 0 and [outcome for outcome in others if not outcome.is_served] == []
    record_property("short requests meanwhile, all served", len(others))
    assert gateway.router.pid == pid and gateway.holder_of_lock() == pid
    wait_until(lambda: not gateway.workers() & old, "the old workers have ended", 60)
    gateway.expect_collected()


def test_counters_and_their_beginning_survive(start):
    gateway = start()
    for _ in range(5):
        assert gateway.chat("m").status == 200
    before, status = gateway.metrics(), gateway.status()
    gateway.upgrade("0.1.1")
    assert gateway.chat("m").status == 200
    after = gateway.metrics()
    lost = [name for name, value in before.items() if name.endswith(("_total", "_count")) and after[name] < value]
    assert lost == []
    name = "airi_gen_ai_gateway_connections_accepted_total"
    assert after[name] > before[name] >= 5
    now = gateway.status()
    assert (now["instance"], now["startedAt"]) == (status["instance"], status["startedAt"])
    assert now["programVersion"] == "0.1.1"


def test_what_a_limited_caller_has_in_hand_and_has_used_is_counted_on(start):
    gateway = start()
    gateway.script("slow", "k2", [head(), data(chat.HELLO), hang()])
    limits = ["--concurrency", "1", "--requests-per-minute", "2"]
    key = gateway.ctl("caller-key", "add", "--id", "limited", *limits).strip()
    gateway.reload()

    def left():
        return gateway.get("/v1/models", key=key).headers.get("ratelimit", "").partition(";t=")[0]

    wait_until(lambda: left() == '"concurrency";r=1, "requests";r=2', "the key is known", 15)
    call = gateway.call("POST", "/v1/chat/completions", chat.request("slow", True), key=key)
    call.read_until("Hello")
    gateway.upgrade("0.1.1")
    assert left() == '"concurrency";r=0, "requests";r=1'
    assert gateway.chat("m", key=key).status == 429
    call.close()
    wait_until(lambda: left() == '"concurrency";r=1, "requests";r=1', "its place is free", 15)
    assert [gateway.chat("m", key=key).status for _ in range(2)] == [200, 429]


def test_twenty_upgrades_leave_nothing_behind(start):
    gateway = start(workers=1)
    gateway.upgrade("0.1.1")
    wait_until(lambda: len(gateway.workers()) == 1, "the old worker has ended")
    descriptors = gateway.descriptors() if CAN_LOOK_INSIDE else None
    for n in range(20):
        gateway.upgrade(f"0.1.{n % 2}")
        assert gateway.chat("m").status == 200
    wait_until(lambda: sorted(gateway.router.roles().values()) == ["keeper", "overflow", "shipper", "worker"], "one of each")
    gateway.expect_collected()
    if CAN_LOOK_INSIDE:
        assert gateway.descriptors() == descriptors
    assert gateway.holder_of_lock() == gateway.router.pid


def test_keys_that_came_by_the_environment_are_handed_on_and_shown_to_nobody(start):
    gateway = start(router_environment={"LLM_ROUTER_MASTER_KEY_FILE": None})
    # The key itself, once the folder has one.
    gateway.router.stop()
    gateway._router_environment["LLM_ROUTER_MASTER_KEY"] = gateway.master_key
    gateway.start_router()
    wait_until(lambda: gateway.get("/readyz", key=None).status == 200, "it is ready")
    for version in ("0.1.1", "0.1.0"):
        gateway.upgrade(version)
        assert gateway.chat("m").status == 200, "the provider's key is decrypted"
    if CAN_LOOK_INSIDE:
        for pid in [gateway.router.pid, *gateway.router.children()]:
            for name in ("environ", "cmdline"):
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    assert gateway.master_key.encode() not in file.read()


def test_what_opens_a_receivers_door_is_handed_on(start, receiver):
    address = receiver.url.replace("//", "//user:canary-password@")
    gateway = start(router_environment={"OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_BSP_SCHEDULE_DELAY": "100",
                                        "OTEL_EXPORTER_OTLP_HEADERS": "x-key=canary-header"})
    for version in (None, "0.1.1", "0.1.0"):
        if version is not None:
            gateway.upgrade(version)
        receiver.wait_spans_of(gateway.chat("m").request_id)
        last = [one for one in receiver.exports if one.path == "/v1/traces"][-1]
        assert last.headers["x-key"] == "canary-header" and last.headers["authorization"].startswith("Basic ")
    assert "canary" not in gateway.router.log_text()
    if CAN_LOOK_INSIDE:
        pids = [gateway.router.pid, *gateway.router.children()]
        assert not [pid for pid in pids if b"canary" in Path(f"/proc/{pid}/environ").read_bytes()]


def test_a_key_file_that_is_gone_is_not_missed(start):
    gateway = start()
    gateway.master_key_file.unlink()
    gateway.upgrade("0.1.1")
    assert gateway.chat("m").status == 200


BAD_PROGRAMS = {
    "missing": (None, "exit status 127"),
    "no_program": (b"not a program\n", "exit status 127"),
    "older": (b"#!/bin/sh\necho 'llm-router: --check is unknown' >&2\nexit 2\n", "exit status 2"),
    "crashing": (b"#!/bin/sh\nkill -SEGV $$\n", "signal 11"),
}


@pytest.mark.parametrize("kind", BAD_PROGRAMS)
def test_a_program_that_cannot_take_over_changes_nothing(start, kind):
    text, why = BAD_PROGRAMS[kind]
    gateway = start()
    gateway.script("slow", "k2", [head(), data(chat.HELLO), hang()])
    call = gateway.begin("slow", stream=True)
    call.read_until("Hello")
    before = gateway.router.roles()
    if text is None:
        gateway.program.unlink()
    else:
        put(gateway.program, text)
    gateway.signal_upgrade()
    assert why in gateway.wait_refused()
    assert gateway.router.roles() == before, "nobody was told to end"
    assert gateway.chat("m").status == 200
    if kind == "older":
        assert any("--check is unknown" in line["text"] for line in gateway.log_lines("child_stderr"))
    gateway.upgrade("0.1.1")
    call.close()


def test_a_check_that_is_killed_or_hangs_is_a_refusal(start):
    gateway = start()
    put(gateway.program, b"#!/bin/sh\nexec sleep 1000\n")
    gateway.signal_upgrade()
    checked = wait_until(lambda: gateway.log_lines("upgrade_checked"), "the check has begun")
    gateway.signal_upgrade()
    assert "under way" in gateway.wait_refused()
    os.kill(int(checked[0]["message"].split()[1]), signal.SIGKILL)
    assert "signal 9" in gateway.wait_refused(2)
    gateway.signal_upgrade()
    begun = time.monotonic()
    gateway.wait_refused(3)
    assert time.monotonic() - begun > 9
    gateway.upgrade("0.1.1")


def test_a_program_that_is_gone_after_its_check_leaves_the_old_one_in_charge(start):
    gateway = start()
    put(gateway.program, b'#!/bin/sh\nrm "$0"\nexit 0\n')
    gateway.signal_upgrade()
    assert "cannot be run" in gateway.wait_refused()
    wait_until(lambda: sorted(gateway.router.roles().values()) == ["keeper", "overflow", "shipper", "worker", "worker"],
               "all roles are back")  # fmt: skip
    assert gateway.chat("m").status == 200
    assert gateway.holder_of_lock() == gateway.router.pid
    gateway.upgrade("0.1.1")


def test_a_program_of_another_layout_serves_beside_the_old_workers(start):
    gateway = start()
    gateway.script("slow", "k2", SLOW_STREAM)
    call = gateway.begin("slow", stream=True)
    call.read_until("w1")
    with open(gateway.run_dir / "llm-router.map", "rb+") as file:
        file.seek(8)
        file.write(struct.pack("I", 1))
    old = gateway.upgrade("0.1.1")
    assert gateway.log_lines("mapping_replaced")
    assert gateway.chat("m").status == 200
    reply = call.reply()
    assert reply.is_whole and reply.body.endswith(chat.DONE.encode())
    wait_until(lambda: not gateway.workers() & old, "the old workers have ended", 30)
    gateway.expect_collected()


def test_a_configuration_of_another_layout_is_compiled_anew_before_anybody_is_served(start):
    gateway = start()
    gateway.settle()
    before = gateway.status()["generation"]
    with open(gateway.run_dir / f"snapshot.{before}", "rb+") as file:
        file.seek(8)
        file.write(struct.pack("I", 1))
    statuses, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            statuses.append(gateway.chat("m").status)

    caller = threading.Thread(target=ask)
    caller.start()
    gateway.upgrade("0.1.1")
    statuses.append(gateway.chat("m").status)
    stop.set()
    caller.join(60)
    assert set(statuses) == {200}
    assert gateway.status()["generation"] > before
    assert gateway.log_lines("mapping_replaced") == []


def test_what_outlasts_the_drain_timeout_is_ended_and_told_of(start):
    gateway = start(flags=["--drain-timeout-ms", "1000"])
    gateway.script("slow", "k2", [head(), data(chat.HELLO), hang()])
    call = gateway.begin("slow", stream=True)
    call.read_until("Hello")
    gateway.upgrade("0.1.1")
    assert b"[DONE]" not in call.reply().body
    assert gateway.event(call)["end"] == "worker_died"
    assert len(gateway.log_lines("drain_timeout")) == 1 and deaths(gateway) == []


POOLS = {
    "static": [],
    "dynamic": ["--pm", "dynamic", "--min-spare-workers", "1", "--max-spare-workers", "6"],
    "ondemand": ["--pm", "ondemand", "--idle-timeout-ms", "600000"],
}


def fill(gateway, n):
    """So many idle workers, whatever the kind of pool."""
    gateway.script("slow", "k2", [head(), data(chat.HELLO), hang()])
    calls = begin_streams(gateway, n)
    for call in calls:
        call.close()
    wait_until(lambda: [worker["stage"] for worker in gateway.status()["workers"]] == n * ["idle"], "all are idle", 30)
    return gateway.workers()


@pytest.mark.parametrize("pm", POOLS)
def test_as_many_workers_serve_after_an_upgrade_as_before(start, pm):
    gateway = start(workers=6, flags=["--queue-timeout-ms", "20000", *POOLS[pm]])
    before = fill(gateway, 6)
    fewest, stop = [6], threading.Event()

    def count():
        while not stop.is_set():
            before = gateway.router.children()
            n = len([name for name in gateway.router.roles().values() if name not in ("keeper", "overflow", "shipper")])
            if gateway.router.children() == before:  # else one may have ended for another that was not looked at
                fewest[0] = min(fewest[0], n)

    counter = threading.Thread(target=count)
    counter.start()
    gateway.upgrade("0.1.1")
    stop.set()
    counter.join(60)
    assert fewest[0] == 6, "those that leave are replaced before"
    wait_until(lambda: len(gateway.workers()) == 6 and not gateway.workers() & before, "the old ones have ended", 30)
    gateway.expect_collected()


@pytest.mark.parametrize("pm, is_way_back", [("static", True), ("dynamic", True), ("ondemand", False)])
def test_workers_that_cannot_begin_relieve_nobody(start, tmp_path, pm, is_way_back):
    sign = tmp_path / "no-workers"
    environment = preload("failing_worker", tmp_path) | {"NO_WORKERS": str(sign)}
    gateway = start(workers=6, flags=POOLS[pm], router_environment=environment)
    before = fill(gateway, 6)
    sign.touch()
    build(gateway.program, "0.1.1")
    gateway.signal_upgrade()
    wait_until(lambda: len(gateway.log_lines("worker_failed")) >= 12, "the new ones have tried, and again", 60)
    assert before <= gateway.workers()
    assert gateway.chat("m").status == 200
    sign.unlink()
    if is_way_back:
        gateway.upgrade("0.1.0")
    wait_until(lambda: len(gateway.workers()) == 6 and not gateway.workers() & before, "they relieve the old ones", 60)
    assert gateway.chat("m").status == 200


def test_a_worker_that_retires_while_the_roles_end_is_replaced(start):
    gateway = start(workers=1, flags=["--max-requests", "1"])
    shipper = gateway.process_of("shipper")
    os.kill(shipper, signal.SIGSTOP)
    build(gateway.program, "0.1.1")
    gateway.signal_upgrade()
    wait_until(lambda: "keeper" not in gateway.router.roles().values(), "the roles end")
    before = gateway.workers()
    assert gateway.chat("m").status == 200
    wait_until(lambda: gateway.workers() - before or gateway.log_lines("upgraded"), "there is a worker again", 60)
    assert gateway.log_lines("upgraded") == [], "the shipper holds it up"
    os.kill(shipper, signal.SIGCONT)
    wait_until(lambda: gateway.log_lines("upgraded"), "the program is replaced", 30)


def test_sigterm_during_an_upgrade_drains(start):
    gateway = start()
    gateway.script("slow", "k2", SLOW_STREAM)
    call = gateway.begin("slow", stream=True)
    call.read_until("w1")
    build(gateway.program, "0.1.1")
    gateway.signal_upgrade()
    wait_until(lambda: gateway.log_lines("upgrade_checked"), "the check has begun")
    gateway.router.signal(signal.SIGTERM)
    reply = call.reply()
    assert reply.is_whole and reply.body.endswith(chat.DONE.encode())
    assert gateway.router.wait(20) == 0


def test_after_an_upgrade_a_killed_master_leaves_requests_to_their_workers(start):
    gateway = start()
    gateway.script("slow", "k2", SLOW_STREAM)
    calls = [gateway.begin("slow", stream=True)]
    calls[0].read_until("w1")
    gateway.upgrade("0.1.1")
    calls.append(gateway.begin("slow", stream=True))
    calls[1].read_until("w1")
    gateway.router.signal(signal.SIGKILL)
    for call in calls:
        reply = call.reply()
        assert reply.is_whole and reply.body.endswith(chat.DONE.encode())
    wait_until(gateway.router.group_is_empty, "all have ended")
    gateway.start_router()
    wait_until(lambda: gateway.chat("m").status == 200, "it serves again")


def test_workers_of_both_programs_may_be_killed_meanwhile(start):
    gateway = start(workers=4)
    gateway.script("slow", "k2", [head(), data(chat.HELLO), hang()])
    call = gateway.begin("slow", stream=True)
    call.read_until("Hello")
    old = gateway.upgrade("0.1.1")
    wait_until(lambda: len(gateway.workers() & old) == 1, "the busy one is left")
    for pid in gateway.workers():
        os.kill(pid, signal.SIGKILL)
    assert b"[DONE]" not in call.reply().body
    assert gateway.event(call)["end"] == "worker_died"
    wait_until(lambda: len(gateway.workers()) == 4 and not gateway.workers() & old, "new ones are there", 20)
    assert gateway.chat("m").status == 200


@pytest.mark.parametrize("front_end", OPENED_BY_ANOTHER)
def test_a_socket_that_another_program_owns_is_kept(start_gateway, front_end):
    gateway = start_gateway(tree(), front_end=front_end, workers=2)
    gateway.script("m", "k1", answer(200, chat.completion()))
    gateway.script("slow", "k2", SLOW_STREAM)
    call = gateway.begin("slow", stream=True)
    call.read_until("w1")
    for n in range(1, 4):
        gateway.router.signal(signal.SIGUSR2)
        wait_until(lambda n=n: len(gateway.log_lines("upgraded")) == n, "it is replaced")
        assert gateway.chat("m").status == 200
    reply = call.reply()
    assert reply.is_whole and reply.body.endswith(chat.DONE.encode())
    wait_until(lambda: len(gateway.workers()) == 2, "the old ones have left")
    assert deaths(gateway) == []


def test_the_administrators_program_is_replaced_in_the_same_way(start):
    gateway = start()
    admin = Admin(gateway)
    admin.wait_for_socket()
    try:
        pid = admin.process.pid
        for n in range(1, 3):
            admin.process.signal(signal.SIGUSR2)
            wait_until(lambda n=n: admin.process.log_text().count('"upgraded"') == n, "it is replaced")
            assert ask_directly(admin, path="/api/admin/status")[0] == 200
        assert admin.process.pid == pid and admin.process.is_running()
        wait_until(lambda: list(admin.process.roles().values()).count("worker") == 2, "the old ones have left")
    finally:
        admin.process.stop()


def test_probes_are_answered_while_the_shipper_takes_its_time(start):
    """A receiver that never answers holds what is to be brought away before the shipper ends."""
    receiver = SilentPort()
    gateway = start(router_environment={"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{receiver.port}"})
    assert gateway.chat("m").status == 200
    time.sleep(1.5)  # the shipper has begun with it
    slowest, stop = [0.0], threading.Event()

    def probe():
        while not stop.is_set():
            begun = time.monotonic()
            gateway.status()
            slowest[0] = max(slowest[0], time.monotonic() - begun)
            time.sleep(0.05)

    prober = threading.Thread(target=probe)
    prober.start()
    gateway.upgrade("0.1.1")
    stop.set()
    prober.join(20)
    receiver.stop()
    assert slowest[0] < 2.5, f"a probe has waited for {slowest[0]:.3f} s"
    assert gateway.chat("m").status == 200

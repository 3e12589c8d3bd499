"""A resolver that stalls holds up nobody: no clock, no worker, no departure."""

import time
from pathlib import Path

import pytest

import chat
from preloaded import preload
from processes import wait_until
from scripts import answer
from test_deadlines import Timed, reasons
from tree import Tree, elsewhere, hostile, model

CONNECT_MS = 300
STALL_S = 4  # of stalling_resolver.c
LOOKUPS_MAX = 4  # of a worker
REST_S = 1  # from a question that Redis did not answer to the next


def stalled(n, **members):
    return elsewhere(f"http://host-{n}.stall/v1", f"stalled-{n}", f"s{n}", connectTimeoutMs=CONNECT_MS, **members)


TREE = Tree(
    *[model(f"stalled-{n}", stalled(n), hostile("b", "k")) for n in range(LOOKUPS_MAX + 1)],
    model("patient", elsewhere("http://patient.stall/v1", "patient", "p", connectTimeoutMs=10_000)),
    model("plain", hostile("b", "k")),
    perAttemptTimeoutMs=10_000,
    fullChainTimeoutMs=20_000,
)


@pytest.fixture(scope="session")
def resolver(tmp_path_factory):
    """The environment in which the router has it."""
    return preload("stalling_resolver", tmp_path_factory.mktemp("resolver"))


@pytest.fixture
def gateway(start_gateway, resolver):
    """One worker, so that what holds it up holds everybody up."""
    gateway = start_gateway(TREE, workers=1, router_environment=resolver)
    for name, _, _ in TREE.models:
        gateway.script(name, "k", answer(200, chat.completion()))
    return gateway


def threads(gateway):
    """Of the process that has most: the worker."""
    counts = []
    for pid in gateway.router.children():
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        counts.append(int(status.partition("\nThreads:")[2].split()[0]))
    return max(counts)


def test_the_connect_deadline_comes_on_time_and_the_next_upstream_answers(gateway):
    with Timed() as timed:
        reply = gateway.chat("stalled-0")
    assert reply.status == 200, reply
    timed.assert_about(CONNECT_MS)
    assert reasons(gateway.event(reply))[0] == ("timeout", "timeout_connect")


def test_the_worker_is_free_while_its_lookup_is_still_stuck(gateway):
    assert gateway.chat("stalled-0").status == 200
    assert threads(gateway) == 2
    with Timed() as timed:
        assert gateway.chat("plain").status == 200
    assert timed.took < 1.0
    assert threads(gateway) == 2


def test_a_caller_that_leaves_during_a_lookup_is_noticed(gateway):
    call = gateway.begin("patient")
    time.sleep(0.3)
    assert threads(gateway) == 2
    left = call.close()
    event = gateway.event(call)
    assert time.monotonic() - left < 1.0
    assert event["end"] == "client_gone"
    with Timed() as timed:
        assert gateway.chat("plain").status == 200
    assert timed.took < 1.0


def test_stuck_lookups_are_bounded_and_what_is_beyond_fails_at_once(gateway):
    for n in range(LOOKUPS_MAX):
        reply = gateway.chat(f"stalled-{n}")
        assert reasons(gateway.event(reply))[0] == ("timeout", "timeout_connect")
    with Timed() as timed:
        reply = gateway.chat(f"stalled-{LOOKUPS_MAX}")
    assert reply.status == 200, reply
    assert timed.took < CONNECT_MS / 1000, "it did not wait"
    assert reasons(gateway.event(reply))[0] == ("connect", "unresolved")
    assert threads(gateway) <= 1 + LOOKUPS_MAX
    wait_until(lambda: threads(gateway) == 1, "the stuck lookups end", STALL_S + 3)
    reply = gateway.chat(f"stalled-{LOOKUPS_MAX}")
    assert reasons(gateway.event(reply))[0] == ("timeout", "timeout_connect")


def lookups_of_the_store(pid):
    """Threads that look up where Redis is."""
    return sum(1 for name in Path(f"/proc/{pid}/task").glob("*/comm") if name.read_text(encoding="ascii") == "lookup\n")


def test_a_redis_whose_name_is_stuck_takes_no_lookup_from_upstreams(start_gateway, resolver, postgres, upstream, tmp_path):
    """A worker asks Redis once a second, in vain: for longer than it takes to use up the bound."""
    servers = {"DATABASE_URL": postgres.address(postgres.new_database()), "REDIS_URL": "unix:/nonexistent/redis.sock"}
    stuck = {"REDIS_URL": "redis://redis.stall:6379", "LLM_ROUTER_READY": "serving"}
    gateway = start_gateway(workers=1, servers=servers, router_environment=resolver | stuck)
    names = [f"up-{n}" for n in range(LOOKUPS_MAX + 3)]
    tree = Tree(
        *[
            model(name, elsewhere(upstream.base_url("a").replace("127.0.0.1", f"{name}.here"), "a", "k", maxConcurrency=5))
            for name in names
        ],
    )
    document, marker = gateway.render(tree)
    (tmp_path / "tree.json").write_text(document, encoding="utf-8")
    gateway.ctl("config", "put", "--force", str(tmp_path / "tree.json"))
    wait_until(lambda: marker in gateway.model_names(), "the tree is in force", 20)
    worker = gateway.process_of("worker")
    for name in names:
        gateway.script(name, "k", answer(200, chat.completion()))
        reply = gateway.chat(name)
        assert reply.status == 200, (reply, gateway.event(reply)["attempts"])
        assert lookups_of_the_store(worker) <= 1
        time.sleep(REST_S + 0.1)
    assert any("not found in time" in line["message"] for line in gateway.log_lines("pools_alone"))


def test_a_stuck_lookup_does_not_hold_up_the_end_of_the_program(gateway):
    assert gateway.chat("stalled-0").status == 200
    with Timed() as timed:
        gateway.router.stop()
    assert timed.took < 2.0
    gateway.web_server.stop()

"""hedgeAfterMs where slots and workers are counted: an attempt beside another has a slot of its own, or is not made."""

import os
import signal
import threading

import pytest

import chat
from gateway import Gateway
from pools import fresh, pool_of, slots
from processes import wait_until
from scripts import answer, data, hang, head, until
from tree import Tree, hostile, model

HEDGE_MS = 100
ASKED_BY_S = 1  # its time has come, on a busy machine too
GOOD = answer(200, chat.completion())
ENDLESS = [head(), data(chat.HELLO), hang()]


@pytest.fixture(scope="module")
def module_gateway(tmp_path_factory, base_urls, upstream):
    gateway = Gateway(tmp_path_factory.mktemp("hedging"), base_urls, upstream, workers=8)
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(module_gateway, upstream):
    upstream.reset()
    yield module_gateway
    module_gateway.assert_unbroken()
    assert not upstream.unexpected


def use(gateway, *upstreams):
    """A model of these upstreams that hedges: its name."""
    name = fresh("m")
    gateway.use(Tree(model(name, *upstreams, hedgeAfterMs=HEDGE_MS)))
    return name


def outcomes(gateway, name):
    """hedge.count of the model, by outcome."""
    start = "airi_gen_ai_gateway_hedge_count_total{"
    lines = {line: value for line, value in gateway.metrics().items() if line.startswith(start)}
    return {
        line.split('outcome="')[1].split('"')[0]: value
        for line, value in lines.items()
        if f'model="{name}"' in line and value > 0
    }


def begin(gateway, name, attempts, stream=False):
    """A request under way, of which so many attempts have reached the upstream."""
    before = len(gateway.upstream.records)
    call = gateway.begin(name, stream)
    gateway.upstream.wait_record(before + attempts)
    return call


def end(gateway, *calls):
    for call in calls:
        call.close()
    return [gateway.event(call) for call in calls]


def test_an_attempt_beside_the_first_has_a_slot_of_its_own(gateway):
    name = use(gateway, slots("a", 2), slots("b", 1))
    has_waited = threading.Event()
    gateway.script(name, "k-a", [hang()], [until(has_waited), *GOOD])
    gateway.script(name, "k-b", [hang()])
    holder = begin(gateway, name, 2)
    call = gateway.begin(name)
    gateway.upstream.wait_record(3)
    wait_until(lambda: in_waiting(gateway) == 2, "both wait")
    threading.Timer(ASKED_BY_S, has_waited.set).start()
    assert call.reply().status == 200
    event = gateway.event(call)
    assert event["hedge"] == "no_slot" and len(event["attempts"]) == 1
    (left,) = end(gateway, holder)
    assert left["hedge"] == "cancelled" and len(left["attempts"]) == 2
    wait_until(lambda: outcomes(gateway, name) == {"no_slot": 1, "cancelled": 1}, "they are counted")


def in_waiting(gateway):
    return sum(worker["stage"] == "waiting" for worker in gateway.status()["workers"])


@pytest.mark.parametrize("capacity, hedge", [(1, "no_slot"), (2, "won")])
def test_another_key_of_an_upstream_takes_another_of_its_slots(gateway, capacity, hedge):
    name = use(gateway, slots("a", capacity, "k1", "k2"))
    has_waited = threading.Event()
    gateway.script(name, "k1", [until(has_waited), *GOOD])
    gateway.script(name, "k2", GOOD)
    if hedge == "no_slot":
        threading.Timer(ASKED_BY_S, has_waited.set).start()
    reply = gateway.chat(name)
    assert reply.status == 200
    event = gateway.event(reply)
    assert event["hedge"] == hedge and pool_of(event)["result"] == "settled"
    has_waited.set()


def test_who_has_lost_holds_nothing_while_the_other_streams(gateway):
    name = use(gateway, slots("a", 1), slots("b", 1))
    gateway.script(name, "k-a", [hang()], GOOD)
    gateway.script(name, "k-b", ENDLESS)
    call = begin(gateway, name, 2, stream=True)
    call.read_until("Hello")
    reply = gateway.chat(name)
    assert reply.status == 200 and gateway.event(reply)["attempts"][0]["upstream"] == "a"
    assert gateway.chat(name).status == 200
    (event,) = end(gateway, call)
    assert event["hedge"] == "won" and pool_of(event)["pool"].endswith('"b"]')


def test_the_one_beside_gives_its_slot_back_when_the_first_answers(gateway):
    name = use(gateway, slots("a", 1), slots("b", 1))
    is_asked = threading.Event()
    gateway.script(name, "k-a", [until(is_asked), *ENDLESS])
    gateway.script(name, "k-b", [hang()], GOOD)
    call = begin(gateway, name, 2, stream=True)
    is_asked.set()
    call.read_until("Hello")
    reply = gateway.chat(name)
    assert reply.status == 200 and gateway.event(reply)["attempts"][0]["upstream"] == "b"
    (event,) = end(gateway, call)
    assert event["hedge"] == "lost" and pool_of(event)["pool"].endswith('"a"]')


@pytest.mark.parametrize("fails", ["a", "b"])
def test_who_fails_gives_its_slot_back_while_the_other_goes_on(gateway, fails):
    goes_on = "b" if fails == "a" else "a"
    name = use(gateway, slots("a", 1), slots("b", 1))
    is_asked, has_failed = threading.Event(), threading.Event()
    gateway.script(name, f"k-{fails}", [until(is_asked), *answer(503, "{}")], GOOD)
    gateway.script(name, f"k-{goes_on}", [until(has_failed), *ENDLESS])
    call = begin(gateway, name, 2, stream=True)
    failed = gateway.upstream.records[0 if fails == "a" else 1]
    is_asked.set()
    wait_until(lambda: failed.answered is not None, "it has failed")
    has_failed.set()
    call.read_until("Hello")
    reply = gateway.chat(name)
    assert reply.status == 200 and gateway.event(reply)["attempts"][0]["upstream"] == fails
    (event,) = end(gateway, call)
    assert [attempt["verdict"] for attempt in event["attempts"] if attempt["upstream"] == fails] == ["server"]


def test_a_killed_worker_had_two_slots_and_both_are_back(gateway):
    name = use(gateway, slots("a", 1), slots("b", 1))
    gateway.script(name, "k-a", [hang()])
    gateway.script(name, "k-b", [hang()])
    before = gateway.workers()
    call = begin(gateway, name, 2)
    assert gateway.chat(name).status == 503
    (busy,) = [worker["pid"] for worker in gateway.status()["workers"] if worker["stage"] == "waiting"]
    os.kill(busy, signal.SIGKILL)
    wait_until(lambda: len(gateway.workers() - {busy}) == len(before), "another is there", 15)
    call.close()
    assert gateway.event(call)["end"] == "worker_died"
    gateway.router.new_log_text()  # that it died is no news
    gateway.script(name, "k-b", GOOD)
    reply = gateway.chat(name)
    assert reply.status == 200 and gateway.event(reply)["hedge"] == "won"


def test_while_somebody_waits_for_a_worker_nobody_is_asked_beside_another(start_gateway):
    """Two workers; those who wait come in the order in which they came."""
    tree = Tree(model("m", hostile("a", "k1"), hostile("b", "k2"), hedgeAfterMs=HEDGE_MS), model("long", hostile("c", "k3")))
    gateway = start_gateway(tree, workers=2, flags=["--queue-timeout-ms", "60000"])
    is_first_over, are_all_over = threading.Event(), threading.Event()
    gateway.script("long", "k3", [until(is_first_over), *GOOD], [until(are_all_over), *GOOD])
    gateway.script("m", "k1", [until(are_all_over), *GOOD])
    holders = [begin(gateway, "long", 1) for _ in range(2)]
    call = gateway.begin("m")
    wait_until(lambda: waiting(gateway) == 1, "one waits")
    others = [gateway.begin("long")]
    wait_until(lambda: waiting(gateway) == 2, "two wait")
    is_first_over.set()
    gateway.upstream.wait_record(3)
    threading.Timer(ASKED_BY_S, are_all_over.set).start()
    assert call.reply().status == 200
    event = gateway.event(call)
    assert event["hedge"] == "busy" and len(event["attempts"]) == 1
    for other in holders + others:
        assert other.reply().status == 200


def waiting(gateway):
    return gateway.metric("airi_gen_ai_gateway_queue_length")

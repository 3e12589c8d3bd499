"""maxConcurrency over two instances that share a Redis, and what becomes of it without that."""

import json
import os
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import chat
import speech
from cgi_program import CgiCall
from desk import Desk
from fastcgi import meta_variables
from gateway import Gateway
from plane import Plane
from pools import (
    SPOKEN, app_id, assert_saturated, fresh, hold, in_stage, leave, pool_metrics, pool_of, skipped, slots, spoken_by,
    tried,
)
from processes import wait_until
from scripts import answer, hang, until
from tree import Tree, hostile, model

WORKERS = 32
LEASE_S = 10
GIVEN_BACK_S = 5  # a lease that is renewed has more left
SLACK_S = 5
ALONE = "airi_gen_ai_gateway_pools_alone_total"
READ_ERRORS = 'airi_observability_read_errors_total{metric="airi.gen_ai.gateway.pool.inflight"}'


@pytest.fixture(scope="module")
def module_plane(tmp_path_factory, base_urls, upstream):
    folders = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    plane = Plane(folders, base_urls, upstream, WORKERS, ["--queue-timeout-ms", "30000"])
    yield plane
    plane.stop()


@pytest.fixture
def plane(module_plane, upstream):
    upstream.reset()
    module_plane.wait_healthy(timeout=30)
    yield module_plane
    for instance in module_plane.instances:
        instance.gateway.assert_unbroken()
    assert not upstream.unexpected


def both(plane):
    return [instance.gateway for instance in plane.instances]


def use_speech(plane, *upstreams, **members):
    """A model of speech of these upstreams, whose slots Redis counts: its name."""
    name = fresh("say")
    plane.put(spoken_by(name, *upstreams, **members))
    keys = [key for upstream in upstreams for key in upstream.keys]
    for key in keys:
        plane.first.gateway.script(name, key, SPOKEN)
    for gateway in both(plane):
        wait_until(lambda one=gateway: is_counted_by_redis(one, name), "Redis counts", 15)
    plane.upstream.reset()
    return name


def is_counted_by_redis(gateway, name):
    """It is asked again at most a second after it did not answer, as on a busy machine now and then."""
    return pool_of(gateway.event(gateway.say(name)))["where"] == "redis"


def test_two_instances_share_the_slots(plane):
    first, second = both(plane)
    name = use_speech(plane, slots("a", 2), slots("b", 2))
    for key in ("k-a", "k-b"):
        first.script(name, key, [hang()])
    calls = hold(first, name, 2)
    others = hold(second, name, 2)
    for gateway in (first, second):
        reply = gateway.say(name)
        event = assert_saturated(gateway, reply, "/v1", name, 2)
        assert pool_of(event)["where"] == "redis"
        assert skipped(event) == {"a": "pool_full", "b": "pool_full"}
    leave(first, calls)
    first.script(name, "k-a", SPOKEN)
    first.script(name, "k-b", SPOKEN)
    assert [second.say(name).status for _ in range(10)] == [200] * 10
    leave(second, others)


def test_ae1_fifty_at_once_over_two_instances_are_spread_evenly(plane):
    desks = {f"app{i}": Desk(10, SPOKEN) for i in range(5)}
    name = use_speech(plane, *[slots(app, 10) for app in desks])
    for app, desk in desks.items():
        plane.first.gateway.script(name, f"k-{app}", desk.script)
    with ThreadPoolExecutor(50) as callers:
        replies = [callers.submit(both(plane)[i % 2].say, name) for i in range(50)]
        wait_until(lambda: sum(desk.now for desk in desks.values()) == 50, "all fifty are in hand", 30)
        assert [desk.now for desk in desks.values()] == [10] * 5
        for desk in desks.values():
            desk.release()
        assert [reply.result().status for reply in replies] == [200] * 50
    assert not any(desk.refused for desk in desks.values())


def test_a_slot_of_a_killed_worker_is_back_when_its_lease_has_lapsed(plane):
    first, second = both(plane)
    name = use_speech(plane, slots("a", 1))
    first.script(name, "k-a", [hang()])
    before = first.workers()
    call = hold(first, name)[0]
    (busy,) = [worker["pid"] for worker in first.status()["workers"] if worker["stage"] == "waiting"]
    os.kill(busy, signal.SIGKILL)
    killed_at = time.monotonic()
    assert 0 < lapses_in_ms(plane, name, "a") <= LEASE_S * 1000, "nobody prolongs it any more"
    first.script(name, "k-a", SPOKEN)
    assert second.say(name).status == 503
    wait_until(lambda: second.say(name).status == 200, "the slot is back", LEASE_S + SLACK_S)
    assert time.monotonic() - killed_at < LEASE_S + SLACK_S
    wait_until(lambda: len(first.workers() - {busy}) == len(before), "another is there", 15)
    call.close()
    first.event(call)
    first.router.new_log_text()  # that it died is no news


def lapses_in_ms(plane, name, upstream):
    """When the one lease of this pool lapses, by Redis' clock."""
    (key,) = [one for one in plane.redis.command("KEYS", "*:leases") if f'["{name}","id","{upstream}"]' in one]
    (_, lapses_at) = plane.redis.command("ZRANGE", key, 0, -1, "WITHSCORES")
    seconds, microseconds = map(int, plane.redis.command("TIME"))
    return int(float(lapses_at)) - seconds * 1000 - microseconds // 1000


# Two attempts side by side (hedgeAfterMs): each has a lease of its own


def leases(plane, name):
    """Who holds a slot of the model's pools, by upstream."""
    keys = {key: re.search(rf'\["{name}","id","(\w+)"\]:leases$', key) for key in plane.redis.command("KEYS", "*:leases")}
    held = {found[1]: plane.redis.command("ZRANGE", key, 0, -1) for key, found in keys.items() if found}
    return {upstream: holders for upstream, holders in held.items() if holders}


def race(plane, scripts):
    """A request at the first instance of which two attempts run, as these scripts have it: the model's name, the
    call, and the worker."""
    name = use_speech(plane, slots("a", 1), slots("b", 1), hedgeAfterMs=100)
    for key, script in scripts.items():
        plane.first.gateway.script(name, key, script)
    call = plane.first.gateway.speak(name)
    plane.upstream.wait_record(2, timeout=15)
    wait_until(lambda: leases(plane, name).keys() == {"a", "b"}, "both pools have a lease")
    holders = leases(plane, name)
    assert [len(ids) for ids in holders.values()] == [1, 1], holders
    (worker,) = {int(holder.split("/")[1]) for ids in holders.values() for holder in ids}
    assert worker in plane.first.gateway.workers()
    return name, call, worker


def assert_served(plane, name):
    """By both pools, at the instance that knows of leases what Redis says."""
    for key in ("k-a", "k-b"):
        plane.first.gateway.script(name, key, SPOKEN)
    assert [plane.second.gateway.say(name).status for _ in range(4)] == [200] * 4


@pytest.mark.parametrize("winner, hedge", [("k-a", "lost"), ("k-b", "won"), (None, "cancelled")],
                         ids=["the first answers", "the other answers", "the caller leaves"])
def test_a_request_with_two_attempts_has_two_leases_and_gives_both_back(plane, winner, hedge):
    has_begun = threading.Event()
    scripts = {"k-a": [hang()], "k-b": [hang()]}
    if winner:
        scripts[winner] = [until(has_begun), *SPOKEN]
    name, call, _ = race(plane, scripts)
    has_begun.set()
    if winner:
        assert call.reply().status == 200
    else:
        call.close()
    wait_until(lambda: not leases(plane, name), "both were given back", GIVEN_BACK_S)
    event = plane.first.gateway.event(call)
    assert event["hedge"] == hedge and len(event["attempts"]) == 2
    assert_served(plane, name)


def test_the_leases_of_two_attempts_are_in_the_gauges_and_lapse_with_their_worker(plane):
    first, second = both(plane)
    before = first.workers()
    name, call, worker = race(plane, {"k-a": [hang()], "k-b": [hang()]})

    def inflight():
        return [pool_metrics(gateway, "inflight{", app_id(name, upstream)) for gateway in (first, second) for upstream in "ab"]

    wait_until(lambda: inflight() == [[1]] * 4, "both instances say one of each pool", 20)
    os.kill(worker, signal.SIGKILL)
    wait_until(lambda: not leases(plane, name), "both have lapsed", LEASE_S + SLACK_S)
    wait_until(lambda: inflight() == [[0]] * 4, "both instances say none", 20)
    wait_until(lambda: len(first.workers() - {worker}) == len(before), "another is there", 15)
    call.close()
    assert first.event(call)["end"] == "worker_died"
    first.router.new_log_text()  # that it died is no news
    assert_served(plane, name)


@pytest.mark.parametrize("upstreams", ["a", "ab"], ids=["one attempt", "two side by side"])
def test_redis_counts_the_slots_of_cgi_programs_too(plane, upstreams):
    gateway = plane.first.gateway
    hedging = {"hedgeAfterMs": 100} if len(upstreams) > 1 else {}
    name = use_speech(plane, *[slots(upstream, 1) for upstream in upstreams], **hedging)
    for upstream in upstreams:
        gateway.script(name, f"k-{upstream}", [hang()])
    body = json.dumps(speech.request(name)).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {gateway.caller_key}"}
    params = meta_variables("POST", "/v1/audio/speech", headers, len(body))
    call = CgiCall(params, body, gateway.environment(), gateway.folder / "cgi.log")
    gateway.upstream.wait_record(len(upstreams), timeout=30)
    wait_until(lambda: leases(plane, name).keys() == set(upstreams), "Redis has a lease of each")
    assert_saturated(gateway, gateway.say(name), "/v1", name, len(upstreams))
    for upstream in upstreams:
        gateway.script(name, f"k-{upstream}", SPOKEN)
    call.process.send_signal(signal.SIGTERM)  # the caller has left
    call.exit_status()
    wait_until(lambda: not leases(plane, name), "each slot is back", LEASE_S + SLACK_S)
    assert gateway.say(name).status == 200


def test_first_come_first_served_over_two_instances(plane):
    name = use_speech(plane, slots("a", 1), poolWaitMs=30000)
    desk = Desk(1, SPOKEN)
    plane.first.gateway.script(name, "k-a", desk.script)
    calls = hold(both(plane)[0], name)
    for text in "1234":
        gateway = both(plane)[int(text) % 2]
        busy = in_stage(gateway, "waiting")
        calls.append(gateway.speak(name, input=text))
        wait_until(lambda one=gateway, n=busy: in_stage(one, "waiting") == n + 1, f"{text} waits", 10)
    desk.release()
    assert [call.reply().status for call in calls] == [200] * 5
    assert [record.body.count(b'"%d"' % n) for n, record in enumerate(plane.upstream.records)] == [0, 1, 1, 1, 1]
    assert desk.refused == 0


def test_ae3_a_mark_is_seen_by_the_other_instance(plane):
    first, second = both(plane)
    name = use_speech(plane, slots("a", 10), slots("b", 10))
    first.script(name, "k-a", answer(429, "{}", {"retry-after": "60"}))
    first.script(name, "k-b", SPOKEN)
    assert tried(first.event(first.say(name))) == ["a", "b"]
    events = [gateway.event(gateway.say(name)) for gateway in (second, first)]
    assert [tried(event) for event in events] == [["b"], ["b"]]
    assert [skipped(event) for event in events] == [{"a": "pool_saturated"}] * 2


def test_redis_is_asked_once_and_not_at_all_without_limits(plane):
    first, _ = both(plane)
    name, free = fresh("m"), fresh("m")
    plane.put(Tree(model(name, slots("a", 5), slots("b", 5)), model(free, hostile("a", "k-free"), hostile("b", "k-b"))))
    for one, key in ((name, "k-a"), (name, "k-b"), (free, "k-free")):
        first.script(one, key, answer(200, chat.completion()))

    def scripts_run():
        lines = plane.redis.command("INFO", "commandstats").splitlines()
        return sum(int(re.search(r"calls=(\d+)", line)[1]) for line in lines if line.startswith("cmdstat_eval"))

    for _ in range(10):  # until the gauges' question has not come between
        plane.redis.command("CONFIG", "RESETSTAT")
        assert [first.chat(free).status for _ in range(5)] == [200] * 5
        if scripts_run() == 0:
            break
    assert scripts_run() == 0
    for _ in range(10):
        plane.redis.command("CONFIG", "RESETSTAT")
        assert [first.chat(name).status for _ in range(3)] == [200] * 3
        if scripts_run() == 3:
            break
    assert scripts_run() == 3


@pytest.mark.parametrize("away", ["frozen", "ended"])
def test_without_redis_each_instance_counts_alone(plane, away):
    first, second = both(plane)
    name = use_speech(plane, slots("a", 1))
    first.script(name, "k-a", [hang()])
    before = first.metric(ALONE)
    plane.redis.freeze() if away == "frozen" else plane.redis.end()
    try:
        calls = hold(first, name)
        reply = first.say(name)
        assert reply.status == 503 and pool_of(first.event(reply))["where"] == "mapping"
        others = hold(second, name)  # which it does not know of
        assert first.metric(ALONE) == before + 2
        assert first.status()["poolsAlone"] and second.status()["poolsAlone"]
        wait_until(lambda: first.log_lines("pools_alone") + second.log_lines("pools_alone"), "the log says so")
        assert plane.redis.password not in first.router.log_text()
        leave(second, others)
    finally:
        plane.redis.thaw() if away == "frozen" else plane.redis.start()
    plane.wait_healthy(timeout=30)
    # The renewals tell Redis what is held.
    second.script(name, "k-a", answer(500, "{}"))
    wait_until(lambda: is_refused_by_redis(second, name), "Redis counts, and knows of the slot", 30)
    assert not second.status()["poolsAlone"]
    leave(first, calls)
    first.script(name, "k-a", SPOKEN)
    wait_until(lambda: second.say(name).status == 200, "it is back", LEASE_S + SLACK_S)


def is_refused_by_redis(gateway, name):
    row = pool_of(gateway.event(gateway.say(name)))
    return (row["result"], row["where"]) == ("refused", "redis")


def test_gauges_are_the_same_at_both_and_silent_when_they_cannot_be_read(plane):
    first, second = both(plane)
    name = use_speech(plane, slots("a", 5))
    first.script(name, "k-a", [hang()])
    label = app_id(name, "a")

    def inflight():
        return [pool_metrics(gateway, "inflight{", label) for gateway in (first, second)]

    calls = hold(first, name, 2)
    others = hold(second, name)
    wait_until(lambda: inflight() == [[3], [3]], "both say three", 20)
    before = first.metric(READ_ERRORS)
    plane.redis.freeze()
    try:
        wait_until(lambda: inflight() == [[], []], "nothing is said", 20)
        assert first.metric(READ_ERRORS) > before
        assert pool_metrics(first, "capacity{", label) == [5]
    finally:
        plane.redis.thaw()
    plane.wait_healthy(timeout=30)
    wait_until(lambda: inflight() == [[3], [3]], "both say three again", 30)
    leave(first, calls)
    leave(second, others)


@pytest.fixture
def strict_gateway(plane, tmp_path_factory, base_urls, upstream):
    """A third instance, which gives out nothing while Redis does not answer."""
    folder = tmp_path_factory.mktemp("strict")
    flags = ["--pools-alone", "refuse"]
    gateway = Gateway(folder, base_urls, upstream, 4, flags, servers=plane.servers, peer=plane.first.gateway)
    gateway.start()
    yield gateway
    gateway.stop()


def test_where_the_operator_says_so_nothing_is_given_out_without_redis(plane, strict_gateway):
    gateway = strict_gateway
    name, free = fresh("say"), fresh("m")
    tree = spoken_by(name, slots("a", 5))
    tree.models.append(model(free, hostile("b", "k-free")))
    plane.put(tree)
    gateway.script(name, "k-a", SPOKEN)
    gateway.script(free, "k-free", answer(200, chat.completion()))
    wait_until(lambda: gateway.say(name).status == 200, "the tree is in force, and Redis counts", 15)
    plane.redis.end()
    try:
        reply = gateway.say(name)
        event = assert_saturated(gateway, reply, "/v1", name, 1)
        assert skipped(event) == {"a": "pool_away"}
        assert gateway.chat(free).status == 200
        assert "no slots are given out" in gateway.log_lines("pools_alone")[-1]["message"]
        assert gateway.metric(ALONE) >= 1
    finally:
        plane.redis.start()
    wait_until(lambda: gateway.say(name).status == 200, "slots are given out again", 15)
    gateway.assert_unbroken()

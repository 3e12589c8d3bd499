"""Slots of pools while workers die, and Redis forgets, restarts, stands still and loses its time: two instances,
between whose clocks there are hours, one Redis, and an upstream that counts what it has in hand. Both give out nothing
that Redis has not said (--pools-alone refuse), so that a machine on which Redis is slow to answer makes it no more."""

import os
import random
import shutil
import signal
import tempfile
import time
from pathlib import Path

import pytest

from desk import Desk
from load import Ask, Front, closed_loop
from plane import PREFIX, Plane
from pools import SPOKEN, fresh, slots, spoken_by
from preloaded import Clock
from processes import wait_until
from redis import Redis

POOLS, CAPACITY = 10, 10
WORKERS = 64  # of each instance
CALLERS = 55  # of each: more than there are slots
REQUESTS = 1000
KILLS = 20
TAKES_S = 0.1  # at the upstream
LEASE_S = 10
RENEWED_S = 4  # each lease has been, or its request has ended
SLACK_S = 20
HOUR_S = 3600


@pytest.fixture(scope="module")
def redis_clock():
    folder = Path(tempfile.mkdtemp(prefix="llm-router-clock-"))  # where Redis may look: see redis.py
    folder.chmod(0o755)
    yield Clock(folder)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def plane(tmp_path_factory, base_urls, upstream, redis_clock):
    folders = [tmp_path_factory.mktemp(name) for name in ("first", "second")]
    flags = ["--pools-alone", "refuse", "--queue-timeout-ms", "30000"]
    clocks = [None, Clock(folders[1])]
    clocks[1].move(3 * HOUR_S)
    redis = Redis(environment=redis_clock.environment)
    plane = Plane(folders, base_urls, upstream, WORKERS, flags, clocks, redis)
    yield plane
    plane.stop()


@pytest.fixture
def model_name(plane, upstream):
    upstream.reset()
    name = fresh("say")
    plane.put(spoken_by(name, *[slots(f"app{i}", CAPACITY) for i in range(POOLS)], poolWaitMs=30000))
    return name


def seat(plane, name, capacity, seconds):
    """The upstream of each pool: how many it takes, and how long each lasts."""
    desks = [Desk(capacity, SPOKEN, seconds) for _ in range(POOLS)]
    for i, desk in enumerate(desks):
        plane.first.gateway.script(name, f"k-app{i}", desk.script)
    return desks


def load(plane, name, callers, **options):
    fronts = [Front(instance.gateway.caller_key, socket=instance.gateway.socket)
              for instance in plane.instances]
    return [closed_loop(front, [Ask("speech", name, is_speech=True)], callers, **options) for front in fronts]


def failures_of(loads):
    outcomes = [outcome for one in loads for outcome in one.result(120)[0]]
    return len(outcomes), [outcome for outcome in outcomes if not outcome.is_served]


def kill_one(plane):
    gateway = random.choice(plane.instances).gateway
    workers = gateway.workers()
    if len(workers) > WORKERS // 2:  # who is killed young is not replaced at once
        os.kill(random.choice(sorted(workers)), signal.SIGKILL)
        return 1
    return 0


def test_never_more_than_the_capacity_although_workers_are_killed_and_every_slot_comes_back(plane, model_name):
    desks = seat(plane, model_name, CAPACITY, TAKES_S)
    loads = load(plane, model_name, CALLERS, count=REQUESTS // 2)
    killed = 0
    wait_until(lambda: sum(desk.served for desk in desks) > REQUESTS // 20, "they are served", 60)
    while killed < KILLS and any(one.is_running() for one in loads):
        killed += kill_one(plane)
        time.sleep(random.uniform(0.02, 0.1))
    n, failed = failures_of(loads)
    assert n == REQUESTS and 0 < killed and len(failed) <= killed, failed[:5]
    assert sum(desk.most for desk in desks) > POOLS * CAPACITY // 2  # they were wanted
    assert [desk.refused for desk in desks] == [0] * POOLS
    for instance in plane.instances:
        instance.gateway.router.new_log_text()  # that they died is no news

    desks = seat(plane, model_name, CAPACITY, None)
    loads = load(plane, model_name, POOLS * CAPACITY // 2, count=POOLS * CAPACITY // 2)
    wait_until(lambda: sum(desk.now for desk in desks) == POOLS * CAPACITY, "all are in hand", LEASE_S + SLACK_S)
    for desk in desks:
        desk.release()
    assert failures_of(loads) == (POOLS * CAPACITY, [])
    assert [desk.refused for desk in desks] == [0] * POOLS
    wait_until(lambda: leases_of(plane) == 0, "none is held", LEASE_S + SLACK_S)


def leases_of(plane):
    keys = plane.redis.command("KEYS", f"{PREFIX}tts:pool:*:leases")
    return sum(plane.redis.command("ZCARD", key) for key in keys)


def restart(plane):
    plane.redis.end()
    plane.redis.start()


def set_clock(plane, clock, ahead_s):
    clock.move(ahead_s)
    seconds, _ = plane.redis.command("TIME")
    assert clock.is_about(int(seconds) * 1e6, ahead_s)


def freeze(plane):
    plane.redis.freeze()
    time.sleep(1)
    plane.redis.thaw()


def most_in(desks, seconds):
    """The most that one has had in hand at once, in this time."""
    for desk in desks:
        desk.most = desk.now
    time.sleep(seconds)
    return max(desk.most for desk in desks)


def test_what_redis_suffers_costs_no_request_and_heals(plane, redis_clock, model_name):
    """While Redis knows of nothing, each instance gives out what it has none of itself; and soon no more than all."""
    desks = seat(plane, model_name, 2 * CAPACITY, TAKES_S)
    loads = load(plane, model_name, CALLERS)
    wait_until(lambda: sum(desk.served for desk in desks) > REQUESTS // 20, "they are served", 60)
    for harm in (
        lambda: plane.redis.command("FLUSHALL"),
        lambda: restart(plane),
        lambda: set_clock(plane, redis_clock, HOUR_S),
        lambda: set_clock(plane, redis_clock, -HOUR_S),
    ):
        harm()
        time.sleep(RENEWED_S)
        assert most_in(desks, 0.5) <= CAPACITY
    served = sum(desk.served for desk in desks)
    freeze(plane)
    wait_until(lambda: sum(desk.served for desk in desks) > served + REQUESTS // 20, "they are served again", 60)
    assert max(desk.most for desk in desks) <= CAPACITY  # since the last look: it has forgotten nothing
    results = [one.stop() for one in loads]
    failed = [outcome for outcomes, _ in results for outcome in outcomes if not outcome.is_served]
    assert not failed, failed[:5]
    assert [desk.refused for desk in desks] == [0] * POOLS  # by no more than twice, then
    for instance in plane.instances:
        instance.gateway.assert_unbroken()
    plane.wait_healthy(timeout=30)

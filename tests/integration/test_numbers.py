"""Numbers agree everywhere: after an hour's faults in a few seconds, each request that was sent is counted
once, has one row and one trace, and all of them say the same of how it ended."""

import os
import random
import secrets
import signal
import time
from collections import Counter

import pytest

import chat
from administrator import Admin
from gateway import Gateway
from load import Ask, Front, open_loop
from postgres import Postgres
from otlp import Reply, attributes
from processes import wait_until
from redis import Redis
from scripts import answer, close, hang, pause, stream
from tree import Tree, hostile, model

SECONDS = 12
PER_SECOND = 60
WORKERS = 8
SLACK_S = 120.0  # a sink that failed comes again after a minute at last
GATEWAY = "airi.gen_ai.gateway."
VICTIMS = ["worker", "worker", "worker", "shipper", "shipper", "keeper", "overflow"]

TREE = Tree(
    model("good", hostile("a", "k1")),
    model("streamed", hostile("a", "k1")),
    model("second", hostile("a", "k1"), hostile("b", "k2")),
    model("dead", hostile("a", "k1", "k2")),
    model("full", hostile("a", "k1")),
    model("silent", hostile("a", "k1", timeoutMs=200)),
    model("cut", hostile("a", "k1")),
    model("picky", hostile("a", "k1")),
    model("slow", hostile("a", "k1")),
)
ASKS = [
    Ask("plain", "good", weight=4),
    Ask("stream", "streamed", stream=True, weight=4),
    Ask("fallback", "second", mount="/api/v1/openai", weight=3),
    Ask("exhausted", "dead", weight=2),
    Ask("limited", "full"),
    Ask("timeout", "silent"),
    Ask("cut", "cut", stream=True, weight=2),
    Ask("refused", "picky"),
    Ask("unknown", "no such model"),
    Ask("leaves", "slow", stream=True, leaves_after_s=0.1),
]


def error(status):
    return answer(status, '{"error":{"message":"No.","type":"invalid_request_error","code":"nothing_known"}}')


def script(gateway):
    whole = answer(200, chat.completion())
    streamed = stream(*chat.GOOD_STREAM, delay=0.01)
    gateway.script("good", "k1", [pause(0.02), *whole])
    gateway.script("streamed", "k1", streamed)
    gateway.script("second", "k1", error(429))
    gateway.script("second", "k2", whole)
    gateway.script("dead", "k1", error(401))
    gateway.script("dead", "k2", error(402))
    gateway.script("full", "k1", error(429))
    gateway.script("silent", "k1", [hang()])
    gateway.script("cut", "k1", [*stream(chat.ROLE, chat.HELLO)[:-1], pause(0.05), close()])
    gateway.script("picky", "k1", error(400))
    gateway.script("slow", "k1", [pause(1.0), *streamed])


@pytest.fixture
def gateway(tmp_path, base_urls, upstream, receiver):
    upstream.reset()
    postgres, redis = Postgres(), Redis()
    database = postgres.new_database()
    gateway = Gateway(
        tmp_path,
        base_urls,
        upstream,
        workers=WORKERS,
        servers={"DATABASE_URL": postgres.address(database), "REDIS_URL": redis.address()},
        router_environment={
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OTEL_METRICS_EXPORTER": "none",
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        },
    )
    gateway.start()
    admin = Admin(gateway)
    admin.wait_for_socket()
    document, marker = gateway.render(TREE)
    assert admin.put(document.encode(), "*").status == 200
    wait_until(lambda: marker in gateway.model_names(), "the tree is in force")
    gateway.rows = lambda text: postgres.sql(text, database)
    gateway.postgres = postgres
    yield gateway
    admin.process.stop()
    gateway.stop()
    redis.stop()
    postgres.stop()


def attack_while(load, gateway, receiver, chance):
    """Kills processes at random; the receiver and the database are away for a while each."""
    killed, begun, is_away = Counter(), time.monotonic(), False
    while load.is_running():
        time.sleep(chance.uniform(0.05, 0.3))
        passed = time.monotonic() - begun
        receiver.always(Reply(503) if SECONDS / 4 < passed < SECONDS / 2 else Reply())
        if is_away != (SECONDS / 2 < passed < SECONDS * 3 / 4):
            is_away = not is_away
            (gateway.postgres.freeze if is_away else gateway.postgres.thaw)()
        role = chance.choice(VICTIMS)
        there = [pid for pid, name in gateway.router.roles().items() if name == role]
        if there:
            try:
                os.kill(chance.choice(there), signal.SIGKILL)
                killed[role] += 1
            except ProcessLookupError:
                pass
    if is_away:
        gateway.postgres.thaw()
    receiver.always(Reply())
    return killed


def counted(gateway):
    """{status: requests}, by /metrics."""
    out = Counter()
    for series, n in gateway.metrics().items():
        if series.startswith("airi_gen_ai_gateway_requests_total"):
            out[series.rpartition('status_code="')[2].rstrip('"}')] += int(n)
    return +out


def logged(gateway):
    """The same, by the request log."""
    rows = gateway.rows("SELECT coalesce(status::text, 'none'), count(*) FROM routing_decisions GROUP BY 1")
    return Counter({status: int(n) for status, n in (row.split("|") for row in rows)})


def traced(receiver):
    """The same, by distinct SERVER spans."""
    spans = {(span.trace_id, span.span_id): attributes(span) for span in receiver.spans() if span.kind == 2}
    return Counter(str(told.get("http.response.status_code", "none")) for told in spans.values())


def test_sent_counted_logged_and_traced_are_the_same(gateway, receiver):
    seed = secrets.randbits(32)
    script(gateway)
    load = open_loop(Front(gateway.caller_key, port=gateway.port), ASKS, PER_SECOND, SECONDS)
    killed = attack_while(load, gateway, receiver, random.Random(seed))
    outcomes, _ = load.result(90)
    assert all(killed[role] > 0 for role in VICTIMS), f"{killed} (seed {seed})"

    def agree():
        return counted(gateway) == logged(gateway) == traced(receiver)

    def numbers():
        return f"counted {counted(gateway)}, logged {logged(gateway)}, traced {traced(receiver)} (seed {seed})"

    try:
        wait_until(agree, "the numbers agree", SLACK_S)
    except AssertionError as e:
        raise AssertionError(f"{e}; {numbers()}") from e
    print(f"{len(outcomes)} requests, killed {dict(killed)}; {numbers()}")
    assert set(logged(gateway)) >= {"200", "400", "404", "502", "503", "504", "none"}, numbers()

    rows = [row.split("|") for row in gateway.rows(
        "SELECT request_id, coalesce(status::text, ''), outcome FROM routing_decisions WHERE request_id IS NOT NULL")]
    assert len({request_id for request_id, _, _ in rows}) == len(rows), "a request has two rows"
    told = {request_id: (status, end) for request_id, status, end in rows}
    untold = 0
    for outcome in outcomes:
        status, end = told.get(outcome.request_id, ("", "untold"))
        untold += end == "untold"
        if outcome.reply is not None and "x-request-id" in outcome.reply.headers:
            assert status == str(outcome.status), f"{outcome}: {status} {end} (seed {seed})"
    nameless = int(gateway.rows("SELECT count(*) FROM routing_decisions WHERE request_id IS NULL")[0])
    # Between accept and the beginning of a request a worker takes what it accepted with it, and no record of it.
    assert untold <= nameless + killed["worker"], f"{untold} of {len(outcomes)} have no row, {killed} (seed {seed})"
    assert gateway.metric("airi_gen_ai_gateway_spool_dropped_total") == 0

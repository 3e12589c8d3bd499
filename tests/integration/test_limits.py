"""What a caller may have: requests in hand, requests and tokens in its minute."""

import contextlib
import hashlib
import os
import re
import signal
import threading
import time

import pytest

import chat
import speech
from gateway import MOUNTS, Gateway
from plane import Plane
from processes import ROOT, wait_until
from scripts import answer, data, end, hang, head
from speech import MP3, audio
from tree import Tree, hostile, model, speaker

USED = 10  # tokens, by chat.completion()
MINUTE_S = 60
LIMITS_ALONE = "airi_gen_ai_gateway_limits_alone_total"
WINDOW_HEADERS = re.compile(r"ratelimit-.*|ratelimit|x-ratelimit-.*|retry-after")

_count = 0


def new_caller(*gateways, **limits):
    """A key of its own for each test, with these limits, in force everywhere."""
    global _count
    _count += 1
    flags = [text for name, value in limits.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    key = gateways[0].ctl("caller-key", "add", "--id", f"limited-{os.getpid()}-{_count}", *flags).strip()
    for gateway in gateways:
        gateway.reload()
        wait_until(lambda one=gateway: one.get("/v1/models", key=key).status == 200, "the key is known", 15)
        wait_until(lambda one=gateway: one.status()["workersCurrent"] == one.status()["workersAlive"], "to all", 15)
    return key


@pytest.fixture(scope="module")
def module_gateway(tmp_path_factory, base_urls, upstream):
    gateway = Gateway(tmp_path_factory.mktemp("limits"), base_urls, upstream, workers=16, flags=["--queue-timeout-ms", "30000"])
    gateway.start()
    gateway.use(
        Tree(
            model("m", hostile("a", "k1")),
            model("dead", hostile("a", "k2")),
            speech=[speaker("say", "openai", hostile("a", "k1"))],
            clientStallTimeoutMs=2000,
        )
    )
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(module_gateway, upstream):
    upstream.reset()
    yield module_gateway
    module_gateway.assert_unbroken()


def limit_headers(reply):
    return {name: value for name, value in reply.headers.items() if WINDOW_HEADERS.fullmatch(name)}


def without_seconds(headers):
    """What depends on the clock is checked to be within a minute, and left out."""
    rest = {}
    for name, value in headers.items():
        for number in re.findall(r"(?<=;t=)\d+|^\d+(?=s$)", value) + [value] * (name in ("retry-after", "ratelimit-reset")):
            assert 1 <= int(number) <= MINUTE_S, headers
        rest[name] = re.sub(r"(?<=;t=)\d+", "T", value)
        if name.startswith("x-ratelimit-reset"):
            rest[name] = re.sub(r"^\d+s$", "Ts", value)
        elif name in ("retry-after", "ratelimit-reset"):
            rest[name] = "T"
    return rest


def assert_throttled(gateway, reply, mount, meter, limit):
    assert reply.status == 429, reply
    body = reply.json()
    if mount == "/v1":
        assert body["error"]["type"] == "rate_limit_error" and body["error"]["code"] == "rate_limit_exceeded"
        message = body["error"]["message"]
    else:
        assert body["error"] == "TOO_MANY_REQUESTS"
        message = body["message"]
    assert str(limit) in message, message
    event = gateway.event(reply)
    assert (event["end"], event["status"], event["attempts"]) == ("throttled", 429, [])
    (refused,) = [row for row in event["admission"] if row.get("result") == "refused"]
    assert (refused["meter"], refused["held"], refused["settled"]) == (meter, 0, 0)
    return event


def test_a_caller_without_limits_hears_nothing_of_them(gateway):
    gateway.script("m", "k1", answer(200, chat.completion()))
    reply = gateway.chat("m")
    assert reply.status == 200 and limit_headers(reply) == {}
    assert "admission" not in gateway.event(reply)


@pytest.mark.parametrize("mount", MOUNTS)
def test_a_limit_of_requests_is_reached_exactly(gateway, mount):
    gateway.script("m", "k1", answer(200, chat.completion()))
    before = gateway.metric('airi_gen_ai_gateway_throttled_total{meter="requests"}')
    key = new_caller(gateway, requests_per_minute=5)
    begun = time.monotonic()
    replies = [gateway.chat("m", mount=mount, key=key) for _ in range(7)]
    assert time.monotonic() - begun < MINUTE_S
    assert [reply.status for reply in replies] == [200] * 5 + [429] * 2
    assert [reply.headers["ratelimit-remaining"] for reply in replies] == ["4", "3", "2", "1", "0", "0", "0"]
    event = assert_throttled(gateway, replies[-1], mount, "requests", 5)
    assert [row["where"] for row in event["admission"]] == ["mapping"]
    assert gateway.metric('airi_gen_ai_gateway_throttled_total{meter="requests"}') == before + 2
    assert len(gateway.upstream.records) == 5


def test_every_reply_of_a_limited_caller_says_its_limits(gateway):
    gateway.script("m", "k1", answer(200, chat.completion()))
    gateway.script("dead", "k2", answer(500, "{}"))
    key = new_caller(gateway, concurrency=3, requests_per_minute=9, tokens_per_minute=1000)

    def expected(free, requests, tokens, nearest):
        limit, left = nearest
        return {
            "ratelimit-policy": '"concurrency";q=3;qu="concurrent-requests", '
            '"requests";q=9;w=60;qu="requests", "tokens";q=1000;w=60;qu="tokens"',
            "ratelimit": f'"concurrency";r={free}, "requests";r={requests};t=T, "tokens";r={tokens};t=T',
            "ratelimit-limit": str(limit),
            "ratelimit-remaining": str(left),
            "ratelimit-reset": "T",
            "x-ratelimit-limit-requests": "9",
            "x-ratelimit-remaining-requests": str(requests),
            "x-ratelimit-reset-requests": "Ts",
            "x-ratelimit-limit-tokens": "1000",
            "x-ratelimit-remaining-tokens": str(tokens),
            "x-ratelimit-reset-tokens": "Ts",
        }

    first = gateway.chat("m", key=key)
    estimate = 1000 - int(first.headers["x-ratelimit-remaining-tokens"])
    assert 1 <= estimate <= 20
    assert without_seconds(limit_headers(first)) == expected(2, 8, 1000 - estimate, (9, 8))
    # Looking counts nothing; the first request has been settled by now.
    looked = gateway.get("/v1/models", key=key)
    assert without_seconds(limit_headers(looked)) == expected(3, 8, 1000 - USED, (9, 8))
    refused = gateway.post(b"{", key=key)
    assert refused.status == 400
    assert without_seconds(limit_headers(refused)) == expected(3, 8, 1000 - USED, (9, 8))
    unknown = gateway.chat("nobody", key=key)
    assert unknown.status == 404
    assert without_seconds(limit_headers(unknown)) == expected(3, 8, 1000 - USED, (9, 8))
    failed = gateway.chat("dead", key=key)
    assert failed.status == 502
    assert without_seconds(limit_headers(failed)) == expected(2, 7, 1000 - USED - estimate, (9, 7))


def test_a_refusal_says_when_to_come_again(gateway):
    gateway.script("m", "k1", answer(200, chat.completion()))
    key = new_caller(gateway, requests_per_minute=1)
    assert gateway.chat("m", key=key).status == 200
    refused = gateway.chat("m", key=key)
    assert without_seconds(limit_headers(refused)) == {
        "retry-after": "T",
        "ratelimit-policy": '"requests";q=1;w=60;qu="requests"',
        "ratelimit": '"requests";r=0;t=T',
        "ratelimit-limit": "1",
        "ratelimit-remaining": "0",
        "ratelimit-reset": "T",
        "x-ratelimit-limit-requests": "1",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "Ts",
    }
    assert refused.headers["retry-after"] == refused.headers["ratelimit-reset"]
    assert "x-should-retry" not in refused.headers


def test_tokens_are_settled_with_what_the_upstream_counted(gateway):
    def completion(tokens):
        usage = {"prompt_tokens": tokens - 1, "completion_tokens": 1, "total_tokens": tokens}
        return answer(200, chat.completion(usage=usage))

    gateway.script("m", "k1", completion(40), completion(90), completion(1))
    key = new_caller(gateway, tokens_per_minute=100)
    first = gateway.chat("m", key=key)
    (row,) = gateway.event(first)["admission"]
    assert (row["meter"], row["settled"], row["result"], row["where"]) == ("tokens", 40, "settled", "mapping")
    assert 1 <= row["held"] <= 20
    looked = gateway.get("/v1/models", key=key)
    assert looked.headers["x-ratelimit-remaining-tokens"] == "60"
    assert gateway.chat("m", key=key).status == 200  # lets the minute go beyond
    third = gateway.chat("m", key=key)
    assert_throttled(gateway, third, "/v1", "tokens", 100)
    assert third.headers["x-ratelimit-remaining-tokens"] == "0"


def test_what_a_failed_request_was_let_in_with_is_given_back(gateway):
    gateway.script("dead", "k2", answer(500, "{}"))
    key = new_caller(gateway, tokens_per_minute=100)
    for _ in range(20):
        assert gateway.chat("dead", key=key).status == 502
    assert gateway.get("/v1/models", key=key).headers["x-ratelimit-remaining-tokens"] == "100"


def test_a_stream_that_its_caller_breaks_off_is_not_free(gateway):
    events = [chat.ROLE, *[chat.chunk({"content": "word " * 20})] * 4, chat.chunk({"content": "last"})]
    gateway.script("m", "k1", [head(), *[data(event) for event in events], hang()])
    key = new_caller(gateway, tokens_per_minute=100000)
    call = gateway.call("POST", "/v1/chat/completions", chat.request("m", True), key=key)
    call.read_until("last")
    call.close()

    def used():
        looked = gateway.get("/v1/models", key=key)
        return 100000 - int(looked.headers["x-ratelimit-remaining-tokens"])

    # 404 characters, of which four are a token, and what it was asked.
    wait_until(lambda: 101 < used() < 130, "what was said is counted", 15)


def test_speech_counts_as_any_request_does(gateway):
    gateway.script("say", "k1", answer(200, audio(4000), MP3))
    key = new_caller(gateway, requests_per_minute=2, tokens_per_minute=1000)
    replies = []
    for _ in range(3):
        call = gateway.call("POST", "/v1/audio/speech", speech.request("say"), key=key)
        replies.append(call.reply())
    assert [reply.status for reply in replies] == [200, 200, 429], replies
    assert_throttled(gateway, replies[2], "/v1", "requests", 2)
    # Its upstream counts no tokens.
    assert replies[2].headers["x-ratelimit-remaining-tokens"] == "1000"


def test_a_request_that_is_refused_before_an_attempt_takes_nothing(gateway):
    key = new_caller(gateway, requests_per_minute=1)
    assert gateway.post(b"{", key=key).status == 400
    assert gateway.chat("nobody", key=key).status == 404
    gateway.script("m", "k1", answer(200, chat.completion()))
    assert gateway.chat("m", key=key).status == 200
    assert gateway.chat("m", key=key).status == 429


# Requests in hand


class Crowd:
    """Callers who ask at once, each in a thread, and what they got."""

    def __init__(self, gateway, key, n):
        self.replies = []
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._ask, args=(gateway, key)) for _ in range(n)]
        for thread in self._threads:
            thread.start()

    def _ask(self, gateway, key):
        try:
            reply = gateway.chat("m", key=key, timeout=60.0)
        except (OSError, AssertionError):
            reply = None
        with self._lock:
            self.replies.append(reply)

    def count(self, status):
        with self._lock:
            return sum(1 for reply in self.replies if reply is not None and reply.status == status)

    def wait(self):
        for thread in self._threads:
            thread.join()


@contextlib.contextmanager
def gate(gateway):
    """The upstream holds every request until it is told to let them go, and knows how many it has."""
    is_open = threading.Event()
    state = {"now": 0, "most": 0}

    async def wait(exchange):
        state["now"] += 1
        state["most"] = max(state["most"], state["now"])
        try:
            while not is_open.is_set():
                await exchange.pause(0.01)
        finally:
            state["now"] -= 1

    gateway.script("m", "k1", [wait, *answer(200, chat.completion())])
    try:
        yield state, is_open
    finally:
        is_open.set()


def test_of_100_parallel_requests_exactly_10_are_in_hand_on_a_limit_of_10(gateway):
    key = new_caller(gateway, concurrency=10)
    with gate(gateway) as (state, is_open):
        crowd = Crowd(gateway, key, 100)
        wait_until(lambda: crowd.count(429) == 90, "90 are refused", 60)
        wait_until(lambda: state["now"] == 10, "10 are in hand", 30)
        assert state["most"] == 10
        refused = gateway.chat("m", key=key)
        assert_throttled(gateway, refused, "/v1", "concurrency", 10)
        assert refused.headers["retry-after"] == "1"
        assert refused.headers["ratelimit"] == '"concurrency";r=0'
        assert "ratelimit-limit" not in refused.headers
        is_open.set()
        crowd.wait()
    assert (crowd.count(200), crowd.count(429), state["most"]) == (10, 90, 10)
    gateway.script("m", "k1", answer(200, chat.completion()))
    assert gateway.chat("m", key=key).status == 200


def test_a_killed_worker_frees_its_place_and_only_that(gateway):
    key = new_caller(gateway, concurrency=10)
    with gate(gateway) as (state, is_open):
        crowd = Crowd(gateway, key, 10)
        wait_until(lambda: state["now"] == 10, "10 are in hand", 30)
        for expected in (1, 4):
            before = gateway.workers()
            busy = [row["pid"] for row in gateway.status()["workers"] if row["stage"] == "waiting"][:expected]
            assert len(busy) == expected
            for pid in busy:
                os.kill(pid, signal.SIGKILL)
            wait_until(lambda: len(gateway.workers() - set(busy)) == len(before), "they are replaced", 15)
            wait_until(lambda: state["now"] == 10 - expected, "their upstreams are left", 15)
            more = Crowd(gateway, key, 20)
            wait_until(lambda: more.count(429) == 20 - expected, "no more than the free places are taken", 30)
            wait_until(lambda: state["now"] == 10, "all of them are", 30)
            assert state["most"] == 10
            crowd = more
        is_open.set()
        crowd.wait()
    wait_until(lambda: gateway.get("/v1/models", key=key).headers["ratelimit"] == '"concurrency";r=10', "all are free", 30)
    deaths = [line for line in gateway.router.new_log_text().splitlines() if '"child_died"' in line]
    assert len(deaths) == 5 and all('"signal":9' in line for line in deaths), deaths


def test_one_after_another_is_never_refused_on_a_limit_of_one(gateway):
    """The place is free by the time that a caller has its reply."""
    key = new_caller(gateway, concurrency=1)
    gateway.script("m", "k1", answer(200, chat.completion()))
    assert {gateway.chat("m", stream, key=key).status for stream in [False] * 40} == {200}
    gateway.script("m", "k1", [head(), *[data(event) for event in chat.GOOD_STREAM], end()])
    assert {gateway.chat("m", True, key=key).status for _ in range(40)} == {200}


def test_a_slow_reader_holds_back_its_upstream_and_is_left_after_a_deadline(gateway):
    """It has a place as long as it is served: who does not read must not keep it for ever."""
    event = chat.chunk({"content": "x" * 8000})
    sent = []

    async def note(exchange):
        sent.append(len(event))

    gateway.script("m", "k1", [head(), *[step for _ in range(4000) for step in (data(event), note)], hang()])
    key = new_caller(gateway, concurrency=1)
    call = gateway.call("POST", "/v1/chat/completions", chat.request("m", True), key=key, receive_buffer=4096)
    call.read_until("xxx")
    assert gateway.chat("m", key=key).status == 429
    gateway.upstream.wait_record().wait_closed(timeout=60)
    assert sum(sent) < 4000 * len(event), "the upstream was read to the end for one who does not read"
    gateway.script("m", "k1", answer(200, chat.completion()))
    wait_until(lambda: gateway.chat("m", key=key).status == 200, "the place is free", 30)
    call.close()


# Redis


@pytest.fixture(scope="module")
def plane(tmp_path_factory, base_urls, upstream):
    plane = Plane([tmp_path_factory.mktemp(name) for name in ("first", "second")], base_urls, upstream)
    yield plane
    plane.stop()


@pytest.fixture
def gateways(plane, upstream):
    upstream.reset()
    plane.wait_healthy(timeout=30)
    gateways = [instance.gateway for instance in plane.instances]
    for key in ("k1", "k2"):
        gateways[0].script("m", key, answer(200, chat.completion()))
    yield gateways
    for instance in plane.instances:
        instance.gateway.assert_unbroken()


def alone(gateways):
    return sum(gateway.metric(LIMITS_ALONE) for gateway in gateways)


def window_of(key):
    """Its name in Redis: the first eight bytes of the key's digest, as a number."""
    return f"plane:limit:{int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], 'little'):016x}"


def wait_shared(plane, gateways):
    """Redis is asked again at most a second after it did not answer."""
    key = new_caller(*gateways, requests_per_minute=1000)

    def is_shared():
        replies = [gateway.chat("m", key=key) for gateway in gateways]
        rows = [gateway.event(reply)["admission"][0] for gateway, reply in zip(gateways, replies)]
        return [row["where"] for row in rows] == ["redis"] * len(rows)

    wait_until(is_shared, "Redis counts", 30)


def test_two_instances_share_a_callers_minute_through_redis(plane, gateways):
    first, second = gateways
    for _ in range(5):  # on a busy machine Redis may be too slow now and then
        wait_shared(plane, gateways)
        before = alone(gateways)
        key = new_caller(first, second, requests_per_minute=6, tokens_per_minute=10000)
        replies = [gateway.chat("m", key=key) for gateway in (first, second) * 5]
        if alone(gateways) == before:
            break
    assert alone(gateways) == before
    assert [reply.status for reply in replies] == [200] * 6 + [429] * 4
    assert [reply.headers["x-ratelimit-remaining-requests"] for reply in replies[:6]] == list("543210")
    last = first.event(replies[-2])
    assert [row["where"] for row in last["admission"]] == ["redis", "redis"]
    # Tokens were settled there, too: 6 requests have used 10 each.
    assert replies[-1].headers["x-ratelimit-remaining-tokens"] == str(10000 - 6 * USED)
    found = window_of(key)
    assert plane.redis.command("HGET", found, "requests") == "6"
    assert 0 < plane.redis.command("PTTL", found) <= MINUTE_S * 1000


def test_redis_is_asked_once_before_a_request_and_told_once_after_it(plane, gateways):
    """And not at all for callers without limits, or for lists."""
    wait_shared(plane, gateways)
    first = gateways[0]
    key = new_caller(first, concurrency=5, requests_per_minute=100, tokens_per_minute=10000)
    plane.redis.command("CONFIG", "RESETSTAT")
    assert [first.chat("m", key=key).status for _ in range(3)] == [200] * 3
    assert first.chat("m").status == 200 and first.get("/v1/models", key=key).status == 200
    only_places = new_caller(first, concurrency=5)
    assert first.chat("m", key=only_places).status == 200

    def evals():
        lines = plane.redis.command("INFO", "commandstats").splitlines()
        return [int(re.search(r"calls=(\d+)", line)[1]) for line in lines if line.startswith("cmdstat_eval:")]

    wait_until(lambda: evals() == [6], "6 scripts have run", 10)


def test_a_minute_in_redis_ends_and_what_was_let_in_before_counts_in_the_next(plane, gateways):
    wait_shared(plane, gateways)
    first, second = gateways
    key = new_caller(first, second, requests_per_minute=2, tokens_per_minute=1000)
    with gate(first) as (state, is_open):
        call = first.call("POST", "/v1/chat/completions", chat.request("m"), key=key)
        wait_until(lambda: state["now"] == 1, "it is in hand", 20)
        name = window_of(key)
        assert plane.redis.command("DEL", name) == 1  # as when it lapses
        is_open.set()
        reply = call.reply()
    assert first.event(reply)["admission"][1]["settled"] == USED
    wait_until(lambda: plane.redis.command("HGET", name, "tokens") == str(USED), "its tokens count", 15)
    assert plane.redis.command("HGET", name, "requests") is None
    assert 0 < plane.redis.command("PTTL", name) <= MINUTE_S * 1000
    # A clock that was set back must not lengthen a minute.
    plane.redis.command("PEXPIRE", name, 3600 * 1000)
    assert second.chat("m", key=key).status == 200
    assert 0 < plane.redis.command("PTTL", name) <= MINUTE_S * 1000


@pytest.mark.parametrize("away", ["frozen", "ended"])
def test_without_redis_each_instance_counts_alone_and_callers_are_served(plane, gateways, away):
    wait_shared(plane, gateways)
    first, second = gateways
    key = new_caller(first, second, requests_per_minute=4)
    assert first.chat("m", key=key).status == 200
    before = alone(gateways)
    plane.redis.freeze() if away == "frozen" else plane.redis.end()
    try:
        begun = time.monotonic()
        replies = [first.chat("m", key=key) for _ in range(6)]
        took = time.monotonic() - begun
        assert took < 15, f"callers waited {took} s"
        # It goes on from what Redis said last, and is as strict as before.
        assert [reply.status for reply in replies] == [200] * 3 + [429] * 3
        assert [row["where"] for row in first.event(replies[0])["admission"]] == ["mapping"]
        assert second.chat("m", key=key).status == 200
        assert alone(gateways) >= before + 7
        wait_until(lambda: first.log_lines("limits_alone"), "the log says so")
        assert plane.redis.password not in first.router.log_text()
    finally:
        plane.redis.thaw() if away == "frozen" else plane.redis.start()
    plane.wait_healthy(timeout=30)
    wait_shared(plane, gateways)
    wait_until(lambda: first.log_lines("limits_shared"), "the log says so")


def test_a_redis_that_refuses_what_it_is_asked_is_away(plane, gateways):
    """Out of memory, read-only, or without the right: whatever it says, callers are served."""
    wait_shared(plane, gateways)
    first, second = gateways
    key = new_caller(first, second, requests_per_minute=2)
    before = alone(gateways)
    plane.redis.command("ACL", "SETUSER", "default", "-eval")
    try:
        assert [first.chat("m", key=key).status for _ in range(3)] == [200, 200, 429]
        assert alone(gateways) >= before + 3
    finally:
        plane.redis.command("ACL", "SETUSER", "default", "+eval")
    wait_shared(plane, gateways)


def test_the_rights_that_the_runbook_gives_are_enough(plane, gateways):
    lines = (ROOT / "admin" / "RUNBOOK.md").read_text().splitlines()
    words = [word for line in lines if line.startswith("ACL SETUSER llm-router ") for word in line.split()[3:]]
    rights = [word for word in words if word[:2] in ("-@", "+@") or word[0] == "+"]
    assert "~limit:*" in words and "-@all" in rights
    client = plane.redis.connect()  # what it may do is looked at with each command, also of this one
    try:
        client.command("ACL", "SETUSER", "default", *rights, "+acl", "resetkeys", "~plane:limit:*")
        wait_shared(plane, gateways)
    finally:
        client.command("ACL", "SETUSER", "default", "+@all", "~*")
        client.close()

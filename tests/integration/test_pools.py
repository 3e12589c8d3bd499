"""maxConcurrency: an upstream has in hand what it may, and no more. One instance, which counts in its own memory;
test_pools_shared.py has two of them and a Redis.
Which scenario of the specification is tested where stands in tests/README.md.
"""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import chat
from desk import Desk
from gateway import MOUNTS, Gateway
from pools import (
    SPOKEN, app_id, assert_saturated, counter, fresh, hold, leave, pool_of, skipped, slots, spoken_by, tried, use_speech
)
from processes import wait_until
from scripts import JSON, answer, close, data, flood, hang, head, pause
from speech import MP3, audio
from tree import Tree, hostile, model, speaker

WORKERS = 64
SLACK_S = 2.0
CHATTED = answer(200, chat.completion())


@pytest.fixture(scope="module")
def module_gateway(tmp_path_factory, base_urls, upstream):
    folder = tmp_path_factory.mktemp("pools")
    gateway = Gateway(folder, base_urls, upstream, workers=WORKERS, flags=["--queue-timeout-ms", "30000"])
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(module_gateway, upstream):
    upstream.reset()
    yield module_gateway
    module_gateway.assert_unbroken()
    assert not upstream.unexpected


# Routing by what is free


@pytest.mark.parametrize("n", [5, 10])
def test_ae1_fifty_at_once_are_spread_evenly(gateway, n):
    desks = {f"app{i}": Desk(10, SPOKEN) for i in range(n)}
    name = use_speech(gateway, *[slots(app, 10) for app in desks])
    for app, desk in desks.items():
        gateway.script(name, f"k-{app}", desk.script)
    with ThreadPoolExecutor(50) as callers:
        replies = [callers.submit(gateway.say, name) for _ in range(50)]
        wait_until(lambda: sum(desk.now for desk in desks.values()) == 50, "all fifty are in hand", 30)
        assert [desk.now for desk in desks.values()] == [50 // n] * n
        for desk in desks.values():
            desk.release()
        assert [reply.result().status for reply in replies] == [200] * 50
    assert not any(desk.refused for desk in desks.values())


def test_a_full_upstream_is_passed_over(gateway):
    name = use_speech(gateway, slots("a", 2), slots("b", 1), slots("c", None))
    gateway.script(name, "k-a", [hang()])
    gateway.script(name, "k-b", [hang()])
    gateway.script(name, "k-c", SPOKEN)
    calls = hold(gateway, name, 3)  # a and b are free alike, then b, then the second of a
    reply = gateway.say(name)
    assert reply.status == 200
    event = gateway.event(reply)
    assert tried(event) == ["c"] and pool_of(event)["result"] == "settled"
    assert skipped(event) == {}  # they were put behind it, and not needed
    leave(gateway, calls)


def test_the_largest_part_that_is_free_decides(gateway):
    name = use_speech(gateway, slots("small", 2), slots("large", 10))
    gateway.script(name, "k-small", [hang()])
    gateway.script(name, "k-large", [hang()])
    calls = hold(gateway, name, 6)
    app_of = {gateway.keys.plaintext(name, f"k-{app}"): app for app in ("small", "large")}
    took = [app_of[record.key] for record in gateway.upstream.records]
    assert took == ["small", "large", "large", "large", "large", "large"]
    leave(gateway, calls)


@pytest.mark.parametrize("mount", MOUNTS)
def test_when_all_are_full_it_is_said_at_once(gateway, mount):
    name = use_speech(gateway, slots("a", 1), slots("b", 1))
    gateway.script(name, "k-a", [hang()])
    gateway.script(name, "k-b", [hang()])
    calls = hold(gateway, name, 2)
    before = counter(gateway, "slot_rejected", app_id(name, "a"))
    begun = time.monotonic()
    reply = gateway.say(name, mount=mount)
    assert time.monotonic() - begun < SLACK_S
    event = assert_saturated(gateway, reply, mount, name, 2)
    assert skipped(event) == {"a": "pool_full", "b": "pool_full"}
    assert len(gateway.upstream.records) == 2
    assert counter(gateway, "slot_rejected", app_id(name, "a")) == before + 1
    leave(gateway, calls)


def test_one_upstream_that_is_not_full_is_asked_as_before(gateway):
    with_limit, without = fresh("say"), fresh("say")
    gateway.use(
        Tree(speech=[speaker(with_limit, "openai", slots("a", 3)), speaker(without, "openai", slots("a", None))])
    )
    seen = []
    for name in (without, with_limit):
        gateway.script(name, "k-a", SPOKEN)
        reply = gateway.say(name)
        event = gateway.event(reply)
        record = gateway.upstream.records[-1]
        attempt = event["attempts"][0]
        body = record.body.replace(name.encode(), b"NAME")
        seen.append((reply.status, reply.body, body, sorted(record.headers), attempt["verdict"], event["end"]))
        assert ("admission" in event) == (name == with_limit)
    assert seen[0] == seen[1]


def test_models_that_name_an_upstream_alike_do_not_share_its_slots(gateway):
    one, other = fresh("say"), fresh("say")
    gateway.use(Tree(speech=[speaker(one, "openai", slots("plan", 1)), speaker(other, "openai", slots("plan", 1))]))
    gateway.script(one, "k-plan", [hang()])
    gateway.script(other, "k-plan", SPOKEN)
    calls = hold(gateway, one)
    assert gateway.say(other).status == 200
    assert gateway.say(one).status == 503
    leave(gateway, calls)


def test_models_that_name_one_app_share_its_slots(gateway):
    one, other = fresh("say"), fresh("say")
    app = {"adapterParams": {"appid": fresh("app")}, "maxConcurrency": 1}
    gateway.use(Tree(speech=[speaker(name, "volcengine", hostile("u", "k", **app)) for name in (one, other)]))
    for name in (one, other):
        gateway.upstream.bind(f"Bearer;{gateway.keys.plaintext(name, 'k')}", [hang()])
    calls = hold(gateway, one)
    reply = gateway.say(other)
    assert reply.status == 503
    event = gateway.event(reply)
    assert skipped(event) == {"u": "pool_full"}
    leave(gateway, calls)
    (event,) = leave(gateway, hold(gateway, other))
    assert pool_of(event)["pool"] == f"tts:pool:{app['adapterParams']['appid']}"


# The slot comes back


def end_well(gateway, name):
    gateway.script(name, "k-a", SPOKEN)
    assert gateway.say(name).status == 200


def end_in_failure(gateway, name):
    gateway.script(name, "k-a", answer(500, "{}"))
    assert gateway.say(name).status == 502


def end_in_timeout(gateway, name):
    gateway.script(name, "k-a", [hang()])
    assert gateway.say(name).status == 504


def end_in_refusal(gateway, name):
    gateway.script(name, "k-a", answer(400, '{"error":{"message":"no such voice","code":"invalid_voice"}}'))
    assert gateway.say(name).status == 400


def end_cut(gateway, name):
    gateway.script(name, "k-a", [head(200, MP3), data(audio(2000)), pause(0.1), close()])
    call = gateway.speak(name)
    call.read_until("ID3")
    assert not call.reply().is_whole


def end_by_departure_before(gateway, name):
    gateway.script(name, "k-a", [hang()])
    call = hold(gateway, name)[0]
    call.close()
    gateway.event(call)


def end_by_departure_within(gateway, name):
    gateway.script(name, "k-a", [head(200, MP3), data(audio(2000)), hang()])
    call = gateway.speak(name)
    call.read_until("ID3")
    call.close()
    gateway.event(call)


def end_by_death(gateway, name):
    gateway.script(name, "k-a", [hang()])
    before = gateway.workers()
    call = hold(gateway, name)[0]
    (busy,) = [worker["pid"] for worker in gateway.status()["workers"] if worker["stage"] == "waiting"]
    os.kill(busy, signal.SIGKILL)
    wait_until(lambda: len(gateway.workers() - {busy}) == len(before), "another is there", 15)
    call.close()
    gateway.event(call)
    gateway.router.new_log_text()  # that it died is no news


ENDS = [
    end_well,
    end_in_failure,
    end_in_timeout,
    end_in_refusal,
    end_cut,
    end_by_departure_before,
    end_by_departure_within,
    end_by_death,
]


@pytest.mark.parametrize("end_request", ENDS, ids=lambda end_request: end_request.__name__)
def test_a_slot_comes_back_however_its_request_ends(gateway, end_request):
    name = use_speech(gateway, slots("a", 1, timeoutMs=700))
    for _ in range(2):
        end_request(gateway, name)
        gateway.script(name, "k-a", SPOKEN)
        reply = gateway.say(name)
        assert reply.status == 200, reply


def test_a_key_that_cannot_be_opened_leaves_no_slot_behind(gateway):
    name = use_speech(gateway, slots("a", 1))
    gateway.script(name, "k-a", SPOKEN)
    document, _ = gateway.render(spoken_by(name, slots("a", 1, "k-a")))
    sealed = gateway.keys.ciphertext(name, "k-a")
    other = gateway.keys.encrypt(name, "k-other", "sk-other")
    gateway.write_entry("LLM_ROUTER_CONFIG", document.replace(sealed, other))
    gateway.reload()
    wait_until(lambda: gateway.say(name).status == 503, "the key cannot be opened")
    for _ in range(3):
        reply = gateway.say(name)
        assert reply.status == 503 and reply.json()["error"]["code"] == "decrypt_failed", reply


def test_of_many_that_follow_one_another_each_finds_the_slot_free(gateway):
    name = use_speech(gateway, slots("a", 1))
    gateway.script(name, "k-a", SPOKEN)
    assert [gateway.say(name).status for _ in range(100)] == [200] * 100


# What providers say


def test_ae3_after_a_429_others_are_asked_for_a_while(gateway):
    name = use_speech(gateway, slots("a", 10), slots("b", 10))
    gateway.script(name, "k-a", answer(429, "{}", {"retry-after": "2"}), SPOKEN)
    gateway.script(name, "k-b", SPOKEN)
    before = counter(gateway, "saturation_marked", app_id(name, "a"))
    reply = gateway.say(name)
    marked_at = time.monotonic()
    assert reply.status == 200 and tried(gateway.event(reply)) == ["a", "b"]
    events = [gateway.event(gateway.say(name)) for _ in range(4)]
    if time.monotonic() - marked_at < 1.9:
        assert [tried(event) for event in events] == [["b"]] * 4
        assert [skipped(event) for event in events] == [{"a": "pool_saturated"}] * 4
    wait_until(lambda: tried(gateway.event(gateway.say(name))) == ["a"], "it is asked again", 15)
    assert time.monotonic() - marked_at >= 1.9
    assert counter(gateway, "saturation_marked", app_id(name, "a")) == before + 1


@pytest.mark.parametrize(
    "refusal",
    [
        answer(200, '{"code":3003,"message":"concurrency exceeded"}', JSON),
        answer(403, '{"code":3001,"message":"quota exceeded for types: concurrency"}', JSON),
    ],
    ids=["code", "words"],
)
def test_a_providers_own_word_for_too_many_at_once_marks_too(gateway, refusal):
    name = fresh("say")
    app = {"adapterParams": {"appid": fresh("app")}, "maxConcurrency": 10}
    gateway.use(Tree(speech=[speaker(name, "volcengine", hostile("u", "k", **app))]))
    gateway.upstream.bind(f"Bearer;{gateway.keys.plaintext(name, 'k')}", refusal)
    first, second = gateway.event(gateway.say(name)), gateway.event(gateway.say(name))
    assert (tried(first), first["attempts"][0]["verdict"]) == (["u"], "rate")
    assert (tried(second), skipped(second)) == ([], {"u": "pool_saturated"})


@pytest.mark.parametrize(
    "failure",
    [
        answer(500, "{}"),
        answer(502, "{}"),
        answer(503, "{}", {"retry-after": "9"}),
        answer(401, "{}"),
        answer(404, "{}"),
        [head(200, MP3), close()],
        [hang()],
    ],
    ids=["500", "502", "503", "401", "404", "cut", "timeout"],
)
def test_other_failures_do_not_mark(gateway, failure):
    name = use_speech(gateway, slots("a", 10, timeoutMs=700), slots("b", 10))
    gateway.script(name, "k-a", failure, SPOKEN)
    gateway.script(name, "k-b", SPOKEN)
    assert [tried(gateway.event(gateway.say(name))) for _ in range(2)] == [["a", "b"], ["a"]]
    assert counter(gateway, "saturation_marked", app_id(name, "a")) == 0


def test_a_pool_without_limit_honours_the_mark_too(gateway):
    name = use_speech(gateway, slots("free", None), slots("b", 10))
    gateway.script(name, "k-free", answer(429, "{}", {"retry-after": "30"}))
    gateway.script(name, "k-b", SPOKEN)
    assert [tried(gateway.event(gateway.say(name))) for _ in range(3)] == [["free", "b"], ["b"], ["b"]]


@pytest.mark.parametrize("mount", MOUNTS)
def test_when_all_are_saturated_the_caller_is_told_how_long(gateway, mount):
    name = use_speech(gateway, slots("a", 10), slots("b", 10))
    gateway.script(name, "k-a", answer(429, "{}", {"retry-after": "50"}))
    gateway.script(name, "k-b", answer(429, "{}", {"retry-after": "40"}))
    assert gateway.say(name).status == 503  # both were asked, and say so
    reply = gateway.say(name, mount=mount)
    wait_s = int(reply.headers["retry-after"])
    assert 40 - 15 < wait_s <= 40, reply
    event = assert_saturated(gateway, reply, mount, name, 2, str(wait_s))
    assert skipped(event) == {"a": "pool_saturated", "b": "pool_saturated"}


def test_a_429_that_does_not_say_how_long_saturates_for_fifteen_seconds(gateway):
    name = use_speech(gateway, slots("a", 10))
    gateway.script(name, "k-a", answer(429, "{}"))
    begun = time.monotonic()
    assert gateway.say(name).status == 503  # it was asked, and says so
    reply = gateway.say(name)
    passed_s = time.monotonic() - begun
    wait_s = int(reply.headers["retry-after"])
    assert 0 < wait_s <= 15 and wait_s >= 15 - passed_s, reply
    assert_saturated(gateway, reply, "/v1", name, 1, str(wait_s))


def test_one_key_of_several_does_not_mark_the_pool(gateway):
    name = use_speech(gateway, slots("a", 10, "k1", "k2"), slots("b", 10))
    gateway.script(name, "k1", answer(429, "{}"))
    gateway.script(name, "k2", SPOKEN)
    gateway.script(name, "k-b", SPOKEN)
    assert [tried(gateway.event(gateway.say(name))) for _ in range(2)] == [["a", "a"], ["a", "a"]]
    gateway.script(name, "k2", answer(429, "{}"))
    assert [tried(gateway.event(gateway.say(name))) for _ in range(2)] == [["a", "a", "b"], ["b"]]


# The chain


def test_a_full_upstream_is_asked_again_when_it_is_its_turn(gateway):
    name = use_speech(gateway, slots("a", 1), slots("b", 10))
    desk = Desk(1, SPOKEN)
    gateway.script(name, "k-a", desk.script)
    gateway.script(name, "k-b", [pause(1.0), *answer(500, "{}")])
    call = hold(gateway, name)[0]
    second = gateway.speak(name)
    gateway.upstream.wait_record(2)
    desk.release()
    assert call.reply().status == 200
    reply = second.reply()
    assert reply.status == 200 and tried(gateway.event(reply)) == ["b", "a"]


def test_a_full_upstream_is_skipped_when_it_is_its_turn_and_what_was_tried_decides(gateway):
    name = use_speech(gateway, slots("a", 1), slots("b", 10))
    gateway.script(name, "k-a", [hang()])
    gateway.script(name, "k-b", answer(500, "{}"))
    calls = hold(gateway, name)
    reply = gateway.say(name)
    assert reply.status == 502 and reply.json()["error"]["details"]["triedUpstreams"] == 1
    event = gateway.event(reply)
    assert tried(event) == ["b"] and skipped(event) == {"a": "pool_full"} and event["fallback_depth"] == 0
    leave(gateway, calls)


def test_a_second_opinion_is_asked_of_one_that_has_a_slot(gateway):
    name = fresh("m")
    gateway.use(Tree(model(name, slots("a", 5), slots("b", 1), slots("c", 5))))
    unproven = answer(422, '{"error":{"message":"we do not like it"}}')
    gateway.script(name, "k-a", CHATTED, unproven, unproven)
    gateway.script(name, "k-b", [head(), data(chat.HELLO), hang()])
    gateway.script(name, "k-c", CHATTED)
    assert tried(gateway.event(gateway.chat(name))) == ["a"]
    call = gateway.begin(name, stream=True)  # a refuses it, b has it from now on
    call.read_until("Hello")
    reply = gateway.chat(name)
    assert reply.status == 200
    event = gateway.event(reply)
    assert tried(event) == ["a", "c"] or tried(event) == ["c"], event
    call.close()


def test_a_caller_that_may_not_ask_takes_no_slot(gateway):
    name = use_speech(gateway, slots("a", 1))
    gateway.script(name, "k-a", SPOKEN)
    key = gateway.ctl("caller-key", "add", "--id", fresh("limited"), "--requests-per-minute", "1").strip()
    gateway.reload()
    wait_until(lambda: gateway.get("/v1/models", key=key).status == 200, "the key is known")

    def say():
        return gateway.call("POST", "/v1/audio/speech", {"model": name, "input": "x", "voice": "alloy"}, key=key).reply()

    assert say().status == 200
    for _ in range(3):
        reply = say()
        assert reply.status == 429 and not [r for r in gateway.event(reply)["admission"] if r["meter"] == "pool"]
    assert gateway.say(name).status == 200


def test_a_request_that_finds_no_slot_does_not_count_for_its_caller(gateway):
    name = use_speech(gateway, slots("a", 1))
    gateway.script(name, "k-a", [hang()])
    key = gateway.ctl("caller-key", "add", "--id", fresh("limited"), "--requests-per-minute", "2").strip()
    gateway.reload()
    wait_until(lambda: gateway.get("/v1/models", key=key).status == 200, "the key is known")
    calls = hold(gateway, name)
    for _ in range(5):
        reply = gateway.call("POST", "/v1/audio/speech", {"model": name, "input": "x", "voice": "alloy"}, key=key).reply()
        assert reply.status == 503, reply
        rows = {row["meter"]: row["result"] for row in gateway.event(reply)["admission"]}
        assert rows == {"requests": "cancelled", "pool": "refused"}
    leave(gateway, calls)


# Chat


def test_chat_has_slots_too(gateway):
    name = fresh("m")
    gateway.use(Tree(model(name, slots("a", 1), slots("b", 1))))
    for key in ("k-a", "k-b"):
        gateway.script(name, key, [head(), data(chat.HELLO), hang()])
    calls = [gateway.begin(name, stream=True) for _ in range(2)]
    for call in calls:
        call.read_until("Hello")
    for mount, code in (("/v1", "no_candidate_free"), ("/api/v1/openai", "SERVICE_UNAVAILABLE")):
        reply = gateway.chat(name, stream=True, mount=mount)
        assert reply.status == 503 and reply.headers["retry-after"] == "1"
        error = reply.json()["error"]
        assert (error if isinstance(error, str) else error["code"]) == code
    calls[0].close()
    gateway.event(calls[0])
    gateway.script(name, "k-a", CHATTED)
    gateway.script(name, "k-b", CHATTED)
    assert gateway.chat(name).status == 200
    calls[1].close()


# Keeping it


def test_a_lease_outlives_a_long_silence_and_a_caller_who_does_not_read(gateway):
    """Longer than a lease lasts without renewal: 10 s."""
    silent, slow = fresh("silent"), fresh("slow")
    gateway.use(
        Tree(speech=[speaker(silent, "openai", slots("a", 1)), speaker(slow, "openai", slots("b", 1))])
    )
    gateway.script(silent, "k-a", [hang()])
    gateway.script(slow, "k-b", [head(200, MP3), flood(audio(65536))])
    calls = hold(gateway, silent)
    calls.append(gateway.speak(slow))
    calls[-1].read_until("ID3")  # and nothing more
    time.sleep(12)
    assert [gateway.say(name).status for name in (silent, slow)] == [503, 503]
    leave(gateway, calls)
    gateway.script(silent, "k-a", SPOKEN)
    gateway.script(slow, "k-b", SPOKEN)
    assert [gateway.say(name).status for name in (silent, slow)] == [200, 200]

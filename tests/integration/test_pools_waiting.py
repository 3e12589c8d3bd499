"""poolWaitMs: who finds no slot waits for one, first come, first served; and what is seen of pools."""

import json
import time

import pytest

from desk import Desk
from gateway import Gateway
from pools import (
    METRIC, SPOKEN, app_id, assert_saturated, counter, fresh, hold, in_stage, leave, pool_metrics, pool_of, slots,
    spoken_by, tried, use_speech,
)
from processes import wait_until
from scripts import answer, data, hang, head
from speech import MP3, audio
from tree import Tree, speaker

SLACK_S = 2.0
PROMISED_S = 0.2  # until a departed caller is noticed
WAITED = METRIC + "wait_duration_seconds_count"


@pytest.fixture(scope="module")
def module_gateway(tmp_path_factory, base_urls, upstream):
    folder = tmp_path_factory.mktemp("waiting")
    gateway = Gateway(folder, base_urls, upstream, workers=16, flags=["--queue-timeout-ms", "30000"])
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(module_gateway, upstream):
    upstream.reset()
    yield module_gateway
    module_gateway.assert_unbroken()
    assert not upstream.unexpected


def queue_up(gateway, name, inputs):
    """Requests that wait, one behind the other: their calls."""
    busy = in_stage(gateway, "waiting")
    calls = []
    for text in inputs:
        calls.append(gateway.speak(name, input=text))
        wait_until(lambda: in_stage(gateway, "waiting") == busy + len(calls), f"{text} waits", 10)
    return calls


def inputs_seen(upstream):
    return [json.loads(record.body)["input"] for record in upstream.records]


def test_who_waits_gets_the_slot_that_comes_free(gateway):
    name = use_speech(gateway, slots("a", 1), poolWaitMs=20000)
    desk = Desk(1, SPOKEN)
    gateway.script(name, "k-a", desk.script)
    before = gateway.metric(WAITED)
    first = hold(gateway, name)[0]
    (second,) = queue_up(gateway, name, ["second"])
    time.sleep(0.3)
    desk.release()
    assert (first.reply().status, second.reply().status) == (200, 200)
    row = pool_of(gateway.event(second))
    assert (row["result"], row["held"]) == ("settled", 1) and row["waited_us"] >= 300000
    assert "waited_us" not in pool_of(gateway.event(first))
    assert gateway.event(second)["overhead_us"] < row["waited_us"]
    assert gateway.metric(WAITED) == before + 1 and desk.most == 1 and desk.refused == 0


def test_they_are_served_in_the_order_in_which_they_came(gateway):
    name = use_speech(gateway, slots("a", 1), slots("b", 1), poolWaitMs=30000)
    a, b = Desk(1, SPOKEN, seconds=0.3), Desk(1, SPOKEN, seconds=0.3)
    gateway.script(name, "k-a", a.script)
    gateway.script(name, "k-b", b.script)
    calls = hold(gateway, name, 2) + queue_up(gateway, name, ["1", "2"])
    calls += [gateway.speak(name, input=text) for text in "3456" if not time.sleep(0.05)]
    assert [call.reply().status for call in calls] == [200] * 8
    seen = inputs_seen(gateway.upstream)[2:]
    # Two slots may come free at the same moment: who of a pair is first at the upstream is open.
    assert [sorted(seen[i : i + 2]) for i in (0, 2, 4)] == [["1", "2"], ["3", "4"], ["5", "6"]], seen
    assert (a.refused, b.refused) == (0, 0)


def test_a_newcomer_does_not_overtake_who_waits(gateway):
    """Not even one of another model, which would not wait."""
    patient, hasty = fresh("patient"), fresh("hasty")
    app = {"adapterParams": {"appid": fresh("app")}}
    gateway.use(
        Tree(
            speech=[
                speaker(patient, "volcengine", slots("u", 1, **app), poolWaitMs=30000),
                speaker(hasty, "volcengine", slots("u", 1, **app)),
            ]
        )
    )
    for name in (patient, hasty):
        gateway.upstream.bind(f"Bearer;{gateway.keys.plaintext(name, 'k-u')}", [hang()])
    holder = hold(gateway, hasty)
    waiting = queue_up(gateway, patient, ["waits"])
    assert gateway.say(hasty).status == 503
    leave(gateway, holder)
    gateway.upstream.wait_record(2)
    assert gateway.say(hasty).status == 503
    (event,) = leave(gateway, waiting)
    assert event["model"] == patient and tried(event) == ["u"]


def test_when_the_time_is_over_it_is_said(gateway):
    name = use_speech(gateway, slots("a", 1), poolWaitMs=400)
    gateway.script(name, "k-a", [hang()])
    calls = hold(gateway, name)
    begun = time.monotonic()
    reply = gateway.say(name)
    assert 0.4 <= time.monotonic() - begun < 0.4 + SLACK_S
    event = assert_saturated(gateway, reply, "/v1", name, 1)
    assert pool_of(event)["waited_us"] >= 400000
    leave(gateway, calls)
    gateway.script(name, "k-a", SPOKEN)
    assert gateway.say(name).status == 200  # nobody is left in the queue


def test_no_longer_than_the_chain_may_take(gateway):
    name = fresh("say")
    tree = spoken_by(name, slots("a", 1), poolWaitMs=60000)
    tree.defaults = {"fullChainTimeoutMs": 500}
    gateway.use(tree)
    gateway.script(name, "k-a", [head(200, MP3), data(audio(2000)), hang()])
    calls = hold(gateway, name)
    calls[0].read_until("ID3")  # its chain has ended well
    begun = time.monotonic()
    reply = gateway.say(name)
    assert reply.status == 503 and 0.3 <= time.monotonic() - begun < 0.5 + SLACK_S
    leave(gateway, calls)


def test_a_caller_who_leaves_is_noticed_and_no_longer_in_the_way(gateway):
    name = use_speech(gateway, slots("a", 1), poolWaitMs=60000)
    desk = Desk(1, SPOKEN)
    gateway.script(name, "k-a", desk.script)
    first = hold(gateway, name)[0]
    gone, stays = queue_up(gateway, name, ["gone", "stays"])
    left = gone.close()
    event = gateway.event(gone)
    assert time.monotonic() - left < PROMISED_S + SLACK_S
    assert event["end"] == "client_gone" and event["attempts"] == [] and "status" not in event
    assert pool_of(event)["result"] == "cancelled"
    desk.release()
    assert (first.reply().status, stays.reply().status) == (200, 200)
    assert inputs_seen(gateway.upstream)[1:] == ["stays"]


def test_nobody_waits_for_what_will_be_saturated_for_longer(gateway):
    name = use_speech(gateway, slots("a", 5), poolWaitMs=10000)
    gateway.script(name, "k-a", answer(429, "{}", {"retry-after": "55"}))
    assert gateway.say(name).status == 503
    begun = time.monotonic()
    reply = gateway.say(name)
    assert reply.status == 503 and time.monotonic() - begun < SLACK_S
    assert 55 - 15 < int(reply.headers["retry-after"]) <= 55


def test_but_for_what_will_be_free_of_it_in_time(gateway):
    name = use_speech(gateway, slots("a", 5), poolWaitMs=20000)
    gateway.script(name, "k-a", answer(429, "{}", {"retry-after": "1"}), SPOKEN)
    assert gateway.say(name).status == 503
    assert gateway.say(name).status == 200


# What is seen


def test_gauges_say_what_is_in_hand(gateway):
    name = use_speech(gateway, slots("a", 3), slots("b", 7), slots("c", None))
    for key in ("k-a", "k-b"):
        gateway.script(name, key, [hang()])
    a, b, c = (app_id(name, upstream) for upstream in "abc")

    def gauges(label):
        return pool_metrics(gateway, "inflight{", label), pool_metrics(gateway, "capacity{", label)

    calls = hold(gateway, name, 4)  # a, b, b, b and a by their parts: a 1 of 3, b 3 of 7
    wait_until(lambda: gauges(a)[0] == [1] and gauges(b)[0] == [3], "the gauges are read", 20)
    assert (gauges(a)[1], gauges(b)[1]) == ([3], [7])
    assert gauges(c) == ([], [])  # it has no limit
    leave(gateway, calls)
    wait_until(lambda: gauges(a)[0] == [0], "and read again", 20)
    use_speech(gateway, slots("a", 1))
    wait_until(lambda: gauges(a) == ([], []), "a pool that is gone has none", 20)
    assert counter(gateway, "slot_rejected", a) == 0

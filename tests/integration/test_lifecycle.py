"""Workers that retire, requests that are ended, children that cry, and the brake on
those that die again and again."""

import json
import os
import signal
import stat
import time

import pytest

import chat
from load import Ask, Front, closed_loop
from processes import wait_until
from scripts import answer, data, hang, head
from tree import Tree, hostile, model

SLACK_S = 1.0


def tree():
    return Tree(model("m", hostile("a", "k1")))


def log_lines(gateway):
    """The log, every line of which must be an object."""
    return [json.loads(line) for line in gateway.router.log_text().splitlines()]


# Retirement


def test_a_worker_retires_after_its_requests_and_none_is_lost(start_gateway):
    gateway = start_gateway(tree(), workers=2, flags=["--max-requests", "20"])
    gateway.script("m", "k1", answer(200, chat.completion()))
    before = gateway.workers()
    outcomes, _ = closed_loop(Front(gateway.caller_key, port=gateway.port), [Ask("plain", "m")], 4, count=120).result(
        60
    )
    assert [outcome for outcome in outcomes if not outcome.is_served] == []
    wait_until(lambda: len(gateway.workers()) == 2, "both workers are there")
    assert not before & gateway.workers(), "a worker has served more than 20 requests, give or take a tenth"
    events = {line["event"] for line in log_lines(gateway)}
    assert "child_died" not in events, "retirement is no accident"
    assert gateway.metric("airi_gen_ai_gateway_worker_deaths_total") == 0


def test_a_worker_that_need_not_retire_does_not(start_gateway):
    gateway = start_gateway(tree(), workers=2, flags=["--max-requests", "0"])
    gateway.script("m", "k1", answer(200, chat.completion()))
    before = gateway.workers()
    closed_loop(Front(gateway.caller_key, port=gateway.port), [Ask("plain", "m")], 2, count=100).result(60)
    assert gateway.workers() == before


# The hard limit


@pytest.mark.parametrize("is_stream", [False, True], ids=["plain", "streamed"])
def test_a_request_past_its_limit_is_ended_with_its_worker_and_told_of(start_gateway, is_stream):
    gateway = start_gateway(tree(), workers=2, flags=["--request-limit-ms", "1500"])
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()] if is_stream else [hang()])
    begun = time.monotonic()
    call = gateway.begin("m", is_stream)
    record = gateway.upstream.wait_record()
    reply = call.reply()
    took = time.monotonic() - begun
    assert 1.4 < took < 1.5 + 1.0 + SLACK_S, f"it was ended after {took:.3f} s"  # the master looks once a second
    assert not reply.is_whole if is_stream else reply.status >= 500
    record.wait_closed(1)
    event = gateway.event(call)
    assert event["end"] == "worker_died"
    assert event["total_us"] > 1_400_000
    ended = [line for line in log_lines(gateway) if line["event"] == "request_limit"]
    assert len(ended) == 1 and ended[0]["level"] == "error"
    gateway.script("m", "k1", answer(200, chat.completion()))
    wait_until(lambda: len(gateway.workers()) == 2, "the worker is replaced")
    assert gateway.chat("m").status == 200


def test_a_request_below_its_limit_goes_on_while_others_are_ended(start_gateway):
    gateway = start_gateway(tree(), workers=2, flags=["--request-limit-ms", "1500"])
    gateway.script("m", "k1", [hang()], answer(200, chat.completion()))
    held = gateway.begin("m")
    gateway.upstream.wait_record()
    begun = time.monotonic()
    while time.monotonic() - begun < 3:
        assert gateway.chat("m").status == 200
        time.sleep(0.02)
    held.reply()


# Slow requests


@pytest.mark.parametrize("stage", ["waiting", "streaming"])
def test_a_slow_request_is_told_of_once_while_it_lasts(start_gateway, stage):
    gateway = start_gateway(tree(), workers=2, flags=["--slow-request-ms", "1000"])
    gateway.script("m", "k1", [hang()] if stage == "waiting" else [head(), data(chat.HELLO), hang()])
    call = gateway.begin("m", stream=True)
    lines = wait_until(lambda: gateway.log_lines("slow_request"), "it is told of")
    assert len(lines) == 1
    told = lines[0]
    assert told["request_id"] == call.request_id and told["model"] == "m" and told["stage"] == stage
    assert told["endpoint"] == "chat/completions" and told["upstream"] and told["level"] == "warn"
    assert 1000 <= told["total_ms"] < 5000 and 0 < told["stage_ms"] <= told["total_ms"]
    time.sleep(1.5)
    assert len(gateway.log_lines("slow_request")) == 1
    call.close()


def test_requests_that_are_quick_are_not_told_of(start_gateway):
    gateway = start_gateway(tree(), workers=1, flags=["--slow-request-ms", "1000"])
    gateway.script("m", "k1", answer(200, chat.completion()))
    end = time.monotonic() + 2.5
    while time.monotonic() < end:
        assert gateway.chat("m").status == 200
    assert gateway.log_lines("slow_request") == []


# What children say


def standard_error_of(pid):
    """A child's standard error, to write on: as a library in it does."""
    path = f"/proc/{pid}/fd/2"
    if not os.access(path, os.W_OK):
        pytest.skip(f"{path} is for root only")
    assert stat.S_ISFIFO(os.stat(path).st_mode), "children write to the master, and not to the log itself"
    return os.open(path, os.O_WRONLY)


def said_whole(gateway):
    """The lines that came from children, once the last of them is there."""
    lines = [line for line in log_lines(gateway) if line["event"] == "child_stderr"]
    return lines if lines and lines[-1]["text"] == "the end" else None


@pytest.mark.parametrize("role", ["worker", "keeper", "overflow", "shipper"])
def test_what_a_child_says_becomes_a_line_of_the_log(start_gateway, role):
    gateway = start_gateway(workers=1)  # and no tree: they share a pipe, and the keeper would have a word to say
    fd = standard_error_of(gateway.process_of(role))
    own = b'{"time":"now","event":"a_line_of_ours"}\n'
    os.write(fd, b"libsomething: something is \x1b[31mwrong\x1b[0m \xff\n")
    os.write(fd, own)
    os.write(fd, b"in two ")
    time.sleep(0.1)
    os.write(fd, b"pieces\n\n")
    os.write(fd, b"very " * 2000 + b"long\n")
    os.write(fd, b"the end\n")
    os.close(fd)
    said = wait_until(lambda: said_whole(gateway), "all of it came")
    assert "libsomething: something is" in said[0]["text"] and said[0]["level"] == "warn"
    assert said[1]["text"] == "in two pieces"
    assert all("very very" in line["text"] for line in said[2:-1])
    assert own in gateway.router.log.read_bytes(), "a line of ours passes as it is"
    assert all(len(line) < 4096 for line in gateway.router.log.read_bytes().splitlines())


# The brake


def test_who_dies_again_and_again_is_started_with_growing_delays(start_gateway):
    gateway = start_gateway(tree(), workers=1)
    time.sleep(1.1)
    delays = []
    for _ in range(4):
        pid = wait_until(gateway.workers, "there is a worker").pop()
        os.kill(pid, signal.SIGKILL)
        begun = time.monotonic()
        wait_until(lambda gone=pid: gateway.workers() - {gone}, "there is a worker again")
        delays.append(time.monotonic() - begun)
    for took, expected in zip(delays, [0, 0.1, 0.2, 0.4]):
        assert expected <= took < expected + 1.0, f"delays of {delays} s"
    time.sleep(1.1)  # who lives for a second is no longer young
    pid = gateway.workers().pop()
    os.kill(pid, signal.SIGKILL)
    begun = time.monotonic()
    wait_until(lambda: gateway.workers() - {pid}, "there is a worker again")
    assert time.monotonic() - begun < 0.8, "the next delay"


def test_while_no_worker_lives_callers_are_told_in_time(start_gateway):
    gateway = start_gateway(tree(), workers=1)
    for _ in range(6):  # the next one comes after 1.6 s or more
        pid = wait_until(gateway.workers, "there is a worker").pop()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda gone=pid: gone not in gateway.workers(), "it is gone")
    begun = time.monotonic()
    reply = gateway.chat("m")
    assert reply.status == 503 and reply.headers["retry-after"] == "1", reply
    assert time.monotonic() - begun < 1.1 + SLACK_S
    assert gateway.get("/livez", key=None).status == 200
    assert gateway.get("/readyz", key=None).json()["checks"]["workers"] == "fail"


def test_the_status_shows_what_is_in_hand_to_people_and_to_programs(start_gateway):
    gateway = start_gateway(tree(), workers=2)
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()])
    call = gateway.begin("m", stream=True)
    call.read_until("Hello")
    held = [worker["inHand"] for worker in gateway.status()["workers"] if "inHand" in worker]
    assert [(row["model"], row["requestId"], row["endpoint"]) for row in held] == [
        ("m", call.request_id, "chat/completions")
    ]
    assert held[0]["upstream"] and 0 <= held[0]["ageMs"] < 20_000
    page = gateway.get("/status", key=None, headers={"accept": "text/html,*/*;q=0.8"})
    assert page.headers["content-type"].startswith("text/html")
    text = page.body.decode()
    for part in ("Requests in hand: 1", call.request_id, f"<td>{held[0]['upstream']}</td>", "<td>streaming</td>"):
        assert part in text, part
    assert "<script" not in text
    call.close()

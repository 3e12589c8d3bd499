"""Processes: crashes, drains and ends. Each test has a gateway of its own."""

import hashlib
import os
import signal
import threading
import time

import pytest

import chat
from fastcgi import takes_connections
from processes import wait_until
from scripts import answer, data, end, hang, head, pause, until
from tree import Tree, hostile, model

WORDS = [step for n in range(15) for step in (data(chat.chunk({"content": f"w{n} "})), pause(0.1))]
SLOW_STREAM = [head(), *WORDS, data(chat.FINISH), data(chat.DONE), end()]


def tree():
    return Tree(model("m", hostile("a", "k1")))


def worker_of(gateway, call_or_reply):
    return gateway.event(call_or_reply)["worker"]


def workers(gateway):
    """The pids of children that have served a request or may."""
    return set(gateway.router.children())


def test_a_killed_worker_is_replaced_and_its_request_recorded(start_gateway, upstream):
    gateway = start_gateway(tree(), workers=2)
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()])
    before = workers(gateway)
    call = gateway.begin("m", stream=True)
    call.read_until("Hello")
    busy = _child_with_connection_to(gateway, upstream.port)
    os.kill(busy, signal.SIGKILL)
    wait_until(lambda: busy not in workers(gateway) and len(workers(gateway)) >= len(before), "the worker is replaced")
    reply = call.reply()
    assert b"[DONE]" not in reply.body
    assert not reply.is_whole, "a stream of a killed worker must not look whole"
    event = gateway.event(call)
    assert event["end"] == "worker_died"
    gateway.script("m", "k1", answer(200, chat.completion()))
    for _ in range(6):
        assert gateway.chat("m").status == 200


def test_the_event_of_a_killed_worker_says_what_was_known(start_gateway, upstream):
    gateway = start_gateway(tree(), workers=2)
    gateway.script("m", "k1", [hang()])
    request_id = "x" * 128
    before = time.time()
    call = gateway.begin("m", mount="/api/v1/openai", headers={"x-request-id": request_id})
    busy = wait_until(lambda: _child_with_connection_to(gateway, upstream.port, or_none=True), "the upstream is asked")
    os.kill(busy, signal.SIGKILL)
    call.reply()
    event = gateway.spool.wait_event(request_id)
    assert event["end"] == "worker_died"
    assert event["mount"] == "/api/v1/openai"
    assert event["endpoint"] == "chat/completions"
    assert event["model"] == "m"
    assert event["key_id"] == hashlib.sha256(gateway.caller_key.encode()).hexdigest()[:16]
    assert before - 1 < event["time"] / 1e6 < time.time()
    assert int(event["id"].replace("-", "")[:12], 16) == event["time"] // 1000
    assert event["worker"] in (0, 1) and event["generation"] > 0 and event["instance"]
    assert 0 < event["total_us"] < 10_000_000
    assert event["attempts"] == [] and event["committed"] is False
    assert "status" not in event and "overhead_us" not in event


def test_a_worker_killed_between_two_requests_takes_none_with_it(start_gateway):
    gateway = start_gateway(tree(), workers=1)
    gateway.script("m", "k1", answer(200, chat.completion()))
    reply = gateway.chat("m")
    gateway.event(reply)
    time.sleep(0.1)  # the connection is closed too
    for pid in workers(gateway):
        os.kill(pid, signal.SIGKILL)
    again = wait_until(lambda: _whole(gateway.chat("m")), "requests are served again", 15)
    gateway.event(again)
    assert gateway.spool.ends_of(reply.request_id) == ["done"]
    assert b"worker_died" not in gateway.spool.read_bytes()


def _whole(reply):
    return reply if reply.status == 200 else None


def test_a_request_ended_by_the_drain_timeout_is_recorded(start_gateway):
    gateway = start_gateway(tree(), workers=2, flags=["--drain-timeout-ms", "300"])
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()])
    call = gateway.begin("m", stream=True)
    call.read_until("Hello")
    gateway.router.signal(signal.SIGTERM)
    assert gateway.router.wait(8) == 0
    event = gateway.event(call)
    assert event["end"] == "worker_died" and event["committed"] is True


def _child_with_connection_to(gateway, port, or_none=False):
    """The worker that has an established connection to the upstream."""
    wanted = f":{port:04X} 01"
    for pid in gateway.router.children():
        inodes = set()
        for fd in os.scandir(f"/proc/{pid}/fd"):
            target = os.readlink(fd.path)
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
        with open(f"/proc/{pid}/net/tcp", encoding="ascii") as table:
            for line in table.readlines()[1:]:
                fields = line.split()
                if f"{fields[2]} {fields[3]}".endswith(wanted) and fields[9] in inodes:
                    return pid
    assert or_none, "no worker has a connection to the upstream"
    return None


def test_every_worker_can_be_killed_in_turn(start_gateway):
    gateway = start_gateway(tree(), workers=3)
    gateway.script("m", "k1", answer(200, chat.completion()))
    for pid in workers(gateway):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: gateway.chat("m").status == 200, "requests are served again", 15)
    assert gateway.router.is_running()


def test_sigterm_lets_a_stream_finish(start_gateway):
    gateway = start_gateway(tree(), workers=2, flags=["--drain-timeout-ms", "8000"])
    gateway.script("m", "k1", SLOW_STREAM)
    call = gateway.begin("m", stream=True)
    call.read_until("w0")
    gateway.router.signal(signal.SIGTERM)
    reply = call.reply()
    assert reply.is_whole
    assert chat.text_of(reply.body) == "".join(f"w{n} " for n in range(15))
    assert reply.body.endswith(chat.DONE.encode())
    assert gateway.router.wait(5) == 0
    assert gateway.event(call)["end"] == "done"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nobody_waits_for_the_last_stream_of_who_has_ended(start_gateway, is_over, number):
    gateway = start_gateway(tree(), workers=1, flags=["--queue-timeout-ms", "2000", "--drain-timeout-ms", "60000"])
    gateway.script("m", "k1", [head(), data(chat.HELLO), until(is_over), data(chat.FINISH), data(chat.DONE), end()])
    call = gateway.begin("m", stream=True)
    call.read_until("Hello")
    waiting = gateway.begin("m")
    wait_until(lambda: gateway.metric("airi_gen_ai_gateway_queue_length") == 1, "one waits")
    gateway.router.signal(number)
    reply = waiting.reply()
    assert reply.status == 503 and reply.headers["retry-after"] == "1", reply
    wait_until(lambda: not takes_connections(gateway.socket), "nobody else is let in")
    assert gateway.chat("m").status >= 500
    is_over.set()
    reply = call.reply()
    assert reply.is_whole and reply.body.endswith(chat.DONE.encode())
    gateway.router.wait()
    wait_until(gateway.router.group_is_empty, "all have ended")


def test_nobody_is_let_in_behind_a_master_that_was_killed_with_its_overflow_process(start_gateway, is_over):
    gateway = start_gateway(tree(), workers=1)
    gateway.script("m", "k1", [head(), data(chat.HELLO), until(is_over), data(chat.FINISH), data(chat.DONE), end()])
    call = gateway.begin("m", stream=True)
    call.read_until("Hello")
    os.kill(gateway.process_of("overflow"), signal.SIGKILL)
    gateway.router.signal(signal.SIGKILL)
    gateway.router.wait()
    wait_until(lambda: not takes_connections(gateway.socket), "nobody is let in")
    assert gateway.chat("m").status >= 500
    is_over.set()
    assert call.reply().is_whole
    wait_until(gateway.router.group_is_empty, "all have ended")


def test_sigterm_ends_what_outlasts_the_drain(start_gateway):
    gateway = start_gateway(tree(), workers=2, flags=["--drain-timeout-ms", "700"])
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()])
    call = gateway.begin("m", stream=True)
    call.read_until("Hello")
    start = time.monotonic()
    gateway.router.signal(signal.SIGTERM)
    gateway.router.wait(8)
    assert 0.6 < time.monotonic() - start < 5
    reply = call.reply()
    assert b"[DONE]" not in reply.body
    wait_until(gateway.router.group_is_empty, "no child is left", 3)


def test_sigint_ends_at_once(start_gateway):
    gateway = start_gateway(tree(), workers=2)
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()])
    call = gateway.begin("m", stream=True)
    call.read_until("Hello")
    start = time.monotonic()
    gateway.router.signal(signal.SIGINT)
    gateway.router.wait(8)
    assert time.monotonic() - start < 2.5
    assert b"[DONE]" not in call.reply().body
    wait_until(gateway.router.group_is_empty, "no child is left", 3)


@pytest.mark.parametrize("shared, word", [("run_dir", "another llm-router runs in"), ("state_dir", "spool")])
def test_a_second_master_on_one_folder_is_refused(start_gateway, tmp_path, shared, word):
    gateway = start_gateway(tree(), workers=1)
    kept = gateway.router, gateway.run_dir, gateway.state_dir
    for name in {"run_dir", "state_dir"} - {shared}:
        setattr(gateway, name, tmp_path / name)
        (tmp_path / name).mkdir(mode=0o700)
    gateway.start_router()
    second, (gateway.router, gateway.run_dir, gateway.state_dir) = gateway.router, kept
    try:
        assert second.wait(5) == 1
        assert word in second.new_log_text()
    finally:
        second.stop()
    gateway.script("m", "k1", answer(200, chat.completion()))
    assert gateway.event(gateway.chat("m"))["end"] == "done"


def test_a_restart_serves_on_the_same_socket(start_gateway):
    gateway = start_gateway(tree(), workers=2)
    gateway.router.stop()
    gateway.start_router()
    gateway.script("m", "k1", answer(200, chat.completion()))
    wait_until(lambda: gateway.chat("m").status == 200, "requests are served again")


def test_many_callers_at_once_all_get_their_own_answers(start_gateway):
    """Twice as many as workers: the rest waits in the socket's queue."""
    gateway = start_gateway(tree(), workers=6)
    gateway.script("m", "k1", [pause(0.1), *answer(200, chat.completion())])
    replies = []

    def ask():
        replies.append(gateway.chat("m"))

    callers = [threading.Thread(target=ask) for _ in range(12)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(30)
    assert [reply.status for reply in replies] == [200] * 12
    assert len({reply.request_id for reply in replies}) == 12


def test_without_callers_authentication_no_key_is_needed(start_gateway):
    gateway = start_gateway(tree(), workers=1, caller_auth="none")
    gateway.script("m", "k1", answer(200, chat.completion()))
    assert gateway.chat("m", key=None).status == 200


@pytest.mark.parametrize(
    "flags",
    [
        ["--workers", "0"],
        ["--workers", "x"],
        ["--no-such-flag"],
        ["--caller-auth", "maybe"],
        ["--spool-max-bytes", "1000"],
        ["--body-memory-bytes", "1000000"],
        ["--drain-timeout-ms", "-1"],
    ],
)
def test_a_flag_that_means_nothing_is_refused_at_start(start_gateway, flags):
    gateway = start_gateway(tree(), workers=1)
    gateway.router.stop()
    gateway._flags = flags
    gateway.start_router()
    assert gateway.router.wait(5) == 2
    assert flags[0] in gateway.router.log_text()

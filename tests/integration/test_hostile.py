"""Slow and hostile peers on the bare FastCGI socket, where no web server buffers."""

import json
import os
import resource
import socket
import threading
import time
from pathlib import Path

import pytest

import chat
import fastcgi
from fastcgi import FastCgiCall, connect, request_params
from http_client import Reply
from load import ANSWER_LIMIT_S
from processes import CAN_LOOK_INSIDE, count_descriptors, wait_until
from scripts import answer, flood, hang, head
from tree import Tree, hostile, model

SLACK_S = 1.5
SHED_S = 1.0  # --queue-timeout-ms
PATIENCE_S = 10  # with a peer that has not sent its parameters (main.c)
STALL_MS = 1500
BODY_BYTES = 20 * 1024 * 1024
GROWTH_BYTES = 24 * 1024 * 1024


def tree():
    return Tree(model("m", hostile("a", "k1")), clientStallTimeoutMs=STALL_MS)


def start(start_gateway, workers=2, **options):
    gateway = start_gateway(tree(), workers=workers, **options)
    gateway.script("m", "k1", answer(200, chat.completion()))
    return gateway


def begin(gateway, body, timeout=ANSWER_LIMIT_S, **params):
    return FastCgiCall(
        gateway.socket, request_params("/v1/chat/completions", len(body), gateway.caller_key, **params), timeout
    )


BODY = json.dumps(chat.request("m")).encode()


def ask(gateway, body=BODY, **params):
    call = begin(gateway, body, **params)
    call.send_body(body)
    return call.reply()


def test_a_body_of_one_byte_a_second_is_taken_and_others_are_served_meanwhile(start_gateway):
    """It goes on, however slowly: the clock counts silence."""
    gateway = start(start_gateway)
    body = BODY + b"   "
    call = begin(gateway, body)
    call.send_body(body[:-3], is_end=False)
    for _ in range(3):
        sent = time.monotonic()
        while time.monotonic() < sent + 1:
            assert ask(gateway).status == 200
            time.sleep(0.05)
        call.send_body(b" ", is_end=False)
    call.send_body(b"")
    assert call.reply().status == 200


def test_parameters_of_one_byte_a_second_are_taken_until_patience_ends(start_gateway):
    gateway = start(start_gateway)
    head_bytes = fastcgi.begin(request_params("/v1/chat/completions", len(BODY), gateway.caller_key))
    slow = connect(gateway.socket)
    slow.sendall(head_bytes[:40])
    for at in range(40, 43):
        assert ask(gateway).status == 200
        time.sleep(1)
        slow.sendall(head_bytes[at : at + 1])
    slow.sendall(head_bytes[43:] + fastcgi.records(fastcgi.STDIN, BODY))
    received = b""
    while piece := slow.recv(65536):
        received += piece
    assert fastcgi.parse_reply(received).status == 200


def test_a_body_that_stops_is_given_up_at_the_callers_own_deadline(start_gateway):
    gateway = start(start_gateway, workers=1)
    call = begin(gateway, BODY)
    call.send_body(BODY[:10], is_end=False)
    begun = time.monotonic()
    while call.read_some():
        pass
    assert time.monotonic() - begun < STALL_MS / 1000 + 1 + SLACK_S
    assert ask(gateway).status == 200


def test_a_caller_that_never_reads_is_given_up_at_its_own_deadline(start_gateway):
    gateway = start(start_gateway, workers=1)
    gateway.script("m", "k1", [head(), flood(chat.chunk({"content": "x" * 4000}))])
    body = json.dumps(chat.request("m", stream=True)).encode()
    call = begin(gateway, body, HTTP_X_REQUEST_ID="never-reads")
    call.send_body(body)
    record = gateway.upstream.wait_record()
    closed = record.wait_closed(10)
    assert closed - record.arrived < STALL_MS / 1000 + 1 + SLACK_S
    assert gateway.spool.wait_event("never-reads")["end"] == "client_gone"
    gateway.script("m", "k1", answer(200, chat.completion()))
    assert ask(gateway).status == 200


# What is not FastCGI, or half of it

NONSENSE = {
    "HTTP": b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
    "zeros": bytes(4096),
    "ones": b"\xff" * 4096,
    "a version that does not exist": b"\x02" + fastcgi.begin({})[1:],
    "no request begun": fastcgi.records(fastcgi.PARAMS, b"") + fastcgi.records(fastcgi.STDIN, b""),
    "a role that does not exist": fastcgi.record(fastcgi.BEGIN_REQUEST, b"\0\x09" + bytes(6))
    + fastcgi.records(fastcgi.PARAMS, b""),
    "a length beyond the parameters": fastcgi.record(fastcgi.BEGIN_REQUEST, b"\0\x01" + bytes(6))
    + fastcgi.record(fastcgi.PARAMS, b"\xff\xff\xff\xff\xff\xff\xff\xffA=B")
    + fastcgi.record(fastcgi.PARAMS),
}


@pytest.mark.parametrize("nonsense", NONSENSE.values(), ids=NONSENSE.keys())
def test_nonsense_ends_its_connection_and_nothing_else(start_gateway, nonsense):
    gateway = start(start_gateway, workers=1)
    before = gateway.workers()
    for _ in range(3):
        peer = connect(gateway.socket)
        peer.sendall(nonsense)
        peer.shutdown(socket.SHUT_WR)
        try:
            while peer.recv(65536):
                pass
        except ConnectionResetError:
            pass
        peer.close()
    assert ask(gateway).status == 200
    assert gateway.workers() == before
    gateway.assert_unbroken()


def test_half_a_record_and_silence_are_given_up(start_gateway):
    """Every worker has such a peer; in the meantime others are told so in time."""
    gateway = start(start_gateway)
    begun = time.monotonic()
    peers = [connect(gateway.socket) for _ in range(2)]
    for peer in peers:
        peer.sendall(fastcgi.begin({"REQUEST_METHOD": "POST"})[:21])
    time.sleep(0.1)
    shed = ask(gateway)
    assert (shed.status, shed.headers["retry-after"]) == (503, "1")
    assert time.monotonic() - begun < 0.1 + SHED_S + SLACK_S
    wait_until(lambda: ask(gateway).status == 200, "the workers are free again", PATIENCE_S + 2)
    assert time.monotonic() - begun < PATIENCE_S + 1 + SLACK_S
    for peer in peers:
        assert peer.recv(10) == b""
        peer.close()


# Too much

BOMBS = {
    "one of 100 kB": {"HTTP_X_BOMB": "x" * 100_000},
    "9,000 of them": {f"HTTP_X_BOMB_{n}": "y" * 10 for n in range(9000)},
}


@pytest.mark.parametrize("params", BOMBS.values(), ids=BOMBS.keys())
def test_a_header_bomb_is_refused_in_words(start_gateway, params):
    gateway = start(start_gateway, workers=1)
    reply = ask(gateway, **params)
    assert reply.status == 431 and reply.is_whole
    assert reply.json()["error"]["code"] == "headers_too_large"
    assert ask(gateway).status == 200


def memory(pid, name):
    """Bytes: VmRSS, VmHWM."""
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return 1024 * int(line.split()[1])
    raise AssertionError(f"no {name} of {pid}")


def test_a_body_of_20_mib_is_served_in_memory_for_itself_and_no_more(start_gateway):
    gateway = start(start_gateway, workers=1)
    worker = gateway.workers().pop()
    assert ask(gateway).status == 200
    before = memory(worker, "VmRSS")
    frame = b'{"model":"m","messages":[],"x":""}'
    body = frame[:-2] + b"x" * (BODY_BYTES - len(frame)) + frame[-2:]
    for _ in range(3):
        assert ask(gateway, body).status == 200
    growth = memory(worker, "VmHWM") - before
    assert growth < GROWTH_BYTES, f"the worker grew by {growth} bytes"
    assert len(gateway.upstream.records[-1].body) > BODY_BYTES - 100
    kept = memory(worker, "VmRSS") - before
    assert kept < 1024 * 1024, f"the worker kept {kept} bytes"
    assert gateway.workers() == {worker}


@pytest.fixture
def many_descriptors():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_two_thousand_idle_connections_hold_nobody_up_for_long(start_gateway, many_descriptors):
    """They say nothing at all. Those that wait are shed and given up like others;
    probes are answered, callers are served again as soon as the workers are free,
    and the processor rests although the limit of descriptors was small."""
    gateway = start(start_gateway, nofile=1024)
    begun = time.monotonic()
    idle = [connect(gateway.socket) for _ in range(2000)]
    statuses = []
    used = processor_seconds(gateway.process_of("overflow"))
    while time.monotonic() - begun < PATIENCE_S + 5:
        asked = time.monotonic()
        assert health(gateway, "/livez").status == 200
        assert time.monotonic() - asked < 0.1 + SLACK_S
        statuses.append(ask(gateway).status)
        assert time.monotonic() - asked < SHED_S + 0.1 + 2 * SLACK_S
        time.sleep(0.2)
    assert set(statuses) <= {200, 503} and statuses[0] == 503 and statuses[-1] == 200, statuses
    used = processor_seconds(gateway.process_of("overflow")) - used
    assert used < 2, f"the overflow process ran for {used} s"
    for connection in idle:
        connection.close()


def processor_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def health(gateway, path) -> Reply:
    peer = connect(gateway.run_dir / "health.sock")
    peer.sendall(fastcgi.whole_request(fastcgi.get_params(path)))
    received = b""
    while piece := peer.recv(65536):
        received += piece
    peer.close()
    return fastcgi.parse_reply(received)


# The overflow process's own peers


@pytest.fixture
def busy_gateway(start_gateway):
    """No worker is free."""
    gateway = start(start_gateway)
    gateway.script("m", "k1", [hang()])
    held = [gateway.begin("m") for _ in range(2)]
    gateway.upstream.wait_record(2)
    yield gateway
    for call in held:
        call.close()


STUCK = {
    "says nothing": b"",
    "sends half a record": fastcgi.begin({"A": "B"})[:12],
    "sends half of its parameters": fastcgi.begin({"A": "x" * 2000})[:1000],
    "does not end its body": fastcgi.begin({"SCRIPT_NAME": "/v1", "PATH_INFO": "/models"})
    + fastcgi.record(fastcgi.STDIN, b"x" * 1000),
    "sends nonsense": b"GET / HTTP/1.1\r\n\r\n",
    "sends parameters without end": fastcgi.begin({})[:-8]
    + 40 * fastcgi.record(fastcgi.PARAMS, b"\x03\x01ABCD" * 1000),
}


@pytest.mark.parametrize("is_of_workers", [True, False], ids=["the workers' socket", "health.sock"])
def test_stuck_peers_of_the_overflow_process_delay_nobody_and_are_given_up(busy_gateway, is_of_workers):
    gateway = busy_gateway
    path = gateway.socket if is_of_workers else gateway.run_dir / "health.sock"
    peers = [(kind, connect(path)) for kind in STUCK for _ in range(10)]
    for kind, peer in peers:
        try:
            peer.sendall(STUCK[kind])
        except (BrokenPipeError, ConnectionResetError):
            pass
    begun = time.monotonic()
    assert ask(gateway).status == 503
    assert time.monotonic() - begun < SHED_S + 0.1 + SLACK_S
    asked = time.monotonic()
    assert health(gateway, "/readyz").status == 200
    assert time.monotonic() - asked < 0.1 + SLACK_S
    for kind, peer in peers:
        try:
            while peer.recv(65536):
                pass
        except ConnectionResetError:
            pass
        assert time.monotonic() - begun < SHED_S + 5 + SLACK_S, f"one that {kind} was not given up"
        peer.close()
    gateway.assert_unbroken()


@pytest.mark.skipif(not CAN_LOOK_INSIDE, reason="only root may count the descriptors of llm-router")
def test_a_health_peer_that_does_not_read_is_given_up(start_gateway):
    """It asks more often than its buffer holds answers, on many connections."""
    gateway = start(start_gateway, workers=64)
    peers = []
    for _ in range(50):
        peer = socket.socket(socket.AF_UNIX)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        peer.connect(str(gateway.run_dir / "health.sock"))
        peer.sendall(fastcgi.whole_request(fastcgi.get_params("/status")))
        peers.append(peer)
    begun = time.monotonic()
    assert health(gateway, "/metrics").status == 200
    assert time.monotonic() - begun < 0.1 + SLACK_S
    overflow = gateway.process_of("overflow")
    wait_until(lambda: count_descriptors(overflow) < 30, "the peers were given up", 8)
    for peer in peers:
        peer.close()


@pytest.mark.skipif(not CAN_LOOK_INSIDE, reason="only root may count the descriptors of llm-router")
def test_callers_at_once_with_every_kind_of_nonsense_leave_the_gateway_whole(start_gateway):
    gateway = start(start_gateway, workers=4)
    before = {pid: count_descriptors(pid) for pid in gateway.router.roles()}

    def annoy(sent):
        for _ in range(20):
            try:
                peer = connect(gateway.socket)
                peer.sendall(sent)
                peer.close()
            except (BrokenPipeError, ConnectionResetError):
                pass

    threads = [threading.Thread(target=annoy, args=(sent,)) for sent in [*NONSENSE.values(), *STUCK.values()]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    wait_until(lambda: ask(gateway).status == 200, "requests are served", 5)
    wait_until(lambda: gateway.metric('airi_gen_ai_gateway_workers{state="idle"}') == 4, "all workers are idle")
    gateway.assert_unbroken()
    for pid, count in before.items():
        assert count_descriptors(pid) <= count + 4

"""The hostile upstream itself: what it records is what the other tests rely on."""

import socket
import time

import pytest

from http_client import Call, format_request
from scripts import answer, close, data, end, hang, head, raw, reset, stream
from upstream import RefusedPort, SilentPort


@pytest.fixture
def port(upstream):
    upstream.reset()
    return upstream.port


def ask(port, key="k", body=b"{}", **options):
    headers = {"authorization": f"Bearer {key}"}
    return Call(port, format_request("POST", "/a/chat/completions", headers, body), **options)


def test_it_records_exactly_what_came_and_answers_per_key(upstream, port):
    upstream.bind("k", answer(418, "teapot"))
    upstream.bind("other", answer(200, "{}"))
    reply = ask(port, body=b'{"x" : 1}').reply()
    assert (reply.status, reply.body, reply.is_whole) == (418, b"teapot", True)
    assert ask(port, "other").reply().status == 200
    first = upstream.records[0]
    assert (first.method, first.path, first.key, first.body) == ("POST", "/a/chat/completions", "k", b'{"x" : 1}')


def test_scripts_of_one_key_come_in_turn(upstream, port):
    upstream.bind("k", answer(500, ""), answer(200, ""))
    assert [ask(port).reply().status for _ in range(3)] == [500, 200, 200]


def test_a_request_without_a_script_is_reported(upstream, port):
    assert ask(port, "stranger").reply().status == 500
    assert [record.key for record in upstream.unexpected] == ["stranger"]


@pytest.mark.parametrize("ending, is_whole", [(end(), True), (close(), False), (reset(), False), (raw("zz"), False)])
def test_a_stream_ends_as_the_script_says(upstream, port, ending, is_whole):
    upstream.bind("k", [head(), data("data: x\n\n"), ending, close()])
    reply = ask(port).reply()
    assert (reply.body, reply.is_whole) == (b"data: x\n\n", is_whole)


def test_it_notes_when_the_peer_closes(upstream, port):
    upstream.bind("k", [hang()])
    for leave, is_reset in (("close", False), ("reset", True)):
        count = len(upstream.records)
        call = ask(port)
        record = upstream.wait_record(count + 1)
        left = getattr(call, leave)()
        assert 0 <= record.wait_closed() - left < 0.2
        assert record.is_reset == is_reset


def test_a_kept_connection_serves_further_requests(upstream, port):
    upstream.bind("k", stream("data: x\n\n"))
    headers = {"authorization": "Bearer k"}
    with socket.create_connection(("127.0.0.1", port), 5) as sock:
        for _ in range(2):
            sock.sendall(format_request("POST", "/a/x", headers, b"{}"))
            received = b""
            while not received.endswith(b"0\r\n\r\n"):
                received += sock.recv(4096)
    assert len({record.connection for record in upstream.records}) == 1


def test_a_refused_port_refuses_and_a_silent_port_is_silent():
    refused, silent = RefusedPort(), SilentPort()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", refused.port), 2)
    start = time.monotonic()
    with pytest.raises(TimeoutError):
        socket.create_connection(("127.0.0.1", silent.port), 0.3)
    assert time.monotonic() - start >= 0.3
    refused.stop()
    silent.stop()

"""What a request and a chunk cost, in what does not depend on the machine: system calls, instructions, allocations.

Each bound is what it takes today. A change that takes more says so here, and in its commit's message why; one that
takes less lowers the bound. Whoever else uses the machine can add to a request, a wait that is longer than usual for
one, but never take away: of several, the one that took least counts.
"""

import contextlib
import json
import threading
from collections import Counter

import pytest

import chat
from counts import SLOW_S, ProfiledGateway, SystemCalls, names_of, split_before
from fastcgi import FastCgiCall, request_params
from front_ends import BareGateway
from processes import is_sanitized, wait_until
from scripts import data, end, head, raw, until
from tree import Tree, hostile, model

pytestmark = [
    pytest.mark.skipif(is_sanitized(), reason="a sanitizer has calls, instructions and memory of its own"),
    pytest.mark.behind("lighttpd"),  # behind none: once is enough
]

TREE = Tree(model("m", hostile("a", "k1")), perAttemptTimeoutMs=60000, fullChainTimeoutMs=60000)
# What lighttpd tells besides of a request that OpenAI's client library for Python sends.
LIGHTTPD = {
    "SERVER_SOFTWARE": "lighttpd/1.4.69",
    "SERVER_NAME": "127.0.0.1",
    "SERVER_ADDR": "127.0.0.1",
    "SERVER_PORT": "8080",
    "REMOTE_ADDR": "127.0.0.1",
    "REMOTE_PORT": "40000",
    "REQUEST_SCHEME": "http",
    "REDIRECT_STATUS": "200",
    "DOCUMENT_ROOT": "/var/www/html/",
    "SCRIPT_FILENAME": "/var/www/html/v1",
    "HTTP_HOST": "127.0.0.1:8080",
    "HTTP_ACCEPT": "application/json",
    "HTTP_ACCEPT_ENCODING": "gzip, deflate",
    "HTTP_USER_AGENT": "OpenAI/Python 1.109.1",
    "HTTP_X_STAINLESS_ARCH": "x64",
    "HTTP_X_STAINLESS_ASYNC": "false",
    "HTTP_X_STAINLESS_LANG": "python",
    "HTTP_X_STAINLESS_OS": "Linux",
    "HTTP_X_STAINLESS_PACKAGE_VERSION": "1.109.1",
    "HTTP_X_STAINLESS_READ_TIMEOUT": "600",
    "HTTP_X_STAINLESS_RETRY_COUNT": "0",
    "HTTP_X_STAINLESS_RUNTIME": "CPython",
    "HTTP_X_STAINLESS_RUNTIME_VERSION": "3.11.2",
}
REQUESTS = 8
CHUNKS = 8
STREAMS = 3

# Of a plain request over a kept connection. libcurl's are named: whether the connection still stands, and whether the
# reply is there by the time the request is sent.
REQUEST_CALLS = Counter(
    {
        "accept4": 1,
        "recvmsg": 1,  # the whole request
        "poll": 3,  # libcurl's two; for the upstream and the caller
        "sendto": 1,
        "recvfrom": 1,
        "writev": 1,  # the event
        "newfstatat": 1,  # of the event's file
        "sendmsg": 1,
        "close": 1,
        "epoll_wait": 1,
    }
)

# Of a chunk that comes alone: wait, take, pass on, and libcurl's look whether there is more.
CHUNK_CALLS = Counter({"poll": 2, "recvfrom": 1, "sendmsg": 1})

# With Debian 12's libcurl and OpenSSL: 160,000 and 12,500. A seventh is left for others, and for looks
# whether the caller is still there, which a slow machine has more of.
REQUEST_INSTRUCTIONS = 184_000
CHUNK_INSTRUCTIONS = 15_500

# Of a request; a chunk has none. Ours are for the reply and for the request in one piece.
LIBCURL_ALLOCATIONS = 36
OPENSSL_ALLOCATIONS = 4
OUR_ALLOCATIONS = Counter({"buf_reserve": 1, "exchange_begin": 1})


def complete(text="Hello!"):
    """A whole reply, in one packet."""
    body = chat.completion(text)
    return [raw(f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n{body}")]


def step_by_step(gates):
    """A stream whose next chunk comes when the last gate was opened."""
    steps = [head(), data(chat.HELLO)]
    for n, gate in enumerate(gates):
        steps += [until(gate), data(chat.chunk({"content": f"word {n}."}))]
    return [*steps, data(chat.FINISH), data(chat.DONE), end()]


def begin(gateway, stream=False):
    body = json.dumps(chat.request("m", stream)).encode()
    params = LIGHTTPD | request_params("/v1/chat/completions", len(body), gateway.caller_key)
    return FastCgiCall(gateway.socket, params, SLOW_S, body)


def ask(gateway, times):
    gateway.script("m", "k1", complete())
    for _ in range(times):
        reply = begin(gateway).reply()
        assert (reply.status, reply.is_whole) == (200, True), reply


def ask_streamed(gateway, chunks):
    """A stream of which each chunk is written when the caller has the one before."""
    gates = [threading.Event() for _ in range(chunks)]
    gateway.script("m", "k1", step_by_step(gates))
    call = begin(gateway, stream=True)
    call.read_until("Hello")
    for n, gate in enumerate(gates):
        gate.set()
        call.read_until(f"word {n}.")
    reply = call.reply()
    assert reply.is_whole and reply.body.endswith(b"[DONE]\n\n"), reply


def assert_no_more(pieces, allowed):
    """Of the pieces, the shortest has no call that is not allowed."""
    least = min(pieces, key=len)
    more = Counter(names_of(least)) - allowed
    assert not more, f"{dict(more)} more than {sum(allowed.values())} system calls:\n" + "\n".join(least)


@contextlib.contextmanager
def warm(kind, folder, base_urls, upstream):
    """One worker, which has asked the upstream before."""
    gateway = kind(folder, base_urls, upstream, workers=1)
    try:
        gateway.start()
        gateway.use(TREE)
        ask(gateway, 2)
        yield gateway
    finally:
        gateway.stop()


@pytest.fixture(scope="module")
def lone(tmp_path_factory, base_urls, upstream):
    with warm(BareGateway, tmp_path_factory.mktemp("lone"), base_urls, upstream) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def profiled(tmp_path_factory, base_urls, upstream):
    with warm(ProfiledGateway, tmp_path_factory.mktemp("profiled"), base_urls, upstream) as gateway:
        yield gateway


def profiles_of(gateway, run, requests):
    """What was written about the requests that `run` sends."""
    (worker,) = gateway.workers()
    before = len(gateway.profiles(worker))
    run()
    wait_until(lambda: len(gateway.profiles(worker)) >= before + requests, "callgrind has written them", SLOW_S)
    return gateway.profiles(worker)[before:]


def test_a_request_takes_no_more_system_calls(lone):
    (worker,) = lone.workers()
    calls = SystemCalls(worker, lone.folder)
    ask(lone, REQUESTS)
    requests = split_before(calls.stop(), r"^accept4\(.* = \d+$")[:-1]  # the last has not come to its end
    assert len(requests) == REQUESTS - 1
    assert_no_more(requests, REQUEST_CALLS)


def test_a_chunk_takes_no_more_system_calls(lone):
    (worker,) = lone.workers()
    calls = SystemCalls(worker, lone.folder)
    ask_streamed(lone, CHUNKS)
    chunks = split_before(calls.stop(), r"^sendmsg\(")[:CHUNKS]  # from one reply's piece to the next
    assert len(chunks) == CHUNKS
    assert_no_more(chunks, CHUNK_CALLS)


def test_chunks_that_arrive_together_leave_in_one_write(lone):
    events = [chat.chunk({"content": f"word {n}."}) for n in range(3)]
    packet = "".join(f"{len(event):x}\r\n{event}\r\n" for event in events)
    gates = [threading.Event(), threading.Event()]
    steps = [head(), data(chat.HELLO), until(gates[0]), raw(packet), until(gates[1])]
    lone.script("m", "k1", [*steps, data(chat.FINISH), data(chat.DONE), end()])
    (worker,) = lone.workers()
    calls = SystemCalls(worker, lone.folder)
    call = begin(lone, stream=True)
    for gate, mark in zip(gates, ("Hello", "word 2.")):
        call.read_until(mark)
        gate.set()
    assert chat.text_of(call.reply().body) == "Helloword 0.word 1.word 2."
    pieces = [piece for piece in split_before(calls.stop(), r"^recvfrom\(") if piece[0].endswith(f" = {len(packet)}")]
    assert [names_of(piece).count("sendmsg") for piece in pieces] == [1], pieces


def test_a_request_takes_no_more_instructions_and_memory(profiled, record_property):
    profiles = profiles_of(profiled, lambda: ask(profiled, REQUESTS), REQUESTS)
    least = min(profile.instructions for profile in profiles)
    assert least <= REQUEST_INSTRUCTIONS, f"{least} instructions of a request, {REQUEST_INSTRUCTIONS} are allowed"
    record_property("instructions of a request", least)
    libcurl, openssl, ours = min((profile.allocations() for profile in profiles), key=lambda found: found[0])
    assert libcurl <= LIBCURL_ALLOCATIONS, f"libcurl allocates {libcurl} times, {LIBCURL_ALLOCATIONS} are allowed"
    assert openssl <= OPENSSL_ALLOCATIONS, f"OpenSSL allocates {openssl} times, {OPENSSL_ALLOCATIONS} are allowed"
    record_property("allocations of libcurl, OpenSSL and ours", f"{libcurl}, {openssl}, {sum(ours.values())}")
    more = Counter(ours) - OUR_ALLOCATIONS
    assert not more, f"a request has the memory of its arena; more than what is allowed besides: {dict(more)}"


def test_a_chunk_takes_no_more_instructions_and_no_memory(profiled, record_property):
    def least_of_streams(chunks):
        profiles = profiles_of(profiled, lambda: [ask_streamed(profiled, chunks) for _ in range(STREAMS)], STREAMS)
        return min(profiles, key=lambda profile: profile.instructions)

    short, long = least_of_streams(1), least_of_streams(1 + CHUNKS)
    each = (long.instructions - short.instructions) / CHUNKS
    record_property("instructions of a chunk", round(each))
    assert each <= CHUNK_INSTRUCTIONS, f"{each:.0f} instructions of a chunk, {CHUNK_INSTRUCTIONS} are allowed"
    assert long.allocations() == short.allocations(), "chunks allocate"

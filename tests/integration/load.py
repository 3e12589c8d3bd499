"""Many callers at once, each on a connection of its own, and what each of them got.

A load runs in a process of its own: its callers, the upstream and the test would
else wait for each other."""

import asyncio
import itertools
import json
import multiprocessing
import random
import secrets
import time
from concurrent.futures import ThreadPoolExecutor

import chat
import fastcgi
import speech
from http_client import format_request, parse_reply

ANSWER_LIMIT_S = 30  # who has no answer by then hangs
BEGIN_LIMIT_S = 30  # a process starts


class Ask:
    """A request that a load sends, by kind: how it looks, and when it leaves."""

    def __init__(
        self, kind, model_name, stream=False, mount="/v1", leaves_after_s=None, body_bytes=0, weight=1, is_speech=False
    ):
        self.kind = kind
        self.model_name = model_name
        self.is_stream = stream
        self.mount = mount
        self.leaves_after_s = leaves_after_s
        self.body_bytes = body_bytes  # of padding
        self.weight = weight
        self.is_speech = is_speech


class Outcome:
    """What one caller got. Times are time.monotonic(), the same in all processes."""

    def __init__(self, ask, request_id):
        self.kind = ask.kind
        self.mount = ask.mount
        self.is_stream = ask.is_stream
        self.request_id = request_id
        self.begun = time.monotonic()
        self.took_s = None
        self.reply = None  # None: left, or none came
        self.trouble = ""  # why not
        self.has_left = False

    @property
    def status(self):
        return self.reply.status if self.reply is not None else None

    @property
    def is_served(self):
        """200, and whole: a stream has its terminal mark."""
        if self.status != 200 or not self.reply.is_whole:
            return False
        return not self.is_stream or self.reply.body.endswith(chat.DONE.encode())

    @property
    def is_shed(self):
        return self.status == 503 and self.reply.is_whole and b"The gateway is busy." in self.reply.body

    def __repr__(self):
        return f"<{self.kind} {self.request_id} {self.reply or self.trouble or 'left'} after {self.took_s:.3f} s>"


class Front:
    """Where a load goes: lighttpd's port, or a FastCGI socket."""

    def __init__(self, caller_key, port=None, socket=None):
        self.caller_key = caller_key
        self.port = port
        self.socket = str(socket) if socket is not None else None

    async def open(self):
        if self.socket is not None:
            return await asyncio.open_unix_connection(self.socket)
        return await asyncio.open_connection("127.0.0.1", self.port)

    def encode(self, ask, request_id):
        body = speech.request(ask.model_name) if ask.is_speech else chat.request(ask.model_name, ask.is_stream)
        if ask.body_bytes:
            body["padding"] = "x" * ask.body_bytes
        payload = json.dumps(body).encode()
        path = f"{ask.mount}/audio/speech" if ask.is_speech else f"{ask.mount}/chat/completions"
        if self.socket is not None:
            params = fastcgi.request_params(path, len(payload), self.caller_key, HTTP_X_REQUEST_ID=request_id)
            return fastcgi.whole_request(params, payload)
        headers = {
            "authorization": f"Bearer {self.caller_key}",
            "content-type": "application/json",
            "x-request-id": request_id,
            "connection": "close",
        }
        return format_request("POST", path, headers, payload)

    def decode(self, received):
        return fastcgi.parse_reply(received) if self.socket is not None else parse_reply(received, at_end=True)


async def _send(front, ask, outcome):
    reader, writer = await front.open()
    try:
        if ask.leaves_after_s is not None and front.socket is None:
            await asyncio.sleep(0.02)  # or lighttpd would not see the departure: see http_client.Call
        writer.write(front.encode(ask, outcome.request_id))
        try:
            received = await asyncio.wait_for(reader.read(-1), ask.leaves_after_s)
        except asyncio.TimeoutError:
            outcome.has_left = True
            return
        outcome.reply = front.decode(received)
        if outcome.reply is None:
            outcome.trouble = f"only {received!r}"
    finally:
        writer.close()


async def _call(front, ask, outcomes):
    outcome = Outcome(ask, secrets.token_hex(16))
    try:
        await asyncio.wait_for(_send(front, ask, outcome), ANSWER_LIMIT_S)
    except asyncio.TimeoutError:
        outcome.trouble = f"no answer in {ANSWER_LIMIT_S} s"
    except OSError as error:
        outcome.trouble = repr(error)
    outcome.took_s = time.monotonic() - outcome.begun
    outcomes.append(outcome)
    return outcome


def _pick(asks):
    return random.choices(asks, [ask.weight for ask in asks])[0]


async def _open_loop(front, asks, per_second, seconds, outcomes, begun, until):
    """So many a second, whatever becomes of them; for a time, or until it is stopped."""
    loop, calls = asyncio.get_running_loop(), []
    start = loop.time()
    for n in itertools.count() if seconds is None else range(int(per_second * seconds)):
        if until.is_set():
            break
        await asyncio.sleep(max(0.0, start + n / per_second - loop.time()))
        calls.append(asyncio.ensure_future(_call(front, _pick(asks), outcomes)))
        begun.set()
    await asyncio.gather(*calls)


async def _closed_loop(front, asks, callers, count, seconds, outcomes, until):
    """So many callers, each with one request at a time; `count` requests, or for a time, or until it is stopped."""
    left = [count]
    ends = time.monotonic() + (seconds or float("inf"))

    async def ask_on():
        while left[0] > 0 and time.monotonic() < ends and not until.is_set():
            left[0] -= 1
            await _call(front, _pick(asks), outcomes)

    await asyncio.gather(*[ask_on() for _ in range(callers)])


async def _probe(path, socket, until, took):
    while not until.is_set():
        begun = time.monotonic()
        reader, writer = await asyncio.open_unix_connection(str(socket))
        writer.write(fastcgi.whole_request(fastcgi.get_params(path)))
        reply = fastcgi.parse_reply(await asyncio.wait_for(reader.read(-1), ANSWER_LIMIT_S))
        writer.close()
        took.append((time.monotonic() - begun, path, reply.status if reply is not None else None))
        await asyncio.sleep(0.05)


async def _with_probes(work, health):
    done, took = asyncio.Event(), []
    probes = [asyncio.ensure_future(_probe(path, health, done, took)) for path in PROBES] if health else []
    await work
    done.set()
    await asyncio.gather(*probes)
    return took


PROBES = ("/livez", "/readyz", "/metrics", "/status")


def _run(front, asks, health, options, begun, until, pipe):
    outcomes = []
    if "per_second" in options:
        work = _open_loop(front, asks, outcomes=outcomes, begun=begun, until=until, **options)
    else:
        work = _closed_loop(front, asks, outcomes=outcomes, until=until, **options)
    probes = asyncio.run(_with_probes(work, health))
    pipe.send((outcomes, probes))
    pipe.close()


class Load:
    """A load under way; result() waits for its end."""

    def __init__(self, front, asks, health=None, **options):
        # Not a fork: it would hold the test's and the upstream's connections open.
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe(duplex=False)
        self._begun, self._until = context.Event(), context.Event()
        arguments = (front, asks, health, options, self._begun, self._until, there)
        self._process = context.Process(target=_run, args=arguments, daemon=True)
        self._process.start()
        there.close()
        self._pipe = here
        self._waiting = ThreadPoolExecutor(1).submit(here.recv)

    def is_running(self):
        return not self._waiting.done()

    def result(self, timeout=None):
        """Outcomes of callers, and (seconds, path, status) of the probes at the socket `health`."""
        result = self._waiting.result(timeout)
        self._process.join(10)
        return result

    def wait_begun(self):
        """The first caller of an open loop is on its way."""
        assert self._begun.wait(BEGIN_LIMIT_S), "the load does not begin"

    def stop(self):
        """result(), when no further request has been made."""
        self._until.set()
        return self.result(ANSWER_LIMIT_S + 10)


def open_loop(front, asks, per_second, seconds=None, health=None):
    return Load(front, asks, health, per_second=per_second, seconds=seconds)


def closed_loop(front, asks, callers, count=1 << 60, seconds=None, health=None):
    return Load(front, asks, health, callers=callers, count=count, seconds=seconds)


def percentile(values, percent):
    ordered = sorted(values)
    assert ordered, "nothing was measured"
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]

"""Steps of upstream scripts. A script is a list of steps; each is an async
function of an Exchange, so that a test reads as the bytes that are sent:

    [head(), data(CHUNK), pause(0.2), reset()]
"""

import time

from upstream import HANG_LIMIT_S

SSE = {"content-type": "text/event-stream; charset=utf-8"}
JSON = {"content-type": "application/json"}


def answer(status, body, headers=None, reason="Scripted"):
    """A whole reply with a length; the connection is kept."""
    payload = body.encode() if isinstance(body, str) else body
    return [
        _head_step(status, headers if headers is not None else JSON, f"content-length: {len(payload)}", reason),
        raw(payload),
    ]


def stream(*events, delay=0.0):
    """A whole stream of these events, one chunk each, properly ended."""
    steps = [head()]
    for event in events:
        steps.append(data(event))
        if delay:
            steps.append(pause(delay))
    return [*steps, end()]


def head(status=200, headers=None, length=None):
    """Status and headers; chunks follow unless a length is given."""
    framing = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    return _head_step(status, headers if headers is not None else SSE, framing)


def _head_step(status, headers, framing, reason="Scripted"):
    async def step(exchange):
        exchange.is_chunked = framing.endswith("chunked")
        lines = [f"HTTP/1.1 {status} {reason}", framing]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await exchange.send(("\r\n".join(lines) + "\r\n\r\n").encode())

    return step


def data(payload):
    async def step(exchange):
        await exchange.send_content(payload.encode() if isinstance(payload, str) else payload)

    return step


def raw(payload):
    """Bytes outside any framing."""

    async def step(exchange):
        await exchange.send(payload.encode() if isinstance(payload, str) else payload)

    return step


def dribble(payload, delay=0.0):
    """One byte at a time, each a chunk and, with a delay, a packet of its own."""

    async def step(exchange):
        for byte in payload.encode() if isinstance(payload, str) else payload:
            await exchange.send_content(bytes([byte]))
            await exchange.pause(delay)

    return step


def flood(payload, seconds=HANG_LIMIT_S, delay=0.0):
    """The same content over and over, until the peer leaves."""

    async def step(exchange):
        end_at = time.monotonic() + seconds
        while time.monotonic() < end_at:
            await exchange.send_content(payload.encode() if isinstance(payload, str) else payload)
            await exchange.pause(delay)

    return step


def pause(seconds):
    async def step(exchange):
        await exchange.pause(seconds)

    return step


def until(event):
    """Silence until the test sets this threading.Event."""

    async def step(exchange):
        while not event.is_set():
            await exchange.pause(0.02)

    return step


def data_until(event, payload, every_s=1.0):
    """The same data now and then, at first at once, until the test sets this threading.Event."""

    async def step(exchange):
        while not event.is_set():
            await exchange.send_content(payload.encode())
            begun = time.monotonic()
            while not event.is_set() and time.monotonic() < begun + every_s:
                await exchange.pause(0.1)

    return step


def hang():
    """Silence until the peer leaves."""
    return pause(HANG_LIMIT_S)


def end():
    """The last chunk: a proper end; the connection is kept."""

    async def step(exchange):
        await exchange.send(b"0\r\n\r\n")

    return step


def close():
    """Closes the connection. Inside chunks, without the last one, this is a cut."""

    async def step(exchange):
        exchange.close()

    return step


def reset():
    """Closes the connection by RST, when what was sent has had time to arrive."""

    async def step(exchange):
        await exchange.pause(0.05)
        exchange.reset()

    return step

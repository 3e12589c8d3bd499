"""A hostile HTTP/1.1 upstream.

It speaks bytes on raw connections, so that it can misbehave at any of them. What
it does is chosen per key: the Bearer value of a request names a script, which is
a list of steps (scripts.py). It records what it received, and when the peer
closed.

It runs in a thread of its own with an event loop; tests bind scripts and read
records from theirs.
"""

import asyncio
import socket
import struct
import threading
import time

HANG_LIMIT_S = 90  # no test waits that long for a peer to leave


class PeerGone(Exception):
    """The peer closed its connection while a script was running."""


class Record:
    """One request as it arrived. Times are time.monotonic()."""

    def __init__(self, connection, raw_head):
        self.connection = connection  # numbered from 1, in order of accept
        self.raw_head = raw_head
        lines = raw_head.decode("latin-1").split("\r\n")
        self.method, self.path, _ = lines[0].split(" ", 2)
        self.headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            self.headers[name.strip().lower()] = value.strip()
        self.body = b""
        self.arrived = None  # the whole request was here
        self.is_resumed = None  # behind TLS: whether its connection resumed a session
        self.answered = None  # the script had ended
        self.closed = None  # the peer closed, or reset, the connection
        self.is_reset = False
        self._closed_event = threading.Event()

    @property
    def key(self):
        return self.headers.get("authorization", "").removeprefix("Bearer ")

    def wait_closed(self, timeout=5.0):
        """Waits until the peer has closed, and returns when it did."""
        if not self._closed_event.wait(timeout):
            raise AssertionError(f"the upstream's connection was still open after {timeout} s")
        return self.closed


class Exchange:
    """What a script's steps work with: the connection, at the level of bytes."""

    def __init__(self, connection, record):
        self.record = record
        self.connection = connection
        self.is_chunked = False

    async def send(self, data):
        """Writes, and waits while the peer does not read."""
        if self.connection.gone.is_set():
            raise PeerGone
        self.connection.transport.write(data)
        if not self.connection.writable.is_set():
            await self._unless_gone(self.connection.writable.wait(), HANG_LIMIT_S)

    async def send_content(self, data):
        """Writes as one chunk where the head said that chunks follow."""
        await self.send(b"%x\r\n%s\r\n" % (len(data), data) if self.is_chunked else data)

    async def pause(self, seconds):
        await self._unless_gone(asyncio.sleep(seconds), seconds + 1)

    def close(self):
        self.connection.transport.close()

    def reset(self):
        sock = self.connection.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.transport.abort()

    async def _unless_gone(self, awaitable, timeout):
        work = asyncio.ensure_future(awaitable)
        gone = asyncio.ensure_future(self.connection.gone.wait())
        try:
            await asyncio.wait({work, gone}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise PeerGone
        finally:
            work.cancel()
            gone.cancel()


class _Connection(asyncio.Protocol):
    def __init__(self, upstream):
        self.upstream = upstream
        self.buffer = b""
        self.record = None  # of the request under way, or the last one
        self.task = None
        self.gone = asyncio.Event()
        self.writable = asyncio.Event()
        self.writable.set()

    def connection_made(self, transport):
        self.transport = transport
        tls = transport.get_extra_info("ssl_object")
        self.is_tls = tls is not None
        self.is_resumed = tls.session_reused if self.is_tls else None
        self.number = self.upstream._count_connection()

    def data_received(self, data):
        self.buffer += data
        self._take_request()

    def eof_received(self):
        self._note_gone(is_reset=False)
        # A script may still want to write, and learns of it by gone. TLS has no half close.
        return not self.is_tls

    def connection_lost(self, error):
        self._note_gone(is_reset=isinstance(error, ConnectionResetError))
        self.writable.set()

    def pause_writing(self):
        self.writable.clear()

    def resume_writing(self):
        self.writable.set()

    def _note_gone(self, is_reset):
        if self.gone.is_set():
            return
        self.gone.set()
        if self.record is not None:
            self.record.closed = time.monotonic()
            self.record.is_reset = is_reset
            self.record._closed_event.set()
        if self.task is None:
            self.transport.close()

    def _take_request(self):
        if self.task is not None:
            return
        head, mark, rest = self.buffer.partition(b"\r\n\r\n")
        if not mark:
            return
        record = Record(self.number, head)
        length = int(record.headers.get("content-length", "0"))
        if len(rest) < length:
            return
        record.body, self.buffer = rest[:length], rest[length:]
        record.arrived = time.monotonic()
        record.is_resumed = self.is_resumed
        self.record = record
        script = self.upstream._take_script(record)
        self.task = asyncio.ensure_future(self._play(script, Exchange(self, record)))

    async def _play(self, script, exchange):
        try:
            for step in script:
                await step(exchange)
        except PeerGone:
            pass
        finally:
            exchange.record.answered = time.monotonic()
            self.task = None
        if self.gone.is_set():
            self.transport.close()
        else:
            self._take_request()


class Upstream:
    """The upstream as tests see it. All methods may be called from any thread."""

    def __init__(self):
        self._lock = threading.Lock()
        self._scripts = {}
        self._records = []
        self._unexpected = []
        self._connections = 0
        self._loop = asyncio.new_event_loop()
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait()

    def _run(self, started):
        asyncio.set_event_loop(self._loop)
        self._server = self._loop.run_until_complete(
            self._loop.create_server(lambda: _Connection(self), "127.0.0.1", 0, backlog=512)
        )
        self.port = self._server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()

    def stop(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def base_url(self, name):
        return f"http://127.0.0.1:{self.port}/{name}"

    def listen_tls(self, context):
        """Listens on a further port, under this ssl.SSLContext; returns a function as base_url."""
        return TlsPort(self, context).base_url

    def bind(self, key, *scripts):
        """Requests with this key get these scripts in turn, the last one for ever."""
        assert scripts, "a key needs at least one script"
        with self._lock:
            self._scripts[key] = list(scripts)

    def reset(self):
        """Forgets scripts and records."""
        with self._lock:
            self._scripts.clear()
            self._records = []
            self._unexpected = []

    @property
    def records(self):
        with self._lock:
            return list(self._records)

    @property
    def unexpected(self):
        """Requests that no script was bound for."""
        with self._lock:
            return list(self._unexpected)

    def wait_record(self, count=1, timeout=5.0):
        """Waits until that many requests have arrived, and returns the last of them."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            records = self.records
            if len(records) >= count:
                return records[count - 1]
            time.sleep(0.005)
        raise AssertionError(f"{len(self.records)} requests reached the upstream in {timeout} s, expected {count}")

    def _count_connection(self):
        with self._lock:
            self._connections += 1
            return self._connections

    def _take_script(self, record):
        with self._lock:
            self._records.append(record)
            scripts = self._scripts.get(record.key)
            if scripts is None:
                self._unexpected.append(record)
                return _NO_SCRIPT
            return scripts.pop(0) if len(scripts) > 1 else scripts[0]


class TlsPort:
    """A further port of an upstream, behind TLS."""

    def __init__(self, upstream, context):
        self._upstream = upstream
        self._server = None
        self.port = 0
        self.serve_with(context)

    def serve_with(self, context):
        """From now on connections begin under this ssl.SSLContext; those that there are stay."""
        asyncio.run_coroutine_threadsafe(self._listen(context), self._upstream._loop).result()

    async def _listen(self, context):
        if self._server is not None:
            self._server.close()
        self._server = await self._upstream._loop.create_server(
            lambda: _Connection(self._upstream), "127.0.0.1", self.port, ssl=context
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def base_url(self, name):
        return f"https://127.0.0.1:{self.port}/{name}"

    def stop(self):
        self._upstream._loop.call_soon_threadsafe(self._server.close)


async def _refuse_unscripted(exchange):
    await exchange.send(b"HTTP/1.1 500 No script for this key\r\ncontent-length: 0\r\n\r\n")


_NO_SCRIPT = [_refuse_unscripted]


class RefusedPort:
    """A port of the loopback address that refuses: bound, and never listened on."""

    def __init__(self):
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]

    def base_url(self, name):
        return f"http://127.0.0.1:{self.port}/{name}"

    def stop(self):
        self._socket.close()


class MutePort:
    """A port that takes connections and never says a word: no handshake, no reply."""

    def __init__(self):
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(64)
        self.port = self._listener.getsockname()[1]

    def base_url(self, name):
        return f"https://127.0.0.1:{self.port}/{name}"

    def stop(self):
        self._listener.close()


class SilentPort:
    """A port that neither accepts nor refuses: its queue is full, so that the
    kernel drops what would open a connection."""

    def __init__(self):
        self._listener = socket.socket()
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(0)
        self.port = self._listener.getsockname()[1]
        self._fill = []
        for _ in range(8):
            filler = socket.socket()
            filler.settimeout(0.2)
            self._fill.append(filler)
            try:
                filler.connect(("127.0.0.1", self.port))
            except TimeoutError:
                return
        raise RuntimeError("the queue of a listening socket did not fill")

    def base_url(self, name):
        return f"http://127.0.0.1:{self.port}/{name}"

    def stop(self):
        for filler in self._fill:
            filler.close()
        self._listener.close()

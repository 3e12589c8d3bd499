"""An HTTP/1.1 client on a raw connection: it sees each byte, when it came, and
whether the reply was whole; and it can leave in every way a client can."""

import json
import socket
import struct
import time


class Reply:
    def __init__(self, status, headers, body, is_whole):
        self.status = status
        self.headers = headers
        self.body = body
        self.is_whole = is_whole  # False: the connection ended inside the reply

    @property
    def request_id(self):
        return self.headers["x-request-id"]

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<Reply {self.status} whole={self.is_whole} {self.body[:400]!r}>"


class Call:
    """One request under way."""

    def __init__(self, port, raw, timeout=20.0, receive_buffer=None, source=None):
        """source: the address to call from."""
        self.socket = socket.socket()
        if source is not None:
            self.socket.bind((source, 0))
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = b""
        self.socket.sendall(raw)

    def read_some(self):
        """The next bytes, or b"" at the end (also after a reset)."""
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.received += data
        return data

    def read_until(self, mark):
        """Reads until these bytes have come; returns when."""
        mark = mark.encode() if isinstance(mark, str) else mark
        while mark not in self.received:
            if not self.read_some():
                raise AssertionError(f"the reply ended before {mark!r}: {self.received!r}")
        return time.monotonic()

    def reply(self):
        """Reads the reply to its end."""
        while not self._may_be_whole() or not parse_reply(self.received).is_whole:
            if not self.read_some():
                break
        reply = parse_reply(self.received, at_end=True)
        self.socket.close()
        if reply is None:
            raise AssertionError(f"no reply, only {self.received!r}")
        return reply

    def _may_be_whole(self):
        """A cheap test before the whole is parsed."""
        head, mark, _ = self.received[:65536].partition(b"\r\n\r\n")
        return bool(mark) and (b"chunked" not in head or self.received.endswith(b"0\r\n\r\n"))

    def close(self):
        """Leaves cleanly: everything that came has been read, then FIN. Returns when."""
        self.socket.setblocking(False)
        try:
            while self.socket.recv(65536):
                pass
        except (BlockingIOError, ConnectionResetError):
            pass
        left = time.monotonic()
        self.socket.close()
        return left

    def half_close(self):
        """Says that nothing more will be sent, and goes on reading."""
        left = time.monotonic()
        self.socket.shutdown(socket.SHUT_WR)
        return left

    def reset(self):
        """Leaves by RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        left = time.monotonic()
        self.socket.close()
        return left


def format_request(method, path, headers, body=b""):
    lines = [f"{method} {path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in ({"host": "localhost"} | headers).items()]
    if (body or method in ("POST", "PUT")) and not {"content-length", "transfer-encoding"} & headers.keys():
        lines.append(f"content-length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def parse_reply(received, at_end=False):
    """The reply in these bytes; None while its head is not complete."""
    head, mark, rest = received.partition(b"\r\n\r\n")
    if not mark:
        return None
    lines = head.decode("latin-1").split("\r\n")
    status = int(lines[0].split(" ")[1])
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if status in (204, 304):
        body, is_whole = rest, True  # whatever the headers say (RFC 9112, section 6.3)
    elif headers.get("transfer-encoding") == "chunked":
        body, is_whole = _join_chunks(rest)
    elif "content-length" in headers:
        length = int(headers["content-length"])
        body, is_whole = rest[:length], len(rest) >= length
    else:
        body, is_whole = rest, at_end
    return Reply(status, headers, body, is_whole)


def _join_chunks(rest):
    pieces = []
    at = 0
    while True:
        line_end = rest.find(b"\r\n", at)
        if line_end < 0:
            return b"".join(pieces), False
        size = int(rest[at:line_end].split(b";")[0], 16)
        start = line_end + 2
        if size == 0:
            return b"".join(pieces), rest[start : start + 2] == b"\r\n"
        pieces.append(rest[start : start + size])
        at = start + size + 2
        if len(rest) < at:
            return b"".join(pieces), False

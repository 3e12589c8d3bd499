"""A FastCGI client on a raw connection, for what a web server does not let through:
bodies that never come, and aborts."""

import socket
import struct

BEGIN_REQUEST, ABORT_REQUEST, END_REQUEST, PARAMS, STDIN, STDOUT, STDERR = 1, 2, 3, 4, 5, 6, 7
RESPONDER = 1


def record(kind, content=b""):
    return struct.pack(">BBHHBx", 1, kind, 1, len(content), 0) + content


def pairs(params):
    encoded = b""
    for name, value in params.items():
        for text in (name, value):
            length = len(text.encode())
            encoded += bytes([length]) if length < 128 else struct.pack(">I", length | 0x80000000)
        encoded += name.encode() + value.encode()
    return encoded


class FastCgiCall:
    def __init__(self, path, params, timeout=10.0):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(str(path))
        self.socket.sendall(record(BEGIN_REQUEST, struct.pack(">HB5x", RESPONDER, 0)))
        encoded = pairs(params)
        for at in range(0, len(encoded), 65000):
            self.socket.sendall(record(PARAMS, encoded[at : at + 65000]))
        self.socket.sendall(record(PARAMS))

    def send_body(self, body, is_end=True):
        for at in range(0, len(body), 65000):
            self.socket.sendall(record(STDIN, body[at : at + 65000]))
        if is_end:
            self.socket.sendall(record(STDIN))

    def close(self):
        self.socket.close()

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def abort(self):
        self.socket.sendall(record(ABORT_REQUEST))

    def read_reply(self):
        """Status, headers and body of a whole reply."""
        stdout = b""
        while True:
            kind, content = self._read_record()
            if kind == END_REQUEST:
                break
            if kind == STDOUT:
                stdout += content
        self.socket.close()
        head, _, body = stdout.partition(b"\r\n\r\n")
        headers = {}
        for line in head.decode().split("\r\n"):
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        return int(headers.pop("status", "200").split(" ")[0]), headers, body

    def _read_record(self):
        head = self._read(8)
        _, kind, _, length, padding = struct.unpack(">BBHHBx", head)
        content = self._read(length + padding)
        return kind, content[:length]

    def _read(self, count):
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            assert piece, f"the connection ended inside a record, after {data!r}"
            data += piece
        return data


def request_params(path, body_bytes, caller_key, **more):
    """What lighttpd sends for POST `mount`/chat/completions."""
    mount, _, rest = path.partition("/chat")
    return {
        "GATEWAY_INTERFACE": "CGI/1.1",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REQUEST_METHOD": "POST",
        "REQUEST_URI": path,
        "SCRIPT_NAME": mount,
        "PATH_INFO": f"/chat{rest}",
        "QUERY_STRING": "",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(body_bytes),
        "HTTP_AUTHORIZATION": f"Bearer {caller_key}",
    } | more

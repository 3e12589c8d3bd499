"""A FastCGI client on a raw connection, for what a web server does not let through:
bodies that never come, aborts, half records; and for a bare socket without one."""

import socket
import struct

from http_client import Reply

BEGIN_REQUEST, ABORT_REQUEST, END_REQUEST, PARAMS, STDIN, STDOUT, STDERR = 1, 2, 3, 4, 5, 6, 7
RESPONDER = 1
MOUNTS = ("/v1", "/api/v1/openai")


def record(kind, content=b""):
    return struct.pack(">BBHHBx", 1, kind, 1, len(content), 0) + content


def records(kind, content):
    """The content in records, and the empty one that ends it."""
    pieces = [record(kind, content[at : at + 65000]) for at in range(0, len(content), 65000)]
    return b"".join([*pieces, record(kind)])


def pairs(params):
    encoded = b""
    for name, value in params.items():
        for text in (name, value):
            length = len(text.encode())
            encoded += bytes([length]) if length < 128 else struct.pack(">I", length | 0x80000000)
        encoded += name.encode() + value.encode()
    return encoded


def begin(params):
    """A request up to its body."""
    return record(BEGIN_REQUEST, struct.pack(">HB5x", RESPONDER, 0)) + records(PARAMS, pairs(params))


def whole_request(params, body=b""):
    return begin(params) + records(STDIN, body)


def parse_reply(received):
    """The reply in these bytes; None while its head is not complete. It is whole
    when the end of the request has come."""
    stdout, is_ended, at = [], False, 0
    while len(received) - at >= 8:
        version, kind, _, length, padding = struct.unpack(">BBHHBx", received[at : at + 8])
        if version != 1 or len(received) - at < 8 + length + padding:
            break
        if kind == STDOUT:
            stdout.append(received[at + 8 : at + 8 + length])
        is_ended = is_ended or kind == END_REQUEST
        at += 8 + length + padding
    return parse_cgi(b"".join(stdout), is_ended)


def parse_cgi(stdout, is_whole):
    """The reply in what a CGI program has written (RFC 3875, section 6)."""
    head, mark, body = stdout.partition(b"\r\n\r\n")
    if not mark:
        return None
    headers = {}
    for line in head.decode().split("\r\n"):
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    status = int(headers.pop("status", "200").split(" ")[0])
    length = int(headers.get("content-length", len(body)))
    return Reply(status, headers, body, is_whole and len(body) == length)


class FastCgiCall:
    def __init__(self, path, params, timeout=10.0, body=None):
        """With a body, the whole request leaves in one piece, as a web server sends it."""
        self.socket = connect(path, timeout)
        self.received = b""
        self.socket.sendall(begin(params) if body is None else whole_request(params, body))

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

    def read_some(self):
        """The next bytes, or b"" at the end (also after a reset)."""
        try:
            data = self.socket.recv(65536)
        except ConnectionResetError:
            data = b""
        self.received += data
        return data

    def read_until(self, mark):
        """Reads until the reply has these bytes in one record."""
        while mark.encode() not in self.received:
            assert self.read_some(), f"the reply ended before {mark!r}: {self.received!r}"

    def reply(self):
        """Reads to the connection's end."""
        while self.read_some():
            pass
        self.socket.close()
        reply = parse_reply(self.received)
        assert reply is not None, f"no reply, only {self.received!r}"
        return reply

    def read_reply(self):
        """Status, headers and body of a whole reply."""
        reply = self.reply()
        assert reply.is_whole, reply
        return reply.status, reply.headers, reply.body


def connect(path, timeout=10.0):
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(timeout)
    connection.connect(str(path))
    return connection


def takes_connections(path):
    try:
        connect(path).close()
    except OSError:
        return False
    return True


def meta_variables(method, path, headers, body_bytes):
    """What a web server tells a CGI program of a request (RFC 3875, section 4.1)."""
    mount = next((mount for mount in MOUNTS if path.startswith(f"{mount}/")), "")
    params = {
        "GATEWAY_INTERFACE": "CGI/1.1",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REQUEST_METHOD": method,
        "REQUEST_URI": path,
        "SCRIPT_NAME": mount,
        "PATH_INFO": path[len(mount) :],
        "QUERY_STRING": "",
        "CONTENT_LENGTH": str(body_bytes),
    }
    for name, value in headers.items():
        variable = name.upper().replace("-", "_")
        params[variable if variable == "CONTENT_TYPE" else f"HTTP_{variable}"] = value
    return params


def request_params(path, body_bytes, caller_key, **more):
    """The same for POST `mount`/chat/completions."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {caller_key}"}
    return meta_variables("POST", path, headers, body_bytes) | more


def get_params(path):
    """The same for GET of a path without a mount."""
    return meta_variables("GET", path, {}, 0)

"""Between a program and Postgres: it can be told to do something right before the n-th
statement from now goes to the server, which then does not get it."""

import contextlib
import socket
import struct
import tempfile
import threading
from pathlib import Path

STATEMENTS = b"PQ"  # Parse and Query: PostgreSQL's manual, "Message Formats"


class StepProxy:
    def __init__(self, target):
        self._target = target
        self.folder = Path(tempfile.mkdtemp(prefix="llm-router-steps-"))
        self._left, self._act = None, None
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / target.name))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def before_statement(self, n, act):
        """n from 1; None takes it back."""
        self._left, self._act = n, act

    def was_reached(self):
        return self._left == 0

    def close(self):
        self._listener.close()
        (self.folder / self._target.name).unlink(missing_ok=True)
        self.folder.rmdir()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self._target))
            threading.Thread(target=self._pass_statements, args=(client, server), daemon=True).start()
            threading.Thread(target=self._pass_bytes, args=(server, client), daemon=True).start()

    def _pass_statements(self, client, server):
        """Message by message; the first one of a connection has no type."""
        stream = client.makefile("rb")
        kind = b""
        try:
            while True:
                length = stream.read(4)
                message = kind + length + stream.read(struct.unpack(">I", length)[0] - 4)
                if kind != b"" and kind in STATEMENTS and self._left:
                    self._left -= 1
                    if self._left == 0:
                        self._act()
                        break
                server.sendall(message)
                kind = stream.read(1)
                if kind == b"":
                    break
        except (OSError, struct.error):
            pass
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)  # the other thread waits for it

    def _pass_bytes(self, server, client):
        try:
            while data := server.recv(65536):
                client.sendall(data)
        except OSError:
            pass
        server.close()
        with contextlib.suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
        client.close()

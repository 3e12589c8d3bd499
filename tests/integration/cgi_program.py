"""llm-router as a CGI program, started by the test: one process, one request."""

import os
import subprocess
import threading
import time

from fastcgi import parse_cgi
from processes import program


class CgiCall:
    def __init__(self, params, body, environment, log, arguments=()):
        with open(log, "ab") as stderr:
            self.process = subprocess.Popen(
                [program("llm-router"), *arguments],
                env=environment | params,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                bufsize=0,
            )
        self.received = b""
        threading.Thread(target=self._write, args=(body,), daemon=True).start()

    def _write(self, body):
        """Web servers keep standard input open, or do not: this one does, until it has all been read."""
        try:
            self.process.stdin.write(body)
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # it has answered without it

    def read_some(self):
        data = os.read(self.process.stdout.fileno(), 65536)
        self.received += data
        return data

    def read_until(self, mark):
        while mark.encode() not in self.received:
            assert self.read_some(), f"the reply ended before {mark!r}: {self.received!r}"

    def close(self):
        """Leaves: nobody reads the pipe any more. Returns when."""
        left = time.monotonic()
        self.process.stdout.close()
        return left

    def exit_status(self):
        return self.process.wait(20)

    def reply(self):
        """Reads to the end. It is whole if the program says that it was, by its exit status."""
        while self.read_some():
            pass
        status = self.exit_status()
        reply = parse_cgi(self.received, status == 0)
        assert reply is not None, f"exit status {status}, and only {self.received!r}"
        return reply

"""Events of the spool: STATE_DIR/spool/llm-router.*.jsonl, records LF line LF."""

import json
import time


class Spool:
    def __init__(self, state_dir):
        self._folder = state_dir / "spool"
        self._read_to = {}  # file name -> offset
        self._events = {}  # request id -> events

    def wait_event(self, request_id, timeout=5.0):
        """The one event of this request. It is written before the request is
        finished, so that the wait is for the reader's own haste only."""
        end = time.monotonic() + timeout
        while True:
            self._read_on()
            events = self._events.get(request_id, [])
            assert len(events) <= 1, f"{len(events)} events of one request: {events}"
            if events:
                return events[0]
            assert time.monotonic() < end, f"no event of request {request_id} within {timeout} s"
            time.sleep(0.01)

    def read_bytes(self):
        return b"".join(path.read_bytes() for path in self._files())

    def _files(self):
        return sorted(self._folder.glob("llm-router.*.jsonl"))

    def _read_on(self):
        for path in self._files():
            with path.open("rb") as file:
                file.seek(self._read_to.get(path.name, 0))
                data = file.read()
            whole = data.rfind(b"\n") + 1
            self._read_to[path.name] = self._read_to.get(path.name, 0) + whole
            for line in data[:whole].split(b"\n"):
                if line:
                    event = json.loads(line)
                    self._events.setdefault(event["request_id"], []).append(event)

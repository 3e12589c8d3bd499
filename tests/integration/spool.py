"""Events of the spool: records LF line LF in segments STATE_DIR/spool/llm-router.*.jsonl,
of which the oldest may vanish at any time."""

import json
import os
import time


class Spool:
    def __init__(self, state_dir):
        self._folder = state_dir / "spool"
        self._read_to = {}  # name and inode -> offset
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

    def events_that(self, **members):
        """All events so far with these members."""
        self._read_on()
        every = [event for events in self._events.values() for event in events]
        return [event for event in every if members.items() <= event.items()]

    def read_bytes(self):
        return b"".join(data for _, data in self._read(lambda _: 0))

    def segments(self):
        return sorted(self._folder.glob("llm-router.*.jsonl"))

    def ends_of(self, request_id):
        """How each event of this request says that it ended."""
        self._read_on()
        return [event["end"] for event in self._events.get(request_id, [])]

    def _read(self, start_of):
        """Each segment, and what stands in it from some place on."""
        for path in self.segments():
            try:
                with path.open("rb") as file:
                    segment = path.name, os.fstat(file.fileno()).st_ino
                    file.seek(start_of(segment))
                    yield segment, file.read()
            except FileNotFoundError:
                pass

    def _read_on(self):
        for segment, data in self._read(lambda segment: self._read_to.get(segment, 0)):
            whole = data.rfind(b"\n") + 1
            self._read_to[segment] = self._read_to.get(segment, 0) + whole
            for line in data[:whole].split(b"\n"):
                event = self._parse(line)
                if event is not None:
                    self._events.setdefault(event.get("request_id"), []).append(event)

    @staticmethod
    def _parse(line):
        """The event of a line; None for what a dying writer or a full disk left behind."""
        try:
            return json.loads(line)
        except ValueError:
            return None

"""An upstream that counts what it has in hand, and refuses with 429 what is more than it can: what a provider
does who limits concurrency."""

import threading

from scripts import answer

TOO_MUCH = '{"error":{"message":"Too many concurrent requests.","code":"rate_limit_exceeded"}}'


class Desk:
    """Bind `script` to keys. Several may share one, as the instances of a router do."""

    def __init__(self, capacity, reply, seconds=None, refusal=None):
        """seconds: how long each takes; None: until release()."""
        self._capacity = capacity
        self._reply = reply
        self._seconds = seconds
        self._refusal = refusal if refusal is not None else answer(429, TOO_MUCH)
        self._released = threading.Event()
        self._lock = threading.Lock()
        self.now = self.most = self.served = self.refused = 0
        self.script = [self._serve]

    def release(self):
        """Those in hand, and all that come, are answered."""
        self._released.set()

    def _enter(self):
        with self._lock:
            if self.now == self._capacity:
                self.refused += 1
                return False
            self.now += 1
            self.most = max(self.most, self.now)
            return True

    def _leave(self, is_served):
        with self._lock:
            self.now -= 1
            self.served += is_served

    async def _serve(self, exchange):
        if not self._enter():
            await _play(self._refusal, exchange)
            return
        is_served = False
        try:
            await self._hold(exchange)
            is_served = True
        finally:
            self._leave(is_served)  # whoever has the reply may send the next one
        await _play(self._reply, exchange)

    async def _hold(self, exchange):
        if self._seconds is not None:
            await exchange.pause(self._seconds)
        while self._seconds is None and not self._released.is_set():
            await exchange.pause(0.01)


async def _play(script, exchange):
    for step in script:
        await step(exchange)

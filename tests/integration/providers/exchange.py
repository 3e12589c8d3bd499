"""One request to an imitation, and its reply."""

import re
import time

GOOD_KEY = re.compile(r"sk-canary-[0-9a-f]{32}")


class Request:
    def __init__(self, handler, providers, path, body):
        self.providers = providers
        self.method = handler.command
        self.path, _, self.query = path.partition("?")
        self.headers = {name.lower(): value for name, value in handler.headers.items()}
        self.names = {name.lower() for name in handler.headers}
        self.body = body
        self.origin = f"http://127.0.0.1:{providers.port}"
        self.said = None  # the text, as the provider understood it
        self.arrived = time.monotonic()

    def trouble(self, key):
        """What is wrong with a key: None, or what a test said; "unknown" if it is none."""
        if not GOOD_KEY.fullmatch(key or ""):
            return "unknown"
        return self.providers.troubles.get(key)


class Reply:
    """`body` is bytes, or pieces of them, which are sent in chunks."""

    def __init__(self, status=200, body=b"", headers=None, reason=None):
        self.status = status
        self.reason = reason
        self.headers = headers or {}
        self.body = body

"""A gateway for long loads: behind lighttpd, with the fast upstream, and requests as files."""

import json
import os
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
for folder in ("integration", "bench"):
    sys.path.insert(0, str(ROOT / "tests" / folder))
sys.dont_write_bytecode = True
os.environ["PATH"] += ":/usr/sbin:/sbin"  # lighttpd is there

from fast_upstream import start_upstream  # noqa: E402
from gateway import Gateway  # noqa: E402
from http_client import format_request  # noqa: E402

STOP_S = 120  # thousands of processes take their time


class SoakGateway(Gateway):
    """Its upstream streams so many chunks, one an interval; and takes traces, if they are exported."""

    def __init__(self, folder, workers, chunks, interval_us, is_exporting=False, **options):
        self.fast_upstream, port = start_upstream(folder, chunks, interval_us)
        self.upstream_url = f"http://127.0.0.1:{port}/v1"
        exporting = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", "OTEL_METRICS_EXPORTER": "none"}
        super().__init__(
            folder, {}, None, workers=workers, router_environment=exporting if is_exporting else None, **options
        )

    def stop(self):
        try:
            if self.router is not None:
                self.router.stop(timeout=STOP_S)
            super().stop()
        finally:
            self.fast_upstream.stop()

    def request(self, path="/v1/chat/completions", **body):
        """A whole request, on a connection that is kept."""
        headers = {"authorization": f"Bearer {self.caller_key}", "content-type": "application/json"}
        return format_request("POST", path, headers, json.dumps(body, separators=(",", ":")).encode())


@contextmanager
def soaking(tree_of, workers, **options):
    """A SoakGateway that serves the tree that `tree_of` makes of it; afterwards none of it is broken."""
    with tempfile.TemporaryDirectory(prefix="llm-router-soak-") as folder:
        gateway = SoakGateway(Path(folder), workers, **options)
        try:
            gateway.start()
            gateway.use(tree_of(gateway))
            yield gateway
        finally:
            gateway.stop()
        gateway.assert_unbroken()

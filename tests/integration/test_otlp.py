"""OTLP: what a receiver gets of the requests, whatever it answers."""

import json
import os
import signal
import time
import uuid

import pytest

from otlp import Receiver, Reply, attributes
from processes import wait_until

SLACK_S = 20.0
FAST = {"OTEL_BSP_SCHEDULE_DELAY": "100"}


@pytest.fixture
def receiver():
    receiver = Receiver()
    yield receiver
    receiver.stop()


def event(n, **members):
    """A line of the spool as a request leaves it."""
    identity = uuid.uuid5(uuid.NAMESPACE_OID, str(n)).hex
    return {
        "v": 1, "id": str(uuid.uuid4()), "time": 1_790_000_000_000_000 + n, "request_id": f"r{n}",
        "trace_id": identity, "span_id": identity[:16], "sampled": True, "mount": "/v1",
        "endpoint": "chat/completions", "stream": True, "model": "m",
        "attempts": [{"n": 1, "upstream": "u", "host": "api.example:8443", "start_us": 10, "last_byte_us": 900,
                      "status": 200, "verdict": "ok", "key_fp": "0123abcd"}],
        "end": "done", "status": 200, "committed": True, "fallback_depth": 0, "total_us": 1000,
        "usage": {"input": 3, "output": 0, "source": "upstream"},
    } | members


def append(gateway, *lines, segment=1):
    """Lines in the spool, as workers append them."""
    with (gateway.state_dir / "spool" / f"llm-router.{segment:08}.jsonl").open("ab") as file:
        for line in lines:
            file.write(b"\n" + (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")


@pytest.fixture
def start_exporting(start_gateway, receiver):
    """Starts gateways that export to the receiver, with these variables besides."""

    def start(tree=None, workers=2, **variables):
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "100"} | variables
        return start_gateway(tree, workers=workers, router_environment=environment)

    return start


def test_what_lies_in_the_spool_arrives(start_exporting, receiver):
    gateway = start_exporting()
    append(gateway, event(1), b'{"v":1,"torn":', event(2))
    server, (client,) = receiver.wait_spans_of("r2")
    assert server.name == "POST /v1/chat/completions"
    assert attributes(client)["server.port"] == 8443

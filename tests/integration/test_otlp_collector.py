"""The OpenTelemetry Collector's own receiver takes all three signals. It is built with Go, where there is a
Go new enough; Go keeps what it has built."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import chat
from administrator import Admin, Deployment, document
from processes import BUILD, KeptPort, wait_until
from scripts import answer
from tree import Tree, hostile, model

SOURCE = Path(__file__).parent / "collector"
SLACK_S = 30.0


@pytest.fixture(scope="module")
def collector():
    """The program's path."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go")
    path = (BUILD / "collector").resolve()
    environment = os.environ | {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    done = subprocess.run(["go", "build", "-mod=readonly", "-o", str(path), "."], cwd=SOURCE, env=environment,
                          capture_output=True, text=True, timeout=900, check=False)
    if done.returncode != 0:
        pytest.skip(f"this Go cannot build it: {done.stderr[-500:]}")
    return path


class Running:
    def __init__(self, path, log):
        self._port = KeptPort()
        self.url = f"http://127.0.0.1:{self._port.number}"
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen([path, f"127.0.0.1:{self._port.number}"], stdout=output,
                                             stderr=subprocess.STDOUT)

    def stop(self):
        self._process.terminate()
        assert self._process.wait(20) == 0, self._log.read_text()
        self._port.close()

    def of(self, kind):
        """What has been taken: resourceSpans, resourceMetrics, resourceLogs."""
        lines = [json.loads(line) for line in self._log.read_bytes().split(b"\n")[:-1]]
        return [resource for line in lines for resource in line.get(kind, [])]


@pytest.mark.parametrize("protocol", ["http/protobuf", "http/json"])
def test_the_collector_takes_traces_metrics_and_logs(collector, tmp_path, base_urls, upstream, protocol):
    upstream.reset()
    running = Running(collector, tmp_path / "collector.log")
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": running.url,
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_BLRP_SCHEDULE_DELAY": "100",
        "OTEL_METRIC_EXPORT_INTERVAL": "300",
    }
    folder = tmp_path / "plane"
    folder.mkdir()
    gateway = Deployment(folder, base_urls, upstream, workers=2)
    gateway._router_environment |= environment
    gateway.start()
    admin = Admin(gateway, environment=environment)
    try:
        admin.wait_for_socket()
        gateway.use(Tree(model("m", hostile("a", "k1"))))
        gateway.script("m", "k1", answer(200, chat.completion()))
        request_id = gateway.chat("m").request_id
        assert admin.put(document(admin), "*").status == 200

        def spans():
            return [s for r in running.of("resourceSpans") for scope in r["scopeSpans"] for s in scope["spans"]]

        def names():
            return {m["name"] for r in running.of("resourceMetrics") for s in r["scopeMetrics"] for m in s["metrics"]}

        wait_until(lambda: any(request_id in json.dumps(span) for span in spans()), "the trace is taken", SLACK_S)
        wait_until(lambda: "airi.gen_ai.gateway.requests" in names(), "metrics are taken", SLACK_S)
        wait_until(lambda: "airi.gen_ai.gateway.config.write" in json.dumps(running.of("resourceLogs")),
                   "the write's event is taken", SLACK_S)
        for program in (gateway.router, admin.process):
            assert '"export_' not in program.log_text()
    finally:
        admin.process.stop()
        gateway.stop()
        running.stop()

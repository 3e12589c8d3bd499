"""Prometheus and promtool: the real ones, on a private port and folder; and what /metrics says,
read by Prometheus' own parsers."""

import json
import os
import subprocess
import urllib.parse
import urllib.request

from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics

from processes import KeptPort, Process, wait_until

OPENMETRICS = "application/openmetrics-text"
SCRAPE_S = 1.0


class Prometheus:
    """Scrapes targets ("host:port") under /metrics until it is stopped."""

    def __init__(self, folder, targets, rules=(), token_file=None):
        self._kept_port = KeptPort()
        self.address = f"127.0.0.1:{self._kept_port.number}"
        job = {
            "job_name": "llm-router",
            "static_configs": [{"targets": list(targets)}],
        }
        if token_file is not None:
            job["authorization"] = {"credentials_file": str(token_file)}
        interval = f"{int(SCRAPE_S * 1000)}ms"
        configuration = {
            "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
            "scrape_configs": [job],
            "rule_files": [str(rule) for rule in rules],
        }
        file = folder / "prometheus.json"  # JSON is YAML
        file.write_text(json.dumps(configuration))
        self.process = Process(
            [
                "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address={self.address}",
                "--log.level=warn",
            ],
            {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
            folder / "prometheus.log",
        )
        wait_until(self._is_ready, f"prometheus is ready: {self.process.log_text()}", 30)

    def _is_ready(self):
        assert self.process.is_running(), self.process.log_text()
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=5) as reply:
                return reply.status == 200
        except OSError:
            return False

    def _get(self, path, **parameters):
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=20) as reply:
            answer = json.load(reply)
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression):
        """The vector as {labels as a frozenset of pairs, without instance and job: value}."""
        found = {}
        for sample in self._get("query", query=expression)["result"]:
            labels = {name: value for name, value in sample["metric"].items() if name not in ("instance", "job")}
            found[frozenset(labels.items())] = float(sample["value"][1])
        return found

    def value(self, expression):
        """That of the only sample; None: there is none yet."""
        found = self.query(expression)
        assert len(found) <= 1, found
        return next(iter(found.values()), None)

    def targets(self):
        return self._get("targets")["activeTargets"]

    def firing(self, name):
        """The alerts of this name that fire, each with labels and annotations."""
        return [alert for alert in self._get("alerts")["alerts"]
                if alert["labels"]["alertname"] == name and alert["state"] == "firing"]

    def has_fired(self, name):
        """Whether it did at any time."""
        return bool(self.query(f'count_over_time(ALERTS{{alertname="{name}",alertstate="firing"}}[1h])'))

    def stop(self):
        self.process.stop(30)
        self._kept_port.close()


def check_text(text):
    """What promtool has to say about the text format: parse errors, and what it would have otherwise."""
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stdout + done.stderr


def parse_openmetrics(text):
    """{family: {labels: value}} as the reference parser reads it, which is strict; values of
    samples by their whole name."""
    return {family.name: family for family in read_openmetrics(text)}

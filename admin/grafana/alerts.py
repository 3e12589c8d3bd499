"""The alerts: one table, from which Prometheus' rules and Grafana's are made.

A counter is summed by `job`, so that two deployments under one Prometheus do not mix: the
instances of one job share a store. A ratio without traffic is NaN, which compares as false.
Comparisons filter, so that what an expression returns is what is wrong.
"""

from dataclasses import dataclass

GATEWAY = "airi_gen_ai_gateway_"
MINUTE, HOUR = 60, 3600
SEVERITIES = {"P0": "critical", "P1": "warning", "P2": "info"}


@dataclass(frozen=True)
class Settings:
    job: str = "llm-router"  # of the scrape configuration
    runbook: str = "admin/RUNBOOK.md"
    datasource: str = "prometheus"  # the uid of Grafana's data source
    spool_max_bytes: int = 1 << 30  # what the instances run with
    time_scale: int = 1  # by how much windows are shorter, for a trial

    def seconds(self, seconds):
        return seconds / self.time_scale

    def duration(self, seconds):
        """As Prometheus and Grafana write it: 30m, 24h, 500ms."""
        if seconds == 0:
            return "0s"
        ms = int(self.seconds(seconds) * 1000)
        for unit, size in (("h", 3600_000), ("m", 60_000), ("s", 1000)):
            if ms % size == 0:
                return f"{ms // size}{unit}"
        return f"{ms}ms"


@dataclass(frozen=True)
class Alert:
    name: str
    priority: str
    expr: str
    hold_s: int  # for how long it is so before it is said
    summary: str  # {percent}, {count} and the like: what the expression returned
    action: str

    @property
    def severity(self):
        return SEVERITIES[self.priority]

    def labels(self):
        return {"priority": self.priority, "severity": self.severity}

    def annotations(self, settings, value):
        """value: how the place of the annotations calls what the expression returned."""
        texts = {"summary": self.summary, "description": self.action}
        filled = {name: _fill_value(text, value) for name, text in texts.items()}
        return filled | {"runbook_url": f"{settings.runbook}#{self.name.lower()}"}


def _fill_value(text, value):
    for pattern, function in (("{percent}", "humanizePercentage"), ("{count}", 'printf "%.0f"'), ("{mean}", "humanize"),
                              ("{bytes}", "humanize1024"), ("{duration}", "humanizeDuration")):
        text = text.replace(pattern, f"{{{{ {value} | {function} }}}}")
    return text


def alerts(settings):
    def increase(metric, window_s, by="job", matchers=""):
        selector = f"{GATEWAY}{metric}" + (f"{{{matchers}}}" if matchers else "")
        return f"sum by ({by}) (increase({selector}[{settings.duration(window_s)}]))"

    # Refused requests cannot fall back: they must not dilute the ratio.
    def fallback_ratio(window_s):
        return f"{increase('fallback_count_total', window_s)} / {increase('fallback_depth_count', window_s)}"

    def one_key(window_s):
        """One key has the errors of all, there is another one, and it is no accident."""
        errors = increase("upstream_errors_total", window_s)
        return (
            f"{increase('upstream_errors_total', window_s, 'job, provider, key_id')}"
            f" / on (job) group_left () {errors} > 0.8\n"
            f"and on (job) {errors} > 10\n"
            f"and on (job) count by (job) (count by (job, provider, key_id)"
            f" ({GATEWAY}upstream_errors_total{{key_id!=\"_other\"}})) > 1"
        )

    def gauge(function, metric, by="job, instance"):
        return f"{function} by ({by}) ({GATEWAY}{metric})"

    spool = f"{GATEWAY}spool_bytes[{settings.duration(HOUR)}]"
    horizon_s = settings.seconds(4 * HOUR)
    up = f'up{{job="{settings.job}"}}'
    find_key = "Find {{ $labels.key_id }} as keyFingerprint in the tree"

    return [
        Alert(
            "LlmRouterKeysExhausted", "P0",
            f"{increase('key_exhausted_count_total', 5 * MINUTE, 'job, provider, status_code, surface')} > 0", 0,
            "{count} {{ $labels.surface }} requests failed with every key tried; the last attempt was at"
            " {{ $labels.provider }}: {{ $labels.status_code }}",
            "Callers see errors. Give the model a live key, or another upstream, now.",
        ),
        Alert(
            "LlmRouterNoInstance", "P0",
            f"sum by (job) ({up}) == 0\nor absent({up})", MINUTE,
            "No instance of {{ $labels.job }} answers Prometheus",
            "Callers get nothing, or only Prometheus is cut off: ask /livez at the web server.",
        ),
        Alert(
            "LlmRouterFallbackRatio", "P1",
            f"{fallback_ratio(15 * MINUTE)} > 0.3\n"
            f"and {fallback_ratio(2 * MINUTE)} > 0.3\n"
            f"and {increase('fallback_depth_count', 15 * MINUTE)} > 20", 0,
            "{percent} of the requests of a quarter of an hour needed more than one attempt",
            "Callers wait longer, and reserves are in use. See which first key fails (from_key), and why.",
        ),
        Alert(
            "LlmRouterDecryptFailures", "P1",
            f"{increase('decrypt_failures_total', 10 * MINUTE, 'job, instance, provider')} > 0", 0,
            "Keys of {{ $labels.provider }} do not decrypt at {{ $labels.instance }}",
            "That host has not the master key which the tree was written with.",
        ),
        Alert(
            "LlmRouterOverflow", "P1",
            f"{increase('overflow_count_total', 5 * MINUTE, 'job, instance')}"
            f" / {increase('connections_accepted_total', 5 * MINUTE, 'job, instance')} > 0.01", 0,
            "{{ $labels.instance }} turned {percent} of its connections away",
            "No worker was free for a second. More workers, or fewer requests.",
        ),
        Alert(
            "LlmRouterConfigNotSpread", "P1",
            f"count by (job) (count by (job, version) ({GATEWAY}config_info)) > 1", MINUTE,
            "{count} versions of the tree are in force at the same time",
            "A change takes five seconds. A revoked key is still in use where the old version is.",
        ),
        Alert(
            "LlmRouterStoreDown", "P1",
            f"{gauge('min', 'store_up')} == 0", MINUTE,
            "{{ $labels.instance }} cannot read its store",
            "Requests go on with the last good tree; changes do not arrive.",
        ),
        # Instances that share a Redis say the same of a pool: the maximum is what is so, a sum is nothing.
        Alert(
            "LlmRouterPoolFull", "P1",
            f"{gauge('max', 'pool_inflight', 'job, app_id')} / {gauge('max', 'pool_capacity', 'job, app_id')} > 0.95",
            10 * MINUTE,
            "Of the slots of the pool {{ $labels.app_id }}, {percent} have been in use for ten minutes",
            "Where all pools of a model are full, requests wait or are answered 503. Add an app, or raise"
            " maxConcurrency if the provider grants more.",
        ),
        Alert(
            "LlmRouterSpoolGrowth", "P1",
            f"max by (job, instance) (predict_linear({spool}, {horizon_s:g})) > {settings.spool_max_bytes * 9 // 10}\n"
            f"and {gauge('max', 'spool_lag_seconds')} > 0", 15 * MINUTE,
            "The spool of {{ $labels.instance }} is full, or will be within four hours ({bytes}B)",
            "A sink does not take what it is sent. When the spool is full, events are lost for good.",
        ),
        Alert(
            "LlmRouterSpoolDropped", "P1",
            f"{increase('spool_dropped_total', 10 * MINUTE, 'job, instance')} > 0", 0,
            "{{ $labels.instance }} lost {count} events",
            "The disk or the spool is full. Make room; what was dropped is in no log, trace or row.",
        ),
        Alert(
            "LlmRouterSpoolLag", "P2",
            f"{gauge('max', 'spool_lag_seconds', 'job, instance, signal')} > {settings.seconds(5 * MINUTE):g}",
            5 * MINUTE,
            "{{ $labels.signal }} of {{ $labels.instance }} are {duration} behind",
            "Nothing is lost while the spool has room. See whether the receiver takes what it is sent.",
        ),
        Alert(
            "LlmRouterExportFailures", "P2",
            f"{increase('export_failures_total', 10 * MINUTE, 'job, instance, signal')} > 0", 15 * MINUTE,
            "{{ $labels.signal }} of {{ $labels.instance }} do not reach their receiver",
            "They are tried again. The log says what the receiver answers.",
        ),
        Alert(
            "LlmRouterExportDropped", "P2",
            f"{increase('export_dropped_total', 15 * MINUTE, 'job, instance, signal')} > 0", 0,
            "A receiver refused {count} items of the {{ $labels.signal }} of {{ $labels.instance }}",
            "They are not sent again. The log has the receiver's words.",
        ),
        Alert(
            "LlmRouterWorkerDeaths", "P2",
            f"{increase('worker_deaths_total', 15 * MINUTE, 'job, instance')} > 0", 0,
            "{count} workers of {{ $labels.instance }} died unasked",
            "Each took one request with it and was replaced. Report it with what the log says.",
        ),
        Alert(
            "LlmRouterSingleKey", "P2",
            one_key(30 * MINUTE), 5 * MINUTE,
            "{percent} of the upstream errors of half an hour are those of one key of {{ $labels.provider }}:"
            " {{ $labels.key_id }}",
            f"{find_key}, and take it out by hand.",
        ),
        # Agreed beforehand: when one of these two comes, leaving dead keys out becomes the program's task.
        Alert(
            "LlmRouterSingleKeyLasting", "P2",
            one_key(10 * MINUTE), 30 * MINUTE,
            "For half an hour one key of {{ $labels.provider }} has had most upstream errors, {percent} of them now:"
            " {{ $labels.key_id }}",
            f"{find_key}. Each request finds out anew that it is dead.",
        ),
        Alert(
            "LlmRouterFallbackDepth", "P2",
            f"{increase('fallback_depth_sum', 24 * HOUR)} / {increase('fallback_depth_count', 24 * HOUR)} > 0.5\n"
            f"and {increase('fallback_depth_count', 24 * HOUR)} > 100", HOUR,
            "A request of the last 24 hours needed {mean} attempts too many in the mean",
            "What fails is tried first: take it out of the tree, or put it further back.",
        ),
    ]


def prometheus_rules(settings):
    """A file for Prometheus' rule_files."""
    rules = []
    for alert in alerts(settings):
        hold = {"for": settings.duration(alert.hold_s)} if alert.hold_s else {}
        rules.append({"alert": alert.name, "expr": alert.expr} | hold
                     | {"labels": alert.labels(), "annotations": alert.annotations(settings, "$value")})
    return {"groups": [{"name": "llm-router", "rules": rules}]}


def grafana_rules(settings):
    """The same for Grafana's provisioning/alerting. It takes $NAME for a variable of its environment."""

    def escaped(texts):
        return {name: text.replace("$", "$$") for name, text in texts.items()}

    rules = []
    for alert in alerts(settings):
        query = {"refId": "A", "expr": alert.expr, "instant": True, "range": False}
        # Whatever the query returns is past its bound already, and none of it is negative.
        threshold = {"refId": "B", "type": "threshold", "expression": "A",
                     "conditions": [{"evaluator": {"type": "gt", "params": [-1]}}]}
        data = [{"refId": model["refId"], "relativeTimeRange": {"from": 600, "to": 0}, "datasourceUid": uid,
                 "model": model} for model, uid in ((query, settings.datasource), (threshold, "__expr__"))]
        rules.append({
            "uid": alert.name, "title": alert.name, "condition": "B", "data": data,
            "noDataState": "OK", "execErrState": "Error", "for": settings.duration(alert.hold_s),
            "labels": alert.labels(), "annotations": escaped(alert.annotations(settings, "$values.A.Value")),
            "isPaused": False,
        })
    group = {"orgId": 1, "name": "llm-router", "folder": "llm-router", "interval": "1m", "rules": rules}
    return {"apiVersion": 1, "groups": [group]}

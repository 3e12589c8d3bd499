"""Each alert, when it fires and when it does not, by promtool on series that are written down.

A value that is written "0+1x10" begins at 0 and grows by 1 ten times, once a STEP; "_x10" is not there
yet; "stale" ends a series.
"""

import json
from dataclasses import dataclass, field

import pytest

from metrics import Q
from processes import ROOT
from promql import promtool

RULES = ROOT / "admin" / "grafana" / "alerts.rules.yml"
STEP = "1m"


@dataclass
class Case:
    alert: str
    what: str
    series: dict  # name and labels -> values
    at: str
    fires: list = field(default_factory=list)  # the labels of each that shall, besides what all of them have
    step: str = STEP


def listed(labels):
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels.items()) + "}"


def series(metric, values, instance="a", job="llm-router", **labels):
    labels = {"job": job, "instance": instance} | labels
    name = metric if metric == "up" else Q + metric
    return {name + listed(labels): values}


def exhausted(values, provider="openai", surface="chat", **labels):
    return series("key_exhausted_count_total", values, provider=provider, status_code="401", surface=surface, **labels)


EXHAUSTED = {"provider": "openai", "status_code": "401", "surface": "chat"}


def fallback(requests, fallbacks, fallback_labels=None, **labels):
    counted = {"provider": "openai", "from_key": "0a1b2c3d", "reason": "401", "scope": "key"}
    return series("fallback_depth_count", requests, surface="chat", **labels) | series(
        "fallback_count_total", fallbacks, **counted, **labels)


def errors(**values):
    """Errors by key: `dead` is one, `other` another one, `dead_b` the first one's at the instance b."""
    found = series("upstream_errors_total", "0+0x2000", provider="_other", key_id="_other", status_code="401")
    for name, key_values in values.items():
        key, _, instance = name.partition("_")
        found |= series("upstream_errors_total", key_values, instance or "a", provider="openai", key_id=key,
                        status_code="401")
    return found


DEAD = {"provider": "openai", "key_id": "dead"}


def depth(total, count):
    return series("fallback_depth_sum", total, surface="chat") | series("fallback_depth_count", count, surface="chat")


def decrypt(values):
    return series("decrypt_failures_total", values, provider="openai")


def overflow(shed, accepted):
    return series("overflow_count_total", shed) | series("connections_accepted_total", accepted)


def version(name, values, instance="a", job="llm-router"):
    return series("config_info", values, instance, job, service_instance_id=instance, version=name)


def pool(inflight, capacity, app_id="123", **labels):
    return series("pool_inflight", inflight, app_id=app_id, **labels) | series(
        "pool_capacity", capacity, app_id=app_id, **labels)


def spool(size, lag):
    return series("spool_bytes", size) | series("spool_lag_seconds", lag, signal="traces")


def signal(metric, values):
    return series(metric, values, signal="rows")


AT_A, ROWS_AT_A = {"instance": "a"}, {"instance": "a", "signal": "rows"}
MIB = 1 << 20

CASES = [
    Case("LlmRouterKeysExhausted", "one request", exhausted("0+0x10 1+0x20"), "11m", [EXHAUSTED]),
    Case("LlmRouterKeysExhausted", "it is over five minutes later", exhausted("0+0x10 1+0x20"), "17m"),
    Case("LlmRouterKeysExhausted", "none", exhausted("0+0x30"), "20m"),
    Case("LlmRouterKeysExhausted", "errors that a later key made good",
         exhausted("0+0x30") | errors(dead="0+5x30") | fallback("0+5x30", "0+5x30"), "20m"),
    Case("LlmRouterKeysExhausted", "of two instances one alert",
         exhausted("0+0x10 1+0x20") | exhausted("0+0x10 3+0x20", instance="b"), "11m", [EXHAUSTED]),
    Case("LlmRouterKeysExhausted", "each provider by itself",
         exhausted("0+0x10 1+0x20") | exhausted("0+0x10 1+0x20", provider="azure.speech", surface="speech"), "11m",
         [EXHAUSTED, EXHAUSTED | {"provider": "azure.speech", "surface": "speech"}]),
    Case("LlmRouterKeysExhausted", "an instance that begins anew says nothing", exhausted("7+0x10 0+0x20"), "11m"),
    Case("LlmRouterKeysExhausted", "one request after it began anew", exhausted("7+0x10 1+0x20"), "11m", [EXHAUSTED]),
    Case("LlmRouterKeysExhausted", "a provider that is new", exhausted("_x9 0+0x1 1+0x20"), "12m", [EXHAUSTED]),
    Case("LlmRouterKeysExhausted", "a provider that fails from its first sight on", exhausted("_x9 4+4x20"), "11m",
         [EXHAUSTED]),
    Case("LlmRouterKeysExhausted", "what an instance counted before Prometheus knew it", exhausted("_x9 4+0x20"),
         "11m"),

    Case("LlmRouterNoInstance", "the last one is gone", series("up", "1+0x5 0+0x10"), "8m", [{}]),
    Case("LlmRouterNoInstance", "a scrape was missed", series("up", "1 0 1+0x5"), "1m"),
    Case("LlmRouterNoInstance", "Prometheus knows of none", series("up", "1+0x20", job="node"), "5m", [{}]),
    Case("LlmRouterNoInstance", "one of two is left", series("up", "1+0x20") | series("up", "0+0x20", "b"), "10m"),

    Case("LlmRouterFallbackRatio", "two of five", fallback("0+10x30", "0+4x30"), "20m", [{}]),
    Case("LlmRouterFallbackRatio", "one of five", fallback("0+10x30", "0+2x30"), "20m"),
    Case("LlmRouterFallbackRatio", "all of a handful", fallback("0+1x30", "0+1x30"), "20m"),
    Case("LlmRouterFallbackRatio", "no traffic", fallback("0+0x30", "0+0x30"), "20m"),
    Case("LlmRouterFallbackRatio", "it was so, and is well now", fallback("0+10x40", "0+10x15 150+0x25"), "20m"),
    Case("LlmRouterFallbackRatio", "it has just begun", fallback("0+10x40", "0+0x20 0+10x20"), "22m"),
    Case("LlmRouterFallbackRatio", "it has gone on", fallback("0+10x40", "0+0x20 0+10x20"), "26m", [{}]),
    Case("LlmRouterFallbackRatio", "the instance began anew meanwhile",
         fallback("0+10x15 0+10x15", "0+4x15 0+4x15"), "20m", [{}]),
    Case("LlmRouterFallbackRatio", "a key that is new is dead", fallback("0+10x40", "_x20 0+10x20"), "28m", [{}]),
    Case("LlmRouterFallbackRatio", "half of the requests of two instances",
         fallback("0+10x30", "0+10x30") | fallback("0+10x30", "0+0x30", instance="b"), "20m", [{}]),
    Case("LlmRouterFallbackRatio", "one deployment does not hide another",
         fallback("0+10x30", "0+10x30") | fallback("0+1000x30", "0+0x30", job="other"), "20m", [{}]),

    Case("LlmRouterSingleKey", "nine of ten", errors(dead="0+9x60", other="0+1x60"), "40m", [DEAD]),
    Case("LlmRouterSingleKey", "the others have none", errors(dead="0+9x60", other="0+0x60"), "40m", [DEAD]),
    Case("LlmRouterSingleKey", "three of four", errors(dead="0+3x60", other="0+1x60"), "40m"),
    Case("LlmRouterSingleKey", "there is no other key", errors(dead="0+9x60"), "40m"),
    Case("LlmRouterSingleKey", "a handful of errors", errors(dead="0+0x10 5+0x50", other="0+0x60"), "20m"),
    Case("LlmRouterSingleKey", "no errors", errors(dead="0+0x60", other="0+0x60"), "40m"),
    Case("LlmRouterSingleKey", "for less than five minutes", errors(dead="0+0x30 0+9x60", other="0+0x90"), "34m"),
    Case("LlmRouterSingleKey", "the few errors of two instances are many",
         errors(dead="0+0x5 7+0x55", dead_b="0+0x5 7+0x55", other="0+0x60"), "20m", [DEAD]),
    Case("LlmRouterSingleKey", "the instance began anew meanwhile",
         errors(dead="0+9x20 0+9x20", other="0+1x20 0+1x20"), "30m", [DEAD]),
    Case("LlmRouterSingleKey", "a key that is new", errors(dead="_x20 0+9x40", other="0+0x60"), "40m", [DEAD]),
    Case("LlmRouterSingleKey", "it was taken out half an hour ago", errors(dead="0+9x20 180+0x60", other="0+0x80"),
         "52m"),

    Case("LlmRouterSingleKeyLasting", "for half an hour", errors(dead="0+9x90", other="0+1x90"), "45m", [DEAD]),
    Case("LlmRouterSingleKeyLasting", "for a quarter of an hour", errors(dead="0+9x90", other="0+1x90"), "20m"),
    Case("LlmRouterSingleKeyLasting", "there is no other key", errors(dead="0+9x90"), "60m"),
    Case("LlmRouterSingleKeyLasting", "a burst at the beginning",
         errors(dead="0+50x5 250+0x60", other="0+0x65"), "40m"),
    Case("LlmRouterSingleKeyLasting", "no errors", errors(dead="0+0x90", other="0+0x90"), "60m"),
    Case("LlmRouterSingleKeyLasting", "the instance began anew meanwhile",
         errors(dead="0+9x20 0+9x40", other="0+1x20 0+1x40"), "45m", [DEAD]),

    Case("LlmRouterFallbackDepth", "three attempts too many in four requests", depth("0+6x200", "0+8x200"), "26h",
         [{}], "10m"),
    Case("LlmRouterFallbackDepth", "two in five", depth("0+4x200", "0+10x200"), "26h", step="10m"),
    Case("LlmRouterFallbackDepth", "a day with few requests", depth("0+0x100 60+0x100", "0+0x100 60+0x100"), "26h",
         step="10m"),
    Case("LlmRouterFallbackDepth", "no traffic", depth("0+0x200", "0+0x200"), "26h", step="10m"),
    Case("LlmRouterFallbackDepth", "the instance began anew meanwhile",
         depth("0+6x100 0+6x100", "0+8x100 0+8x100"), "26h", [{}], "10m"),

    Case("LlmRouterDecryptFailures", "one", decrypt("0+0x10 1+0x20"), "11m", [AT_A | {"provider": "openai"}]),
    Case("LlmRouterDecryptFailures", "none", decrypt("0+0x30"), "20m"),
    Case("LlmRouterDecryptFailures", "an instance that begins anew says nothing", decrypt("3+0x10 0+0x20"), "11m"),
    Case("LlmRouterDecryptFailures", "it is over", decrypt("0+0x10 1+0x20"), "22m"),

    Case("LlmRouterOverflow", "one of fifty", overflow("0+2x30", "0+100x30"), "10m", [AT_A]),
    Case("LlmRouterOverflow", "one of two hundred", overflow("0+1x30", "0+200x30"), "10m"),
    Case("LlmRouterOverflow", "no connections", overflow("0+0x30", "0+0x30"), "10m"),
    Case("LlmRouterOverflow", "the instance began anew meanwhile", overflow("0+2x8 0+2x8", "0+100x8 0+100x8"), "10m",
         [AT_A]),
    Case("LlmRouterOverflow", "an instance that begins anew says nothing",
         overflow("50+0x8 0+0x8", "0+100x8 0+100x8"), "10m"),

    Case("LlmRouterConfigNotSpread", "one instance stayed behind",
         version("old", "1+0x30") | version("old", "1+0x3", "b") | version("new", "_x4 1+0x30", "b"), "10m", [{}]),
    Case("LlmRouterConfigNotSpread", "a change under way",
         version("old", "1+0x4 stale") | version("new", "_x5 1+0x30") | version("old", "1+0x5 stale", "b")
         | version("new", "_x6 1+0x30", "b"), "6m"),
    Case("LlmRouterConfigNotSpread", "and when it is done",
         version("old", "1+0x4 stale") | version("new", "_x5 1+0x30") | version("old", "1+0x5 stale", "b")
         | version("new", "_x6 1+0x30", "b"), "9m"),
    Case("LlmRouterConfigNotSpread", "the one with the old version is gone",
         version("new", "1+0x30") | version("old", "1+0x3 stale", "b"), "9m"),
    Case("LlmRouterConfigNotSpread", "another deployment has another version",
         version("one", "1+0x30") | version("other", "1+0x30", "b", job="other"), "9m"),

    Case("LlmRouterStoreDown", "for two minutes", series("store_up", "1+0x3 0+0x10"), "7m", [AT_A]),
    Case("LlmRouterStoreDown", "for a moment", series("store_up", "1+0x3 0 1+0x10"), "4m"),
    Case("LlmRouterStoreDown", "never", series("store_up", "1+0x10"), "7m"),
    Case("LlmRouterStoreDown", "one of two instances",
         series("store_up", "1+0x10") | series("store_up", "0+0x10", "b"), "7m", [{"instance": "b"}]),

    Case("LlmRouterPoolFull", "for a quarter of an hour", pool("10+0x30", "10+0x30"), "15m", [{"app_id": "123"}]),
    Case("LlmRouterPoolFull", "one slot of ten is free", pool("9+0x30", "10+0x30"), "15m"),
    Case("LlmRouterPoolFull", "now and then", pool("10 10 10 10 9 10 10 10 10 9 10 10 10 10 10 10", "10+0x30"), "15m"),
    Case("LlmRouterPoolFull", "two instances say the same of one pool",
         pool("10+0x30", "10+0x30") | pool("10+0x30", "10+0x30", instance="b"), "15m", [{"app_id": "123"}]),
    Case("LlmRouterPoolFull", "two instances with half of it each make no full one",
         pool("5+0x30", "10+0x30") | pool("5+0x30", "10+0x30", instance="b"), "15m"),
    Case("LlmRouterPoolFull", "each pool by itself", pool("10+0x30", "10+0x30") | pool("1+0x30", "10+0x30", "456"), "15m",
         [{"app_id": "123"}]),
    Case("LlmRouterPoolFull", "nobody can say", pool("_x30", "10+0x30"), "15m"),

    Case("LlmRouterSpoolGrowth", "full in three hours", spool(f"0+{4 * MIB}x120", "60+60x120"), "80m", [AT_A]),
    Case("LlmRouterSpoolGrowth", "full", spool(f"{1020 * MIB}+0x120", "60+60x120"), "80m", [AT_A]),
    Case("LlmRouterSpoolGrowth", "full in a day", spool(f"0+{MIB // 2}x120", "60+60x120"), "80m"),
    Case("LlmRouterSpoolGrowth", "nobody is sent anything", spool(f"0+{4 * MIB}x120", "0+0x120"), "80m"),
    Case("LlmRouterSpoolGrowth", "a burst", spool(f"0+0x60 0+{8 * MIB}x10 0+0x50", "0+0x60 1+0x10 0+0x50"), "70m"),

    Case("LlmRouterSpoolDropped", "one event", series("spool_dropped_total", "0+0x10 1+0x20"), "11m", [AT_A]),
    Case("LlmRouterSpoolDropped", "none", series("spool_dropped_total", "0+0x30"), "11m"),
    Case("LlmRouterSpoolDropped", "an instance that begins anew says nothing",
         series("spool_dropped_total", "9+0x10 0+0x20"), "11m"),

    Case("LlmRouterSpoolLag", "for a quarter of an hour", signal("spool_lag_seconds", "0+60x40"), "15m", [ROWS_AT_A]),
    Case("LlmRouterSpoolLag", "of a minute", signal("spool_lag_seconds", "60+0x40"), "20m"),
    Case("LlmRouterSpoolLag", "that is made good", signal("spool_lag_seconds", "0+60x8 0+0x40"), "8m"),

    Case("LlmRouterExportFailures", "all the time", signal("export_failures_total", "0+1x40"), "20m", [ROWS_AT_A]),
    Case("LlmRouterExportFailures", "once", signal("export_failures_total", "0+0x3 1+0x40"), "8m"),
    Case("LlmRouterExportFailures", "the instance began anew meanwhile",
         signal("export_failures_total", "0+1x10 0+1x20"), "20m", [ROWS_AT_A]),
    Case("LlmRouterExportFailures", "never", signal("export_failures_total", "0+0x40"), "30m"),

    Case("LlmRouterExportDropped", "one item", signal("export_dropped_total", "0+0x10 1+0x20"), "11m", [ROWS_AT_A]),
    Case("LlmRouterExportDropped", "none", signal("export_dropped_total", "0+0x30"), "11m"),
    Case("LlmRouterExportDropped", "an instance that begins anew says nothing",
         signal("export_dropped_total", "9+0x10 0+0x20"), "11m"),

    Case("LlmRouterWorkerDeaths", "one", series("worker_deaths_total", "0+0x10 1+0x20"), "11m", [AT_A]),
    Case("LlmRouterWorkerDeaths", "none", series("worker_deaths_total", "0+0x30"), "11m"),
    Case("LlmRouterWorkerDeaths", "an instance that begins anew says nothing",
         series("worker_deaths_total", "9+0x10 0+0x20"), "11m"),
]

RULE_NAMES = [line.split()[-1] for line in RULES.read_text().splitlines() if "- alert:" in line]


def as_test(case):
    alerts = f'ALERTS{{alertname="{case.alert}",alertstate="firing"}}'
    return {
        "interval": case.step,
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
        "promql_expr_test": [{
            # A failure names the expression: the comment says which case it was.
            "expr": f"max without (alertname, alertstate, job, priority, severity) ({alerts}) # {case.what}",
            "eval_time": case.at,
            "exp_samples": [{"labels": listed(labels), "value": 1} for labels in case.fires],
        }],
    }


@pytest.mark.parametrize("name", RULE_NAMES)
def test_an_alert_fires_when_it_shall_and_only_then(name, tmp_path):
    cases = [case for case in CASES if case.alert == name]
    assert any(case.fires for case in cases) and any(not case.fires for case in cases)
    file = tmp_path / "cases.yml"
    file.write_text(json.dumps({
        "rule_files": [str(RULES)], "evaluation_interval": cases[0].step, "tests": [as_test(case) for case in cases]}))
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_case_is_of_an_alert_that_is_gone():
    assert {case.alert for case in CASES} == set(RULE_NAMES)

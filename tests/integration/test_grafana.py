"""Dashboards and alerts as files: they are what admin/grafana/build makes, Grafana knows every
member, Prometheus every expression, and llm-router every metric and label."""

import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from metrics import Q
from processes import BUILD, ROOT, wait_until
from promql import Samples, grouping_labels, promtool, selectors, substituted
from tree import Tree, hostile, model

GRAFANA = ROOT / "admin" / "grafana"
DASHBOARDS = sorted(GRAFANA.glob("dashboards/*.json"))
TYPES = ROOT / "tests" / "integration" / "grafana"
RULES = yaml.safe_load((GRAFANA / "alerts.rules.yml").read_text())["groups"][0]["rules"]
ALERT_FILE = yaml.safe_load((GRAFANA / "provisioning" / "alerting" / "llm-router.yaml").read_text())
TREE = Tree(model("m", hostile("a", "k1", "k2", maxConcurrency=10)))
OF_PROMETHEUS = {"up": [{}]}  # which it makes itself
FROM_SCRAPE = {"job", "instance"}
ADDITIVE = {f"{Q}workers"}  # gauges whose sum over instances says something


def panels(path):
    return [panel for panel in json.loads(path.read_text())["panels"] if panel["type"] != "row"]


PANELS = [panel for path in DASHBOARDS for panel in panels(path)]


def all_expressions():
    """name -> expression, of panels and of alerts."""
    of_panels = {f"{panel['title']} {target['refId']}": target["expr"]
                 for panel in PANELS for target in panel["targets"]}
    return of_panels | {rule["alert"]: rule["expr"] for rule in RULES}


EXPRESSIONS = all_expressions()


@pytest.fixture(scope="module")
def samples(tree, session_gateway):
    wait_until(lambda: f"{Q}pool_inflight" in session_gateway.get("/metrics", key=None).body.decode(),
               "the pools' gauges are read", 20)
    return Samples(session_gateway.get("/metrics", key=None).body.decode())


def made_files(folder):
    return {path.relative_to(folder): path.read_text() for pattern in ("dashboards/*", "*.yml", "provisioning/*/*")
            for path in folder.glob(pattern)}


def build(folder, *arguments):
    subprocess.run([GRAFANA / "build", "--output", folder, *arguments], check=True, timeout=60)
    return made_files(folder)


def test_the_committed_files_are_what_build_makes(tmp_path):
    assert build(tmp_path) == made_files(GRAFANA)


def test_what_an_installation_has_otherwise_is_said_to_build(tmp_path):
    files = build(tmp_path, "--job", "gateway", "--runbook", "https://wiki.example/runbook", "--datasource", "mimir")
    rules, alerting = (files[Path(name)] for name in ("alerts.rules.yml", "provisioning/alerting/llm-router.yaml"))
    for text in (rules, alerting):
        assert 'up{job="gateway"}' in text and "up{job=\"llm-router\"}" not in text
        assert "https://wiki.example/runbook#llmroutersinglekey" in text and "admin/RUNBOOK.md" not in text
    assert "datasourceUid: mimir" in alerting and "datasourceUid: prometheus" not in alerting
    assert "uid: mimir" in files[Path("provisioning/datasources/prometheus.yaml")]


@pytest.fixture(scope="module")
def grafana_types():
    """The folder with Grafana's own types, installed as package-lock.json says."""
    folder = BUILD / "grafana-types"
    lock = (TYPES / "package-lock.json").read_bytes()
    installed = folder / "package-lock.installed"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "types.ts"):
        shutil.copy(TYPES / name, folder / name)
    if not installed.exists() or installed.read_bytes() != lock:
        command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
        subprocess.run(command, cwd=folder, check=True, timeout=300)
        installed.write_bytes(lock)
    return folder


def check_types(folder, values):
    """What the compiler says of each value, (its type, the value)."""
    for i, (name, value) in enumerate(values):
        (folder / f"value{i}.ts").write_text(
            f'import type {{ {name} }} from "./types";\nexport const value = {json.dumps(value)} satisfies {name};\n')
    done = subprocess.run(
        ["node_modules/.bin/tsc", "--noEmit", "--strict", "--skipLibCheck", "--module", "esnext",
         "--moduleResolution", "bundler", "--target", "es2022", *[f"value{i}.ts" for i in range(len(values))]],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    lines = done.stdout.splitlines()
    return [[line for line in lines if line.startswith(f"value{i}.ts")] for i in range(len(values))]


def with_fault(document, edit):
    document = json.loads(json.dumps(document))
    edit(document)
    return document


def test_grafana_knows_every_member_of_dashboards_and_alerts(grafana_types):
    good = [("Dashboard", json.loads(path.read_text())) for path in DASHBOARDS] + [("AlertFile", ALERT_FILE)]
    faulty = [
        ("Dashboard", with_fault(good[0][1], lambda it: it["panels"][1]["options"].update(colourMode="value"))),
        ("AlertFile", with_fault(ALERT_FILE, lambda it: it["groups"][0]["rules"][0].update(noDataState="Fine"))),
    ]
    *of_good, of_option, of_state = check_types(grafana_types, good + faulty)
    assert of_good == [[]] * len(good)
    assert "colourMode" in of_option[0] and "Fine" in of_state[0], "what it does not know is said"


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_are_told_apart_lie_side_by_side_and_say_what_to_do(path):
    every = json.loads(path.read_text())["panels"]
    assert len({panel["id"] for panel in every}) == len(every)
    assert len({panel["title"] for panel in every}) == len(every)
    for panel in every:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        assert panel["type"] == "row" or len(panel["description"]) > 20, panel["title"]
    for one, other in itertools.combinations(every, 2):
        a, b = one["gridPos"], other["gridPos"]
        is_apart = (a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
                    or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"])
        assert is_apart, f"{one['title']} lies on {other['title']}"


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_variable_is_used_and_every_one_used_exists(path):
    text = path.read_text()
    declared = {entry["name"] for entry in json.loads(text)["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]+)\b", text))
    assert used == declared


def test_prometheus_understands_every_expression(tmp_path):
    rules = [{"record": "a:b", "expr": substituted(expr), "labels": {"of": name}} for name, expr in EXPRESSIONS.items()]
    file = tmp_path / "expressions.yml"
    file.write_text(json.dumps({"groups": [{"name": "all", "rules": rules}]}))
    for path in (file, GRAFANA / "alerts.rules.yml"):
        checked = promtool("check", "rules", path)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def is_matched(operator, pattern, value):
    is_equal = re.fullmatch(pattern, value) if "~" in operator else pattern == value
    return bool(is_equal) != operator.startswith("!")


def literals(operator, pattern):
    """The values that a matcher names; none if it has variables or names a kind of them."""
    return [] if "$" in pattern or "." in pattern else pattern.split("|") if "~" in operator else [pattern]


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_llm_router_has_every_metric_label_and_value(samples, name):
    expr = EXPRESSIONS[name]
    found = selectors(expr)
    assert found
    known = set(FROM_SCRAPE)
    for metric, matchers in found:
        series = (samples.labels | OF_PROMETHEUS).get(metric)
        assert series, f"{metric} is not in /metrics: {expr}"
        labels = set().union(*series) | FROM_SCRAPE
        known |= labels
        for label, operator, pattern in matchers:
            assert label in labels, f"{metric} has no label {label}: {expr}"
            values = {entry[label] for entry in series if label in entry}
            for literal in literals(operator, pattern) if label not in FROM_SCRAPE else []:
                assert literal in values, f"{label} of {metric} is never {literal}: {expr}"
            if label not in FROM_SCRAPE and "$" not in pattern:
                assert any(is_matched(operator, pattern, value) for value in values), f"{label}{operator}{pattern}"
    assert grouping_labels(expr) <= known, f"{grouping_labels(expr) - known} is no label of {expr}"


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_each_kind_of_metric_is_read_as_it_must_be(samples, name):
    expr = EXPRESSIONS[name]
    assert "clamp" not in expr, "a floor under a denominator hides errors where there is little traffic"
    for metric, _ in selectors(expr):
        kind = samples.type_of(metric)
        place = re.escape(metric) + r"(\{[^}]*\})?"
        if kind in ("counter", "histogram"):
            is_read = re.search(rf"\b(rate|increase)\({place}\[", expr)
            is_listed = re.search(rf"count by \([^)]*\) \({place}\)", expr)  # to see which there are
            assert is_read or is_listed, f"{metric} counts: {expr}"
        if kind == "gauge" and metric not in ADDITIVE:
            summed = re.search(rf"\bsum(?: by \([^)]*\))? \(?{place}", expr)
            assert not summed, f"a sum of {metric} over instances says nothing: {expr}"
        if metric.endswith("_bucket"):
            assert re.search(r"by \((?:[^)]*, )?le\)", expr), f"buckets without their bounds: {expr}"


def test_alerts_are_the_same_for_prometheus_and_grafana():
    [group] = ALERT_FILE["groups"]
    for rule, other in zip(RULES, group["rules"], strict=True):
        query, threshold = other["data"]
        assert (other["title"], query["model"]["expr"]) == (rule["alert"], rule["expr"])
        assert (other["for"], other["labels"]) == (rule.get("for", "0s"), rule["labels"])
        assert (threshold["model"]["expression"], other["condition"]) == (query["refId"], threshold["refId"])
        for name, text in other["annotations"].items():
            # "$$" is a "$" that provisioning does not take for a variable of the environment.
            assert text.replace("$$values.A.Value", "$value").replace("$$", "$") == rule["annotations"][name]
            assert "$" not in text.replace("$$", "")
    assert len({rule["uid"] for rule in group["rules"]}) == len(RULES)
    assert all(len(rule["uid"]) <= 40 for rule in group["rules"]), "Grafana's bound"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_says_how_grave_it_is_what_to_do_and_where_it_is_written(rule):
    severities = {"P0": "critical", "P1": "warning", "P2": "info"}
    assert rule["labels"]["severity"] == severities[rule["labels"]["priority"]]
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    path, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    titles = re.findall(r"^#+ (.+)$", (ROOT / path).read_text(), re.M)
    assert anchor in {title.lower() for title in titles}, f"no section {anchor} in {path}"
    if "key_id" in rule["expr"].partition("/")[0]:
        assert "$labels.key_id" in rule["annotations"]["summary"], "which key?"

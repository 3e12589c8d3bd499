"""/metrics before the real judges: promtool, a Prometheus that scrapes it, a strict reader of OpenMetrics."""

import pytest

import chat
from administrator import API, Admin, Deployment, document
from metrics import Q, by_status, key_id, label_of, name_of, parse, read_page, select, series
from processes import wait_until
from prometheus import OPENMETRICS, Prometheus, check_text, parse_openmetrics
from scripts import JSON, answer, data, end, head
from tree import Tree, hostile, model, speaker

STREAM = [head(), *[data(event) for event in (chat.ROLE, chat.HELLO, chat.FINISH)], data(chat.usage_event()),
          data(chat.DONE), end()]


def tree():
    return Tree(
        model('quo"ted \\ name', hostile("a", "k1")),
        model("m", hostile("a", "k1", "k2"), hostile("b", "k3")),
        speech=[speaker("voice", "openai", hostile("s", "k1"))],
    )


@pytest.fixture
def gateway(start_gateway):
    """An instance that has counted something of most kinds."""
    gateway = start_gateway(tree(), workers=2)
    gateway.script("m", "k1", answer(429, "{}", JSON))
    gateway.script("m", "k2", *[STREAM] * 4, answer(500, "{}", JSON))
    gateway.script("m", "k3", answer(401, "{}", JSON))
    gateway.script('quo"ted \\ name', "k1", answer(200, chat.completion()))
    statuses = [gateway.chat("m", stream=True).status for _ in range(5)]
    assert statuses == [200] * 4 + [502]
    assert gateway.chat('quo"ted \\ name').status == 200
    assert gateway.chat("none").status == 404
    return gateway


def read(gateway, accept=None):
    reply = gateway.get("/metrics", key=None, headers={"accept": accept} if accept else {})
    assert reply.status == 200 and reply.is_whole
    return reply.headers["content-type"], reply.body.decode()


def test_promtool_finds_nothing_to_say(gateway):
    content_type, text = read(gateway)
    assert content_type == "text/plain; version=0.0.4; charset=utf-8"
    assert check_text(text) == (0, "")


def test_promtool_would_find_something():
    assert check_text("# HELP a_count A.\n# TYPE a_count counter\na_count 1\n")[0] == 3
    assert check_text("# TYPE a counter\na{ 1\n")[0] == 1


@pytest.mark.parametrize("accept", [OPENMETRICS, f"{OPENMETRICS};version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"])
def test_a_strict_reader_takes_the_openmetrics_text_and_finds_the_same_in_it(gateway, accept):
    content_type, text = read(gateway, accept)
    assert content_type == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    families = parse_openmetrics(text)
    plain = parse(read_page(gateway))
    samples = [sample for family in families.values() for sample in family.samples]
    assert len(samples) == len(plain)
    counted = {
        sample.labels["status_code"]: sample.value
        for sample in families[f"{Q}requests"].samples
        if sample.labels["model"] == "m" and sample.value
    }
    assert counted == {"200": 4, "502": 1}
    assert families["gen_ai_client_operation_duration_seconds"].unit == "seconds"
    assert {family.type for family in families.values()} == {"counter", "gauge", "histogram"}
    assert all(family.documentation.endswith(".") for family in families.values())


def test_a_prometheus_that_scrapes_it_sees_the_values(gateway, tmp_path):
    prometheus = Prometheus(tmp_path, [f"127.0.0.1:{gateway.port}"])
    try:
        wait_until(lambda: prometheus.value("up") == 1, "the instance is scraped", 30)
        counted = by_status(gateway.metrics())

        def sees_all():
            return prometheus.value(f"sum({Q}requests_total)") == sum(counted.values())

        wait_until(sees_all, "the requests are seen", 30)
        assert prometheus.query(f"sum by (status_code) ({Q}requests_total) > 0") == {
            frozenset({("status_code", status)}): count for status, count in counted.items()
        }
        fingerprint = key_id(gateway, "m", "k1")
        assert prometheus.value(f'sum({Q}fallback_count_total{{from_key="{fingerprint}",reason="429"}})') == 5
        assert prometheus.value(f'{Q}requests_total{{model="quo\\"ted \\\\ name",status_code="200",surface="chat"}}') == 1
        assert prometheus.value(f"sum({Q}fallback_count_total) / sum({Q}fallback_depth_count)") == 5 / 6
        assert 0 < prometheus.value(
            'histogram_quantile(0.5, sum by (le) (gen_ai_server_request_duration_seconds_bucket{error_type=""}))'
        ) < 10
        target = prometheus.targets()[0]
        assert target["health"] == "up" and not target["lastError"], target
        # A rate sees the first event, because the series was there before it.
        unheard = f'{Q}key_exhausted_count_total{{status_code="503",surface="chat",provider="127.0.0.1"}}'
        assert prometheus.value(unheard) == 0
        for key in ("k1", "k2", "k3"):
            gateway.script("m", key, answer(503, "{}", JSON))
        gateway.chat("m")
        wait_until(lambda: (prometheus.value(f"increase({unheard}[1m])") or 0) > 0, "the increase is seen", 30)
    finally:
        prometheus.stop()


def test_prometheus_may_be_an_administrator(start_gateway, tmp_path):
    gateway = start_gateway(
        tree(), workers=1, flags=["--metrics-access", "none", "--admin-token-file", str(write_token(tmp_path))]
    )
    prometheus = Prometheus(tmp_path, [f"127.0.0.1:{gateway.port}"], token_file=tmp_path / "admin.token")
    try:
        wait_until(lambda: prometheus.value("up") == 1, "the instance is scraped", 30)
    finally:
        prometheus.stop()


def write_token(folder):
    file = folder / "admin.token"
    file.write_text("an-administrators-token\n")
    return file


@pytest.fixture
def admin(tmp_path, base_urls, upstream):
    gateway = Deployment(tmp_path, base_urls, upstream, workers=1)
    gateway.start()
    admin = Admin(gateway)
    admin.wait_for_socket()
    yield admin
    admin.process.stop()
    gateway.stop()


def test_the_administrators_program_tells_administrators_what_it_has_counted(admin):
    page = f"{API}/metrics"
    assert admin.ask("GET", page, key="somebody").status == 401
    assert [admin.put(document(admin), "*").status, admin.put({}, None).status] == [200, 412]
    reply = admin.get(page)
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert check_text(reply.body.decode()) == (0, "")
    values = parse(reply.body.decode())
    writes = {label_of(one, "result"): n for one, n in select(values, f"{Q}config_write_count_total").items()}
    assert writes == {"success": 1, "4xx": 1, "5xx": 0}
    assert values[series(f"{Q}connections_accepted_total")] >= 4
    assert not [one for one in values if name_of(one) == f"{Q}requests_total"], "that is llm-router's"
    strict = admin.ask("GET", page, headers={"accept": OPENMETRICS})
    assert parse_openmetrics(strict.body.decode()).keys() >= {f"{Q}config_write_count", f"{Q}spool_bytes"}

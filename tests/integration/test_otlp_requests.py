"""Requests as a receiver of OTLP sees them: traces of whole chains, values of metrics, the
administrators' writes; and that none is delayed, lost or told twice, whatever dies."""

import json
import os
import random
import secrets
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

import chat
from administrator import API, CONFIG, PATCH_TYPE, Admin, Deployment, document
from cgi_program import CgiCall
from fastcgi import meta_variables
from otlp import Reply, attributes
from processes import wait_until
from scripts import answer, hang, pause
from tree import Tree, hostile, model, refused

SLACK_S = 20.0
GATEWAY = "airi.gen_ai.gateway."
GOOD = answer(200, chat.completion())
LIMITED = answer(429, '{"error":{"message":"Slow down.","code":"rate_limit_exceeded"}}')
DROPPED_EVENTS = "airi_gen_ai_gateway_spool_dropped_total"
BOUND = 512 * 1024


def tree():
    return Tree(
        model("m", hostile("a", "k1")),
        model("chain", hostile("a", "k1"), refused("b", "k2"), hostile("c", "k3", overrideModel="real")),
        model("slow", hostile("a", "k1")),
    )


# Traces


def test_a_chain_over_upstreams_is_one_trace_with_a_span_for_each_attempt(start_exporting, receiver):
    gateway = start_exporting(tree())
    gateway.script("chain", "k1", LIMITED)
    gateway.script("chain", "k3", GOOD)
    trace, parent = secrets.token_hex(16), secrets.token_hex(8)
    reply = gateway.chat("chain", headers={"traceparent": f"00-{trace}-{parent}-01"})
    assert reply.status == 200
    event = gateway.event(reply)
    server, clients = receiver.wait_spans_of(reply.request_id)
    assert server.trace_id.hex() == trace and server.parent_span_id.hex() == parent
    assert server.span_id.hex() == event["span_id"]
    assert server.name == "POST /v1/chat/completions" and server.kind == 2 and server.status.code == 0
    told = attributes(server)
    assert told[GATEWAY + "fallback.depth"] == 2 and told[GATEWAY + "fallback.reason"] == "429"
    assert told["http.response.status_code"] == 200 and told["gen_ai.request.model"] == "chain"
    assert [c.name for c in clients] == ["chat chain", "chat chain", "chat real"]
    assert [c.status.code for c in clients] == [2, 2, 0]
    first, second, third = map(attributes, clients)
    assert [a[GATEWAY + "fallback.depth"] for a in (first, second, third)] == [0, 1, 2]
    assert [a[GATEWAY + "upstream.index"] for a in (first, second, third)] == [0, 1, 2]
    assert (first["error.type"], first["http.response.status_code"]) == ("429", 429)
    assert "error.type" in second and "http.response.status_code" not in second
    assert third["http.request.resend_count"] == 2 and "error.type" not in third
    for told in (first, second, third):
        assert told["server.address"] == "127.0.0.1" and told["server.port"] > 0
        assert told[GATEWAY + "upstream.url"].startswith("http://127.0.0.1:")
        assert told["gen_ai.operation.name"] == "chat" and told["gen_ai.provider.name"]
        assert len(told[GATEWAY + "key.id"]) == 8
    assert (third["gen_ai.usage.input_tokens"], third["gen_ai.usage.output_tokens"]) == (7, 3)
    assert (third["gen_ai.response.model"], third["gen_ai.response.finish_reasons"]) == ("real-model", ["stop"])
    assert "gen_ai.usage.output_tokens" not in first and "gen_ai.response.model" not in first
    for client in clients:
        assert server.start_time_unix_nano <= client.start_time_unix_nano <= client.end_time_unix_nano
        assert client.end_time_unix_nano <= server.end_time_unix_nano
    assert all(before.end_time_unix_nano <= after.start_time_unix_nano for before, after in zip(clients, clients[1:]))


def test_what_is_not_sampled_and_what_is_a_probe_has_no_span(start_exporting, receiver):
    gateway = start_exporting(tree())
    gateway.script("m", "k1", GOOD, GOOD)
    trace = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}"
    untold = gateway.chat("m", headers={"traceparent": trace + "-00"})
    for path in ("/livez", "/readyz", "/metrics"):
        gateway.get(path, key=None)
    told = gateway.chat("m", headers={"traceparent": trace + "-01"})
    receiver.wait_spans_of(told.request_id)
    assert receiver.spans_of(untold.request_id) is None
    named = Counter(span.name for span in receiver.spans() if span.trace_id.hex() == trace.split("-")[1])
    assert named == {"POST /v1/chat/completions": 1, "chat m": 1}
    assert not [span for span in receiver.spans() if span.name.endswith(("livez", "readyz", "metrics"))]


def test_a_request_by_cgi_is_told_and_counted_as_any_other(start_exporting, receiver):
    gateway = start_exporting(tree())
    requests = 'airi_gen_ai_gateway_requests_total{surface="chat",model="m",status_code="200"}'
    body = json.dumps(chat.request("m")).encode()
    headers = {"content-type": "application/json", "authorization": f"Bearer {gateway.caller_key}"}

    def ask():
        params = meta_variables("POST", "/v1/chat/completions", headers, len(body))
        reply = CgiCall(params, body, gateway.environment(), gateway.folder / "cgi.log").reply()
        assert reply.status == 200
        return reply.request_id

    gateway.script("m", "k1", GOOD)
    beside = ask()
    receiver.wait_spans_of(beside)
    assert gateway.metric(requests) == 1
    gateway.router.stop()
    alone = ask()
    gateway.start_router()
    receiver.wait_spans_of(alone)


# Nobody waits, nothing is lost


@pytest.mark.parametrize(
    "reply",
    [Reply(delay=30.0), Reply(503), Reply(hang_up=True), Reply(status=299, body=b"nonsense" * 10_000)],
    ids=["slow", "unwilling", "hangs up", "nonsense"],
)
def test_no_receiver_delays_a_request(start_exporting, receiver, reply):
    receiver.always(reply)
    gateway = start_exporting(tree(), OTEL_EXPORTER_OTLP_TIMEOUT="60000")
    gateway.script("m", "k1", *[GOOD] * 100)
    gateway.chat("m")
    wait_until(lambda: receiver.requests, "the receiver is asked", SLACK_S)
    began = time.monotonic()
    replies = [gateway.chat("m") for _ in range(99)]
    assert time.monotonic() - began < SLACK_S  # 99 replies; one export that were waited for would take 30 s
    assert all(one.status == 200 for one in replies)


def test_while_a_receiver_is_away_the_oldest_events_are_kept_up_to_the_bound_and_requests_served(
    start_gateway, receiver
):
    receiver.always(Reply(503))
    gateway = start_gateway(
        tree(),
        workers=4,
        flags=["--spool-max-bytes", str(BOUND)],
        router_environment={
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
            "OTEL_METRICS_EXPORTER": "none",
        },
    )
    sent = []
    with ThreadPoolExecutor(8) as pool:
        while gateway.metric(DROPPED_EVENTS) == 0:
            replies = pool.map(lambda _: gateway.chat("no-such-model-" + "x" * 240), range(50))
            sent += [reply.request_id for reply in replies if reply.status == 404]
            assert len(sent) < 5000, "the bound is never reached"
    assert sum(path.stat().st_size for path in gateway.spool.segments()) <= BOUND + 8 * 4096
    kept = {i for i in sent if gateway.spool.ends_of(i)}
    assert len(sent) - len(kept) == gateway.metric(DROPPED_EVENTS) > 0
    assert kept >= set(sent[:500])
    wait_until(lambda: gateway.log_lines("event_dropped"), "the log says so")
    receiver.always(Reply())

    def arrived():
        return {attributes(s).get(GATEWAY + "request.id") for s in receiver.spans()}

    wait_until(lambda: kept <= arrived(), "what was kept arrives", 60 + SLACK_S)
    wait_until(lambda: gateway.chat("no-such").request_id and len(gateway.spool.segments()) <= 2, "there is room", SLACK_S)
    later = gateway.chat("no-such-model")
    receiver.wait_spans_of(later.request_id)


def test_each_request_is_told_once_though_shipper_and_workers_are_killed(start_exporting, receiver):
    seconds, seed = 8.0, secrets.randbits(32)
    chance, answered, sent = random.Random(seed), Counter(), set()
    receiver.always(Reply(delay=0.05))
    gateway = start_exporting(tree(), workers=4, OTEL_BSP_MAX_EXPORT_BATCH_SIZE="10")
    gateway.script("slow", "k1", [pause(0.05), *GOOD])
    end = time.monotonic() + seconds

    def ask():
        while time.monotonic() < end:
            request_id = secrets.token_hex(16)
            sent.add(request_id)
            try:
                reply = gateway.chat("slow", headers={"x-request-id": request_id})
            except (AssertionError, OSError):
                continue  # its worker was killed
            if reply.status == 200:
                answered[request_id] += 1

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.1, 0.5))
        victims = [pid for pid, name in gateway.router.roles().items() if name in ("shipper", "worker")]
        shippers = [pid for pid, name in gateway.router.roles().items() if name == "shipper"]
        for pid in [chance.choice(victims), *shippers[: chance.randint(0, 1)]]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
    for thread in threads:
        thread.join()

    def counted():
        return sum(n for name, n in gateway.metrics().items() if name.startswith("airi_gen_ai_gateway_requests_total"))

    def told():
        return {(s.trace_id, s.span_id): attributes(s) for s in receiver.spans() if s.kind == 2}

    # A worker that is killed right after its start is started again after a while.
    try:
        wait_until(lambda: len(told()) == counted(), f"spans are as many as requests (seed {seed})", 60 + SLACK_S)
    except AssertionError as e:
        events = gateway.spool.events_that()
        untold = [event for event in events if (bytes.fromhex(event["trace_id"]), bytes.fromhex(event["span_id"]))
                  not in told()]
        raise AssertionError(f"{e}: {counted()} counted, {len(events)} written, {len(told())} told; not: {untold}")
    names = Counter(one.get(GATEWAY + "request.id") for one in told().values())
    assert all(names[i] == 1 for i in answered), f"seed {seed}"
    assert all(n == 1 for i, n in names.items() if i in sent), f"seed {seed}"
    ends = Counter(one[GATEWAY + "end"] for one in told().values())
    assert ends["worker_died"] > 0, f"no worker had a request in hand (seed {seed})"


def test_a_request_whose_worker_died_has_its_span(start_exporting, receiver):
    gateway = start_exporting(tree())
    gateway.script("slow", "k1", [hang()])
    call = gateway.begin("slow")
    wait_until(lambda: gateway.upstream.records, "the upstream is asked")
    for pid in gateway.workers():  # one of them has it
        os.kill(pid, signal.SIGKILL)
    server, clients = receiver.wait_spans_of(call.request_id)
    assert server.status.code == 2 and attributes(server)["error.type"] == "worker_died" and not clients


# Metrics


def values(export, name):
    """{labels: value} of a metric's points; of a histogram, its counts."""
    metric = export.metrics()[name]
    data = getattr(metric, metric.WhichOneof("data"))
    out = {}
    for point in data.data_points:
        key = tuple(sorted(attributes(point).items()))
        out[key] = getattr(point, point.WhichOneof("value")) if hasattr(point, "as_int") else point.count
    return out


def metric_exports(receiver):
    return [export for export in list(receiver.exports) if export.path == "/v1/metrics"]


@pytest.mark.parametrize("temporality", ["cumulative", "delta"])
def test_metrics_add_up_to_the_requests(start_exporting, receiver, temporality):
    gateway = start_exporting(
        tree(),
        OTEL_METRIC_EXPORT_INTERVAL="300",
        OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE=temporality,
        OTEL_TRACES_EXPORTER="none",
    )
    series = (("model", "m"), ("status_code", "200"), ("surface", "chat"))
    gateway.script("m", "k1", *[GOOD] * 20)
    for _ in range(20):
        assert gateway.chat("m").status == 200
        time.sleep(0.05)

    def total():
        seen = [values(export, GATEWAY + "requests").get(series, 0) for export in metric_exports(receiver)
                if GATEWAY + "requests" in export.metrics()]
        return (max(seen) if temporality == "cumulative" else sum(seen)) if seen else 0

    wait_until(lambda: total() == 20, "all requests are counted", SLACK_S)
    time.sleep(1.0)
    assert total() == 20
    sums = [e.metrics()[GATEWAY + "requests"].sum for e in metric_exports(receiver) if GATEWAY + "requests" in e.metrics()]
    assert {one.aggregation_temporality for one in sums} == {2 if temporality == "cumulative" else 1}
    assert all(one.is_monotonic for one in sums)
    spans = [(p.start_time_unix_nano, p.time_unix_nano) for one in sums for p in one.data_points
             if attributes(p) == dict(series)]
    if temporality == "cumulative":
        assert len({start for start, _ in spans}) == 1
    else:  # one interval begins where another ended, and none overlaps
        assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:]))
    durations = [values(e, "gen_ai.server.request.duration") for e in metric_exports(receiver)
                 if "gen_ai.server.request.duration" in e.metrics()]
    counts = [sum(one.values()) for one in durations]
    assert (counts[-1] if temporality == "cumulative" else sum(counts)) == 20


# The administrators' writes


@pytest.fixture
def admin(tmp_path, base_urls, upstream, receiver):
    upstream.reset()
    folder = tmp_path / "plane"
    folder.mkdir()
    gateway = Deployment(folder, base_urls, upstream, workers=2)
    gateway.start()
    admin = Admin(
        gateway,
        environment={
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OTEL_BLRP_SCHEDULE_DELAY": "100",
            "OTEL_METRIC_EXPORT_INTERVAL": "200",
        },
    )
    admin.wait_for_socket()
    yield admin
    admin.process.stop()
    gateway.stop()
    admin.assert_unbroken()


def test_each_write_of_an_administrator_is_an_event_and_is_counted(admin, receiver):
    replies = [admin.put(document(admin), "*"), admin.put({"llm": {"models": {"x": 1}}}, "*"), admin.put({}, None)]
    assert [reply.status for reply in replies] == [200, 400, 412]
    version = replies[0].json()["version"]

    def records():
        return [r for export in list(receiver.exports) if export.path == "/v1/logs" for r in export.records()]

    (record,) = wait_until(records, "the event arrives", SLACK_S)
    assert record.event_name == GATEWAY + "config.write" and record.severity_number == 9
    told = attributes(record)
    assert (told["actor_email"], told["version"], told["key_count"]) == ("token", version, 1)
    assert (told["action"], told["entry"]) == ("put", "LLM_ROUTER_CONFIG")
    export = next(e for e in receiver.exports if e.path == "/v1/logs")
    assert export.resource()["service.name"] == "llm-router-admin"

    def counted():
        exports = metric_exports(receiver)
        return exports and values(exports[-1], GATEWAY + "config.write_count")

    expected = {(("result", "success"),): 1, (("result", "4xx"),): 2, (("result", "5xx"),): 0}
    wait_until(lambda: counted() == expected, "the writes are counted", SLACK_S)


def writes(admin):
    """One of each: (what, method, path, body, what kind of body)."""
    version = admin.get().headers["etag"].strip('"')
    caller = f"{API}/caller-keys/writer"
    return [
        ("PUT", CONFIG, document(admin, name="other"), None),
        ("PATCH", CONFIG, {"defaults": {"connectTimeoutMs": 700}}, PATCH_TYPE),
        ("POST", f"{CONFIG}/versions/{version}/restore", b"", None),
        ("POST", f"{CONFIG}/rotate-key", b"", None),
        ("PUT", f"{API}/entries/DEFAULT_CHAT_MODEL", "m", None),
        ("POST", f"{API}/caller-keys", {"id": "writer"}, None),
        ("PATCH", caller, {"owner": "w"}, PATCH_TYPE),
        ("DELETE", caller, b"", None),
    ]


def test_each_way_of_writing_is_counted_and_each_change_is_an_event(admin, receiver):
    def counts():
        exports = metric_exports(receiver)
        found = values(exports[-1], GATEWAY + "config.write_count") if exports else {}
        return {dict(labels)["result"]: n for labels, n in found.items()}

    admin.create(document(admin))
    done = []
    for method, path, body, kind in writes(admin):
        reply = admin.send(method, path, body, "*", kind or "application/json")
        assert reply.status in (200, 201, 204), (method, path, reply)
        done.append((method, path))
    wait_until(lambda: counts().get("success") == 1 + len(done), f"as many are counted as {done}", SLACK_S)
    refused = [admin.send(method, path, b"{", "*", kind or "application/json").status
               for method, path, body, kind in writes(admin) if body != b""]
    assert len(refused) == 5 and all(400 <= status < 500 for status in refused), refused
    wait_until(lambda: counts().get("4xx") == len(refused), "those that were refused are counted", SLACK_S)
    assert counts() == {"success": 1 + len(done), "4xx": len(refused), "5xx": 0}
    admin.get(f"{API}/audit-log")
    admin.send("PUT", f"{CONFIG}?dryRun=true", document(admin, name="third"), "*")

    def told():
        return [attributes(r) for e in list(receiver.exports) if e.path == "/v1/logs" for r in e.records()]

    # All keys are encrypted with the current master key already: nothing to rotate, no change.
    wait_until(lambda: len(told()) == len(done), "each change is an event", SLACK_S)
    assert Counter(one["action"] for one in told()) == {
        "put": 3, "patch": 1, "restore": 1, "create": 1, "change": 1, "revoke": 1}
    assert Counter(one["entry"] for one in told()) == {
        "LLM_ROUTER_CONFIG": 4, "DEFAULT_CHAT_MODEL": 1, "CALLER_KEYS": 3}
    wait_until(lambda: len(metric_exports(receiver)) > 0 and counts()["success"] == 1 + len(done), "and no other", SLACK_S)


def test_a_write_made_while_nobody_listens_arrives_after_a_restart(admin, receiver):
    receiver.always(Reply(503))
    assert admin.put(document(admin), "*").status == 200
    wait_until(lambda: any(one.path == "/v1/logs" for one in receiver.requests), "it is sent", SLACK_S)
    admin.process.stop()
    receiver.always(Reply())
    again = Admin(admin.gateway, environment={"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url}, name="llm-router-admin")
    try:
        wait_until(lambda: any(one.path == "/v1/logs" for one in receiver.exports), "it arrives", SLACK_S)
    finally:
        again.process.stop()

"""OTLP: what a receiver gets of the requests, whatever it answers."""

import contextlib
import json
import time
import uuid
from pathlib import Path

import pytest

from otlp import Receiver, Reply, attributes
from processes import contents_of, wait_until

SLACK_S = 20.0  # on top of what a deadline would be on an idle machine
CANARY = "canary-of-a-header"
DELIVERED = 'airi_gen_ai_gateway_export_delivered_total{signal="traces"}'
FAILURES = 'airi_gen_ai_gateway_export_failures_total{signal="traces"}'
DROPPED = 'airi_gen_ai_gateway_export_dropped_total{signal="traces"}'


def event(n, **members):
    """A line of the spool as a request leaves it."""
    identity = uuid.uuid5(uuid.NAMESPACE_OID, str(n)).hex
    return {
        "v": 1, "id": str(uuid.uuid4()), "time": 1_790_000_000_000_000 + n, "request_id": f"r{n}",
        "trace_id": identity, "span_id": identity[:16], "sampled": True, "mount": "/v1",
        "endpoint": "chat/completions", "stream": True, "model": "m",
        "attempts": [{"n": 1, "upstream": "u", "host": "api.example", "url": "https://api.example:8443/v1", "start_us": 10, "last_byte_us": 900,
                      "status": 200, "verdict": "ok", "key_fp": "0123abcd"}],
        "end": "done", "status": 200, "committed": True, "fallback_depth": 0, "total_us": 1000,
        "usage": {"input": 3, "output": 0, "source": "upstream"},
    } | members


def append(gateway, *lines, segment=1):
    """Lines in the spool, as workers append them."""
    with (gateway.state_dir / "spool" / f"llm-router.{segment:08}.jsonl").open("ab") as file:
        for line in lines:
            file.write(b"\n" + (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")


def ids(receiver):
    """The requests whose SERVER spans have arrived, as often as they have."""
    names = (attributes(span).get("airi.gen_ai.gateway.request.id") for span in receiver.spans() if span.kind == 2)
    return sorted(names)


def wait_for(receiver, *request_ids, timeout=SLACK_S):
    wait_until(lambda: set(request_ids) <= set(ids(receiver)), f"spans of {request_ids} arrive", timeout)


# What arrives


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("protocol", ["http/protobuf", "http/json"])
def test_what_is_in_the_spool_arrives_as_opentelemetry_reads_it(start_exporting, receiver, protocol, compression):
    gateway = start_exporting(
        OTEL_EXPORTER_OTLP_PROTOCOL=protocol,
        OTEL_EXPORTER_OTLP_COMPRESSION=compression,
        OTEL_EXPORTER_OTLP_HEADERS=f"authorization=Bearer%20{CANARY},x-tenant=t",
        OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=tests",
        OTEL_METRIC_EXPORT_INTERVAL="100",
    )
    append(gateway, event(1), b'{"v":1,"torn":', event(2, parent_span_id="0123456789abcdef"))
    wait_for(receiver, "r1", "r2")
    export = next(one for one in receiver.exports if one.path == "/v1/traces")
    assert export.is_json == (protocol == "http/json")
    assert export.headers.get("content-encoding") == (compression if compression != "none" else None)
    assert export.headers["authorization"] == f"Bearer {CANARY}"
    assert export.headers["x-tenant"] == "t"
    assert "OTel-OTLP-Exporter-C/" in export.headers["user-agent"]
    resource = export.resource()
    assert resource["service.name"] == "llm-router"
    assert resource["service.instance.id"] == gateway.status()["instance"]
    assert resource["deployment.environment.name"] == "tests"
    server, (client,) = receiver.spans_of("r2")
    assert server.name == "POST /v1/chat/completions" and server.parent_span_id.hex() == "0123456789abcdef"
    assert client.name == "chat m" and client.kind == 3 and client.trace_id == server.trace_id
    assert server.start_time_unix_nano == event(2)["time"] * 1000
    assert server.end_time_unix_nano - server.start_time_unix_nano == 1_000_000
    told = attributes(client)
    assert told["gen_ai.usage.input_tokens"] == 3 and told["gen_ai.usage.output_tokens"] == 0
    assert told["server.address"] == "api.example" and told["server.port"] == 8443
    assert told["airi.gen_ai.gateway.key.id"] == "0123abcd"
    wait_until(lambda: gateway.metric(DELIVERED) == 4, "they are counted", SLACK_S)
    wait_until(lambda: any(one.path == "/v1/metrics" for one in receiver.exports), "metrics arrive", SLACK_S)
    assert CANARY not in gateway.router.log_text()


def test_without_an_endpoint_nothing_is_exported_and_the_spool_is_kept_within_its_bound_as_ever(start_gateway, receiver):
    gateway = start_gateway(router_environment={"OTEL_SERVICE_NAME": "x", "OTEL_BSP_SCHEDULE_DELAY": "100"})
    append(gateway, event(1))
    assert "shipper" in gateway.router.roles().values()
    assert not list((gateway.state_dir / "spool").glob("*.cursor"))
    assert not receiver.requests


def test_what_is_not_honoured_is_said_by_name_and_nothing_of_its_value(start_gateway):
    gateway = start_gateway(
        router_environment={
            "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
            "OTEL_BSP_MAX_QUEUE_SIZE": "7",
            "OTEL_TYPO": "canary-value",
            "OTEL_EXPORTER_OTLP_HEADERS": "canary-value",
        }
    )
    lines = [line for line in gateway.router.log_text().splitlines() if "telemetry_setting_ignored" in line]
    named = {json.loads(line)["message"].split(":")[0] for line in lines}
    assert named == {
        "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_TYPO", "OTEL_EXPORTER_OTLP_HEADERS",
    }
    assert "canary-value" not in gateway.router.log_text()


@pytest.mark.parametrize("each", ["", "TRACES_"], ids=["all signals", "one signal"])
def test_what_opens_a_receivers_door_is_shown_nowhere(start_exporting, receiver, each):
    """Headers, and whatever of an address may be secret: user, password, query."""
    secret_address = receiver.url.replace("//", f"//{CANARY}-user:{CANARY}-password@")
    secret_address += ("/v1/traces" if each else "") + f"?token={CANARY}"
    receiver.always(Reply(503, body=b"not now"))
    gateway = start_exporting(
        **{f"OTEL_EXPORTER_OTLP_{each}ENDPOINT": secret_address},
        **{f"OTEL_EXPORTER_OTLP_{each}HEADERS": f"x-key={CANARY}"},
        OTEL_TRACES_EXPORTER="otlp",
    )
    append(gateway, event(1))
    wait_until(lambda: gateway.metric(FAILURES) > 0, "it is asked in vain", SLACK_S)
    asked = receiver.requests[0]
    assert asked.headers["x-key"] == CANARY and asked.query == f"token={CANARY}"
    assert asked.headers["authorization"].startswith("Basic ")
    receiver.always(Reply(403, body=b"no"))
    wait_until(lambda: gateway.metric(DROPPED) > 0, "and refused", SLACK_S)
    shown = {"the log": gateway.router.log_text().encode(), "/status": gateway.get("/status", key=None).body,
             "/metrics": gateway.get("/metrics", key=None).body}
    shown |= contents_of(gateway.state_dir)
    for pid in (gateway.router.pid, *gateway.router.children()):
        for name in ("cmdline", "environ"):
            with contextlib.suppress(PermissionError, FileNotFoundError):
                shown[f"{name} of {pid}"] = Path(f"/proc/{pid}/{name}").read_bytes()
    assert not [place for place, text in shown.items() if CANARY.encode() in text]


# What the receiver answers


def test_a_status_that_asks_for_patience_is_tried_again(start_exporting, receiver):
    gateway = start_exporting()
    for n, status in enumerate([429, 502, 503, 504], 1):
        receiver.script(Reply(status))
        append(gateway, event(n))
        wait_for(receiver, f"r{n}")
        wait_until(lambda: gateway.metric(DELIVERED) == 2 * n, "they are counted", SLACK_S)
        assert gateway.metric(FAILURES) == n and gateway.metric(DROPPED) == 0, status
        wait_until(lambda: f"status {status}" in gateway.router.log_text(), "the log says so")
    assert ids(receiver) == ["r1", "r2", "r3", "r4"] and len(receiver.requests) == 8
    text = gateway.router.log_text()
    assert text.count('"export_failed"') == 4 and text.count('"export_resumed"') == 4


def test_the_same_failure_is_logged_once(start_exporting, receiver):
    receiver.script(Reply(503), Reply(503))
    gateway = start_exporting()
    append(gateway, event(1))
    wait_for(receiver, "r1")
    wait_until(lambda: gateway.log_lines("export_failed"), "the log says so")
    assert len(receiver.requests) == 3 and len(gateway.log_lines("export_failed")) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_waited_for(start_exporting, receiver, status):
    receiver.script(Reply(status, {"retry-after": "3"}))
    append(start_exporting(), event(1))
    wait_for(receiver, "r1")
    first, second = receiver.requests
    assert second.at - first.at >= 3.0


def test_any_other_status_gives_the_batch_up_and_the_next_one_goes_on(start_exporting, receiver):
    statuses = [300, 400, 401, 403, 404, 413, 500, 501]
    gateway = start_exporting(OTEL_EXPORTER_OTLP_HEADERS=f"api-key={CANARY}")
    for n, status in enumerate(statuses, 1):
        receiver.script(Reply(status, message=f"said Bearer {CANARY}"))
        append(gateway, event(n))
        wait_until(lambda: gateway.metric(DROPPED) == 2 * n, "the batch is given up", SLACK_S)
        lines = [line for line in gateway.router.log_text().splitlines() if '"export_refused"' in line]
        assert len(lines) == n and f"status {status}" in lines[-1]
        assert '"lost":2' in lines[-1] and "said" in lines[-1]
    append(gateway, event(0))
    wait_for(receiver, "r0")
    assert ids(receiver) == ["r0"] and len(receiver.requests) == len(statuses) + 1
    wait_until(lambda: gateway.metric(DELIVERED) == 2, "they are counted", SLACK_S)
    assert gateway.metric(FAILURES) == 0
    assert CANARY not in gateway.router.log_text()


def test_the_same_refusal_is_logged_once(start_exporting, receiver):
    receiver.always(Reply(400))
    gateway = start_exporting()
    for n in range(1, 4):
        append(gateway, event(n))
        wait_until(lambda: gateway.metric(DROPPED) == 2 * n, "the batch is given up", SLACK_S)
    wait_until(lambda: gateway.log_lines("export_refused"), "the log says so")
    assert len(gateway.log_lines("export_refused")) == 1


@pytest.mark.parametrize("protocol", ["http/protobuf", "http/json"])
def test_a_partial_success_is_counted_and_logged_and_never_sent_again(start_exporting, receiver, protocol):
    receiver.script(Reply(partial={"rejectedSpans": 1, "errorMessage": "too old"}))
    gateway = start_exporting(OTEL_EXPORTER_OTLP_PROTOCOL=protocol)
    append(gateway, event(1))
    wait_until(lambda: gateway.metric(DROPPED) == 1, "the refusal is counted", SLACK_S)
    append(gateway, event(2))
    wait_for(receiver, "r2")
    assert ids(receiver) == ["r1", "r2"]
    wait_until(lambda: gateway.metric(DELIVERED) == 3, "they are counted", SLACK_S)
    text = gateway.router.log_text()
    assert '"export_partly_refused"' in text and "too old" in text


@pytest.mark.parametrize(
    "rejected, dropped",
    [
        ({"rejectedSpans": str(2**63 - 1), "rejectedDataPoints": str(2**63 - 1), "rejectedLogRecords": 2**63 - 1}, 2),
        ({"rejectedSpans": "-1", "rejectedDataPoints": -(2**63), "rejectedLogRecords": "-9"}, 0),
        ({"rejectedSpans": "1" * 40, "rejectedDataPoints": 1.5, "rejectedLogRecords": None}, 0),
    ],
    ids=["too many", "fewer than none", "no numbers"],
)
def test_no_more_is_counted_as_refused_than_was_sent(start_exporting, receiver, rejected, dropped):
    body = json.dumps({"partialSuccess": rejected}).encode()
    receiver.script(Reply(body=body, headers={"content-type": "application/json"}))
    gateway = start_exporting()
    append(gateway, event(1))
    wait_until(lambda: gateway.metric(DELIVERED) + gateway.metric(DROPPED) == 2, "they are counted", SLACK_S)
    assert gateway.metric(DROPPED) == dropped


def test_a_success_counts_whatever_its_body(start_exporting, receiver):
    replies = [
        Reply(body=b"\xff\xff nonsense"),
        Reply(body=b"<html>", headers={"content-type": "text/html"}),
        Reply(body=b"{", headers={"content-type": "application/json"}),
        Reply(body=b"x" * (5 << 20)),
        Reply(202),
    ]
    gateway = start_exporting()
    for n, reply in enumerate(replies, 1):
        receiver.script(reply)
        append(gateway, event(n))
        wait_until(lambda: gateway.metric(DELIVERED) == 2 * n, "it counts as delivered", SLACK_S)
    assert ids(receiver) == [f"r{n}" for n in range(1, 6)] and len(receiver.requests) == 5
    assert '"export_' not in gateway.router.log_text()


# A receiver that is away


def test_a_connection_that_breaks_is_tried_again(start_exporting, receiver):
    receiver.script(Reply(hang_up=True))
    gateway = start_exporting()
    append(gateway, event(1))
    wait_for(receiver, "r1")
    assert ids(receiver) == ["r1"] and gateway.metric(FAILURES) == 1


def test_a_receiver_that_is_too_slow_is_tried_again(start_exporting, receiver):
    receiver.script(Reply(delay=2.0))
    gateway = start_exporting(OTEL_EXPORTER_OTLP_TIMEOUT="300")
    append(gateway, event(1))
    wait_until(lambda: len(receiver.requests) >= 2, "it is sent again", SLACK_S)
    wait_for(receiver, "r1")
    assert gateway.metric(FAILURES) >= 1


def test_nothing_is_lost_while_nobody_listens(start_exporting, receiver):
    port = receiver.port
    receiver.stop()
    gateway = start_exporting()
    append(gateway, *(event(n) for n in range(1000)))
    wait_until(lambda: gateway.metric(FAILURES) > 0, "the first try fails", SLACK_S)
    again = Receiver(port)
    try:
        expected = sorted(f"r{n}" for n in range(1000))
        wait_until(lambda: ids(again) == expected, "all spans arrive, once", SLACK_S)
    finally:
        again.stop()


def test_one_sink_that_fails_holds_up_no_other(start_exporting, receiver):
    gateway = start_exporting(
        OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="http://127.0.0.1:9/", OTEL_METRIC_EXPORT_INTERVAL="200"
    )
    append(gateway, event(1))
    wait_until(lambda: gateway.metric(FAILURES) > 0, "traces fail", SLACK_S)
    before = len(receiver.exports)
    wait_until(lambda: len(receiver.exports) >= before + 3, "metrics arrive", SLACK_S)
    assert {export.path for export in receiver.exports} == {"/v1/metrics"}


# Ends and beginnings


def test_a_restart_goes_on_where_the_last_process_was(start_exporting, receiver):
    gateway = start_exporting()
    append(gateway, event(1))
    wait_for(receiver, "r1")
    gateway.router.stop()
    append(gateway, event(2))
    gateway.start_router()
    wait_for(receiver, "r2")
    assert ids(receiver) == ["r1", "r2"]


def test_a_process_that_is_told_to_end_delivers_what_there_is(start_exporting, receiver):
    gateway = start_exporting(OTEL_BSP_SCHEDULE_DELAY="60000", OTEL_METRIC_EXPORT_INTERVAL="60000")
    time.sleep(0.5)  # for its first look, after which it would wait for a minute
    append(gateway, event(1))
    gateway.router.stop()
    assert ids(receiver) == ["r1"]
    assert any(export.path == "/v1/metrics" for export in receiver.exports)


def test_a_receiver_that_does_not_answer_delays_the_end_by_no_more_than_the_last_chance(start_exporting, receiver):
    receiver.always(Reply(delay=30.0))
    gateway = start_exporting(OTEL_EXPORTER_OTLP_TIMEOUT="60000")
    append(gateway, event(1))
    wait_until(lambda: receiver.requests, "it is sent", SLACK_S)
    began = time.monotonic()
    gateway.router.stop(timeout=3.0 + SLACK_S)
    assert time.monotonic() - began < 3.0 + SLACK_S
    receiver.always(Reply())
    gateway.start_router()
    wait_for(receiver, "r1")


def test_segments_that_are_delivered_are_removed(start_exporting, receiver):
    gateway = start_exporting()
    spool = gateway.state_dir / "spool"
    append(gateway, *(event(n) for n in range(20)))
    wait_for(receiver, *(f"r{n}" for n in range(20)))
    gateway.router.stop()
    for number in (2, 3):
        append(gateway, event(100 + number), segment=number)
    gateway.start_router()
    wait_for(receiver, "r102", "r103")
    wait_until(lambda: [p.name for p in sorted(spool.glob("*.jsonl"))] == ["llm-router.00000003.jsonl"],
               "what is delivered is gone", SLACK_S)
    size = (spool / "llm-router.00000003.jsonl").stat().st_size
    wait_until(lambda: gateway.metric("airi_gen_ai_gateway_spool_bytes") == size, "what is left is measured", SLACK_S)


def test_lag_is_told_while_a_receiver_is_away_and_none_when_all_is_delivered(start_exporting, receiver):
    receiver.always(Reply(503))
    lag = 'airi_gen_ai_gateway_spool_lag_seconds{signal="traces"}'
    gateway = start_exporting()
    append(gateway, event(1, time=int((time.time() - 500) * 1e6)))
    wait_until(lambda: 499 < gateway.metric(lag) < 500 + SLACK_S, "the lag is that of the event", SLACK_S)
    receiver.always(Reply())
    wait_for(receiver, "r1", timeout=60.0)
    wait_until(lambda: gateway.metric(lag) == 0, "there is no lag", SLACK_S)


# TLS


def test_a_receiver_behind_tls_is_believed_by_the_authority_that_is_named(start_gateway, authority, tmp_path):
    receiver = Receiver(tls=authority.server())
    try:
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "100"}
        stranger = start_gateway(router_environment=environment)
        append(stranger, event(1))
        wait_until(lambda: stranger.metric(FAILURES) > 0, "a stranger is refused", SLACK_S)
        friend = start_gateway(router_environment=environment | {"OTEL_EXPORTER_OTLP_CERTIFICATE": str(authority.file)})
        append(friend, event(2))
        wait_for(receiver, "r2")
        assert ids(receiver) == ["r2"]
    finally:
        receiver.stop()

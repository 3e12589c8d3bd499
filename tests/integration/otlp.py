"""A receiver of OTLP/HTTP with a script, which reads what comes with OpenTelemetry's own messages and
refuses what those do not know."""

import base64
import gzip
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf import json_format
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces

from processes import wait_until

REQUESTS = {
    "/v1/traces": (traces.ExportTraceServiceRequest, traces.ExportTraceServiceResponse),
    "/v1/metrics": (metrics.ExportMetricsServiceRequest, metrics.ExportMetricsServiceResponse),
    "/v1/logs": (logs.ExportLogsServiceRequest, logs.ExportLogsServiceResponse),
}
IDS = ("traceId", "spanId", "parentSpanId")
STRINGS = ("UnixNano", "intValue", "asInt", "count", "bucketCounts")


def refuse_unknown(message):
    """No field of the message, at any depth, is one that its definition does not have."""
    assert not len(UnknownFieldSet(message)), f"unknown fields in {message.DESCRIPTOR.name}"
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for one in value if field.is_repeated else [value]:
                refuse_unknown(one)


def with_base64_ids(value):
    """OTLP's JSON as protobuf's: ids are hex there. On the way, what protobuf's reader would let pass."""
    if isinstance(value, list):
        return [with_base64_ids(one) for one in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for name, one in value.items():
        assert "_" not in name, f"a name in snake case: {name}"
        if name in IDS:
            assert one == one.lower(), f"an id in upper case: {one}"
            out[name] = base64.b64encode(bytes.fromhex(one)).decode()
            continue
        if name.endswith(STRINGS):
            for each in one if isinstance(one, list) else [one]:
                assert isinstance(each, str), f"a 64-bit number that is no string: {name}"
        if name in ("kind", "code", "severityNumber", "aggregationTemporality"):
            assert isinstance(one, int), f"an enum that is no number: {name}"
        out[name] = with_base64_ids(one)
    return out


class Export:
    """One request that came."""

    def __init__(self, path, headers, body):
        self.path, _, self.query = path.partition("?")
        self.headers, self.at = headers, time.monotonic()
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.is_json = headers["content-type"] == "application/json"
        message = REQUESTS[self.path][0]
        if self.is_json:
            self.message = json_format.ParseDict(with_base64_ids(json.loads(body)), message())
        else:
            assert headers["content-type"] == "application/x-protobuf"
            self.message = message.FromString(body)
            refuse_unknown(self.message)

    def spans(self):
        return [s for r in self.message.resource_spans for scope in r.scope_spans for s in scope.spans]

    def records(self):
        return [l for r in self.message.resource_logs for scope in r.scope_logs for l in scope.log_records]

    def metrics(self):
        return {m.name: m for r in self.message.resource_metrics for scope in r.scope_metrics for m in scope.metrics}

    def resource(self):
        (one,) = getattr(self.message, {"/v1/traces": "resource_spans", "/v1/metrics": "resource_metrics",
                                        "/v1/logs": "resource_logs"}[self.path])
        return attributes(one.resource)


def attributes(holder):
    """name: value, of something with attributes; no name stands twice."""
    out = {pair.key: plain(pair.value) for pair in holder.attributes}
    assert len(out) == len(holder.attributes), "an attribute stands twice"
    return out


def plain(value):
    kind = value.WhichOneof("value")
    one = getattr(value, kind)
    return [plain(each) for each in one.values] if kind == "array_value" else one


class Reply:
    """What the receiver does with one request: a status with headers and a body, after a while; or nothing at all."""

    def __init__(self, status=200, headers=None, body=None, delay=0.0, hang_up=False, message=None, partial=None):
        self.status, self.headers, self.body, self.delay, self.hang_up = status, headers or {}, body, delay, hang_up
        self.message, self.partial = message, partial

    def encode(self, export):
        """The body, in the form in which the request came."""
        if self.body is not None:
            return self.body
        if self.message is not None:  # google.rpc.Status, whose second member it is
            text = self.message.encode()
            return json.dumps({"message": self.message}).encode() if export.is_json else b"\x12" + bytes([len(text)]) + text
        answer = REQUESTS[export.path][1]()
        if self.partial is not None:
            json_format.ParseDict({"partialSuccess": self.partial}, answer)
        if export.is_json:
            return json_format.MessageToJson(answer).encode()
        return answer.SerializeToString()


class Receiver:
    def __init__(self, port=0, tls=None):
        """tls: an ssl.SSLContext, or nothing."""
        self.exports = []  # that were answered with a success
        self.requests = []  # all
        self.faults = []
        self._script = []
        self._default = Reply()
        self._lock = threading.Lock()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                receiver._take(self)

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 64

        self._server = Server(("127.0.0.1", port), Handler)
        self.port = self._server.server_address[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        if tls:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()
        assert not self.faults, self.faults

    def script(self, *replies):
        """What becomes of the next requests, one each."""
        with self._lock:
            self._script = list(replies)

    def always(self, reply):
        """What becomes of all that no script is left for."""
        with self._lock:
            self._default = reply

    def _take(self, handler):
        body = handler.rfile.read(int(handler.headers["content-length"]))
        try:
            export = Export(handler.path, {k.lower(): v for k, v in handler.headers.items()}, body)
        except Exception as fault:  # of any kind: the test has to see it
            self.faults.append(repr(fault))
            raise
        with self._lock:
            reply = self._script.pop(0) if self._script else self._default
            self.requests.append(export)
        time.sleep(reply.delay)
        if reply.hang_up:
            handler.close_connection = True
            return
        answer = reply.encode(export)
        if 200 <= reply.status < 300:
            with self._lock:
                self.exports.append(export)
        handler.send_response(reply.status)
        headers = {"content-type": export.headers["content-type"], "content-length": str(len(answer))} | reply.headers
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(answer)

    # What came

    def spans(self):
        with self._lock:
            exports = list(self.exports)
        return [span for export in exports if export.path == "/v1/traces" for span in export.spans()]

    def spans_of(self, request_id):
        """The SERVER span of a request, and its CLIENT spans in order."""
        servers = [s for s in self.spans() if attributes(s).get("airi.gen_ai.gateway.request.id") == request_id]
        if not servers:
            return None
        clients = [s for s in self.spans() if s.parent_span_id == servers[0].span_id]
        return servers[0], sorted(clients, key=lambda s: s.start_time_unix_nano)

    def wait_spans_of(self, request_id, timeout=20.0):
        return wait_until(lambda: self.spans_of(request_id), f"the spans of {request_id} arrive", timeout)

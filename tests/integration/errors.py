"""Our own error replies, in the form of each mount."""

V1_CODES = {
    "BAD_GATEWAY": "upstream_unavailable",
    "SERVICE_UNAVAILABLE": "upstream_rate_limited",
    "GATEWAY_TIMEOUT": "upstream_timeout",
    "CONFIG_NOT_SET": "config_not_set",
    "DECRYPT_FAILED": "decrypt_failed",
    "UNAUTHORIZED": "invalid_api_key",
    "BAD_REQUEST": "invalid_request",
    "MISSING_MODEL": "missing_model",
    "METHOD_NOT_ALLOWED": "method_not_allowed",
}


def assert_error(reply, mount, status, code):
    """The reply is our error `code` (the name it has at the seeds' mount). Returns its details."""
    assert reply.status == status, reply
    assert reply.headers["content-type"].startswith("application/json"), reply.headers
    assert reply.is_whole
    body = reply.json()
    if mount == "/v1":
        assert set(body) == {"error"}, body
        assert {"message", "type", "param", "code"} <= set(body["error"]), body
        assert body["error"]["code"] == V1_CODES.get(code, code), body
        assert body["error"]["message"], body
        return body["error"].get("details")
    assert set(body) <= {"error", "message", "details"}, body
    assert body["error"] == code, body
    assert body["message"], body
    return body.get("details")


def assert_exhausted(reply, mount, status, code, keys, upstreams, last_status_code):
    details = assert_error(reply, mount, status, code)
    assert details == {"triedKeys": keys, "triedUpstreams": upstreams, "lastStatusCode": last_status_code}, details

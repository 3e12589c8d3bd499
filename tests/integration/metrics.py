"""What /metrics says, and what a request has moved in it."""

import hashlib

from fastcgi import FastCgiCall, get_params, parse_reply

Q = "airi_gen_ai_gateway_"

# What one request adds to exactly. Times are left to the tests that are about them.
COUNTED = (
    f"{Q}requests_total",
    f"{Q}fallback_count_total",
    f"{Q}fallback_depth_count",
    f"{Q}fallback_depth_sum",
    f"{Q}attempts_total",
    f"{Q}upstream_errors_total",
    f"{Q}upstream_replays_total",
    f"{Q}key_exhausted_count_total",
    f"{Q}decrypt_failures_total",
    f"{Q}stream_interrupted_total",
    f"{Q}overhead_duration_seconds_count",
    f"{Q}overflow_count_total",
    "gen_ai_client_token_usage_count",
    "gen_ai_client_token_usage_sum",
    "gen_ai_client_operation_duration_seconds_count",
    "gen_ai_server_request_duration_seconds_count",
    "gen_ai_server_time_to_first_token_seconds_count",
    "gen_ai_server_time_per_output_token_seconds_count",
)


def read_page(gateway, path="/metrics", **params):
    """The reply at the health socket: a large one comes quickly there."""
    call = FastCgiCall(gateway.run_dir / "health.sock", get_params(path) | params, timeout=60)
    call.send_body(b"")
    received = bytearray()
    while chunk := call.socket.recv(1 << 20):
        received += chunk
    call.close()
    reply = parse_reply(bytes(received))
    assert reply is not None and reply.status == 200 and reply.is_whole, reply
    return reply.body.decode()


def parse(text):
    """{series: value} of the text format."""
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {one: float(value) for one, _, value in lines}


def series(name, **labels):
    """A series as the text has it; labels in the order of the text."""
    if not labels:
        return name
    return name + "{" + ",".join(f'{label}="{value}"' for label, value in labels.items()) + "}"


# Which go when their pool is in the tree no more.
OF_THE_TREE = (f"{Q}pool_inflight", f"{Q}pool_capacity")


def name_of(one):
    return one.partition("{")[0]


def label_of(one, label):
    _, mark, rest = one.partition(f'{label}="')
    return rest.partition('"')[0] if mark else None


def select(metrics, name, **labels):
    """Those of one name with these labels."""
    return {
        one: value
        for one, value in metrics.items()
        if name_of(one) == name and all(label_of(one, label) == wanted for label, wanted in labels.items())
    }


def total(metrics, name, **labels):
    return sum(select(metrics, name, **labels).values())


def moved(before, after, names=COUNTED):
    """What is more now, of these names: {series: by how much}."""
    gone = {one for one in before.keys() - after.keys() if name_of(one) not in OF_THE_TREE}
    assert not gone, f"series are gone: {sorted(gone)[:5]}"
    found = {one: after[one] - before.get(one, 0) for one in after if name_of(one) in names}
    return {one: by for one, by in found.items() if by != 0}


def by_status(metrics):
    """Requests that were counted, by status."""
    counts = {}
    for one, value in select(metrics, f"{Q}requests_total").items():
        status = label_of(one, "status_code")
        counts[status] = counts.get(status, 0) + int(value)
    return {status: count for status, count in counts.items() if count}


def key_id(gateway, model_name, key):
    """As telemetry and the tree have it."""
    return hashlib.sha256(gateway.keys.plaintext(model_name, key).encode()).hexdigest()[:8]

"""What is asked of a web server in front, of each that a configuration is shipped for."""

import json
import secrets
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import chat
from administrator import Admin
from errors import assert_error
from gateway import MOUNTS
from processes import wait_until
from scripts import answer, hang, pause
from tree import Tree, hostile, model

TREE = Tree(model("m", hostile("a", "k1")), model("two", hostile("a", "k1"), hostile("b", "k2")), default="m")
WORKERS = 8  # of the gateway
ELSEWHERE = "127.0.0.2"  # an address that is not the one whom the pages are shown to

at_each_mount = pytest.mark.parametrize("mount", MOUNTS)


def stages(gateway):
    return [worker["stage"] for worker in gateway.status()["workers"]]


def served(gateway):
    return sum(worker["requests"] for worker in gateway.status()["workers"])


# Requests


def test_an_upload_that_is_slow_holds_no_worker(gateway):
    gateway.script("m", "k1", answer(200, chat.completion()))
    body = json.dumps(chat.request("m", padding="x" * 100_000)).encode()
    wait_until(lambda: set(stages(gateway)) == {"idle"}, "what came before is over")
    slow = []
    for _ in range(WORKERS + 2):
        call = gateway.call("POST", "/v1/chat/completions", headers={"content-length": str(len(body))})
        call.socket.sendall(body[:50_000])
        slow.append(call)
    time.sleep(0.2)
    meanwhile = set(stages(gateway))
    for call in slow:
        call.socket.sendall(body[50_000:])
    statuses = [call.reply().status for call in slow]
    assert meanwhile == {"idle"} and statuses == [200] * len(slow)
    assert {record.body for record in gateway.upstream.records if len(record.body) > 1000} == {body}


def test_a_request_whose_length_is_not_announced_is_passed_on_whole(gateway):
    gateway.script("m", "k1", answer(200, chat.completion()))
    body = json.dumps(chat.request("m", padding="y" * 100_000)).encode()
    call = gateway.call("POST", "/v1/chat/completions", headers={"transfer-encoding": "chunked"})
    for at in range(0, len(body), 7000):
        piece = body[at : at + 7000]
        call.socket.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
    call.socket.sendall(b"0\r\n\r\n")
    assert call.reply().status == 200
    assert gateway.upstream.records[0].body == body


def test_who_waits_to_be_told_to_go_on_is_told(gateway):
    gateway.script("m", "k1", answer(200, chat.completion()))
    body = json.dumps(chat.request("m")).encode()
    headers = {"content-length": str(len(body)), "expect": "100-continue"}
    call = gateway.call("POST", "/v1/chat/completions", headers=headers)
    call.read_until("100 Continue\r\n\r\n")
    call.received = b""
    call.socket.sendall(body)
    assert call.reply().status == 200
    assert gateway.upstream.records[0].body == body


def test_several_requests_on_one_connection_get_an_answer_each(gateway):
    gateway.script("m", "k1", answer(200, chat.completion()))
    body = json.dumps(chat.request("m")).encode()
    call = gateway.begin("m")
    again = call.socket.dup()
    assert call.reply().status == 200
    call.socket = again
    call.received = b""
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {gateway.caller_key}\r\n"
    call.socket.sendall(f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    assert call.reply().status == 200
    assert len(gateway.upstream.records) == 2


@at_each_mount
@pytest.mark.parametrize("length, status", [(20_000, 200), (36_000, 431)])
def test_long_headers_are_passed_on_and_judged_by_us(gateway, mount, length, status):
    gateway.script("m", "k1", answer(200, chat.completion()))
    # In lines of a length that each of the servers takes by default.
    headers = {f"x-padding-{n}": "p" * 3900 for n in range(length // 4000)}
    reply = gateway.chat("m", mount=mount, headers=headers)
    if status == 200:
        assert reply.status == 200
    else:
        assert_error(reply, mount, 431, "headers_too_large" if mount == "/v1" else "HEADERS_TOO_LARGE")


def test_one_long_header_is_passed_on(gateway):
    gateway.script("m", "k1", answer(200, chat.completion()))
    assert gateway.chat("m", headers={"x-padding": "p" * 28_000}).status == 200


@pytest.mark.parametrize("query", ["model=m", "model=a%20b&x=%2F%26", "x=" + "y" * 6000])
def test_a_query_is_passed_on_as_it_was_written(gateway, query):
    """The voices of a model that there is not: the refusal names it."""
    reply = gateway.get(f"/api/v1/openai/audio/voices?{query}")
    assert reply.status == 400
    wanted = {"model=m": "m", "model=a%20b&x=%2F%26": "a b"}.get(query)
    assert wanted is None or reply.json()["details"]["requested"] == wanted, reply


def test_a_path_arrives_decoded(gateway):
    assert gateway.get("/v1/%6dodels").status == 200


@pytest.mark.parametrize("path", ["/v1/../v1/models", "/v1/./models"])
def test_a_path_arrives_without_dots(gateway, path):
    assert gateway.get(path).status == 200


def test_a_head_has_no_body(gateway):
    call = gateway.call("HEAD", "/readyz", key=None)
    call.read_until("\r\n\r\n")
    head, _, body = call.received.partition(b"\r\n\r\n")
    assert b" 200 " in head.splitlines()[0] and body == b""
    call.close()


def test_a_name_that_the_caller_gives_itself_is_not_the_web_servers(start_gateway, front_end):
    """--caller-auth remote-user, and nobody authenticates."""
    gateway = start_gateway(front_end=front_end, workers=1, caller_auth="remote-user")
    names = [
        {"authorization": "Basic ZXZlOnNlY3JldA=="},
        {"remote-user": "eve"},
        {"remote_user": "eve"},
        {"x-remote-user": "eve", "proxy-authorization": "Basic ZXZlOnNlY3JldA=="},
    ]
    assert [gateway.chat("m", key=None, headers=headers).status for headers in names] == [401] * len(names)


# Replies


def test_a_crowd_is_refused_by_nobody_but_us(gateway):
    """More callers at once than there are workers wait in the socket's queue, and not for too long."""
    gateway.script("m", "k1", [pause(0.02), *answer(200, chat.completion())])
    with ThreadPoolExecutor(60) as pool:
        replies = list(pool.map(lambda _: gateway.chat("m"), range(120)))
    refused = [reply for reply in replies if reply.status != 200]
    assert all(b"The gateway is busy." in reply.body for reply in refused), refused
    assert len(refused) < len(replies)


def test_the_head_of_a_refusal_is_passed_on(gateway):
    reply = gateway.chat("m", key="wrong")
    assert reply.status == 401
    assert reply.headers["www-authenticate"] == "Bearer"
    assert "status" not in reply.headers, "that is between us and the web server"
    gateway.script("m", "k1", answer(429, "{}", {"retry-after": "7", "content-type": "application/json"}))
    reply = gateway.chat("m")
    assert (reply.status, reply.headers["retry-after"]) == (503, "7")
    reply = gateway.call("DELETE", "/v1/chat/completions").reply()
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


def test_nothing_is_compressed_on_its_way(gateway):
    text = "x" * 100_000
    gateway.script("m", "k1", answer(200, chat.completion(text)))
    reply = gateway.chat("m", headers={"accept-encoding": "gzip, br, zstd"})
    assert "content-encoding" not in reply.headers
    assert reply.body == chat.completion(text).encode()


# Probes and pages


def test_probes_and_pages_are_answered_while_all_workers_are_busy(gateway):
    gateway.script("m", "k1", [hang()])
    calls = [gateway.begin("m") for _ in range(WORKERS)]
    try:
        gateway.upstream.wait_record(WORKERS)  # who waits with the others is told that the gateway is busy
        assert gateway.get("/livez", key=None).json() == {"status": "live"}
        assert gateway.get("/readyz", key=None).json()["status"] == "ready"
        assert gateway.get("/metrics", key=None).body.startswith(b"# HELP ")
        assert stages(gateway) == ["waiting"] * WORKERS
    finally:
        for call in calls:
            call.close()
    wait_until(lambda: set(stages(gateway)) == {"idle"}, "the workers are free again")


SPELLINGS = ["/%6detrics", "//metrics", "/x/../metrics", "/livez/metrics", "/readyz/../metrics", "/livez/..%2fmetrics",
             "/metrics?x=1", "/metrics/", "/v1/metrics", "/v1/..%2fstatus", "/status/x/../", "/METRICS", "/readyz/status"]  # fmt: skip


def test_pages_are_shown_to_whom_llm_router_lets_read_them(start_gateway, front_end):
    """By the address that the web server passes on, however the path is spelt."""
    gateway = start_gateway(front_end=front_end, workers=1, flags=["--metrics-access", "127.0.0.1"])
    for page in ("/metrics", "/status"):
        reply = gateway.get(page, key=None)
        assert reply.status == 200 and "status" not in reply.headers
        assert gateway.get(page, key=None, source=ELSEWHERE).status == 403
    for probe in ("/livez", "/readyz"):
        assert gateway.get(probe, key=None, source=ELSEWHERE).status == 200
    for path in SPELLINGS:
        reply = gateway.get(path, key=None, source=ELSEWHERE)
        assert reply.status >= 300, (path, reply)
        assert b"# HELP " not in reply.body and b"workersAlive" not in reply.body, path


def test_what_is_not_ours_is_not_passed_on(gateway):
    wait_until(lambda: set(stages(gateway)) == {"idle"}, "the requests so far are over")
    before = served(gateway)
    assert {gateway.get(path).status for path in ("/", "/api", "/index.php", "/api/v2")} <= {403, 404}
    assert served(gateway) == before


# The administrators' mount


@pytest.fixture
def admin(gateway):
    admin = Admin(gateway, name="llm-router-admin")
    admin.wait_for_socket()
    yield admin
    admin.process.stop()


def test_the_administrators_mount_is_there(gateway, admin):
    reply = admin.get()
    assert reply.status == 200 and reply.headers["etag"] and "status" not in reply.headers
    assert admin.ask("GET", key="wrong").status == 401
    document = json.dumps({"llm": {"models": {}}, "tts": {"models": {}}}).encode()
    assert admin.put(document, reply.headers["etag"]).status == 200
    assert admin.put(document, reply.headers["etag"]).status == 409, "If-Match is passed on"
    assert admin.patch(b"{}", "*").status == 200
    name = f"a/b {secrets.token_hex(4)}"
    assert admin.send("POST", "/api/admin/caller-keys", {"id": name}).status == 201
    path = f"/api/admin/caller-keys/{name.replace('/', '%2F').replace(' ', '%20')}"
    assert admin.ask("DELETE", path).status == 200, "a name's slash and blank are passed on"


def test_the_page_for_voice_packs_is_there(gateway, admin):
    for path, other in (("/voice-packs/", "/voice-packs/card.js"), ("/voice-packs/card.js", "/voice-packs/")):
        reply = gateway.get(path, key=None)
        assert reply.status == 200 and reply.headers["content-security-policy"] and "status" not in reply.headers
        tag = reply.headers["etag"]
        assert gateway.call("GET", path, headers={"if-none-match": tag}, key=None).reply().status == 304
        assert gateway.call("GET", other, headers={"if-none-match": tag}, key=None).reply().status == 200
    reply = gateway.get("/voice-packs", key=None)
    assert (reply.status, reply.headers["location"]) == (308, "voice-packs/")

"""What holds behind every front end: web servers, sockets that another program opened, llm-router as lighttpd's
child, a bare FastCGI socket, and CGI with and without a running instance."""

import fnmatch
import json
import re
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import chat
import speech
from errors import assert_error, assert_exhausted
from front_ends import FRONT_ENDS, NOT_FOR_BIN_PATH, OPENED_BY_ANOTHER, WEB_SERVERS, CgiGateway, LoneCgiGateway
from gateway import MOUNTS, Gateway
from processes import ROOT, wait_until
from scripts import JSON, answer, close, data, end, hang, head, pause, stream
from speech import MP3
from tree import Tree, hostile, model, speaker
from web_servers import LighttpdAndSystemd

TREE = Tree(
    model("m", hostile("a", "k1")),
    model("two", hostile("a", "k1"), hostile("b", "k2")),
    speech=[speaker("voice", "openai", hostile("a", "k1", "k2"), streamIdleTimeoutMs=1000)],
    default="m",
    perAttemptTimeoutMs=3000,
)
LIMIT = 32 * 1024 * 1024  # --max-body-bytes, as it is by default

at_each_mount = pytest.mark.parametrize("mount", MOUNTS)


def started(kind, folder, base_urls, upstream):
    gateway = FRONT_ENDS[kind].gateway(folder, base_urls, upstream, workers=3)
    gateway.start()
    gateway.use(TREE)
    return gateway


@pytest.fixture(scope="module", params=FRONT_ENDS)
def module_gateway(request, tmp_path_factory, base_urls, upstream):
    gateway = started(request.param, tmp_path_factory.mktemp("front"), base_urls, upstream)
    yield gateway
    gateway.stop()


@pytest.fixture
def gateway(module_gateway, upstream):
    upstream.reset()
    yield module_gateway
    module_gateway.assert_unbroken()


@at_each_mount
def test_a_plain_answer(gateway, mount):
    gateway.script("m", "k1", answer(200, chat.completion("Grüß Gott")))
    reply = gateway.chat("m", mount=mount)
    assert (reply.status, reply.is_whole) == (200, True)
    assert reply.body == chat.completion("Grüß Gott").encode()
    assert reply.headers["content-type"] == "application/json"
    event = gateway.event(reply)
    assert (event["end"], event["mount"], event["status"]) == ("done", mount, 200)
    assert event["attempts"][0]["verdict"] == "ok"


def test_a_streamed_answer_comes_as_it_is_made(gateway):
    gateway.script("m", "k1", [head(), data(chat.HELLO), pause(2.0), data(chat.FINISH), data(chat.DONE), end()])
    begun = time.monotonic()
    call = gateway.begin("m", stream=True)
    call.read_until("Hello")
    assert time.monotonic() - begun < 1.9
    reply = call.reply()
    assert reply.is_whole
    assert reply.body == (chat.HELLO + chat.FINISH + chat.DONE).encode()
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert gateway.event(call)["end"] == "done"


def test_a_large_answer_is_whole(gateway):
    text = "x" * 3_000_000
    gateway.script("m", "k1", answer(200, chat.completion(text)))
    reply = gateway.chat("m")
    assert reply.is_whole and reply.body == chat.completion(text).encode()


def test_a_large_request_reaches_the_upstream_as_it_was_written(gateway):
    gateway.script("m", "k1", answer(200, chat.completion()))
    body = json.dumps(chat.request("m", padding="y" * 2_000_000)).encode()
    assert gateway.post(body).status == 200
    assert gateway.upstream.records[0].body == body


def test_a_fallback_is_invisible(gateway):
    gateway.script("two", "k1", answer(401, "{}"))
    gateway.script("two", "k2", stream(*chat.GOOD_STREAM))
    reply = gateway.chat("two", stream=True)
    assert chat.text_of(reply.body) == "Hello world"
    assert [attempt["verdict"] for attempt in gateway.event(reply)["attempts"]] == ["auth", "ok"]


@at_each_mount
def test_the_models_are_listed(gateway, mount):
    assert {"m", "two"} <= {entry["id"] for entry in gateway.get(f"{mount}/models").json()["data"]}


@at_each_mount
def test_errors_have_the_mounts_form(gateway, mount):
    gateway.script("m", "k1", answer(401, "{}"))
    assert_exhausted(gateway.chat("m", mount=mount), mount, 502, "BAD_GATEWAY", 1, 1, 401)
    assert_error(gateway.chat("m", mount=mount, key="wrong"), mount, 401, "UNAUTHORIZED")
    assert_error(gateway.post(b"{", mount), mount, 400, "invalid_json" if mount == "/v1" else "BAD_REQUEST")


@at_each_mount
def test_a_body_over_the_limit_is_refused(gateway, mount):
    reply = gateway.post(b'{"x":"' + b"x" * LIMIT + b'"}', mount)
    assert_error(reply, mount, 413, "body_too_large" if mount == "/v1" else "PAYLOAD_TOO_LARGE")
    assert gateway.event(reply)["end"] == "refused"


def test_a_broken_stream_ends_with_an_error_event(gateway):
    gateway.script("m", "k1", [head(), data(chat.HELLO), pause(0.05), close()])
    reply = gateway.chat("m", stream=True)
    assert "error" in json.loads(chat.payloads(reply.body)[-1])
    assert gateway.event(reply)["end"] == "cut"


def test_a_plain_answer_that_was_cut_does_not_look_whole(gateway):
    gateway.script("m", "k1", [head(200, JSON), data(chat.completion("x" * 2_000_000)[:-100]), pause(0.2), close()])
    call = gateway.begin("m")
    reply = call.reply()
    assert gateway.event(call)["end"] == "cut"
    assert not reply.is_whole


@at_each_mount
@pytest.mark.parametrize("stream_format", ["audio", "sse"])
def test_audio_comes_as_it_is_made_also_from_the_second_key(gateway, mount, stream_format):
    sound = speech.audio(30_000)
    gateway.script("voice", "k1", answer(200, "{}"))
    gateway.script("voice", "k2", [head(200, MP3), data(sound[:100]), pause(0.3), data(sound[100:]), end()])
    reply = gateway.say("voice", mount, stream_format=stream_format)
    assert (reply.status, reply.is_whole) == (200, True)
    assert sound == (reply.body if stream_format == "audio" else speech.audio_of(speech.payloads(reply.body)))
    event = gateway.event(reply)
    assert (event["end"], event["fallback_depth"], event["mount"]) == ("done", 1, mount)
    assert event["ttft_us"] < event["total_us"] - 200_000


@pytest.mark.parametrize("broken", [close(), hang()], ids=["close", "silence"])
def test_audio_that_broke_off_does_not_look_whole(gateway, broken):
    gateway.script("voice", "k1", [head(200, MP3), data(speech.audio(30_000)), pause(0.1), broken])
    call = gateway.speak("voice")
    reply = call.reply()
    assert reply.body == speech.audio(30_000)
    assert gateway.event(call)["end"] == "cut"
    assert len(gateway.upstream.records) == 1
    assert not reply.is_whole


def test_what_came_before_a_reply_broke_off_is_passed_on(gateway):
    """Who got nothing would ask again."""
    gateway.script("voice", "k1", [head(200, MP3), data(speech.audio(1000)), close()])
    reply = gateway.say("voice")
    assert (reply.status, reply.body) == (200, speech.audio(1000))


@pytest.mark.parametrize("is_stream", [False, True], ids=["plain", "streamed"])
def test_a_departure_closes_the_upstream(gateway, is_stream):
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()] if is_stream else [hang()])
    call = gateway.begin("m", is_stream)
    record = gateway.upstream.wait_record()
    if is_stream:
        call.read_until("Hello")
    time.sleep(0.1)
    left = time.monotonic()
    call.close()
    assert record.wait_closed() - left < 0.4
    assert gateway.event(call)["end"] == "client_gone"


def test_a_request_id_of_the_callers_is_kept(gateway):
    reply = gateway.get("/v1/models", headers={"x-request-id": "of-the-caller-1"})
    assert reply.request_id == "of-the-caller-1"
    assert gateway.event(reply)["endpoint"] == "models"


def test_probes_are_answered(gateway):
    assert gateway.get("/livez", key=None).json() == {"status": "live"}
    assert gateway.get("/readyz", key=None).json()["status"] == "ready"


# The tables of what each front end cannot do

README = (ROOT / "lighttpd" / "README.md").read_text()


def rows_of(front_ends):
    """Of the table with these columns between what it is about and its test."""
    header = f"| | {' | '.join(front_ends)} | test |"
    _, _, *lines = README[README.index(header) :].partition("\n\n")[0].splitlines()
    return [(front_ends, [cell.strip() for cell in line.strip("|").split("|")]) for line in lines]


ROWS = [*rows_of(list(WEB_SERVERS)), *rows_of(list(OPENED_BY_ANOTHER)), *rows_of(["CGI"])]


def is_expected_to_fail(test, front_end):
    patterns = [pattern.rpartition("::")[2] for pattern in FRONT_ENDS[front_end].cannot]
    return any(fnmatch.fnmatchcase(test, pattern.partition("[")[0]) for pattern in patterns)


@pytest.mark.parametrize("front_ends, row", ROWS, ids=[row[-1].strip("`") for _, row in ROWS])
def test_the_tables_of_the_readme_say_what_is_expected(front_ends, row):
    what, *cells, test = row
    for front_end, cell in zip(front_ends, cells, strict=True):
        cannot = is_expected_to_fail(test.strip("`"), front_end)
        assert cell.startswith("no" if cannot else "yes"), f"{what}: {front_end}"


def test_what_is_expected_to_fail_are_tests_that_there_are():
    text = "".join(path.read_text() for path in (ROOT / "tests" / "integration").glob("test_*.py"))
    there_are = re.findall(r"^def (test_\w+)", text, re.M)
    named = [pattern.rpartition("::")[2].partition("[")[0] for front_end in FRONT_ENDS.values() for pattern in front_end.cannot]
    named += [row[-1].strip("`") for _, row in ROWS]
    assert [name for name in named if not fnmatch.filter(there_are, name)] == []


def test_what_lighttpd_does_not_start_are_tests_that_there_are():
    for pattern in NOT_FOR_BIN_PATH:
        file, _, name = pattern.partition("::")
        text = (ROOT / "tests" / "integration" / file).read_text()
        assert fnmatch.filter(re.findall(r"^def (test_\w+)", text, re.M), name), pattern


# Sockets that others open


@pytest.mark.parametrize("front_end", OPENED_BY_ANOTHER)
def test_a_socket_that_another_program_opened_is_left_to_the_next(start_gateway, front_end):
    gateway = start_gateway(TREE, front_end=front_end, workers=2)
    gateway.script("m", "k1", answer(200, chat.completion()))
    assert gateway.chat("m").status == 200
    gateway.router.stop()
    assert gateway.socket.exists()
    gateway.start_router()
    wait_until(lambda: gateway.chat("m").status == 200, "the next serves")
    gateway.assert_unbroken()


class TwoSockets(LighttpdAndSystemd):
    def router_command(self, llm_router, socket, environment):
        *command, last = super().router_command(llm_router, socket, environment)
        return [*command, f"--listen={socket}-2", last]


def test_more_sockets_than_one_are_refused(tmp_path, base_urls, upstream):
    gateway = Gateway(tmp_path, base_urls, upstream, web_server=TwoSockets)
    try:
        gateway.start_router()
        assert gateway.router.wait() == 1
        assert 'LISTEN_FDS is "2"' in json.loads(gateway.router.log_text().splitlines()[-1])["message"]
    finally:
        gateway.stop()


# llm-router as lighttpd's child


@pytest.mark.parametrize("front_end", ["bin-path"])
def test_what_lighttpd_has_started_is_started_again_when_it_has_died(start_gateway, front_end):
    gateway = start_gateway(TREE, front_end=front_end, workers=3)
    gateway.script("m", "k1", answer(200, chat.completion()))
    first = gateway.router.pid
    gateway.router.signal(signal.SIGKILL)
    wait_until(lambda: gateway.router.pid != first, "another is started")
    wait_until(lambda: gateway.chat("m").status == 200, "it serves")


# CGI alone


@pytest.fixture(params=["CGI beside an instance", "CGI alone"])
def cgi(request, tmp_path, base_urls, upstream):
    upstream.reset()
    gateway = started(request.param, tmp_path, base_urls, upstream)
    gateway.script("m", "k1", answer(200, chat.completion()))
    yield gateway
    gateway.stop()
    gateway.assert_unbroken()


INJECTIONS = [["--workers", "1"], ["--help"], ["--version"], ["--caller-auth", "none"], ["--state-dir", "/nowhere"]]


@pytest.mark.parametrize("arguments", INJECTIONS, ids=["+".join(arguments) for arguments in INJECTIONS])
def test_a_query_is_no_command_line(cgi, arguments):
    """RFC 3875, 4.4: a web server may pass a query without "=" as arguments."""
    query = {"QUERY_STRING": "+".join(arguments)}
    reply = cgi.call("GET", "/v1/models", arguments=arguments, environment=query).reply()
    assert reply.status == 200
    assert "m" in [entry["id"] for entry in reply.json()["data"]]
    refused = cgi.call("GET", "/v1/models", key=None, arguments=arguments, environment=query).reply()
    assert refused.status == 401


def test_the_exit_status_says_whether_the_reply_is_whole(cgi):
    call = cgi.begin("m")
    assert call.reply().status == 200 and call.exit_status() == 0
    refused = cgi.begin("m", key="wrong")
    assert refused.reply().status == 401 and refused.exit_status() == 0
    cgi.script("m", "k1", [head(200, JSON), data(chat.completion("x" * 2_000_000)[:-100]), pause(0.2), close()])
    cut = cgi.begin("m")
    cut.reply()
    assert cut.exit_status() == 1


def test_the_configuration_is_the_instances_or_the_stores(cgi):
    generation = cgi.event(cgi.chat("m"))["generation"]
    instance = None if isinstance(cgi, LoneCgiGateway) else cgi.event(cgi.chat("m"))["instance"]
    if isinstance(cgi, LoneCgiGateway):
        assert generation == 1
    else:
        assert generation > 1, "the instance has published more than one"
        assert cgi.event(cgi.chat("m"))["instance"] == instance
    cgi.write_entry("LLM_ROUTER_CONFIG", "{")
    time.sleep(0.3)
    reply = cgi.chat("m")
    if isinstance(cgi, LoneCgiGateway):
        assert_error(reply, "/v1", 503, "CONFIG_NOT_SET")
    else:
        assert reply.status == 200, "the instance's last good configuration stays in force"


def test_without_an_instance_no_run_directory_is_needed(tmp_path, base_urls, upstream):
    upstream.reset()
    gateway = started("CGI alone", tmp_path, base_urls, upstream)
    gateway.script("m", "k1", answer(200, chat.completion()))
    reply = gateway.call("GET", "/v1/models", environment={"LLM_ROUTER_RUN_DIR": str(tmp_path / "nowhere")}).reply()
    assert reply.status == 200
    assert not (tmp_path / "nowhere").exists()


def test_a_dead_instance_counts_as_none(tmp_path, base_urls, upstream):
    upstream.reset()
    gateway = started("CGI beside an instance", tmp_path, base_urls, upstream)
    assert isinstance(gateway, CgiGateway)
    gateway.router.stop()
    gateway.script("m", "k1", answer(200, chat.completion()))
    reply = gateway.chat("m")
    assert reply.status == 200
    assert gateway.event(reply)["generation"] == 1


def test_a_starting_instance_is_waited_for(tmp_path, base_urls, upstream):
    """From its first file to its first look at the store."""
    upstream.reset()
    gateway = started("CGI alone", tmp_path, base_urls, upstream)
    assert isinstance(gateway, LoneCgiGateway)
    for _ in range(5):
        gateway.start_router()
        began = time.monotonic()
        statuses = []
        with ThreadPoolExecutor(3) as pool:
            while time.monotonic() < began + 0.2:
                calls = [pool.submit(lambda: gateway.get("/v1/models").status) for _ in range(3)]
                statuses += [call.result() for call in calls]
        gateway.router.stop()
        assert set(statuses) == {200}

"""llm-routerctl smoke: one of each is asked, and judged. Every scenario is seen to pass, and to
fail in each way in which it can."""

import json
import os
import re
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import chat
from processes import BUILD, ROOT, KeptPort, program
from scripts import answer, close, data, head, stream
from tree import Tree, at, hostile, model, speaker

CALLER_KEY = "lr-caller-of-the-imposter"
UNKNOWN = "llm-routerctl-no-such-model"
ODD = "it's a \"model\" & $more?"


def smoke(url, *options, environment=None, **more):
    kept = {name: os.environ[name] for name in ("PATH", "ASAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ}
    return subprocess.run(
        [program("llm-routerctl"), "smoke", "--url", url, *map(str, options)],
        env=kept | (environment or {}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        **more,
    )


def trials(done):
    """Scenario -> its trial; the last one of those with several models."""
    return {trial["scenario"]: trial for trial in json.loads(done.stdout)["trials"]}


# An instance of which each answer can be another one


def exhausted(status=401, **more):
    return {"triedKeys": 2, "triedUpstreams": 1, "lastStatusCode": status} | more


def coded(error, message, details):
    return json.dumps({"error": error, "message": message, "details": details})


JSON, SSE = "application/json", "text/event-stream"
MP3 = b"\xff\xfb\x90\x00" + bytes(200)

# Scenario -> status, type, body, how the event ends (None: there is none), its attempts.
OK, DEAD = {"upstream": "u", "key_fp": "0a1b2c3d", "verdict": "ok", "status": 200}, {
    "upstream": "u", "key_fp": "d3c2b1a0", "verdict": "auth", "status": 401, "reason": "code:x"}
GOOD = {
    "livez": (200, JSON, '{"status":"live"}', None, []),
    "readyz": (200, JSON, '{"status":"ready","checks":{"db":"ok","redis":"ok"}}', None, []),
    "chat": (200, JSON, chat.completion(), "done", [OK]),
    "chat-stream": (200, SSE, "".join(chat.GOOD_STREAM), "done", [OK]),
    "chat-fallback": (200, JSON, chat.completion(), "done", [DEAD, OK]),
    "voices": (200, JSON, '{"voices":[{"id":"ava"},{"id":"eve"}],"recommended":{"en":"ava"}}', "done", []),
    "speech": (200, "audio/mpeg", MP3, "done", [OK]),
    "unknown-model": (400, JSON, coded("BAD_REQUEST", "unknown_model", {"requested": UNKNOWN, "available": ["m"]}), "refused", []),
    "unknown-model-v1": (404, JSON, '{"error":{"message":"no","type":"t","param":"model","code":"model_not_found"}}', "refused", []),
    "exhausted": (502, JSON, json.dumps({"error": {"code": "upstream_unavailable", "details": exhausted()}}), "error_before", [DEAD, DEAD]),
    "wrong-key": (401, JSON, "{}", "refused", []),
}


def scenario_of(request, body, key):
    """Which scenario asks so."""
    path = request.path.partition("?")[0]
    if path in ("/livez", "/readyz"):
        return path[1:]
    if path.endswith("/audio/voices"):
        return "voices"
    if path.endswith("/audio/speech"):
        return "speech"
    if key != CALLER_KEY:
        return "wrong-key"
    if body["model"] == UNKNOWN:
        return "unknown-model" if path.startswith("/api") else "unknown-model-v1"
    if body.get("stream"):
        return "chat-stream"
    return {"falling": "chat-fallback", "dead": "exhausted"}.get(body["model"], "chat")


class Imposter:
    """Answers as GOOD says, but for what a test changes; and writes the events of a gateway."""

    def __init__(self, folder):
        self.state_dir = folder / "state"
        (self.state_dir / "spool").mkdir(parents=True)
        self.spool = self.state_dir / "spool" / "llm-router.00000001.jsonl"
        self.spool.write_text("\n" + json.dumps({"v": 1, "time": 1, "request_id": "an older one", "end": "done"}) + "\n\ntorn{\n")
        self.key_file = folder / "caller.key"
        self.key_file.write_text(CALLER_KEY + "\n")
        self.answers = dict(GOOD)
        self.event_members = {}  # scenario -> members of its event that are different
        self.writes_events = True
        self.delay_s = {}
        self.seen = []  # scenario, headers, body
        self._n = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._make_handler())
        self._server.daemon_threads = True
        self.root = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=[0.02], daemon=True).start()

    def stop(self):
        self._server.shutdown()
        self._server.server_close()

    def _make_handler(imposter):  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                imposter.answer(self)

            do_GET = do_POST

        return Handler

    def answer(self, request):
        raw = request.rfile.read(int(request.headers.get("content-length", "0")))
        body = json.loads(raw) if raw else None
        key = request.headers.get("authorization", "").removeprefix("Bearer ")
        scenario = scenario_of(request, body, key)
        with self._lock:
            self._n += 1
            request_id = f"request-{self._n}"
            self.seen.append((scenario, dict(request.headers.items()), body, request.path))
        time.sleep(self.delay_s.get(scenario, 0))
        status, content_type, text, end, attempts = self.answers[scenario]
        payload = text if isinstance(text, bytes) else text.encode()
        if end is not None and self.writes_events:
            self._write_event(scenario, request, request_id, status, end, attempts)
        request.send_response(status)
        request.send_header("content-type", content_type)
        request.send_header("x-request-id", request_id)
        request.send_header("content-length", str(len(payload) + (1 if status == 299 else 0)))
        request.end_headers()
        request.wfile.write(payload)
        request.close_connection = True

    def _write_event(self, scenario, request, request_id, status, end, attempts):
        event = {"v": 1, "time": time.time_ns() // 1000, "request_id": request_id, "end": end, "status": status}
        event["trace_id"] = request.headers.get("traceparent", "--").split("-")[1]
        event["attempts"] = [{"n": n + 1} | attempt for n, attempt in enumerate(attempts)]
        event |= {"fallback_depth": len(attempts) - 1} if attempts else {}
        with self.spool.open("a") as spool:
            spool.write("\n" + json.dumps(event | self.event_members.get(scenario, {})) + "\n")

    def options(self):
        return [
            *("--key-file", self.key_file, "--state-dir", self.state_dir, "--speech-model", "speaker"),
            *("--fallback-model", "falling", "--exhausted-model", "dead"),
        ]

    def smoke(self, *options, **more):
        return smoke(f"{self.root}/v1", *self.options(), *options, **more)


@pytest.fixture
def imposter(tmp_path):
    imposter = Imposter(tmp_path)
    yield imposter
    imposter.stop()


def test_an_instance_that_answers_as_it_should_passes_every_scenario(imposter):
    done = imposter.smoke("--json")
    found = json.loads(done.stdout)
    assert {trial["scenario"]: trial["finding"] for trial in found["trials"]} == dict.fromkeys(GOOD)
    assert (found["passed"], found["failed"], found["skipped"]) == (len(GOOD), 0, 0)
    assert (done.returncode, done.stderr) == (0, "")


def changed(name, status=None, content_type=None, body=None, end=None, attempts=None):
    """What is answered instead of GOOD's."""
    new = (status, content_type, body, end, attempts)
    return tuple(old if member is None else member for old, member in zip(GOOD[name], new))


FAILING = [
    ("livez", {"status": 503}, "the status is 503 instead of 200"),
    ("livez", {"body": '{"status":"dead"}'}, "does not say"),
    ("livez", {"body": "live"}, "does not say"),
    ("readyz", {"status": 503, "body": '{"status":"not_ready","checks":{"db":"fail"}}'}, "the status is 503"),
    ("readyz", {"body": '{"status":"ready"}'}, "with its checks"),
    ("readyz", {"body": '{"status":"ready","checks":{"db":"ok","redis":"fail"}}'}, "a check is not ok"),
    ("readyz", {"body": '{"status":"ready","checks":{"db":1}}'}, "a check is not ok"),
    ("chat", {"status": 502, "body": "{}"}, "the status is 502 instead of 200"),
    ("chat", {"body": '{"choices":[]}'}, "no choice with a message"),
    ("chat", {"body": "not JSON"}, "no choice with a message"),
    ("chat", {"end": "error_mid"}, 'its event ends with "error_mid" instead of "done"'),
    ("chat-stream", {"status": 500}, "the status is 500"),
    ("chat-stream", {"content_type": JSON}, "no stream of events"),
    ("chat-stream", {"body": chat.ROLE + chat.HELLO}, "does not end with [DONE]"),
    ("chat-stream", {"body": "data: [DONE]\n\n"}, "holds no choice"),
    ("chat-stream", {"body": chat.HELLO + "data: [DONE]\n\n" + chat.event(chat.error())}, "does not end with [DONE]"),
    ("chat-fallback", {"attempts": [OK]}, "it did not fall back"),
    ("chat-fallback", {"status": 502}, "the status is 502"),
    ("voices", {"status": 404}, "the status is 404"),
    ("voices", {"body": '{"voices":[],"recommended":{}}'}, "no voice"),
    ("speech", {"status": 504}, "the status is 504"),
    ("speech", {"content_type": JSON}, 'no audio but "application/json"'),
    ("speech", {"body": b""}, "the reply is empty"),
    ("speech", {"body": b"RIFF" + bytes(100)}, 'does not begin as "audio/mpeg" does'),
    ("speech", {"content_type": "audio/wav"}, 'does not begin as "audio/wav" does'),
    ("speech", {"content_type": "audio/ogg", "body": b"Ogg"}, 'does not begin as "audio/ogg" does'),
    ("unknown-model", {"status": 404}, "the status is 404 instead of 400"),
    ("unknown-model", {"body": coded("BAD_REQUEST", "no", {})}, "unknown_model"),
    ("unknown-model", {"body": coded("BAD_REQUEST", "unknown_model", {"requested": "x", "available": []})}, "details"),
    ("unknown-model-v1", {"status": 400}, "the status is 400 instead of 404"),
    ("unknown-model-v1", {"body": '{"error":{"code":"other"}}'}, "model_not_found"),
    ("exhausted", {"status": 200}, "the status is 200 instead of 502, 503 or 504"),
    ("exhausted", {"body": '{"error":{}}'}, "not exactly"),
    ("exhausted", {"body": json.dumps({"error": {"details": exhausted(more=1)}})}, "not exactly"),
    ("exhausted", {"body": json.dumps({"error": {"details": {"a": 1, "b": 1, "c": 1}}})}, "not exactly"),
    ("exhausted", {"body": json.dumps({"error": {"details": exhausted(triedKeys="2")}})}, "not exactly"),
    ("exhausted", {"body": json.dumps({"error": {"details": exhausted(triedUpstreams=0)}})}, "not exactly"),
    ("exhausted", {"body": json.dumps({"error": {"details": exhausted(429)}})}, "502 after a last attempt that ended with 429"),
    ("exhausted", {"body": json.dumps({"error": {"details": exhausted("timeout")}})}, 'ended with "timeout"'),
    ("exhausted", {"status": 503}, "the status is 503 after a last attempt that ended with 401"),
    ("exhausted", {"end": "done"}, 'its event ends with "done"'),
    ("wrong-key", {"status": 200}, "the status is 200 instead of 401"),
]


@pytest.mark.parametrize("name, change, finding", FAILING)
def test_an_answer_that_is_not_as_it_should_be_fails_its_scenario_and_no_other(imposter, name, change, finding):
    imposter.answers[name] = changed(name, **change)
    done = imposter.smoke("--json")
    found = {trial["scenario"]: trial for trial in json.loads(done.stdout)["trials"]}
    assert [trial for trial in found if found[trial]["result"] == "failed"] == [name]
    assert finding in found[name]["finding"]
    assert done.returncode == 1


def test_every_scenario_is_seen_to_fail():
    assert {name for name, _, _ in FAILING} == set(GOOD)


@pytest.mark.parametrize("status, last", [(502, 402), (503, 429), (504, "timeout"), (502, "connect"), (502, "reset"), (502, 503)])
def test_an_exhaustion_may_end_in_each_way_that_is_specified(imposter, status, last):
    imposter.answers["exhausted"] = changed("exhausted", status, body=json.dumps({"error": {"details": exhausted(last)}}))
    assert imposter.smoke().returncode == 0


@pytest.mark.parametrize(
    "members, finding",
    [
        ({"status": 500}, "its event says status 500"),
        ({"trace_id": "0123456789abcdef" * 2}, 'its event has the trace id "0123456789abcdef'),
        ({"trace_id": ""}, 'its event has the trace id ""'),
        ({"end": "cut"}, 'its event ends with "cut"'),
    ],
)
def test_an_event_that_says_something_else_than_the_caller_saw_fails(imposter, members, finding):
    imposter.event_members["chat"] = members
    done = imposter.smoke("--json")
    assert done.returncode == 1
    assert trials(done)["chat"]["result"] == "failed" and finding in trials(done)["chat"]["finding"]


@pytest.mark.parametrize("name", GOOD)
def test_a_reply_that_breaks_off_fails(imposter, name):
    status, *rest = GOOD[name]
    imposter.answers[name] = (299, *rest)  # a byte is missing at the end
    trial = trials(imposter.smoke("--json"))[name]
    assert trial["result"] == "failed" and "no whole reply" in trial["finding"], trial


def test_who_does_not_answer_at_all_fails_everything():
    port = KeptPort()
    done = smoke(f"http://127.0.0.1:{port.number}/v1", "--json", "--speech-model", "s")
    port.close()
    found = json.loads(done.stdout)
    assert done.returncode == 1 and found["passed"] == 0
    results = {trial["scenario"]: (trial["result"], trial["finding"][:8]) for trial in found["trials"]}
    assert results["livez"] == results["chat"] == results["speech"] == ("failed", "no reply")
    assert {name for name, (result, _) in results.items() if result == "skipped"} == {"chat-fallback", "exhausted", "wrong-key"}


# What is not known is not passed


def test_a_scenario_whose_model_was_not_given_is_skipped_and_not_sent(imposter):
    imposter.answers["voices"] = changed("voices", 404)
    done = smoke(f"{imposter.root}/v1", "--state-dir", imposter.state_dir, "--json")
    found = trials(done)
    skipped = {name for name, trial in found.items() if trial["result"] == "skipped"}
    assert skipped == {"chat-fallback", "exhausted", "voices", "speech", "wrong-key"}
    for name in skipped:
        assert found[name]["finding"].startswith("no --") and "status" not in found[name]
    assert not {"chat-fallback", "exhausted", "speech"} & {scenario for scenario, *_ in imposter.seen}


@pytest.mark.parametrize("hides", ["no event", "no state directory"])
def test_a_fallback_that_cannot_be_seen_from_here_is_not_passed(imposter, hides, tmp_path):
    imposter.writes_events = hides != "no event"
    state_dir = imposter.state_dir if hides == "no event" else tmp_path / "nowhere"
    done = smoke(f"{imposter.root}/v1", *imposter.options()[:2], "--state-dir", state_dir, "--fallback-model", "falling")
    assert re.search(r"^skipped +chat-fallback falling +200 .*\n +attempts: not visible from here\n +it was answered, but", done.stdout, re.M)
    assert re.search(r"^passed +chat auto .*\n +attempts: not visible from here$", done.stdout, re.M)


def test_events_are_found_over_the_ends_of_segments(imposter):
    """The spool goes on in another file while requests are sent."""
    first = imposter.spool
    imposter.spool = first.with_name("llm-router.00000002.jsonl")
    imposter.spool.write_text("")
    assert trials(imposter.smoke("--json"))["chat"]["event"]["attempts"][0]["upstream"] == "u"
    third = first.with_name("llm-router.00000003.jsonl")

    class Turning(dict):
        def get(self, scenario, default=None):
            if scenario == "chat-stream":
                imposter.spool = third
            return super().get(scenario, default)

    imposter.delay_s = Turning()
    found = trials(imposter.smoke("--json"))
    assert all(found[name]["event"] for name in ("chat", "chat-stream", "chat-fallback", "exhausted", "wrong-key"))
    assert third.exists()


# What is said


def test_the_lines_tell_status_times_trace_and_attempts(imposter):
    lines = imposter.smoke().stdout.splitlines()
    at = next(i for i, line in enumerate(lines) if "chat-fallback falling" in line)
    assert re.fullmatch(
        r"passed   chat-fallback falling +200  first byte +[\d.]+ m?s  total +[\d.]+ m?s  trace [0-9a-f]{32}", lines[at]
    )
    assert lines[at + 1].strip() == "1. u, key d3c2b1a0: auth 401 (code:x), first byte -"
    assert lines[at + 2].strip() == "2. u, key 0a1b2c3d: ok 200, first byte -"
    assert lines[-1] == f"{len(GOOD)} passed, 0 failed, 0 skipped"


def test_each_request_is_a_trace_of_its_own_and_its_id_is_told(imposter):
    found = json.loads(imposter.smoke("--json").stdout)["trials"]
    sent = [headers["traceparent"] for _, headers, _, _ in imposter.seen]
    assert all(re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", parent) for parent in sent)
    assert [parent.split("-")[1] for parent in sent] == [trial["traceId"] for trial in found]
    assert len(set(sent)) == len(sent)


def test_speech_is_asked_with_a_voice_that_its_model_recommends(imposter):
    imposter.smoke()
    assert [body["voice"] for scenario, _, body, _ in imposter.seen if scenario == "speech"] == ["ava"]


def test_each_speech_model_that_is_given_is_asked(imposter):
    done = imposter.smoke("--speech-model", "second", "--speech-model", "third", "--json")
    asked = [body["model"] for scenario, _, body, _ in imposter.seen if scenario == "speech"]
    assert asked == ["speaker", "second", "third"]
    assert done.returncode == 0


def test_the_callers_key_is_sent_where_it_belongs_and_shown_nowhere(imposter, tmp_path):
    report = tmp_path / "report.md"
    shown = [imposter.smoke("--report", report), imposter.smoke("--json")]
    for done in shown:
        assert CALLER_KEY not in done.stdout + done.stderr
    assert CALLER_KEY not in report.read_text()
    for scenario, headers, _, _ in imposter.seen:
        expected = None if scenario in ("livez", "readyz") else "Bearer llm-routerctl-no-such-key" if scenario == "wrong-key" else f"Bearer {CALLER_KEY}"
        assert headers.get("authorization") == expected, scenario


def test_the_key_may_come_on_stdin(imposter):
    done = smoke(f"{imposter.root}/v1", "--key-file", "-", input=CALLER_KEY)
    assert re.search("^passed +chat auto", done.stdout, re.M)


def test_a_slow_scenario_says_that_it_goes_on(imposter):
    imposter.delay_s["chat"] = 3.6
    done = imposter.smoke()
    assert re.search(r"^llm-routerctl smoke: chat: \d+ s so far$", done.stderr, re.M)
    assert done.returncode == 0


def test_nothing_of_a_reply_changes_the_layout_of_a_report_or_a_terminal(imposter, tmp_path):
    report = tmp_path / "report.md"
    evil = '{"error":\n"\x1b[2J"}\n# Heading\n```\n~~~~\n| a | b |\n\x9b31m\u202e<script>\n'
    imposter.answers["chat"] = changed("chat", 502, 'application/json; x="`|\x1b[1m', evil)
    imposter.event_members["chat"] = {"attempts": [{"n": 1, "upstream": "`|\x1b[2J\n# x", "verdict": "ok"}]}
    done = imposter.smoke("--report", report)
    text = report.read_text()
    for shown in (done.stdout, text):
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", shown)
    headings = [line for line in text.splitlines() if line.startswith("#")]
    assert headings == ["# Verification", *[line for line in headings if re.match(r"## [a-z0-9-]+(, `[^`]+`)?: (passed|failed)$", line)]]
    assert len(headings) == 1 + len(GOOD)
    assert not [line for line in text.splitlines() if line.startswith(("```", "~~~", "<"))]
    assert all(line.count("|") == 8 for line in text.splitlines() if line.startswith("|"))


def test_a_report_tells_scenario_command_expected_actual_commit_environment_and_date(imposter, tmp_path):
    report = tmp_path / "report.md"
    imposter.answers["exhausted"] = changed("exhausted", 200)
    done = smoke(f"{imposter.root}/v1", *imposter.options()[:4], "--exhausted-model", "dead", "--report", report,
                 "--commit", "0123abcd", "--environment", "a test")
    assert done.returncode == 1
    text = report.read_text()
    for line in ("- commit: `0123abcd`", "- environment: `a test`", time.strftime("- date: %Y-%m-%d", time.gmtime())):
        assert line in text
    chat_part = text.partition("## chat, `auto`: passed")[2].partition("\n## ")[0]
    assert f"    curl -sSi '{imposter.root}/v1/chat/completions' \\\n" in chat_part
    assert '    -H "authorization: Bearer $CALLER_KEY" \\\n' in chat_part
    assert "Expected: 200 with a choice" in chat_part and re.search("^Actual: 200, `application/json`, [0-9]+ bytes", chat_part, re.M)
    assert "    1. u, key 0a1b2c3d: ok 200, first byte -\n" in chat_part
    assert "Failed: `the status is 200 instead of 502, 503 or 504`" in text.partition("## exhausted, `dead`: failed")[2]
    assert "Skipped: `no --fallback-model was given`" in text.partition("## chat-fallback: skipped")[2]
    assert report.stat().st_mode & 0o777 == 0o644


def test_a_report_that_cannot_be_written_is_a_failure(imposter, tmp_path):
    done = imposter.smoke("--report", tmp_path / "nowhere" / "report.md")
    assert done.returncode == 1 and "nowhere" in done.stderr


@pytest.mark.parametrize("url", ["127.0.0.1:1/v1", "ftp://h/v1", "http://", "http:///v1", "http://u:secret@h/v1", "http://h/v1?x", ""])
def test_an_address_that_is_none_is_refused_before_anything_is_sent(url):
    done = smoke(url)
    assert (done.returncode, done.stdout) == (2, "")
    assert "must be an address like" in done.stderr


@pytest.mark.parametrize("content", ["", "\n", "two words", "caf\u00e9"])
def test_a_file_without_a_key_is_refused(tmp_path, content):
    file = tmp_path / "key"
    file.write_text(content)
    done = smoke("http://127.0.0.1:9/v1", "--key-file", file)
    assert (done.returncode, done.stdout) == (1, "")
    assert "no caller's key" in done.stderr and "caf" not in done.stderr


# Against the gateway


TREE = Tree(
    model("chat", hostile("a", "k1", id="only")),
    model("falling", hostile("a", "dead", "k1", id="two-keys")),
    model("dead", hostile("a", "k1", "k2", id="dead-keys")),
    model(ODD, hostile("a", "k1")),
    speech=[speaker("azure", "azure", at("like-azure", "a", "k1", id="voice-of-azure"))],
    default="chat",
)

MOUNTS = ["/v1", "/api/v1/openai"]


@pytest.fixture
def ready(gateway, providers):
    """The gateway with upstreams that answer, and a recommended voice that the imitation knows."""
    gateway.write_entry("DEFAULT_TTS_VOICES", json.dumps({"azure": {"en-US": "en-US-AvaNeural"}}))
    gateway.use(TREE)
    good = [answer(200, chat.completion()), stream(*chat.GOOD_STREAM)]
    gateway.script("chat", "k1", *good)
    gateway.script("falling", "dead", answer(401, "{}"))
    gateway.script("falling", "k1", answer(200, chat.completion()))
    gateway.script("dead", "k1", answer(429, "{}"))
    gateway.script("dead", "k2", answer(401, "{}"))
    yield gateway
    gateway.remove_entry("DEFAULT_TTS_VOICES")


def smoke_gateway(gateway, *options, mount="/v1"):
    key_file = gateway.folder / "smoke.key"
    key_file.write_text(gateway.caller_key)
    return smoke(f"http://127.0.0.1:{gateway.port}{mount}", "--key-file", key_file, "--state-dir", gateway.state_dir,
                 "--fallback-model", "falling", "--exhausted-model", "dead", *options)


@pytest.mark.parametrize("mount", MOUNTS)
def test_a_gateway_passes_at_each_mount_and_speakers_are_found_by_themselves(ready, mount):
    done = smoke_gateway(ready, "--json", mount=mount)
    found = json.loads(done.stdout)
    assert [(trial["scenario"], trial["finding"]) for trial in found["trials"] if trial["result"] != "passed"] == []
    assert done.returncode == 0
    told = trials(done)
    assert told["speech"]["model"] == told["voices"]["model"] == "azure"
    assert (told["exhausted"]["status"], told["chat-fallback"]["event"]["fallbackDepth"]) == (502, 1)
    assert [attempt["verdict"] for attempt in told["exhausted"]["event"]["attempts"]] == ["rate", "auth"]
    assert [attempt["upstream"] for attempt in told["speech"]["event"]["attempts"]] == ["voice-of-azure"]


def test_a_gateway_that_fails_is_said_to(ready, providers):
    """The kinds of failure that upstreams are the cause of."""
    ready.upstream.reset()
    ready.script("chat", "k1", answer(500, "{}"), [head(), data(chat.ROLE), data(chat.HELLO), close()])
    ready.script("falling", "dead", answer(200, chat.completion()))
    ready.script("dead", "k1", answer(200, chat.completion()))
    providers.troubles[ready.keys.plaintext("azure", "k1")] = "dead"
    done = smoke_gateway(ready, "--json")
    found = trials(done)
    assert done.returncode == 1
    failed = {name: trial["finding"] for name, trial in found.items() if trial["result"] == "failed"}
    assert failed == {
        "chat": "the status is 502 instead of 200",
        "chat-stream": "the stream does not end with [DONE]",
        "chat-fallback": "the first attempt did not fail: it did not fall back",
        "exhausted": "the status is 200 instead of 502, 503 or 504",
        "speech": "the status is 502 instead of 200",
    }


def test_the_commands_do_the_same_at_a_shell(ready, tmp_path):
    ready.script(ODD, "k1", answer(200, chat.completion()), stream(*chat.GOOD_STREAM), *[answer(200, chat.completion())] * 2)
    told = json.loads(smoke_gateway(ready, "--chat-model", ODD, "--json").stdout)["trials"]
    ready.script(ODD, "k1", answer(200, chat.completion()), stream(*chat.GOOD_STREAM))
    for trial in told:
        done = subprocess.run(
            ["sh", "-c", trial["command"]],
            env={"PATH": os.environ["PATH"], "CALLER_KEY": ready.caller_key},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            timeout=20,
            check=True,
        )
        assert done.stdout.startswith(b"HTTP/1.1 %d " % trial["status"]), (trial["scenario"], done.stdout[:200])
    assert (tmp_path / "speech").stat().st_size > 1000


def test_the_list_of_verifications_passes_on_what_make_run_serves(tmp_path):
    """What `make verification` runs: nothing of the list fails, and nothing is skipped."""
    port = KeptPort()
    report = tmp_path / "VERIFICATION.md"
    done = subprocess.run(
        [ROOT / "tests" / "integration" / "verification", report],
        env=os.environ | {"PORT": str(port.number), "BUILD": str(BUILD)},
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    port.close()
    assert done.returncode == 0, done.stdout + done.stderr
    text = report.read_text()
    assert re.search("^- result: [0-9]+ passed, 0 failed, 0 skipped$", text, re.M)
    assert {item for item in re.findall(r"^\| ([0-9-]*) \|", text, re.M) if item} == {"1", "2", "3-5", "6", "7", "8", "9", "10"}
    for provider in ("azure.speech", "dashscope.cosyvoice", "volcengine.tts"):
        assert f" ({provider}), key " in text

"""The runbook, followed to the letter: every command in admin/RUNBOOK.md is run here, in the
order of an installation's life, first on the state directory and then on Postgres and Redis."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
from urllib.parse import quote

import pytest

import chat
from http_client import Call, format_request
from postgres import Postgres
from processes import BROKEN, KeptPort, Process, wait_until
from runbook import SECTIONS, TEXT, Host
from scripts import answer, hang, stream

KEYS = "tree['llm']['models']['m']['upstreams'][0]['keys']"
ALIVE = answer(200, chat.completion("alive"))
DEAD = answer(401, json.dumps(chat.error("Incorrect API key provided", "invalid_request_error", "invalid_api_key")))


def fingerprint(key):
    return hashlib.sha256(key.encode()).hexdigest()[:8]


class Story:
    """One host, its provider, and the keys that are good at the moment."""

    def __init__(self, folder, upstream):
        self.host = Host(folder)
        self.upstream = upstream
        upstream.reset()
        self.keys = {}  # id -> plaintext, of the model "m"
        self.canaries = []

    def new_key(self, key_id):
        self.keys[key_id] = f"sk-canary-{hashlib.sha256(f'{key_id}{len(self.canaries)}'.encode()).hexdigest()[:32]}"
        self.canaries.append(self.keys[key_id])
        self.upstream.bind(self.keys[key_id], ALIVE)
        return self.keys[key_id]

    def tree(self):
        keys = [{"id": key_id, "key": key} for key_id, key in self.keys.items()]
        upstreams = [{"id": "u", "baseURL": self.upstream.base_url("u"), "keys": keys}]
        return {"llm": {"models": {"m": {"upstreams": upstreams}}}, "tts": {"models": {}}}

    def ask(self):
        caller = (self.host.work / "caller.key").read_text().strip()
        headers = {"authorization": f"Bearer {caller}", "content-type": "application/json"}
        body = json.dumps(chat.request("m")).encode()
        return Call(self.host.port, format_request("POST", "/v1/chat/completions", headers, body)).reply()

    def assert_serves(self, key_id):
        """A request is answered, with this key."""
        before = len(self.upstream.records)
        reply = self.ask()
        assert reply.status == 200, reply
        assert [record.key for record in self.upstream.records[before:]][-1] == self.keys[key_id]


@pytest.fixture(scope="module")
def story(tmp_path_factory, upstream):
    story = Story(tmp_path_factory.mktemp("runbook"), upstream)
    yield story
    story.host.stop()


@pytest.fixture
def host(story):
    yield story.host
    for word in BROKEN:
        assert word not in story.host.logs()
    for canary in story.canaries:
        assert canary not in story.host.logs()


class UnderLoad:
    """Requests one after the other, while a section is followed; none of them fails."""

    def __init__(self, story):
        self.story = story
        self.replies = []

    def __enter__(self):
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self):
        while not self._stop.is_set():
            self.replies.append(self.story.ask())

    def __exit__(self, *_):
        wait_until(lambda: len(self.replies) > 3 or not self._thread.is_alive(), "there are some", 30)
        self._stop.set()
        self._thread.join()
        failed = [reply for reply in self.replies if reply.status != 200]
        assert len(self.replies) > 3 and not failed, f"{len(failed)} of {len(self.replies)} requests: {failed[:3]}"


def test_the_commands_have_places_that_a_test_can_replace():
    places, shell = [text for _, text in SECTIONS[""]]
    assert re.fullmatch(r"export ETC=\S+ STATE=\S+ RUN=\S+ URL=\S+\n", places)
    assert shell == 'set -a; . "$ETC/environment"; set +a\n'  # Host.shell does this in each shell
    rest = "".join(text for title, blocks in SECTIONS.items() if title for language, text in blocks if language == "sh")
    assert not re.findall(r"(?<![\w.$])/(?:etc|var|run|usr)/", rest), "a command names a place by itself"


def test_every_link_of_the_runbook_leads_to_a_section():
    anchors = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in SECTIONS if title}
    assert set(re.findall(r"\]\(#([^)]+)\)", TEXT)) == anchors


def test_first_installation(story, host):
    story.new_key("first")
    host.start_web_server()
    host.edit("tree.json", text=json.dumps(story.tree()))
    words = host.follow("First installation")
    assert '"ready"' in words and "all 1 keys" in words and '"id":"m"' in words.replace(" ", "")
    assert not (host.work / "tree.json").exists()
    for name in ("master.key", "admin.token"):
        assert (host.etc / name).stat().st_mode & 0o777 == 0o600
    story.assert_serves("first")


def test_the_first_day(story, host):
    story.upstream.bind(story.keys["first"], ALIVE, stream(*chat.GOOD_STREAM), ALIVE)
    words = host.follow("The first day", MODEL="m")
    assert re.search(r"^passed +chat-stream m +200 ", words, re.M) and ", 0 failed, " in words
    assert re.search(r"^u +[23] +0 +", words, re.M), "the attempts of the last minute"
    assert "Skipped: `no --exhausted-model was given`" in (host.work / "first-day.md").read_text()


def test_a_change_and_the_way_back(story, host):
    second = story.new_key("second")
    host.edit("tree.json", code=f"{KEYS}.insert(0, {{'id': 'second', 'key': {second!r}}})")
    host.follow("A change, and the way back", 0)
    story.assert_serves("second")
    first_version = host.shell("llm-routerctl config versions | sed -n 2p | cut -f 1").strip()
    host.follow("A change, and the way back", 1, version=first_version)
    story.assert_serves("first")
    story.upstream.bind(story.keys.pop("second"), DEAD)


def test_from_a_sidecar_in_one_step(story, host):
    before = len(story.upstream.records)
    host.follow("From a sidecar, in one step")
    assert len(story.upstream.records) == before + 1


def test_the_first_24_hours(story, host):
    story.dead = dead = story.new_key("dead")
    del story.keys["dead"]
    host.edit("tree.json", code=f"{KEYS}.insert(0, {{'id': 'dead', 'key': {dead!r}}})")
    story.upstream.bind(dead, DEAD)
    host.shell('llm-routerctl config get >tree.json; $EDITOR tree.json; llm-routerctl config put --force tree.json;'
               ' until llm-routerctl status; do sleep 0.1; done')
    story.assert_serves("first")
    words = host.follow("The first 24 hours")
    assert re.search(r"^ +\d+ done\t200$", words, re.M)
    assert re.search(rf"^ +1 u\t{fingerprint(dead)}\tauth\t401$", words, re.M)
    assert re.search(r"^airi_gen_ai_gateway_store_up 1$", words, re.M) and "\tcurrent\n" in words


@pytest.fixture
def flaky(story, host):
    """A second dead key, the first in the tree; every request meets it."""
    key = story.new_key("flaky")
    del story.keys["flaky"]
    story.upstream.bind(key, DEAD)
    host.edit("tree.json", code=f"{KEYS}.insert(0, {{'id': 'flaky', 'key': {key!r}}})")
    host.shell('llm-routerctl config get >tree.json; $EDITOR tree.json; llm-routerctl config put --force tree.json;'
               ' until llm-routerctl status; do sleep 0.1; done')
    story.assert_serves("first")
    return key


def test_alerts_about_keys(story, host, flaky):
    words = host.follow("LlmRouterFallbackRatio")
    assert f'from_key="{fingerprint(flaky)}",reason="401",scope="key"' in words
    words = host.follow("LlmRouterFallbackDepth")
    assert re.search(r"^\d\.\d\d\t\d+\tm$", words, re.M)

    # From the alert's key_id to the entry, and out of the tree.
    key_id = fingerprint(flaky)
    words = host.follow("LlmRouterSingleKey", KEY_ID=key_id)
    assert words.startswith("/llm/models/m/upstreams/0/keys/0\n"), words
    assert re.search(r"^ +1 u\tauth\t401$", words, re.M)
    before = len(story.upstream.records)
    story.assert_serves("first")
    assert flaky not in [record.key for record in story.upstream.records[before:]]
    assert story.dead in [record.key for record in story.upstream.records[before:]], "the other keys have stayed"

    story.upstream.bind(story.keys["first"], DEAD)
    assert story.ask().status == 502
    words = host.follow("LlmRouterKeysExhausted")
    story.upstream.bind(story.keys["first"], ALIVE)
    assert re.search(rf"^ +1 m\tu\t{fingerprint(story.keys['first'])}\tauth\t401$", words, re.M)


def test_alerts_about_an_instance(story, host):
    assert '"live"' in host.follow("LlmRouterNoInstance")
    assert "all 2 keys" in host.follow("LlmRouterDecryptFailures")
    assert re.search(r'^airi_gen_ai_gateway_workers\{state="idle"\} [1-9]', host.follow("LlmRouterOverflow"), re.M)
    assert "refused" not in host.follow("LlmRouterPoolFull")  # its tree has no limits
    words = host.follow("LlmRouterConfigNotSpread")
    assert "not all have it" not in words and "in force" in words
    words = host.follow("LlmRouterStoreDown")
    assert '"ready"' in words and "configkv" in words
    story.assert_serves("first")


def test_alerts_about_what_leaves_an_instance(host):
    for title in ("LlmRouterSpoolGrowth", "LlmRouterSpoolDropped", "LlmRouterSpoolLag"):
        assert re.search(r'^airi_gen_ai_gateway_spool_lag_seconds\{signal="rows"\} 0$', host.follow(title), re.M)
    assert 'failures_total{signal="traces"} 0' in host.follow("LlmRouterExportFailures")
    assert 'dropped_total{signal="traces"} 0' in host.follow("LlmRouterExportDropped")


def test_an_alert_about_a_worker_that_died(story, host):
    def find_waiting():
        workers = json.loads(host.shell('curl -sS "$URL/status"'))["workers"]
        return [worker["pid"] for worker in workers if worker["stage"] == "waiting"]

    story.upstream.bind(story.keys["first"], [hang()])
    thread = threading.Thread(target=story.ask)
    thread.start()
    [worker] = wait_until(find_waiting, "a worker waits for the upstream")
    os.kill(worker, signal.SIGKILL)
    thread.join()
    story.upstream.bind(story.keys["first"], ALIVE)
    story.assert_serves("first")
    [event] = host.follow("LlmRouterWorkerDeaths").splitlines()
    assert json.loads(event)["model"] == "m"


def test_back_to_the_sidecar(story, host):
    host.follow("Back to the sidecar", 0)
    for name in ("export.json", "clusters.json"):
        assert (host.work / name).stat().st_mode & 0o777 == 0o600
    [cluster] = json.loads((host.work / "clusters.json").read_text())
    assert cluster == {"name": "m", "model": "m", "upstream": {
        "url": story.upstream.base_url("u") + "/chat/completions",
        "headers": [{"key": "Authorization", "value": f"Bearer {story.dead}"}],
    }}
    host.follow("Back to the sidecar", 1)
    assert not (host.work / "export.json").exists() and not (host.work / "clusters.json").exists()


def test_a_revoked_provider_key(story, host):
    third = story.new_key("third")
    host.edit("tree.json", code=f"{KEYS}[:1] = [{{'id': 'third', 'key': {third!r}}}]")
    with UnderLoad(story):
        words = host.follow("A revoked provider key", REVOKED_KEY_FINGERPRINT=fingerprint(story.dead))
    assert re.search(r"^20\d\d-", words, re.M), "the time of its last use"
    before = len(story.upstream.records)
    story.assert_serves("third")
    assert story.dead not in [record.key for record in story.upstream.records[before:]]


def test_rotation_of_the_master_key(story, host):
    old = (host.etc / "master.key").read_text()
    with UnderLoad(story):
        words = host.follow("Rotation of the master key")
    assert (host.etc / "master.key").read_text() != old
    assert "keys encrypted anew: 2" in words and "all 2 keys" in words
    assert "PREVIOUS" not in (host.etc / "environment").read_text()
    story.assert_serves("third")


def test_a_lost_master_key(story, host):
    (host.etc / "master.key").unlink()
    (host.etc / "master.key.previous").unlink()
    story.assert_serves("third")  # what runs has it
    host.edit("tree.json", code=f"""
        for key in {KEYS}:
            key.pop('keyFingerprint', None)
            del key['ciphertextFingerprint']
            key['key'] = {story.keys!r}[key['id']]
    """)
    words = host.follow("A lost master key")
    assert "all 2 keys" in words
    story.assert_serves("third")


@pytest.fixture(scope="module")
def database_server():
    """A private Postgres, since this one is stopped."""
    server = Postgres()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def redis(tmp_path_factory, story):
    """A private Redis; `redis-cli` is connected to it."""
    folder = tmp_path_factory.mktemp("redis")
    kept_port = KeptPort()
    port = kept_port.number
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    process = Process(command, None, folder / "redis.log")
    cli = story.host.bin / "redis-cli"
    story.host.write_script(cli, f'#!/bin/sh\nexec {shutil.which("redis-cli")} -p {port} "$@"\n')
    wait_until(lambda: b"PONG" in subprocess.run([cli, "PING"], capture_output=True, check=False).stdout, "Redis answers")
    story.redis_port = port
    yield process
    process.stop()
    kept_port.close()


def test_first_installation_with_postgres_and_redis(story, host, database_server, redis):
    host.environment |= {
        "PGHOST": str(database_server.folder),
        "PGUSER": "postgres",
        "DATABASE_HOST": quote(str(database_server.folder), safe=""),
        "REDIS_HOST": f"127.0.0.1:{story.redis_port}",
    }
    words = host.follow("First installation with Postgres and Redis")
    assert "the database has schema" in words and "granted to llm_router" in words
    story.assert_serves("third")  # nothing was restarted yet


def test_from_the_state_directory_to_postgres(story, host):
    words = host.follow("From the state directory to Postgres")
    assert "all 2 keys" in words and "store: postgres" in words
    story.assert_serves("third")
    wait_until(lambda: '"redis":"ok"' in host.shell('curl -sS "$URL/readyz"'), "Redis is heard")


def test_redis_is_away(story, host, redis):
    os.kill(redis.pid, signal.SIGSTOP)
    try:
        with UnderLoad(story):
            host.follow("Redis is away")
    finally:
        os.kill(redis.pid, signal.SIGCONT)


def test_slots_that_seem_lost(host, redis):
    """One that is held, by nobody; one who waits; a pool that was called full."""
    soon = int(host.shell("redis-cli TIME | head -n 1")) * 1000 + 60000
    pool = 'llm:pool:model:["m","id","a b"]'
    host.shell(f"redis-cli ZADD '{pool}:leases' {soon} i/1/a; redis-cli ZADD '{pool}:queue' 7 i/2/b")
    host.shell(f"redis-cli SET '{pool}:saturated' 15000 PX 15000")
    words = host.follow("Slots that seem lost")
    (left_ms,) = re.findall(re.escape(pool) + r":leases i/1/a (\d+)$", words, re.M)
    assert 0 < int(left_ms) <= 60000
    assert f"{pool}:queue i/2/b\n" in words
    assert re.search(re.escape(pool) + r":saturated \d+$", words, re.M)
    assert re.search(r"^[0-9a-f-]{36}$", words, re.M)
    host.shell(f"redis-cli DEL '{pool}:leases' '{pool}:queue' '{pool}:saturated'")


def test_postgres_is_away(story, host, database_server):
    database_server.process.signal(signal.SIGINT)
    database_server.process.wait(30)
    try:
        with UnderLoad(story):
            words = host.follow("Postgres is away")
        assert "not all is well" in words
        wait_until(lambda: '"db":"fail"' in host.shell('curl -sS "$URL/readyz"'), "the probe says so")
    finally:
        database_server.start()
    wait_until(lambda: '"ready"' in host.shell('curl -sS "$URL/readyz"'), "it heals")
    story.assert_serves("third")


def test_the_request_log(story, host, database_server):
    def sql(text):
        return database_server.sql(text, "llm_router_prod")

    rejected = host.state / "llm-router.rejected.jsonl"
    wait_until(lambda: sql("SELECT count(*) FROM routing_decisions") != ["0"], "requests have rows", 60)
    sql("ALTER TABLE routing_decisions ADD CONSTRAINT mine CHECK (status <> 200) NOT VALID")
    story.assert_serves("third")
    wait_until(rejected.exists, "what the constraint refuses is set aside", 60)
    sql("ALTER TABLE routing_decisions DROP CONSTRAINT mine")
    n_rejected = sum(1 for line in rejected.read_text().splitlines() if line)
    before = int(sql("SELECT count(*) FROM routing_decisions")[0])
    words = host.follow("The request log")
    assert "routing_decisions_default" in words and '"mine"' in words
    story.assert_serves("third")
    wait_until(lambda: int(sql("SELECT count(*) FROM routing_decisions")[0]) == before + n_rejected + 1,
               "what was set aside has its rows", 60)
    assert not rejected.exists()
    read = 'psql -X -A -t "$(cat billing.url)" -c "SELECT count(*) > 0 FROM routing_decisions"'
    assert host.shell(read).strip() == "t"


def test_backups(story, host):
    words = host.follow("Backups")
    assert "all 2 keys" in words and re.search(r"^ CALLER_KEYS +\|", words, re.M)
    dump = (host.work / "backup.sql").read_text()
    assert "config_kv_history" in dump and "admin_audit_log" in dump
    for canary in story.canaries:
        assert canary not in dump


def test_who_may_do_what(story, host):
    token = (host.etc / "admin.token").read_text()
    words = host.follow("Who may do what")
    assert (host.etc / "admin.token").read_text() != token
    assert "llm-routerctl:" in words and "in force" in words


def test_rotation_on_postgres(story, host):
    with UnderLoad(story):
        words = host.follow("Rotation of the master key")
    assert "keys encrypted anew: 2" in words and "all 2 keys" in words
    story.assert_serves("third")


def test_every_section_with_commands_was_followed(host):
    written = {(title, i) for title, blocks in SECTIONS.items() if title
               for i, _ in enumerate(text for language, text in blocks if language == "sh")}
    assert host.followed == written

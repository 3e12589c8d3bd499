"""The request log: two instances, a row in Postgres for each of their requests, once, whatever
is killed, away or frozen; and who reads the rows. What the table holds and what is set aside
is in the unit tests."""

import contextlib
import hashlib
import json
import os
import random
import re
import secrets
import signal
import subprocess
import threading
import time
import uuid

import pytest

import chat
from gateway import Gateway
from plane import Plane
from processes import ROOT, program, wait_until
from scripts import answer

SLACK_S = 60.0  # the sink's pause after a failure is up to a minute at last, and the machine is busy
MANUAL = (ROOT / "man" / "llm-router-log.7").read_text()
EXAMPLES = [block.replace("\\e", "\\") for block in re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed", MANUAL, re.M | re.S)]


@pytest.fixture(scope="module")
def module_plane(tmp_path_factory, base_urls, upstream):
    plane = Plane([tmp_path_factory.mktemp(name) for name in ("first", "second")], base_urls, upstream)
    yield plane
    plane.stop()


@pytest.fixture
def plane(module_plane, upstream):
    upstream.reset()
    module_plane.wait_healthy()
    for key in ("k1", "k2"):
        module_plane.first.gateway.script("m", key, answer(200, chat.completion()))
    yield module_plane
    for instance in module_plane.instances:
        text = instance.gateway.router.new_log_text()
        assert "Sanitizer" not in text, text


def sql(plane, text):
    return plane.postgres.sql(text, plane.database)


def ask(plane, n=1):
    """n requests, of both instances in turn; their ids."""
    ids = []
    for i in range(n):
        gateway = plane.instances[i % 2].gateway
        call = gateway.begin("m")
        assert call.reply().status == 200
        ids.append(call.request_id)
    return ids


def rows_of(plane, ids):
    listed = ",".join(f"'{one}'" for one in ids)
    return sql(plane, f"SELECT request_id FROM routing_decisions WHERE request_id IN ({listed})")


def wait_rows(plane, ids, timeout=SLACK_S):
    """Each of them has a row, and no other than that."""
    wait_until(lambda: len(set(rows_of(plane, ids))) == len(ids), f"{len(ids)} requests have rows", timeout)
    assert sorted(rows_of(plane, ids)) == sorted(ids)
    assert sql(plane, "SELECT count(*) FROM routing_decisions WHERE sha256(line) <> line_sha256") == ["0"]


class Asking:
    """Requests one after the other meanwhile, all of which are served, and fast."""

    def __init__(self, plane):
        self._plane = plane
        self.ids, self.slowest_s = [], 0.0

    def __enter__(self):
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def _run(self):
        while not self._stop.is_set():
            begun = time.monotonic()
            self.ids += ask(self._plane, 2)
            self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
            time.sleep(0.01)

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        assert len(self.ids) > 2 and self.slowest_s < 10, f"{len(self.ids)} requests, one of {self.slowest_s} s"


def kill_shipper(plane):
    gateway = random.choice(plane.instances).gateway
    with contextlib.suppress(StopIteration, ProcessLookupError):  # none lives at the moment
        os.kill(gateway.process_of("shipper"), signal.SIGKILL)


def append(gateway, *lines):
    """Lines in the spool, as workers append them."""
    with gateway.spool.segments()[-1].open("ab") as file:
        for line in lines:
            file.write(b"\n" + line + b"\n")


def test_each_request_has_its_row_with_the_bytes_of_its_event(plane):
    gateway = plane.first.gateway
    calls = [gateway.begin("m"), gateway.begin("m", stream=True), gateway.begin("no such model"),
             gateway.begin("m", mount="/api/v1/openai")]
    plane.upstream.bind(gateway.keys.plaintext("m", "k1"), answer(200, chat.completion()))
    for call in calls:
        call.reply()
    ids = [call.request_id for call in calls]
    wait_rows(plane, ids)
    for call in calls:
        event = gateway.event(call)
        (row,) = sql(plane, "SELECT outcome, status, event_id, trace_id, attempts, provider, line_sha256, "
                     f"convert_from(line, 'UTF8') FROM routing_decisions WHERE request_id = '{call.request_id}'")
        outcome, status, event_id, trace_id, attempts, provider, digest, line = row.split("|", 7)
        assert (outcome, int(status), event_id, trace_id) == tuple(event[name] for name in ("end", "status", "id", "trace_id"))
        assert int(attempts) == len(event["attempts"])
        assert provider == (event["attempts"][-1]["provider"] if event["attempts"] else "")
        assert json.loads(line) == event
        assert line.encode() in gateway.spool.read_bytes()
        assert digest == "\\x" + hashlib.sha256(line.encode()).hexdigest()


def test_probes_have_no_row(plane):
    before = sql(plane, "SELECT max(arrival) FROM routing_decisions")
    for path in ("/livez", "/readyz", "/metrics"):
        plane.first.gateway.get(path, key=None)
    ids = ask(plane)
    wait_rows(plane, ids)
    assert sql(plane, f"SELECT request_id FROM routing_decisions WHERE arrival > {before[0] or 0}") == ids


def test_while_the_database_is_away_requests_are_served_and_their_rows_come_later(plane):
    plane.postgres.end()
    with Asking(plane) as asking:
        time.sleep(2)
    plane.postgres.start()
    wait_rows(plane, asking.ids)
    assert plane.first.gateway.metric('airi_gen_ai_gateway_export_failures_total{signal="rows"}') > 0
    said = [json.loads(line) for line in plane.first.gateway.router.log_text().splitlines() if '"export_' in line]
    assert [line["event"] for line in said if line.get("signal", "rows") == "rows"][-2:] == ["export_failed", "export_resumed"]


def test_while_the_database_is_frozen_requests_are_served_and_their_rows_come_later(plane):
    wait_rows(plane, ask(plane, 2))
    plane.postgres.freeze()
    try:
        with Asking(plane) as asking:
            time.sleep(3)
    finally:
        plane.postgres.thaw()
    wait_rows(plane, asking.ids)


def test_shippers_that_are_killed_at_any_time_leave_each_row_once(plane):
    with Asking(plane) as asking:
        for _ in range(12):
            time.sleep(random.uniform(0.05, 0.5))
            kill_shipper(plane)
    wait_rows(plane, asking.ids)
    assert sql(plane, "SELECT count(*) - count(DISTINCT event_id) FROM routing_decisions") == ["0"]


def test_an_event_that_can_be_no_row_is_set_aside_and_counted_and_holds_up_no_other(plane):
    gateway = plane.first.gateway
    dropped = 'airi_gen_ai_gateway_export_dropped_total{signal="rows"}'
    before = gateway.metric(dropped)
    poisons = [json.dumps({"v": 1, "id": "no uuid", "time": 1, "end": "done"}).encode(),
               json.dumps({"v": 1, "id": str(uuid.uuid4()), "time": 1, "status": 2**40}).encode()]
    ids = ask(plane, 2)
    append(gateway, *poisons)
    ids += ask(plane, 2)
    wait_rows(plane, ids)
    wait_until(lambda: gateway.metric(dropped) == before + len(poisons), "both are counted", SLACK_S)
    rejected = gateway.state_dir / "llm-router.rejected.jsonl"
    records = [json.loads(line) for line in rejected.read_text().splitlines() if line]
    assert [record["line"].encode() for record in records] == poisons
    assert "uuid" in records[0]["reason"] and "out of range" in records[1]["reason"]
    assert rejected.stat().st_mode & 0o777 == 0o640
    wait_until(lambda: gateway.log_lines("export_partly_refused"), "the log says so")


@pytest.fixture
def start_retaining(tmp_path_factory, base_urls, upstream, plane):
    started = []

    def start(*flags, **servers):
        folder = tmp_path_factory.mktemp("r")  # short: sockets are in it
        gateway = Gateway(folder, base_urls, upstream, workers=1, servers=plane.servers | servers,
                          peer=plane.first.gateway, flags=flags)
        started.append(gateway)
        gateway.start()
        return gateway

    yield start
    for gateway in started:
        gateway.stop()


TABLE, *COLUMNS = [path.read_text() for path in sorted((ROOT / "sql").glob("*_routing_decisions*.sql"))]
BEFORE_THE_TABLE = """
DROP TABLE routing_decisions CASCADE;
DROP SEQUENCE IF EXISTS routing_decisions_arrival;
DROP FUNCTION routing_decisions_take_turn, routing_decisions_make_months, routing_decisions_expire;
"""
BEFORE_ITS_COLUMNS = f"{BEFORE_THE_TABLE} {TABLE}"


@pytest.mark.parametrize("undo, migrations", [(BEFORE_THE_TABLE, [TABLE, *COLUMNS]), (BEFORE_ITS_COLUMNS, COLUMNS)],
                         ids=["the table", "its columns"])
def test_what_came_before_the_table_was_made_are_rows_afterwards(plane, start_retaining, undo, migrations):
    postgres, database = plane.postgres, plane.postgres.new_database()
    gateway = start_retaining(DATABASE_URL=postgres.address(database))
    postgres.sql(undo, database)
    ids = [gateway.post(chat.request("no such model"), key="nobody").request_id for _ in range(3)]
    old = {"v": 1, "id": str(uuid.uuid4()), "time": time.time_ns() // 1000, "request_id": secrets.token_hex(16)}
    append(gateway, json.dumps(old).encode())
    failures = 'airi_gen_ai_gateway_export_failures_total{signal="rows"}'
    wait_until(lambda: gateway.metric(failures) > 0, "the sink does not find it", SLACK_S)
    assert gateway.get("/readyz", key=None).status == 200
    postgres.sql("\n".join(migrations), database)
    ids.append(old["request_id"])  # of a program that knew of no traces
    wait_until(lambda: len(postgres.sql("SELECT 1 FROM routing_decisions", database)) == len(ids), "all are rows", SLACK_S)
    assert sorted(postgres.sql("SELECT request_id FROM routing_decisions", database)) == sorted(ids)
    assert not (gateway.state_dir / "llm-router.rejected.jsonl").exists()


def test_only_an_instance_that_was_told_to_drops_old_months(plane, start_retaining):
    sql(plane, """CREATE TABLE routing_decisions_2001_02 PARTITION OF routing_decisions
                      FOR VALUES FROM ('2001-02-01 00:00Z') TO ('2001-03-01 00:00Z')""")
    old = [json.dumps({"v": 1, "id": str(uuid.uuid4()), "time": time_us, "request_id": f"old-{time_us}"}).encode()
           for time_us in (982_000_000_000_000, 100_000_000_000_000, 200_000_000_000_000_000)]
    append(plane.first.gateway, *old)
    ids = ask(plane) + [json.loads(line)["request_id"] for line in old]
    wait_rows(plane, ids)

    def partitions():
        return sql(plane, "SELECT relid FROM pg_partition_tree('routing_decisions') WHERE isleaf ORDER BY 1")

    before = partitions()
    keeping = start_retaining("--log-retention", "keep")
    wait_until(lambda: "shipper" in keeping.router.roles().values(), "its shipper runs")
    time.sleep(2)
    assert partitions() == before
    start_retaining("--log-retention", "30")
    wait_until(lambda: len(rows_of(plane, ids)) == 2, "what is old is gone", SLACK_S)
    assert sorted(rows_of(plane, ids)) == sorted([ids[0], "old-200000000000000000"])
    assert partitions() == [name for name in before if name != "routing_decisions_2001_02"]


@pytest.mark.parametrize("value", ["", "0", "-1", "30d", "forever", "36501", "99999999999999999999"])
def test_a_retention_that_is_none_is_refused(value):
    done = subprocess.run([program("llm-router"), "--log-retention", value], capture_output=True, text=True, timeout=20,
                          check=False)
    assert done.returncode == 2 and "--log-retention" in done.stderr


# --- who reads the rows -------------------------------------------------------------------------

QUERIES = [block for block in EXAMPLES if block.startswith("SELECT")]
READING = next(block for block in QUERIES if "arrival > $1" in block)


def test_every_query_of_the_manual_runs(plane):
    assert len(QUERIES) == 5
    for query in QUERIES:
        sql(plane, query.replace("$1", "0").replace("'...'", "''"))


def test_a_reader_has_the_right_to_read_and_no_other(plane):
    role = f"reader_{secrets.token_hex(4)}"
    sql(plane, f"CREATE ROLE {role} LOGIN; GRANT SELECT ON routing_decisions TO {role}")
    as_role = f"SET ROLE {role}; "
    sql(plane, as_role + READING.replace("$1", "0"))
    for forbidden in ("DELETE FROM routing_decisions", "SELECT routing_decisions_expire(1)",
                      "SELECT routing_decisions_make_months()", "SELECT * FROM config_kv"):
        with pytest.raises(AssertionError, match="permission denied"):
            sql(plane, as_role + forbidden)


BILL = f"""
BEGIN;
SELECT arrival FROM billing_cursor FOR UPDATE;
CREATE TEMP TABLE batch ON COMMIT DROP AS {READING.replace("$1", "(SELECT arrival FROM billing_cursor)")
                                           .replace("LIMIT 1000", "LIMIT 40")};
INSERT INTO ledger (event_id, n) SELECT event_id, arrival FROM batch;
UPDATE billing_cursor SET arrival = (SELECT max(arrival) FROM batch) WHERE EXISTS (SELECT FROM batch);
SELECT pg_sleep(random() * 0.05);
COMMIT;
"""


def test_a_billing_job_debits_each_request_once_while_all_of_it_is_killed(plane):
    """The job has no ON CONFLICT here: one row that came twice would end it."""
    sql(plane, """CREATE TABLE billing_cursor (arrival bigint NOT NULL); INSERT INTO billing_cursor VALUES (0);
                  CREATE TABLE ledger (event_id uuid PRIMARY KEY, n bigint)""")
    stop = threading.Event()
    troubles = []

    def bill():
        while not stop.is_set():
            try:
                sql(plane, BILL)
            except AssertionError as trouble:
                if "terminating connection" not in str(trouble):
                    troubles.append(trouble)
                    return

    jobs = [threading.Thread(target=bill) for _ in range(2)]
    for job in jobs:
        job.start()
    with Asking(plane) as asking:
        for _ in range(8):
            time.sleep(random.uniform(0.05, 0.4))
            kill_shipper(plane)
            sql(plane, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%pg_sleep%' AND pid <> "
                "pg_backend_pid() LIMIT 1")
    wait_rows(plane, asking.ids)
    wait_until(lambda: troubles or sql(plane, "SELECT (SELECT count(*) FROM ledger) = (SELECT count(*) FROM "
                                       "routing_decisions)") == ["t"], "all is debited", SLACK_S)
    stop.set()
    for job in jobs:
        job.join()
    assert not troubles, troubles

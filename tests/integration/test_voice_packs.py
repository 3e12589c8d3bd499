"""Voice packs: administrators' rows, callers' list and snapshots, on each of the stores.
The scenarios of seed 002's U5 to U8 are named after it; those of U10 are in
test_voice_pack_speech.py. Without a counterpart here are those of U8 that are about a card in a client's
store, which is the binding page's matter, as U9 is."""

import json
import re
import subprocess
import threading

import pytest

from administrator import PATCH_TYPE, Admin, Deployment, assert_error, paths_of
from gateway import MOUNTS
from operator_shell import Database
from processes import program
from voice_packs import PACKS, Packs, pack
import errors


@pytest.fixture(scope="module", params=["directory", "postgres"])
def deployment(request, tmp_path_factory, base_urls, upstream):
    postgres = request.getfixturevalue("postgres") if request.param == "postgres" else None
    gateway = Deployment(tmp_path_factory.mktemp("packs"), base_urls, upstream, postgres, workers=2)
    gateway.start()
    admin = Admin(gateway)
    try:
        admin.wait_for_socket()
        yield admin
    finally:
        admin.process.stop()
        gateway.stop()


@pytest.fixture
def packs(deployment):
    """Curators and callers, without any pack."""
    packs = Packs(deployment)
    packs.remove_all()
    yield packs
    deployment.assert_unbroken()
    deployment.gateway.assert_unbroken()


# U6: the domain service


def test_u6_a_new_pack_is_shown_as_it_was_made(packs):
    wanted = pack(description="Calm.", upstreamVoice="x", params={"pitch": -5, "volume": 10.5, "rate": 1.2})
    reply = packs.admin.send("POST", PACKS, wanted)
    made = reply.json()
    assert (reply.status, reply.headers["etag"]) == (201, f'"{made.pop("version")}"')
    assert re.fullmatch("[A-Za-z0-9_-]{21}", made["id"])
    assert made == wanted | {"enabled": True} | {name: made[name] for name in ("id", "createdAt", "updatedAt")}
    assert packs.listed() == [made] and packs.version() == reply.headers["etag"]


def test_u6_a_change_leaves_other_rows_as_they_are(packs):
    first, second = packs.create(name="A"), packs.create(name="B", params={"rate": 0.8})
    reply = packs.change(second, {"params": {"rate": 1.5, "pitch": 3}, "description": "New."})
    assert reply.status == 200, reply
    changed = second | {"params": {"rate": 1.5, "pitch": 3}, "description": "New."}
    changed["updatedAt"] = packs.listed()[1]["updatedAt"]
    assert packs.listed() == [first, changed] and changed["updatedAt"] > second["updatedAt"]
    assert packs.change(second, {"description": None, "params": {"pitch": None}}).status == 200
    assert "description" not in packs.listed()[1] and packs.listed()[1]["params"] == {"rate": 1.5}


def test_u6_disabling_keeps_the_row_and_hides_it_from_callers(packs):
    kept, hidden = packs.create(), packs.create()
    reply = packs.switch(hidden, "disable")
    assert reply.status == 200 and reply.json()["enabled"] is False, reply
    assert [row["enabled"] for row in packs.listed()] == [True, False]
    packs.wait_listed(kept)
    assert packs.switch(hidden, "enable").json()["enabled"] is True
    packs.wait_listed(kept, hidden)


def test_u6_one_voice_with_other_parameters_is_another_pack(packs):
    rows = [packs.create(params=params) for params in ({}, {"pitch": 5}, {"pitch": 5, "rate": 1.1})]
    assert len({row["id"] for row in rows}) == 3 and packs.listed() == rows


# U7: the administrators' API

REFUSED = {
    "no object": ([], [""]),
    "nothing": ({}, ["/name", "/provider", "/model", "/voice", "/ttsModelId", "/tier"]),
    "a tier that is none": (pack(tier="gold"), ["/tier"]),
    "no tier": (pack(tier=...), ["/tier"]),
    "an id of one's own": (pack(id="mine"), ["/id"]),
    "times of one's own": (pack(createdAt="x", updatedAt="y"), ["/createdAt", "/updatedAt"]),
    "an unknown member": (pack(teir="pro"), ["/teir"]),
    "an empty name": (pack(name=""), ["/name"]),
    "a long name": (pack(name="x" * 201), ["/name"]),
    "a control character": (pack(name="a\nb", description="\x7f"), ["/name", "/description"]),
    "a model's name with a bar": (pack(ttsModelId="a|b"), ["/ttsModelId"]),
    "parameters that are none": (pack(params=5), ["/params"]),
    "an unknown parameter": (pack(params={"speed": 1}), ["/params/speed"]),
    "parameters out of range": (pack(params={"pitch": -50.5, "volume": 101, "rate": 0.2}),
                                ["/params/pitch", "/params/volume", "/params/rate"]),
    "parameters of other kinds": (pack(params={"pitch": "high", "volume": None, "rate": True}),
                                  ["/params/pitch", "/params/volume", "/params/rate"]),
    "enabled of another kind": (pack(enabled="yes"), ["/enabled"]),
}


@pytest.mark.parametrize("document, paths", REFUSED.values(), ids=REFUSED)
def test_u7_every_fault_of_a_new_pack_is_named_and_leaves_no_trace(packs, document, paths):
    lines = len(packs.admin.audit())
    details = assert_error(packs.admin.send("POST", PACKS, document), 400, "BAD_REQUEST")
    assert sorted(paths_of(details)) == sorted(paths)
    assert packs.listed() == [] and len(packs.admin.audit()) == lines


@pytest.mark.parametrize("patch, paths", [
    ({"tier": "gold"}, ["/tier"]),
    ({"name": None}, ["/name"]),
    ({"params": {"rate": 5}}, ["/params/rate"]),
    ({"id": "x", "updatedAt": "x"}, ["/id", "/updatedAt"]),
    ([], [""]),
])
def test_u7_every_fault_of_a_change_is_named(packs, patch, paths):
    row = packs.create()
    details = assert_error(packs.change(row, patch), 400, "BAD_REQUEST")
    assert paths_of(details) == paths and packs.listed() == [row]


def test_u7_changes_name_the_version_that_they_are_made_for(packs):
    row = packs.create()
    current = packs.version()
    asks = [
        lambda if_match: packs.change(row, {"name": "Other"}, if_match),
        lambda if_match: packs.switch(row, "disable", if_match),
        lambda if_match: packs.switch(row, "enable", if_match),
    ]
    for ask in asks:
        assert_error(ask(None), 412, "PRECONDITION_REQUIRED")
        assert assert_error(ask('"stale"'), 409, "CONFLICT") == {"currentVersion": current.strip('"')}
        assert packs.version() == current
    for ask in asks:
        reply = ask(packs.version())
        assert reply.status == 200 and reply.headers["etag"] == packs.version(), reply
    assert_error(packs.admin.send("POST", PACKS, pack(), '"stale"'), 409, "CONFLICT")
    assert packs.admin.send("POST", PACKS, pack(), packs.version()).status == 201


def test_u7_what_is_so_already_is_no_change(packs):
    row = packs.create()
    version, lines = packs.version(), len(packs.admin.audit())
    for reply in (packs.switch(row, "enable"), packs.change(row, {}), packs.change(row, {"name": row["name"], "params": {}})):
        assert reply.status == 200 and reply.json()["updatedAt"] == row["updatedAt"], reply
    assert (packs.version(), len(packs.admin.audit())) == (version, lines)


def test_u7_every_change_is_in_the_audit_log(packs):
    row = packs.create()
    packs.change(row, {"tier": "lite"})
    packs.switch(row, "disable")
    lines = packs.admin.audit(3)[::-1]
    assert [(line["actor"], line["action"], line["object"], line["key"]) for line in lines] == [
        ("token", action, f"VOICE_PACKS/{row['id']}", "VOICE_PACKS") for action in ("create", "change", "disable")
    ]
    assert {"field": "/tier", "before": "pro", "after": "lite"} in lines[1]["changes"]
    assert {"field": "/enabled", "before": True, "after": False} in lines[2]["changes"]
    assert all(before["versionAfter"] == after["versionBefore"] for before, after in zip(lines, lines[1:]))


def test_u7_changes_can_be_rehearsed(packs):
    row = packs.create()
    for method, path, body in (("POST", "", pack()), ("PATCH", f"/{row['id']}", {"name": "Other"}),
                               ("POST", f"/{row['id']}/disable", b"")):
        reply = packs.admin.send(method, f"{PACKS}{path}?dryRun=true", body, "*",
                                 PATCH_TYPE if method == "PATCH" else "application/json")
        assert reply.status == 200 and reply.json()["dryRun"] and reply.json()["changes"], reply
    assert packs.listed() == [row]


def test_u7_who_is_no_administrator_is_refused(packs):
    row = packs.create()
    for key in (None, packs.gateway.caller_key):
        for method, path in (("GET", PACKS), ("POST", PACKS), ("PATCH", f"{PACKS}/{row['id']}"),
                             ("POST", f"{PACKS}/{row['id']}/disable"), ("POST", f"{PACKS}/{row['id']}/enable")):
            body = b"" if method == "GET" else b"{}"
            assert packs.admin.ask(method, path, body, {"if-match": "*"}, key=key).status == 401
    assert packs.listed() == [row]


def test_u7_a_pack_that_is_not_there_is_not_found(packs):
    nobody = {"id": "nobody"}
    assert_error(packs.change(nobody, {"name": "x"}), 404, "NOT_FOUND")
    for action in ("enable", "disable"):
        assert_error(packs.switch(nobody, action), 404, "NOT_FOUND")
    assert packs.admin.ask("DELETE", f"{PACKS}/nobody").status == 405


def test_packs_that_somebody_broke_are_left_alone(packs):
    if packs.is_on_postgres:
        pytest.skip("the database does not let them be broken")
    packs.create()
    good = packs.gateway.store.value("VOICE_PACKS")
    packs.gateway.store.set_value("VOICE_PACKS", '{"packs":[{"id":"a"}]}')
    try:
        for reply in (packs.admin.get(PACKS), packs.admin.send("POST", PACKS, pack()), packs.switch({"id": "a"}, "enable")):
            assert_error(reply, 500, "INTERNAL_SERVER_ERROR")
    finally:
        packs.gateway.store.set_value("VOICE_PACKS", good)


# Callers


@pytest.mark.parametrize("mount", MOUNTS)
def test_callers_are_told_what_a_pack_is_worth_and_not_what_is_behind_it(packs, mount):
    plain, described = packs.create(), packs.create(description="Calm.", tier="lite")
    packs.wait_listed(plain, described)
    assert list(packs.found(mount).values()) == [
        {"id": plain["id"], "name": "Warm", "tier": "pro"},
        {"id": described["id"], "name": "Warm", "description": "Calm.", "tier": "lite"},
    ]
    event = packs.gateway.event(packs.gateway.get(f"{mount}/voice-packs"))
    assert (event["endpoint"], event["end"], event["status"]) == ("voice-packs", "done", 200)


@pytest.mark.parametrize("mount", MOUNTS)
def test_u8_a_snapshot_holds_all_that_it_takes_to_speak(packs, mount):
    row = packs.create(voice="warm", upstreamVoice="en-US-AvaNeural", params={"pitch": -5, "volume": 10.5, "rate": 1.2})
    snapshot = packs.snapshot(row, mount)
    assert re.fullmatch(r"v1\.[A-Za-z0-9_-]{43}", snapshot.pop("tag"))
    assert snapshot == {
        "packId": row["id"], "name": "Warm", "provider": "azure", "model": "any", "voiceId": "en-US-AvaNeural",
        "params": {"pitch": -5, "volume": 10.5, "rate": 1.2}, "tier": "pro", "ttsModelId": "azure",
    }
    assert packs.snapshot(packs.create())["voiceId"] == "en-US-AvaNeural"


def test_u8_a_snapshot_is_the_same_as_long_as_its_pack_is(packs):
    row = packs.create()
    before = packs.snapshot(row)
    packs.wait_listed(row, packs.create())
    assert packs.snapshot(row) == before == packs.snapshot(row, "/api/v1/openai")


@pytest.mark.parametrize("mount", MOUNTS)
def test_there_is_no_snapshot_of_what_callers_do_not_find(packs, mount):
    row = packs.create()
    packs.switch(row, "disable")
    packs.wait_listed()
    for pack_id in (row["id"], "nobody", "%2e"):
        errors.assert_error(packs.ask_snapshot(pack_id, mount), mount, 404, "NOT_FOUND" if mount != "/v1" else "not_found")


def test_methods_and_keys_are_asked_for_as_everywhere(packs):
    row = packs.create()
    path = f"/v1/voice-packs/{row['id']}/snapshot"
    assert packs.gateway.get(path).status == 405
    assert packs.gateway.call("POST", "/v1/voice-packs", b"{}").reply().status == 405
    assert packs.gateway.get("/v1/voice-packs", key=None).status == 401
    assert packs.ask_snapshot(row["id"], key=None).status == 401
    for wrong in ("/v1/voice-packs/x/y/snapshot", "/v1/voice-packs//snapshot", "/v1/voice-packs/x", "/v1/voice-packs/snapshot"):
        assert packs.gateway.get(wrong).status == 404, wrong


def test_packs_of_models_that_a_key_may_not_use_are_not_there_for_it(packs):
    row, other = packs.create("azure"), packs.create("openai")
    key = packs.gateway.ctl("caller-key", "add", "--id", f"of-{row['id']}", "--models", "azure").strip()
    packs.wait(lambda: packs.gateway.get("/v1/models", key=key).status == 200, "the key serves")
    packs.wait_listed(row, other)
    assert set(packs.found(key=key)) == {row["id"]}
    assert packs.ask_snapshot(row["id"], key=key).status == 200
    assert packs.ask_snapshot(other["id"], key=key).status == 404


# What lies behind


def test_ae4_a_snapshot_outlives_every_change_of_its_pack(packs):
    """By SQL, or an editor: a copy of values refers to nothing."""
    row = packs.create(params={"pitch": 5})
    snapshot = packs.snapshot(row)

    def edit(rows):
        rows[0] |= {"name": "Other", "params": {"pitch": 6}}

    packs.behind("""UPDATE voice_packs SET name = 'Other', params = '{"pitch": 6}'""", edit)
    packs.wait(lambda: packs.found()[row["id"]]["name"] == "Other", "the edit is in force")
    assert packs.snapshot(row)["params"] == {"pitch": 6} and packs.snapshot(row)["tag"] != snapshot["tag"]
    assert snapshot["params"] == {"pitch": 5}
    packs.behind("DELETE FROM voice_packs", list.clear)
    packs.wait_listed()
    assert packs.ask_snapshot(row["id"]).status == 404


def test_the_key_of_tags_is_made_once_and_stored_encrypted(packs):
    packs.snapshot(packs.create())
    stored = json.loads(packs.gateway.store.value("VOICE_PACK_TAG_KEY"))
    assert re.fullmatch(r"v1\.[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]{43}\.[A-Za-z0-9_-]{22}", stored.pop("ciphertext")) and not stored
    made = [line for line in packs.admin.audit() if line["key"] == "VOICE_PACK_TAG_KEY"]
    assert [(line["actor"], line["action"], line["changes"]) for line in made] == [("llm-router", "create", [])]


# U5: the table


@pytest.fixture(scope="module")
def database(postgres):
    return Database(postgres)


@pytest.fixture
def table(database):
    """A database with an empty table of packs, and SQL in it."""
    database._sql("TRUNCATE voice_packs")
    return database


COLUMNS = {
    "name": "'Warm'", "provider": "'azure'", "model": "'any'", "voice_id": "'ava'", "tts_model_id": "'speech'",
    "tier": "'pro'",
}


def insert(table, **columns):
    columns = {name: value for name, value in (COLUMNS | columns).items() if value is not ...}
    table._sql(f"INSERT INTO voice_packs ({', '.join(columns)}) VALUES ({', '.join(columns.values())})")


def entry(table):
    return json.loads(table.value("VOICE_PACKS"))["packs"]


def test_u5_a_row_has_defaults_and_is_rendered(table):
    insert(table, id="'a'")
    rows = entry(table)
    assert rows == [{
        "id": "a", "name": "Warm", "provider": "azure", "model": "any", "voice": "ava", "ttsModelId": "speech", "params": {},
        "tier": "pro", "enabled": True, "createdAt": rows[0]["createdAt"], "updatedAt": rows[0]["updatedAt"],
    }]
    insert(table, upstream_voice_id="'x'", description="'d'", enabled="false", params="""'{"pitch": -50, "rate": 1.25}'""")
    assert entry(table)[1].items() >= {"upstreamVoice": "x", "description": "d", "enabled": False,
                                       "params": {"pitch": -50, "rate": 1.25}}.items()


BAD_ROWS = {
    "a tier that is none": {"tier": "'gold'"},
    "no tier": {"tier": ...},
    "no name": {"name": ...},
    "an empty name": {"name": "''"},
    "a long name": {"name": "repeat('ä', 101)"},
    "a control character": {"name": r"E'a\nb'"},
    "a long description": {"description": "repeat('x', 2001)"},
    "a bar": {"tts_model_id": "'a|b'"},
    "an id with a slash": {"id": "'a/b'"},
    "an empty voice of the provider": {"upstream_voice_id": "''"},
    "params that are a list": {"params": "'[]'"},
    "an unknown parameter": {"params": """'{"speed": 1}'"""},
    "a parameter that is null": {"params": """'{"pitch": null}'"""},
    "a parameter that is a text": {"params": """'{"pitch": "5"}'"""},
    "a pitch too low": {"params": """'{"pitch": -50.01}'"""},
    "a volume too high": {"params": """'{"volume": 100.01}'"""},
    "a rate too high": {"params": """'{"rate": 4.01}'"""},
    "a time that never comes": {"created_at": "'infinity'"},
}


@pytest.mark.parametrize("columns", BAD_ROWS.values(), ids=BAD_ROWS)
def test_u5_the_table_takes_nothing_that_the_programs_do_not(table, columns):
    insert(table, id="'good'")
    with pytest.raises(AssertionError, match="violates"):
        insert(table, **columns)
    assert [row["id"] for row in entry(table)] == ["good"]


def as_programs(table, *arguments, given="", user="postgres"):
    """llm-routerctl on the database, as a role of it."""
    address = table.environment["DATABASE_URL"].replace("user=postgres", f"user={user}")
    done = subprocess.run([program("llm-routerctl"), *arguments], env=table.environment | {"DATABASE_URL": address}, input=given,
                          text=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_u5_what_the_table_takes_is_a_valid_entry(table):
    insert(table, name="repeat('ä', 100)", description="repeat('x', 2000)", id="repeat('a', 64)",
           params="""'{"pitch": 100, "volume": -100, "rate": 0.25}'""", created_at="'0001-01-01 00:00Z'",
           updated_at="'9999-12-30 23:59Z'")
    insert(table, id="'_-'", params="""'{"rate": 1.00000000000000000000000000000000001, "volume": 1e1}'""")
    as_programs(table, "config", "check", "--entry", "VOICE_PACKS", "-", given=table.value("VOICE_PACKS"))


def test_u5_an_edit_by_sql_is_a_version_with_its_author(table):
    insert(table, id="'a'")
    insert(table, id="'b'")
    before = entry(table)
    table._sql("UPDATE voice_packs SET tier = 'lite' WHERE id = 'a'")
    after = entry(table)
    assert after[0]["tier"] == "lite" and after[0]["updatedAt"] > before[0]["updatedAt"] and after[1] == before[1]
    assert table._sql("SELECT author FROM config_kv_history WHERE key = 'VOICE_PACKS' ORDER BY change DESC LIMIT 1") == [
        "postgres:postgres"]
    line = table.audit()[-1]
    assert (line["actor"], line["action"], line["object"]) == ("postgres:postgres", "edit", "VOICE_PACKS")
    versions = table._sql("SELECT count(*) FROM config_kv_history WHERE key = 'VOICE_PACKS'")
    table._sql("UPDATE voice_packs SET tier = 'lite' WHERE id = 'a'")
    assert table._sql("SELECT count(*) FROM config_kv_history WHERE key = 'VOICE_PACKS'") == versions
    table._sql("TRUNCATE voice_packs")
    assert entry(table) == []


def test_u5_the_table_holds_no_more_packs_than_the_programs_take(table):
    many = "INSERT INTO voice_packs (name, provider, model, voice_id, tts_model_id, tier) SELECT 'a', 'b', 'c', 'd', 'e', 'pro'"
    table._sql(f"{many} FROM generate_series(1, 1000)")
    with pytest.raises(AssertionError, match="1000 voice packs"):
        table._sql(many)
    assert len(entry(table)) == 1000


def test_u5_what_the_programs_write_is_in_the_table(packs):
    if not packs.is_on_postgres:
        pytest.skip("a state directory has no tables")
    row = packs.create(description="Calm.", params={"rate": 1.5}, upstreamVoice="x")
    packs.create()
    columns = "id, name, description, provider, voice_id, upstream_voice_id, tts_model_id, params ->> 'rate', tier, enabled"
    rows = packs.gateway.store._sql(f"SELECT {columns} FROM voice_packs ORDER BY created_at")
    assert rows[0] == f"{row['id']}|Warm|Calm.|azure|en-US-AvaNeural|x|azure|1.5|pro|t" and len(rows) == 2
    packs.gateway.store._sql(f"UPDATE voice_packs SET name = 'By SQL' WHERE id = '{row['id']}'")
    assert packs.change(row, {"tier": "lite"}).json()["name"] == "By SQL"


def test_u5_who_keeps_packs_in_sql_needs_rights_to_their_table_alone(table, postgres):
    role = f"curator_of_{table.name}"
    postgres.sql(f"CREATE ROLE {role} LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON voice_packs TO {role}", table.name)
    table._sql(f"SET SESSION AUTHORIZATION {role};"
               "INSERT INTO voice_packs (id, name, provider, model, voice_id, tts_model_id, tier)"
               " VALUES ('a', 'b', 'c', 'd', 'e', 'f', 'pro'); UPDATE voice_packs SET name = 'z'")
    assert entry(table)[0]["name"] == "z" and table.audit()[-1]["actor"] == f"postgres:{role}"
    with pytest.raises(AssertionError, match="permission denied"):
        table._sql(f"SET SESSION AUTHORIZATION {role}; SELECT * FROM config_kv")


def test_u5_the_programs_need_rights_to_the_entries_alone(table):
    role = f"programs_of_packs_{table.name}"
    table._sql(f"CREATE ROLE {role} LOGIN")
    as_programs(table, "migrate", "--grant-to", role)
    as_programs(table, "voice-pack", "add", given=json.dumps(pack()), user=role)
    as_programs(table, "config", "put", "--force", "--entry", "VOICE_PACKS", given=json.dumps({"packs": [pack(id="a")]}), user=role)
    assert table._sql("SELECT id, voice_id FROM voice_packs") == ["a|en-US-AvaNeural"]
    with pytest.raises(AssertionError, match="permission denied"):
        table._sql(f"SET SESSION AUTHORIZATION {role}; DELETE FROM voice_packs")


def test_u5_two_who_change_packs_at_once_lose_nothing(packs):
    """The API and SQL: each waits for the other, and neither for ever."""
    if not packs.is_on_postgres:
        pytest.skip("a state directory has no tables")
    sql = "INSERT INTO voice_packs (name, provider, model, voice_id, tts_model_id, tier) VALUES ('By SQL', 'b', 'c', 'd', 'e', 'pro')"
    made, failed = [], []

    def by_sql():
        for _ in range(8):
            packs.gateway.store._sql(sql)

    def by_api():
        for _ in range(8):
            reply = packs.admin.send("POST", PACKS, pack())
            (made if reply.status == 201 else failed).append(reply.json())

    threads = [threading.Thread(target=target) for target in (by_sql, by_api, by_sql, by_api)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    rows = packs.listed()
    assert not failed and {row["id"] for row in made} <= {row["id"] for row in rows} and len(rows) == 32
    assert packs.gateway.store._sql("SELECT count(*) FROM voice_packs") == ["32"]

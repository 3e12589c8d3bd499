"""llm-routerctl on a store: putting, comparing, restoring, exporting, verifying and rotating,
on each of the stores."""

import hashlib
import json
import os
import pty
import signal
import subprocess
import time

import pytest

from operator_shell import Database, Directory, Operator
from test_secrets import assert_clean

URL = "https://provider.example/v1"


@pytest.fixture(params=["directory", "postgres"])
def operator(request, tmp_path):
    if request.param == "postgres":
        store = Database(request.getfixturevalue("postgres"))
    else:
        store = Directory(tmp_path / "state")
    operator = Operator(tmp_path, store)
    yield operator
    assert_clean(operator.canaries, store.contents())
    store.remove()


def upstream(*keys, **members):
    return {"baseURL": URL, "keys": list(keys), **members}


def key(operator, name="k1"):
    return {"id": name, "key": operator.new_key()}


def document(**models):
    return {"llm": {"models": {name: {"upstreams": upstreams} for name, upstreams in models.items()}}}


def keys_of(tree, name="m", position=0):
    return tree["llm"]["models"][name]["upstreams"][position]["keys"]


# put


def test_a_put_encrypts_keys_and_prints_the_version_in_force(operator):
    first = key(operator)
    version = operator.do("config", "put", "--if-version", "none", stdin=document(m=[upstream(first)])).strip()
    [shown] = keys_of(operator.tree())
    assert shown["keyFingerprint"] == hashlib.sha256(first["key"].encode()).hexdigest()[:8]
    [line] = operator.versions()
    assert (line["version"], line["state"]) == (version, "in force")


def test_what_get_prints_can_be_edited_and_put(operator):
    operator.put(document(m=[upstream(key(operator, "a"), key(operator, "b"))]))
    tree = operator.tree()
    kept = keys_of(tree)[1]
    del keys_of(tree)[0]
    operator.put(tree)
    assert keys_of(operator.tree()) == [kept]


def test_a_put_from_a_file_is_the_same_as_one_from_stdin(operator):
    file = operator.folder / "tree.json"
    file.write_text(json.dumps(document(m=[upstream(key(operator))]), indent=2))
    version = operator.do("config", "put", "--force", file).strip()
    assert operator.versions()[0]["version"] == version
    assert operator.run("config", "put", "--force", "-", stdin="{}").returncode == 1


def test_of_two_puts_from_one_version_the_second_is_refused(operator):
    version = operator.put(document(m=[upstream(key(operator))]))
    tree = operator.tree()
    tree["defaults"] = {"fullChainTimeoutMs": 1000}
    now = operator.do("config", "put", "--if-version", version, stdin=tree).strip()
    tree["defaults"] = {"fullChainTimeoutMs": 2000}
    why = operator.refused("config", "put", "--if-version", version, stdin=tree)
    assert version in why and now in why
    assert operator.tree()["defaults"] == {"fullChainTimeoutMs": 1000}
    assert "none" in operator.refused("config", "put", "--if-version", "none", stdin=tree)


def test_puts_at_the_same_time_are_one_after_the_other_or_refused(operator):
    version = operator.put(document(m=[upstream(key(operator))]))
    tree = operator.tree()
    writers = []
    for i in range(8):
        tree["defaults"] = {"fullChainTimeoutMs": 1000 + i}
        writer = operator.start("config", "put", "--if-version", version, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        writer.stdin.write(json.dumps(tree).encode())
        writers.append(writer)
    for writer in writers:
        writer.stdin.close()
    assert sorted(writer.wait(30) for writer in writers) == [0] + [1] * 7
    for writer in writers:
        writer.stdout.close()
        writer.stderr.close()
    assert len(operator.versions()) == 2


def test_a_refused_document_changes_nothing_and_every_fault_is_named(operator):
    version = operator.put(document(m=[upstream(key(operator))]))
    broken = document(m=[upstream({"id": "k1", "ciphertextFingerprint": "00000000"}, timeoutms=1)])
    why = operator.refused("config", "put", "--force", stdin=broken)
    assert "/llm/models/m/upstreams/0/keys/0/ciphertextFingerprint" in why
    assert "/llm/models/m/upstreams/0/timeoutms" in why
    assert operator.versions()[0]["version"] == version


def test_a_put_must_say_what_it_replaces(operator):
    for args in ([], ["--force", "--if-version", "none"]):
        done = operator.run("config", "put", *args, stdin="{}")
        assert done.returncode == 2 and "either --if-version or --force" in done.stderr


def test_other_entries_are_put_and_read_as_well(operator):
    operator.do("config", "put", "--entry", "DEFAULT_CHAT_MODEL", "--force", stdin='"m"')
    assert operator.do("config", "get", "--entry", "DEFAULT_CHAT_MODEL") == '"m"\n'
    assert "expected" in operator.refused("config", "put", "--entry", "DEFAULT_CHAT_MODEL", "--force", stdin="5")


def test_a_put_of_what_is_in_force_writes_no_version(operator):
    operator.put(document(m=[upstream(key(operator))]))
    shown = operator.do("config", "get")
    version = operator.put(json.loads(shown))
    done = operator.run("config", "put", "--force", stdin=json.loads(shown))
    assert done.stdout.strip() == version and "nothing was changed" in done.stderr
    assert len(operator.versions()) == len({line["version"] for line in operator.versions()})


# diff


def test_diff_shows_what_a_put_would_change_and_changes_nothing(operator):
    version = operator.put(document(m=[upstream(key(operator), timeoutMs=1000)]))
    tree = operator.tree()
    assert operator.do("config", "diff", stdin=tree) == ""
    tree["llm"]["models"]["m"]["upstreams"][0]["timeoutMs"] = 2000
    done = operator.run("config", "diff", stdin=tree)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines() == [
        "- /llm/models/m/upstreams/0/timeoutMs: 1000",
        "+ /llm/models/m/upstreams/0/timeoutMs: 2000",
    ]
    assert [line["version"] for line in operator.versions()] == [version]


def test_diff_shows_a_new_key_by_its_fingerprint(operator):
    operator.put(document(m=[upstream(key(operator))]))
    tree = operator.tree()
    new = key(operator, "k2")
    keys_of(tree).append(new)
    done = operator.run("config", "diff", stdin=tree)
    assert done.returncode == 1
    assert hashlib.sha256(new["key"].encode()).hexdigest()[:8] in done.stdout


def test_diff_shows_callers_keys_by_the_beginning_of_their_digests(operator):
    made = operator.do("caller-key", "add", "--id", "shop").strip()
    digest = hashlib.sha256(made.encode()).hexdigest()
    callers = json.loads(operator.do("config", "get", "--entry", "CALLER_KEYS"))
    callers["keys"] = []
    done = operator.run("config", "diff", "--entry", "CALLER_KEYS", stdin=callers)
    assert done.returncode == 1 and digest[:8] in done.stdout and digest not in done.stdout
    operator.do("config", "put", "--entry", "CALLER_KEYS", "--force", stdin=callers)
    assert digest not in json.dumps(operator.store.audit())


def test_diff_has_a_status_of_its_own_for_trouble(operator):
    operator.put(document(m=[upstream(key(operator))]))
    for document_text in ("{", "[]", '{"llm":5}'):
        done = operator.run("config", "diff", stdin=document_text)
        assert done.returncode == 2 and done.stdout == "" and done.stderr != ""


# versions and restore


def test_versions_are_listed_with_their_authors_and_the_newest_first(operator):
    tree = document(m=[upstream(key(operator))])
    written = [operator.put(tree | {"defaults": {"fullChainTimeoutMs": 1000 + i}}) for i in range(3)]
    lines = operator.versions()
    assert [line["version"] for line in lines] == written[::-1]
    assert [line["state"] for line in lines] == ["in force", "-", "-"]
    assert all(line["author"].startswith("llm-routerctl:") for line in lines)
    done = operator.run("config", "versions", "--limit", "2")
    assert len(done.stdout.splitlines()) == 2 and "1 older" in done.stderr
    for limit in ("0", "x", "-1", "10001", "1x", ""):
        assert operator.run("config", "versions", "--limit", limit).returncode == 2


def test_a_version_is_shown_and_restored(operator):
    tree = document(m=[upstream(key(operator))])
    operator.put(tree | {"defaults": {"fullChainTimeoutMs": 1000}})
    old = operator.versions()[0]["version"]
    before = operator.do("config", "get")
    operator.put(operator.tree() | {"defaults": {"fullChainTimeoutMs": 2000}})
    assert operator.do("config", "get", old) == before
    operator.do("config", "restore", old)
    assert operator.do("config", "get") == before
    line = operator.store.audit()[-1]
    assert (line["action"], line["object"]) == ("restore", f"LLM_ROUTER_CONFIG/versions/{old}")


def test_a_version_that_never_was_is_not_restored(operator):
    version = operator.put(document(m=[upstream(key(operator))]))
    for unknown in ("0" * 32, "../../etc/passwd", "x"):
        assert operator.refused("config", "restore", unknown) != ""
        assert operator.refused("config", "get", unknown) != ""
    assert operator.versions()[0]["version"] == version


def test_a_restore_that_names_a_stale_version_is_refused(operator):
    old = operator.put(document(m=[upstream(key(operator))]))
    now = operator.put(document(m=[upstream(key(operator))]))
    assert now in operator.refused("config", "restore", "--if-version", old, old)
    operator.do("config", "restore", "--if-version", now, old)


def test_a_version_whose_keys_no_master_key_opens_is_not_restored(operator):
    old = operator.put(document(m=[upstream(key(operator))]))
    operator.new_master_key()
    operator.forget_previous_master_key()
    now = operator.put(document(m=[upstream(key(operator))]))
    assert "/llm/models/m/upstreams/0/keys/0/ciphertext" in operator.refused("config", "restore", old)
    assert operator.versions()[0]["version"] == now


# audit


def test_each_change_is_in_the_audit_log_with_the_unix_user_and_without_secrets(operator):
    tree = document(m=[upstream(key(operator), timeoutMs=1000)])
    operator.do("config", "put", "--force", stdin=json.dumps(tree, indent=4))
    tree = operator.tree()
    tree["llm"]["models"]["m"]["upstreams"][0]["timeoutMs"] = 2000
    operator.do("config", "put", "--force", stdin=json.dumps(tree, indent=4))
    operator.do("caller-key", "add", "--id", "shop", "--models", "m", shows_keys=True)
    operator.do("caller-key", "revoke", "shop")
    lines = operator.store.audit()
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    assert {line["actor"] for line in lines} == {f"llm-routerctl:{user}"}
    assert [(line["action"], line["object"]) for line in lines] == [
        ("put", "LLM_ROUTER_CONFIG"), ("put", "LLM_ROUTER_CONFIG"),
        ("create", "CALLER_KEYS/shop"), ("revoke", "CALLER_KEYS/shop"),
    ]
    assert lines[1]["changes"] == [
        {"field": "/llm/models/m/upstreams/0/timeoutMs", "before": 1000, "after": 2000}]
    assert lines[3]["changes"][0]["before"]["id"] == "shop"


# voice packs


PACK = {"name": "Warm", "provider": "azure", "model": "neural", "voice": "ava", "ttsModelId": "speech", "tier": "pro"}


def test_voice_packs_are_made_changed_and_hidden(operator):
    made = operator.do("voice-pack", "add", stdin=PACK | {"params": {"rate": 1.5}}).strip()
    other = operator.do("voice-pack", "add", "-", stdin=PACK).strip()
    operator.do("voice-pack", "change", made, stdin={"tier": "lite", "params": {"pitch": 5}})
    operator.do("voice-pack", "disable", other)
    rows = [line.split("\t") for line in operator.do("voice-pack", "list").splitlines()]
    assert [row[:6] for row in rows] == [
        [made, "Warm", "lite", "true", "speech", "ava"], [other, "Warm", "pro", "false", "speech", "ava"]]
    stored = json.loads(operator.do("config", "get", "--entry", "VOICE_PACKS"))["packs"]
    assert stored[0]["params"] == {"rate": 1.5, "pitch": 5}
    operator.do("voice-pack", "enable", other)
    assert "in force already" in operator.run("voice-pack", "enable", other).stderr
    assert [(line["action"], line["object"]) for line in operator.store.audit()] == [
        (action, f"VOICE_PACKS/{row}") for action, row in
        (("create", made), ("create", other), ("change", made), ("disable", other), ("enable", other))]
    assert {"field": "/tier", "before": "pro", "after": "lite"} in operator.store.audit()[2]["changes"]


def test_a_voice_pack_that_is_none_changes_nothing(operator):
    made = operator.do("voice-pack", "add", stdin=PACK).strip()
    before = operator.do("voice-pack", "list")
    assert "/tier: " in operator.refused("voice-pack", "add", stdin=PACK | {"tier": "gold"})
    assert "/id: cannot be set" in operator.refused("voice-pack", "add", stdin=PACK | {"id": "mine"})
    assert "not valid JSON" in operator.refused("voice-pack", "add", stdin="{")
    assert "/params/rate: " in operator.refused("voice-pack", "change", made, stdin={"params": {"rate": 9}})
    for command in ("change", "enable", "disable"):
        assert '"nobody"' in operator.refused("voice-pack", command, "nobody", stdin={})
    assert operator.do("voice-pack", "list") == before


# export


def test_export_writes_one_url_and_key_of_each_model(operator):
    first, second, third = key(operator, "a"), key(operator, "b"), key(operator, "c")
    operator.put(document(
        m=[upstream(first, second, overrideModel="real", headers={"x-org": "o"}), upstream(third)],
        n=[upstream(third, headerName="x-api-key", headerTemplate="{KEY}")]))
    file = operator.folder / "export.json"
    file.write_text("what was there")
    file.chmod(0o644)
    operator.do("config", "export", "--first-key", "--output", file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text()) == {
        "version": operator.versions()[0]["version"],
        "models": {
            "m": {"url": f"{URL}/chat/completions", "model": "real", "keyId": "a", "key": first["key"],
                  "headers": {"x-org": "o", "Authorization": f"Bearer {first['key']}"}},
            "n": {"url": f"{URL}/chat/completions", "model": "n", "keyId": "c", "key": third["key"],
                  "headers": {"x-api-key": third["key"]}},
        },
    }


def test_export_goes_into_a_pipe_but_not_to_a_terminal_or_an_open_file(operator):
    operator.put(document(m=[upstream(key(operator))]))
    piped = operator.do("config", "export", "--first-key", shows_keys=True)
    assert json.loads(piped)["models"]["m"]["key"] == operator.canaries[-1]

    parent, child = pty.openpty()
    process = operator.start("config", "export", "--first-key", stdout=child, stderr=subprocess.PIPE)
    os.close(child)
    _, words = process.communicate(timeout=20)
    os.close(parent)
    assert process.returncode == 1 and b"terminal" in words

    for mode, status in ((0o644, 1), (0o600, 0)):
        file = operator.folder / f"stdout-{mode:o}"
        file.touch(mode)
        file.chmod(mode)
        with file.open("w") as stdout:
            process = operator.start("config", "export", "--first-key", stdout=stdout, stderr=subprocess.DEVNULL)
            assert process.wait(20) == status
        assert (file.stat().st_size > 0) == (status == 0)


def test_export_takes_the_first_key_that_decrypts(operator):
    broken = operator.do("encrypt", "--model", "another", "--key-id", "a", stdin=operator.new_key()).strip()
    good = key(operator, "b")
    operator.put(document(m=[upstream(key(operator, "a"), good)]))
    operator.edit_stored(lambda tree: keys_of(tree)[0].update(ciphertext=broken))
    piped = operator.do("config", "export", "--first-key", shows_keys=True)
    assert json.loads(piped)["models"]["m"]["keyId"] == "b"


def test_export_without_a_usable_key_writes_nothing(operator):
    operator.put(document(m=[upstream(key(operator))], n=[upstream(key(operator))]))
    operator.new_master_key()
    operator.forget_previous_master_key()
    file = operator.folder / "export.json"
    assert '"m"' in operator.refused("config", "export", "--first-key", "--output", file)
    assert not file.exists()


def test_export_must_be_asked_for_by_its_option(operator):
    done = operator.run("config", "export")
    assert done.returncode == 2 and "--first-key is missing" in done.stderr


# verify


def test_verify_counts_the_keys_of_a_sound_tree(operator):
    tree = document(m=[upstream(key(operator, "a"), key(operator, "b")), upstream(key(operator, "a"), id="u")])
    tree["credentials"] = {"shared": {"key": operator.new_key()}}
    tree["llm"]["models"]["n"] = {"upstreams": [upstream({"id": "x", "credential": "shared"})]}
    version = operator.put(tree)
    assert operator.do("verify") == f"all 4 keys of version {version} decrypt\n"


def test_verify_names_exactly_the_keys_that_fail(operator):
    tree = document(m=[upstream(*(key(operator, name) for name in "abcd"))])
    tree["credentials"] = {name: {"key": operator.new_key()} for name in ("good", "bad")}
    tree["llm"]["models"]["n"] = {"upstreams": [upstream({"id": "x", "credential": "good"})]}
    operator.put(tree)

    def swap(stored):
        keys = keys_of(stored)
        keys[1]["ciphertext"], keys[2]["ciphertext"] = keys[2]["ciphertext"], keys[1]["ciphertext"]
        stored["credentials"]["bad"]["ciphertext"] = keys[0]["ciphertext"]

    operator.edit_stored(swap)
    lines = operator.refused("verify").splitlines()
    assert sorted(line.split(" ")[0] for line in lines[:-1]) == ["credential|bad", "m|b", "m|c"]
    assert "(/llm/models/m/upstreams/0/keys/1): " in " ".join(lines)
    assert "3 of 6 keys" in lines[-1]


def test_verify_with_another_master_key_names_every_key(operator):
    operator.put(document(m=[upstream(key(operator, "a"), key(operator, "b"))]))
    operator.new_master_key()
    operator.forget_previous_master_key()
    assert [line.split(" ")[0] for line in operator.refused("verify").splitlines()[:-1]] == ["m|a", "m|b"]


def test_verify_needs_a_tree_and_a_master_key(operator):
    assert "LLM_ROUTER_CONFIG" in operator.refused("verify")
    operator.put(document(m=[upstream(key(operator))]))
    assert "LLM_ROUTER_MASTER_KEY" in operator.refused("verify", LLM_ROUTER_MASTER_KEY_FILE="")


# rotate


def test_rotation_moves_every_key_and_says_what_to_do_next(operator):
    tree = document(m=[upstream(key(operator, "a"), key(operator, "b"))], n=[upstream(key(operator))])
    operator.put(tree)
    before = keys_of(operator.tree())
    operator.new_master_key()
    assert "3 of them with the previous master key only" in operator.do("verify")
    words = operator.do("rotate")
    assert "keys encrypted anew: 3; open with the current master key already: 0" in words
    assert "LLM_ROUTER_MASTER_KEY_PREVIOUS" in words
    operator.forget_previous_master_key()
    assert "all 3 keys" in operator.do("verify")
    after = keys_of(operator.tree())
    for old, new in zip(before, after):
        assert old["keyFingerprint"] == new["keyFingerprint"]
        assert old["ciphertextFingerprint"] != new["ciphertextFingerprint"]
    assert operator.store.audit()[-1]["action"] == "rotate"


def test_a_rotation_again_changes_nothing(operator):
    operator.put(document(m=[upstream(key(operator))]))
    operator.new_master_key()
    operator.do("rotate")
    version = operator.versions()[0]["version"]
    assert "keys encrypted anew: 0;" in operator.do("rotate")
    assert operator.versions()[0]["version"] == version


def test_a_dry_rotation_counts_and_changes_nothing(operator):
    version = operator.put(document(m=[upstream(key(operator, "a"), key(operator, "b"))]))
    operator.new_master_key()
    keys = keys_of(operator.tree())
    keys[1] = key(operator, "b")
    version = operator.put(document(m=[upstream(*keys)]))
    assert operator.do("rotate", "--dry-run") == (
        "keys that would be encrypted anew: 1; open with the current master key already: 1\n")
    assert operator.versions()[0]["version"] == version


def test_a_rotation_wants_two_different_master_keys(operator):
    operator.put(document(m=[upstream(key(operator))]))
    assert "no previous master key" in operator.refused("rotate")
    same = {"LLM_ROUTER_MASTER_KEY_PREVIOUS_FILE": str(operator.master_key)}
    assert "equals the current one" in operator.refused("rotate", **same)


def test_a_key_that_neither_master_key_opens_does_not_hold_the_others_up(operator):
    operator.put(document(m=[upstream(key(operator, "a"), key(operator, "b"))]))
    foreign = operator.do("encrypt", "--model", "m", "--key-id", "x", stdin=operator.new_key()).strip()
    operator.edit_stored(lambda tree: keys_of(tree)[1].update(ciphertext=foreign))
    operator.new_master_key()
    done = operator.run("rotate", "--dry-run")
    assert done.returncode == 1 and "anew: 1;" in done.stdout and "neither master key opens: 1" in done.stderr
    assert "/llm/models/m/upstreams/0/keys/1" in done.stderr
    done = operator.run("rotate")
    assert done.returncode == 1 and "keys encrypted anew: 1;" in done.stdout
    assert "/llm/models/m/upstreams/0/keys/1" in done.stderr and "m|b" in done.stderr
    operator.forget_previous_master_key()
    assert "1 of 2 keys" in operator.run("verify").stderr


def test_a_rotation_that_is_killed_anywhere_leaves_a_tree_that_decrypts_and_can_be_resumed(operator):
    operator.put(document(m=[upstream(*(key(operator, f"k{i}") for i in range(50)))]))
    operator.new_master_key()
    kills = 0
    begun = time.monotonic()
    operator.do("rotate", "--dry-run")
    whole = time.monotonic() - begun
    for step in range(30):
        process = operator.start("rotate", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(whole * 1.5 * step / 30)
        process.send_signal(signal.SIGKILL)
        kills += process.wait(20) == -signal.SIGKILL
        assert "all 50 keys" in operator.do("verify")
        lines = operator.versions()
        assert [line["state"] for line in lines].count("in force") == 1
    assert kills > 5, "it was never killed in time"
    assert "open with the current master key" in operator.do("rotate")
    operator.forget_previous_master_key()
    assert operator.do("verify").startswith("all 50 keys")


# what holds for all of them


@pytest.mark.parametrize("database", [
    "postgresql://user:db-canary@127.0.0.1:9/none", "postgresql://user:db-canary@[::1/none", "db-canary", "host=db-canary x",
    "mysql://user:db-canary@host/none"])
@pytest.mark.parametrize("redis", ["redis://:redis-canary@127.0.0.1:9", "redis://redis-canary@", "redis-canary"])
def test_an_address_that_cannot_be_used_is_refused_without_its_password(tmp_path, database, redis):
    operator = Operator(tmp_path, Directory(tmp_path / "state"))
    for args in (["config", "get"], ["verify"], ["config", "versions"], ["caller-key", "list"]):
        why = operator.refused(*args, DATABASE_URL=database, REDIS_URL=redis)
        assert "db-canary" not in why and "redis-canary" not in why and why != ""


def test_one_address_without_the_other_is_refused(tmp_path):
    operator = Operator(tmp_path, Directory(tmp_path / "state"))
    for name in ("DATABASE_URL", "REDIS_URL"):
        assert f"{name} is set without" in operator.refused("config", "versions", **{name: "redis://h"})


def test_a_state_directory_that_is_named_stands_over_the_environment(tmp_path):
    operator = Operator(tmp_path, Directory(tmp_path / "state"))
    version = operator.put(document(m=[upstream(key(operator))]))
    away = {"DATABASE_URL": "postgresql://u@127.0.0.1:9/none", "REDIS_URL": "unix:/nonexistent"}
    shown = operator.do("config", "versions", "--state-dir", tmp_path / "state", **away)
    assert shown.startswith(version)



def test_a_closed_pipe_and_a_full_disk_are_failures(operator):
    operator.put(document(m=[upstream(key(operator))]))
    for args in (["config", "get"], ["config", "versions"], ["verify"], ["config", "schema"], ["--help"],
                 ["config", "put", "--help"], ["--version"]):
        with open("/dev/full", "w") as full:
            process = operator.start(*args, stdout=full, stderr=subprocess.PIPE)
            _, words = process.communicate(timeout=20)
        assert process.returncode == 1 and b"cannot write to stdout" in words, args
        reader, writer = os.pipe()
        os.close(reader)
        process = operator.start(*args, stdout=writer, stderr=subprocess.PIPE)
        os.close(writer)
        _, words = process.communicate(timeout=20)
        assert process.returncode == 1 and b"cannot write to stdout" in words, args


def test_a_caller_key_that_could_not_be_shown_is_named(operator):
    with open("/dev/full", "w") as full:
        process = operator.start("caller-key", "add", "--id", "shop", stdout=full, stderr=subprocess.PIPE)
        _, words = process.communicate(timeout=20)
    assert process.returncode == 1 and b'"shop" was stored and not shown: revoke it' in words
    assert operator.do("caller-key", "list").startswith("shop\t")


def test_the_memory_of_a_command_is_closed_and_its_environment_holds_no_key(operator):
    key_text = operator.master_key.read_text().strip()
    process = operator.start_with_key_in_environment("encrypt", "--credential", "c", stdin=subprocess.PIPE,
                                                     stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 10

        def core_limit():  # the hard one
            lines = open(f"/proc/{process.pid}/limits").read().splitlines()
            return next(line for line in lines if line.startswith("Max core file size")).split()[5]

        while core_limit() != "0":
            assert time.monotonic() < deadline, "it would leave a core file"
            time.sleep(0.01)
        assert os.stat(f"/proc/{process.pid}/mem").st_uid == 0
        if os.geteuid() == 0:
            while key_text in open(f"/proc/{process.pid}/environ", errors="replace").read():
                assert time.monotonic() < deadline, "the master key stays in the environment"
                time.sleep(0.01)
    finally:
        process.stdin.close()
        process.wait(20)

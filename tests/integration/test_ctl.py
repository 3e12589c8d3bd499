"""llm-routerctl, as an operator uses it."""

import base64
import hashlib
import json
import os
import pty
import re
import subprocess
from pathlib import Path

import jsonschema
import pytest

ROOT = Path(__file__).resolve().parents[2]
CTL = os.environ.get("LLM_ROUTERCTL", str(ROOT / "build" / "llm-routerctl"))
MASTER = base64.b64encode(bytes(range(32))).decode()
SEALED = "v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw"  # gpt|k1


def environment(**more):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LLM_ROUTER")}
    return {**kept, **more}


def ctl(*args, stdin="", **env):
    return subprocess.run([CTL, *args], input=stdin, env=environment(**env), text=True, capture_output=True, timeout=20)


def tree(key):
    return {"llm": {"models": {"gpt": {"upstreams": [{"baseURL": "https://h/v1", "keys": [key]}]}}}}


def test_keygen_prints_32_new_bytes_in_base64():
    first, second = ctl("keygen"), ctl("keygen")
    assert first.returncode == 0
    assert len(base64.b64decode(first.stdout, validate=False)) == 32
    assert first.stdout != second.stdout


def test_encrypt_seals_for_one_place_what_config_get_fingerprints(tmp_path):
    sealed = ctl("encrypt", "--model", "gpt", "--key-id", "k1", stdin="sk-live-1\n", LLM_ROUTER_MASTER_KEY=MASTER)
    assert sealed.returncode == 0 and sealed.stdout.startswith("v1.")
    assert "sk-live" not in sealed.stdout
    configkv = tmp_path / "configkv"
    configkv.mkdir()
    (configkv / "LLM_ROUTER_CONFIG.json").write_text(json.dumps(tree({"id": "k1", "ciphertext": sealed.stdout.strip()})))

    def shown(**env):
        got = ctl("config", "get", "--state-dir", str(tmp_path), **env)
        assert got.returncode == 0, got.stderr
        return json.loads(got.stdout)["llm"]["models"]["gpt"]["upstreams"][0]["keys"][0]

    fingerprints = {"id": "k1", "ciphertextFingerprint": hashlib.sha256(sealed.stdout.strip().encode()).hexdigest()[:8]}
    assert shown() == fingerprints
    key_fingerprint = hashlib.sha256(b"sk-live-1").hexdigest()[:8]
    assert shown(LLM_ROUTER_MASTER_KEY=MASTER) == {**fingerprints, "keyFingerprint": key_fingerprint}


def test_encrypt_reads_the_master_key_from_a_file(tmp_path):
    (tmp_path / "key").write_text(MASTER + "\n")
    done = ctl("encrypt", "--credential", "or", stdin="sk", LLM_ROUTER_MASTER_KEY_FILE=str(tmp_path / "key"))
    assert done.returncode == 0 and done.stdout.startswith("v1.")


@pytest.mark.parametrize(
    "args, stdin, master, status, message",
    [
        ([], "sk", MASTER, 2, "either --model and --key-id, or --credential"),
        (["--model", "m"], "sk", MASTER, 2, "either --model and --key-id, or --credential"),
        (["--model", "m", "--key-id", "k", "--credential", "c"], "sk", MASTER, 2, "either --model"),
        (["--model", "a|b", "--key-id", "k"], "sk", MASTER, 2, "a|b"),
        (["--credential", "c"], "", MASTER, 1, "empty"),
        (["--credential", "c"], "\n", MASTER, 1, "empty"),
        (["--credential", "c"], "sk-live\n\n", MASTER, 1, "control"),
        (["--credential", "c"], "x" * 8193, MASTER, 1, "8192"),
        (["--credential", "c"], "sk-live", "c2hvcnQ=", 1, "5 bytes"),
        (["--credential", "c"], "sk-live", "", 1, "neither LLM_ROUTER_MASTER_KEY nor"),
    ],
)
def test_encrypt_says_what_it_refuses(args, stdin, master, status, message):
    done = ctl("encrypt", *args, stdin=stdin, LLM_ROUTER_MASTER_KEY=master)
    assert done.returncode == status and done.stdout == ""
    assert message in done.stderr
    assert "sk-live" not in done.stderr


def test_encrypt_does_not_show_what_is_typed_at_a_terminal():
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [CTL, "encrypt", "--credential", "c"], stdin=child, stdout=subprocess.PIPE, stderr=child,
        env=environment(LLM_ROUTER_MASTER_KEY=MASTER))
    os.close(child)
    seen = b""
    while b"not shown" not in seen:
        seen += os.read(parent, 1000)
    os.write(parent, b"sk-typed\n")
    out, _ = process.communicate(timeout=20)
    try:
        seen += os.read(parent, 1000)
    except OSError:
        pass  # Linux reports a terminal without a slave as an error
    os.close(parent)
    assert process.returncode == 0 and out.startswith(b"v1.")
    assert b"sk-typed" not in seen


def test_config_check_accepts_a_valid_document_silently(tmp_path):
    document = json.dumps(tree({"id": "k1", "ciphertext": SEALED}))
    (tmp_path / "c.json").write_text(document)
    for done in (ctl("config", "check", stdin=document), ctl("config", "check", "-", stdin=document),
                 ctl("config", "check", str(tmp_path / "c.json"))):
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_config_check_prints_every_fault_with_its_place():
    document = tree({"id": "k1", "ciphertext": "x"})
    document["llm"]["models"]["gpt"]["upstreams"][0]["timeoutms"] = 5
    document["defaults"] = {"fullChainTimeoutMs": 0}
    done = ctl("config", "check", stdin=json.dumps(document))
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "/llm/models/gpt/upstreams/0/keys/0/ciphertext",
        "/llm/models/gpt/upstreams/0/timeoutms",
        "/defaults/fullChainTimeoutMs",
    ]
    assert '"timeoutMs"' in lines[1]


def test_config_check_takes_other_entries():
    assert ctl("config", "check", "--entry", "DEFAULT_CHAT_MODEL", stdin='"gpt"').returncode == 0
    assert ctl("config", "check", "--entry", "CALLER_KEYS", stdin='{"keys":1}').returncode == 1
    done = ctl("config", "check", "--entry", "CALLERS", stdin="{}")
    assert done.returncode == 2 and "CALLER_KEYS" in done.stderr


def test_config_check_of_a_missing_file_is_refused():
    done = ctl("config", "check", "/nonexistent/file")
    assert done.returncode == 1 and "/nonexistent/file" in done.stderr


@pytest.mark.parametrize("entry", ["LLM_ROUTER_CONFIG", "DEFAULT_CHAT_MODEL", "CALLER_KEYS", "VOICE_PACKS", "VOICE_PACK_TAG_KEY"])
def test_config_schema_is_json_schema_with_valid_patterns(entry):
    done = ctl("config", "schema", "--entry", entry)
    assert done.returncode == 0
    schema = json.loads(done.stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema" and schema["title"] == entry

    def patterns(node):
        if isinstance(node, dict):
            if isinstance(node.get("pattern"), str):
                yield node["pattern"]
            for value in node.values():
                yield from patterns(value)
        elif isinstance(node, list):
            for value in node:
                yield from patterns(value)

    for pattern in patterns(schema):
        re.compile(pattern)


SPEAKERS = [  # provider, what else its upstream has, its adapterParams, the member at fault if there is one
    ("openai", {}, {"model": "tts-1", "defaultVoice": "alloy"}, None),
    ("openai", {}, {"style": "calm"}, "style"),
    ("azure", {"region": "eastus"}, {"style": "calm", "styleDegree": 0.01, "role": "Girl", "disableSsml": False}, None),
    ("azure", {"region": "eastus"}, {"styleDegree": 2.01}, "styleDegree"),
    ("azure", {"region": "eastus"}, {"role": "Man"}, "role"),
    ("azure", {"region": "eastus"}, {"style": "two words"}, "style"),
    ("azure", {"region": "eastus"}, {"pitch": "+2st\x07"}, "pitch"),
    ("azure", {"region": "eastus"}, {"disableSsml": "yes"}, "disableSsml"),
    ("azure", {"region": "eastus"}, {"outputFormat": "mp3"}, "outputFormat"),
    ("dashscope-cosyvoice", {}, {"model": "cosyvoice-v3-flash", "volume": 100, "language_hints": ["en"]}, None),
    ("dashscope-cosyvoice", {}, {"model": "cosyvoice-v3-flash", "volume": 101}, "volume"),
    ("dashscope-cosyvoice", {}, {"model": "cosyvoice-v3-flash", "volume": 1.5}, "volume"),
    ("dashscope-cosyvoice", {}, {"model": "cosyvoice-v3-flash", "language_hints": "en"}, "language_hints"),
    ("volcengine", {}, {"appid": "1", "api": "v1"}, None),
    ("volcengine", {}, {"appid": "1", "api": "v2"}, "api"),
    ("volcengine", {}, {"appid": ""}, "appid"),
    ("volcengine", {}, {"api": "v3", "pitch": -13}, "pitch"),
    ("elevenlabs", {}, {"seed": 4294967295, "stability": 0.5}, None),
    ("elevenlabs", {}, {"seed": 4294967296}, "seed"),
]


@pytest.mark.parametrize("provider, members, params, fault", SPEAKERS)
def test_config_schema_and_config_check_say_the_same_of_parameters(provider, members, params, fault):
    upstream = {"keys": [{"id": "k1", "ciphertext": SEALED}], "adapterParams": params} | members
    tree = {"llm": {"models": {}}, "tts": {"models": {"m": {"provider": provider, "upstreams": [upstream]}}}}
    validator = jsonschema.Draft202012Validator(json.loads(ctl("config", "schema").stdout))
    validator.check_schema(validator.schema)
    errors = [(error.json_path, error.message) for error in validator.iter_errors(tree)]
    done = ctl("config", "check", stdin=json.dumps(tree))
    if fault is None:
        assert (errors, done.stderr) == ([], "")
        return
    assert len(errors) == 1 and fault in "".join(errors[0])
    assert f"/tts/models/m/upstreams/0/adapterParams/{fault}: " in done.stderr


def test_config_get_without_a_document_is_refused(tmp_path):
    done = ctl("config", "get", "--state-dir", str(tmp_path))
    assert done.returncode == 1 and "LLM_ROUTER_CONFIG has no value" in done.stderr


@pytest.mark.parametrize(
    "name, what, command",
    [("llm-router-config.5", "fields", ["config", "manual"]), ("llm-router-metrics.7", "metrics", ["metrics", "manual"])],
)
def test_the_manual_page_has_the_programs_table(name, what, command):
    words = f"llm-routerctl {' '.join(command)}"
    page = (ROOT / "man" / name).read_text()
    table = page.split(f'.\\" {what}: begin ({words})\n')[1].split(f'.\\" {what}: end\n')[0]
    assert table == ctl(*command).stdout, f"replace that part by what `{words}` prints"


def entry(state):
    return json.loads((state / "configkv" / "CALLER_KEYS.json").read_text())["keys"]


def test_a_caller_key_is_printed_once_and_stored_as_its_digest(tmp_path):
    done = ctl("caller-key", "add", "--id", "alice", "--owner", "Alice", "--models", "gpt,glm",
               LLM_ROUTER_STATE_DIR=str(tmp_path))
    assert done.returncode == 0
    assert re.fullmatch(r"lr-[A-Za-z0-9_-]{43}\n", done.stdout)
    [key] = entry(tmp_path)
    assert key["sha256"] == hashlib.sha256(done.stdout.strip().encode()).hexdigest()
    assert (key["id"], key["owner"], key["models"]) == ("alice", "Alice", ["gpt", "glm"])
    assert key["createdAt"].endswith("Z")
    for file in (tmp_path / "configkv").rglob("*"):
        assert file.is_dir() or done.stdout.strip() not in file.read_text()


def test_caller_keys_are_listed_and_revoked(tmp_path):
    state = ["--state-dir", str(tmp_path)]
    assert ctl("caller-key", "add", "--id", "a", *state).returncode == 0
    assert ctl("caller-key", "add", "--id", "b", "--models", "m", *state).returncode == 0
    lines = ctl("caller-key", "list", *state).stdout.splitlines()
    assert [line.split("\t")[:3] for line in lines] == [["a", "-", "*"], ["b", "-", "m"]]
    assert ctl("caller-key", "revoke", "a", *state).returncode == 0
    assert [key["id"] for key in entry(tmp_path)] == ["b"]
    done = ctl("caller-key", "revoke", "a", *state)
    assert done.returncode == 1 and '"a"' in done.stderr


@pytest.mark.parametrize("args", [["--id", "a"], ["--id", "x|y"], ["--id", ""], ["--id", "b", "--models", "a,,b"]])
def test_a_caller_key_that_is_not_valid_changes_nothing(tmp_path, args):
    state = ["--state-dir", str(tmp_path)]
    assert ctl("caller-key", "add", "--id", "a", *state).returncode == 0
    before = entry(tmp_path)
    done = ctl("caller-key", "add", *args, *state)
    assert done.returncode == 1 and done.stdout == "" and done.stderr != ""
    assert entry(tmp_path) == before


def test_concurrent_additions_are_all_kept(tmp_path):
    processes = [subprocess.Popen([CTL, "caller-key", "add", "--id", f"k{i}", "--state-dir", str(tmp_path)],
                                  stdout=subprocess.DEVNULL) for i in range(6)]
    assert [process.wait(timeout=30) for process in processes] == [0] * 6
    assert sorted(key["id"] for key in entry(tmp_path)) == [f"k{i}" for i in range(6)]


def test_a_broken_entry_is_not_overwritten(tmp_path):
    (tmp_path / "configkv").mkdir()
    broken = tmp_path / "configkv" / "CALLER_KEYS.json"
    broken.write_text('{"keys":[{"id":1}]}')
    done = ctl("caller-key", "add", "--id", "a", "--state-dir", str(tmp_path))
    assert done.returncode == 1 and "/keys/0/id" in done.stderr
    assert broken.read_text() == '{"keys":[{"id":1}]}'


@pytest.mark.parametrize(
    "args, message",
    [
        ([], "the command is missing"),
        (["frob"], "no such command: frob"),
        (["confg", "get"], 'no such command: confg get (the nearest is "config get")'),
        (["rotate", "--dryrun"], "no such option: --dryrun (the nearest is --dry-run)"),
        (["rotate", "--ID=x"], "no such option: --ID=x"),
        (["config"], "no such command: config"),
        (["config", "frob"], "no such command: config frob"),
        (["keygen", "--frob"], "no such option: --frob"),
        (["keygen", "--model", "m"], "--model is not an option of this command"),
        (["keygen", "x"], "unexpected argument: x"),
        (["encrypt", "--model"], "--model needs a value"),
        (["caller-key", "add"], "--id is missing"),
        (["caller-key", "add", "--id", "a", "--id", "b"], "--id is given twice"),
        (["caller-key", "revoke"], "ID is missing"),
        (["config", "check", "a", "b"], "unexpected argument: b"),
    ],
)
def test_wrong_usage_is_named(args, message):
    done = ctl(*args)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def documented_commands():
    """Those of the manual page, in its order."""
    return re.findall(r"^\.It Cm ([a-z][a-z -]*)$", (ROOT / "man" / "llm-routerctl.8").read_text(), re.M)


def test_the_synopsis_has_every_command_and_option():
    page = (ROOT / "man" / "llm-routerctl.8").read_text()
    synopsis = page.split(".Sh SYNOPSIS\n")[1].split(".Sh ")[0]
    for command in documented_commands():
        forms = re.findall(rf"^\.Cm {command}\n((?:(?!\.Nm).*\n)*)", synopsis, re.M)
        named = set(re.findall(r"Fl -([a-z-]+)", "".join(forms)))
        offered = set(re.findall(r"^  --([a-z-]+)", ctl(*command.split(), "--help").stdout, re.M))
        assert named == offered - {"help"}, command


def test_help_lists_every_command_and_each_has_its_own():
    done = ctl("--help")
    commands = re.findall(r"^  ([a-z][a-z-]*(?: [a-z]+)?)  ", done.stdout, re.M)
    assert done.returncode == 0 and commands == documented_commands()
    for command in commands:
        own = ctl(*command.split(), "--help")
        assert own.returncode == 0 and f"llm-routerctl {command}" in own.stdout


def test_version_is_printed():
    assert re.fullmatch(r"llm-routerctl \d+\.\d+\.\d+\n", ctl("--version").stdout)

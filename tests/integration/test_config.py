"""The tree: default model, changes while serving, and values that are refused."""

import hashlib
import json
import shutil
import time

import pytest

import chat
from errors import assert_error
from gateway import MOUNTS
from processes import wait_until
from scripts import answer, data, end, head, pause
from tree import Tree, hostile, model

TREE = Tree(model("m", hostile("a", "k1")), model("other", hostile("a", "k1")), default="other")

at_each_mount = pytest.mark.parametrize("mount", MOUNTS)


@pytest.fixture
def changing(gateway):
    """The gateway, for a test that changes the tree: the module's is put back."""
    yield gateway
    gateway.use(TREE)


no_model = pytest.mark.parametrize("body", [{}, {"model": ""}, {"model": None}, {"model": "auto"}], ids=str)


@at_each_mount
@no_model
def test_a_request_without_a_model_goes_to_the_default_one(gateway, mount, body):
    gateway.script("other", "k1", answer(200, chat.completion()))
    reply = gateway.post(body | {"messages": []}, mount)
    assert reply.status == 200
    assert gateway.event(reply)["model_routed"] == "other"


@at_each_mount
@no_model
def test_without_a_default_model_the_configuration_is_missing(changing, mount, body):
    changing.use(Tree(*TREE.models, default=None))
    reply = changing.post(body | {"messages": []}, mount)
    assert_error(reply, mount, 503, "CONFIG_NOT_SET")


@at_each_mount
def test_a_default_model_that_the_tree_lacks_is_as_good_as_none(changing, mount):
    changing.use(Tree(*TREE.models, default="gone"))
    reply = changing.post({"messages": []}, mount)
    assert_error(reply, mount, 503, "CONFIG_NOT_SET")


def test_the_status_tells_what_is_in_force_and_that_every_worker_serves_it(changing):
    changing.settle()
    changing.use(Tree(*TREE.models, model("seen", hostile("a", "k1")), default="other"), by_signal=False)
    stored = (changing.state_dir / "configkv" / "LLM_ROUTER_CONFIG.json").read_bytes()
    status = changing.status()
    assert status["version"] == hashlib.sha256(stored).hexdigest()[:32]
    assert status["source"] in ("file", "ttl") and status["reloads"]["file"] > 0
    assert status["checks"] == changing.checks() == {"store": "ok", "workers": "ok"}

    def has_every_worker_switched():
        now = changing.status()
        return {worker["generation"] for worker in now["workers"]} == {now["generation"]}

    wait_until(has_every_worker_switched, "idle workers take it up, too")


def test_a_changed_tree_is_served_within_five_seconds_without_a_signal(changing):
    """By the keeper's poll."""
    start = time.monotonic()
    changing.use(Tree(*TREE.models, model("fresh", hostile("a", "k1")), default="other"), by_signal=False)
    assert time.monotonic() - start < 5
    assert "fresh" in changing.model_names()


def test_a_change_is_in_force_at_once_without_a_signal(changing):
    """The keeper hears of it: five in a row, so that no look of its own can have come first each time."""
    sources = []
    for _ in range(5):
        document, marker = changing.render(Tree(*TREE.models, default="other"))
        changing.write_entry("LLM_ROUTER_CONFIG", document)
        wait_until(lambda: marker in changing.model_names(), f"{marker} is in force")
        sources.append(changing.status()["source"])
    assert "file" in sources, f"the changes were found, and not heard of: {sources}"


def test_a_store_that_is_replaced_is_served_at_once(changing):
    store = changing.state_dir / "configkv"
    sources = []
    for n in range(3):
        fresh = changing.state_dir / f"fresh-{n}"
        shutil.copytree(store, fresh)
        document, marker = changing.render(Tree(*TREE.models, default="other"))
        (fresh / "LLM_ROUTER_CONFIG.json").write_text(document)
        store.rename(changing.state_dir / f"old-{n}")
        fresh.rename(store)
        wait_until(lambda: marker in changing.model_names(), f"{marker} is in force")
        sources.append(changing.status()["source"])
    assert "file" in sources, f"the replacements were found, and not heard of: {sources}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        "\xff",
        '{"llm":{"models":{"m":{"upstreams":[]}}}}',
        '{"llm":{"models":{"bad|name":{"upstreams":[]}}}}',
        '{"llm":{"models":{}},"surprise":1}',
    ],
)
def test_an_invalid_tree_leaves_the_last_good_one_in_force(changing, text):
    names = changing.model_names()
    changing.assert_unbroken()
    changing.write_entry("LLM_ROUTER_CONFIG", text)
    changing.reload()
    wait_until(lambda: "configuration_refused" in changing.router.new_log_text(), "the refusal is logged")
    changing.script("m", "k1", answer(200, chat.completion()))
    assert changing.chat("m").status == 200
    assert changing.model_names() == names
    assert changing.get("/livez", key=None).status == 200


def refusals(gateway):
    text = gateway.get("/metrics", key=None).body.decode()
    return next(line for line in text.splitlines() if line.startswith("airi_gen_ai_gateway_config_refusals_total "))


def test_a_value_that_cannot_be_read_is_reported_once_and_is_no_refusal(changing):
    value = changing.state_dir / "configkv" / "LLM_ROUTER_CONFIG.json"
    before = refusals(changing)
    changing.assert_unbroken()  # takes the log so far
    value.rename(value.with_suffix(".aside"))
    value.mkdir()
    try:
        time.sleep(3.5)  # three looks
        assert refusals(changing) == before
        assert changing.get("/readyz", key=None).status == 503
    finally:
        value.rmdir()
        value.with_suffix(".aside").rename(value)
    wait_until(lambda: changing.get("/readyz", key=None).status == 200, "the value is read again")
    time.sleep(0.5)  # a line of the keeper's comes through the master
    log = changing.router.new_log_text()
    assert log.count('"store_unreadable"') == 1, log
    assert log.count('"configuration_not_published"') == 0, log
    assert log.count('"store_readable"') == 1, log


def test_a_rotated_key_is_used_by_the_next_request(changing):
    changing.script("m", "k1", answer(200, chat.completion()))
    assert changing.chat("m").status == 200
    old = changing.upstream.records[0].key
    new = changing.keys.rotate("m", "k1")
    changing.use(TREE)
    changing.script("m", "k1", answer(200, chat.completion()))
    assert changing.chat("m").status == 200
    assert [record.key for record in changing.upstream.records] == [old, new]


def test_a_stream_under_way_is_not_touched_by_a_change(changing):
    words = [step for n in range(10) for step in (data(chat.chunk({"content": f"w{n} "})), pause(0.1))]
    changing.script("m", "k1", [head(), *words, data(chat.FINISH), data(chat.DONE), end()])
    call = changing.begin("m", stream=True)
    call.read_until("w0")
    changing.use(Tree(model("only", hostile("a", "k1"))))
    reply = call.reply()
    assert chat.text_of(reply.body) == "".join(f"w{n} " for n in range(10))
    assert reply.body.endswith(chat.DONE.encode())


@at_each_mount
@pytest.mark.parametrize("is_stream", [False, True])
def test_a_key_that_cannot_be_decrypted_is_reported_and_never_skipped(changing, mount, is_stream):
    """Its ciphertext belongs to another key id: the additional data differs."""
    tree = Tree(model("torn", hostile("a", "k1", "k2")))
    document, marker = changing.render(tree)
    document = json.loads(document)
    keys = document["llm"]["models"]["torn"]["upstreams"][0]["keys"]
    keys[0]["ciphertext"] = keys[1]["ciphertext"]
    changing.write_entry("LLM_ROUTER_CONFIG", json.dumps(document))
    changing.reload()
    wait_until(lambda: marker in changing.model_names(), "the tree is in force")
    changing.script("torn", "k2", answer(200, chat.completion()))
    reply = changing.chat("torn", is_stream, mount)
    assert_error(reply, mount, 503, "DECRYPT_FAILED")
    assert changing.upstream.records == []
    assert changing.event(reply)["code"] == "decrypt_failed"


@at_each_mount
def test_without_any_tree_requests_are_refused_and_readiness_holds(start_gateway, mount):
    fresh = start_gateway(workers=2)
    reply = fresh.chat("m", mount=mount)
    assert_error(reply, mount, 503, "CONFIG_NOT_SET")
    assert fresh.get("/readyz", key=None).status == 200

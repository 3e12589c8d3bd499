"""From one master key to the next, online: keys are encrypted anew while requests go on.
On each of the stores."""

import json
import threading

import pytest

import chat
from administrator import API, CONFIG, Admin, Deployment, assert_error, document, keys_of, new_key, paths_of
from processes import wait_until
from scripts import answer
from test_secrets import assert_clean

ROTATE = f"{CONFIG}/rotate-key"


@pytest.fixture(params=["directory", "postgres"])
def gateway(request, tmp_path, base_urls, upstream):
    """One whose tree is encrypted with the previous master key."""
    upstream.reset()
    postgres = request.getfixturevalue("postgres") if request.param == "postgres" else None
    gateway = Deployment(tmp_path, base_urls, upstream, postgres, workers=4)
    gateway.plaintexts = [new_key() for _ in range(3)]
    keys = [{"id": f"k{n}", "key": key} for n, key in enumerate(gateway.plaintexts)]
    tree = {"credentials": {"c": {"key": new_key()}}}
    tree |= {"llm": {"models": {"m": {"upstreams": [{"baseURL": upstream.base_url("a"), "keys": keys}]}}}}
    (tmp_path / "tree.json").write_text(json.dumps(tree))
    gateway.ctl("config", "put", "--force", str(tmp_path / "tree.json"))
    (tmp_path / "tree.json").unlink()
    gateway.old_master_key = gateway.master_key
    gateway.new_master_key()
    yield gateway
    gateway.stop()


@pytest.fixture
def admin(gateway):
    gateway.start()
    admin = Admin(gateway)
    admin.wait_for_socket()
    yield admin
    admin.process.stop()
    admin.assert_unbroken()


def rotate(admin, if_match=None):
    return admin.ask("POST", ROTATE, headers={} if if_match is None else {"if-match": if_match})


class Callers:
    """Requests without end, and what became of them."""

    def __init__(self, gateway):
        self.replies = []
        self._gateway = gateway
        self._is_over = threading.Event()
        self._threads = [threading.Thread(target=self._ask_on) for _ in range(3)]
        for thread in self._threads:
            thread.start()

    def _ask_on(self):
        while not self._is_over.is_set():
            self.replies.append(self._gateway.chat("m"))

    def stop(self):
        self._is_over.set()
        for thread in self._threads:
            thread.join(20)
        return self.replies


def test_rotation_moves_every_key_while_requests_go_on(admin):
    gateway = admin.gateway
    gateway.upstream.bind(gateway.plaintexts[0], answer(200, chat.completion()))
    before = admin.get()
    callers = Callers(gateway)
    wait_until(lambda: len(callers.replies) > 10, "requests are served")
    reply = rotate(admin)
    so_far = len(callers.replies)
    wait_until(lambda: len(callers.replies) > so_far + 100, "requests are served afterwards", 30)
    wait_until(lambda: admin.get(f"{API}/status").json()["behind"] == [], "every worker has switched")
    replies = callers.stop()
    assert [reply for reply in replies if reply.status != 200] == []

    assert reply.status == 200, reply
    report = reply.json()
    assert f'"{report.pop("version")}"' == reply.headers["etag"] != before.headers["etag"]
    assert report == {"rotated": 4, "alreadyCurrent": 0, "undecryptable": 0, "undecryptableKeys": []}
    now = admin.get().json()
    assert [key["keyFingerprint"] for key in keys_of(now)] == [key["keyFingerprint"] for key in keys_of(before.json())]
    again = rotate(admin)
    assert again.headers["etag"] == reply.headers["etag"]
    assert (again.json()["rotated"], again.json()["alreadyCurrent"]) == (0, 4)
    line = admin.audit(1)[0]
    assert (line["action"], line["object"], len(line["changes"])) == ("rotate", "LLM_ROUTER_CONFIG", 4)

    gateway.previous_key_file.unlink()
    gateway.router.stop()
    gateway.start_router()
    wait_until(lambda: "m" in gateway.model_names(), "it serves without the previous master key")
    assert gateway.chat("m").status == 200
    secrets = [*gateway.plaintexts, gateway.master_key, gateway.old_master_key]
    texts = {"log": admin.process.log.read_bytes(), "audit": admin.get(f"{API}/audit-log").body, "reply": reply.body}
    assert_clean(secrets, texts | gateway.store.contents())


def test_keys_that_nothing_opens_are_named_and_the_others_moved(admin):
    tree = admin.stored()
    keys_of(tree)[1]["ciphertext"] = keys_of(tree)[0]["ciphertext"]  # which belongs elsewhere
    admin.gateway.store.set_value("LLM_ROUTER_CONFIG", json.dumps(tree))
    report = rotate(admin).json()
    assert (report["rotated"], report["alreadyCurrent"], report["undecryptable"]) == (3, 0, 1)
    assert paths_of(report["undecryptableKeys"]) == ["/llm/models/m/upstreams/0/keys/1"]


def test_a_rehearsed_rotation_changes_nothing(admin):
    tag = admin.get().headers["etag"]
    reply = admin.ask("POST", f"{ROTATE}?dryRun=true")
    assert reply.status == 200 and len(reply.json()["changes"]) == 4
    assert admin.get().headers["etag"] == tag


def test_a_rotation_for_a_stale_version_is_a_conflict(admin):
    tag = admin.get().headers["etag"]
    assert_error(rotate(admin, '"stale"'), 409, "CONFLICT")
    assert rotate(admin, tag).status == 200


def test_changes_during_a_rotation_are_kept(admin):
    statuses = []

    def patch(n):
        statuses.append(admin.patch({"llm": {"models": {f"m{n}": document(admin, name=f"m{n}")["llm"]["models"][f"m{n}"]}}}, "*").status)

    for n in range(12):  # encrypting is slow, and once is enough
        admin.gateway.keys.encrypt(f"m{n}", "k1", "sk-any")
    writers = [threading.Thread(target=patch, args=(n,)) for n in range(12)]
    for writer in writers:
        writer.start()
    report = rotate(admin).json()
    for writer in writers:
        writer.join(60)
    assert statuses == [200] * 12 and report["rotated"] == 4
    assert set(admin.get().json()["llm"]["models"]) == {"m", *(f"m{n}" for n in range(12))}
    assert rotate(admin).json()["rotated"] == 0


def test_a_version_from_before_a_forgotten_master_key_is_not_restored(gateway):
    version = gateway.ctl("config", "versions").split("\t")[0]
    gateway.previous_key_file.unlink()
    gateway.start()
    admin = Admin(gateway)
    admin.wait_for_socket()
    try:
        details = assert_error(admin.restore(version), 400, "BAD_REQUEST")
        assert "/credentials/c/ciphertext" in paths_of(details) and len(details) == 4
        report = rotate(admin).json()
        assert (report["rotated"], report["undecryptable"]) == (0, 4)
    finally:
        admin.process.stop()


def test_without_a_master_key_there_is_nothing_to_rotate_to(gateway):
    gateway.start()
    admin = Admin(gateway, environment={"LLM_ROUTER_MASTER_KEY_FILE": "", "LLM_ROUTER_MASTER_KEY_PREVIOUS_FILE": ""})
    admin.wait_for_socket()
    try:
        assert_error(rotate(admin), 503, "CONFIG_NOT_SET")
    finally:
        admin.process.stop()

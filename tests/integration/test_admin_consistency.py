"""Many administrators at once, a program killed in the middle of a write, and a tree at
the bounds: what is in force is always one that somebody wrote, and is on record. On
each of the stores."""

import itertools
import json
import os
import random
import signal
import threading
import time

import pytest

from administrator import API, CONFIG, Admin, Deployment, ask_directly
from processes import wait_until
from step_proxy import StepProxy

WRITERS = 100
KILLS = 12
KEYS = 5000


@pytest.fixture(params=["directory", "postgres"])
def gateway(request, tmp_path, base_urls, upstream):
    upstream.reset()
    postgres = request.getfixturevalue("postgres") if request.param == "postgres" else None
    gateway = Deployment(tmp_path, base_urls, upstream, postgres, workers=2)
    yield gateway
    gateway.stop()


@pytest.fixture
def start_admin(gateway):
    """Starts llm-router-admin; each of several in a run directory of its own."""
    started = []

    def start(name="llm-router-admin", **environment):
        admin = Admin(gateway, ["--drain-timeout-ms", "2000"], environment, name=name)
        started.append(admin)
        admin.wait_for_socket()
        return admin

    yield start
    for admin in started:
        admin.process.stop()


def tree_of(*names):
    return {"llm": {"models": {name: model_of(name) for name in names}}}


def model_of(name):
    return {"upstreams": [{"baseURL": f"https://{name}.example", "keys": [{"id": "k", "credential": "c"}]}]}


CREDENTIAL = {"credentials": {"c": {"key": "sk-of-nobody"}}}


def put(admin, tree, if_match="*"):
    return ask_directly(admin, "PUT", body=json.dumps(CREDENTIAL | tree).encode(), HTTP_IF_MATCH=if_match)


def in_force(admin):
    """Entity tag and models."""
    status, headers, body = ask_directly(admin)
    assert status == 200, body
    return headers["etag"], set(json.loads(body)["llm"]["models"])


def all_at_once(works):
    """Runs them together; what each returned."""
    results, barrier = [None] * len(works), threading.Barrier(len(works))

    def run(n):
        barrier.wait()
        results[n] = works[n]()

    threads = [threading.Thread(target=run, args=(n,)) for n in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return results


def test_of_a_hundred_writers_on_one_version_exactly_one_wins(gateway, start_admin):
    admins = [start_admin(), start_admin("second", LLM_ROUTER_RUN_DIR=str(gateway.folder / "second"))]
    status, headers, body = put(admins[1], tree_of("start"))
    assert status == 200, body
    tag = headers["etag"]
    works = [lambda n=n: put(admins[n % 2], tree_of(f"m{n}"), tag) for n in range(WRITERS)]
    replies = all_at_once(works)
    winners = [n for n, (status, _, _) in enumerate(replies) if status == 200]
    assert len(winners) == 1 and {status for status, _, _ in replies} == {200, 409}
    assert in_force(admins[0]) == (replies[winners[0]][1]["etag"], {f"m{winners[0]}"})
    losers = [json.loads(body)["details"]["currentVersion"] for status, _, body in replies if status == 409]
    assert {f'"{version}"' for version in losers} == {replies[winners[0]][1]["etag"]}


def test_a_hundred_patches_at_once_are_all_kept(gateway, start_admin):
    admin = start_admin()
    put(admin, tree_of("start"))

    def patch(n):
        body = json.dumps(tree_of(f"m{n}")).encode()
        return ask_directly(admin, "PATCH", body=body, HTTP_IF_MATCH="*")[0]

    statuses = all_at_once([lambda n=n: patch(n) for n in range(WRITERS)])
    assert statuses == [200] * WRITERS
    assert in_force(admin)[1] == {"start", *(f"m{n}" for n in range(WRITERS))}
    _, _, body = ask_directly(admin, path=f"{API}/audit-log", QUERY_STRING="limit=1000")
    lines = [line for line in json.loads(body)["entries"] if line["key"] == "LLM_ROUTER_CONFIG"]
    for newer, older in itertools.pairwise(lines):
        assert newer["versionBefore"] == older["versionAfter"]
    assert len(lines) == WRITERS + 1


@pytest.mark.parametrize("whom", ["workers", "all"])
def test_a_program_killed_in_the_middle_of_a_write_leaves_all_or_nothing(gateway, start_admin, whom):
    admin = start_admin()
    padding = {"headers": {"x-padding": "p" * 4000}}
    sizes = [tree_of(*(f"m{n}-{i}" for i in range(40))) for n in range(KILLS)]
    for tree in sizes:
        for model in tree["llm"]["models"].values():
            model["upstreams"][0] |= padding
    assert put(admin, tree_of("start"))[0] == 200
    seconds, before = [], in_force(admin)[1]
    for tree in sizes[:2]:
        begun = time.monotonic()
        assert put(admin, tree)[0] == 200
        seconds.append(time.monotonic() - begun)
        before = in_force(admin)[1]
    landed = 0
    for tree in sizes[2:]:
        written = []
        writer = threading.Thread(target=lambda tree=tree, written=written: written.append(try_put(admin, tree)))
        writer.start()
        time.sleep(random.uniform(0, 1.2 * max(seconds)))
        if whom == "all":
            os.killpg(admin.process.pid, signal.SIGKILL)
        else:
            for pid in admin.process.children():
                os.kill(pid, signal.SIGKILL)
        writer.join(20)
        if whom == "all":
            admin.process.wait()
            admin = start_admin()
        tag, now = wait_until(lambda admin=admin: try_in_force(admin), "somebody answers again")
        names = set(tree["llm"]["models"])
        assert now in (before, names), "what is in force is neither the old tree nor the new one"
        assert written != [200] or now == names, "what was said to be written is not there"
        assert_on_record(admin, tag.strip('"'))
        landed += now == names
        before = now
    assert put(admin, tree_of("end"))[0] == 200
    print(f"{landed} of {KILLS - 2} writes had happened before the {whom} died")


def test_a_program_killed_between_each_two_steps_of_a_write_leaves_all_or_nothing(
    tmp_path, base_urls, upstream, postgres, start_admin_of
):
    """The steps are the statements of a change in Postgres. A writer of the state directory is killed at many
    moments of its work on files in tests/unit/test_store_directory.c."""
    deployment = Deployment(tmp_path, base_urls, upstream, postgres, workers=1)
    proxy = StepProxy(postgres.folder / ".s.PGSQL.5432")
    address = deployment.store.environment["DATABASE_URL"]
    through_proxy = {"DATABASE_URL": address.replace(str(postgres.folder), str(proxy.folder))}
    assert through_proxy["DATABASE_URL"] != address
    admin = start_admin_of(deployment, through_proxy)
    assert put(admin, tree_of("m0"))[0] == 200
    landed = []
    for step in range(1, 30):
        proxy.before_statement(step, lambda admin=admin: os.killpg(admin.process.pid, signal.SIGKILL))
        status = try_put(admin, tree_of(f"m{step}"))
        reached = proxy.was_reached()
        proxy.before_statement(None, None)
        if reached:
            admin.process.wait()
            wait_until(admin.process.group_is_empty, "none of its workers is left at the socket")
            admin = start_admin_of(deployment, through_proxy)
        tag, now = in_force(admin)
        assert_on_record(admin, tag.strip('"'))
        assert now == {f"m{step}"} if status == 200 else now == {f"m{(landed or [0])[-1]}"}
        if status == 200:
            landed.append(step)
        if not reached:
            break
    assert status == 200 and step > 6, f"killed before {step - 1} statements"
    assert landed == [step], "a change was in force before its COMMIT"
    proxy.close()
    deployment.stop()


@pytest.fixture
def start_admin_of():
    started = []

    def start(deployment, environment):
        admin = Admin(deployment, ["--workers", "1"], environment)
        started.append(admin)
        admin.wait_for_socket()
        return admin

    yield start
    for admin in started:
        admin.process.stop()


def try_put(admin, tree):
    try:
        return put(admin, tree)[0]
    except (OSError, AssertionError):
        return None


def try_in_force(admin):
    try:
        return in_force(admin)
    except (OSError, AssertionError):
        return None


def assert_on_record(admin, version):
    _, _, body = ask_directly(admin, path=f"{CONFIG}/versions", QUERY_STRING="limit=5")
    versions = json.loads(body)["versions"]
    assert [line["version"] for line in versions if line["isInForce"]] == [version], versions
    assert ask_directly(admin, path=f"{CONFIG}/versions/{version}")[0] == 200
    _, _, body = ask_directly(admin, path=f"{API}/audit-log", QUERY_STRING="limit=5")
    assert version in [line["versionAfter"] for line in json.loads(body)["entries"]]


def large_tree(plaintext_bytes):
    models = {}
    for m in range(5):
        keys = [{"id": f"k{n}", "key": f"sk-{m}-{n}-".ljust(plaintext_bytes, "x")} for n in range(KEYS // 5)]
        models[f"m{m}"] = {"upstreams": [{"baseURL": f"https://m{m}.example", "keys": keys}]}
    return {"llm": {"models": models}}


def test_a_tree_of_two_mebibytes_with_five_thousand_keys_is_taken_in_bounded_time(gateway, start_admin):
    gateway.start()
    admin = start_admin()
    tree = large_tree(420)
    body = json.dumps(tree).encode()
    assert 2 << 20 <= len(body) < 4 << 20, len(body)

    def timed(what, *args, **options):
        begun = time.monotonic()
        status, headers, text = ask_directly(admin, *args, **options)
        took[what] = time.monotonic() - begun
        assert status == 200, text[:500]
        return headers, json.loads(text)

    took = {}
    headers, _ = timed("put", "PUT", body=body, HTTP_IF_MATCH="*")
    begun = time.monotonic()
    wait_until(lambda: "m4" in gateway.model_names(), "the tree is served", 10)
    took["until it is served"] = time.monotonic() - begun
    _, shown = timed("get")
    assert sum(len(model["upstreams"][0]["keys"]) for model in shown["llm"]["models"].values()) == KEYS
    shown["llm"]["models"]["m2"]["upstreams"][0]["keys"][500] = {"id": "k500", "key": "sk-other"}
    kept = json.dumps(shown).encode()
    _, rehearsed = timed("dry run", "PUT", body=kept, HTTP_IF_MATCH="*", QUERY_STRING="dryRun=true")
    assert [change["path"] for change in rehearsed["changes"]] == ["/llm/models/m2/upstreams/0/keys/500"]
    timed("put of what was shown", "PUT", body=kept, HTTP_IF_MATCH=headers["etag"])
    timed("patch", "PATCH", body=b'{"defaults":{"plainTimeoutMs":9}}', HTTP_IF_MATCH="*")
    timed("rotate", "POST", f"{CONFIG}/rotate-key")
    print({what: f"{seconds:.2f} s" for what, seconds in took.items()})
    assert max(took.values()) < 10, took
    gateway.assert_unbroken()


def test_a_tree_over_the_bounds_is_refused_with_the_bound(gateway, start_admin):
    admin = start_admin()
    status, _, body = ask_directly(admin, "PUT", body=json.dumps(large_tree(1000)).encode(), HTTP_IF_MATCH="*")
    assert status == 413 and b"4194304" in body, body
    tree = {"llm": {"models": {f"m{n}": {"upstreams": []} for n in range(10001)}}}
    status, _, body = ask_directly(admin, "PUT", body=json.dumps(tree).encode(), HTTP_IF_MATCH="*")
    assert status == 400 and b"10000" in body, body[:500]
    assert ask_directly(admin)[0] == 404


def test_status_names_each_instance_what_it_serves_and_whether_it_has_switched(gateway, start_admin):
    gateway.start()
    admin = start_admin()

    def status():
        code, _, body = ask_directly(admin, path=f"{API}/status")
        assert code == 200, body
        return json.loads(body)

    tag = put(admin, tree_of("m"))[1]["etag"].strip('"')
    wait_until(lambda: status()["version"] == tag and status()["behind"] == [], "the instance has switched", 8)
    view = status()
    kind = "directory" if "LLM_ROUTER_STATE_DIR" in gateway.store.environment else "postgres"
    assert view["store"] == {"kind": kind, "isReadable": True, "trouble": None}
    [instance] = view["instances"]
    assert instance["version"] == tag and instance["isCurrent"] and instance["since"].endswith("Z")
    assert instance["source"] in ("file", "ttl", "pubsub")
    assert instance["workers"] == instance["workersCurrent"] == 2
    assert view["here"]["id"] == instance["id"]
    assert {worker["pid"] for worker in view["here"]["workers"]} == gateway.workers()
    assert {worker["generation"] for worker in view["here"]["workers"]} == {view["here"]["generation"]}

    keeper = gateway.process_of("keeper")
    os.kill(keeper, signal.SIGSTOP)
    try:
        newer = put(admin, tree_of("m2"))[1]["etag"].strip('"')
        view = status()
        assert view["version"] == newer and view["behind"] == [instance["id"]]
    finally:
        os.kill(keeper, signal.SIGCONT)
    wait_until(lambda: status()["behind"] == [], "the instance has switched", 8)

"""The spool: segments that rotate under a bound, and what becomes of events when
there is no room or no folder. Each test has a gateway of its own."""

import resource
import secrets
import shutil
from concurrent.futures import ThreadPoolExecutor

from processes import wait_until
from tree import Tree, hostile, model

BOUND = 512 * 1024
SEGMENT = BOUND // 8
FLAGS = ["--spool-max-bytes", str(BOUND)]


def tree():
    return Tree(model("m", hostile("a", "k1")))


def ask(gateway):
    """A request that is refused, with an event of some size: its id."""
    reply = gateway.chat("no-such-model-" + "x" * 240, headers={"x-request-id": secrets.token_hex(64)})
    assert reply.status == 404
    return reply.request_id


def size(gateway):
    return sum(path.stat().st_size for path in gateway.spool.segments())


def test_events_of_all_workers_are_found_once_over_several_segments(start_gateway):
    gateway = start_gateway(tree(), workers=4, flags=FLAGS)
    ids = []
    with ThreadPoolExecutor(8) as pool:
        while len(gateway.spool.segments()) < 4:
            ids += pool.map(lambda _: ask(gateway), range(40))
            assert len(ids) < 4000, "the segments never fill"
    for request_id in ids:
        assert gateway.spool.wait_event(request_id)["end"] == "refused"
    assert [path.name for path in gateway.spool.segments()][0] == "llm-router.00000001.jsonl"
    assert all(path.stat().st_size < SEGMENT + 4 * 4096 for path in gateway.spool.segments())


def fill(state_dir, numbers):
    folder = state_dir / "spool"
    folder.mkdir(exist_ok=True)
    for number in numbers:
        (folder / f"llm-router.{number:08}.jsonl").write_bytes(b"\n{}\n" * (SEGMENT // 4))


def test_a_restart_continues_the_newest_segment_and_the_oldest_go(start_gateway):
    gateway = start_gateway(tree(), workers=2, flags=FLAGS)
    gateway.router.stop()
    shutil.rmtree(gateway.state_dir / "spool")
    fill(gateway.state_dir, range(3, 20))
    gateway.start_router()
    wait_until(lambda: gateway.get("/readyz", key=None).status == 200, "it serves again")
    gateway.spool.wait_event(ask(gateway))
    names = [path.name for path in gateway.spool.segments()]
    assert names[-1] in ("llm-router.00000019.jsonl", "llm-router.00000020.jsonl")
    assert "llm-router.00000003.jsonl" not in names
    assert size(gateway) <= BOUND


def test_a_folder_that_is_removed_is_made_again(start_gateway):
    gateway = start_gateway(tree(), workers=2, flags=FLAGS)
    gateway.spool.wait_event(ask(gateway))
    shutil.rmtree(gateway.state_dir / "spool")
    for _ in range(6):
        gateway.spool.wait_event(ask(gateway))


def test_without_room_requests_are_served_and_events_dropped_until_there_is(start_gateway):
    gateway = start_gateway(tree(), workers=1, flags=FLAGS)
    gateway.spool.wait_event(ask(gateway))
    pids = gateway.router.children()
    hard = resource.prlimit(pids[0], resource.RLIMIT_FSIZE)[1]
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size(gateway) + 100, hard))
    lost = [ask(gateway) for _ in range(5)]
    wait_until(lambda: len(gateway.log_lines("event_dropped")) == 3, "the log says so of the 1st, 2nd and 4th")
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))
    gateway.spool.wait_event(ask(gateway))
    assert [gateway.spool.ends_of(request_id) for request_id in lost] == [[]] * 5
    assert set(gateway.router.children()) == set(pids), "a worker died of it"


def test_where_no_spool_can_be_requests_are_served(start_gateway):
    gateway = start_gateway(tree(), workers=1)
    gateway.router.stop()
    folder = gateway.state_dir / "spool"
    shutil.rmtree(folder)
    folder.write_text("a file")
    gateway.start_router()
    wait_until(lambda: gateway.chat("m", key=None).status == 401, "requests are served")
    assert gateway.metric("airi_gen_ai_gateway_spool_dropped_total") > 0
    folder.unlink()
    ask(gateway)
    assert gateway.spool.segments()

"""What a machine may run out of: processes, descriptors, room on a disk. Who is served goes on
being served; what cannot be done is said, and done as soon as it can be."""

import errno
import os
import resource
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import chat
from gateway import Gateway
from otlp import Reply, attributes
from preloaded import preload
from processes import KeptPort, program, wait_until
from scripts import answer, data, end, head, pause
from tree import Tree, elsewhere, hostile, model

WORKERS = 3
SHED_S = 1.0  # --queue-timeout-ms
SLACK_S = 5.0
REST_S = 2.0

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount, and look into the processes")


def tree(name="m"):
    return Tree(model(name, hostile("a", "k1")))


def serve(gateway, name="m"):
    gateway.script(name, "k1", answer(200, chat.completion()))
    return gateway


# Processes


@pytest.fixture
def starved(start_gateway, tmp_path):
    """A gateway, and what makes its machine run out of processes for a while."""
    sign = tmp_path / "no-processes"
    environment = preload("failing_fork", tmp_path) | {"NO_PROCESSES": str(sign)}

    @contextmanager
    def without_processes():
        sign.touch()
        try:
            yield
        finally:
            sign.unlink()

    def start(a_tree=None, **options):
        gateway = start_gateway(a_tree or tree(), router_environment=environment, **options)
        return serve(gateway), without_processes

    return start


def kill(pids):
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def failed_forks(gateway):
    return gateway.log_lines("fork_failed")


def wait_idle(gateway, workers=WORKERS):
    wait_until(lambda: gateway.metric('airi_gen_ai_gateway_workers{state="idle"}') == workers, "all are idle", 15)


def wait_all(gateway):
    """As many as there should be, and serving."""
    wait_idle(gateway)
    wait_until(lambda: {"keeper", "overflow", "shipper"} <= set(gateway.router.roles().values()), "and the roles", 15)


def test_who_dies_while_no_process_can_be_made_is_replaced_when_one_can(starved):
    gateway, without_processes = starved(workers=WORKERS)
    gateway.script("m", "k1", [head(), data(chat.HELLO), pause(1.5), data(chat.FINISH), data(chat.DONE), end()])
    held = gateway.begin("m", stream=True)
    held.read_until("Hello")
    busy = {worker["pid"] for worker in gateway.status()["workers"] if worker["stage"] == "streaming"}
    serve(gateway)
    with without_processes():
        doomed = sorted(gateway.workers() - busy)[:1]
        kill([*doomed, gateway.process_of("keeper")])
        wait_until(lambda: failed_forks(gateway), "a fork fails")
        for _ in range(20):
            assert gateway.chat("m").status == 200
        assert chat.text_of(held.reply().body) == "Hello"
        wait_until(lambda: len(failed_forks(gateway)) >= 3, "it is tried again")
    wait_all(gateway)
    texts = [line["message"] for line in failed_forks(gateway)]
    assert [text.rpartition("; ")[2] for text in texts[:3]] == [f"tried again in {ms} ms" for ms in (100, 200, 400)]
    assert "Resource temporarily unavailable" in texts[0]
    assert gateway.metric("airi_gen_ai_gateway_worker_deaths_total") == 1
    gateway.use(tree("after"))


def test_with_no_worker_left_and_none_to_be_made_callers_are_told_in_time(starved):
    gateway, without_processes = starved(workers=WORKERS)
    with without_processes():
        kill(gateway.workers())
        wait_until(lambda: failed_forks(gateway), "a fork fails")
        begun = time.monotonic()
        assert gateway.chat("m").status == 503
        assert time.monotonic() - begun < SHED_S + SLACK_S
        assert gateway.get("/livez", key=None).status == 200
        ready = gateway.get("/readyz", key=None)
        assert (ready.status, ready.json()["checks"]["workers"]) == (503, "fail")
        assert len(failed_forks(gateway)) < 12, "one line for each try, not for each worker"
    wait_all(gateway)
    assert gateway.chat("m").status == 200


def test_a_program_that_starts_without_processes_serves_when_there_are(starved):
    gateway, without_processes = starved(workers=WORKERS)
    gateway.router.stop()
    with without_processes():
        gateway.start_router()
        wait_until(lambda: len(failed_forks(gateway)) >= 3, "forks fail")
        assert gateway.router.is_running()
    wait_all(gateway)
    assert gateway.chat("m").status == 200


def test_an_upgrade_for_which_there_is_no_process_is_refused(starved):
    gateway, without_processes = starved(workers=WORKERS)
    workers = gateway.workers()
    with without_processes():
        gateway.router.signal(signal.SIGUSR2)
        (refused,) = wait_until(lambda: gateway.log_lines("upgrade_refused"), "it is refused")
    assert "no process can be made" in refused["message"]
    assert gateway.workers() == workers
    assert gateway.chat("m").status == 200


def test_without_a_thread_for_its_name_an_upstream_is_passed_over(starved):
    """A name is looked up in a thread; an address needs none."""
    named = KeptPort()
    a_tree = Tree(model("m", elsewhere(f"http://localhost:{named.number}/v1", "named", "k0"), hostile("a", "k1")))
    gateway, without_processes = starved(a_tree, workers=1)
    with without_processes():
        reply = gateway.chat("m")
    named.close()
    assert reply.status == 200, reply
    first, second = gateway.event(reply)["attempts"]
    assert (first["upstream"], first["verdict"], second["upstream"]) == ("named", "connect", "a"), first
    assert gateway.chat("m").status == 200


# Descriptors


def unused_descriptors(pid):
    """The limit is one of numbers, of which each new file gets the least that is free. It is looked at while the process
    sleeps: the keeper, which looks at the store now and then, has files open meanwhile."""
    process = Path(f"/proc/{pid}")

    def those_of_a_sleeper():
        run = (process / "schedstat").read_text(encoding="ascii")
        used = {int(name) for name in os.listdir(process / "fd")}
        is_asleep = (process / "stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] == "S"
        return used if is_asleep and run == (process / "schedstat").read_text(encoding="ascii") else None

    used = wait_until(those_of_a_sleeper, "it sleeps")
    return [number for number in range(len(used) + 8) if number not in used]


@contextmanager
def no_descriptors(*pids, left=0):
    """These processes, which have nothing in hand, may open no more files, but for so many."""
    before = {pid: resource.prlimit(pid, resource.RLIMIT_NOFILE) for pid in pids}
    for pid, (_, hard) in before.items():
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (unused_descriptors(pid)[left], hard))
    try:
        yield
    finally:
        for pid, limits in before.items():
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)


def processor_seconds(pid):
    return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0]) / 1e9


def assert_at_rest(pid):
    """What cannot be done is not tried without a pause: also beside many others, that would take more."""
    used = processor_seconds(pid)
    time.sleep(REST_S)
    used = processor_seconds(pid) - used
    assert used < 0.05 * REST_S, f"process {pid} ran for {used:.3f} s of {REST_S}"


@root_only
def test_a_worker_without_a_descriptor_leaves_callers_to_the_others(start_gateway):
    gateway = serve(start_gateway(tree(), workers=2))
    first = min(gateway.workers())
    wait_idle(gateway, 2)
    with no_descriptors(first):
        for _ in range(20):
            assert gateway.chat("m").status == 200
        assert_at_rest(first)
        assert len(gateway.log_lines("accept_failed")) <= 1, "it is said once"
    wait_idle(gateway, 2)
    with no_descriptors(*gateway.workers()):
        begun = time.monotonic()
        assert gateway.chat("m").status == 503
        assert time.monotonic() - begun < SHED_S + SLACK_S
        assert_at_rest(first)
        told = {line["pid"] for line in gateway.log_lines("accept_failed")}
        assert told and told <= gateway.workers()
    assert gateway.chat("m").status == 200
    assert len(gateway.workers()) == 2


@root_only
def test_a_worker_that_cannot_connect_for_want_of_a_descriptor_says_so(start_gateway):
    """It can take the request, and no more."""
    gateway = serve(start_gateway(tree(), workers=1))
    wait_idle(gateway, 1)
    with no_descriptors(*gateway.workers(), left=1):
        reply = gateway.chat("m")
        assert reply.status == 502, reply
        assert gateway.event(reply)["attempts"][0]["verdict"] == "connect"
    assert gateway.upstream.records == []
    assert gateway.chat("m").status == 200


@root_only
def test_an_overflow_process_without_a_descriptor_rests_and_answers_when_it_has_one(start_gateway):
    gateway = serve(start_gateway(tree(), workers=1))
    overflow = gateway.process_of("overflow")
    with no_descriptors(overflow):
        probe = gateway.call("GET", "/livez", key=None)
        assert_at_rest(overflow)
        (told,) = gateway.log_lines("accept_failed")
        assert told["pid"] == overflow and "Too many open files" in told["message"]
        assert gateway.chat("m").status == 200
    assert probe.reply().status == 200
    assert gateway.process_of("overflow") == overflow


@root_only
def test_a_keeper_without_a_descriptor_keeps_what_is_in_force(start_gateway):
    gateway = serve(start_gateway(tree(), workers=2))
    keeper = gateway.process_of("keeper")
    with no_descriptors(keeper):
        gateway.write_entry("LLM_ROUTER_CONFIG", gateway.render(tree("m2"))[0])
        wait_until(lambda: gateway.log_lines("store_unreadable"), "it says so")
        assert gateway.chat("m").status == 200
        assert gateway.checks()["store"] == "fail"
    wait_until(lambda: "m2" in gateway.model_names(), "the new tree is in force")
    wait_until(lambda: gateway.checks()["store"] == "ok", "the store is read")
    assert gateway.process_of("keeper") == keeper


@root_only
def test_a_shipper_without_a_descriptor_delivers_when_it_has_one(start_exporting, receiver):
    gateway = serve(start_exporting(tree()))
    shipper = gateway.process_of("shipper")
    assert gateway.chat("m").status == 200
    wait_until(lambda: receiver.exports, "it delivers")
    receiver.always(Reply(hang_up=True))
    gateway.chat("m")
    wait_until(lambda: gateway.log_lines("export_failed"), "its connection has ended")
    before = len(receiver.exports)
    with no_descriptors(shipper):
        receiver.always(Reply())
        replies = [gateway.chat("m") for _ in range(5)]
        assert_at_rest(shipper)
        assert len(receiver.exports) == before, "it could connect"
    told = {reply.request_id for reply in replies}

    def is_delivered():
        spans = [span for export in receiver.exports for span in export.spans()]
        return told <= {attributes(span).get("airi.gen_ai.gateway.request.id") for span in spans}

    wait_until(is_delivered, "all of them are delivered", 30)
    assert gateway.process_of("shipper") == shipper


@root_only
def test_a_master_without_a_descriptor_replaces_who_dies_and_refuses_an_upgrade(start_gateway):
    gateway = serve(start_gateway(tree(), workers=2))
    (doomed, *_) = gateway.workers()
    with no_descriptors(gateway.router.pid):
        kill([doomed])
        wait_until(lambda: len(gateway.workers() - {doomed}) == 2, "it is replaced")
        gateway.router.signal(signal.SIGUSR2)
        (refused,) = wait_until(lambda: gateway.log_lines("upgrade_refused"), "it is refused")
        assert "Too many open files" in refused["message"]
    for _ in range(10):
        assert gateway.chat("m").status == 200


# Disks


@contextmanager
def small_disk(folder, size_bytes):
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=700", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def full(folder):
    """No room is left."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC, error
    try:
        yield
    finally:
        filler.unlink()


class OnSmallDisk(Gateway):
    """A folder of it is a disk of its own, of 4 MB."""

    disk_of = "state_dir"

    def start(self):
        disk = getattr(self, self.disk_of)
        kept = disk.rename(disk.with_name("kept"))
        disk.mkdir(mode=0o700)
        self._disks = ExitStack()
        self._disks.enter_context(small_disk(disk, 4 * 1024 * 1024))
        shutil.copytree(kept, disk, dirs_exist_ok=True)
        if disk == self.run_dir:
            self.front.admit_to(disk)
        super().start()

    def stop_programs(self):
        with self._disks:
            super().stop_programs()


class RunningOnSmallDisk(OnSmallDisk):
    disk_of = "run_dir"


def files_below(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@root_only
def test_a_full_disk_costs_events_and_no_request(start_gateway):
    gateway = serve(start_gateway(tree(), kind=OnSmallDisk, workers=2))
    first = gateway.chat("m")
    gateway.event(first)
    workers = gateway.workers()
    with full(gateway.state_dir):
        lost = [gateway.chat("m") for _ in range(20)]
        assert {reply.status for reply in lost} == {200}
        wait_until(lambda: gateway.log_lines("event_dropped"), "it says so")
        assert "No space left on device" in gateway.log_lines("event_dropped")[0]["message"]
    after = [gateway.chat("m") for _ in range(20)]
    for reply in [first, *after]:
        assert gateway.event(reply)["end"] == "done"
    told = sum(len(gateway.spool.ends_of(reply.request_id)) for reply in lost)
    assert told + gateway.metric("airi_gen_ai_gateway_spool_dropped_total") == len(lost)
    assert told < len(lost), "the disk was not full"
    assert gateway.workers() == workers


@root_only
def test_what_an_administrator_writes_to_a_full_disk_is_refused_whole(start_gateway):
    gateway = serve(start_gateway(tree(), kind=OnSmallDisk, workers=2))
    store = gateway.state_dir / "configkv"
    with full(gateway.state_dir):
        before = files_below(store)
        command = [program("llm-routerctl"), "caller-key", "add", "--id", "another"]
        done = subprocess.run(command, env=gateway.environment(), capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode != 0 and done.stdout == "", done
        assert "No space left on device" in done.stderr, done
        assert files_below(store) == before
        assert gateway.chat("m").status == 200
    gateway.ctl("caller-key", "add", "--id", "another")


@root_only
def test_a_full_run_directory_keeps_what_is_in_force_until_there_is_room(start_gateway):
    gateway = serve(start_gateway(tree(), kind=RunningOnSmallDisk, workers=2))
    workers = gateway.workers()
    wait_until(lambda: len(list(gateway.run_dir.glob("snapshot.*"))) <= 2, "what is old is removed")
    with full(gateway.run_dir):
        gateway.write_entry("LLM_ROUTER_CONFIG", gateway.render(tree("later"))[0])
        wait_until(lambda: gateway.log_lines("configuration_not_published"), "it says so")
        assert "No space left on device" in gateway.log_lines("configuration_not_published")[0]["message"]
        time.sleep(1.5)  # it is tried once a second
        assert len(gateway.log_lines("configuration_not_published")) == 1, "it is said once"
        for _ in range(10):
            assert gateway.chat("m").status == 200
    wait_until(lambda: "later" in gateway.model_names(), "the new tree is in force")
    assert gateway.workers() == workers
    assert not list(gateway.run_dir.glob("*.new*")), "half a file was left"


class LoggingOnSmallDisk(Gateway):
    """What it says goes to a disk of its own."""

    def start(self):
        self.log_disk = self.folder / "log"
        self.log_disk.mkdir()
        self._disks = ExitStack()
        self._disks.enter_context(small_disk(self.log_disk, 1024 * 1024))
        (self.folder / "llm-router.log").symlink_to(self.log_disk / "llm-router.log")
        super().start()

    def stop(self):
        with self._disks:
            super().stop()


@root_only
def test_a_log_that_cannot_be_written_is_no_reason_not_to_serve(start_gateway):
    gateway = serve(start_gateway(tree(), kind=LoggingOnSmallDisk, workers=2))
    with full(gateway.log_disk):
        for _ in range(20):  # lines until no byte of the last page is left
            gateway.reload()
            time.sleep(0.05)
        (doomed, *_) = gateway.workers()
        kill([doomed])
        wait_until(lambda: len(gateway.workers() - {doomed}) == 2, "it is replaced")
        for _ in range(10):
            assert gateway.chat("m").status == 200
    already = len(gateway.router.log_text())
    gateway.use(tree("later"))
    wait_until(lambda: '"configuration_in_force"' in gateway.router.log_text()[already:], "it is written again")

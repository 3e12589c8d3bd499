"""llm-routerctl status: what is in force, and which instances serve it."""

import contextlib
import json
import os
import signal
import socket
import threading
import time

import pytest

from fastcgi import END_REQUEST, STDOUT, record
from operator_shell import Database, Directory, Operator
from processes import wait_until
from test_ctl_store import document, key, upstream


class Instance:
    """A gateway, and an operator on its host."""

    def __init__(self, gateway):
        self.gateway = gateway
        self.operator = Operator(gateway.folder, Directory(gateway.state_dir))
        self.operator.use_master_key(gateway.master_key_file)

    def status(self, *args):
        return self.operator.run("status", "--run-dir", self.gateway.run_dir, *args)

    def line(self):
        """The line of the instance on this host, in its columns."""
        return self.status().stdout.splitlines()[-1].split("\t")

    def wait_until_current(self):
        wait_until(lambda: self.status().returncode == 0, "status says that all serve what is in force", 5)


@pytest.fixture
def instance(start_gateway):
    instance = Instance(start_gateway(workers=3))
    instance.operator.put(document(m=[upstream(key(instance.operator))]))
    instance.wait_until_current()
    return instance


def test_status_names_the_version_in_force_and_that_every_worker_serves_it(instance):
    [version] = [line["version"] for line in instance.operator.versions()]
    done = instance.status()
    lines = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, "")
    assert lines[0] == "store: directory"
    assert lines[1].startswith(f"in force: {version}, since ") and ", by llm-routerctl:" in lines[1]
    _, here, shown, since, source, workers, state = lines[2].split("\t")
    assert (here, shown, workers, state) == ("here", version, "3/3", "current")
    assert since.endswith("Z") and source in ("file", "ttl")


def test_status_tells_programs_the_same(instance):
    done = instance.status("--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["isCurrent"] is True
    assert (told["store"], told["instances"]) == ("directory", [])
    assert told["version"] == told["here"]["version"] == instance.operator.versions()[0]["version"]
    assert [worker["generation"] for worker in told["here"]["workers"]] == [told["here"]["generation"]] * 3


@contextlib.contextmanager
def stopped(gateway, role):
    pid = gateway.process_of(role)
    os.kill(pid, signal.SIGSTOP)
    yield
    os.kill(pid, signal.SIGCONT)


def test_status_shows_an_instance_that_has_not_switched(instance):
    before = instance.operator.versions()[0]["version"]
    with stopped(instance.gateway, "keeper"):
        instance.operator.put(document(m=[upstream(key(instance.operator))]))
        assert instance.status().returncode == 1
        assert (instance.line()[2], instance.line()[-1]) == (before, "has not switched")
        assert json.loads(instance.status("--json").stdout)["isCurrent"] is False
    instance.wait_until_current()


def test_status_shows_a_worker_that_has_not_switched(instance):
    with stopped(instance.gateway, "worker"):
        version = instance.operator.put(document(m=[upstream(key(instance.operator))]))
        wait_until(lambda: instance.line()[2] == version, "the keeper has switched")
        wait_until(lambda: instance.line()[5] == "2/3", "the other workers have switched")
        assert instance.status().returncode == 1 and instance.line()[-1] == "has not switched"
    instance.wait_until_current()


def test_status_on_postgres_shows_which_of_several_instances_has_not_switched(start_gateway, postgres, tmp_path):
    database = Database(postgres)
    operator = Operator(tmp_path, database)
    before = operator.put(document(m=[upstream(key(operator))]))
    environment = database.environment | {"LLM_ROUTER_MASTER_KEY_FILE": str(operator.master_key)}
    one, two = (start_gateway(workers=2, router_environment=environment, flags=["--ready", "serving"]) for _ in "12")

    def status(*args):
        return operator.run("status", "--run-dir", one.run_dir, *args)

    def instances():
        return json.loads(status("--json").stdout)["instances"]

    wait_until(lambda: status().returncode == 0 and len(instances()) == 2, "both serve the tree", 10)
    assert {told["version"] for told in instances()} == {before}
    with stopped(two, "keeper"):
        now = operator.put(document(m=[upstream(key(operator))]))
        wait_until(lambda: {told["version"]: told["isCurrent"] for told in instances()} == {before: False, now: True},
                   "one of them has switched", 10)
        done = status()
        assert done.returncode == 1
        lines = [line.split("\t") for line in done.stdout.splitlines()[2:]]
        assert sorted((line[2], line[-1]) for line in lines) == sorted(
            [(now, "current"), (now, "current"), (before, "has not switched")]), "here, and both of the database"
    wait_until(lambda: status().returncode == 0, "the other one follows", 10)
    assert {told["version"] for told in instances()} == {now}


def test_status_without_a_running_instance_says_why_and_fails(tmp_path):
    operator = Operator(tmp_path, Directory(tmp_path / "state"))
    version = operator.put(document(m=[upstream(key(operator))]))
    done = operator.run("status", "--run-dir", tmp_path)
    assert done.returncode == 1 and version in done.stdout
    assert f"here: cannot connect to {tmp_path}/health.sock: No such file" in done.stdout
    assert json.loads(operator.run("status", "--json", "--run-dir", tmp_path).stdout)["here"] is None


def test_status_shows_the_instance_here_when_the_store_is_away(instance):
    version = instance.operator.versions()[0]["version"]
    away = {"DATABASE_URL": "postgresql://user:db-canary@127.0.0.1:9/none", "REDIS_URL": "unix:/nonexistent"}
    done = instance.operator.run("status", "--run-dir", instance.gateway.run_dir, **away)
    assert done.returncode == 1 and "db-canary" not in done.stdout + done.stderr
    first, here = done.stdout.splitlines()
    assert first.startswith("store: postgres, ") and here.split("\t")[2] == version


# A health socket that misbehaves costs a sentence, and never more than its timeout.
ODD_PEERS = {
    "silence": (None, "has not answered within 2000 ms"),
    "an early end": (b"", "has not answered with a whole reply"),
    "half a record": (b"\x01\x06\x00\x01\x00\x10\x00\x00half", "has not answered with a whole reply"),
    "another protocol": (b"HTTP/1.1 200 OK\r\n\r\n{}", "has not answered with a whole reply"),
    "no head": (record(STDOUT, b"{}") + record(END_REQUEST, bytes(8)), "does not answer as a health socket does"),
    "a refusal": (record(STDOUT, b"Status: 404 Not Found\r\n\r\n{}") + record(END_REQUEST, bytes(8)), "status 404"),
    "no JSON": (record(STDOUT, b"Status: 200 OK\r\n\r\n<p>") + record(END_REQUEST, bytes(8)), "is not JSON"),
    "a flood": (record(STDOUT, b"x" * 65000) * 80, "answers with more than 4194304 bytes"),
}


@pytest.mark.parametrize("words, message", ODD_PEERS.values(), ids=ODD_PEERS)
def test_a_health_socket_that_misbehaves_is_a_finding(tmp_path, words, message):
    operator = Operator(tmp_path, Directory(tmp_path / "state"))
    operator.put(document(m=[upstream(key(operator))]))

    def answer():
        peer, _ = listener.accept()
        with peer:
            peer.recv(4096)
            if words is None:
                is_over.wait(10)
            else:
                with contextlib.suppress(OSError):
                    peer.sendall(words)

    is_over = threading.Event()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "health.sock"))
        listener.listen()
        thread = threading.Thread(target=answer)
        thread.start()
        begun = time.monotonic()
        done = operator.run("status", "--run-dir", tmp_path)
        assert time.monotonic() - begun < 4
        is_over.set()
        thread.join()
    assert done.returncode == 1 and message in done.stdout

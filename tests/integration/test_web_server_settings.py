"""What a setting of a shipped configuration is for: with it, and without it."""

import contextlib
import os
import re
import shutil
import signal
import threading
import time

import pytest

import chat
from front_ends import WEB_SERVERS
from processes import ROOT, Process, program, wait_until
from scripts import answer, data, hang, head, pause
from test_process import _child_with_connection_to
from tree import Tree, hostile, model
from web_servers import CALLER, REWRITTEN, SHIPPED

NOTICED_S = 0.7  # 200 ms are promised
BEAT_MS = 300

each = pytest.mark.parametrize("front_end", WEB_SERVERS)


def tree(**members):
    return Tree(model("m", hostile("a", "k1"), **members))


# Who leaves in silence

@each
def test_a_caller_whose_address_is_rewritten_is_waited_for(start_gateway, front_end):
    gateway = start_gateway(tree(), front_end=front_end, edits=REWRITTEN[front_end], workers=2)
    gateway.script("m", "k1", [pause(0.4), *answer(200, chat.completion())])
    assert gateway.chat("m", headers=CALLER).status == 200


# front end, what is changed, whether it says that its client has left
TELLERS = [
    ("lighttpd", [], True),
    ("lighttpd", [('"tcp-fin-propagate" => "enable"', '"tcp-fin-propagate" => "disable"')], False),
    ("nginx", [], True),
    ("nginx", [("fastcgi_ignore_client_abort off", "fastcgi_ignore_client_abort on")], False),
    ("Apache", [], False),
    ("Caddy", [], False),
]


def seconds_until_noticed(gateway, **headers):
    """From a clean close in the silence of a stream; None: it was not, for a while."""
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()])
    call = gateway.begin("m", stream=True, headers=CALLER | headers)
    call.read_until("Hello")
    record = gateway.upstream.records[-1]
    left = call.close()
    try:
        return record.wait_closed(1.0) - left
    except AssertionError:
        return None


@pytest.mark.parametrize("front_end, edits, tells", TELLERS)
def test_whether_a_web_server_itself_tells_of_a_client_that_left(start_gateway, front_end, edits, tells):
    quiet = tree(heartbeatMs=0)
    gateway = start_gateway(quiet, front_end=front_end, edits=[*edits, *REWRITTEN[front_end]], workers=2)
    noticed = seconds_until_noticed(gateway)
    assert (noticed is not None and noticed < NOTICED_S) == tells, noticed
    gateway.router.signal(signal.SIGINT)  # Apache ends late while it waits for a reply


@each
def test_on_the_same_machine_we_see_it_for_ourselves(start_gateway, front_end):
    """Whatever port the client says that it asks."""
    gateway = start_gateway(tree(heartbeatMs=0), front_end=front_end, workers=2)
    assert seconds_until_noticed(gateway, host="localhost:9") < NOTICED_S


@pytest.mark.parametrize("front_end", ["Apache", "Caddy"])
def test_where_nobody_tells_heartbeats_find_it_out(start_gateway, front_end):
    """Apache by the second one that it cannot send, Caddy some later."""
    beating = tree(heartbeatMs=BEAT_MS)
    gateway = start_gateway(beating, front_end=front_end, edits=REWRITTEN[front_end], workers=2)
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()])
    call = gateway.begin("m", stream=True, headers=CALLER)
    call.read_until("Hello")
    record = gateway.upstream.records[-1]
    left = call.close()
    assert record.wait_closed(10) - left < 6 * BEAT_MS / 1000 + NOTICED_S
    assert gateway.event(call)["end"] == "client_gone"


# A worker that dies


@each
def test_a_stream_of_a_killed_worker_does_not_look_whole(start_gateway, upstream, front_end):
    gateway = start_gateway(tree(), front_end=front_end, workers=2)
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()])
    call = gateway.begin("m", stream=True)
    call.read_until("Hello")
    os.kill(_child_with_connection_to(gateway, upstream.port), signal.SIGKILL)
    reply = call.reply()
    assert b"[DONE]" not in reply.body
    assert not reply.is_whole


@each
def test_a_request_of_a_killed_worker_is_an_error(start_gateway, upstream, front_end):
    gateway = start_gateway(tree(), front_end=front_end, workers=2)
    gateway.script("m", "k1", [hang()])
    call = gateway.begin("m")
    gateway.upstream.wait_record()
    os.kill(_child_with_connection_to(gateway, upstream.port), signal.SIGKILL)
    assert call.reply().status >= 500
    assert len(gateway.upstream.records) == 1, "what may have been paid for is not asked again"


# Deadlines

OWN_DEADLINES = {"nginx": ("7200s", "1s"), "Apache": ("timeout=7200", "timeout=1")}


@pytest.mark.parametrize("front_end", OWN_DEADLINES)
@pytest.mark.parametrize("is_shipped", [True, False], ids=["as shipped", "with a second"])
def test_it_is_this_deadline_of_the_web_servers_that_lies_above_ours(start_gateway, front_end, is_shipped):
    edits = [] if is_shipped else [OWN_DEADLINES[front_end]]
    gateway = start_gateway(tree(), front_end=front_end, edits=edits, workers=2)
    gateway.script("m", "k1", [pause(1.5), *answer(200, chat.completion())])
    assert (gateway.chat("m").status == 200) == is_shipped


# Connections that are kept

# What asks for it, and the statuses that callers may get: Apache sends some into a connection that closes.
KEPT = {
    "nginx": ([("fastcgi_keep_conn off", "fastcgi_keep_conn on"),
               ("upstream llm-router {", "upstream llm-router {\n    keepalive 8;")], {200}),
    "Apache": ([("disablereuse=on", "enablereuse=on")], {200, 503}),
}  # fmt: skip


@pytest.mark.parametrize("front_end", KEPT)
def test_connections_that_a_web_server_would_keep_hold_no_worker(start_gateway, front_end):
    """One carries one request, whatever was asked for: nobody waits for another one on it."""
    edits, allowed = KEPT[front_end]
    gateway = start_gateway(tree(), front_end=front_end, edits=edits, workers=2)
    gateway.script("m", "k1", answer(200, chat.completion()))
    statuses = [gateway.chat("m").status for _ in range(100)]
    with _callers(gateway, 4) as statuses_of_many:
        time.sleep(0.5)
    statuses += statuses_of_many
    assert 200 in statuses and set(statuses) <= allowed, set(statuses)
    wait_until(lambda: {worker["stage"] for worker in gateway.status()["workers"]} == {"idle"}, "no worker is held", 3)


# Several instances

SECOND = {
    "lighttpd": [('"/v1" => ( var.router )', '"/v1" => ( var.router, ( "socket" => env.LLM_ROUTER_RUN_DIR + '
                  '"-2/llm-router.sock", "check-local" => "disable", "disable-time" => 0 ) )')],
    "nginx": [("# server unix:", "server unix:")],
    "Apache": [("# BalancerMember", "BalancerMember")],
    "Caddy": [("# to unix/", "to unix/")],
}  # fmt: skip


@contextlib.contextmanager
def _callers(gateway, count):
    """So many callers ask all the time; the statuses they got."""
    statuses, is_over = [], threading.Event()

    def ask():
        while not is_over.is_set():
            statuses.append(gateway.chat("m").status)

    threads = [threading.Thread(target=ask) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield statuses
    finally:
        is_over.set()
        for thread in threads:
            thread.join(30)


def _start_second(gateway):
    """Another instance with the same configuration and a run directory of its own."""
    run_dir, state_dir = gateway.front.second_run_dir, gateway.folder / "state-2"
    run_dir.mkdir(exist_ok=True)
    if not state_dir.exists():
        shutil.copytree(gateway.state_dir / "configkv", state_dir / "configkv")
    gateway.front.admit_to(run_dir)
    second = Process(
        [program("llm-router"), "--listen", f"unix:{run_dir}/llm-router.sock", "--workers", "4"],
        gateway.environment() | {"LLM_ROUTER_RUN_DIR": str(run_dir), "LLM_ROUTER_STATE_DIR": str(state_dir)},
        gateway.folder / "second.log",
    )
    wait_until((run_dir / "llm-router.sock").exists, "the second one listens")
    return second


@each
def test_of_several_instances_one_that_is_dead_costs_nobody_a_request(start_gateway, front_end):
    gateway = start_gateway(tree(), front_end=front_end, edits=SECOND[front_end], workers=4)
    gateway.script("m", "k1", answer(200, chat.completion()))
    second = _start_second(gateway)
    try:
        with _callers(gateway, 3) as statuses:
            wait_until(lambda: _has_served(gateway), "the second one serves as well")
            second.stop()  # from here on there is no socket
            time.sleep(0.3)
        second = _start_second(gateway)
        second.signal(signal.SIGKILL)  # from here on there is one, and nobody listens
        second.wait()
        wait_until(second.group_is_empty, "its workers have ended")
        with _callers(gateway, 3) as more:
            time.sleep(0.3)
        assert set(statuses + more) == {200}, [status for status in statuses + more if status != 200]
    finally:
        second.stop()


def _has_served(gateway):
    return any(path.stat().st_size > 0 for path in (gateway.folder / "state-2" / "spool").glob("*.jsonl"))


# What the packages bring

SERVERS_OWN = {"bind", "port", "document-root", "compat-module-load", "modules", "tag", "max-connections", "max-fds", "max-read-idle"}


def lighttpd_settings(path):
    """server.*, and what is said of sockets: each name with its values."""
    text = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))
    found = re.findall(r'^ *server\.([a-z-]+) *:?= *(.*)$|"([a-z-]+)" => ("[a-z]+"|\d+)', text, re.MULTILINE)
    rows = {(server or member, value or word) for server, value, member, word in found}
    return {name: {value for key, value in rows if key == name} for name, _ in rows}


@pytest.mark.parametrize("name", ["90-llm-router.conf", "90-llm-router-admin.conf"])
def test_what_the_packages_set_for_lighttpd_is_what_is_tested(name):
    tested = lighttpd_settings(SHIPPED / "lighttpd.conf")
    wanted = {key: values for key, values in tested.items() if key not in SERVERS_OWN}
    assert {"max-request-size", "max-request-field-size", "tcp-fin-propagate"} <= wanted.keys()
    assert lighttpd_settings(ROOT / "debian" / "lighttpd" / name) == wanted

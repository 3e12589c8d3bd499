"""What one worker has shaken hands for with an upstream, the others resume."""

import ssl

import pytest

import chat
from scripts import answer, data, hang, head
from tree import Tree, elsewhere, model
from upstream import TlsPort

WORKERS = 5
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}

versions = pytest.mark.parametrize("version", VERSIONS)


@pytest.fixture
def context(authority, version):
    """A context of the upstream's, with ticket keys of its own each time."""

    def make():
        context = authority.server()
        context.minimum_version = context.maximum_version = VERSIONS[version]
        return context

    return make


@pytest.fixture
def port(upstream, context):
    port = TlsPort(upstream, context())
    yield port
    port.stop()


@pytest.fixture
def gateway(start_gateway, authority, port):
    tree = Tree(model("m", elsewhere(port.base_url("a"), "a", "k1")))
    gateway = start_gateway(tree, workers=WORKERS, flags=["--ca-file", str(authority.file)])
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()])
    yield gateway
    gateway.assert_unbroken()


def hold_another(gateway):
    """A stream that stays with its worker, so that the next one is another worker's, who has no
    connection. Tickets come before its first event."""
    call = gateway.begin("m", stream=True)
    call.read_until("Hello")
    return call


@versions
def test_what_one_worker_has_shaken_hands_for_the_others_resume(gateway, upstream):
    calls = [hold_another(gateway) for _ in range(WORKERS)]
    assert len({record.connection for record in upstream.records}) == WORKERS
    assert [record.is_resumed for record in upstream.records] == [False] + [True] * (WORKERS - 1)
    for n, call in enumerate(calls):
        call.close()
        (attempt,) = gateway.event(call)["attempts"]
        assert attempt["tls_us"] > attempt["connect_us"] > 0 and not attempt["reused"]
        assert attempt.get("resumed", False) == (n > 0), attempt


@versions
def test_an_upstream_whose_ticket_keys_are_new_serves_and_is_resumed_under_them(gateway, port, context, upstream):
    calls = [hold_another(gateway) for _ in range(2)]
    port.serve_with(context())
    calls += [hold_another(gateway) for _ in range(3)]
    assert [record.is_resumed for record in upstream.records][:3] == [False, True, False]
    # What is left of the old tickets is refused, once each.
    assert upstream.records[4].is_resumed, [record.is_resumed for record in upstream.records]
    for call in calls:
        call.close()
        (attempt,) = gateway.event(call)["attempts"]
        assert "error" not in attempt, attempt


@versions
def test_a_worker_begins_with_the_sessions_of_those_that_have_left(start_gateway, authority, port, upstream):
    tree = Tree(model("m", elsewhere(port.base_url("a"), "a", "k1")))
    flags = ["--ca-file", str(authority.file), "--max-requests", "1"]
    gateway = start_gateway(tree, workers=1, flags=flags)
    gateway.script("m", "k1", answer(200, chat.completion()))
    for _ in range(4):
        assert gateway.chat("m").status == 200
    assert [record.is_resumed for record in upstream.records] == [False, True, True, True]
    gateway.assert_unbroken()

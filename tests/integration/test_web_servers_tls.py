"""The same over TLS and HTTP/2: with curl, and with two streams of one connection."""

import json
import os
import subprocess
import time

import pytest

import chat
from authority import Authority
from processes import ROOT, KeptPort, Process, wait_until
from scripts import JSON, close, data, end, hang, head, pause
from tree import Tree, hostile, model
from web_servers import edited

TREE = Tree(model("m", hostile("a", "k1")), model("other", hostile("b", "k1")))
NOTICED_S = 0.7  # 200 ms are promised


class Secure:
    """An address with https, and who vouches for it."""

    def __init__(self, gateway, port, authority):
        self.url = f"https://127.0.0.1:{port}"
        self.ca_file = str(authority.file)
        self._gateway = gateway

    def curl(self, model_name, stream, *flags):
        """A curl under way, whose output comes as it is received."""
        lines = [f"authorization: Bearer {self._gateway.caller_key}", "content-type: application/json"]
        headers = [part for line in lines for part in ("-H", line)]
        body = json.dumps(chat.request(model_name, stream))
        command = ["curl", "-sSN", "--http2", "--max-time", "4", "--cacert", self.ca_file, *headers, *flags, "--data", body]
        return subprocess.Popen([*command, f"{self.url}/v1/chat/completions"], stdout=subprocess.PIPE)

    def answers(self):
        command = ["curl", "-sf", "-o", "/dev/null", "--cacert", self.ca_file, f"{self.url}/livez"]
        return subprocess.run(command, check=False).returncode == 0


@pytest.fixture
def secure(gateway, tmp_path):
    if hasattr(gateway.front, "tls_port"):
        yield Secure(gateway, gateway.front.tls_port, gateway.front.authority)
        return
    port, authority = KeptPort(), Authority(tmp_path, "front")
    certificate = str(authority.server_file())
    environment = {
        "PORT": str(port.number),
        "LLM_ROUTER_CERTIFICATE": certificate,
        "LLM_ROUTER_CERTIFICATE_KEY": certificate,
    }
    shipped, conf = ROOT / "lighttpd", tmp_path / "tls.conf"
    conf.write_text((shipped / "tls.conf").read_text())
    included = edited(shipped / "lighttpd.conf", [("/llm-router.sock", f"/{gateway.front.socket_name}")])
    (tmp_path / "lighttpd.conf").write_text(included)
    lighttpd = Process(["lighttpd", "-D", "-f", str(conf)], gateway.environment() | environment, tmp_path / "tls.log")
    beside = Secure(gateway, port.number, authority)
    try:
        wait_until(beside.answers, "lighttpd answers over TLS")
        yield beside
    finally:
        lighttpd.stop()
        port.close()


def read_until(stream, mark):
    received = b""
    while mark not in received:
        piece = os.read(stream.fileno(), 65536)
        assert piece, f"it ended before {mark!r}: {received!r}"
        received += piece
    return received


def test_a_stream_comes_as_it_is_made(gateway, secure):
    gateway.script("m", "k1", [head(), data(chat.HELLO), pause(2.0), data(chat.FINISH), data(chat.DONE), end()])
    begun = time.monotonic()
    curl = secure.curl("m", True, "-w", "%{http_version}")
    received = read_until(curl.stdout, b"Hello")
    assert time.monotonic() - begun < 1.9
    received += curl.stdout.read()
    assert curl.wait(10) == 0
    assert received.decode() == chat.HELLO + chat.FINISH + chat.DONE + "2"


def test_who_hangs_up_in_silence_closes_the_upstream(gateway, secure):
    gateway.script("m", "k1", [head(), data(chat.HELLO), hang()])
    curl = secure.curl("m", True)
    read_until(curl.stdout, b"Hello")
    time.sleep(0.1)
    left = time.monotonic()
    curl.kill()
    curl.wait(10)
    assert gateway.upstream.records[0].wait_closed() - left < NOTICED_S


def test_a_reply_that_was_cut_is_an_error_of_curls(gateway, secure):
    gateway.script("m", "k1", [head(200, JSON), data(chat.completion("x" * 2_000_000)[:-100]), pause(0.2), close()])
    curl = secure.curl("m", False)
    curl.stdout.read()
    assert curl.wait(10) in (18, 56, 92), "a partial file, a broken connection, a stream that was reset"


def two_streams(gateway, secure):
    """Of one connection: the first is cancelled after its first word."""
    gateway.script("m", "k1", [head(), data(chat.HELLO), pause(3.0), close()])
    gateway.script("other", "k1", [head(), data(chat.HELLO), pause(2.0), data(chat.FINISH), data(chat.DONE), end()])
    return subprocess.Popen(
        ["timeout", "20", "node", str(ROOT / "tests/integration/node/two_streams.mjs"), secure.url, gateway.caller_key, "m", "other"],
        env=os.environ | {"NODE_EXTRA_CA_CERTS": secure.ca_file},
        stdout=subprocess.PIPE,
    )


def test_who_cancels_one_stream_of_a_connection_goes_on_with_the_other(gateway, secure):
    node = two_streams(gateway, secure)
    *_, line = node.stdout.read().decode().splitlines()
    assert node.wait(10) == 0
    other = json.loads(line)
    assert (other["status"], other["failure"]) == (200, None)
    assert other["text"] == chat.HELLO + chat.FINISH + chat.DONE


def test_who_cancels_one_stream_of_a_connection_closes_its_upstream(gateway, secure):
    node = two_streams(gateway, secure)
    read_until(node.stdout, b"cancelled")
    left = time.monotonic()
    try:
        (cancelled,) = [record for record in gateway.upstream.records if record.path.startswith("/a/")]
        assert cancelled.wait_closed(1.5) - left < NOTICED_S
    finally:
        node.kill()
        node.wait(10)

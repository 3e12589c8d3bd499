"""Every provider's failures in its own words (tests/data/signatures.json), over a
real connection: a caller with a second, living upstream never sees them."""

import json
from pathlib import Path

import pytest

import chat
from scripts import SSE, answer, stream
from tree import Tree, hostile, model

VECTORS = json.loads((Path(__file__).parents[1] / "data" / "signatures.json").read_text())
PROVIDERS = sorted({vector["provider"] for vector in VECTORS})


def model_of(provider):
    named = {"provider": provider} if provider else {}
    return model(f"of-{provider}", hostile("a", "k1", **named), hostile("b", "k2", provider="living"))


TREE = Tree(*map(model_of, PROVIDERS))


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_a_providers_failure_is_understood(gateway, vector):
    name = f"of-{vector['provider']}"
    is_stream = vector["in_band"] and vector["body"].lstrip().startswith(("data:", "event:", ":"))
    headers = {"content-type": "application/json"} | {k.lower(): v for k, v in vector["headers"].items()}
    if is_stream:
        headers |= SSE
    gateway.script(name, "k1", answer(vector["status"], vector["body"], headers))
    gateway.script(name, "k2", stream(*chat.GOOD_STREAM) if is_stream else answer(200, chat.completion("living")))
    reply = gateway.chat(name, is_stream)
    event = gateway.event(reply)
    assert event["attempts"][0]["verdict"] == vector["verdict"], event["attempts"][0]
    if vector["verdict"] == "client" and vector["proven"]:
        assert len(gateway.upstream.records) == 1, "the caller's mistake was tried elsewhere"
        if not vector["in_band"]:
            assert (reply.status, reply.body) == (vector["status"], vector["body"].encode())
    elif vector["verdict"] == "other":
        assert reply.status == 502
    else:
        assert reply.status == 200, reply

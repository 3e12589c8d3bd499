"""What tests of maxConcurrency ask and look at."""

from scripts import answer
from speech import MP3, audio
from tree import Tree, hostile, speaker

SPOKEN = answer(200, audio(2000), MP3)
CODES = {"/v1": "tts_pool_saturated", "/api/v1/openai": "TTS_POOL_SATURATED"}
METRIC = "airi_gen_ai_gateway_pool_"

_count = 0


def fresh(name):
    """Marks of saturation outlive a tree: each test has models of its own."""
    global _count
    _count += 1
    return f"{name}-{_count}"


def slots(name, capacity, *keys, **members):
    """An upstream with so many slots; None: without limit."""
    limit = {} if capacity is None else {"maxConcurrency": capacity}
    return hostile(name, *(keys or (f"k-{name}",)), **limit, **members)


def spoken_by(name, *upstreams, **members):
    return Tree(speech=[speaker(name, "openai", *upstreams, **members)])


def use_speech(gateway, *upstreams, **members):
    """A model of speech of these upstreams: its name."""
    name = fresh("say")
    gateway.use(spoken_by(name, *upstreams, **members))
    return name


def pool_of(event):
    (row,) = [row for row in event["admission"] if row["meter"] == "pool"]
    return row


def tried(event):
    return [attempt["upstream"] for attempt in event["attempts"]]


def skipped(event):
    return {row["upstream"]: row["reason"] for row in event.get("decision", {}).get("candidates", [])}


def app_id(model_name, upstream):
    """The label, as Prometheus writes it."""
    return f'app_id="model:[\\"{model_name}\\",\\"id\\",\\"{upstream}\\"]"'


def pool_metrics(gateway, name, label):
    return [value for line, value in gateway.metrics().items() if line.startswith(METRIC + name) and label in line]


def counter(gateway, name, label):
    (value,) = pool_metrics(gateway, name, label)
    return value


def hold(gateway, name, n=1):
    """Requests of speech that have a slot, and keep it if the upstream hangs: their calls."""
    before = len(gateway.upstream.records)
    calls = []
    for _ in range(n):
        calls.append(gateway.speak(name))
        gateway.upstream.wait_record(before + len(calls))
    return calls


def leave(gateway, calls):
    """Their callers leave, and the slots are back: the events."""
    for call in calls:
        call.close()
    return [gateway.event(call) for call in calls]


def in_stage(gateway, *stages):
    return sum(worker["stage"] in stages for worker in gateway.status()["workers"])


def assert_saturated(gateway, reply, mount, name, pools, retry_after="1"):
    assert reply.status == 503 and reply.headers["retry-after"] == retry_after, reply
    body = reply.json()
    error = body if mount == "/api/v1/openai" else body["error"]
    assert (error["error"] if mount == "/api/v1/openai" else error["code"]) == CODES[mount]
    assert error["details"] == {"modelName": name, "pools": pools}
    event = gateway.event(reply)
    assert event["attempts"] == [] and event["code"] == "tts_pool_saturated" and event["end"] == "error_before"
    row = pool_of(event)
    assert (row["held"], row["settled"], row["result"]) == (0, 0, "refused"), row
    return event

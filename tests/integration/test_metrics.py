"""What a request moves in /metrics, exactly; and which series there are."""

import json
import secrets
import time

import pytest

import chat
from metrics import Q, key_id, label_of, moved, parse, read_page, select, series
from processes import wait_until
from scripts import JSON, answer, close, data, end, hang, head, pause
from tree import Tree, hostile, model, refused, speaker

PROVIDER = "127.0.0.1"
OTHER = "_other"

TREE = Tree(
    model("one", hostile("a", "k1")),
    model("two-keys", hostile("a", "k1", "k2")),
    model("three-keys", hostile("a", "k1", "k2", "k3")),
    model("two-upstreams", hostile("a", "k1", "k2"), hostile("b", "k3")),
    model("refused-first", refused("a", "k1"), hostile("b", "k2")),
    speech=[speaker("voice", "openai", hostile("s", "k1"))],
    perAttemptTimeoutMs=1500,
)

GOOD = [head(), *[data(event) for event in (chat.ROLE, chat.HELLO, chat.WORLD, chat.FINISH)],
        data(chat.usage_event()), data(chat.DONE), end()]


def rate_limited():
    return answer(429, json.dumps(chat.error("Slow down.", "rate_limit_error")), JSON)


def unauthorized():
    return answer(401, json.dumps(chat.error("No such key.", "invalid_request_error", "invalid_api_key")), JSON)


def requests(surface, model_name, status):
    return series(f"{Q}requests_total", surface=surface, model=model_name, status_code=status)


def overhead(surface="chat"):
    return series(f"{Q}overhead_duration_seconds_count", surface=surface)


def attempts(verdict, provider=PROVIDER):
    return series(f"{Q}attempts_total", provider=provider, verdict=verdict)


def depth(what, surface="chat"):
    return series(f"{Q}fallback_depth_{what}", surface=surface)


def errors(gateway, model_name, key, status):
    return series(
        f"{Q}upstream_errors_total", provider=PROVIDER, key_id=key_id(gateway, model_name, key), status_code=status
    )


def fell_back(gateway, model_name, key, reason, scope):
    fingerprint = key_id(gateway, model_name, key)
    return series(f"{Q}fallback_count_total", provider=PROVIDER, from_key=fingerprint, reason=reason, scope=scope)


def exhausted(status, surface="chat"):
    return series(f"{Q}key_exhausted_count_total", provider=PROVIDER, status_code=status, surface=surface)


def genai(name, model_name, operation="chat", provider=PROVIDER, **more):
    labels = {
        "gen_ai_operation_name": operation,
        "gen_ai_provider_name": provider,
        "gen_ai_request_model": model_name,
    }
    return series(f"gen_ai_{name}", **labels, **more)


def took(model_name, *errors_of_attempts, error=None, **labels):
    """One request's durations: an attempt for each error type, None for one that answered."""
    found = {}
    for of_attempt in errors_of_attempts:
        more = {} if of_attempt is None else {"error_type": of_attempt}
        name = genai("client_operation_duration_seconds_count", model_name, **labels, **more)
        found[name] = found.get(name, 0) + 1
    more = {} if error is None else {"error_type": error}
    found[genai("server_request_duration_seconds_count", model_name, **labels, **more)] = 1
    return found


def tokens(model_name, given=7, taken=3):
    return {
        genai("client_token_usage_count", model_name, gen_ai_token_type="input"): 1,
        genai("client_token_usage_sum", model_name, gen_ai_token_type="input"): given,
        genai("client_token_usage_count", model_name, gen_ai_token_type="output"): 1,
        genai("client_token_usage_sum", model_name, gen_ai_token_type="output"): taken,
    }


# What a request moves


def test_ae1_a_rate_limited_key_is_one_fallback_of_depth_one(gateway):
    gateway.script("two-keys", "k1", rate_limited())
    gateway.script("two-keys", "k2", GOOD)
    before = gateway.metrics()
    assert gateway.chat("two-keys", stream=True).status == 200
    assert moved(before, gateway.metrics()) == {
        requests("chat", "two-keys", "200"): 1,
        fell_back(gateway, "two-keys", "k1", "429", "key"): 1,
        depth("count"): 1,
        depth("sum"): 1,
        attempts("rate"): 1,
        attempts("ok"): 1,
        errors(gateway, "two-keys", "k1", "429"): 1,
        overhead(): 1,
        genai("server_time_to_first_token_seconds_count", "two-keys"): 1,
        genai("server_time_per_output_token_seconds_count", "two-keys"): 1,
        **took("two-keys", "_OTHER", None),
        **tokens("two-keys"),
    }


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
def test_ae2_an_exhausted_chain_is_one_exhaustion_by_the_last_failure(gateway, stream):
    gateway.script("three-keys", "k1", rate_limited())
    gateway.script("three-keys", "k2", unauthorized())
    gateway.script("three-keys", "k3", unauthorized())
    before = gateway.metrics()
    assert gateway.chat("three-keys", stream=stream).status == 502
    expected = {
        requests("chat", "three-keys", "502"): 1,
        fell_back(gateway, "three-keys", "k1", "429", "key"): 1,
        exhausted("401"): 1,
        depth("count"): 1,
        depth("sum"): 2,
        attempts("rate"): 1,
        attempts("auth"): 2,
        errors(gateway, "three-keys", "k1", "429"): 1,
        errors(gateway, "three-keys", "k2", "401"): 1,
        errors(gateway, "three-keys", "k3", "401"): 1,
        overhead(): 1,
        **took("three-keys", "_OTHER", "_OTHER", "_OTHER", error="_OTHER"),
    }
    if stream:
        expected[series(f"{Q}stream_interrupted_total", stage="before_first_chunk")] = 1
    assert moved(before, gateway.metrics()) == expected


def test_a_later_upstream_that_answers_makes_no_exhaustion(gateway):
    gateway.script("refused-first", "k2", answer(200, chat.completion()))
    before = gateway.metrics()
    assert gateway.chat("refused-first").status == 200
    after = moved(before, gateway.metrics())
    assert not [one for one in after if "exhausted" in one], after
    assert after[fell_back(gateway, "refused-first", "k1", "connect", "upstream")] == 1
    assert after[errors(gateway, "refused-first", "k1", "connect")] == 1


REFUSED = {
    "no such model": (lambda gateway: gateway.chat("no-such-model"), "chat", "404"),
    "no JSON": (lambda gateway: gateway.post(b"{"), "chat", "400"),
    "no key": (lambda gateway: gateway.chat("one", key="no-such-key"), "chat", "401"),
    "no such method": (lambda gateway: gateway.get("/v1/chat/completions"), "chat", "405"),
    "no such path": (lambda gateway: gateway.get("/v1/no-such-path"), OTHER, "404"),
    "no such mount's model": (lambda gateway: gateway.chat("none", mount="/api/v1/openai"), "chat", "400"),
    "no such voice's model": (lambda gateway: gateway.get("/v1/audio/voices?model=none"), "voices", "404"),
}


@pytest.mark.parametrize("ask, surface, status", REFUSED.values(), ids=REFUSED)
def test_ae3_what_is_refused_is_a_request_and_nothing_else(gateway, ask, surface, status):
    before = gateway.metrics()
    assert str(ask(gateway).status) == status
    assert moved(before, gateway.metrics()) == {requests(surface, OTHER, status): 1, overhead(surface): 1}


def test_ae7_a_chain_over_two_upstreams_is_one_fallback_of_its_whole_depth(gateway):
    gateway.script("two-upstreams", "k1", [hang()])
    gateway.script("two-upstreams", "k2", rate_limited())
    gateway.script("two-upstreams", "k3", answer(200, chat.completion()))
    before = gateway.metrics()
    assert gateway.chat("two-upstreams").status == 200
    after = gateway.metrics()
    assert moved(before, after) == {
        requests("chat", "two-upstreams", "200"): 1,
        fell_back(gateway, "two-upstreams", "k1", "timeout", "upstream"): 1,
        depth("count"): 1,
        depth("sum"): 2,
        attempts("timeout"): 1,
        attempts("rate"): 1,
        attempts("ok"): 1,
        errors(gateway, "two-upstreams", "k1", "timeout"): 1,
        errors(gateway, "two-upstreams", "k2", "429"): 1,
        overhead(): 1,
        genai("server_time_to_first_token_seconds_count", "two-upstreams"): 1,
        **took("two-upstreams", "timeout", "_OTHER", None),
        **tokens("two-upstreams"),
    }
    spent = moved(before, after, [f"{Q}overhead_duration_seconds_sum", "gen_ai_server_request_duration_seconds_sum"])
    whole = spent[genai("server_request_duration_seconds_sum", "two-upstreams")]
    ours = spent[series(f"{Q}overhead_duration_seconds_sum", surface="chat")]
    assert 0 < ours < 0.5 * whole and whole > 1.5, "a timeout of 1.5 s is no time of ours"


def test_the_callers_own_mistake_is_no_error_of_a_key(gateway):
    bad = json.dumps(chat.error("Too long.", "invalid_request_error", "context_length_exceeded"))
    gateway.script("two-keys", "k1", answer(400, bad, JSON))
    before = gateway.metrics()
    assert gateway.chat("two-keys").status == 400
    assert moved(before, gateway.metrics()) == {
        requests("chat", "two-keys", "400"): 1,
        depth("count"): 1,
        attempts("client"): 1,
        overhead(): 1,
        **took("two-keys", "_OTHER", error="_OTHER"),
    }


def test_speech_has_its_own_surface_and_operation(gateway):
    sound = b"\xff\xf3" + bytes(2000)
    gateway.script("voice", "k1", answer(200, sound, {"content-type": "audio/mpeg"}))
    before = gateway.metrics()
    assert gateway.say("voice").status == 200
    provider = {"provider": "openai", "operation": "text_to_speech"}
    assert moved(before, gateway.metrics()) == {
        requests("speech", "voice", "200"): 1,
        depth("count", "speech"): 1,
        attempts("ok", "openai"): 1,
        overhead("speech"): 1,
        genai("server_time_to_first_token_seconds_count", "voice", **provider): 1,
        **took("voice", None, **provider),
    }


CUT = {
    "the upstream breaks off": ([head(), data(chat.ROLE), data(chat.HELLO), pause(0.1), close()], "mid_stream"),
    "the upstream says an error": (
        [head(), data(chat.ROLE), data(chat.HELLO), pause(0.1), data(chat.event(chat.error())), end()],
        "mid_stream",
    ),
    "nothing comes": ([hang()], "before_first_chunk"),
}


def test_a_key_that_does_not_decrypt_is_counted_as_that_and_as_no_error_of_an_upstreams(start_gateway):
    """Its ciphertext belongs to another key id: the additional data differs."""
    gateway = start_gateway(workers=1)
    document, marker = gateway.render(Tree(model("torn", hostile("a", "k1", "k2"))))
    document = json.loads(document)
    keys = document["llm"]["models"]["torn"]["upstreams"][0]["keys"]
    keys[0]["ciphertext"] = keys[1]["ciphertext"]
    gateway.write_entry("LLM_ROUTER_CONFIG", json.dumps(document))
    gateway.reload()
    wait_until(lambda: marker in gateway.model_names(), "the tree is in force")
    before = gateway.metrics()
    reply = gateway.chat("torn")
    assert reply.status == 503 and gateway.event(reply)["attempts"] == []
    assert moved(before, gateway.metrics()) == {
        requests("chat", "torn", "503"): 1,
        series(f"{Q}decrypt_failures_total", provider=PROVIDER): 1,
        overhead(): 1,
    }


@pytest.mark.parametrize("script, stage", CUT.values(), ids=CUT)
def test_an_interrupted_stream_is_counted_by_its_stage(gateway, script, stage):
    gateway.script("one", "k1", script)
    before = gateway.metrics()
    gateway.chat("one", stream=True)
    after = moved(before, gateway.metrics())
    assert {one: by for one, by in after.items() if "interrupted" in one} == {
        series(f"{Q}stream_interrupted_total", stage=stage): 1
    }
    status = "200" if stage == "mid_stream" else "504"
    assert after[requests("chat", "one", status)] == 1


@pytest.mark.parametrize("content, stage", [("Hello", "mid_stream"), (None, "before_first_chunk")])
def test_a_caller_who_leaves_a_stream_interrupts_it(gateway, content, stage):
    gateway.script("one", "k1", [head(), data(chat.ROLE), *([data(chat.HELLO)] if content else []), hang()])
    before = gateway.metrics()
    call = gateway.begin("one", stream=True)
    if content:
        call.read_until(content)
    else:
        gateway.upstream.wait_record()
        time.sleep(0.1)
    call.close()
    gateway.event(call)
    status = "200" if content else "none"
    wanted = {
        series(f"{Q}stream_interrupted_total", stage=stage): 1,
        requests("chat", "one", status): 1,
        attempts("cancelled"): 1,
    }

    def has_moved():
        after = moved(before, gateway.metrics())
        return wanted.items() <= after.items() and not [one for one in after if "errors" in one or "fallback_count" in one]

    wait_until(has_moved, "the departure is counted")


def test_a_whole_stream_interrupts_nothing(gateway):
    gateway.script("one", "k1", GOOD)
    before = gateway.metrics()
    assert gateway.chat("one", stream=True).body.endswith(chat.DONE.encode())
    assert not [one for one in moved(before, gateway.metrics()) if "interrupted" in one]


def test_probes_are_no_requests(gateway):
    before = gateway.metrics()
    for path in ("/livez", "/readyz", "/v1/livez", "/v1/readyz", "/status", "/metrics"):
        assert gateway.get(path, key=None).status == 200
    assert moved(before, gateway.metrics()) == {}


# Which series there are


def labels_of(metrics, label):
    return {label_of(one, label) for one in metrics} - {None}


def test_every_series_of_the_tree_is_there_as_zero_from_the_start(start_gateway):
    gateway = start_gateway(workers=1)
    document, marker = gateway.render(TREE)
    gateway.write_entry("LLM_ROUTER_CONFIG", document)
    gateway.reload()
    wait_until(lambda: gateway.status()["version"] is not None, "the tree is in force")
    metrics = gateway.metrics()
    for name, entry in json.loads(document)["llm"]["models"].items():
        for surface in ("chat", "transcription"):
            assert {value for value in select(metrics, f"{Q}requests_total", surface=surface, model=name).values()} == {0}
        for upstream in entry["upstreams"]:
            for key in upstream["keys"]:
                fingerprint = key_id(gateway, name, key["id"])
                for count, label in ((f"{Q}fallback_count_total", "from_key"), (f"{Q}upstream_errors_total", "key_id")):
                    found = select(metrics, count, **{label: fingerprint})
                    assert len(found) >= 21 and set(found.values()) == {0}, (name, key)
    for name in (
        requests("speech", "voice", "200"),
        exhausted("401"),
        attempts("ok"),
        genai("client_token_usage_count", "one", gen_ai_token_type="input"),
        genai("client_token_usage_sum", "one", gen_ai_token_type="output"),
        genai("client_operation_duration_seconds_bucket", "one", error_type="timeout", le="0.01"),
        genai("server_request_duration_seconds_count", "voice", "text_to_speech", "openai"),
        series(f"{Q}stream_interrupted_total", stage="mid_stream"),
        series(f"{Q}config_invalid_hmac_total"),
        series(f"{Q}worker_deaths_total"),
    ):
        assert metrics[name] == 0, name
    started = metrics["process_start_time_seconds"]
    assert abs(time.time() - started) < 120
    assert labels_of(metrics, "model") <= {OTHER, marker, "one", "two-keys", "three-keys", "two-upstreams",
                                           "refused-first", "voice"}


def test_nothing_that_a_caller_sends_makes_a_series(gateway):
    gateway.script("one", "k1", *[answer(status, "{}", JSON) for status in (200, 299, 402, 418, 451, 499, 599, 200)])
    for status in range(8):
        gateway.chat("one")  # what it is answered with is not the matter
    before = gateway.metrics()
    for n in range(200):
        word = secrets.token_hex(6)
        kind = n % 5
        if kind == 0:
            gateway.chat(word)
        elif kind == 1:
            gateway.get(f"/v1/{word}/{word}")
        elif kind == 2:
            method = secrets.choice(["GET", "PUT", "DELETE", "PATCH"])
            gateway.call(method, "/v1/chat/completions", key=word).reply()
        elif kind == 3:
            gateway.say(word, voice=word)
        else:
            gateway.post(chat.request("one", user=word), headers={"user-agent": word, "x-request-id": word}, key=None)
    after = gateway.metrics()
    assert after.keys() == before.keys()
    counted = moved(before, after, [f"{Q}requests_total"])
    assert sum(counted.values()) == 200 and {label_of(one, "model") for one in counted} == {OTHER}, counted


def test_a_key_that_comes_back_goes_on_counting(gateway):
    gateway.script("two-keys", "k1", rate_limited())
    gateway.script("two-keys", "k2", answer(200, chat.completion()))
    counter = fell_back(gateway, "two-keys", "k1", "429", "key")
    begun = gateway.metric(counter)
    gateway.chat("two-keys")
    without = Tree(model("two-keys", hostile("a", "k2")))
    gateway.use(without)
    try:
        assert gateway.chat("two-keys").status == 200
        assert gateway.metric(counter) == begun + 1, "what the tree no longer has can still be read"
    finally:
        gateway.use(TREE)
    gateway.chat("two-keys")
    assert gateway.metric(counter) == begun + 2


def test_a_reload_is_counted_by_its_source_and_once(gateway):
    def reloads():
        return {
            label_of(one, "source"): value for one, value in select(gateway.metrics(), f"{Q}config_reload_total").items()
        }

    gateway.settle()
    before = reloads()
    assert set(before) == {"ttl", "file", "pubsub", "reconnect", "signal"}
    gateway.reload()
    wait_until(lambda: reloads()["signal"] == before["signal"] + 1, "the reload is counted")
    time.sleep(1.2)  # the keeper looks once a second
    assert {source: n - before[source] for source, n in reloads().items() if n != before[source]} == {"signal": 1}
    instance = gateway.status()["instance"]
    assert labels_of(select(gateway.metrics(), f"{Q}config_reload_total"), "service_instance_id") == {instance}


def test_the_version_in_force_is_a_label(gateway):
    info = select(gateway.metrics(), f"{Q}config_info")
    assert list(info.values()) == [1]
    assert label_of(next(iter(info)), "version") == gateway.status()["version"]
    age = next(iter(select(gateway.metrics(), f"{Q}config_version_age_seconds").values()))
    assert 0 < age < 3600


def test_metrics_are_there_while_every_worker_is_busy(start_gateway):
    """And stays so: what waits for a worker is shed after a second."""
    gateway = start_gateway(Tree(model("m", hostile("a", "k1"))), workers=2)
    gateway.script("m", "k1", [hang()])
    calls = [gateway.begin("m") for _ in range(2)]
    gateway.upstream.wait_record(2)
    metrics = gateway.metrics()
    assert metrics[series(f"{Q}workers", state="waiting")] == 2
    for call in calls:
        call.close()


def test_who_is_shed_is_counted_by_the_surface_that_was_asked(start_gateway):
    gateway = start_gateway(
        Tree(model("m", hostile("a", "k1"))), workers=1, flags=["--queue-timeout-ms", "60"]
    )
    gateway.script("m", "k1", [hang()])
    call = gateway.begin("m")
    gateway.upstream.wait_record()
    before = gateway.metrics()
    assert [gateway.chat("m").status for _ in range(3)] == [503] * 3
    assert gateway.say("m").status == 503
    assert gateway.get("/v1/models").status == 503
    assert gateway.get("/v1/no-such-path").status == 503
    assert moved(before, gateway.metrics()) == {
        f"{Q}overflow_count_total": 6,
        requests("chat", OTHER, "503"): 3,
        requests("speech", OTHER, "503"): 1,
        requests("models", OTHER, "503"): 1,
        requests(OTHER, OTHER, "503"): 1,
    }
    call.close()


# Large trees


def many_models(gateway, count):
    """A document of so many models that share one credential."""
    ciphertext = gateway.ctl("encrypt", "--credential", "shared", given="sk-any").strip()
    upstream = {"id": "a", "baseURL": gateway.upstream.base_url("a"), "keys": [{"id": "k", "credential": "shared"}]}
    models = {f"model-{n:05}": {"upstreams": [upstream]} for n in range(count)}
    return json.dumps({"credentials": {"shared": {"ciphertext": ciphertext}}, "llm": {"models": models}})


def use_document(gateway, document):
    before = gateway.status()["generation"]
    gateway.write_entry("LLM_ROUTER_CONFIG", document)
    gateway.reload()
    wait_until(lambda: gateway.status()["generation"] > before, "the tree is in force", 30)


def test_of_a_huge_tree_what_finds_no_cells_counts_as_other(start_gateway):
    gateway = start_gateway(workers=1)
    gateway.upstream.bind("sk-any", answer(200, chat.completion()))
    use_document(gateway, many_models(gateway, 700))
    before = parse(read_page(gateway))
    named = {name for name in labels_of(before, "model") if name.startswith("model-")}
    assert before[f"{Q}series_lost"] > 0 and 100 < len(named) < 700
    assert [gateway.chat(name).status for name in ("model-00000", "model-00699")] == [200, 200]
    after = parse(read_page(gateway))
    assert moved(before, after, [f"{Q}requests_total", f"{Q}attempts_total"]) == {
        requests("chat", "model-00000", "200"): 1,
        requests("chat", OTHER, "200"): 1,
        attempts("ok"): 2,
    }
    use_document(gateway, many_models(gateway, 10))
    assert f"\n{Q}series_lost 0\n" in read_page(gateway)


def test_the_size_of_it_for_200_models(start_gateway, record_property):
    gateway = start_gateway(workers=1)
    use_document(gateway, many_models(gateway, 200))
    took_s = []
    for _ in range(5):
        begun = time.monotonic()
        text = read_page(gateway)
        took_s.append(time.monotonic() - begun)
    times = f"{1000 * min(took_s):.0f} to {1000 * max(took_s):.0f} ms"
    record_property("/metrics of 200 models", f"{len(parse(text))} samples, {len(text) / 1e6:.1f} MB, in {times}")

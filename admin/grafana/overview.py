"""The overview: what an operator looks at first, from callers' view down to the machine.

Counters are seen as rates or increases, quantiles come from buckets, and a gauge that says
something of one instance is shown by instance.
"""

from panels import RED, YELLOW, Panel, Row, dashboard, variable

GATEWAY = "airi_gen_ai_gateway_"
PLACE = 'job=~"$job",instance=~"$instance"'
OF_MODEL = 'model=~"$model"'
OF_PROVIDER = 'provider=~"$provider"'
OF_ROUTE = 'gen_ai_request_model=~"$model",gen_ai_provider_name=~"$provider"'
FAILED = 'status_code=~"5.."'
UNSPOILED = 'verdict=~"ok|client|cancelled"'
RATE, RANGE = "$__rate_interval", "$__range"


def select(metric, *matchers):
    return f"{metric}{{{','.join((PLACE, *matchers))}}}"


def aggregated(function, expr, by):
    return f"{function} by ({by}) ({expr})" if by else f"{function}({expr})"


def rate(metric, by="", *matchers):
    return aggregated("sum", f"rate({select(metric, *matchers)}[{RATE}])", by)


def increase(metric, by="", *matchers, over=RANGE):
    return aggregated("sum", f"increase({select(metric, *matchers)}[{over}])", by)


def gauge(function, metric, by, *matchers):
    return aggregated(function, select(metric, *matchers), by)


def quantile(q, metric, by, *matchers):
    return f"histogram_quantile({q}, {rate(f'{metric}_bucket', f'{by}, le' if by else 'le', *matchers)})"


def quantiles(metric, by, legend, *matchers):
    return [(quantile(q, metric, by, *matchers), f"p{q * 100:.0f} {legend}".strip()) for q in (0.5, 0.95, 0.99)]


def gateway_rate(name, by="", *matchers):
    return rate(f"{GATEWAY}{name}", by, *matchers)


def at_a_glance():
    requests = gateway_rate("requests_total", "", OF_MODEL)
    errors = gateway_rate("requests_total", "", OF_MODEL, FAILED)
    fallbacks, attempted = (gateway_rate(name) for name in ("fallback_count_total", "fallback_depth_count"))
    busy = gauge("sum", f"{GATEWAY}workers", "", 'state!~"free|idle"')
    workers = gauge("sum", f"{GATEWAY}workers", "", 'state!="free"')

    def stat(title, expr, unit, description, *thresholds, is_instant=False):
        return Panel(title, [(expr, "")], description, unit, "stat", 3, 4, list(thresholds), is_instant=is_instant)

    return Row("At a glance", [
        stat("Requests", requests, "reqps", "Requests that ended, per second."),
        stat("Errors", f"{errors} / {requests}", "percentunit",
             "Share of requests that were answered 5xx. See which model below.", (0.01, YELLOW), (0.05, RED)),
        stat("p95", quantile(0.95, "gen_ai_server_request_duration_seconds", "", OF_ROUTE), "s",
             "Duration of requests, of which 5 % took longer. Streams last as long as what they say."),
        stat("First token, p95", quantile(0.95, "gen_ai_server_time_to_first_token_seconds", "", OF_ROUTE), "s",
             "How long callers wait for content; failed attempts are in it.", (5, YELLOW), (15, RED)),
        stat("Fallback", f"{fallbacks} / {attempted}", "percentunit",
             "Share of requests that needed more than one attempt. Above 30 % for a quarter of an hour is a P1:"
             " see which key fails first.", (0.1, YELLOW), (0.3, RED)),
        stat("Exhausted", increase(f"{GATEWAY}key_exhausted_count_total", "", OF_PROVIDER), "short",
             "Requests in this range that failed with every key tried. One is a P0: give the model a live key.",
             (1, RED), is_instant=True),
        stat("Busy workers", f"{busy} / {workers}", "percentunit",
             "Near 100 % connections wait, and are turned away after a second: more workers.",
             (0.7, YELLOW), (0.9, RED)),
        stat("Instances", f"{gauge('count', f'{GATEWAY}config_generation', '')} or vector(0)", "short",
             "How many instances answer Prometheus. 0 is a P0.", is_instant=True),
    ])


def traffic():
    return Row("Traffic", [
        Panel("Requests by model", [(gateway_rate("requests_total", "model", OF_MODEL), "{{model}}")],
              "Requests that ended, by the model that served; “_other” had none. A model that stopped has lost its"
              " callers, or is called by another name.", "reqps", is_stacked=True),
        Panel("Requests by surface", [(gateway_rate("requests_total", "surface", OF_MODEL), "{{surface}}")],
              "Chat, speech, transcriptions, and lists of models and voices.", "reqps", is_stacked=True),
        Panel("Requests by status", [(gateway_rate("requests_total", "status_code", OF_MODEL) + " > 0",
                                      "{{status_code}}")],
              "What callers were sent; “none” left before, or their worker died. 401: callers' keys; 404: models'"
              " names; 429: their limits; 502, 503, 504: upstreams, see below.", "reqps", is_stacked=True),
        Panel("Error ratio by model",
              [(f"{gateway_rate('requests_total', 'model', OF_MODEL, FAILED)}"
                f" / {gateway_rate('requests_total', 'model', OF_MODEL)}", "{{model}}")],
              "Share of 5xx. One model: its upstreams and keys. All: this gateway, or the network.", "percentunit",
              thresholds=[(0.05, RED)]),
        Panel("Interrupted streams", [(gateway_rate("stream_interrupted_total", "stage"), "{{stage}}")],
              "Streams that did not end as they should, before or after their first content. Many after it: an"
              " upstream cuts off, or callers leave.", "reqps"),
        Panel("Tokens", [(rate("gen_ai_client_token_usage_sum", "gen_ai_token_type", OF_ROUTE),
                          "{{gen_ai_token_type}}")],
              "Tokens per second, as upstreams count them; streams that were cut are not in it.", "short"),
        Panel("Tokens by model", [(rate("gen_ai_client_token_usage_sum", "gen_ai_request_model", OF_ROUTE),
                                   "{{gen_ai_request_model}}")],
              "Tokens per second of input and output: what is paid for.", "short"),
        Panel("Tokens per request", quantiles("gen_ai_client_token_usage", "gen_ai_token_type",
                                              "{{gen_ai_token_type}}", OF_ROUTE),
              "Long inputs explain late first tokens, long outputs long requests.", "short"),
        Panel("Throttled by limit", [(gateway_rate("throttled_total", "meter"), "{{meter}}"),
                                     (gateway_rate("limits_alone_total"), "counted without Redis"),
                                     (gateway_rate("limits_uncounted_total"), "not counted at all")],
              "Requests answered 429, by the limit of their caller that was reached; events say whose. What was counted"
              " without Redis says that it does not answer: each instance lets callers have as much. What was not counted at"
              " all says that a worker is stopped.", "reqps"),
    ])


def latency():
    def of_models(title, metric, description):
        by = "gen_ai_request_model"
        return Panel(title, quantiles(metric, by, f"{{{{{by}}}}}", OF_ROUTE), description, "s")

    return Row("Latency", [
        of_models("Duration by model", "gen_ai_server_request_duration_seconds",
                  "Of requests that made an attempt, to their last byte."),
        of_models("First token by model", "gen_ai_server_time_to_first_token_seconds",
                  "From the request's start to its first content, with every attempt before it. Compare with the"
                  " attempts: what is more there is fallback."),
        of_models("Time per output token", "gen_ai_server_time_per_output_token_seconds",
                  "How fast a stream goes on after its first content: the upstream's speed."),
        Panel("Attempts by provider",
              quantiles("gen_ai_client_operation_duration_seconds", "gen_ai_provider_name",
                        "{{gen_ai_provider_name}}", OF_ROUTE),
              "Duration of each attempt at an upstream, whatever became of it. One that fails late costs more than"
              " one that fails at once: a shorter timeoutMs, or another order.", "s", width=12),
        Panel("Overhead", quantiles(f"{GATEWAY}overhead_duration_seconds", "surface", "{{surface}}"),
              "The gateway's own time, without waiting for upstream and caller: milliseconds. More says that the"
              " machine is busy.", "s", width=12),
    ])


def fallback():
    depth = f"{GATEWAY}fallback_depth"
    return Row("Fallback and errors", [
        Panel("Exhausted keys",
              [(increase(f"{GATEWAY}key_exhausted_count_total", "", OF_PROVIDER, over=RATE), "all"),
               (increase(f"{GATEWAY}key_exhausted_count_total", "provider, status_code", OF_PROVIDER, over=RATE)
                + " > 0", "{{provider}} {{status_code}}")],
              "Requests that failed with every key tried, by the last attempt. Any is a P0: give the model a live"
              " key, or another upstream.", "short", thresholds=[(1, RED)]),
        Panel("Fallback depth", [(increase(f"{depth}_bucket", "le", over=RATE), "{{le}}")],
              "Attempts beyond the first, of requests that made any. 0 is the first key. What is above 0 all the time"
              " is a dead key in front: reorder the tree.", "short", "heatmap"),
        Panel("Upstream errors by status",
              [(gateway_rate("upstream_errors_total", "status_code", OF_PROVIDER) + " > 0", "{{status_code}}")],
              "Failed attempts. 401, 402, 403: keys and accounts; 429: their limits; 5xx, timeout, connect: the"
              " upstream; “200” is an error that was said with a 200.", "reqps", is_stacked=True),
        Panel("Fallback ratio",
              [(f"{gateway_rate('fallback_count_total')} / {gateway_rate('fallback_depth_count')}", "all")],
              "Share of requests with an attempt that needed more than one. Above 30 % for a quarter of an hour is a"
              " P1.", "percentunit", thresholds=[(0.3, RED)]),
        Panel("Mean depth", [(f"{rate(f'{depth}_sum', 'surface')} / {rate(f'{depth}_count', 'surface')}",
                              "{{surface}}")],
              "Attempts too many per request. Above 0.5 over a day: what fails is tried first.", "short",
              thresholds=[(0.5, RED)]),
        Panel("Fallbacks by first failure",
              [(gateway_rate("fallback_count_total", "reason, scope", OF_PROVIDER) + " > 0",
                "{{reason}} {{scope}}")],
              "Why requests went on, and whether to another key or as far as another upstream.", "reqps",
              is_stacked=True),
        Panel("Asked beside another", [(gateway_rate("hedge_count_total", "outcome", OF_MODEL), "{{outcome}}")],
              "Requests whose first attempt was silent for hedgeAfterMs, by what became of the one beside it. More than"
              " a few in a hundred requests: hedgeAfterMs is too short. busy, no_slot: it was not made.", "reqps",
              width=24, is_stacked=True),
    ])


def upstreams():
    errors = f"{GATEWAY}upstream_errors_total"
    attempts = "attempts_total"
    return Row("Upstreams and keys", [
        Panel("Attempts by verdict", [(gateway_rate(attempts, "provider, verdict", OF_PROVIDER) + " > 0",
                                       "{{provider}} {{verdict}}")],
              "How attempts were judged. auth, quota: a key or an account; rate: its limit; server, timeout, connect:"
              " the upstream; config: the tree; client: the caller's own mistake; cancelled: the caller left, or another"
              " attempt beside it answered, which outcomes of hedges count (won, lost).", "reqps", is_stacked=True),
        Panel("Good attempts by provider",
              [(f"{gateway_rate(attempts, 'provider', OF_PROVIDER, UNSPOILED)}"
                f" / {gateway_rate(attempts, 'provider', OF_PROVIDER)}", "{{provider}}")],
              "Share of attempts that no upstream spoiled. One provider low: put it behind the others until it is"
              " well.", "percentunit"),
        Panel("Errors by key", [(rate(errors, "provider, key_id", OF_PROVIDER), "{{provider}} {{key_id}}")],
              "key_id is keyFingerprint in the tree. One key above the others for half an hour is a P2: take it"
              " out.", "reqps"),
        Panel("Share of errors by key",
              [(f"{rate(errors, 'provider, key_id', OF_PROVIDER)}"
                f" / ignoring (provider, key_id) group_left () {rate(errors, '', OF_PROVIDER)}",
                "{{provider}} {{key_id}}")],
              "Above 80 % for half an hour is a P2, if there is more than one key.", "percentunit",
              thresholds=[(0.8, RED)]),
        Panel("Errors in this range", [(increase(errors, "provider, key_id, status_code", OF_PROVIDER) + " > 0", "")],
              "Which key failed how. Its key_id is keyFingerprint in the tree, and key_fp in events.", "short",
              "table", is_instant=True),
        Panel("Replays and keys that do not decrypt",
              [(gateway_rate("upstream_replays_total", "provider", OF_PROVIDER), "replays {{provider}}"),
               (gateway_rate("decrypt_failures_total", "provider", OF_PROVIDER), "decrypt {{provider}}")],
              "Replays: kept connections that an upstream had closed. A key that does not decrypt: this instance has"
              " another master key.", "reqps"),
    ])


def pools():
    def largest(name):
        return gauge("max", f"{GATEWAY}{name}", "app_id")

    return Row("Pools", [
        Panel("Slots in use", [(largest("pool_inflight"), "{{app_id}}"), (largest("pool_capacity"), "of {{app_id}}")],
              "Requests of all instances that have a slot, and how many slots there are. Each instance says the same:"
              " the maximum, not the sum. A gap: Redis could not be read.", "short"),
        Panel("Fullness", [(f"{largest('pool_inflight')} / {largest('pool_capacity')}", "{{app_id}}")],
              "Above 95 % for ten minutes is a P1. One full beside others that are not: it is named by another model too.",
              "percentunit", thresholds=[(0.95, RED)]),
        Panel("Found full", [(gateway_rate("pool_slot_rejected_total", "app_id"), "{{app_id}}")],
              "Requests that found no slot in the pool. Those that found none anywhere waited, or were answered 503.",
              "reqps"),
        Panel("Saturated by their providers", [(gateway_rate("pool_saturation_marked_total", "app_id"), "{{app_id}}")],
              "Attempts that were answered “too many”, so that the pool was left alone for a while. Many: maxConcurrency"
              " is more than the provider grants, or others use the app.", "reqps"),
        Panel("Waiting for a slot", [(quantile(q, f"{GATEWAY}pool_wait_duration_seconds", ""), f"p{q * 100:.0f}")
                                     for q in (0.5, 0.95, 0.99)],
              "How long requests waited, of those that had to and whose model lets them (poolWaitMs).", "s"),
        Panel("Counted without Redis", [(gateway_rate("pools_alone_total"), "requests"),
                                        (rate("airi_observability_read_errors_total"), "gauges")],
              "Redis did not answer: each instance counted slots alone, or gave none out; and gauges had nothing to say.",
              "short", thresholds=[(1, RED)]),
    ])


def configuration():
    return Row("Configuration", [
        Panel("Version by instance", [(gauge("max", f"{GATEWAY}config_info", "instance, version"), "")],
              "The tree's version in force. More than one for longer than a minute is a P1: the log of the instance"
              " with the older one says why.", "short", "table", hidden=("Value",), is_instant=True),
        Panel("Versions in force",
              [(f"count(count by (version) ({select(f'{GATEWAY}config_info')}))", "versions")],
              "1, but for the seconds of a change.", "short", thresholds=[(2, RED)]),
        Panel("Age of the version", [(gauge("max", f"{GATEWAY}config_version_age_seconds", "instance"),
                                      "{{instance}}")],
              "How long each instance has had its version. One that did not begin anew with the others missed a"
              " change.", "s"),
        Panel("Changes", [(increase(f"{GATEWAY}config_reload_total", "source", over=RATE), "{{source}}")],
              "Configurations that came into force, by what they were found with. Only ttl, where there is Redis:"
              " its messages do not arrive.", "short"),
        Panel("Refused and forged",
              [(increase(f"{GATEWAY}config_refusals_total", "instance", over=RATE), "refused {{instance}}"),
               (increase(f"{GATEWAY}config_invalid_hmac_total", "instance", over=RATE), "forged {{instance}}")],
              "A stored document that is refused: the log says what is wrong. News that do not verify: somebody else"
              " writes to the channel, or an instance has another master key.", "short", thresholds=[(1, RED)]),
        Panel("Store and Redis",
              [(gauge("min", f"{GATEWAY}store_up", "instance"), "store {{instance}}"),
               (increase(f"{GATEWAY}redis_connections_total", "instance", over=RATE), "connections {{instance}}")],
              "store 0: the instance cannot read it, and serves its last good tree. Connections that keep counting:"
              " Redis, or what lies between, drops them.", "short"),
    ])


def workers():
    queue = f"{GATEWAY}queue_duration_seconds"
    return Row("Workers and queue", [
        Panel("Workers by state", [(gauge("sum", f"{GATEWAY}workers", "state"), "{{state}}")],
              "Of the chosen instances. None idle for long: more workers. Many waiting: a slow upstream.", "short",
              is_stacked=True),
        Panel("Queue", [(gauge("max", f"{GATEWAY}queue_length", "instance"), "{{instance}}")],
              "Connections that wait for a worker, when it was asked.", "short"),
        Panel("Time in the queue", quantiles(queue, "instance", "{{instance}}"),
              "How long connections waited, to 20 ms. Who has waited a second is turned away.", "s",
              thresholds=[(1, RED)]),
        Panel("Turned away", [(gateway_rate("overflow_count_total", "instance"), "{{instance}}")],
              "Connections answered 503 because no worker was free. More workers, or fewer requests.", "reqps"),
        Panel("Connections", [(gateway_rate("connections_accepted_total", "instance"), "{{instance}}")],
              "Accepted per second. An instance without any: the balancer leaves it out, see /readyz.", "reqps"),
        Panel("Deaths and lost wake-ups",
              [(increase(f"{GATEWAY}worker_deaths_total", "instance", over=RATE), "deaths {{instance}}"),
               (increase(f"{GATEWAY}wakeups_repaired_total", "instance", over=RATE), "wake-ups {{instance}}")],
              "Workers that died unasked: the log's child_died says how. Report it.", "short",
              thresholds=[(1, RED)]),
    ])


def leaving():
    return Row("Spool and exporters", [
        Panel("Spool", [(gauge("max", f"{GATEWAY}spool_bytes", "instance"), "{{instance}}")],
              "Events on disk. It grows while a sink does not take what it is sent; without sinks, to its bound.",
              "bytes"),
        Panel("Lag", [(gauge("max", f"{GATEWAY}spool_lag_seconds", "instance, signal"), "{{instance}} {{signal}}")],
              "Age of the oldest event that a sink has not been given. More than five minutes: see its receiver.",
              "s", thresholds=[(300, RED)]),
        Panel("Dropped events", [(increase(f"{GATEWAY}spool_dropped_total", "instance", over=RATE), "{{instance}}")],
              "Events that could not be written: disk or spool are full. They are lost; requests are served.",
              "short", thresholds=[(1, RED)]),
        Panel("Delivered", [(gateway_rate("export_delivered_total", "signal"), "{{signal}}")],
              "Spans, data points, records and rows that receivers took, per second.", "short"),
        Panel("Exporters' failures",
              [(increase(f"{GATEWAY}export_failures_total", "signal", over=RATE), "tried again {{signal}}"),
               (increase(f"{GATEWAY}export_dropped_total", "signal", over=RATE), "refused {{signal}}")],
              "Batches that did not arrive are tried again. What a receiver refuses is not: the log has its words.",
              "short", thresholds=[(1, RED)]),
        Panel("Series without cells", [(gauge("max", f"{GATEWAY}series_lost", "instance"), "{{instance}}")],
              "Models, providers and keys that count as “_other” for want of room. Restart the instance.", "short",
              thresholds=[(1, RED)]),
    ])


def overview():
    variables = [
        variable("job", "Job", f"label_values({GATEWAY}config_generation, job)"),
        variable("instance", "Instance", f'label_values({GATEWAY}config_generation{{job=~"$job"}}, instance)'),
        variable("model", "Model", f"label_values({select(f'{GATEWAY}requests_total')}, model)"),
        variable("provider", "Provider", f"label_values({select(f'{GATEWAY}attempts_total')}, provider)"),
    ]
    rows = [at_a_glance(), traffic(), latency(), fallback(), upstreams(), pools(), configuration(), workers(), leaving()]
    return dashboard("llm-router-overview", "llm-router: overview",
                     "Traffic, errors, latency, fallback, keys, pools, configuration, workers, spool.", variables, rows)

/* LLM_ROUTER_CONFIG: models that speak. What differs between their providers is
 * in the adapters' tables. */
#include "core/config/rows.h"

#include "core/config/baseurl.h"
#include "core/config/faults.h"

enum { POOL_WAIT_MAX_MS = 10 * 60 * 1000 };

/* ---- upstreams ---- */

/* A fault of the adapter's: its place is a member of the upstream, or of one of its members. */
static void fault_of_adapter(struct reader *r, const struct adapter_fault *fault)
{
    const char *dot = strchr(fault->param, '.');
    if (dot == NULL) {
        reader_fault_at(r, fault->param, "%s", fault->message);
        return;
    }
    size_t mark = fault_path_push_name(&r->path, span_of(fault->param, (size_t)(dot - fault->param)));
    reader_fault_at(r, dot + 1, "%s", fault->message);
    fault_path_pop(&r->path, mark);
}

/* Whether a member is as it should be, or not there; if not, it has been told. */
static bool is_read(json_object *object, const char *name, bool has_landed)
{
    return has_landed || !json_object_object_get_ex(object, name, NULL);
}

/* Where the upstream is: as its document says, or as its adapter knows. */
static struct span find_endpoint(struct reader *r, const struct snap_upstream *u, json_object *object)
{
    struct adapter_fault fault = { .message = NULL };
    struct span url = member_text(object, "baseURL"), region = member_text(object, "region");

    if (r->adapter == NULL || !is_read(object, "baseURL", snap_has(u->url)) ||
        !is_read(object, "adapterParams", snap_has(u->adapter_params)) ||
        !is_read(object, "region", region.ptr != NULL && rule_region.problem(region) == NULL))
        return span_of(NULL, 0);
    if (url.ptr != NULL && region.ptr != NULL) {
        reader_fault_at(r, "region", "\"baseURL\" is the whole endpoint; a region beside it says nothing");
        return span_of(NULL, 0);
    }
    const char *found =
        adapter_endpoint(r->adapter, url, region, image_span(r->image, u->adapter_params), r->arena, &fault);
    if (found == NULL)
        fault_of_adapter(r, &fault);
    return span_cstr(found);
}

static void finish_upstream(struct reader *r, void *into, json_object *object)
{
    struct snap_upstream *u = into;
    json_object *params = NULL;
    struct baseurl endpoint;

    upstream_check_key_ids(r, u);
    struct span url = find_endpoint(r, u, object);
    if (url.ptr == NULL || baseurl_parse_endpoint(url, r->arena, &endpoint) != NULL)
        return; /* what is wrong has been told */
    json_object_object_get_ex(object, "adapterParams", &params);
    u->url = image_text(r->image, url);
    u->host = image_text(r->image, span_cstr(endpoint.host));
    u->provider = image_text(r->image, span_cstr(r->adapter->name));
    u->dialect = image_text(r->image, span_cstr("speech"));
    u->header_name = u->header_template = image_text(r->image, span_of("", 0));
    if (!snap_has(u->id))
        u->id = upstream_derive_id(r, u, url, member_text(params, "model"));
    upstream_name_pool(r, u, "tts", member_text(params, "appid"));
}

static const struct field upstream_fields[] = {
    { .name = "id",
      .kind = FIELD_TEXT,
      .rule = &rule_name,
      .min = 1,
      .max = NAME_MAX_BYTES,
      .land = offsetof(struct snap_upstream, id),
      .doc = "The upstream's name in records and metrics, unique within its model; derived from model, "
             "endpoint and adapterParams.model if absent." },
    { .name = "region",
      .kind = FIELD_TEXT,
      .rule = &rule_region,
      .min = 1,
      .max = 63,
      .lands_nowhere = true,
      .doc = "The provider's region, from which the endpoint is made where it has regions." },
    { .name = "baseURL",
      .kind = FIELD_TEXT,
      .rule = &rule_endpoint_url,
      .min = 1,
      .max = 2000,
      .land = offsetof(struct snap_upstream, url),
      .doc = "The whole endpoint, to which nothing is appended; if absent, it is made from the region or the "
             "model." },
    { .name = "keys",
      .kind = FIELD_LIST,
      .is_required = true,
      .min = 1,
      .max = 1000,
      .record = &key_record,
      .land = offsetof(struct snap_upstream, keys),
      .doc = "The keys, in the order in which they are tried." },
    { .name = "adapterParams",
      .kind = FIELD_PARAMS,
      .land = offsetof(struct snap_upstream, adapter_params),
      .doc = "Parameters of the provider, listed below for each; no secrets, they are shown to "
             "administrators." },
    TIMEOUT("timeoutMs", offsetof(struct snap_upstream, timeout_ms), "perAttemptTimeoutMs",
            "How long an attempt may take until its first byte of audio."),
    TIMEOUT("connectTimeoutMs", offsetof(struct snap_upstream, connect_timeout_ms), "connectTimeoutMs",
            "How long connecting may take, with TLS."),
    PROPAGATE_TRACE,
    MAX_CONCURRENCY,
};

static const struct record upstream_of_speech_record = {
    .title = "upstream",
    .bytes = sizeof(struct snap_upstream),
    .fields = upstream_fields,
    .n_fields = COUNT(upstream_fields),
    .finish = finish_upstream,
};

/* ---- models ---- */

/* Upstreams are read by the provider's table, and may stand before its name. */
static void prepare_model(struct reader *r, json_object *object)
{
    struct span provider = object == NULL ? span_of(NULL, 0) : member_text(object, "provider");
    r->adapter = provider.ptr == NULL ? NULL : adapter_find(provider);
}

static void finish_model(struct reader *r, void *into, json_object *object)
{
    upstream_check_ids(r, into, object, "the endpoint and adapterParams.model");
    model_check_hedging(r, into);
}

static const struct field model_fields[] = {
    { .name = "provider",
      .kind = FIELD_ENUM,
      .is_required = true,
      .choice_at = adapter_name,
      .lands_nowhere = true,
      .doc = "Whose protocol the model's upstreams speak." },
    { .name = "upstreams",
      .kind = FIELD_LIST,
      .is_required = true,
      .min = 1,
      .max = SNAPSHOT_UPSTREAMS_MAX,
      .record = &upstream_of_speech_record,
      .land = offsetof(struct snap_model, upstreams),
      .doc = "The upstreams, in the order in which they are tried." },
    { .name = "fallbackTriggers",
      .kind = FIELD_RECORD,
      .record = &trigger_record,
      .doc = "What makes a request move on to the next candidate." },
    TIMEOUT("streamIdleTimeoutMs", offsetof(struct snap_model, stream_idle_timeout_ms), "streamIdleTimeoutMs",
            "How long an upstream may be silent after its first byte of audio."),
    WORKER_SHARE,
    HEDGE_AFTER,
    { .name = "poolWaitMs",
      .kind = FIELD_INT,
      .max = POOL_WAIT_MAX_MS,
      .preset = "0",
      .land = offsetof(struct snap_model, pool_wait_ms),
      .doc = "How long a request may wait for a slot when every upstream's maxConcurrency is in hand, first "
             "come, first served; 0: it is answered 503 at once." },
};

static const struct record model_record = {
    .title = "model",
    .bytes = sizeof(struct snap_model),
    .fields = model_fields,
    .n_fields = COUNT(model_fields),
    .name_land = offsetof(struct snap_model, name),
    .adapter_member = "provider",
    .prepare = prepare_model,
    .finish = finish_model,
};

static const struct field tts_fields[] = {
    { .name = "models",
      .kind = FIELD_MAP,
      .max = 10000,
      .rule = &rule_name,
      .record = &model_record,
      .land = offsetof(struct compiled, tts_models),
      .doc = "The models, by the name that callers use." },
};

const struct record tts_record = {
    .title = "tts",
    .bytes = sizeof(struct compiled),
    .fields = tts_fields,
    .n_fields = COUNT(tts_fields),
};

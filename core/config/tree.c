/* LLM_ROUTER_CONFIG: the operators' document. Upstreams are in upstream.c, speech is in speech.c. */
#include "core/config/rows.h"

#include "core/config/faults.h"

enum { STATUS_MIN = 300, STATUS_MAX = 599 };

/* ---- models ---- */

static const struct field trigger_fields[] = {
    { .name = "httpCodes",
      .kind = FIELD_CODES,
      .min = STATUS_MIN,
      .max = STATUS_MAX,
      .inherits = "fallbackHttpCodes",
      .land = offsetof(struct snap_model, http_codes),
      .doc = "The statuses after which the next candidate is tried." },
    { .name = "onTimeout",
      .kind = FIELD_BOOL,
      .preset = "true",
      .land = offsetof(struct snap_model, on_timeout),
      .doc = "Whether a timeout moves on to the next candidate; false ends the request." },
};

const struct record trigger_record = {
    .title = "fallback triggers",
    .bytes = sizeof(struct snap_model),
    .fields = trigger_fields,
    .n_fields = COUNT(trigger_fields),
};

static void finish_model(struct reader *r, void *into, json_object *object)
{
    struct snap_model *model = into;
    model->beats_before_content = json_object_object_get_ex(object, "heartbeatMs", NULL) ? 1 : 0;
    upstream_check_ids(r, model, object, "the dialect, baseURL and overrideModel");
    model_check_hedging(r, model);
}

static const struct field model_fields[] = {
    { .name = "upstreams",
      .kind = FIELD_LIST,
      .is_required = true,
      .min = 1,
      .max = SNAPSHOT_UPSTREAMS_MAX,
      .record = &upstream_record,
      .land = offsetof(struct snap_model, upstreams),
      .doc = "The upstreams, in the order in which they are tried." },
    { .name = "fallbackTriggers",
      .kind = FIELD_RECORD,
      .record = &trigger_record,
      .doc = "What makes a request move on to the next candidate." },
    TIMEOUT("streamIdleTimeoutMs", offsetof(struct snap_model, stream_idle_timeout_ms), "streamIdleTimeoutMs",
            "How long an upstream may be silent after its first byte of content."),
    { .name = "heartbeatMs",
      .kind = FIELD_INT,
      .max = TIMEOUT_MAX_MS,
      .preset = "15000",
      .land = offsetof(struct snap_model, heartbeat_ms),
      .doc = "How long the caller of a stream may get nothing until it gets a heartbeat, which is a comment: "
             "when given, both before content, where the first one commits status 200, and after it; when "
             "absent, only after it; 0 turns heartbeats off." },
    WORKER_SHARE,
    HEDGE_AFTER,
    RESERVED("strategy"),
};

static const struct record model_record = {
    .title = "model",
    .bytes = sizeof(struct snap_model),
    .fields = model_fields,
    .n_fields = COUNT(model_fields),
    .name_land = offsetof(struct snap_model, name),
    .finish = finish_model,
};

static const struct field llm_fields[] = {
    { .name = "models",
      .kind = FIELD_MAP,
      .is_required = true,
      .max = 10000,
      .rule = &rule_name,
      .record = &model_record,
      .land = offsetof(struct compiled, models),
      .doc = "The models, by the name that callers use." },
};

static const struct record llm_record = {
    .title = "llm",
    .bytes = sizeof(struct compiled),
    .fields = llm_fields,
    .n_fields = COUNT(llm_fields),
};

/* ---- the document ---- */

struct credential {
    struct snap_str name, ciphertext;
};

static const struct field credential_fields[] = {
    { .name = "ciphertext",
      .kind = FIELD_TEXT,
      .is_required = true,
      .rule = &rule_ciphertext,
      .min = 1,
      .max = CIPHERTEXT_MAX_BYTES,
      .land = offsetof(struct credential, ciphertext),
      .doc = "The provider's key, encrypted for this credential." },
    { .name = "key", .kind = FIELD_REFUSED, .doc = PLAINTEXT_REFUSED },
};

static const struct record credential_record = {
    .title = "credential",
    .bytes = sizeof(struct credential),
    .fields = credential_fields,
    .n_fields = COUNT(credential_fields),
    .name_land = offsetof(struct credential, name),
};

#define DEFAULT_TIMEOUT(field_name, member, value, text)                                   \
    {                                                                                      \
        .name = (field_name), .kind = FIELD_INT, .min = 1, .max = TIMEOUT_MAX_MS,          \
        .land = offsetof(struct config_defaults, member), .preset = (value), .doc = (text) \
    }

static const struct field default_fields[] = {
    DEFAULT_TIMEOUT("perAttemptTimeoutMs", attempt_timeout_ms, "30000",
                    "How long one attempt may take until its first byte of content."),
    DEFAULT_TIMEOUT("fullChainTimeoutMs", chain_timeout_ms, "60000",
                    "How long all attempts of a request together may take until then."),
    DEFAULT_TIMEOUT("plainTimeoutMs", plain_timeout_ms, NULL,
                    "Replaces timeoutMs for requests without stream, and extends their whole chain."),
    DEFAULT_TIMEOUT("connectTimeoutMs", connect_timeout_ms, "10000",
                    "How long connecting may take, with TLS."),
    DEFAULT_TIMEOUT("streamIdleTimeoutMs", stream_idle_timeout_ms, "120000",
                    "How long an upstream may be silent after its first byte of content."),
    DEFAULT_TIMEOUT(
        "clientStallTimeoutMs", client_stall_timeout_ms, "60000",
        "How long a client may take nothing of its reply; each byte that it takes begins it anew."),
    { .name = "fallbackHttpCodes",
      .kind = FIELD_CODES,
      .min = STATUS_MIN,
      .max = STATUS_MAX,
      .preset = "[401,402,403,429,500,502,503,504]",
      .land = offsetof(struct config_defaults, http_codes),
      .doc = "The statuses after which the next candidate is tried." },
    { .name = "propagateTrace",
      .kind = FIELD_BOOL,
      .preset = "false",
      .land = offsetof(struct config_defaults, propagates_trace),
      .doc = "Whether upstreams are told a request's trace." },
};

static const struct record default_record = {
    .title = "defaults",
    .bytes = sizeof(struct config_defaults),
    .fields = default_fields,
    .n_fields = COUNT(default_fields),
};

const struct field *field_of_defaults(const char *name)
{
    for (size_t i = 0; i < COUNT(default_fields); i++)
        if (strcmp(default_fields[i].name, name) == 0)
            return &default_fields[i];
    return NULL;
}

/* Models fall back on `defaults`, which may stand behind them in the document:
 * it is read first without a word, and once more in its place. */
static void prepare_tree(struct reader *r, json_object *object)
{
    struct entry_faults *faults = r->faults;
    json_object *defaults = NULL;
    if (object == NULL)
        return;
    if (json_object_object_get_ex(object, "defaults", &defaults) &&
        !json_object_is_type(defaults, json_type_object))
        defaults = NULL;
    r->faults = NULL;
    reader_read_record(r, &default_record, defaults, r->defaults);
    r->faults = faults;
}

static const struct field tree_fields[] = {
    { .name = "credentials",
      .kind = FIELD_MAP,
      .max = 1000,
      .rule = &rule_name,
      .record = &credential_record,
      .lands_nowhere = true,
      .doc = "Keys that several upstreams share, by name." },
    { .name = "llm",
      .kind = FIELD_RECORD,
      .is_required = true,
      .record = &llm_record,
      .doc = "What serves chat requests." },
    { .name = "tts", .kind = FIELD_RECORD, .record = &tts_record, .doc = "What serves speech requests." },
    { .name = "defaults",
      .kind = FIELD_RECORD,
      .record = &default_record,
      .land = offsetof(struct compiled, defaults),
      .doc = "What models and upstreams have that do not say otherwise." },
};

static const struct record tree_record = {
    .title = "document",
    .bytes = sizeof(struct compiled),
    .fields = tree_fields,
    .n_fields = COUNT(tree_fields),
    .prepare = prepare_tree,
};

const struct field field_llm_router_config = {
    .kind = FIELD_RECORD,
    .record = &tree_record,
    .doc = "The models, their upstreams and keys.",
};

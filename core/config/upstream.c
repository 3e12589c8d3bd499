/* LLM_ROUTER_CONFIG: an upstream and its keys. */
#include "core/config/rows.h"

#include "core/config/baseurl.h"
#include "core/config/faults.h"
#include "core/config/provider.h"
#include "core/crypto/digest.h"
#include "core/json/writer.h"

enum { DERIVED_ID_DIGITS = 12, POOL_ID_BYTES = 16 * 1024 };

/* An upstream's wire protocols. One of chat has all that OpenAI's API has: the
 * endpoint's path is appended to its base URL. */
static const char *const dialects[] = { "chat", NULL };

struct span member_text(json_object *object, const char *name)
{
    json_object *value = NULL;
    if (!json_object_object_get_ex(object, name, &value) || !json_object_is_type(value, json_type_string))
        return span_of(NULL, 0);
    return span_of(json_object_get_string(value), (size_t)json_object_get_string_len(value));
}

static void finish_key(struct reader *r, void *into, json_object *object)
{
    struct snap_key *key = into;
    struct secret secret;
    struct span credential = member_text(object, "credential");
    struct span id = image_span(r->image, key->id);
    const char *aad;

    if (credential.ptr != NULL) {
        json_object *all = NULL, *one = NULL;
        json_object_object_get_ex(r->document, "credentials", &all);
        if (!json_object_is_type(all, json_type_object) ||
            !json_object_object_get_ex(all, credential.ptr, &one)) {
            reader_fault_at(r, "credential", "no member of /credentials has this name");
            return;
        }
        struct span ciphertext = member_text(one, "ciphertext");
        if (ciphertext.ptr == NULL)
            return; /* a fault of the credential, told there */
        key->ciphertext = image_text(r->image, ciphertext);
        aad = arena_printf(r->arena, "credential|%s", credential.ptr);
    } else {
        aad = arena_printf(r->arena, "%.*s|%.*s", (int)r->owner.len, r->owner.ptr, (int)id.len, id.ptr);
    }
    key->aad = image_text(r->image, span_cstr(aad));
    if (r->keys != NULL && envelope_decrypt(r->keys, image_span(r->image, key->ciphertext), span_cstr(aad),
                                            &secret, NULL) == 0) {
        fingerprint(span_of(secret.bytes, secret.len), SNAPSHOT_FP_BYTES - 1, key->fingerprint);
        secret_wipe(&secret);
    } else {
        r->undecryptable++;
    }
}

static const struct field key_fields[] = {
    { .name = "id",
      .kind = FIELD_TEXT,
      .is_required = true,
      .rule = &rule_name,
      .min = 1,
      .max = NAME_MAX_BYTES,
      .land = offsetof(struct snap_key, id),
      .doc = "The key's name, unique within its upstream; the ciphertext is bound to it." },
    { .name = "ciphertext",
      .kind = FIELD_TEXT,
      .rule = &rule_ciphertext,
      .min = 1,
      .max = CIPHERTEXT_MAX_BYTES,
      .land = offsetof(struct snap_key, ciphertext),
      .doc = "The provider's key, encrypted for this model and key id." },
    { .name = "credential",
      .kind = FIELD_TEXT,
      .rule = &rule_name,
      .min = 1,
      .max = NAME_MAX_BYTES,
      .lands_nowhere = true,
      .doc = "Instead of a ciphertext: the name of a member of credentials." },
    { .name = "key", .kind = FIELD_REFUSED, .doc = PLAINTEXT_REFUSED },
};

static const char *const key_sources[] = { "ciphertext", "credential", NULL };

const struct record key_record = {
    .title = "key",
    .bytes = sizeof(struct snap_key),
    .fields = key_fields,
    .n_fields = COUNT(key_fields),
    .one_of = key_sources,
    .finish = finish_key,
};

struct snap_str upstream_derive_id(struct reader *r, const struct snap_upstream *u, struct span url,
                                   struct span model)
{
    char digits[DERIVED_ID_DIGITS + 1];
    const char *text =
        arena_printf(r->arena, "%.*s|%s|%.*s|%.*s", (int)r->owner.len, r->owner.ptr,
                     image_span(r->image, u->dialect).ptr, (int)url.len, url.ptr, (int)model.len, model.ptr);
    fingerprint(span_cstr(text), DERIVED_ID_DIGITS, digits);
    return image_text(r->image, span_cstr(arena_printf(r->arena, "u-%s", digits)));
}

void upstream_name_pool(struct reader *r, struct snap_upstream *u, const char *part, struct span app_id)
{
    uint8_t digest[SHA256_BYTES];
    struct json_writer w;
    struct buf text;

    buf_init(&text, POOL_ID_BYTES);
    buf_printf(&text, "%s:pool:", part);
    if (app_id.len > 0) {
        buf_append_span(&text, app_id);
    } else {
        buf_append_cstr(&text, "model:");
        jw_init(&w, &text);
        jw_begin_array(&w);
        jw_string(&w, r->owner);
        jw_cstr(&w, "id");
        jw_string(&w, image_span(r->image, u->id));
        jw_end_array(&w);
    }
    u->pool = image_text(r->image, buf_span(&text));
    sha256(buf_span(&text), digest);
    memcpy(&u->pool_hash, digest, sizeof(u->pool_hash));
    if (u->pool_hash == 0)
        u->pool_hash = 1;
    buf_free(&text);
}

static void check_headers(struct reader *r, const struct snap_upstream *u)
{
    const struct snap_header_line *lines = image_at(r->image, u->headers);
    struct span of_key = image_span(r->image, u->header_name);
    for (size_t i = 0; i < u->headers.count && lines != NULL; i++) {
        const char *name = image_span(r->image, lines[i].name).ptr;
        size_t mark = fault_path_push_name(&r->path, span_cstr("headers"));
        if (span_is_nocase(of_key, name))
            reader_fault_at(r, name, "this header carries the key; see headerName");
        for (size_t j = 0; j < i; j++)
            if (span_is_nocase(image_span(r->image, lines[j].name), name) && name[0] != '\0')
                reader_fault_at(r, name, "this header is there twice, in other letters");
        fault_path_pop(&r->path, mark);
    }
}

static void fault_key_repeats(struct reader *r, const void *ctx, size_t first, size_t again)
{
    const char *id = ctx;
    size_t mark = fault_path_push_name(&r->path, span_cstr("keys"));
    fault_path_push_index(&r->path, again);
    reader_fault_at(r, id, "repeats the id of key %zu of this upstream", first);
    fault_path_pop(&r->path, mark);
}

void upstream_check_key_ids(struct reader *r, const struct snap_upstream *u)
{
    const struct snap_key *keys = image_at(r->image, u->keys);
    struct distinct *ids = arena_array_of(r->arena, struct distinct, u->keys.count);
    size_t n = 0;
    for (size_t i = 0; i < u->keys.count && keys != NULL; i++)
        if (snap_has(keys[i].id))
            ids[n++] = (struct distinct){ image_span(r->image, keys[i].id), i };
    reader_check_distinct(r, ids, n, "id", fault_key_repeats);
}

struct repeats {
    json_object *upstreams;
    const char *derived_from;
};

static void fault_upstream_repeats(struct reader *r, const void *ctx, size_t first, size_t again)
{
    const struct repeats *repeats = ctx;
    bool is_derived = member_text(json_object_array_get_idx(repeats->upstreams, again), "id").ptr == NULL;
    size_t mark = fault_path_push_name(&r->path, span_cstr("upstreams"));
    fault_path_push_index(&r->path, again);
    if (is_derived)
        reader_fault(r, "has %s of upstream %zu; give each an \"id\"", repeats->derived_from, first);
    else
        reader_fault_at(r, "id", "repeats the id of upstream %zu of this model", first);
    fault_path_pop(&r->path, mark);
}

void upstream_check_ids(struct reader *r, const struct snap_model *model, json_object *object,
                        const char *derived_from)
{
    const struct snap_upstream *upstreams = image_at(r->image, model->upstreams);
    struct distinct *ids = arena_array_of(r->arena, struct distinct, model->upstreams.count);
    struct repeats repeats = { NULL, derived_from };
    size_t n = 0;
    json_object_object_get_ex(object, "upstreams", &repeats.upstreams);
    for (size_t i = 0; i < model->upstreams.count && upstreams != NULL; i++)
        if (snap_has(upstreams[i].id))
            ids[n++] = (struct distinct){ image_span(r->image, upstreams[i].id), i };
    reader_check_distinct(r, ids, n, &repeats, fault_upstream_repeats);
}

static bool is_too_late(struct reader *r, uint32_t after_ms, uint32_t timeout_ms, const char *whose)
{
    if (timeout_ms == 0 || after_ms < timeout_ms)
        return false;
    reader_fault_at(r, "hedgeAfterMs", "found the number %u, expected one below %s, %u", after_ms, whose,
                    timeout_ms);
    return true;
}

void model_check_hedging(struct reader *r, const struct snap_model *model)
{
    const struct snap_upstream *upstreams = image_at(r->image, model->upstreams);
    uint32_t after_ms = model->hedge_after_ms;

    if (after_ms == 0 ||
        is_too_late(r, after_ms, r->defaults->chain_timeout_ms, "defaults.fullChainTimeoutMs"))
        return;
    for (size_t i = 0; i < model->upstreams.count && upstreams != NULL; i++) {
        const char *timeout = arena_printf(r->arena, "timeoutMs of upstream %zu", i);
        const char *plain = arena_printf(r->arena, "plainTimeoutMs of upstream %zu", i);
        if (is_too_late(r, after_ms, upstreams[i].timeout_ms, timeout) ||
            is_too_late(r, after_ms, upstreams[i].plain_timeout_ms, plain))
            return;
    }
}

static void finish_upstream(struct reader *r, void *into, json_object *object)
{
    struct snap_upstream *u = into;
    struct baseurl base;
    struct span url = member_text(object, "baseURL");

    check_headers(r, u);
    upstream_check_key_ids(r, u);
    if (!snap_has(u->url) || baseurl_parse(url, r->arena, &base) != NULL)
        return; /* told at baseURL */
    u->url = image_text(r->image, base.text);
    u->host = image_text(r->image, span_cstr(base.host));
    if (!snap_has(u->provider))
        u->provider = image_text(r->image, span_cstr(provider_of_host(base.host)));
    if (!snap_has(u->id))
        u->id = upstream_derive_id(r, u, base.text, image_span(r->image, u->override_model));
    upstream_name_pool(r, u, "llm", span_of(NULL, 0));
}

static const struct field upstream_fields[] = {
    { .name = "id",
      .kind = FIELD_TEXT,
      .rule = &rule_name,
      .min = 1,
      .max = NAME_MAX_BYTES,
      .land = offsetof(struct snap_upstream, id),
      .doc =
          "The upstream's name in records and metrics, unique within its model; derived from model, dialect, "
          "baseURL and overrideModel if absent." },
    LABEL("provider", offsetof(struct snap_upstream, provider),
          "Who runs the endpoint, for records and for reading its errors; known from the host if absent."),
    { .name = "baseURL",
      .kind = FIELD_TEXT,
      .is_required = true,
      .rule = &rule_base_url,
      .min = 1,
      .max = 2000,
      .land = offsetof(struct snap_upstream, url),
      .doc = "The URL to which the endpoint's path (/chat/completions, /audio/transcriptions) is "
             "appended." },
    LABEL("overrideModel", offsetof(struct snap_upstream, override_model),
          "The model's name at this upstream; the asked name is sent if absent."),
    { .name = "keys",
      .kind = FIELD_LIST,
      .is_required = true,
      .min = 1,
      .max = 1000,
      .record = &key_record,
      .land = offsetof(struct snap_upstream, keys),
      .doc = "The keys, in the order in which they are tried." },
    { .name = "headerName",
      .kind = FIELD_TEXT,
      .rule = &rule_header_name,
      .min = 1,
      .max = HEADER_NAME_MAX_BYTES,
      .preset = "\"Authorization\"",
      .land = offsetof(struct snap_upstream, header_name),
      .doc = "The header that carries the key." },
    { .name = "headerTemplate",
      .kind = FIELD_TEXT,
      .rule = &rule_header_template,
      .min = 5,
      .max = 1000,
      .preset = "\"Bearer {KEY}\"",
      .land = offsetof(struct snap_upstream, header_template),
      .doc = "That header's value; {KEY} stands for the key." },
    { .name = "headers",
      .kind = FIELD_HEADERS,
      .max = 50,
      .land = offsetof(struct snap_upstream, headers),
      .doc = "Further headers to send, as they are; no secrets, they are shown to administrators." },
    TIMEOUT("timeoutMs", offsetof(struct snap_upstream, timeout_ms), "perAttemptTimeoutMs",
            "How long an attempt may take until its first byte of content."),
    TIMEOUT("plainTimeoutMs", offsetof(struct snap_upstream, plain_timeout_ms), "plainTimeoutMs",
            "The same for requests without stream, whose first byte is the end of generation; timeoutMs if "
            "absent "
            "here and in defaults."),
    TIMEOUT("connectTimeoutMs", offsetof(struct snap_upstream, connect_timeout_ms), "connectTimeoutMs",
            "How long connecting may take, with TLS."),
    { .name = "dialect",
      .kind = FIELD_ENUM,
      .choices = dialects,
      .preset = "\"chat\"",
      .land = offsetof(struct snap_upstream, dialect),
      .doc = "The upstream's wire protocol." },
    PROPAGATE_TRACE,
    LABEL("supplierModel", offsetof(struct snap_upstream, supplier_model),
          "The supplier's name of the model, a label for records."),
    LABEL("account", offsetof(struct snap_upstream, account), "Whose account pays, a label for records."),
    MAX_CONCURRENCY,
    RESERVED("weight"),
    RESERVED("enabled"),
    RESERVED("rpm"),
    RESERVED("tpm"),
    RESERVED("priceRef"),
};

const struct record upstream_record = {
    .title = "upstream",
    .bytes = sizeof(struct snap_upstream),
    .fields = upstream_fields,
    .n_fields = COUNT(upstream_fields),
    .finish = finish_upstream,
};

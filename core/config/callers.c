/* CALLER_KEYS. */
#include "core/config/rows.h"

#include <stdlib.h>

#include "core/config/faults.h"

static void finish_caller(struct reader *r, void *into, json_object *object)
{
    struct snap_principal *principal = into;
    (void)r;
    principal->has_models = json_object_object_get_ex(object, "models", NULL) ? 1 : 0;
}

static const struct field limit_fields[] = {
    { .name = "concurrency",
      .kind = FIELD_INT,
      .min = 1,
      .max = 100000,
      .land = offsetof(struct snap_limits, concurrency),
      .doc = "Requests that one instance has in hand at the same time." },
    { .name = "requestsPerMinute",
      .kind = FIELD_INT,
      .min = 1,
      .max = 1000000,
      .land = offsetof(struct snap_limits, requests_per_minute),
      .doc = "Requests in the minute that begins with the first of them." },
    { .name = "tokensPerMinute",
      .kind = FIELD_INT,
      .min = 1,
      .max = 1000000000,
      .land = offsetof(struct snap_limits, tokens_per_minute),
      .doc = "Tokens, read and written, in the same minute. A request is let in with what it is estimated to "
             "read, and counted with what it took: the last one of a minute may go beyond." },
};

static const struct record limits_record = {
    .title = "limits",
    .bytes = sizeof(struct snap_limits),
    .fields = limit_fields,
    .n_fields = COUNT(limit_fields),
};

static const struct field caller_fields[] = {
    { .name = "id",
      .kind = FIELD_TEXT,
      .is_required = true,
      .rule = &rule_name,
      .min = 1,
      .max = NAME_MAX_BYTES,
      .land = offsetof(struct snap_principal, id),
      .doc = "The key's name in records, unique." },
    { .name = "sha256",
      .kind = FIELD_SHA256,
      .is_required = true,
      .land = offsetof(struct snap_principal, sha256),
      .doc = "The SHA-256 of the key, unique." },
    { .name = "owner",
      .kind = FIELD_TEXT,
      .rule = &rule_label,
      .min = 1,
      .max = NAME_MAX_BYTES,
      .land = offsetof(struct snap_principal, owner),
      .doc = "Whose key it is." },
    { .name = "models",
      .kind = FIELD_TEXTS,
      .rule = &rule_name,
      .max = 1000,
      .land = offsetof(struct snap_principal, models),
      .doc = "The only models the key may use; all if absent, none if empty." },
    { .name = "createdAt",
      .kind = FIELD_TEXT,
      .rule = &rule_label,
      .min = 1,
      .max = 64,
      .lands_nowhere = true,
      .doc = "When it was made, for people." },
    { .name = "limits",
      .kind = FIELD_RECORD,
      .record = &limits_record,
      .land = offsetof(struct snap_principal, limits),
      .doc = "What the key may have; what is not limited here is not limited." },
};

static const struct record caller_record = {
    .title = "caller key",
    .bytes = sizeof(struct snap_principal),
    .fields = caller_fields,
    .n_fields = COUNT(caller_fields),
    .finish = finish_caller,
};

static void fault_caller_repeats(struct reader *r, const void *ctx, size_t first, size_t again)
{
    const char *member = ctx;
    size_t mark = fault_path_push_name(&r->path, span_cstr("keys"));
    fault_path_push_index(&r->path, again);
    reader_fault_at(r, member, "repeats the %s of key %zu", member, first);
    fault_path_pop(&r->path, mark);
}

static int compare_principals(const void *a, const void *b)
{
    const struct snap_principal *x = a, *y = b;
    return memcmp(x->sha256, y->sha256, sizeof(x->sha256));
}

static void finish_callers(struct reader *r, void *into, json_object *object)
{
    static const uint8_t unread[32];
    struct compiled *compiled = into;
    struct snap_principal *principals = image_at(r->image, compiled->principals);
    size_t n = principals == NULL ? 0 : compiled->principals.count, n_ids = 0, n_digests = 0;
    struct distinct *ids = arena_array_of(r->arena, struct distinct, n);
    struct distinct *digests = arena_array_of(r->arena, struct distinct, n);

    (void)object;
    for (size_t i = 0; i < n; i++) {
        const struct snap_principal *p = &principals[i];
        if (snap_has(p->id))
            ids[n_ids++] = (struct distinct){ image_span(r->image, p->id), i };
        if (memcmp(p->sha256, unread, sizeof(unread)) != 0)
            digests[n_digests++] =
                (struct distinct){ span_of((const char *)p->sha256, sizeof(p->sha256)), i };
    }
    reader_check_distinct(r, ids, n_ids, "id", fault_caller_repeats);
    reader_check_distinct(r, digests, n_digests, "sha256", fault_caller_repeats);
    if (n > 0)
        qsort(principals, n, sizeof(*principals), compare_principals);
}

static const struct field callers_fields[] = {
    { .name = "keys",
      .kind = FIELD_LIST,
      .is_required = true,
      .max = 100000,
      .record = &caller_record,
      .land = offsetof(struct compiled, principals),
      .doc = "The keys with which callers come." },
};

static const struct record callers_record = {
    .title = "document",
    .bytes = sizeof(struct compiled),
    .fields = callers_fields,
    .n_fields = COUNT(callers_fields),
    .finish = finish_callers,
};

const struct field field_caller_keys = {
    .kind = FIELD_RECORD,
    .record = &callers_record,
    .doc = "Who may call, and which models.",
};

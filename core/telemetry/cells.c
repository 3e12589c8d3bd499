/* The directory of blocks, and what of the tree they are for. */
#include "core/telemetry/cells_internal.h"

#include <string.h>

#include "core/base/clock.h"
#include "core/config/provider.h"

static const char OTHER[] = "_other";

/* --- blocks --- */

/* FNV-1a. */
static uint32_t hash_labels(enum block_kind kind, const struct span labels[BLOCK_LABELS_MAX])
{
    uint32_t hash = 2166136261U ^ (uint32_t)kind;
    for (size_t i = 0; i < BLOCK_LABELS_MAX; i++) {
        for (size_t j = 0; j < labels[i].len; j++)
            hash = (hash ^ (unsigned char)labels[i].ptr[j]) * 16777619U;
        hash = (hash ^ 0xFF) * 16777619U; /* no byte of UTF-8 */
    }
    return hash;
}

static bool is_of(const struct telemetry *t, const struct series_block *block, enum block_kind kind,
                  uint32_t hash, const struct span labels[BLOCK_LABELS_MAX])
{
    if (block->hash != hash || block->kind != (uint32_t)kind)
        return false;
    for (size_t i = 0; i < BLOCK_LABELS_MAX; i++) {
        if (!span_is(labels[i], t->texts + block->labels[i]))
            return false;
    }
    return true;
}

/* Offset 0 is the empty text. */
static uint32_t add_text(struct telemetry *t, struct span text)
{
    uint32_t offset = t->n_text_bytes;
    if (text.len == 0)
        return 0;
    memcpy(t->texts + offset, text.ptr, text.len);
    t->texts[offset + text.len] = '\0';
    t->n_text_bytes += (uint32_t)text.len + 1;
    return offset;
}

/* Appends a block: its first cell, or 0 if there is no room. Whoever sees the new
 * number of blocks sees the block. */
static uint32_t append(struct telemetry *t, enum block_kind kind, uint32_t hash,
                       const struct span labels[BLOCK_LABELS_MAX])
{
    uint32_t n = atomic_load_explicit(&t->n_blocks, memory_order_relaxed);
    const struct series_block *last = n > 0 ? &t->blocks[n - 1] : NULL;
    uint32_t cell = last != NULL ? last->cell + block_cells((enum block_kind)last->kind) : 0;
    size_t text_bytes = 0;

    for (size_t i = 0; i < BLOCK_LABELS_MAX; i++)
        text_bytes += labels[i].len + 1;
    if (n == TELEMETRY_BLOCKS || cell + block_cells(kind) > TELEMETRY_CELLS ||
        t->n_text_bytes + text_bytes > TELEMETRY_TEXT_BYTES)
        return 0;
    struct series_block *block = &t->blocks[n];
    *block = (struct series_block){ .kind = (uint32_t)kind, .cell = cell, .hash = hash };
    for (size_t i = 0; i < BLOCK_LABELS_MAX; i++)
        block->labels[i] = add_text(t, labels[i]);
    atomic_store_explicit(&t->n_blocks, n + 1, memory_order_release);
    return cell;
}

/* At most TELEMETRY_LABEL_BYTES with its NUL, cut between characters. */
static struct span cut(struct span text)
{
    size_t n = TELEMETRY_LABEL_BYTES - 1;
    if (text.len <= n)
        return text;
    while (n > TELEMETRY_LABEL_BYTES - 5 && ((unsigned char)text.ptr[n] & 0xC0) == 0x80)
        n--;
    return span_of(text.ptr, n);
}

/* The block's first cell; 0 if there is no room for it. */
static uint32_t find_or_append(struct telemetry *t, enum block_kind kind, struct span a, struct span b,
                               struct span c)
{
    const struct span labels[BLOCK_LABELS_MAX] = { cut(a), cut(b), cut(c) };
    uint32_t n = atomic_load_explicit(&t->n_blocks, memory_order_relaxed);
    uint32_t hash = hash_labels(kind, labels);

    for (uint32_t i = 0; i < n; i++) {
        if (is_of(t, &t->blocks[i], kind, hash, labels))
            return t->blocks[i].cell;
    }
    return append(t, kind, hash, labels);
}

void telemetry_init(struct telemetry *t)
{
    const struct span none = { NULL, 0 }, other = span_cstr(OTHER);

    t->started_us = clock_wall_us();
    t->n_text_bytes = 1;
    find_or_append(t, BLOCK_INSTANCE, none, none, none); /* in the order of enum first_block */
    find_or_append(t, BLOCK_PROVIDER, other, none, none);
    find_or_append(t, BLOCK_KEY, other, other, none);
    find_or_append(t, BLOCK_POOL, other, other, none);
    for (unsigned i = 0; i < metric_surfaces.count; i++)
        find_or_append(t, BLOCK_MODEL, span_cstr(metric_surfaces.values[i]), other, none);
    for (unsigned i = 0; i < metric_operations.count; i++)
        find_or_append(t, BLOCK_ROUTE, span_cstr(metric_operations.values[i]), other, other);
    telemetry_set(t, METRIC_START_TIME, 0, t->started_us);
    telemetry_set(t, METRIC_CONFIG_INFO, 0, 1);
}

/* --- the tree's --- */

struct assignment {
    struct telemetry *t;
    struct snap_root *root;
    unsigned lost;
};

static uint32_t place(struct assignment *a, enum block_kind kind, struct span x, struct span y, struct span z)
{
    uint32_t cell = find_or_append(a->t, kind, x, y, z);
    a->lost += cell == 0;
    return cell;
}

/* The image is ours until it is published. */
static void *item(struct assignment *a, struct snap_vec vec, size_t size, uint32_t i)
{
    return (char *)a->root + vec.offset + i * size;
}

static void assign_keys(struct assignment *a, struct snap_model *model)
{
    for (uint32_t i = 0; i < model->upstreams.count; i++) {
        struct snap_upstream *upstream = item(a, model->upstreams, sizeof(*upstream), i);
        struct span provider = provider_in_telemetry(a->root, upstream);
        upstream->series =
            place(a, BLOCK_PROVIDER, provider, (struct span){ NULL, 0 }, (struct span){ NULL, 0 });
        for (uint32_t j = 0; j < upstream->keys.count; j++) {
            struct snap_key *key = item(a, upstream->keys, sizeof(*key), j);
            if (key->fingerprint[0] != '\0')
                key->series =
                    place(a, BLOCK_KEY, provider, span_cstr(key->fingerprint), (struct span){ NULL, 0 });
        }
    }
}

/* An app id is shown as it is; of what else names a pool, the part of the tree too, unless it is speech. */
static struct span name_of_pool(struct span id)
{
    size_t prefix = sizeof("tts:pool:") - 1;
    return span_starts(id, "tts:pool:") ? span_of(id.ptr + prefix, id.len - prefix) : id;
}

/* Where any upstream has a limit, the pools of all may be saturated. */
static void assign_pools(struct assignment *a, struct snap_model *model)
{
    bool has_limit = false;

    for (uint32_t i = 0; i < model->upstreams.count; i++)
        has_limit |= SNAP_ITEM(a->root, model->upstreams, struct snap_upstream, i)->max_concurrency > 0;
    for (uint32_t i = 0; i < model->upstreams.count && has_limit; i++) {
        struct snap_upstream *upstream = item(a, model->upstreams, sizeof(*upstream), i);
        upstream->pool_series = place(a, BLOCK_POOL, name_of_pool(snap_span(a->root, upstream->pool)),
                                      provider_in_telemetry(a->root, upstream), (struct span){ NULL, 0 });
    }
}

/* Of what the model is asked for: a model of `llm` may be on two surfaces. */
static void assign_model(struct assignment *a, struct snap_model *model, unsigned way, unsigned surface)
{
    struct span name = snap_span(a->root, model->name);
    struct span operation = span_cstr(metric_operations.values[metric_operation(surface)]);

    model->series[way] =
        place(a, BLOCK_MODEL, span_cstr(metric_surfaces.values[surface]), name, (struct span){ NULL, 0 });
    for (uint32_t i = 0; i < model->upstreams.count; i++) {
        struct snap_upstream *upstream = item(a, model->upstreams, sizeof(*upstream), i);
        upstream->route_series[way] =
            place(a, BLOCK_ROUTE, operation, provider_in_telemetry(a->root, upstream), name);
    }
}

static void assign_models(struct assignment *a, struct snap_vec models, const unsigned surfaces[SNAP_WAYS],
                          unsigned n_ways)
{
    for (uint32_t i = 0; i < models.count; i++) {
        assign_pools(a, item(a, models, sizeof(struct snap_model), i));
        for (unsigned way = 0; way < n_ways; way++)
            assign_model(a, item(a, models, sizeof(struct snap_model), i), way, surfaces[way]);
    }
}

/* Where there is no room for all, keys come first: alarms go by them. */
void telemetry_assign(struct telemetry *t, struct snap_root *root)
{
    const unsigned llm[SNAP_WAYS] = {
        [SNAP_WAY_FIRST] = metric_surface("chat"), [SNAP_WAY_TRANSCRIPTION] = metric_surface("transcription")
    };
    const unsigned tts[SNAP_WAYS] = { [SNAP_WAY_FIRST] = metric_surface("speech") };
    struct assignment a = { .t = t, .root = root };

    for (uint32_t i = 0; i < root->models.count; i++)
        assign_keys(&a, item(&a, root->models, sizeof(struct snap_model), i));
    for (uint32_t i = 0; i < root->tts_models.count; i++)
        assign_keys(&a, item(&a, root->tts_models, sizeof(struct snap_model), i));
    assign_models(&a, root->tts_models, tts, 1);
    assign_models(&a, root->models, llm, SNAP_WAYS);
    telemetry_set(t, METRIC_SERIES_LOST, 0, a.lost);
}

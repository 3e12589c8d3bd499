#include "fcgi/configuration.h"

#include <stdint.h>

#include "core/config/update.h"
#include "core/log/log.h"
#include "core/packs/tag_key.h"

enum { FAULTS_LOGGED = 20 };

static void report_faults(enum entry_id which, const struct entry_faults *faults)
{
    for (size_t i = 0; i < faults->count && i < FAULTS_LOGGED; i++) {
        struct json_writer *w = log_begin(LOG_ERROR, "configuration_refused");
        jw_member_cstr(w, "entry", entry_name(which));
        jw_member_cstr(w, "path", faults->items[i].path);
        jw_member_cstr(w, "message", faults->items[i].message);
        jw_member_uint(w, "fault", i + 1);
        jw_member_uint(w, "of", faults->count + faults->dropped);
        log_end();
    }
}

int configuration_read(struct store *store, struct arena *arena, struct entry_value values[ENTRY_COUNT],
                       struct error *e)
{
    struct store_value *stored = arena_array_of(arena, struct store_value, ENTRY_COUNT);
    const char *names[ENTRY_COUNT];

    for (int i = 0; i < ENTRY_COUNT; i++)
        names[i] = entry_name((enum entry_id)i);
    int r = store_get_all(store, names, ENTRY_COUNT, arena, stored, e);
    if (r != 0)
        return r;
    for (int i = 0; i < ENTRY_COUNT; i++) {
        values[i] = (struct entry_value){ 0 };
        if (stored[i].raw.ptr != NULL)
            values[i] = (struct entry_value){ .raw = stored[i].raw, .version = stored[i].version };
    }
    return 0;
}

static int make_tag_key(void *ctx, const struct store_value *current, struct arena *arena, struct span *next,
                        struct store_audit *audit)
{
    const struct router_shared *shared = ctx;
    (void)audit;
    return current->raw.ptr != NULL ? ERR_STOPPED : tag_key_make(&shared->keys, arena, next, NULL);
}

void configuration_provide_tag_key(const struct router_shared *shared, struct store *store,
                                   struct arena *arena, struct entry_value values[ENTRY_COUNT])
{
    const struct entry_update update = {
        .entry = ENTRY_VOICE_PACK_TAG_KEY,
        .audit = { .actor = "llm-router",
                   .action = "create",
                   .object = entry_name(ENTRY_VOICE_PACK_TAG_KEY) },
        .change = make_tag_key,
        .ctx = (void *)(uintptr_t)shared,
    };
    struct store_outcome outcome;
    struct store_value made;
    struct error e = { .text = "" };

    if (!shared->has_keys || values[ENTRY_VOICE_PACKS].raw.ptr == NULL ||
        values[ENTRY_VOICE_PACK_TAG_KEY].raw.ptr != NULL)
        return;
    int r = entry_update(store, &update, &outcome, &e);
    if (r == 0 || r == ERR_STOPPED)
        r = store_get(store, entry_name(ENTRY_VOICE_PACK_TAG_KEY), arena, &made, &e);
    if (r != 0) {
        log_line(LOG_ERROR, "tag_key_not_made", "no key for the tags of voice packs: %s", e.text);
        return;
    }
    values[ENTRY_VOICE_PACK_TAG_KEY] =
        (struct entry_value){ .raw = made.raw, .version = arena_strdup(arena, made.version) };
}

int configuration_compile(const struct router_shared *shared, const struct entry_value values[ENTRY_COUNT],
                          uint64_t generation, struct arena *arena, struct span *image, struct error *e)
{
    struct entry_faults faults = { 0 };
    enum entry_id which = ENTRY_LLM_ROUTER_CONFIG;
    size_t undecryptable = 0;

    int r = entry_compile(values, generation, shared->has_keys ? &shared->keys : NULL, arena, image,
                          &undecryptable, &which, &faults);
    if (r != 0) {
        report_faults(which, &faults);
        if (faults.count == 0)
            log_line(LOG_ERROR, "configuration_refused", "%s: %s", entry_name(which), err_name(r));
        return error_set(e, ERR_FORMAT, "the configuration was refused");
    }
    if (undecryptable > 0)
        log_line(LOG_ERROR, "keys_undecryptable",
                 "%zu provider keys do not decrypt with the master key; requests that reach them get "
                 "DECRYPT_FAILED",
                 undecryptable);
    return 0;
}

int configuration_load(const struct router_shared *shared, struct arena *arena, struct snapshot *out,
                       struct error *e)
{
    struct entry_value values[ENTRY_COUNT];
    struct store *store;
    struct span image;

    int r = store_open(&shared->place, &store, e);
    if (r != 0)
        return r;
    r = configuration_read(store, arena, values, e);
    if (r == 0)
        configuration_provide_tag_key(shared, store, arena, values);
    if (r == 0)
        r = configuration_compile(shared, values, 1, arena, &image, e);
    store_close(store);
    if (r == 0)
        *out = (struct snapshot){ .root = (const struct snap_root *)(const void *)image.ptr,
                                  .bytes = image.len };
    return r;
}

#include "core/config/rotate.h"

#include "core/config/document.h"
#include "core/config/faults.h"
#include "core/config/keyplaces.h"
#include "core/packs/tag_key.h"
#include "core/store/store.h"

struct rotating {
    const struct envelope_keys *keys;
    struct envelope_keys current_alone; /* the same, without the previous key */
    struct arena *arena;
    struct config_rotation *report;
};

static void begin(struct rotating *rotating)
{
    rotating->current_alone = *rotating->keys;
    rotating->current_alone.has_previous = false;
}

/* What shall stand there; NULL: what stands there. `place` names it in the report. */
static const char *rotate_ciphertext(struct rotating *rotating, struct span text, struct span aad,
                                     const char *place)
{
    struct config_rotation *report = rotating->report;
    struct secret secret;
    struct error e;
    char *fresh = NULL;

    if (envelope_decrypt(&rotating->current_alone, text, aad, &secret, NULL) == 0) {
        report->current++;
        secret_wipe(&secret);
        return NULL;
    }
    int r = envelope_decrypt(rotating->keys, text, aad, &secret, &e);
    if (r == 0)
        r = envelope_encrypt(rotating->keys, span_of(secret.bytes, secret.len), aad, rotating->arena, &fresh,
                             &e);
    secret_wipe(&secret);
    if (r == 0)
        report->rotated++;
    else
        fault_add(&report->undecryptable, rotating->arena, span_cstr(place), "%s", e.text);
    return fresh;
}

static int rotate_place(void *ctx, const struct key_place *place, struct buf *out)
{
    struct rotating *rotating = ctx;
    const char *fresh = NULL;
    struct json_writer w;

    if (place->members[MEMBER_CIPHERTEXT].kind == JSON_KIND_STRING)
        fresh =
            rotate_ciphertext(rotating, json_decode(rotating->arena, place->members[MEMBER_CIPHERTEXT].raw),
                              key_place_aad(place, rotating->arena), place->path);
    if (fresh == NULL) {
        buf_append_span(out, place->object);
        return 0;
    }
    key_place_begin(place, 1U << MEMBER_CIPHERTEXT, &w, out);
    jw_member_cstr(&w, key_member_names[MEMBER_CIPHERTEXT], fresh);
    jw_end_object(&w);
    return 0;
}

int config_rotate(struct span raw, const struct envelope_keys *keys, struct arena *arena, struct span *out,
                  struct config_rotation *report, struct error *e)
{
    struct rotating rotating = { .keys = keys, .arena = arena, .report = report };
    struct entry_faults faults = { 0 };
    struct buf text;

    if (document_check(raw, arena, &faults) != 0)
        return error_set(e, ERR_FORMAT, "the stored document is broken: %s", faults.items[0].message);
    *report = (struct config_rotation){ .rotated = 0 };
    begin(&rotating);
    buf_init(&text, STORE_VALUE_LIMIT_BYTES);
    int r = key_places_rewrite(raw, arena, rotate_place, &rotating, &text);
    if (r == 0)
        *out = span_of(arena_span(arena, buf_span(&text)), text.len);
    else
        error_set(e, r, "the document would have more than %d bytes", STORE_VALUE_LIMIT_BYTES);
    envelope_keys_wipe(&rotating.current_alone);
    buf_free(&text);
    return r;
}

int config_rotate_tag_key(struct span raw, const struct envelope_keys *keys, struct arena *arena,
                          struct span *out, struct config_rotation *report, struct error *e)
{
    struct rotating rotating = { .keys = keys, .arena = arena, .report = report };
    struct entry_faults faults = { 0 };
    static const struct json_want want = { "ciphertext", false };
    struct json_value found;

    if (entry_check(ENTRY_VOICE_PACK_TAG_KEY, raw, arena, &faults) != 0)
        return error_set(e, ERR_FORMAT, "the stored key of voice packs' tags is broken: %s",
                         faults.items[0].message);
    (void)json_find(raw, &want, 1, 0, &found, NULL);
    *report = (struct config_rotation){ .rotated = 0 };
    begin(&rotating);
    const char *fresh = rotate_ciphertext(&rotating, json_decode(arena, found.raw), tag_key_aad(),
                                          entry_name(ENTRY_VOICE_PACK_TAG_KEY));
    envelope_keys_wipe(&rotating.current_alone);
    *out = fresh == NULL ? raw : span_cstr(arena_printf(arena, "{\"ciphertext\":\"%s\"}", fresh));
    return 0;
}

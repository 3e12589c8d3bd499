#include "core/config/mask.h"

#include "core/config/document.h"
#include "core/config/keyplaces.h"
#include "core/config/snapshot.h"
#include "core/crypto/digest.h"
#include "core/json/writer.h"
#include "core/store/store.h"

enum { KEY_FINGERPRINT_DIGITS = SNAPSHOT_FP_BYTES - 1 };
_Static_assert((int)KEY_FINGERPRINT_DIGITS == (int)CIPHERTEXT_FINGERPRINT_DIGITS, "one buffer serves both");

struct masking {
    const struct envelope_keys *keys;
    struct arena *arena;
};

static int mask_place(void *ctx, const struct key_place *place, struct buf *out)
{
    struct masking *masking = ctx;
    const struct json_value *ciphertext = &place->members[MEMBER_CIPHERTEXT];
    /* A plaintext may stand here only in a document that somebody edited by hand. */
    unsigned left_out = 1U << MEMBER_CIPHERTEXT | 1U << MEMBER_KEY;
    char print[CIPHERTEXT_FINGERPRINT_DIGITS + 1];
    struct json_writer w;
    struct secret secret;

    key_place_begin(place, left_out, &w, out);
    if (ciphertext->kind == JSON_KIND_STRING) {
        struct span text = json_decode(masking->arena, ciphertext->raw);
        struct span aad = key_place_aad(place, masking->arena);
        fingerprint(text, CIPHERTEXT_FINGERPRINT_DIGITS, print);
        jw_member_cstr(&w, key_member_names[MEMBER_CIPHERTEXT_FINGERPRINT], print);
        if (masking->keys != NULL && envelope_decrypt(masking->keys, text, aad, &secret, NULL) == 0) {
            fingerprint(span_of(secret.bytes, secret.len), KEY_FINGERPRINT_DIGITS, print);
            secret_wipe(&secret);
            jw_member_cstr(&w, key_member_names[MEMBER_KEY_FINGERPRINT], print);
        }
    }
    jw_end_object(&w);
    return 0;
}

int config_mask(struct span raw, const struct envelope_keys *keys, struct arena *arena, struct span *out,
                struct error *e)
{
    struct masking masking = { keys, arena };
    struct entry_faults faults = { 0 };
    struct buf text;
    if (document_check(raw, arena, &faults) != 0)
        return error_set(e, ERR_FORMAT, "the stored document is broken: %s", faults.items[0].message);
    buf_init(&text, 2 * (size_t)STORE_VALUE_LIMIT_BYTES);
    int r = key_places_rewrite(raw, arena, mask_place, &masking, &text);
    if (r == 0)
        *out = span_of(arena_span(arena, buf_span(&text)), text.len);
    else
        error_set(e, r, "the stored document is too large to be shown");
    buf_free(&text);
    return r;
}

struct span config_mask_tag_key(struct span raw, struct arena *arena)
{
    static const struct json_want want = { "ciphertext", false };
    char print[CIPHERTEXT_FINGERPRINT_DIGITS + 1];
    struct json_value found;

    if (raw.len == 0 || json_find(raw, &want, 1, 0, &found, NULL) != 0 || found.kind != JSON_KIND_STRING)
        return span_of("", 0);
    fingerprint(json_decode(arena, found.raw), CIPHERTEXT_FINGERPRINT_DIGITS, print);
    return span_cstr(arena_printf(arena, "{\"ciphertextFingerprint\":\"%s\"}", print));
}

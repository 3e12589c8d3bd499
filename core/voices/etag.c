/* Entity tags of lists of voices. */
#include "core/voices/catalog.h"

#include "core/base/ids.h"
#include "core/crypto/digest.h"
#include "core/voices/compiled.h"

enum { TAG_DIGEST_BYTES = 16 };

void voice_selection_etag(const struct voice_selection *selection, struct span beside,
                          char out[VOICE_ETAG_BYTES])
{
    /* The whole reply follows from these three, and each has one length. */
    struct {
        uint8_t catalog[SHA256_BYTES], beside[SHA256_BYTES];
        uint64_t chosen[VOICE_TABLE_MAX / 64];
    } parts;
    uint8_t digest[SHA256_BYTES];

    sha256(span_cstr(selection->catalog == NULL ? NULL : selection->catalog->version), parts.catalog);
    sha256(beside, parts.beside);
    memcpy(parts.chosen, selection->chosen, sizeof(parts.chosen));
    sha256(span_of((const char *)&parts, sizeof(parts)), digest);
    out[0] = '"';
    ids_hex(digest, TAG_DIGEST_BYTES, out + 1);
    memcpy(out + 1 + 2 * TAG_DIGEST_BYTES, "\"", 2);
}

bool voice_etag_is_known(struct span if_none_match, const char *etag)
{
    struct span rest = span_trim(if_none_match), known = span_cstr(etag);

    if (span_is(rest, "*"))
        return true;
    while (rest.len > 0) {
        const char *comma = memchr(rest.ptr, ',', rest.len);
        size_t len = comma == NULL ? rest.len : (size_t)(comma - rest.ptr);
        struct span tag = span_trim(span_of(rest.ptr, len));
        if (span_starts(tag, "W/")) /* compared weakly: a proxy may have compressed the reply */
            tag = span_of(tag.ptr + 2, tag.len - 2);
        if (span_eq(tag, known))
            return true;
        rest = comma == NULL ? span_of("", 0) : span_of(comma + 1, rest.len - len - 1);
    }
    return false;
}

#include "core/packs/tag_key.h"

#include <openssl/crypto.h>

#include "core/base/ids.h"

struct span tag_key_aad(void)
{
    return span_cstr("voice-pack-tags"); /* a provider key's has a "|" */
}

int tag_key_make(const struct envelope_keys *keys, struct arena *arena, struct span *entry, struct error *e)
{
    unsigned char bytes[TAG_KEY_BYTES];
    char *ciphertext;

    ids_random(bytes, sizeof(bytes));
    int r = envelope_encrypt(keys, span_of((const char *)bytes, sizeof(bytes)), tag_key_aad(), arena,
                             &ciphertext, e);
    OPENSSL_cleanse(bytes, sizeof(bytes));
    if (r == 0)
        *entry = span_cstr(arena_printf(arena, "{\"ciphertext\":\"%s\"}", ciphertext));
    return r;
}

int tag_key_open(const struct envelope_keys *keys, struct span ciphertext, struct secret *out,
                 struct error *e)
{
    int r = envelope_decrypt(keys, ciphertext, tag_key_aad(), out, e);
    if (r == 0 && out->len != TAG_KEY_BYTES) {
        secret_wipe(out);
        r = error_set(e, ERR_CRYPTO, "it is no key of voice packs' tags: it has another length");
    }
    return r;
}

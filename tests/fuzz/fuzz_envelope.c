/*
 * Envelopes: nothing opens but what was sealed, in its place, unchanged; and
 * what does not open leaves nothing behind.
 *
 * Input: a byte for the form, the place up to a newline, then a text to open
 * (form 0), or a plaintext to seal (form 1) after a byte of the place of a
 * change and one of what it changes.
 */
#include "core/crypto/envelope_internal.h"
#include "tests/fuzz/fuzz.h"

/* Bytes 0 to 31. */
static const char master[] = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
/* A constant, so that a failure can be repeated. */
static const unsigned char iv[ENVELOPE_IV_BYTES] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 };

static const struct envelope_keys *fuzz_keys(void)
{
    static struct envelope_keys keys;
    static bool is_derived;
    if (!is_derived)
        fuzz_check(envelope_keys_derive(&keys, span_cstr(master), span_of("", 0), NULL) == 0,
                   "keys are derived");
    is_derived = true;
    return &keys;
}

static bool is_wiped(const struct secret *secret)
{
    const char *bytes = (const char *)secret;
    for (size_t i = 0; i < sizeof(*secret); i++)
        if (bytes[i] != 0)
            return false;
    return true;
}

static int open_text(struct span text, struct span aad, struct secret *out)
{
    struct error e = { .code = 0 };
    memset(out, 'x', sizeof(*out));
    int r = envelope_decrypt(fuzz_keys(), text, aad, out, &e);
    fuzz_check((r == ERR_FORMAT) == !envelope_is_well_formed(text),
               "what has not the form is refused for it");
    fuzz_check(r == 0 || r == ERR_FORMAT || r == ERR_CRYPTO,
               "an envelope opens, or is refused in one of two ways");
    fuzz_check(r == 0 || (is_wiped(out) && e.code == r && e.text[0] != '\0'),
               "a refusal says why and leaves nothing");
    return r;
}

/* Nobody makes an envelope without the key: what opens is what was sealed here. */
static void check_foreign(struct span aad, struct span text)
{
    struct arena *arena = arena_new();
    struct secret secret;
    char *again;
    if (open_text(text, aad, &secret) == 0 && text.len > 20 &&
        memcmp(text.ptr, "v1.AQIDBAUGBwgJCgsM.", 20) == 0) {
        fuzz_check(envelope_encrypt_with_iv(fuzz_keys()->current, iv, span_of(secret.bytes, secret.len), aad,
                                            arena, &again, NULL) == 0 &&
                       span_is(text, again),
                   "there is one text for one plaintext, place and IV");
    }
    arena_free(arena);
}

static void check_own(struct span aad, size_t change_at, unsigned change, struct span plaintext)
{
    struct arena *arena = arena_new();
    struct secret secret;
    char *text;

    int r = envelope_encrypt_with_iv(fuzz_keys()->current, iv, plaintext, aad, arena, &text, NULL);
    fuzz_check(r == (plaintext.len > ENVELOPE_PLAINTEXT_MAX ? ERR_LIMIT : 0),
               "what is short enough is sealed");
    if (r != 0)
        goto out;
    fuzz_check(open_text(span_cstr(text), aad, &secret) == 0, "what was sealed opens");
    fuzz_check(span_eq(span_of(secret.bytes, secret.len), plaintext), "what opens is what was sealed");
    fuzz_check(secret.bytes[secret.len] == '\0', "a secret has a NUL behind it");
    struct span elsewhere = span_cstr(arena_printf(arena, "%.*s|", (int)aad.len, aad.len > 0 ? aad.ptr : ""));
    if (!span_eq(aad, elsewhere))
        fuzz_check(open_text(span_cstr(text), elsewhere, &secret) == ERR_CRYPTO,
                   "it does not open in another place");
    if (change != 0) {
        text[change_at % strlen(text)] ^= (char)change;
        fuzz_check(open_text(span_cstr(text), aad, &secret) != 0, "it does not open when it was changed");
    }
out:
    arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    bool is_own = fuzz_take_choice(&in, 2) == 1;
    struct span aad = fuzz_take_line(&in);

    if (is_own) {
        size_t change_at = fuzz_take_byte(&in);
        unsigned change = fuzz_take_byte(&in) & 0x7F;
        check_own(aad, change_at, change, fuzz_rest(&in));
    } else {
        check_foreign(aad, fuzz_rest(&in));
    }
    return 0;
}

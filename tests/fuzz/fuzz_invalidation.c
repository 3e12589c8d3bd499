/*
 * The news that a value changed, from Redis, to which anybody might write: what
 * verifies is what was signed.
 *
 * Input: a byte for the form, then a payload (form 0), or a key up to a newline,
 * a version up to a newline, and a payload's change after a byte of its place and
 * one of what it changes (form 1).
 */
#include "core/store/invalidation.h"
#include "tests/fuzz/fuzz.h"

/* Bytes 0 to 31. */
static const char master[] = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

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

static bool is_same(const struct invalidation *a, const struct invalidation *b)
{
    return strcmp(a->key, b->key) == 0 && strcmp(a->version, b->version) == 0 &&
           a->published_ms == b->published_ms;
}

static int read_payload(struct span payload, struct invalidation *out)
{
    const struct invalidation before = { "before", "before", 1 };
    *out = before;
    int r = invalidation_read(payload, fuzz_keys(), out);
    fuzz_check(r == 0 || r == ERR_LIMIT || r == ERR_FORMAT || r == ERR_CRYPTO,
               "news is read, or refused in one of three ways");
    fuzz_check((r == ERR_LIMIT) == (payload.len > INVALIDATION_LIMIT_BYTES),
               "what is too long is refused for it");
    fuzz_check(r == 0 || is_same(out, &before), "a refusal leaves nothing");
    return r;
}

static void check_written_again(const struct invalidation *news)
{
    struct invalidation again;
    struct buf out;
    buf_init(&out, INVALIDATION_LIMIT_BYTES);
    fuzz_check(invalidation_write(news, fuzz_keys(), &out) == 0, "what was read can be written");
    fuzz_check(read_payload(buf_span(&out), &again) == 0, "what was written can be read");
    fuzz_check(is_same(&again, news), "it is the same news");
    buf_free(&out);
}

static void take_text(struct span line, char *out, size_t size)
{
    size_t len = line.len < size ? line.len : size - 1;
    if (len > 0)
        memcpy(out, line.ptr, len);
    out[len] = '\0';
}

static void check_own(struct fuzz_input *in)
{
    struct invalidation news = { .published_ms = 1764450000123 }, read;
    struct buf out;

    take_text(fuzz_take_line(in), news.key, sizeof(news.key));
    take_text(fuzz_take_line(in), news.version, sizeof(news.version));
    size_t change_at = fuzz_take_byte(in);
    unsigned change = fuzz_take_byte(in) & 0x7F;
    buf_init(&out, INVALIDATION_LIMIT_BYTES);
    if (invalidation_write(&news, fuzz_keys(), &out) != 0 || read_payload(buf_span(&out), &read) != 0)
        goto out; /* a key or version of another alphabet */
    if (change != 0) {
        out.data[change_at % out.len] ^= (char)change;
        if (read_payload(buf_span(&out), &read) == 0)
            fuzz_check(is_same(&read, &news), "a change that is accepted changed nothing of the news");
    }
out:
    buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    struct invalidation news;

    if (fuzz_take_choice(&in, 2) == 1)
        check_own(&in);
    else if (read_payload(fuzz_rest(&in), &news) == 0)
        check_written_again(&news);
    return 0;
}

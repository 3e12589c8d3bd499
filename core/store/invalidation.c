#include "core/store/invalidation.h"

#include <string.h>

#include "core/base/ids.h"
#include "core/crypto/digest.h"
#include "core/json/scan.h"
#include "core/json/writer.h"

#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define DIGITS "0123456789"

enum { NUMBER_DIGITS_MAX = 18 }; /* below 2^63 */

enum member { MEMBER_KEY, MEMBER_VERSION, MEMBER_PUBLISHED, MEMBER_HMAC, MEMBER_COUNT };

/* None of these alphabets needs an escape in JSON: as written is as meant. */
static const struct member_row {
    const char *name;
    enum json_kind kind;
    const char *alphabet;
    size_t min, max; /* characters */
} members[MEMBER_COUNT] = {
    [MEMBER_KEY] = { "key", JSON_KIND_STRING, UPPER DIGITS "_", 1, INVALIDATION_KEY_BYTES - 1 },
    [MEMBER_VERSION] = { "version", JSON_KIND_STRING, UPPER LOWER DIGITS "_-", 1,
                         INVALIDATION_VERSION_BYTES - 1 },
    [MEMBER_PUBLISHED] = { "publishedAt", JSON_KIND_NUMBER, DIGITS, 1, NUMBER_DIGITS_MAX },
    [MEMBER_HMAC] = { "hmac", JSON_KIND_STRING, DIGITS "abcdef", SHA256_HEX_BYTES - 1, SHA256_HEX_BYTES - 1 },
};

/* What stands between the quotes, or the number. */
struct message {
    struct span text[MEMBER_COUNT];
    bool has[MEMBER_COUNT];
};

static bool is_of_alphabet(struct span text, const char *alphabet)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] == '\0' || strchr(alphabet, text.ptr[i]) == NULL)
            return false;
    }
    return true;
}

static int take_member(void *ctx, const struct json_value *value)
{
    struct message *message = ctx;
    struct span text = value->raw;

    if (value->kind == JSON_KIND_STRING)
        text = span_of(text.ptr + 1, text.len - 2);
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        const struct member_row *row = &members[i];
        if (!span_is(value->key, row->name))
            continue;
        if (value->kind != row->kind || text.len < row->min || text.len > row->max ||
            !is_of_alphabet(text, row->alphabet))
            return ERR_FORMAT;
        message->text[i] = text;
        message->has[i] = true;
        return 0;
    }
    return ERR_FORMAT; /* another member, or an array's element */
}

static void write_signed_part(struct json_writer *w, const struct invalidation *news)
{
    jw_member_cstr(w, "key", news->key);
    jw_member_cstr(w, "version", news->version);
    jw_member_uint(w, "publishedAt", news->published_ms);
}

static void sign(const struct invalidation *news, const unsigned char key[32], char hex[SHA256_HEX_BYTES])
{
    struct buf text;
    struct json_writer w;
    uint8_t mac[SHA256_BYTES];

    buf_init(&text, INVALIDATION_LIMIT_BYTES);
    jw_init(&w, &text);
    jw_begin_object(&w);
    write_signed_part(&w, news);
    jw_end_object(&w);
    hmac_sha256(span_of((const char *)key, 32), buf_span(&text), mac);
    ids_hex(mac, sizeof(mac), hex);
    buf_free(&text);
}

int invalidation_write(const struct invalidation *news, const struct envelope_keys *keys, struct buf *out)
{
    struct json_writer w;
    char hmac[SHA256_HEX_BYTES];

    sign(news, keys->news_current, hmac);
    jw_init(&w, out);
    jw_begin_object(&w);
    write_signed_part(&w, news);
    jw_member_cstr(&w, "hmac", hmac);
    jw_end_object(&w);
    return out->overflowed ? ERR_LIMIT : 0;
}

static bool is_signed_with(const struct invalidation *news, const unsigned char key[32], struct span hmac)
{
    char hex[SHA256_HEX_BYTES];
    sign(news, key, hex);
    return equal_in_constant_time(span_cstr(hex), hmac);
}

static void copy_text(char *out, struct span text)
{
    memcpy(out, text.ptr, text.len);
    out[text.len] = '\0';
}

int invalidation_read(struct span payload, const struct envelope_keys *keys, struct invalidation *out)
{
    static const struct json_want each_member = { "*", false };
    struct message message = { .has = { false } };
    struct invalidation news;
    long long published = 0;

    if (payload.len > INVALIDATION_LIMIT_BYTES)
        return ERR_LIMIT;
    if (json_scan(payload, &each_member, 1, JSON_SCAN_UNIQUE, take_member, &message, NULL) != 0)
        return ERR_FORMAT;
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        if (!message.has[i])
            return ERR_FORMAT;
    }
    if (!json_int(message.text[MEMBER_PUBLISHED], &published))
        return ERR_FORMAT;
    news.published_ms = (uint64_t)published;
    copy_text(news.key, message.text[MEMBER_KEY]);
    copy_text(news.version, message.text[MEMBER_VERSION]);
    if (!is_signed_with(&news, keys->news_current, message.text[MEMBER_HMAC]) &&
        !(keys->has_previous && is_signed_with(&news, keys->news_previous, message.text[MEMBER_HMAC])))
        return ERR_CRYPTO;
    *out = news;
    return 0;
}

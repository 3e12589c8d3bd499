/*
 * What adapters make of a caller's text and a provider's URL: pieces within their
 * bound that are the text; SSML that is well formed; no way out of the provider's
 * hosts.
 *
 * Input: a byte for the bound of a piece, the text.
 */
#include "adapters/characters.h"
#include "adapters/download_url.h"
#include "adapters/split.h"
#include "adapters/ssml.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/count_characters.h"

enum { OUT_BYTES = 16 * 1024 * 1024 };

static void check_pieces(struct span text, size_t max_bytes)
{
    struct span rest = text;
    size_t at = 0, n_characters = 0;
    while (rest.len > 0) {
        struct span piece = split_take(&rest, max_bytes);
        fuzz_check(piece.len > 0 && piece.len <= max_bytes, "a piece is within its bound");
        fuzz_check(piece.ptr == text.ptr + at, "the pieces follow each other");
        at += piece.len;
        n_characters += count_characters(piece);
    }
    fuzz_check(at == text.len, "the pieces are the text");
    fuzz_check(n_characters == count_characters(text), "no cut is inside a character");
}

/* Whether an entity that the escaping writes stands here. */
static size_t entity_at(struct span text)
{
    static const char *const entities[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&#13;" };
    for (size_t i = 0; i < sizeof(entities) / sizeof(entities[0]); i++)
        if (span_starts(text, entities[i]))
            return strlen(entities[i]);
    return 0;
}

static void check_escaped(struct span text)
{
    while (text.len > 0) {
        if (text.ptr[0] == '&') {
            size_t len = entity_at(text);
            fuzz_check(len > 0, "an ampersand begins an entity");
            text = span_of(text.ptr + len, text.len - len);
            continue;
        }
        struct span before = text;
        uint32_t code = character_take(&text);
        fuzz_check(strchr("<>\"'\r", before.ptr[0]) == NULL, "marks are written as entities");
        fuzz_check(code >= 0x20 || code == '\t' || code == '\n', "no control character is left");
        fuzz_check(code != 0xFFFE && code != 0xFFFF, "nothing is left that XML forbids");
        fuzz_check(code != 0xFFFD || before.len - text.len == 3, "what is left is UTF-8");
    }
}

static void check_ssml(struct span text)
{
    struct buf out;
    buf_init(&out, OUT_BYTES);
    ssml_escape(&out, text);
    check_escaped(buf_span(&out));
    buf_free(&out);
    struct span locale = ssml_locale(text);
    fuzz_check(locale.len <= text.len && (locale.len == 0 || locale.ptr == text.ptr),
               "a locale begins a name");
    if (!ssml_is_voice(text))
        return;
    buf_init(&out, OUT_BYTES);
    ssml_escape(&out, text);
    fuzz_check(span_eq(buf_span(&out), text), "a voice's name needs no escape");
    buf_free(&out);
}

/* The host of a URL as a strict reader sees it, up to the first of ":/?" behind "https://". */
static bool is_below(const char *url, const char *domain)
{
    if (strncmp(url, "https://", 8) != 0)
        return false;
    size_t host = strcspn(url + 8, "/?:#@\\[]% "), len = strlen(domain);
    bool ends = url[8 + host] == '\0' || url[8 + host] == '/' || url[8 + host] == '?';
    return ends && host >= len && strncasecmp(url + 8 + host - len, domain, len) == 0 &&
           (host == len || url[8 + host - len - 1] == '.');
}

static void check_url(struct span text)
{
    struct arena *arena = arena_new();
    const char *url = download_url_check(text, "aliyuncs.com", "http://127.0.0.1:8081/x", arena);
    if (url != NULL) {
        for (const char *p = url; *p != '\0'; p++)
            fuzz_check(*p > 0x20 && *p < 0x7F, "a URL is visible ASCII");
        fuzz_check(is_below(url, "aliyuncs.com") || strncasecmp(url, "http://127.0.0.1:8081", 21) == 0,
                   "only the provider's hosts are gone to");
    }
    arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    size_t max_bytes = SPLIT_BYTES_MIN + fuzz_take_byte(&in);
    struct span text = fuzz_rest(&in);

    if (text.len > 64 * 1024)
        return 0;
    check_pieces(text, max_bytes);
    check_ssml(text);
    check_url(text);
    return 0;
}

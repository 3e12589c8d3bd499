/* The words of a message: what is searched, and how. */
#include "core/route/signature_body.h"

#include <string.h>

enum { PHRASE_GAP_MAX = 80 };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct quote {
    const char *open, *close;
    bool is_apostrophe; /* inside a word it quotes nothing: "doesn't" */
};

static const struct quote quotes[] = {
    { "\"", "\"", false },         { "`", "`", false },          { "'", "'", true },
    { "\u201C", "\u201D", false }, { "\u2018", "\u2019", true }, { "\u300C", "\u300D", false },
};

/* The quote that opens at `at`, or NULL. */
static const struct quote *quote_at(struct span text, size_t at)
{
    for (size_t i = 0; i < sizeof(quotes) / sizeof(quotes[0]); i++) {
        if (!span_starts(span_of(text.ptr + at, text.len - at), quotes[i].open))
            continue;
        if (!quotes[i].is_apostrophe || at == 0 || !is_word(text.ptr[at - 1]))
            return &quotes[i];
    }
    return NULL;
}

/* Where the text goes on after the quote that opens at `at`: behind the last
 * closing one, or at the end if none closes it. */
static size_t quote_end(struct span text, size_t at, const struct quote *quote)
{
    size_t close = strlen(quote->close), first = at + strlen(quote->open);
    for (size_t i = text.len; i >= first + close; i--) {
        if (memcmp(text.ptr + i - close, quote->close, close) != 0)
            continue;
        if (!quote->is_apostrophe || i == text.len || !is_word(text.ptr[i]))
            return i;
    }
    return text.len;
}

struct span signature_text(struct span message, struct arena *arena)
{
    /* The end of a quote is looked for in the whole message: the quote may be longer than what is searched.
     */
    size_t limit = message.len < SIGNATURE_TEXT_MAX ? message.len : SIGNATURE_TEXT_MAX, len = 0;
    char *out = arena_alloc(arena, limit + 1);
    for (size_t i = 0; i < limit;) {
        const struct quote *quote = quote_at(message, i);
        char c = quote != NULL || is_blank(message.ptr[i]) ? ' ' : message.ptr[i];
        i = quote != NULL ? quote_end(message, i, quote) : i + 1;
        if (c == ' ' && (len == 0 || out[len - 1] == ' '))
            continue;
        out[len++] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    return span_trim(span_of(out, len));
}

bool signature_token_fits(const char *pattern, struct span text)
{
    size_t at = 0, retry_at = 0;
    const char *retry = NULL; /* behind the last "*": what follows it is tried ever later */
    while (at < text.len) {
        if (*pattern == '*') {
            retry = ++pattern;
            retry_at = at;
        } else if (*pattern != '\0' && *pattern == text.ptr[at]) {
            pattern++;
            at++;
        } else if (retry != NULL) {
            pattern = retry;
            at = ++retry_at;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

/* Whether nothing but punctuation follows. */
static bool ends_at(struct span text, size_t at)
{
    while (at < text.len && strchr(" .,;:!)", text.ptr[at]) != NULL && text.ptr[at] != '\0')
        at++;
    return at == text.len;
}

/* Whether `piece` stands at `at` as a word's beginning, and no number is cut in two. */
static bool piece_at(struct span text, size_t at, struct span piece)
{
    if (piece.len > text.len - at || memcmp(text.ptr + at, piece.ptr, piece.len) != 0)
        return false;
    if (at > 0 && is_word(piece.ptr[0]) && is_word(text.ptr[at - 1]))
        return false;
    size_t end = at + piece.len;
    return !is_digit(piece.ptr[piece.len - 1]) || end == text.len || !is_digit(text.ptr[end]);
}

/* Whether the phrase stands in the text, beginning at one of first..last. */
static bool phrase_from(struct span text, const char *phrase, size_t first, size_t last)
{
    size_t len = strcspn(phrase, "*$");
    for (size_t at = first; at <= last && at < text.len; at++) {
        if (!piece_at(text, at, span_of(phrase, len)))
            continue;
        size_t end = at + len;
        if (phrase[len] == '\0' || (phrase[len] == '$' && ends_at(text, end)))
            return true;
        if (phrase[len] == '*' && phrase_from(text, phrase + len + 1, end, end + PHRASE_GAP_MAX))
            return true;
    }
    return false;
}

bool signature_phrase_fits(const char *phrase, struct span text)
{
    return phrase_from(text, phrase, 0, text.len);
}

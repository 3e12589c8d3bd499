#include "core/log/log.h"

#include <stdint.h>
#include <string.h>
#include <strings.h>

static const char MARK[] = "[redacted]";

/* What a rule found: `keep` bytes that stay, then `drop` bytes that do not. */
struct secret {
    size_t keep;
    size_t drop;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_alnum(char c)
{
    return is_digit(c) || is_upper(c) || (c >= 'a' && c <= 'z');
}

static bool is_one_of(char c, const char *set)
{
    return c != '\0' && strchr(set, c) != NULL;
}

/* Everything that keys, tokens, base64 and their masked forms are written with. */
static bool is_run(char c)
{
    return is_alnum(c) || is_one_of(c, "-_.+/=~%*");
}

static bool is_name(char c)
{
    return is_alnum(c) || c == '-' || c == '_';
}

static bool is_space(char c)
{
    return is_one_of(c, " \t\r\n");
}

static size_t count_while(struct span text, size_t at, bool (*is)(char c))
{
    size_t n = 0;
    while (at + n < text.len && is(text.ptr[at + n]))
        n++;
    return n;
}

/* Whether what is before `at` is no character of such a word. */
static bool starts_at(struct span text, size_t at, bool (*is)(char c))
{
    return at == 0 || !is(text.ptr[at - 1]);
}

static bool has_at(struct span text, size_t at, const char *word)
{
    size_t len = strlen(word);
    return len <= text.len - at && strncasecmp(text.ptr + at, word, len) == 0;
}

/* A full stop that ends the sentence is not the secret's. */
static size_t without_stop(struct span text, size_t at, size_t n)
{
    while (n > 0 && text.ptr[at + n - 1] == '.')
        n--;
    return n;
}

static size_t count_run(struct span text, size_t at)
{
    return without_stop(text, at, count_while(text, at, is_run));
}

/* "https://user:password@host" */
static bool match_user_info(struct span text, size_t at, struct secret *found)
{
    size_t n = 3;
    if (!has_at(text, at, "://"))
        return false;
    while (at + n < text.len && !is_space(text.ptr[at + n]) && !is_one_of(text.ptr[at + n], "@/?#\"'"))
        n++;
    if (at + n == text.len || text.ptr[at + n] != '@')
        return false;
    *found = (struct secret){ 3, n - 3 };
    return true;
}

/* Basic credentials are base64, and "basic plan" is not. */
static bool looks_base64(struct span token)
{
    for (size_t i = 0; i < token.len; i++)
        if (is_digit(token.ptr[i]) || is_one_of(token.ptr[i], "+/=") || (i > 0 && is_upper(token.ptr[i])))
            return true;
    return false;
}

/* "Bearer TOKEN", but not "bearer authentication". */
static bool match_scheme(struct span text, size_t at, struct secret *found)
{
    static const char *const prose[] = { "token",          "tokens",        "auth",
                                         "authentication", "authorization", "scheme" };
    struct span word = span_of(text.ptr + at, count_while(text, at, is_alnum));
    bool is_bearer = span_is_nocase(word, "bearer"), is_basic = span_is_nocase(word, "basic");
    if (!starts_at(text, at, is_alnum) || !(is_bearer || is_basic))
        return false;
    size_t space = count_while(text, at + word.len, is_space);
    size_t keep = word.len + space;
    struct span token = span_of(text.ptr + at + keep, count_run(text, at + keep));
    if (space == 0 || token.len == 0 || (is_basic && !looks_base64(token)))
        return false;
    for (size_t i = 0; i < sizeof(prose) / sizeof(prose[0]); i++)
        if (span_is_nocase(token, prose[i]))
            return false;
    *found = (struct secret){ keep, token.len };
    return true;
}

/* How the names of members, parameters and headers end whose value is secret. */
struct label {
    const char *ending;
    bool has_whole_line; /* an unquoted value goes on after a space */
};

static const struct label LABELS[] = {
    { "key", false },       { "token", false }, { "secret", false },       { "password", false },
    { "passwd", false },    { "pwd", false },   { "passphrase", false },   { "credential", false },
    { "signature", false }, { "sig", false },   { "authorization", true }, { "cookie", true },
};

static const struct label *find_label(struct span name)
{
    for (size_t i = 0; i < sizeof(LABELS) / sizeof(LABELS[0]); i++) {
        size_t len = strlen(LABELS[i].ending);
        if (name.len >= len && has_at(name, name.len - len, LABELS[i].ending))
            return &LABELS[i];
    }
    return NULL;
}

/* "API key provided: …" */
static size_t count_participle(struct span text, size_t at)
{
    static const char *const words[] = { "provided", "supplied", "given", "sent", "value", "is", "was" };
    size_t space = count_while(text, at, is_space);
    size_t word = count_while(text, at + space, is_alnum);
    for (size_t i = 0; space > 0 && i < sizeof(words) / sizeof(words[0]); i++)
        if (span_is_nocase(span_of(text.ptr + at + space, word), words[i]))
            return space + word;
    return 0;
}

static bool is_quote(char c)
{
    return is_one_of(c, "\"'`");
}

/* Quotes may themselves be escaped: JSON in a JSON string. */
static bool is_quoting(char c)
{
    return is_quote(c) || c == '\\';
}

/* ":", "=", "=>", and their forms in a URL. */
static size_t count_separator(struct span text, size_t at)
{
    static const char *const forms[] = { "=>", ":", "=", "%3A", "%3D" };
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        if (has_at(text, at, forms[i]))
            return strlen(forms[i]);
    return 0;
}

static size_t count_value(struct span text, size_t at, const struct label *label)
{
    size_t n = 0;
    const char *ends = label->has_whole_line ? "\r\n\"'`" : " \t\r\n\"'`&,;)}]<>|\\";
    while (at + n < text.len && !is_one_of(text.ptr[at + n], ends))
        n++;
    return without_stop(text, at, n);
}

/* The value up to its closing quote, or up to the end if there is none. */
static size_t count_quoted(struct span text, size_t at, char quote, bool is_escaped_quote)
{
    size_t n = 0;
    while (at + n < text.len && text.ptr[at + n] != quote) {
        if (text.ptr[at + n] == '\\' && !is_escaped_quote && at + n + 1 < text.len)
            n++;
        n++;
    }
    if (is_escaped_quote && at + n < text.len)
        while (n > 0 && text.ptr[at + n - 1] == '\\')
            n--;
    return n;
}

/* "api_key=VALUE", "\"token\": \"VALUE\"", "x-api-key: VALUE" */
static bool match_label(struct span text, size_t at, struct secret *found)
{
    if (!starts_at(text, at, is_name))
        return false;
    size_t n = count_while(text, at, is_name);
    const struct label *label = find_label(span_of(text.ptr + at, n));
    if (label == NULL)
        return false;
    n += count_participle(text, at + n);
    n += count_while(text, at + n, is_quoting);
    n += count_while(text, at + n, is_space);
    size_t separator = count_separator(text, at + n);
    if (separator == 0)
        return false;
    n += separator;
    n += count_while(text, at + n, is_space);
    size_t quotes = count_while(text, at + n, is_quoting);
    size_t value = n + quotes;
    if (quotes > 0 && is_quote(text.ptr[at + value - 1])) {
        bool is_escaped_quote = quotes > 1 && text.ptr[at + value - 2] == '\\';
        *found = (struct secret){ value, count_quoted(text, at + value, text.ptr[at + value - 1],
                                                      is_escaped_quote) };
    } else {
        struct secret scheme;
        *found = (struct secret){ value, count_value(text, at + value, label) };
        if (!label->has_whole_line && match_scheme(text, at + value, &scheme))
            *found = (struct secret){ value + scheme.keep, scheme.drop };
    }
    return found->drop > 0;
}

/* How providers begin their keys, and what a key has at least after that. */
struct prefix {
    const char *text;
    size_t more;
};

static const struct prefix PREFIXES[] = {
    { "sk-", 1 },    { "sk_", 1 },         { "pk-", 8 },    { "pk_", 8 },  { "rk_", 8 },  { "AIza", 4 },
    { "AKIA", 8 },   { "ghp_", 4 },        { "gho_", 4 },   { "ghs_", 4 }, { "xox", 6 },  { "eyJ", 5 },
    { "gsk_", 4 },   { "github_pat_", 4 }, { "glpat-", 4 }, { "hf_", 12 }, { "r8_", 12 }, { "xai-", 12 },
    { "nvapi-", 8 }, { "pplx-", 12 },      { "ya29.", 8 },
};

static bool match_prefix(struct span text, size_t at, struct secret *found)
{
    if (!starts_at(text, at, is_alnum))
        return false;
    for (size_t i = 0; i < sizeof(PREFIXES) / sizeof(PREFIXES[0]); i++) {
        size_t len = text.ptr[at] == PREFIXES[i].text[0] ? strlen(PREFIXES[i].text) : SIZE_MAX;
        if (len <= text.len - at && memcmp(text.ptr + at, PREFIXES[i].text, len) == 0 &&
            count_run(text, at) >= len + PREFIXES[i].more) {
            *found = (struct secret){ 0, count_run(text, at) };
            return true;
        }
    }
    return false;
}

/* What a stretch of letters and digits looks like. */
enum look {
    LOOKS_WORD,   /* "sonnet", "DeepSeek", "INSTRUCT", "20241022" */
    LOOKS_MIXED,  /* "4o", "70B", "llama3": names have a few of these */
    LOOKS_RANDOM, /* no name looks like this */
};

enum {
    RUN_BYTES_MIN = 16, /* shorter runs are left alone */
    RUN_MIXED_MAX = 3,
    WORD_LETTERS_MAX = 24,
    CAMEL_HUMP_MIN = 4,
    SHOUTED_LETTERS_MAX = 16,
    WORD_DIGITS_MAX = 8, /* a date */
    MIXED_MAX = 6,
};

/* "ContentPolicyViolationError": humps of a capital and some more letters. */
static bool is_camel_case(struct span part)
{
    size_t hump = CAMEL_HUMP_MIN;
    for (size_t i = 0; i < part.len; i++) {
        bool is_start = is_upper(part.ptr[i]);
        if (hump > WORD_LETTERS_MAX || (is_start && hump < CAMEL_HUMP_MIN))
            return false;
        hump = is_start ? 1 : hump + 1;
    }
    return hump >= CAMEL_HUMP_MIN && hump <= WORD_LETTERS_MAX;
}

static enum look look_of(struct span part)
{
    size_t upper = 0, digits = 0, digits_at_end = 0;
    for (size_t i = 0; i < part.len; i++) {
        bool is = is_digit(part.ptr[i]);
        digits += is;
        digits_at_end = is ? digits_at_end + 1 : 0;
        upper += is_upper(part.ptr[i]);
    }
    size_t letters = part.len - digits;
    bool is_shouted = upper == letters && letters <= SHOUTED_LETTERS_MAX;
    bool is_word = is_shouted || (upper <= 3 && letters <= WORD_LETTERS_MAX);
    if (letters == 0)
        return digits <= WORD_DIGITS_MAX ? LOOKS_WORD : LOOKS_RANDOM;
    if (digits == 0)
        return is_word || is_camel_case(part) ? LOOKS_WORD : LOOKS_RANDOM;
    if (part.len <= MIXED_MAX || (digits_at_end == digits && digits <= 2 && letters <= 12 && upper <= 1))
        return LOOKS_MIXED;
    return LOOKS_RANDOM;
}

/* A whole run is judged by its parts: names of models, hosts and files are
 * words and short numbers, keys are not. */
static bool match_run(struct span text, size_t at, struct secret *found)
{
    size_t len = starts_at(text, at, is_run) ? count_run(text, at) : 0;
    size_t mixed = 0, letters = 0;
    bool is_random = false, is_masked = false;
    for (size_t i = 0, part; i < len; i += part + 1) {
        part = count_while(span_of(text.ptr, at + len), at + i, is_alnum);
        enum look look = look_of(span_of(text.ptr + at + i, part));
        mixed += look == LOOKS_MIXED;
        is_random |= look == LOOKS_RANDOM;
        for (size_t k = 0; k < part; k++)
            letters += !is_digit(text.ptr[at + i + k]);
        is_masked |= part < len - i && len - i - part > 1 && text.ptr[at + i + part] == '*' &&
                     text.ptr[at + i + part + 1] == '*';
    }
    if (letters == 0 || !(is_masked || (len >= RUN_BYTES_MIN && (is_random || mixed > RUN_MIXED_MAX))))
        return false;
    *found = (struct secret){ 0, len };
    return true;
}

/* In this order: the first that matches keeps most of what surrounds a secret. */
static bool (*const RULES[])(struct span text, size_t at, struct secret *found) = {
    match_user_info, match_scheme, match_label, match_prefix, match_run,
};

static bool match_any(struct span text, size_t at, struct secret *found)
{
    for (size_t i = 0; i < sizeof(RULES) / sizeof(RULES[0]); i++)
        if (RULES[i](text, at, found))
            return true;
    return false;
}

/* The longest beginning of at most `room` bytes that splits no character. */
static size_t cut_at_border(struct span text, size_t room)
{
    if (text.len <= room)
        return text.len;
    size_t n = room;
    while (n > 0 && room - n < 3 && ((unsigned char)text.ptr[n] & 0xC0) == 0x80)
        n--;
    return n;
}

/* Appends what still fits; false when no more does. */
static bool put(struct buf *out, struct span piece, size_t *room)
{
    size_t n = cut_at_border(piece, *room);
    *room = n < piece.len ? 0 : *room - n;
    (void)buf_append(out, piece.ptr, n);
    return *room > 0;
}

/* Secrets are looked for in the whole text, then the result is cut: a key of
 * which the cut leaves a beginning would not be recognised any more. */
void log_redact(struct buf *out, struct span text, size_t limit)
{
    size_t at = 0, from = 0, room = limit;
    while (at < text.len && at - from < room) {
        struct secret found;
        if (match_any(text, at, &found)) {
            size_t keep = at + found.keep - from;
            if (!put(out, span_of(text.ptr + from, keep), &room) || !put(out, span_cstr(MARK), &room))
                return;
            at += found.keep + found.drop;
            from = at;
        } else {
            size_t word = count_while(text, at, is_alnum);
            at += word > 0 ? word : 1;
        }
    }
    (void)put(out, span_of(text.ptr + from, text.len - from), &room);
}

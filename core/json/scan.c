#include "core/json/scan.h"

#include <assert.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/json/names.h"
#include "core/json/text.h"

/* Internal result: the text ended where JSON_SCAN_CUT lets it. */
enum { ENDED = 1 };

/* A set of wanted paths, one bit each: what makes matching cheap is that a set
 * becomes empty as soon as no path can match, and stays so further down. */
typedef uint32_t want_set;
_Static_assert(JSON_WANTS_MAX <= 32, "a want_set has 32 bits");

/* Where a value stands. */
struct place {
    struct span key;
    size_t key_offset;
    size_t element;
    bool in_array;  /* `element` was fixed by an array further out */
    want_set wants; /* paths whose first names lead here */
};

/* An open array or object. */
struct frame {
    struct place place;
    size_t offset;
    size_t count;    /* members or elements begun */
    size_t number;   /* of the object, in the order of their beginnings */
    want_set inside; /* wants that go on to a member or an element */
    want_set seen;   /* unique ones of them whose next name was met */
    bool is_object;
};

struct scanner {
    const unsigned char *start, *p, *end;
    unsigned flags;
    int (*on_value)(void *ctx, const struct json_value *value);
    void *ctx;
    struct json_fault fault;
    size_t n_objects;
    struct names names; /* used with JSON_SCAN_UNIQUE only */
    size_t depth;
    const struct json_paths *paths;
    struct frame frames[JSON_DEPTH_MAX];
};

void json_paths_init(struct json_paths *paths, const struct json_want *wants, size_t n_wants)
{
    assert(n_wants <= JSON_WANTS_MAX);
    paths->wants = wants;
    paths->n_wants = n_wants;
    paths->unique = 0;
    memset(paths->ending, 0, sizeof(paths->ending));
    memset(paths->star, 0, sizeof(paths->star));
    memset(paths->initial, 0, sizeof(paths->initial));
    for (size_t i = 0; i < n_wants; i++) {
        want_set bit = (want_set)1 << i;
        const char *p = wants[i].path;
        size_t n = 0;
        while (*p != '\0') {
            size_t from = (size_t)(p - wants[i].path), len = (size_t)(strchrnul(p, '.') - p);
            assert(n < JSON_PATH_MAX && from + len <= UINT8_MAX);
            paths->names[i][n].from = (uint8_t)from;
            paths->names[i][n].len = (uint8_t)len;
            if (len == 1 && *p == '*')
                paths->star[n] |= bit;
            else
                paths->initial[n][(unsigned char)*p % 32] |= bit;
            n++;
            p += len + (p[len] == '.');
        }
        paths->ending[n] |= bit;
        if (wants[i].unique)
            paths->unique |= bit;
    }
}

static int refuse_at(struct scanner *s, const unsigned char *p, int code, const char *what)
{
    s->fault = (struct json_fault){ (size_t)(p - s->start), what };
    return code;
}

static int refuse(struct scanner *s, const char *what)
{
    return refuse_at(s, s->p, ERR_FORMAT, what);
}

/* The text ends before the value does. */
static int end_early(struct scanner *s)
{
    s->p = s->end;
    return (s->flags & JSON_SCAN_CUT) != 0 ? ENDED : refuse(s, "the text ends too early");
}

static void skip_space(struct scanner *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t'))
        s->p++;
}

/* Tells the caller of the value that began at `offset` and ends before s->p. */
static int report(struct scanner *s, enum json_kind kind, const struct place *place, size_t offset)
{
    if (place->wants == 0 || s->on_value == NULL)
        return 0;
    want_set wants = place->wants & s->paths->ending[s->depth];
    struct json_value value = {
        .kind = kind,
        .raw = span_of((const char *)s->start + offset, (size_t)(s->p - s->start) - offset),
        .key = place->key,
        .key_offset = place->key_offset,
        .offset = offset,
        .element = place->element,
    };
    for (; wants != 0; wants &= wants - 1) {
        value.path = (unsigned)__builtin_ctz(wants);
        int r = s->on_value(s->ctx, &value);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Eight bytes at once while none of them is a quote, a backslash, a control
 * character or beyond ASCII: bodies are mostly one long string of base64. */
static const unsigned char *skip_plain(const unsigned char *p, const unsigned char *end)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones * 0x80;
    while (end - p >= 8) {
        uint64_t x;
        memcpy(&x, p, 8);
        uint64_t quote = (x ^ (ones * '"')) - ones, backslash = (x ^ (ones * '\\')) - ones;
        if (((x | (x - ones * 0x20) | quote | backslash) & highs) != 0)
            break;
        p += 8;
    }
    while (p < end && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\')
        p++;
    return p;
}

/* 1 for a hex digit, else 0; without a branch, which digits would make a coin toss. */
static int count_hex(unsigned char c)
{
    return ((unsigned)c - '0' < 10) + ((unsigned)(c | 0x20) - 'a' < 6);
}

/* Behind "\\u"; leaves s->p behind the digits. */
static int read_hex4(struct scanner *s)
{
    const unsigned char *p = s->p;
    if (s->end - p >= 4 && count_hex(p[0]) + count_hex(p[1]) + count_hex(p[2]) + count_hex(p[3]) == 4) {
        s->p += 4;
        return 0;
    }
    while (s->p < s->end && count_hex(*s->p) == 1)
        s->p++;
    return s->p == s->end ? end_early(s) : refuse(s, "expected four hex digits");
}

/* At a backslash; leaves s->p behind the escape. */
static int read_escape(struct scanner *s)
{
    s->p++;
    if (s->p == s->end)
        return end_early(s);
    unsigned char c = *s->p;
    if (c == 'u') {
        s->p++;
        return read_hex4(s);
    }
    if (c == '\0' || strchr("\"\\/bfnrt", c) == NULL)
        return refuse(s, "no such escape");
    s->p++;
    return 0;
}

/* At a byte beyond ASCII; leaves s->p behind the characters there. */
static int read_utf8(struct scanner *s)
{
    s->p += utf8_skip(s->p, (size_t)(s->end - s->p));
    if (s->p == s->end || *s->p < 0x80)
        return 0;
    size_t need, n = utf8_prefix(s->p, (size_t)(s->end - s->p), &need);
    s->p += n;
    if (need != 0 && s->p == s->end)
        return end_early(s);
    return refuse(s, "not UTF-8");
}

/* At the opening quote; leaves s->p behind the closing one. */
static int read_string(struct scanner *s)
{
    s->p++;
    for (;;) {
        int r = 0;
        s->p = skip_plain(s->p, s->end);
        if (s->p == s->end)
            return end_early(s);
        if (*s->p == '"')
            break;
        if (*s->p == '\\')
            r = read_escape(s);
        else if (*s->p >= 0x80)
            r = read_utf8(s);
        else
            r = refuse(s, "a control character in a string");
        if (r != 0)
            return r;
    }
    s->p++;
    return 0;
}

/* One digit or more. */
static int read_digits(struct scanner *s)
{
    if (s->p == s->end)
        return end_early(s);
    if (*s->p < '0' || *s->p > '9')
        return refuse(s, "expected a digit");
    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return 0;
}

static bool take(struct scanner *s, char c)
{
    if (s->p == s->end || *s->p != (unsigned char)c)
        return false;
    s->p++;
    return true;
}

static int read_number(struct scanner *s)
{
    int r = 0;
    (void)take(s, '-');
    if (!take(s, '0'))
        r = read_digits(s);
    if (r == 0 && take(s, '.'))
        r = read_digits(s);
    if (r == 0 && (take(s, 'e') || take(s, 'E'))) {
        if (!take(s, '+'))
            (void)take(s, '-');
        r = read_digits(s);
    }
    /* Nobody knows whether a number that ends with a cut text is whole. */
    if (r == 0 && s->p == s->end && (s->flags & JSON_SCAN_CUT) != 0)
        r = ENDED;
    return r;
}

static int read_word(struct scanner *s, const char *word)
{
    for (; *word != '\0'; word++) {
        if (s->p == s->end)
            return end_early(s);
        if (!take(s, *word))
            return refuse(s, "expected true, false or null");
    }
    return 0;
}

static int open_frame(struct scanner *s, const struct place *place)
{
    if (s->depth == JSON_DEPTH_MAX)
        return refuse_at(s, s->p, ERR_LIMIT, "nested too deeply");
    struct frame *frame = &s->frames[s->depth];
    frame->place = *place;
    frame->inside = place->wants == 0 ? 0 : place->wants & ~s->paths->ending[s->depth];
    frame->offset = (size_t)(s->p - s->start);
    frame->count = 0;
    frame->seen = 0;
    frame->is_object = *s->p == '{';
    frame->number = s->n_objects;
    s->n_objects += frame->is_object;
    s->depth++;
    s->p++;
    return 0;
}

/* Reads a whole scalar, or opens a container. */
static int read_value(struct scanner *s, const struct place *place)
{
    enum json_kind kind;
    int r;
    skip_space(s);
    if (s->p == s->end)
        return end_early(s);
    size_t offset = (size_t)(s->p - s->start);
    switch (*s->p) {
    case '{':
    case '[':
        return open_frame(s, place);
    case '"':
        kind = JSON_KIND_STRING;
        r = read_string(s);
        break;
    case 't':
        kind = JSON_KIND_TRUE;
        r = read_word(s, "true");
        break;
    case 'f':
        kind = JSON_KIND_FALSE;
        r = read_word(s, "false");
        break;
    case 'n':
        kind = JSON_KIND_NULL;
        r = read_word(s, "null");
        break;
    default:
        if (*s->p != '-' && (*s->p < '0' || *s->p > '9'))
            return refuse(s, "expected a value");
        kind = JSON_KIND_NUMBER;
        r = read_number(s);
    }
    return r != 0 ? r : report(s, kind, place, offset);
}

/* Which wants a member's name lets through. */
static int match_name(struct scanner *s, struct frame *frame, struct place *place)
{
    place->wants = 0;
    if (frame->inside == 0)
        return 0;
    const struct json_paths *paths = s->paths;
    size_t level = s->depth - 1;
    struct span key = place->key;
    bool has_escape = key.len > 0 && memchr(key.ptr, '\\', key.len) != NULL;
    want_set stars = frame->inside & paths->star[level];
    want_set likely =
        key.len == 0 || has_escape ? ~(want_set)0 : paths->initial[level][(unsigned char)key.ptr[0] % 32];
    want_set named = 0;
    for (want_set left = frame->inside & ~stars & likely; left != 0; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctz(left);
        struct span name =
            span_of(paths->wants[i].path + paths->names[i][level].from, paths->names[i][level].len);
        if (has_escape ? json_same_text(key, name) : span_eq(key, name))
            named |= (want_set)1 << i;
    }
    if ((named & frame->seen) != 0)
        return ERR_CONFLICT;
    frame->seen |= named & paths->unique;
    place->wants = stars | named;
    return 0;
}

/* A member's name and its colon. */
static int read_name(struct scanner *s, struct frame *frame, struct place *place)
{
    skip_space(s);
    if (s->p == s->end)
        return end_early(s);
    const unsigned char *quote = s->p;
    if (*quote != '"')
        return refuse(s, frame->count == 0 ? "expected a member or '}'" : "expected a member");
    int r = read_string(s);
    if (r != 0)
        return r;
    place->key = span_of((const char *)quote + 1, (size_t)(s->p - quote) - 2);
    place->key_offset = (size_t)(quote - s->start);
    place->element = frame->place.element;
    place->in_array = frame->place.in_array;
    r = match_name(s, frame, place);
    if (r == 0 && (s->flags & JSON_SCAN_UNIQUE) != 0 && !names_add(&s->names, frame->number, place->key))
        r = ERR_CONFLICT;
    if (r != 0)
        return refuse_at(s, quote, r, "a repeated member");
    skip_space(s);
    if (s->p == s->end)
        return end_early(s);
    return take(s, ':') ? 0 : refuse(s, "expected ':'");
}

static void place_element(const struct scanner *s, const struct frame *frame, struct place *place)
{
    place->key = span_of(NULL, 0);
    place->key_offset = 0;
    place->element = frame->place.in_array ? frame->place.element : frame->count;
    place->in_array = true;
    place->wants = frame->inside == 0 ? 0 : frame->inside & s->paths->star[s->depth - 1];
}

static int close_frame(struct scanner *s)
{
    struct frame *frame = &s->frames[--s->depth];
    return report(s, frame->is_object ? JSON_KIND_OBJECT : JSON_KIND_ARRAY, &frame->place, frame->offset);
}

/* After a bracket or a value: closes what ends here, up to the place of the
 * next value or to the end of the outermost one. */
static int go_on(struct scanner *s, struct place *place)
{
    int r = 0;
    while (s->depth > 0 && r == 0) {
        struct frame *frame = &s->frames[s->depth - 1];
        skip_space(s);
        if (s->p == s->end)
            return end_early(s);
        if (take(s, frame->is_object ? '}' : ']')) {
            r = close_frame(s);
            continue;
        }
        if (frame->count > 0 && !take(s, ','))
            return refuse(s, frame->is_object ? "expected ',' or '}'" : "expected ',' or ']'");
        if (frame->is_object)
            r = read_name(s, frame, place);
        else
            place_element(s, frame, place);
        frame->count++;
        break;
    }
    return r;
}

static int scan_text(struct scanner *s, struct place *place)
{
    int r;
    do {
        r = read_value(s, place);
        if (r == 0)
            r = go_on(s, place);
    } while (r == 0 && s->depth > 0);
    if (r != 0)
        return r;
    skip_space(s);
    return s->p == s->end ? 0 : refuse(s, "expected nothing behind the value");
}

int json_scan_paths(struct span text, const struct json_paths *paths, unsigned flags,
                    int (*on_value)(void *ctx, const struct json_value *value), void *ctx,
                    struct json_fault *fault)
{
    /* Not initialised as a whole: most of it is never used. */
    struct scanner s;
    s.start = s.p = (const unsigned char *)(text.ptr == NULL ? "" : text.ptr);
    s.end = s.start + text.len;
    s.flags = flags;
    s.on_value = on_value;
    s.ctx = ctx;
    s.fault = (struct json_fault){ 0, NULL };
    s.n_objects = 0;
    s.names = (struct names){ 0 };
    s.depth = 0;
    s.paths = paths;

    struct place root = { .wants =
                              paths->n_wants == 0 ? 0 : (want_set)-1 >> (JSON_WANTS_MAX - paths->n_wants) };
    int r = scan_text(&s, &root);
    names_free(&s.names);
    if (r < 0 && fault != NULL && s.fault.what != NULL)
        *fault = s.fault;
    return r == ENDED ? 0 : r;
}

int json_scan(struct span text, const struct json_want *wants, size_t n_wants, unsigned flags,
              int (*on_value)(void *ctx, const struct json_value *value), void *ctx, struct json_fault *fault)
{
    struct json_paths paths;
    json_paths_init(&paths, wants, n_wants);
    return json_scan_paths(text, &paths, flags, on_value, ctx, fault);
}

static int keep_last(void *ctx, const struct json_value *value)
{
    struct json_value *found = ctx;
    found[value->path] = *value;
    return 0;
}

int json_find(struct span text, const struct json_want *wants, size_t n_wants, unsigned flags,
              struct json_value *found, struct json_fault *fault)
{
    struct json_value last[JSON_WANTS_MAX];
    assert(n_wants <= JSON_WANTS_MAX);
    for (size_t i = 0; i < n_wants; i++)
        last[i] = (struct json_value){ .kind = JSON_KIND_ABSENT, .path = (unsigned)i };
    int r = json_scan(text, wants, n_wants, flags, keep_last, last, fault);
    if (r == 0 && n_wants > 0)
        memcpy(found, last, n_wants * sizeof(*found));
    return r;
}

#include "adapters/json_audio.h"

#include "core/base/err.h"
#include "core/json/scan.h"

/* Only as much of JSON is read here as it takes to find the audio; the text that
 * is left is scanned strictly when it is whole. */
enum state {
    STATE_BETWEEN, /* no object is open */
    STATE_PLAIN,   /* in one, outside of strings */
    STATE_STRING,
    STATE_STRING_ESCAPE,
    STATE_AUDIO,
    STATE_AUDIO_ESCAPE,
};

enum { DECODE_BYTES = 4096 };

void json_audio_init(struct json_audio *reader, const char *const *path)
{
    *reader = (struct json_audio){ .path = path };
    buf_init(&reader->text, JSON_AUDIO_BYTES);
}

void json_audio_free(struct json_audio *reader)
{
    buf_free(&reader->text);
}

bool json_audio_is_between(const struct json_audio *reader)
{
    return reader->state == STATE_BETWEEN;
}

static bool is_object(const struct json_audio *reader)
{
    return (reader->objects >> (reader->depth - 1) & 1) != 0;
}

/* Whether the innermost container is one in which the path goes on. */
static bool is_on_path(const struct json_audio *reader)
{
    return reader->on_path == reader->depth;
}

/* Whether the value that begins here is what the last name of the path stands for. */
static bool is_audio_place(const struct json_audio *reader)
{
    return reader->is_named && is_on_path(reader) && reader->path[reader->depth] == NULL;
}

static int open_container(struct json_audio *reader, bool opens_object)
{
    if (reader->depth == JSON_AUDIO_DEPTH)
        return ERR_LIMIT;
    bool leads_on = opens_object && is_on_path(reader) &&
                    (reader->depth == 0 || (reader->is_named && reader->path[reader->depth] != NULL));
    reader->on_path += leads_on;
    reader->objects &= ~(UINT32_C(1) << reader->depth);
    reader->objects |= (uint32_t)opens_object << reader->depth;
    reader->depth++;
    reader->expects_name = opens_object;
    reader->is_named = false;
    return 0;
}

static int close_container(struct json_audio *reader, const struct json_audio_sink *sink)
{
    reader->depth--;
    if (reader->on_path > reader->depth)
        reader->on_path = reader->depth;
    reader->is_named = reader->expects_name = false;
    if (reader->depth > 0)
        return 0;
    struct span text = buf_span(&reader->text);
    int r = json_scan(text, NULL, 0, JSON_SCAN_UNIQUE, NULL, NULL, NULL);
    if (r == 0)
        r = sink->on_object(sink->ctx, text, reader->audio_bytes);
    buf_clear(&reader->text);
    reader->audio_bytes = 0;
    reader->state = STATE_BETWEEN;
    return r;
}

/* A member's name, which has just been read, is compared with the path's. */
static int match_name(struct json_audio *reader)
{
    struct span text = buf_span(&reader->text);
    struct span name = span_of(text.ptr + reader->name_offset, text.len - reader->name_offset);

    reader->expects_name = false;
    reader->is_named = false;
    if (!is_on_path(reader))
        return 0;
    /* json_string_is is for strings that the scanner has passed. */
    int r = json_scan(name, NULL, 0, 0, NULL, NULL, NULL);
    reader->is_named = r == 0 && json_string_is(name, reader->path[reader->depth - 1]);
    return r;
}

/* A byte between strings, which is part of the text already. */
static int take_plain(struct json_audio *reader, char c, const struct json_audio_sink *sink)
{
    switch (c) {
    case '"':
        reader->state = !reader->expects_name && is_audio_place(reader) ? STATE_AUDIO : STATE_STRING;
        reader->name_offset = reader->text.len - 1;
        reader->base64 = (struct base64_reader){ 0 };
        return 0;
    case '{':
    case '[':
        return open_container(reader, c == '{');
    case '}':
    case ']':
        return close_container(reader, sink);
    case ',':
        reader->expects_name = is_object(reader);
        reader->is_named = false;
        return 0;
    default:
        return 0;
    }
}

static int give_audio(struct json_audio *reader, struct span digits, const struct json_audio_sink *sink)
{
    unsigned char bytes[DECODE_BYTES];
    int r = 0;
    while (digits.len > 0 && r == 0) {
        size_t n = digits.len < DECODE_BYTES ? digits.len : DECODE_BYTES, n_bytes;
        size_t taken = base64_read(&reader->base64, span_of(digits.ptr, n), bytes, &n_bytes);
        digits = span_of(digits.ptr + n, digits.len - n);
        reader->audio_bytes += n_bytes;
        if (n_bytes > 0)
            r = sink->on_audio(sink->ctx, span_of((const char *)bytes, n_bytes));
        if (r == 0 && taken < n)
            r = ERR_FORMAT;
    }
    return r;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Behind a backslash in the audio: some writers escape "/", others "+". */
static int take_audio_escape(struct json_audio *reader, char c, const struct json_audio_sink *sink)
{
    int value = hex_value(c);
    if (reader->escape_digits == 0 && c == 'u') {
        reader->escape_digits = 4;
        reader->escape_code = 0;
        return 0;
    }
    if (reader->escape_digits == 0 && c != '/')
        return ERR_FORMAT;
    if (reader->escape_digits > 0) {
        if (value < 0)
            return ERR_FORMAT;
        reader->escape_code = reader->escape_code << 4 | (unsigned)value;
        if (--reader->escape_digits > 0)
            return 0;
        if (reader->escape_code >= 0x80)
            return ERR_FORMAT;
        c = (char)reader->escape_code;
    }
    reader->state = STATE_AUDIO;
    return give_audio(reader, span_of(&c, 1), sink);
}

static size_t count_until(struct span bytes, char a, char b)
{
    size_t n = 0;
    while (n < bytes.len && bytes.ptr[n] != a && bytes.ptr[n] != b)
        n++;
    return n;
}

/* Takes the next bytes of an audio string; returns how many, or an error. */
static int take_audio(struct json_audio *reader, struct span piece, const struct json_audio_sink *sink,
                      size_t *taken)
{
    size_t n = count_until(piece, '"', '\\');
    int r = give_audio(reader, span_of(piece.ptr, n), sink);
    *taken = n < piece.len ? n + 1 : n;
    if (r != 0 || n == piece.len)
        return r;
    if (piece.ptr[n] == '\\') {
        reader->state = STATE_AUDIO_ESCAPE;
        return 0;
    }
    reader->state = STATE_PLAIN;
    reader->is_named = false;
    return base64_may_end(&reader->base64) ? buf_append_char(&reader->text, '"') : ERR_FORMAT;
}

static int take_string(struct json_audio *reader, struct span piece, size_t *taken)
{
    size_t n = count_until(piece, '"', '\\');
    *taken = n < piece.len ? n + 1 : n;
    int r = buf_append(&reader->text, piece.ptr, *taken);
    if (r != 0 || n == piece.len)
        return r;
    reader->state = piece.ptr[n] == '\\' ? STATE_STRING_ESCAPE : STATE_PLAIN;
    return reader->state == STATE_PLAIN && reader->expects_name ? match_name(reader) : 0;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static int take_byte(struct json_audio *reader, char c, const struct json_audio_sink *sink)
{
    int r = 0;
    switch ((enum state)reader->state) {
    case STATE_BETWEEN:
        if (is_space(c))
            return 0;
        if (c != '{')
            return ERR_FORMAT;
        reader->state = STATE_PLAIN;
        /* fall through */
    case STATE_PLAIN:
        r = buf_append_char(&reader->text, c);
        return r != 0 ? r : take_plain(reader, c, sink);
    case STATE_STRING_ESCAPE:
        reader->state = STATE_STRING;
        return buf_append_char(&reader->text, c);
    default:
        return take_audio_escape(reader, c, sink);
    }
}

int json_audio_feed(struct json_audio *reader, struct span piece, const struct json_audio_sink *sink)
{
    int r = 0;
    while (piece.len > 0 && r == 0) {
        size_t taken = 1;
        if (reader->state == STATE_AUDIO)
            r = take_audio(reader, piece, sink, &taken);
        else if (reader->state == STATE_STRING)
            r = take_string(reader, piece, &taken);
        else
            r = take_byte(reader, piece.ptr[0], sink);
        piece = span_of(piece.ptr + taken, piece.len - taken);
    }
    return r;
}

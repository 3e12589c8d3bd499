#include "core/store/redis_reply_internal.h"

#include <string.h>

#include "core/base/err.h"

enum { NUMBER_DIGITS_MAX = 18 }; /* below 2^63 */

void redis_reader_init(struct redis_reader *reader)
{
    *reader = (struct redis_reader){ .at = REDIS_IS_WHOLE };
}

static void begin(struct redis_reader *reader)
{
    reader->reply = (struct redis_reply){ .n = 0 };
    reader->at = REDIS_AT_LINE;
    reader->wanted = 1;
    reader->line_len = 0;
    reader->has_cr = false;
}

static bool read_number(struct span text, int64_t *out)
{
    int64_t value = 0;
    bool is_negative = text.len > 0 && text.ptr[0] == '-';
    if (is_negative)
        text = span_of(text.ptr + 1, text.len - 1);
    if (text.len == 0 || text.len > NUMBER_DIGITS_MAX)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
        value = value * 10 + (text.ptr[i] - '0');
    }
    *out = is_negative ? -value : value;
    return true;
}

/* The element is whole. */
static void end_element(struct redis_reader *reader)
{
    reader->reply.n++;
    reader->line_len = 0;
    reader->has_cr = false;
    reader->at = reader->reply.n == reader->wanted ? REDIS_IS_WHOLE : REDIS_AT_LINE;
}

static int begin_array(struct redis_reader *reader, int64_t count)
{
    if (reader->reply.is_array || count < 1 || count > REDIS_ELEMENTS_MAX)
        return ERR_FORMAT;
    reader->reply.is_array = true;
    reader->wanted = (size_t)count;
    reader->line_len = 0;
    reader->has_cr = false;
    return 0;
}

static int begin_text(struct redis_reader *reader, struct redis_element *element, int64_t bytes)
{
    if (bytes < -1)
        return ERR_FORMAT;
    element->kind = bytes == -1 ? REDIS_NULL : REDIS_TEXT;
    if (bytes == -1) {
        end_element(reader);
        return 0;
    }
    element->is_too_long = bytes > REDIS_TEXT_BYTES;
    element->text = span_of(reader->texts[reader->reply.n], 0);
    reader->text_left = (uint64_t)bytes;
    reader->at = bytes > 0 ? REDIS_AT_TEXT : REDIS_AT_TEXT_END;
    reader->has_cr = false;
    return 0;
}

/* A line without its end: a scalar, or what is to come. */
static int take_line(struct redis_reader *reader)
{
    struct redis_element *element = &reader->reply.element[reader->reply.n];
    struct span rest = span_of(reader->line + 1, reader->line_len - 1);
    char *copy = reader->texts[reader->reply.n];
    int64_t number = 0;

    switch (reader->line[0]) {
    case '+':
    case '-':
        memcpy(copy, rest.ptr, rest.len);
        element->kind = reader->line[0] == '+' ? REDIS_STATUS : REDIS_ERROR;
        element->text = span_of(copy, rest.len);
        end_element(reader);
        return 0;
    case ':':
        element->kind = REDIS_INTEGER;
        if (!read_number(rest, &element->integer))
            return ERR_FORMAT;
        end_element(reader);
        return 0;
    case '$':
        return read_number(rest, &number) ? begin_text(reader, element, number) : ERR_FORMAT;
    case '*':
        return read_number(rest, &number) ? begin_array(reader, number) : ERR_FORMAT;
    default:
        return ERR_FORMAT;
    }
}

static int take_line_byte(struct redis_reader *reader, char c)
{
    if (reader->has_cr)
        return c == '\n' && reader->line_len > 0 ? take_line(reader) : ERR_FORMAT;
    if (c == '\r') {
        reader->has_cr = true;
        return 0;
    }
    if (reader->line_len < REDIS_LINE_BYTES)
        reader->line[reader->line_len++] = c;
    else if (reader->line[0] != '+' && reader->line[0] != '-')
        return ERR_FORMAT; /* no number is so long */
    return 0;
}

static void take_text(struct redis_reader *reader, struct span *in)
{
    struct redis_element *element = &reader->reply.element[reader->reply.n];
    size_t n = in->len < reader->text_left ? in->len : (size_t)reader->text_left;

    if (!element->is_too_long) {
        memcpy(reader->texts[reader->reply.n] + element->text.len, in->ptr, n);
        element->text.len += n;
    }
    *in = span_of(in->ptr + n, in->len - n);
    reader->text_left -= n;
    if (reader->text_left == 0)
        reader->at = REDIS_AT_TEXT_END;
}

static int take_text_end(struct redis_reader *reader, char c)
{
    if (c != (reader->has_cr ? '\n' : '\r'))
        return ERR_FORMAT;
    if (reader->has_cr)
        end_element(reader);
    else
        reader->has_cr = true;
    return 0;
}

int redis_reader_take(struct redis_reader *reader, struct span *in)
{
    if (reader->at == REDIS_IS_WHOLE && in->len > 0)
        begin(reader);
    while (in->len > 0) {
        int r = 0;
        if (reader->at == REDIS_AT_TEXT) {
            take_text(reader, in);
            continue;
        }
        char c = in->ptr[0];
        *in = span_of(in->ptr + 1, in->len - 1);
        r = reader->at == REDIS_AT_LINE ? take_line_byte(reader, c) : take_text_end(reader, c);
        if (r != 0)
            return r;
        if (reader->at == REDIS_IS_WHOLE)
            return 1;
    }
    return 0;
}

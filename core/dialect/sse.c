#include "core/dialect/sse.h"

#include <stdint.h>

typedef int sse_event_fn(void *ctx, const struct sse_event *event);

void sse_init(struct sse_framer *framer, size_t limit)
{
    *framer = (struct sse_framer){ .limit = limit, .at_start = true, .line_is_empty = true };
    buf_init(&framer->held, limit);
    buf_init(&framer->joined, limit);
}

void sse_free(struct sse_framer *framer)
{
    buf_free(&framer->held);
    buf_free(&framer->joined);
}

static bool is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

/* How many bytes there are before the next line end, or in all: eight at once, as a line is an event's JSON.
 */
static size_t count_line(const char *p, size_t len)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones * 0x80;
    size_t n = 0;

    for (; len - n >= 8; n += 8) {
        uint64_t x;
        memcpy(&x, p + n, 8);
        uint64_t lf = x ^ (ones * '\n'), cr = x ^ (ones * '\r');
        if (((((lf - ones) & ~lf) | ((cr - ones) & ~cr)) & highs) != 0)
            break;
    }
    while (n < len && !is_line_end(p[n]))
        n++;
    return n;
}

/* How many of the bytes belong to the event that is open, and whether its blank
 * line is among them. */
static size_t find_end(struct sse_framer *framer, const char *p, size_t len, bool *is_ended)
{
    size_t i = framer->saw_cr && len > 0 && p[0] == '\n';
    if (len > 0)
        framer->saw_cr = false;
    *is_ended = false;
    while (i < len && !*is_ended) {
        if (!is_line_end(p[i])) {
            framer->line_is_empty = false;
            i += count_line(p + i, len - i);
            continue;
        }
        bool is_cr = p[i++] == '\r';
        if (is_cr && i < len && p[i] == '\n')
            i++;
        else if (is_cr && i == len)
            framer->saw_cr = true;
        *is_ended = framer->line_is_empty;
        framer->line_is_empty = true;
    }
    return i;
}

/* Takes the next line, without its end, from the front of `rest`. */
static struct span next_line(struct span *rest)
{
    size_t n = count_line(rest->ptr, rest->len);
    struct span line = span_of(rest->ptr, n);
    if (n < rest->len && rest->ptr[n] == '\r' && n + 1 < rest->len && rest->ptr[n + 1] == '\n')
        n++;
    n += n < rest->len;
    *rest = span_of(rest->ptr + n, rest->len - n);
    return line;
}

/* Any word may name a field; what a proxy or a provider writes instead of an
 * event has spaces, brackets or quotes before its first colon, or no colon. */
static bool is_field_name(struct span name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
              c == '_'))
            return false;
    }
    return name.len > 0;
}

/* A second data line and every further one: all of them are joined. */
static void add_data(struct sse_framer *framer, struct sse_event *event, struct span value)
{
    if (!event->has_data) {
        event->data = value;
        event->has_data = true;
        return;
    }
    /* The limit cannot be hit: the event itself is within it. */
    if (framer->joined.len == 0)
        (void)buf_append_span(&framer->joined, event->data);
    (void)buf_append_char(&framer->joined, '\n');
    (void)buf_append_span(&framer->joined, value);
    event->data = buf_span(&framer->joined);
}

static void read_line(struct sse_framer *framer, struct sse_event *event, struct span line)
{
    if (line.len == 0 || line.ptr[0] == ':')
        return;
    const char *colon = memchr(line.ptr, ':', line.len);
    struct span name = span_of(line.ptr, colon == NULL ? line.len : (size_t)(colon - line.ptr));
    struct span value = span_of(NULL, 0);
    if (colon != NULL) {
        value = span_of(colon + 1, line.len - name.len - 1);
        if (value.len > 0 && value.ptr[0] == ' ')
            value = span_of(value.ptr + 1, value.len - 1);
    }
    event->is_comment = false;
    if (span_is(name, "data"))
        add_data(framer, event, value);
    else if (span_is(name, "event"))
        event->name = value;
    else if (!span_is(name, "id") && !span_is(name, "retry"))
        event->is_foreign |= colon == NULL || !is_field_name(name);
}

static int give_whole(struct sse_framer *framer, struct span raw, sse_event_fn *on_event, void *ctx)
{
    struct sse_event event = { .raw = raw, .is_comment = true };
    struct span rest = raw;
    buf_clear(&framer->joined);
    if (framer->at_start && span_starts(rest, "\xEF\xBB\xBF"))
        rest = span_of(rest.ptr + 3, rest.len - 3);
    framer->at_start = false;
    while (rest.len > 0)
        read_line(framer, &event, next_line(&rest));
    return on_event(ctx, &event);
}

static int give_part(struct sse_framer *framer, struct span raw, bool is_last, sse_event_fn *on_event,
                     void *ctx)
{
    struct sse_event event = { .raw = raw, .is_part = true, .is_last_part = is_last };
    framer->at_start = false;
    framer->in_large = !is_last;
    return on_event(ctx, &event);
}

/* The next bytes of the open event. */
static int take(struct sse_framer *framer, struct span bytes, bool is_ended, sse_event_fn *on_event,
                void *ctx)
{
    int r = 0;
    if (!framer->in_large && bytes.len > framer->limit - framer->held.len) {
        if (framer->held.len > 0)
            r = give_part(framer, buf_span(&framer->held), false, on_event, ctx);
        framer->in_large = true;
        buf_clear(&framer->held);
    }
    if (r < 0)
        return r;
    if (framer->in_large)
        return give_part(framer, bytes, is_ended, on_event, ctx);
    if (is_ended && framer->held.len == 0)
        return give_whole(framer, bytes, on_event, ctx);
    r = buf_append_span(&framer->held, bytes);
    if (r == 0 && is_ended) {
        r = give_whole(framer, buf_span(&framer->held), on_event, ctx);
        buf_clear(&framer->held);
    }
    return r;
}

int sse_feed(struct sse_framer *framer, struct span piece, sse_event_fn *on_event, void *ctx)
{
    int r = 0;
    while (piece.len > 0 && r >= 0) {
        bool is_ended;
        size_t n = find_end(framer, piece.ptr, piece.len, &is_ended);
        r = take(framer, span_of(piece.ptr, n), is_ended, on_event, ctx);
        piece = span_of(piece.ptr + n, piece.len - n);
    }
    return r < 0 ? r : 0;
}

struct span sse_rest(const struct sse_framer *framer)
{
    struct span rest = buf_span(&framer->held);
    /* A LF in front is that of the last event's CR: else it would have ended an event. */
    if (rest.len > 0 && rest.ptr[0] == '\n')
        rest = span_of(rest.ptr + 1, rest.len - 1);
    return rest;
}

int sse_finish(struct sse_framer *framer, sse_event_fn *on_event, void *ctx)
{
    int r = 0;
    if (framer->in_large || sse_rest(framer).len > 0)
        return sse_feed(framer, span_of("\n\n", 2), on_event, ctx);
    if (framer->held.len > 0)
        r = give_whole(framer, buf_span(&framer->held), on_event, ctx);
    buf_clear(&framer->held);
    return r < 0 ? r : 0;
}

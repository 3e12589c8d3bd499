#include "adapters/event_reader.h"

enum state {
    STATE_FIELD,      /* collecting a line that may be any */
    STATE_DATA_SPACE, /* behind "data:", where one space is not part of the value */
    STATE_DATA,
};

static const char DATA[] = "data:", STATUS_COMMENT[] = ":HTTP_STATUS/",
                  STATUS_FIELD[] = "status:", NAME[] = "event:";

/* What follows the prefix, without the one space that may stand there; false if the line has another. */
static bool read_field(const struct event_reader *reader, const char *prefix, struct span *value)
{
    struct span line = span_of(reader->line, reader->line_len);
    if (!span_starts(line, prefix))
        return false;
    *value = span_of(line.ptr + strlen(prefix), line.len - strlen(prefix));
    if (value->len > 0 && value->ptr[0] == ' ')
        *value = span_of(value->ptr + 1, value->len - 1);
    return true;
}

static int read_status(struct span digits)
{
    int status = 0;
    for (size_t i = 0; i < digits.len && i < 3 && digits.ptr[i] >= '0' && digits.ptr[i] <= '9'; i++)
        status = status * 10 + (digits.ptr[i] - '0');
    return status;
}

static int begin_data(struct event_reader *reader, const struct event_sink *sink)
{
    bool is_further = reader->has_data;
    reader->has_data = true;
    return is_further ? sink->on_data(sink->ctx, span_of("\n", 1)) : 0;
}

static int end_event(struct event_reader *reader, const struct event_sink *sink)
{
    const struct event_head head = { .name = span_of(reader->name, reader->name_len),
                                     .status = reader->status };
    int r = reader->has_data ? sink->on_event(sink->ctx, &head) : 0;
    reader->name_len = 0;
    reader->status = 0;
    reader->has_data = false;
    return r;
}

/* Of a data line the beginning only: its value went out as it came. */
static int end_line(struct event_reader *reader, const struct event_sink *sink)
{
    struct span value;
    int r = 0;
    if (reader->line_len == 0)
        r = end_event(reader, sink);
    else if (span_is(span_of(reader->line, reader->line_len), "data"))
        r = begin_data(reader, sink);
    else if (read_field(reader, NAME, &value)) {
        memcpy(reader->name, value.ptr, value.len);
        reader->name_len = value.len;
    } else if (read_field(reader, STATUS_COMMENT, &value) || read_field(reader, STATUS_FIELD, &value)) {
        reader->status = read_status(value);
    }
    reader->line_len = 0;
    reader->state = STATE_FIELD;
    return r;
}

/* The bytes of a line, without its end. */
static int take_line(struct event_reader *reader, struct span bytes, const struct event_sink *sink)
{
    while (bytes.len > 0 && reader->state == STATE_FIELD) {
        if (reader->line_len < EVENT_READER_BYTES)
            reader->line[reader->line_len++] = bytes.ptr[0];
        bytes = span_of(bytes.ptr + 1, bytes.len - 1);
        if (!span_is(span_of(reader->line, reader->line_len), DATA))
            continue;
        reader->state = STATE_DATA_SPACE;
        int r = begin_data(reader, sink);
        if (r != 0)
            return r;
    }
    if (bytes.len > 0 && reader->state == STATE_DATA_SPACE) {
        size_t skipped = bytes.ptr[0] == ' ';
        bytes = span_of(bytes.ptr + skipped, bytes.len - skipped);
        reader->state = STATE_DATA;
    }
    return bytes.len > 0 ? sink->on_data(sink->ctx, bytes) : 0;
}

static size_t count_line(struct span bytes)
{
    size_t n = 0;
    while (n < bytes.len && bytes.ptr[n] != '\n' && bytes.ptr[n] != '\r')
        n++;
    return n;
}

int event_reader_feed(struct event_reader *reader, struct span piece, const struct event_sink *sink)
{
    int r = 0;
    while (piece.len > 0 && r == 0) {
        size_t n = count_line(piece);
        r = take_line(reader, span_of(piece.ptr, n), sink);
        if (n > 0)
            reader->saw_cr = false;
        if (n < piece.len && r == 0) {
            /* A LF right behind a CR ends no line of its own. */
            bool is_rest = reader->saw_cr && piece.ptr[n] == '\n';
            reader->saw_cr = piece.ptr[n] == '\r';
            if (!is_rest)
                r = end_line(reader, sink);
            n++;
        }
        piece = span_of(piece.ptr + n, piece.len - n);
    }
    return r;
}

int event_reader_finish(struct event_reader *reader, const struct event_sink *sink)
{
    int r = reader->line_len > 0 ? end_line(reader, sink) : 0;
    return r == 0 ? end_event(reader, sink) : r;
}

#include "fcgi/engine/record.h"

#include <string.h>

enum { VERSION = 1, ROLE_RESPONDER = 1, BEGIN_BODY_BYTES = 8 };

void record_reader_init(struct record_reader *reader)
{
    *reader = (struct record_reader){ .has_begun = false };
    buf_init(&reader->params, RECORD_PARAMS_MAX);
}

void record_reader_free(struct record_reader *reader)
{
    buf_free(&reader->params);
}

/* A header is whole: what the record is, and whether it may come now. */
static int begin_record(struct record_reader *r)
{
    const unsigned char *h = r->header;
    uint16_t id = (uint16_t)(h[2] << 8 | h[3]);

    r->content_left = (size_t)h[4] << 8 | h[5];
    r->padding_left = h[6];
    if (h[0] != VERSION || id == 0)
        return ERR_FORMAT;
    if (!r->has_begun) {
        if (h[1] != RECORD_BEGIN_REQUEST || r->content_left != BEGIN_BODY_BYTES)
            return ERR_FORMAT;
        r->request_id = id;
        return 0;
    }
    if (id != r->request_id)
        return ERR_FORMAT;
    switch (h[1]) {
    case RECORD_ABORT_REQUEST:
        return ERR_STOPPED;
    case RECORD_PARAMS:
        if (r->has_params)
            return ERR_FORMAT;
        r->has_params = r->content_left == 0;
        return 0;
    case RECORD_STDIN:
        if (!r->has_params || r->has_ended)
            return ERR_FORMAT;
        r->has_ended = r->content_left == 0;
        return 0;
    default:
        return ERR_FORMAT;
    }
}

static int take_content(struct record_reader *r, struct span bytes)
{
    if (!r->has_begun) {
        /* FCGI_BeginRequestBody: two bytes of role, flags, reserved; kept in params until it is whole. */
        int result = buf_append_span(&r->params, bytes);
        if (result != 0 || r->params.len < BEGIN_BODY_BYTES)
            return result;
        const unsigned char *body = (const unsigned char *)r->params.data;
        bool is_responder = body[0] == 0 && body[1] == ROLE_RESPONDER;
        buf_clear(&r->params);
        r->has_begun = true;
        return is_responder ? 0 : ERR_FORMAT;
    }
    return r->header[1] == RECORD_PARAMS ? buf_append_span(&r->params, bytes) : 0; /* a body is not kept */
}

int record_reader_feed(struct record_reader *r, struct span bytes)
{
    int result = 0;

    while (bytes.len > 0 && result == 0) {
        size_t n;
        if (r->have < RECORD_HEADER_BYTES) {
            n = RECORD_HEADER_BYTES - r->have < bytes.len ? RECORD_HEADER_BYTES - r->have : bytes.len;
            memcpy(r->header + r->have, bytes.ptr, n);
            r->have += n;
            if (r->have == RECORD_HEADER_BYTES)
                result = begin_record(r);
        } else if (r->content_left > 0) {
            n = r->content_left < bytes.len ? r->content_left : bytes.len;
            r->content_left -= n;
            result = take_content(r, span_of(bytes.ptr, n));
        } else {
            n = r->padding_left < bytes.len ? r->padding_left : bytes.len;
            r->padding_left -= n;
        }
        bytes = span_of(bytes.ptr + n, bytes.len - n);
        if (r->have == RECORD_HEADER_BYTES && r->content_left == 0 && r->padding_left == 0)
            r->have = 0;
    }
    return result;
}

/* A length of one byte, or of four with the highest bit set. */
static bool take_length(struct span *bytes, size_t *out)
{
    const unsigned char *p = (const unsigned char *)bytes->ptr;
    size_t n = bytes->len > 0 && (p[0] & 0x80) != 0 ? 4 : 1;

    if (bytes->len < n)
        return false;
    *out = n == 1 ? p[0] : ((size_t)(p[0] & 0x7f) << 24 | (size_t)p[1] << 16 | (size_t)p[2] << 8 | p[3]);
    *bytes = span_of(bytes->ptr + n, bytes->len - n);
    return true;
}

struct span record_param(const struct record_reader *reader, const char *name)
{
    struct span rest = buf_span(&reader->params);
    size_t name_len, value_len;

    while (take_length(&rest, &name_len) && take_length(&rest, &value_len) && name_len <= rest.len &&
           value_len <= rest.len - name_len) {
        if (span_is(span_of(rest.ptr, name_len), name))
            return span_of(rest.ptr + name_len, value_len);
        rest = span_of(rest.ptr + name_len + value_len, rest.len - name_len - value_len);
    }
    return (struct span){ NULL, 0 };
}

void record_put_header(unsigned char out[RECORD_HEADER_BYTES], enum record_type type, unsigned request_id,
                       size_t content, size_t padding)
{
    out[0] = VERSION;
    out[1] = (unsigned char)type;
    out[2] = (unsigned char)(request_id >> 8);
    out[3] = (unsigned char)request_id;
    out[4] = (unsigned char)(content >> 8);
    out[5] = (unsigned char)content;
    out[6] = (unsigned char)padding;
    out[7] = 0;
}

void record_write_reply(struct buf *out, unsigned request_id, struct span cgi)
{
    static const unsigned char zeros[8]; /* padding; FCGI_EndRequestBody: status 0, FCGI_REQUEST_COMPLETE */
    unsigned char h[RECORD_HEADER_BYTES];

    while (cgi.len > 0) {
        size_t content = cgi.len < RECORD_CONTENT_MAX ? cgi.len : RECORD_CONTENT_MAX;
        size_t padding = (8 - content % 8) % 8;
        record_put_header(h, RECORD_STDOUT, request_id, content, padding);
        buf_append(out, h, sizeof(h));
        buf_append(out, cgi.ptr, content);
        buf_append(out, zeros, padding);
        cgi = span_of(cgi.ptr + content, cgi.len - content);
    }
    record_put_header(h, RECORD_STDOUT, request_id, 0, 0);
    buf_append(out, h, sizeof(h));
    record_put_header(h, RECORD_END_REQUEST, request_id, sizeof(zeros), 0);
    buf_append(out, h, sizeof(h));
    buf_append(out, zeros, sizeof(zeros));
}

#include "fcgi/engine/record.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"

enum {
    VERSION = 1,
    ROLE_RESPONDER = 1,
    KEEP_CONN = 1,
    BEGIN_BODY_BYTES = 8,
    PARAMS_FIRST_BYTES = 2048,
    PLACES_FIRST = 64, /* web servers send thirty */
    PLACES_KEPT = 512, /* who sends more is no reason to keep the memory for the others */
};

void record_reader_init(struct record_reader *reader)
{
    *reader = (struct record_reader){ .have = 0 };
}

/* The same memory for the next one. */
static void forget(struct record_reader *reader)
{
    if (reader->params != NULL)
        explicit_bzero(reader->params, reader->params_len);
    *reader = (struct record_reader){
        .params = reader->params,
        .params_room = reader->params_room,
        .places = reader->places,
        .places_room = reader->places_room,
    };
}

void record_reader_reset(struct record_reader *reader)
{
    forget(reader);
    if (reader->places_room <= PLACES_KEPT)
        return;
    free(reader->places);
    reader->places = NULL;
    reader->places_room = 0;
}

void record_reader_free(struct record_reader *reader)
{
    forget(reader);
    free(reader->params);
    free(reader->places);
    record_reader_init(reader);
}

/* What does not fit is dropped, and nothing after it is taken. */
static void append_params(struct record_reader *r, struct span bytes)
{
    size_t need = r->params_len + bytes.len, room = r->params_room;

    if (need > RECORD_PARAMS_MAX) {
        r->is_params_cut = true;
        need = RECORD_PARAMS_MAX;
    }
    if (need > room) {
        for (room = room == 0 ? PARAMS_FIRST_BYTES : room; room < need; room *= 2)
            continue;
        char *larger = xmalloc(room); /* not realloc: it would leave keys where they were */
        if (r->params != NULL) {
            memcpy(larger, r->params, r->params_len);
            explicit_bzero(r->params, r->params_len);
            free(r->params);
        }
        r->params = larger;
        r->params_room = room;
    }
    if (need > r->params_len)
        memcpy(r->params + r->params_len, bytes.ptr, need - r->params_len);
    r->params_len = need;
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

static bool take_pair(struct span *rest, struct span *name, struct span *value)
{
    size_t name_len, value_len;

    if (!take_length(rest, &name_len) || !take_length(rest, &value_len) || name_len > rest->len ||
        value_len > rest->len - name_len)
        return false;
    *name = span_of(rest->ptr, name_len);
    *value = span_of(rest->ptr + name_len, value_len);
    *rest = span_of(rest->ptr + name_len + value_len, rest->len - name_len - value_len);
    return true;
}

static char *put_text(char *at, struct span text)
{
    memmove(at, text.ptr, text.len);
    at[text.len] = '\0';
    return at + text.len + 1;
}

static void add_place(struct record_reader *r, const char *name, const char *value)
{
    if (r->n_places == r->places_room) {
        r->places_room = r->places_room == 0 ? PLACES_FIRST : 2 * r->places_room;
        r->places = xrealloc(r->places, r->places_room * sizeof(*r->places));
    }
    r->places[r->n_places++] = (struct record_place){
        .name = (uint32_t)(name - r->params),
        .value = (uint32_t)(value - r->params),
    };
}

/* Makes texts of the pairs, in place: the two lengths before each leave room for its NULs. */
static int unpack_params(struct record_reader *r)
{
    struct span rest = span_of(r->params, r->params_len), name, value;
    char *at = r->params;

    while (rest.len > 0) {
        bool is_whole = take_pair(&rest, &name, &value);
        if (!is_whole && r->is_params_cut)
            break;
        if (!is_whole || memchr(name.ptr, '\0', name.len + value.len) != NULL)
            return ERR_FORMAT; /* a NUL would make another text of it */
        char *value_at = put_text(at, name);
        add_place(r, at, value_at);
        at = put_text(value_at, value);
    }
    explicit_bzero(at, r->params_len - (size_t)(at - r->params)); /* which a reset would not find any more */
    r->params_len = (size_t)(at - r->params);
    return 0;
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
        return r->has_params ? ERR_FORMAT : 0;
    case RECORD_STDIN:
        return r->has_params && !r->has_ended ? 0 : ERR_FORMAT;
    default:
        return ERR_FORMAT;
    }
}

/* FCGI_BeginRequestBody: two bytes of role, flags, reserved; kept in params until it is whole. */
static int take_beginning(struct record_reader *r, struct span bytes)
{
    append_params(r, bytes);
    if (r->params_len < BEGIN_BODY_BYTES)
        return 0;
    bool is_responder = r->params[0] == 0 && r->params[1] == ROLE_RESPONDER;
    r->is_to_keep = (r->params[2] & KEEP_CONN) != 0;
    r->params_len = 0;
    r->has_begun = true;
    return is_responder ? 0 : ERR_FORMAT;
}

/* A record has come whole, with its padding. */
static int end_record(struct record_reader *r)
{
    bool was_empty = r->header[4] == 0 && r->header[5] == 0;

    r->have = 0;
    if (was_empty && r->header[1] == RECORD_STDIN)
        r->has_ended = true;
    if (!was_empty || r->header[1] != RECORD_PARAMS)
        return 0;
    int result = unpack_params(r);
    r->has_params = result == 0;
    return result;
}

static size_t at_most(size_t n, size_t max)
{
    return n < max ? n : max;
}

int record_reader_take(struct record_reader *r, struct span *bytes, size_t max, struct span *body)
{
    int result = 0;

    *body = (struct span){ NULL, 0 };
    while (bytes->len > 0 && body->len == 0 && result == 0) {
        size_t n;
        if (r->have < RECORD_HEADER_BYTES) {
            n = at_most(RECORD_HEADER_BYTES - r->have, bytes->len);
            memcpy(r->header + r->have, bytes->ptr, n);
            r->have += n;
            if (r->have == RECORD_HEADER_BYTES)
                result = begin_record(r);
        } else if (r->content_left > 0) {
            bool is_body = r->header[1] == RECORD_STDIN;
            n = at_most(at_most(r->content_left, bytes->len), is_body ? max : SIZE_MAX);
            if (n == 0)
                break; /* nobody wants the body now */
            r->content_left -= n;
            if (is_body)
                *body = span_of(bytes->ptr, n);
            else if (!r->has_begun)
                result = take_beginning(r, span_of(bytes->ptr, n));
            else
                append_params(r, span_of(bytes->ptr, n));
        } else {
            n = at_most(r->padding_left, bytes->len);
            r->padding_left -= n;
        }
        *bytes = span_of(bytes->ptr + n, bytes->len - n);
        if (result == 0 && r->have == RECORD_HEADER_BYTES && r->content_left == 0 && r->padding_left == 0)
            result = end_record(r);
    }
    return result;
}

int record_reader_feed(struct record_reader *reader, struct span bytes)
{
    struct span body;
    int result = 0;

    while (bytes.len > 0 && result == 0)
        result = record_reader_take(reader, &bytes, SIZE_MAX, &body);
    return result;
}

size_t record_reader_body_next(const struct record_reader *r)
{
    return r->have == RECORD_HEADER_BYTES && r->header[1] == RECORD_STDIN ? r->content_left : 0;
}

void record_reader_skip_body(struct record_reader *r, size_t len)
{
    r->content_left -= len;
    if (r->content_left == 0 && r->padding_left == 0)
        r->have = 0;
}

bool record_param_at(const struct record_reader *reader, size_t index, struct span *name, struct span *value)
{
    if (!reader->has_params || index >= reader->n_places)
        return false;
    const struct record_place *place = &reader->places[index];
    size_t end = index + 1 < reader->n_places ? place[1].name : reader->params_len;
    *name = span_of(reader->params + place->name, place->value - place->name - 1);
    *value = span_of(reader->params + place->value, end - place->value - 1);
    return true;
}

/* A request's are asked for some twenty times: by lengths first, which tell most of them apart. */
const char *record_param(const struct record_reader *reader, const char *name)
{
    size_t len = strlen(name), n = reader->has_params ? reader->n_places : 0;

    for (const struct record_place *place = reader->places; n > 0; place++, n--) {
        if (place->value - place->name - 1 == len && memcmp(reader->params + place->name, name, len) == 0)
            return reader->params + place->value;
    }
    return NULL;
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

/* A record of this type with eight bytes of zeros; what is behind it. */
static unsigned char *put_zeros(unsigned char *out, enum record_type type, unsigned request_id)
{
    record_put_header(out, type, request_id, 8, 0);
    memset(out + RECORD_HEADER_BYTES, 0, 8);
    return out + RECORD_HEADER_BYTES + 8;
}

size_t record_put_end(unsigned char out[RECORD_END_MAX], const struct record_reader *request)
{
    record_put_header(out, RECORD_STDOUT, request->request_id, 0, 0);
    /* FCGI_EndRequestBody: application status 0, FCGI_REQUEST_COMPLETE */
    unsigned char *end = put_zeros(out + RECORD_HEADER_BYTES, RECORD_END_REQUEST, request->request_id);
    if (request->is_to_keep)
        end = put_zeros(end, RECORD_UNKNOWN_TYPE, 0);
    return (size_t)(end - out);
}

void record_write_reply(struct buf *out, const struct record_reader *request, struct span cgi)
{
    static const unsigned char padding_bytes[8];
    unsigned char h[RECORD_HEADER_BYTES], end[RECORD_END_MAX];

    while (cgi.len > 0) {
        size_t content = cgi.len < RECORD_CONTENT_MAX ? cgi.len : RECORD_CONTENT_MAX;
        size_t padding = (8 - content % 8) % 8;
        record_put_header(h, RECORD_STDOUT, request->request_id, content, padding);
        buf_append(out, h, sizeof(h));
        buf_append(out, cgi.ptr, content);
        buf_append(out, padding_bytes, padding);
        cgi = span_of(cgi.ptr + content, cgi.len - content);
    }
    buf_append(out, end, record_put_end(end, request));
}

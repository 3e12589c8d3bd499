/*
 * FastCGI on the wire: a parser that is fed bytes as they come, for workers and for
 * the process that serves many connections at once; and the records of a whole reply.
 *
 * Pure. FastCGI 1.0, sections 3.3 to 5.5. A responder's requests, one per connection;
 * management records, which no web server sends, are refused.
 */
#ifndef FCGI_ENGINE_RECORD_H
#define FCGI_ENGINE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/span.h"

enum {
    RECORD_HEADER_BYTES = 8,
    RECORD_CONTENT_MAX = 65528, /* the largest multiple of 8 that fits into a record */
    RECORD_PARAMS_MAX = 128 * 1024,
    RECORD_END_MAX = 40,
};

enum record_type {
    RECORD_BEGIN_REQUEST = 1,
    RECORD_ABORT_REQUEST = 2,
    RECORD_END_REQUEST = 3,
    RECORD_PARAMS = 4,
    RECORD_STDIN = 5,
    RECORD_STDOUT = 6,
    RECORD_UNKNOWN_TYPE = 11, /* a management record's */
};

/* A parameter: where its name and its value begin. */
struct record_place {
    uint32_t name, value;
};

/* A request that arrives. */
struct record_reader {
    unsigned char header[RECORD_HEADER_BYTES];
    size_t have;         /* bytes of header */
    size_t content_left; /* of the record in hand */
    size_t padding_left;
    char *params; /* as they come; from has_params on "NAME\0VALUE\0…" */
    size_t params_len, params_room;
    struct record_place *places; /* where in there each is, from has_params on */
    size_t n_places, places_room;
    uint16_t request_id;
    bool has_begun;
    bool is_to_keep;    /* FCGI_KEEP_CONN: the front end would use the connection again */
    bool has_params;    /* the empty PARAMS record has come: the request can be answered */
    bool is_params_cut; /* there were more than RECORD_PARAMS_MAX bytes: those beyond were dropped */
    bool has_ended;     /* the empty STDIN record has come whole: nothing follows */
};

void record_reader_init(struct record_reader *reader);

/* Forgets a request and keeps the memory, which is overwritten: parameters hold keys. */
void record_reader_reset(struct record_reader *reader);
void record_reader_free(struct record_reader *reader);

/* Takes from the front of *bytes, until there is a piece of the body, of at most `max`
 * bytes: *body, which points into them; or until there are no more, and *body is empty.
 * ERR_FORMAT: this is not a FastCGI responder request. ERR_STOPPED: it was aborted.
 * After either the reader takes no more. */
int record_reader_take(struct record_reader *reader, struct span *bytes, size_t max, struct span *body);

/* The same for who wants no body. */
int record_reader_feed(struct record_reader *reader, struct span bytes);

/* How many bytes of the body come next, whatever they are; 0: something else does.
 * Who receives them elsewhere says so. */
size_t record_reader_body_next(const struct record_reader *reader);
void record_reader_skip_body(struct record_reader *reader, size_t len);

/* A parameter's value, with a NUL behind it; NULL if it is absent, or not all have come. */
const char *record_param(const struct record_reader *reader, const char *name);

/* The parameters in the order in which they came, from 0; both have a NUL behind them. False: there are no
 * more. */
bool record_param_at(const struct record_reader *reader, size_t index, struct span *name, struct span *value);

/* Eight bytes. */
void record_put_header(unsigned char out[RECORD_HEADER_BYTES], enum record_type type, unsigned request_id,
                       size_t content, size_t padding);

/* What follows a request's last STDOUT record that has content: the end of STDOUT and that
 * of the request; how many bytes. Where the front end would keep the connection, which
 * we close, a management record follows that says nothing: nginx then keeps none
 * (ngx_http_fastcgi_module.c: only if there is nothing more to read). It would else send a
 * request into our closing, and answer 502. */
size_t record_put_end(unsigned char out[RECORD_END_MAX], const struct record_reader *request);

/* A whole reply: STDOUT records with `cgi` (head and body), and record_put_end. */
void record_write_reply(struct buf *out, const struct record_reader *request, struct span cgi);

#endif

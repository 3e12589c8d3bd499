/*
 * FastCGI on the wire, for the process that serves many connections at once and
 * must not block: a parser that is fed bytes as they come, and the records of a
 * whole reply. (Workers read through libfcgi and write through conn.h.)
 *
 * Pure. FastCGI 1.0, sections 3.3 to 5.5.
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
};

enum record_type {
    RECORD_BEGIN_REQUEST = 1,
    RECORD_ABORT_REQUEST = 2,
    RECORD_END_REQUEST = 3,
    RECORD_PARAMS = 4,
    RECORD_STDIN = 5,
    RECORD_STDOUT = 6,
};

/* A request that arrives. Zero, with record_reader_init, is the beginning. */
struct record_reader {
    unsigned char header[RECORD_HEADER_BYTES];
    size_t have;         /* bytes of header */
    size_t content_left; /* of the record in hand */
    size_t padding_left;
    struct buf params; /* name-value pairs as they come, at most RECORD_PARAMS_MAX */
    uint16_t request_id;
    bool has_begun;
    bool has_params; /* the empty PARAMS record has come: the request can be answered */
    bool has_ended;  /* the empty STDIN record has come: nothing follows */
};

void record_reader_init(struct record_reader *reader);
void record_reader_free(struct record_reader *reader);

/* Takes the next bytes. ERR_FORMAT: this is not a FastCGI responder request.
 * ERR_LIMIT: too many parameters. ERR_STOPPED: it was aborted. After any of them
 * the reader takes no more. */
int record_reader_feed(struct record_reader *reader, struct span bytes);

/* A parameter's value; an empty span with ptr NULL if it is absent. */
struct span record_param(const struct record_reader *reader, const char *name);

/* Eight bytes. */
void record_put_header(unsigned char out[RECORD_HEADER_BYTES], enum record_type type, unsigned request_id,
                       size_t content, size_t padding);

/* A whole reply: STDOUT records with `cgi` (head and body), their end, the end
 * of the request. */
void record_write_reply(struct buf *out, unsigned request_id, struct span cgi);

#endif

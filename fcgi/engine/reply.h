/*
 * The reply to one request: a status, headers, a body. The head is kept until
 * the first bytes of the body go, so that both leave in one write.
 */
#ifndef FCGI_ENGINE_REPLY_H
#define FCGI_ENGINE_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/span.h"
#include "core/route/failure.h"
#include "fcgi/engine/conn.h"

enum { REPLY_HEAD_BYTES = 1024 }; /* of a usual one, and more */

/* Not to be copied: its head lies in it. */
struct reply {
    struct conn *conn;
    const char *request_id; /* goes out as x-request-id; NULL: none */
    struct buf head;        /* until it is sent */
    /* Called once, right before the last bytes leave: what must be on disk by the
     * time the caller has the whole reply. May be NULL. */
    void (*before_end)(void *ctx);
    void *before_end_ctx;
    /* Appends header lines that every reply has, each with its CRLF. May be NULL. */
    void (*add_headers)(void *ctx, struct buf *head);
    void *add_headers_ctx;
    bool is_started;
    int status;     /* once started */
    int64_t length; /* of the body, as announced; -1: not announced */
    int64_t sent;   /* of the body */
    char head_memory[REPLY_HEAD_BYTES];
};

void reply_init(struct reply *reply, struct conn *conn);
void reply_free(struct reply *reply);

/* Status and media type (empty: none); `length` of the body, or -1 for one whose
 * end is the end of the transfer. Sends nothing yet. */
void reply_start(struct reply *reply, int status, struct span content_type, int64_t length);

/* One more header, between reply_start and the first write. The value must hold
 * no control characters. */
void reply_header(struct reply *reply, const char *name, struct span value);

/* Bytes of the body, sent at once. ERR_CLIENT_GONE, ERR_TIMEOUT. */
int reply_write(struct reply *reply, struct span bytes);

/* The same of bytes that lie in several places. */
enum { REPLY_PIECES_MAX = CONN_PIECES_MAX - 2 }; /* a head may go before them */
int reply_write_pieces(struct reply *reply, const struct span *pieces, size_t n);

/* The last bytes of the body (may be empty) and the end. */
int reply_finish(struct reply *reply, struct span bytes);

/* A whole reply: JSON of this status. */
int reply_json(struct reply *reply, int status, struct span body);

/* A whole reply that says what failed, in the given form. */
int reply_failure(struct reply *reply, const struct failure *failure, enum error_form form);

/* The same two as bytes (a CGI head and body), for a process that does not
 * write to a struct conn. */
void reply_compose(struct buf *out, int status, struct span content_type, const char *request_id,
                   struct span body);
void reply_compose_failure(struct buf *out, const struct failure *failure, enum error_form form,
                           const char *request_id);

#endif

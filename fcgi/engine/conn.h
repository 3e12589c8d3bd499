/*
 * One request of a front end: over one FastCGI connection, or as a CGI program
 * (RFC 3875) over the environment, standard input and output.
 *
 * FastCGI is spoken here, with record.h, and not through libfcgi: that bounds neither
 * the parameters nor a blocked write, copies what it is given, leaves the caller's key in
 * freed memory, and gives up a connection whose read a signal cut short.
 *
 * A connection carries one request: FCGI_KEEP_CONN is not honoured, or idle
 * connections of the web server would pin workers. It cannot be refused, either: see
 * record_put_end.
 */
#ifndef FCGI_ENGINE_CONN_H
#define FCGI_ENGINE_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/err.h"
#include "core/base/span.h"
#include "fcgi/engine/caller.h"
#include "fcgi/engine/record.h"

struct conn {
    struct record_reader reader;
    char *in; /* received, and not looked at yet: from in_start to in_end */
    size_t in_start, in_end;
    size_t in_used; /* of it, by this request */
    struct caller_socket caller;
    int fd;
    bool is_cgi;         /* fd is standard output, the body comes on standard input */
    bool has_request;    /* between conn_begin and conn_close */
    bool is_input_read;  /* the empty STDIN record has come: from here on readable means gone */
    bool is_ended;       /* END_REQUEST or an abort was sent */
    bool is_broken;      /* a write failed: gone, or not reading; or a CGI reply was aborted */
    uint32_t stall_ms;   /* how long a write may make no progress, and a read wait for the next byte */
    uint64_t cgi_read;   /* bytes of the body, as a CGI program */
    uint64_t blocked_us; /* waited for the front end, in all */
    uint32_t beat_ms;    /* as conn_set_beat says; 0: no beat */
    void (*beat)(void *ctx);
    void *beat_ctx;
};

/* Once per process, before the first request. */
void conn_init(struct conn *conn);

/* Frees the memory that requests share. */
void conn_free(struct conn *conn);

/* Takes an accepted connection and reads the request's parameters, within stall_ms in
 * all. ERR_FORMAT: what came was not FastCGI. ERR_TIMEOUT, ERR_CLIENT_GONE: it did not come
 * to an end. The connection is closed then. */
int conn_begin(struct conn *conn, int fd, uint32_t stall_ms);

/* Instead of both: this process was started for one request, as a CGI program. */
void conn_begin_cgi(struct conn *conn, uint32_t stall_ms);

/* A parameter (CGI meta-variable), or NULL. Valid until conn_close. */
const char *conn_param(const struct conn *conn, const char *name);

/* Shows all parameters, one after the other. */
void conn_each_param(const struct conn *conn, void (*see)(void *ctx, struct span name, struct span value),
                     void *ctx);

/* There were more than RECORD_PARAMS_MAX bytes of parameters, and not all are kept. */
bool conn_is_params_cut(const struct conn *conn);

/* Sets the bound that conn_begin was given. */
void conn_set_stall(struct conn *conn, uint32_t stall_ms);

/* While a write waits for the front end, `beat` is called when it begins to and then every period_ms: what
 * is to be kept alive meanwhile. It writes nothing to the connection. 0: no more; nor after conn_close. */
void conn_set_beat(struct conn *conn, uint32_t period_ms, void (*beat)(void *ctx), void *ctx);

/* A descriptor that becomes readable, or fails, when the front end leaves; valid
 * once the body was read to its end. -1: departure is seen only by a write. */
int conn_watch_fd(const struct conn *conn);

/* Whether the caller is known to have left, although the front end has not said so
 * (caller.h). False where that cannot be known. To be asked now and then while
 * nothing is sent. */
bool conn_has_caller_left(struct conn *conn);

/* Reads up to `room` bytes of the body, as many as have come, and waits for the first:
 * how many, 0 at its end, or ERR_TIMEOUT, ERR_CLIENT_GONE. */
ssize_t conn_read(struct conn *conn, char *out, size_t room);

/* Reads the end of the body, so that a departure can be seen. ERR_FORMAT: more of the body
 * follows. ERR_TIMEOUT, ERR_CLIENT_GONE. */
int conn_read_end(struct conn *conn);

enum { CONN_PIECES_MAX = 64 };

/* Writes reply bytes (CGI head and body; at most CONN_PIECES_MAX pieces) in the order given, `is_last`
 * together with the end of the request. Blocks at most stall_ms without progress. ERR_CLIENT_GONE;
 * ERR_TIMEOUT: it does not read. */
int conn_write(struct conn *conn, const struct span *pieces, size_t n, bool is_last);

/* Ends a request that conn_write did not end. */
int conn_end(struct conn *conn);

/* Breaks the reply off so that the caller sees a broken transfer: closing alone
 * looks like a clean end through nginx; an invalid record does not. Blocks for up to
 * 100 ms until the front end has read what was sent, so that it passes that on. */
void conn_abort(struct conn *conn);

/* Closes and forgets the request. If the front end is still sending, what it
 * sends is discarded for up to a second, so that it can read the reply. */
void conn_close(struct conn *conn);

#endif

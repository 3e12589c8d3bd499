/*
 * A request as HTTP has it, read from the FastCGI parameters, with the limits
 * that hold for every endpoint. Both programs use it.
 */
#ifndef FCGI_ENGINE_REQUEST_H
#define FCGI_ENGINE_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/span.h"
#include "core/route/failure.h"
#include "fcgi/engine/conn.h"
#include "fcgi/engine/engine.h"

enum {
    REQUEST_ID_MAX = 128,
    /* So many bytes of headers, however small each is, fit into the parameters beside the others. */
    REQUEST_HEADER_BYTES_MAX = RECORD_PARAMS_MAX / 2,
};

struct request {
    struct conn *conn;
    struct arena *arena;
    const char *id;     /* the caller's X-Request-Id if it is well formed, else a new one */
    const char *method; /* "POST" */
    const char *path;   /* decoded by the web server; script name and path info together */
    size_t max_body_bytes;
    const char
        *media_type; /* of a body, besides the one that is asked for; set after request_read, or NULL */

    /* Set after request_read where bodies of all workers share a bound; it then
     * holds for those over REQUEST_BODY_SMALL_BYTES. The engine releases what was
     * reserved when the request has been served. */
    struct engine_process *process; /* NULL: no bound */
    uint64_t body_memory_bytes;
};

enum { REQUEST_BODY_SMALL_BYTES = 64 * 1024 }; /* from here on the arena maps and unmaps it */

/* Reads id, method and path. ERR_LIMIT with *failure: the header block has more
 * than max_header_bytes, at most REQUEST_HEADER_BYTES_MAX; the request is usable for
 * answering all the same. */
int request_read(struct request *request, struct conn *conn, struct arena *arena, size_t max_header_bytes,
                 size_t max_body_bytes, struct failure *failure);

/* `given` if it is a well formed request id, else a new one. */
void request_choose_id(struct span given, char out[REQUEST_ID_MAX + 1]);

/* The key in "Authorization: Bearer KEY"; empty if there is none. */
struct span request_bearer(const struct request *request);

/* The same of the header's value; NULL: there is no header. */
struct span request_bearer_in(const char *authorization);

/* The first parameter `name` of the query, decoded as of a form ('+' is a space),
 * in the arena; what follows a '%' and is no pair of hex digits stays as it is.
 * False: there is none. */
bool request_query(const struct request *request, const char *name, struct span *out);

/* The body whole, in the arena; of this media type, or request->media_type. Otherwise a
 * negative error with *failure set: 415, 413 or 503 (without reading it), 400; or
 * ERR_CLIENT_GONE, ERR_TIMEOUT without; what was read of it is then wiped. */
int request_read_body(struct request *request, const char *media_type, struct span *body,
                      struct failure *failure);

#endif

/*
 * One HTTP exchange of a command. As at a shell: the system's authorities, and a
 * proxy if the environment has one. No redirects: they would take a key along.
 */
#ifndef ADMIN_CTL_HTTP_CALL_H
#define ADMIN_CTL_HTTP_CALL_H

#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/span.h"

enum { HTTP_TEXT_BYTES = 256, HTTP_HEADERS_MAX = 8 };

struct http_request {
    const char *method, *url;
    const char *headers[HTTP_HEADERS_MAX]; /* "Name: value", the first NULL ends them */
    struct span body;                      /* of a POST */
    unsigned timeout_s;                    /* for all of it */
    size_t limit_bytes;                    /* of the reply's body */
    /* May be NULL: called about once a second while there is nothing new, and with each piece. */
    void (*on_progress)(void *ctx, uint64_t elapsed_us);
    void *ctx;
};

/* What came of it. Texts are cut at their end; "" and 0: it did not come to that. */
struct http_reply {
    const char *problem; /* NULL: a whole reply came; else why not, in the arena */
    long status;
    char status_line[HTTP_TEXT_BYTES]; /* in which some providers explain themselves */
    char content_type[HTTP_TEXT_BYTES], request_id[HTTP_TEXT_BYTES];
    struct span body;       /* in the arena, with a NUL behind it; as far as it came */
    uint64_t first_byte_us; /* from the start to the body's first byte */
    uint64_t total_us;
};

/* What libcurl had of the headers is wiped. */
void http_call(const struct http_request *request, struct arena *arena, struct http_reply *out);

#endif

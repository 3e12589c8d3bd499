/*
 * One connection to Redis, plain or over TLS. Nothing waits but what says so: it is
 * driven by redis_link_step whenever its descriptor is ready. What has failed stays
 * so until it is opened again.
 *
 * hiredis writes the commands and reads the replies; the socket is ours, so that names
 * are looked up and connections made without waiting. What it may allocate for a reply
 * is bounded, whatever lengths are announced.
 */
#ifndef CORE_STORE_REDIS_LINK_INTERNAL_H
#define CORE_STORE_REDIS_LINK_INTERNAL_H

#include <hiredis/hiredis.h>
#include <netdb.h>
#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/span.h"
#include "core/store/lookup_internal.h"
#include "core/store/redis_url_internal.h"

enum {
    REDIS_TROUBLE_BYTES = 160,
    REDIS_WORDS_MAX = 416,        /* of a command */
    REDIS_ELEMENTS_MAX = 320,     /* of a reply */
    REDIS_INNER_ELEMENTS_MAX = 8, /* of an array inside another: there can be many of them */
    REDIS_REPLY_LIMIT_BYTES = 64 * 1024,
    REDIS_OUT_BYTES = 48 * 1024, /* commands that the socket has not taken yet */
};

enum redis_link_state {
    REDIS_LINK_DOWN,
    REDIS_LINK_LOOKING_UP,
    REDIS_LINK_CONNECTING,
    REDIS_LINK_HANDSHAKING, /* TLS's */
    REDIS_LINK_UP,
};

struct redis_link {
    enum redis_link_state state;
    char trouble[REDIS_TROUBLE_BYTES]; /* why it is down: no password, nothing that Redis chose */
    bool is_reply_too_long;            /* that is why: longer than REDIS_REPLY_LIMIT_BYTES */

    /* Its own. */
    const struct redis_address *address;
    int fd;
    struct lookup *lookup;         /* also while it is down: begun, and not taken yet */
    struct addrinfo *found, *next; /* addresses; the next one to try */
    SSL_CTX *tls_settings;
    SSL *tls;
    BIO *from_peer, *to_peer; /* of tls */
    redisReader *reader;
    redisReplyObjectFunctions reply_functions; /* of the reader */
    size_t unfinished_bytes;                   /* that have come since the last whole reply */
    unsigned receives_left;
    size_t out_len;
    char out[REDIS_OUT_BYTES]; /* for the socket; it never moves, so that no copy of a password stays */
};

/* `address` outlives it. */
void redis_link_init(struct redis_link *link, const struct redis_address *address);

/* Begins to connect, or begins anew. */
void redis_link_open(struct redis_link *link);

/* Goes on as far as that is possible without waiting. */
enum redis_link_state redis_link_step(struct redis_link *link);

/* Sends a command of n words, at most REDIS_WORDS_MAX, when the link is up; what the socket does
 * not take is sent by redis_link_step. No copy of it stays. */
void redis_link_send(struct redis_link *link, const struct span *words, size_t n);

/* The next reply, to be freed with freeReplyObject. NULL: there is none yet, or the link is
 * down. Takes a bounded number of bytes in all until it says NULL. */
redisReply *redis_link_receive(struct redis_link *link);

/* Sends what comes first on a connection: AUTH and SELECT, as the address wants them. The
 * number of replies to expect, each the status OK. */
unsigned redis_link_greet(struct redis_link *link);

/* What poll should wait for at link->fd, which is -1 while there is no socket. */
short redis_link_events(const struct redis_link *link);

/* Waits until it can go on, at most so long. */
void redis_link_wait(struct redis_link *link, unsigned timeout_ms);

/* Opens it, unless it is about to be up, and waits until it is; false: it is not, at `until_us` on
 * clock_monotonic_us(). */
bool redis_link_await_up(struct redis_link *link, uint64_t until_us);

/* Waits for the next reply, as redis_link_receive has it; NULL: none until then, or the link is down. */
redisReply *redis_link_await_reply(struct redis_link *link, uint64_t until_us);

/* The beginning of an error, by which it is known: a word of ours to pass on. The rest is Redis's own
 * text, and might repeat what it was sent. */
const char *redis_error_word(const redisReply *reply);

/* Down, with this trouble. */
void redis_link_fail(struct redis_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Closes the socket; it can be opened again, and then goes on with a lookup that has not ended. */
void redis_link_close(struct redis_link *link);
void redis_link_free(struct redis_link *link);

#endif

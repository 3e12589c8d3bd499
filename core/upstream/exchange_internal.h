/* Private to core/upstream: what a client and an exchange are. exchange.c sets one up and
 * hears libcurl tell of it; exchange_wait.c waits for all of them. */
#ifndef CORE_UPSTREAM_EXCHANGE_INTERNAL_H
#define CORE_UPSTREAM_EXCHANGE_INTERNAL_H

#include <curl/curl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/upstream/exchange.h"

enum {
    EXCHANGE_HEADERS_MAX = 64,
    /* Of each exchange two addresses that are tried at once, and what a thread that looks up a name is
     * heard by. */
    WATCHED_MAX = 8,
};

struct exchange {
    struct exchange_client *client;
    CURL *easy; /* NULL: it was never needed */
    bool is_prepared;
    char *url_text; /* the last exchange's; NULL: none */
    CURLU *url;     /* the same, parsed; NULL: it cannot be */
    const struct exchange_request *request;
    const struct exchange_receiver *receiver;
    struct exchange_result *result;
    /* libcurl only reads the list: the nodes need no memory of its own. */
    struct curl_slist headers[EXCHANGE_HEADERS_MAX + 1];
    struct splice_cursor sent;
    char *small_body; /* in one piece; NULL: it is read as it is sent */
    char reason[EXCHANGE_HEADER_BYTES + 1];
    char detail[CURL_ERROR_SIZE]; /* what libcurl says of a failure */
    uint64_t start_us;
    uint64_t last_byte_us; /* on the clock less the receivers' time */
    uint64_t look_us;      /* when the caller is looked for next */
    uint64_t linger_until_us;
    unsigned sends;
    enum exchange_want want;
    bool has_stopped; /* we ended it, so libcurl's error is ours */
    size_t n_gathered;
    char gathered[4096]; /* arrived, and not handed over yet */
};

struct exchange_client {
    CURLM *multi; /* owns the connections */
    struct exchange exchanges[EXCHANGES_MAX];
    struct exchange *running[EXCHANGES_MAX];
    unsigned n_running;
    /* What libcurl waits for: the sockets, and behind them room for the caller's; and when it wants
     * to be called without any, on clock_monotonic_us(). */
    struct pollfd watched[WATCHED_MAX + 1];
    unsigned n_watched;
    uint64_t timer_us; /* UINT64_MAX: not set */
    struct trust *trust;
};

/* Lets libcurl say what it waits for. */
void exchange_watch(struct exchange_client *client);

/* What libcurl's end of it means. */
enum exchange_end exchange_end_of(const struct exchange *x, CURLcode code);

/* Gives a piece to the receiver, and forgets what was gathered, which it may be. False: it is to stop. */
bool exchange_hand_over(struct exchange *x, struct span piece);

/* It is over: its result is completed, and all that libcurl has of it is forgotten. */
void exchange_settle(struct exchange *x, enum exchange_end end);

/* The clocks of all that run stand still for so long: a receiver, or a beat, was at work. */
void exchange_hold_clocks(struct exchange_client *client, uint64_t us);

#endif

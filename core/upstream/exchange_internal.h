/* Private to core/upstream: what a client is, for its tests too. */
#ifndef CORE_UPSTREAM_EXCHANGE_INTERNAL_H
#define CORE_UPSTREAM_EXCHANGE_INTERNAL_H

#include <curl/curl.h>
#include <poll.h>
#include <stdint.h>

/* Of one exchange: two addresses that are tried at once, and what a thread that looks up a name is heard by.
 */
enum { WATCHED_MAX = 8 };

struct exchange_client {
    CURLM *multi; /* owns the connections */
    CURL *easy;   /* of the exchange that runs */
    /* What libcurl waits for: the sockets, and behind them room for the caller's; and when it wants
     * to be called without any, on clock_monotonic_us(). */
    struct pollfd watched[WATCHED_MAX + 1];
    unsigned n_watched;
    uint64_t timer_us; /* UINT64_MAX: not set */
    struct trust *trust;
    char detail[CURL_ERROR_SIZE]; /* what libcurl says of a failure */
};

#endif

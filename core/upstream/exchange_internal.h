/* Private to core/upstream: what a client is, for its tests too. */
#ifndef CORE_UPSTREAM_EXCHANGE_INTERNAL_H
#define CORE_UPSTREAM_EXCHANGE_INTERNAL_H

#include <curl/curl.h>

struct exchange_client {
    CURLM *multi; /* owns the connections */
    CURL *easy;   /* of the exchange that runs */
    struct trust *trust;
    char detail[CURL_ERROR_SIZE]; /* what libcurl says of a failure */
};

#endif

/* One small request to a server process, by an exchange client with this trust. */
#ifndef TESTS_UNIT_POSTING_H
#define TESTS_UNIT_POSTING_H

#include <check.h>
#include <stdio.h>

#include "core/base/clock.h"
#include "core/upstream/exchange.h"
#include "tests/unit/run_exchange.h"

static inline enum exchange_want posting_on_head(void *ctx, const struct exchange_head *head)
{
    (void)ctx;
    (void)head;
    return EXCHANGE_MORE;
}

static inline enum exchange_want posting_on_data(void *ctx, struct span piece)
{
    (void)ctx;
    (void)piece;
    return EXCHANGE_CONTENT;
}

static inline struct exchange_client *posting_open(struct trust *trust)
{
    struct exchange_client *client;
    struct error e;

    ck_assert_int_eq(exchange_init_master(&e), 0);
    ck_assert_int_eq(exchange_open(trust, &client, &e), 0);
    return client;
}

static inline struct exchange_result post_by(struct exchange_client *client, const char *url)
{
    const struct exchange_receiver receiver = { .on_head = posting_on_head, .on_data = posting_on_data };
    static const char *const headers[] = { "Authorization: Bearer k", NULL };
    struct exchange_result result;
    struct splice body;

    splice_init(&body, span_cstr("{}"));
    const struct exchange_request request = {
        .url = url,
        .headers = headers,
        .body = &body,
        .clocks = { .connect_ms = 10000,
                    .first_content_ms = 10000,
                    .idle_ms = 10000,
                    .chain_us = clock_monotonic_us() + 30 * US_PER_S },
        .caller_fd = -1,
    };
    run_exchange(client, &request, &receiver, &result);
    if (result.detail != NULL) { /* it goes with the client */
        static char kept[256];
        snprintf(kept, sizeof(kept), "%s", result.detail);
        result.detail = kept;
    }
    return result;
}

static inline struct exchange_result post_to(struct trust *trust, const char *url)
{
    struct exchange_client *client = posting_open(trust);
    struct exchange_result result = post_by(client, url);
    exchange_close(client);
    return result;
}

#endif

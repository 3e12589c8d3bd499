/* One exchange from its beginning to its end, where none runs. Always fills *out. */
#ifndef TESTS_UNIT_RUN_EXCHANGE_H
#define TESTS_UNIT_RUN_EXCHANGE_H

#include "core/upstream/exchange.h"

static inline void run_exchange(struct exchange_client *client, const struct exchange_request *request,
                                const struct exchange_receiver *receiver, struct exchange_result *out)
{
    if (exchange_begin(client, request, receiver, out) != NULL)
        exchange_wait(client, UINT64_MAX);
}

#endif

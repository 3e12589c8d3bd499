#include "core/admit/auth_failures.h"

#include <string.h>

#include "core/admit/addresses.h"
#include "core/crypto/digest.h"

enum { IPV6_NETWORK_BYTES = 8 };

/* Never 0. */
static uint64_t source_of(const char *address)
{
    struct address source_address = { .len = 0 };
    uint8_t digest[SHA256_BYTES];
    uint64_t source;

    if (address == NULL || !address_read(address, &source_address))
        source_address.len = 0;
    size_t len = source_address.len < IPV6_NETWORK_BYTES ? source_address.len : IPV6_NETWORK_BYTES;
    sha256(span_of((const char *)source_address.bytes, len), digest);
    memcpy(&source, digest, sizeof(source));
    return source | 1;
}

static struct auth_failures_source *find(struct auth_failures_source *set, uint64_t source)
{
    struct auth_failures_source *oldest = &set[0];
    for (size_t i = 0; i < AUTH_FAILURES_WAYS; i++) {
        if (atomic_load_explicit(&set[i].source, memory_order_relaxed) == source)
            return &set[i];
        if (atomic_load_explicit(&set[i].window, memory_order_relaxed) <
            atomic_load_explicit(&oldest->window, memory_order_relaxed))
            oldest = &set[i];
    }
    /* Two that take one place at the same time lose a count, no more. */
    atomic_store_explicit(&oldest->window, 0, memory_order_relaxed);
    atomic_store_explicit(&oldest->source, source, memory_order_relaxed);
    return oldest;
}

unsigned auth_failures_note(struct auth_failures *failures, const char *address, uint64_t now_s,
                            unsigned limit)
{
    uint64_t source = source_of(address), began_s, count, window, next;
    struct auth_failures_source *place = find(failures->sources[(source >> 1) % AUTH_FAILURES_SETS], source);

    window = atomic_load_explicit(&place->window, memory_order_relaxed);
    do {
        began_s = window >> 32;
        count = window & UINT32_MAX;
        if (count == 0 || now_s - began_s >= AUTH_FAILURES_WINDOW_S) {
            began_s = now_s;
            count = 0;
        }
        next = began_s << 32 | (count < UINT32_MAX ? count + 1 : count);
    } while (!atomic_compare_exchange_weak_explicit(&place->window, &window, next, memory_order_relaxed,
                                                    memory_order_relaxed));
    return (next & UINT32_MAX) > limit ? (unsigned)(began_s + AUTH_FAILURES_WINDOW_S - now_s) : 0;
}

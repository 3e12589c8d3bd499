/*
 * The news that a value changed, as it goes through Redis: one compact JSON object
 * on the channel "configkv:invalidate" (behind the optional prefix),
 *
 *   {"key":KEY,"version":VERSION,"publishedAt":MS,"hmac":HEX}
 *
 * whose hmac is HMAC-SHA256, in lower-case hex, over the compact JSON of the first
 * three members in that order. It says that it is time to look, never what to find: a
 * replayed one costs a look, and a lost one costs up to two seconds.
 *
 * Pure.
 */
#ifndef CORE_STORE_INVALIDATION_H
#define CORE_STORE_INVALIDATION_H

#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/err.h"
#include "core/base/span.h"
#include "core/crypto/envelope.h"

#define INVALIDATION_CHANNEL "configkv:invalidate"

enum { INVALIDATION_LIMIT_BYTES = 1024, INVALIDATION_KEY_BYTES = 65, INVALIDATION_VERSION_BYTES = 65 };

struct invalidation {
    char key[INVALIDATION_KEY_BYTES];
    char version[INVALIDATION_VERSION_BYTES];
    uint64_t published_ms; /* wall clock, of the publisher */
};

/* Appends the payload, signed with the current key. `key` and `version` have the
 * alphabets of keys and nanoids. ERR_LIMIT: no room. */
int invalidation_write(const struct invalidation *news, const struct envelope_keys *keys, struct buf *out);

/* Exactly these four members, in any order and with any blanks; the hmac is compared in constant time,
 * with the current key's, then the previous one's. ERR_LIMIT: longer than INVALIDATION_LIMIT_BYTES.
 * ERR_FORMAT: not of this form. ERR_CRYPTO: no key made this hmac. */
int invalidation_read(struct span payload, const struct envelope_keys *keys, struct invalidation *out);

#endif

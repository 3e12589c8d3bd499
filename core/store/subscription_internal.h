/*
 * Redis, as the store on Postgres uses it: it brings the news that a value
 * changed, and nothing else. No value is read from it or kept in it.
 *
 * A subscription hears on a connection of its own, which it makes again for as
 * long as it takes; what it publishes goes over another one, made for that.
 * It belongs to the process that opened it. Nothing here waits, but for
 * subscription_publish. No password is in any text.
 */
#ifndef CORE_STORE_SUBSCRIPTION_INTERNAL_H
#define CORE_STORE_SUBSCRIPTION_INTERNAL_H

#include <stdbool.h>

#include "core/base/err.h"
#include "core/crypto/envelope.h"
#include "core/store/invalidation.h"
#include "core/store/store.h"

enum { SUBSCRIPTION_PUBLISH_MS = 500 };

struct subscription;

/* Connects to nothing yet. The texts are copied; `keys` outlives it, and NULL refuses
 * all that is heard and publishes nothing. `prefix` stands before the channel's name; NULL:
 * none. ERR_FORMAT: the URL cannot be one. */
int subscription_open(const char *redis_url, const char *prefix, const struct envelope_keys *keys,
                      struct subscription **out, struct error *e);

/* NULL is allowed. */
void subscription_close(struct subscription *s);

/* A descriptor that is readable when subscription_listen has something to do: a message,
 * or a connection to make, to prove or to give up. The first call begins to connect. -1: the
 * system has none to give; the next call tries again. */
int subscription_fd(struct subscription *s);

/* Does what there is to do: STORE_NEWS_NONE, _PUBSUB or _RECONNECT. */
enum store_news subscription_listen(struct subscription *s);

/* Signs and sends, on a connection made for it: at most SUBSCRIPTION_PUBLISH_MS. False: it may
 * not be out. */
bool subscription_publish(struct subscription *s, const struct invalidation *news);

/* Fills in what is Redis's: has_redis, is_redis_ok, refused_messages, redis_connections. */
void subscription_health(const struct subscription *s, struct store_health *out);

#endif

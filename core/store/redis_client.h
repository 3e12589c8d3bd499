/*
 * One connection to Redis for a process that asks one question at a time and may not
 * wait long for the answer. It is made by the first question, and again by the next
 * one when it was lost. No text holds a password, or anything that Redis chose.
 */
#ifndef CORE_STORE_REDIS_CLIENT_H
#define CORE_STORE_REDIS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/span.h"
#include "core/store/store.h"

struct redis_client;

/* Connects to nothing yet; copies what it needs of the place. After fork. ERR_NOT_FOUND: the place
 * has no Redis. ERR_FORMAT: its URL cannot be one. */
int redis_client_open(const struct store_place *place, struct redis_client **out, struct error *e);

/* NULL is allowed. */
void redis_client_close(struct redis_client *client);

/* What stands before every key; "": nothing. */
const char *redis_client_prefix(const struct redis_client *client);

/* Sends a command of n words (as redis_link_send has it) and waits for its answer, on
 * clock_monotonic_us() until `until_us`, connecting included. False: there is none, or it is no list
 * of `count` integers; redis_client_trouble says why. What was sent may have been done all the same. */
bool redis_client_ask(struct redis_client *client, const struct span *words, size_t n, uint64_t until_us,
                      int64_t *numbers, size_t count);

/* Sends a command and waits for nothing: if there is no connection, or it is lost, so is the command. */
void redis_client_tell(struct redis_client *client, const struct span *words, size_t n);

/* Whether there is a connection, for one who has something to tell. If not, one is made, but not
 * waited for: it may be there when this is called again. */
bool redis_client_connect(struct redis_client *client);

/* Why the last question had no answer. */
const char *redis_client_trouble(const struct redis_client *client);

#endif

/*
 * configKV: named values with versions. One interface; the implementation is
 * chosen when the store is opened. Today: the state directory.
 *
 *   STATE_DIR/configkv/KEY.json                  the value in force, mode 0600
 *   STATE_DIR/configkv/history/KEY/TIME.VERSION  every value that was ever in force
 *   STATE_DIR/configkv/history/KEY/log           a JSON line for each: time, version, author
 *   STATE_DIR/configkv/lock                      held (fcntl) by a writer
 *
 * A version is the first 32 hex of the value's SHA-256. A key is 1 to 64 of A-Z,
 * 0-9 and _; another one is ERR_FORMAT.
 */
#ifndef CORE_STORE_STORE_H
#define CORE_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"

enum { STORE_VALUE_LIMIT_BYTES = 16 * 1024 * 1024, STORE_VERSION_BYTES = 33 };

struct store;

/* Opens the embedded store, making its directories. Opened after fork. ERR_SYSTEM. */
int store_open_directory(const char *state_dir, struct store **out, struct error *e);
void store_close(struct store *store);

struct store_value {
    struct span raw; /* memory of the arena */
    char version[STORE_VERSION_BYTES];
};

/* ERR_NOT_FOUND: no such value. ERR_LIMIT, ERR_SYSTEM: it cannot be read. */
int store_get(struct store *store, const char *key, struct arena *arena, struct store_value *out,
              struct error *e);

/*
 * Replaces a value (at most STORE_VALUE_LIMIT_BYTES, else ERR_LIMIT) if its version is still `expected`; "*"
 * replaces whatever is there, NULL only what is not there yet. The value is on disk, and in the history, when
 * this returns 0. ERR_CONFLICT: the version differs, and current (STORE_VERSION_BYTES, "" if there is none)
 * says what it is. `author` goes into the history; it holds no secret. A value that equals the one in force
 * changes nothing. One that was edited in place is saved in the history before it is replaced. Waits for
 * other writers.
 */
int store_put(struct store *store, const char *key, struct span raw, const char *expected, const char *author,
              char version[STORE_VERSION_BYTES], char current[STORE_VERSION_BYTES], struct error *e);

/* A number that differs whenever any value may have changed since another call;
 * cheap, so that the keeper can ask often. ERR_SYSTEM: the store is down. */
int store_stamp(struct store *store, uint64_t *stamp, struct error *e);

/* A descriptor that is readable when something may have changed since the last
 * store_stamp, which makes it unreadable again; the store's own, valid until it is
 * closed. It hears most changes and hears them at once, but not all: whoever waits
 * for it still asks for the stamp now and then. -1: there is none. */
int store_watch_fd(struct store *store);

#endif

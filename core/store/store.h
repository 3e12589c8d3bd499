/*
 * configKV: named values with versions. One interface; the implementation is
 * chosen when the store is opened: the state directory, or Postgres (the truth)
 * with Redis (the news of a change).
 *
 * In the state directory:
 *
 *   STATE_DIR/configkv/KEY.json                  the value in force, mode 0600
 *   STATE_DIR/configkv/history/KEY/TIME.VERSION  every value that was ever in force
 *   STATE_DIR/configkv/history/KEY/log           a JSON line for each: time, version, author
 *   STATE_DIR/configkv/lock                      held (fcntl) by a writer
 *   STATE_DIR/admin_audit_log.jsonl              a line for each change; only appended to
 *
 * In Postgres: the tables of sql/. A version there is a nanoid; in the state
 * directory it is the first 32 hex of the value's SHA-256. A key is 1 to 64 of A-Z,
 * 0-9 and _; another one is ERR_FORMAT.
 *
 * A store belongs to the process that opened it, after its fork. Every call but
 * store_put returns within STORE_TIMEOUT_MS; what has not answered by then is down
 * (ERR_SYSTEM), and the next call tries again. No error's text holds a password or a value.
 */
#ifndef CORE_STORE_STORE_H
#define CORE_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"
#include "core/crypto/envelope.h"

enum {
    STORE_VALUE_LIMIT_BYTES = 16 * 1024 * 1024,
    STORE_VERSION_BYTES = 33,
    STORE_CHANGES_LIMIT_BYTES = 1024 * 1024,
    STORE_AUDIT_LIMIT_BYTES = 16 * 1024 * 1024, /* of the audit log, as it is read */
    STORE_TIMEOUT_MS = 2000,
    STORE_WRITERS_MS = 5000,    /* for other writers of the state directory */
    STORE_INSTANCE_LIFE_S = 15, /* an instance that has reported nothing for so long is gone */
};

struct store;

/* Where it is. With a database, state_dir is not looked at. */
struct store_place {
    const char *state_dir;
    const char *database_url; /* of libpq: a URI or "key=value …"; NULL or "": the state directory */
    const char
        *redis_url; /* redis://[user:password@]host:port[/db], rediss://…, unix:/path[?db=N]; or NULL */
    const char *redis_prefix; /* of channels and keys; NULL or "": none */
    /* Sign what is published and verify what is heard. NULL: nothing is published, and all
     * that is heard is refused; polling is what is left. Outlives the store. */
    const struct envelope_keys *keys;
};

/* Opens without waiting for a server: one that is away is away for the calls that
 * need it. Makes the directories of the embedded store. ERR_FORMAT: an address that
 * cannot be one. ERR_SYSTEM. */
int store_open(const struct store_place *place, struct store **out, struct error *e);

/* NULL is allowed. */
void store_close(struct store *store);

struct store_value {
    struct span raw; /* memory of the arena */
    char version[STORE_VERSION_BYTES];
};

/* ERR_NOT_FOUND: no such value. ERR_LIMIT, ERR_SYSTEM: it cannot be read. */
int store_get(struct store *store, const char *key, struct arena *arena, struct store_value *out,
              struct error *e);

/* All of n keys as they are at one moment: out[i].raw.ptr is NULL where there is no
 * such value. ERR_LIMIT, ERR_SYSTEM. */
int store_get_all(struct store *store, const char *const *keys, size_t n, struct arena *arena,
                  struct store_value *out, struct error *e);

/* What the audit log says of a change, besides time and versions, which the store
 * knows. Texts may be NULL. None holds a secret. */
struct store_audit {
    const char *actor;          /* who did it; also the author in the history */
    const char *action;         /* "put", "patch", "restore", "rotate", "create", "revoke" … */
    const char *object;         /* "LLM_ROUTER_CONFIG", "CALLER_KEYS/ci" … */
    const char *source_address; /* of the client */
    const char *request_id;
    /* JSON array of {"field", "before", "after"}; empty: none. At most STORE_CHANGES_LIMIT_BYTES, else
     * ERR_LIMIT; what is no JSON is ERR_FORMAT, since nobody could read the log's line again. */
    struct span changes;
};

struct store_change {
    const char *key;
    struct span raw; /* at most STORE_VALUE_LIMIT_BYTES, else ERR_LIMIT */
    const char
        *expected; /* replaces this version; "*": whatever is there; NULL: only what is not there yet */
    struct store_audit audit;
};

struct store_outcome {
    char version[STORE_VERSION_BYTES]; /* in force now; after ERR_CONFLICT too ("": there is none) */
    bool is_same;      /* the value equalled the one in force: nothing was changed, logged or published */
    bool is_published; /* the news is out; where it is not, pollers find it within two seconds */
};

/*
 * Replaces a value. When this returns 0, value, history and audit log have it, durably
 * and together (Postgres: one transaction; the state directory: history and audit log first,
 * so that what is in force is always in them), and then the news was published.
 * ERR_CONFLICT: the version differs; out->version says what it is. ERR_SYSTEM: it may
 * have happened only where the server went away at the very commit, and the text says so.
 * A file that was edited in place is saved in the history before it is replaced, a row when it is edited.
 * Waits for other writers: in the state directory at most STORE_WRITERS_MS, then ERR_SYSTEM.
 */
int store_put(struct store *store, const struct store_change *change, struct store_outcome *out,
              struct error *e);

struct store_version {
    char version[STORE_VERSION_BYTES];
    const char *time; /* RFC 3339, UTC; arena memory, like the author */
    const char *author;
    bool is_in_force;
};

/* The versions of a value that were ever in force, the newest first, at most `max` of
 * them into `out`: *n says how many, *total how many there are. */
int store_versions(struct store *store, const char *key, size_t max, struct arena *arena,
                   struct store_version *out, size_t *n, size_t *total, struct error *e);

/* A value as it was. ERR_NOT_FOUND, also for what cannot be a version. */
int store_get_version(struct store *store, const char *key, const char *version, struct arena *arena,
                      struct store_value *out, struct error *e);

/*
 * The last `max` lines of the audit log, the newest first: a JSON array of
 *
 *   {"time", "actor", "action", "object", "key", "versionBefore", "versionAfter",
 *    "sourceAddress", "requestId", "changes": [{"field", "before", "after"}, …]}
 *
 * with null where nothing was told, or there was no value before. Arena memory. What is older
 * than about the last STORE_AUDIT_LIMIT_BYTES is left out. ERR_LIMIT: that is still too much.
 */
int store_audit_log(struct store *store, size_t max, struct arena *arena, struct span *json, struct error *e);

/* A number that differs whenever any value may have changed since another call;
 * cheap, so that the keeper can ask often. ERR_SYSTEM: the store is down. */
int store_stamp(struct store *store, uint64_t *stamp, struct error *e);

/* What may have been heard. */
enum store_news {
    STORE_NEWS_NONE,
    STORE_NEWS_FILE,      /* a file of the state directory changed */
    STORE_NEWS_PUBSUB,    /* a message that verifies named one of our keys */
    STORE_NEWS_RECONNECT, /* the subscription stands (again); what was said meanwhile is lost */
};

/* A descriptor that is readable when there is something to hear; the store's own, valid
 * until it is closed, and never blocks. -1: there is none. It hears most changes at once,
 * but not all: whoever waits for it still asks for the stamp now and then. */
int store_watch_fd(struct store *store);

/* Takes what there is to hear, connects again when it is time to, and never waits. To be
 * called when the descriptor is readable, and at least once a second. Several news are
 * one: the highest. */
enum store_news store_listen(struct store *store);

/* How the servers behind the store do. */
struct store_health {
    bool has_database, has_redis; /* what this store stands on */
    bool is_database_ok;          /* the last call that needed it was answered */
    bool is_redis_ok;             /* the subscription stands and answers */
    uint64_t refused_messages;    /* heard, but forged, malformed or too long */
    uint64_t redis_connections;   /* made so far */
    char redis_trouble[160];      /* why it is not ok, for the log; "" if it is, or not known yet */
};

void store_health(const struct store *store, struct store_health *out);

/* An instance of llm-router, as it reports itself. Texts are at most 128 bytes. */
struct store_instance {
    const char *id; /* of its run */
    const char *host;
    const char *version;               /* of LLM_ROUTER_CONFIG in force; "" without one */
    const char *since;                 /* in force since; RFC 3339 */
    const char *source;                /* how it came: "pubsub", "ttl", "reconnect", "signal", "file" */
    uint32_t workers, workers_current; /* alive; of them, those that have taken the generation in force */
    double age_s;                      /* since it last reported, by the database's clock; out only */
};

/* Writes this instance's row, and forgets rows older than STORE_INSTANCE_LIFE_S.
 * ERR_UNSUPPORTED: the state directory has no rows. */
int store_report(struct store *store, const struct store_instance *self, struct error *e);

/* The instances that reported within STORE_INSTANCE_LIFE_S, ordered by id; arena memory. */
int store_instances(struct store *store, struct arena *arena, struct store_instance **out, size_t *n,
                    struct error *e);

#endif

/* The embedded store's parts: values (directory.c), their history, and the stamp. */
#ifndef CORE_STORE_DIRECTORY_INTERNAL_H
#define CORE_STORE_DIRECTORY_INTERNAL_H

#include "core/store/directory_watch_internal.h"
#include "core/store/store_ops.h"

enum { DIRECTORY_MODE = 0700, DIRECTORY_FILE_MODE = 0600 };

struct directory_store {
    struct store base;
    char *path;       /* STATE_DIR/configkv */
    char *audit_path; /* STATE_DIR/admin_audit_log.jsonl */
    struct directory_watch watch;
};

static inline struct directory_store *directory_of(struct store *store)
{
    return (struct directory_store *)(void *)store;
}

const char *directory_value_path(const struct directory_store *d, const char *key, struct arena *arena);

/* The value in force. ERR_NOT_FOUND, ERR_LIMIT, ERR_SYSTEM. */
int directory_get(const struct directory_store *d, const char *key, struct arena *arena,
                  struct store_value *out, struct error *e);

/* Saves a value, then notes that it is saved; `time` as clock_text has it. With the lock of writers. */
int directory_history_add(const struct directory_store *d, const char *key, const struct store_value *value,
                          const char *time, const char *author, struct arena *arena, struct error *e);

/* The same for a value that an editor put there, unless it is saved already. */
int directory_history_save_edited(const struct directory_store *d, const char *key,
                                  const struct store_value *value, struct arena *arena, struct error *e);

int directory_versions(struct store *store, const char *key, size_t max, struct arena *arena,
                       struct store_version *out, size_t *n, size_t *total, struct error *e);

int directory_get_version(struct store *store, const char *key, const char *version, struct arena *arena,
                          struct store_value *out, struct error *e);

int directory_stamp(struct store *store, uint64_t *stamp, struct error *e);

#endif

/* What an implementation of the store offers; store.h has the contracts. */
#ifndef CORE_STORE_STORE_OPS_H
#define CORE_STORE_STORE_OPS_H

#include "core/store/store.h"

struct store_ops {
    void (*close)(struct store *store);
    int (*get)(struct store *store, const char *key, struct arena *arena, struct store_value *out,
               struct error *e);
    int (*put)(struct store *store, const char *key, struct span raw, const char *expected,
               const char *author, char version[STORE_VERSION_BYTES], char current[STORE_VERSION_BYTES],
               struct error *e);
    int (*stamp)(struct store *store, uint64_t *stamp, struct error *e);
    int (*watch_fd)(struct store *store);
};

/* An implementation's own struct begins with this one. */
struct store {
    const struct store_ops *ops;
};

/* The version that a value has. */
void store_version_of(struct span raw, char version[STORE_VERSION_BYTES]);

#endif

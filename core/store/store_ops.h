/* What an implementation of the store offers; store.h has the contracts. */
#ifndef CORE_STORE_STORE_OPS_H
#define CORE_STORE_STORE_OPS_H

#include "core/store/store.h"

/* Keys and lengths were checked by store.c. */
struct store_ops {
    void (*close)(struct store *store);
    int (*get_all)(struct store *store, const char *const *keys, size_t n, struct arena *arena,
                   struct store_value *out, struct error *e);
    int (*put)(struct store *store, const struct store_change *change, struct store_outcome *out,
               struct error *e);
    int (*versions)(struct store *store, const char *key, size_t max, struct arena *arena,
                    struct store_version *out, size_t *n, size_t *total, struct error *e);
    int (*get_version)(struct store *store, const char *key, const char *version, struct arena *arena,
                       struct store_value *out, struct error *e);
    int (*audit_log)(struct store *store, size_t max, struct arena *arena, struct span *json,
                     struct error *e);
    int (*stamp)(struct store *store, uint64_t *stamp, struct error *e);
    int (*watch_fd)(struct store *store);
    enum store_news (*listen)(struct store *store);
    void (*health)(const struct store *store, struct store_health *out);
    int (*report)(struct store *store, const struct store_instance *self, struct error *e);
    int (*instances)(struct store *store, struct arena *arena, struct store_instance **out, size_t *n,
                     struct error *e);
};

/* An implementation's own struct begins with this one. */
struct store {
    const struct store_ops *ops;
};

int directory_open(const struct store_place *place, struct store **out, struct error *e);
int postgres_open(const struct store_place *place, struct store **out, struct error *e);

/* Whether a change that expects this version may replace the one in force; `current` is
 * NULL where there is no value. */
bool store_is_expected(const char *expected, const char *current);

/* Says that it may not, and what is there: ERR_CONFLICT. */
int store_refuse(const struct store_change *change, const char *current, struct store_outcome *out,
                 struct error *e);

#endif

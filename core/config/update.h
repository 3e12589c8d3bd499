/* Changing one entry of the store by compare-and-swap. */
#ifndef CORE_CONFIG_UPDATE_H
#define CORE_CONFIG_UPDATE_H

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"
#include "core/config/entry.h"
#include "core/store/store.h"

struct entry_update {
    enum entry_id entry;
    const char *expected; /* the version that is to be changed; NULL: whichever is in force */
    struct store_audit audit;
    /*
     * Makes the next value of the one in force (raw.ptr NULL: there is none) and
     * fills audit->changes; what both refer to lies in the arena, which is freed
     * after the attempt. May be called again: each time somebody else was faster.
     * A negative return ends the update and is returned.
     */
    int (*change)(void *ctx, const struct store_value *current, struct arena *arena, struct span *next,
                  struct store_audit *audit);
    void *ctx;
};

/*
 * ERR_CONFLICT: the version in force is not the expected one, and out->version says
 * which is ("": none); or others kept changing it. Otherwise what change() or
 * the store returned; *e is filled only by the store.
 */
int entry_update(struct store *store, const struct entry_update *update, struct store_outcome *out,
                 struct error *e);

#endif

/* The configuration as the store has it, made into a snapshot's image. */
#ifndef FCGI_CONFIGURATION_H
#define FCGI_CONFIGURATION_H

#include "core/config/entry.h"
#include "core/store/store.h"
#include "fcgi/router.h"

/* Reads every entry; what is not there is left empty. Memory of the arena. */
int configuration_read(struct store *store, struct arena *arena, struct entry_value values[ENTRY_COUNT],
                       struct error *e);

/* Where there are voice packs and no key for their tags as yet, makes one, if no other instance is
 * faster, and puts it among the values: packs come from administrators or from SQL, and whoever looks
 * first provides it. A failure has been logged, and is tried again with the next call. */
void configuration_provide_tag_key(const struct router_shared *shared, struct store *store,
                                   struct arena *arena, struct entry_value values[ENTRY_COUNT]);

/* Compiles them. ERR_FORMAT: refused; every fault has been logged. */
int configuration_compile(const struct router_shared *shared, const struct entry_value values[ENTRY_COUNT],
                          uint64_t generation, struct arena *arena, struct span *image, struct error *e);

/* For a process that serves alone: both, without a file. The snapshot lies in the
 * arena. ERR_FORMAT: refused; ERR_SYSTEM, ERR_LIMIT: the store cannot be read. */
int configuration_load(const struct router_shared *shared, struct arena *arena, struct snapshot *out,
                       struct error *e);

#endif

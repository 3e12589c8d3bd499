/*
 * What differs between two documents: for administrators before a change, and for
 * the audit log after it. Both are given as they may be shown (config_mask), so
 * that keys appear by their fingerprints.
 *
 * Objects are compared by name, whatever their members' order; of two lists the
 * equal elements at both ends are passed over, and the rest is compared in order.
 * Blanks and the spelling of texts are no difference, that of numbers is one. A key
 * that differs is told as a whole, its id beside its fingerprints.
 */
#ifndef CORE_CONFIG_DIFF_H
#define CORE_CONFIG_DIFF_H

#include "core/base/arena.h"
#include "core/base/span.h"
#include "core/json/writer.h"

enum {
    DIFF_CHANGES_MAX = 2000,
    DIFF_AUDIT_BYTES = 64 * 1024,
    DIFF_WHOLE_BYTES = 1024, /* what was added or removed and is longer is told member by member */
};

struct config_change {
    const char *path;          /* JSON pointer, in the later document where it stands there */
    struct span before, after; /* JSON without blanks; ptr NULL: nothing stands there */
};

struct config_diff {
    struct config_change *items; /* arena memory, in the documents' order */
    size_t count;
    size_t dropped; /* beyond DIFF_CHANGES_MAX */
};

/* Both are texts that document_check accepts; `before` may be the empty span, for
 * none. */
void config_diff(struct span before, struct span after, struct arena *arena, struct config_diff *out);

/* An array of {PATH_NAME, "before", "after"}, the latter two where something stands. */
void config_diff_write(const struct config_diff *diff, const char *path_name, struct json_writer *w);

/*
 * The same for the audit log (struct store_audit.changes): the path is the "field", and
 * the array has at most DIFF_AUDIT_BYTES; for changes that find no room in it the last
 * element is {"further": how many}. Memory of the arena.
 */
struct span config_diff_audit(const struct config_diff *diff, struct arena *arena);

#endif

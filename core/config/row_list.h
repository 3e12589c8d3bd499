/*
 * An entry that is a list of rows, each an object with an "id": {"keys":[{"id",…},…]}. Its
 * text is changed row by row, and the others stay as they were written.
 *
 * Functions that change something write the whole document that follows to *out, in the
 * arena. ERR_LIMIT: it would have more rows or bytes than it may.
 */
#ifndef CORE_CONFIG_ROW_LIST_H
#define CORE_CONFIG_ROW_LIST_H

#include <stddef.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"
#include "core/config/entry.h"
#include "core/config/members.h"

struct row_list_kind {
    enum entry_id entry;
    const char *member; /* whose value is the list */
};

struct row_list {
    const struct row_list_kind *kind;
    struct span raw;
    struct span list;     /* a part of it */
    struct members items; /* parts of that; their values are the rows */
};

/* `raw` may be the empty span: no row yet. ERR_UNSUPPORTED: it is not valid as it is
 * (somebody has edited it), and nothing can be done with it. */
int row_list_read(const struct row_list_kind *kind, struct span raw, struct arena *arena,
                  struct row_list *out);

/* The position of the row with this id, or the number of rows. */
size_t row_list_find(const struct row_list *rows, struct span id, struct arena *arena);

/* Checks that what a row is to be made or changed with is an object without these members,
 * which are not for whoever asks to set: ERR_FORMAT with *faults. */
int row_list_check_request(struct span text, const char *const *refused, size_t n_refused,
                           struct arena *arena, struct members *out, struct entry_faults *faults);

/* With one more row at the end. ERR_FORMAT: *faults says what is wrong with it, with paths in
 * the row. ERR_CONFLICT: there is a row with its id. */
int row_list_append(const struct row_list *rows, struct span row, struct arena *arena, struct span *out,
                    struct entry_faults *faults);

/* With another row, of the same id, at the i-th place. ERR_FORMAT as above. */
int row_list_replace(const struct row_list *rows, size_t i, struct span row, struct arena *arena,
                     struct span *out, struct entry_faults *faults);

/* Without the i-th row. */
int row_list_remove(const struct row_list *rows, size_t i, struct arena *arena, struct span *out);

#endif

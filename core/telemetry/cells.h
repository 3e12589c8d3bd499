/*
 * The cells: one shared set for all processes of a program, in its mapping. A
 * cell is added to with relaxed atomics, so that a process may die at any point
 * and nothing needs repair.
 *
 * Cells are handed out in blocks, one for each thing that metrics are about
 * (enum block_kind). The directory of blocks is append-only and has one writer,
 * the keeper; a block that was handed out keeps its cells for the mapping's life,
 * so that what the tree no longer has can still be read. Where there is no room
 * for a block, its things count in the block "_other" of their kind.
 *
 * Zero is the beginning of all of it; cells are as old as `started_us`.
 */
#ifndef CORE_TELEMETRY_CELLS_H
#define CORE_TELEMETRY_CELLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/span.h"
#include "core/config/snapshot.h"
#include "core/record/event.h"
#include "core/telemetry/metric.h"

enum {
    TELEMETRY_CELLS = 256 * 1024,
    TELEMETRY_BLOCKS = 8 * 1024,
    TELEMETRY_TEXT_BYTES = 512 * 1024, /* of all blocks' labels */
    TELEMETRY_LABEL_BYTES = 128,       /* of one; longer ones are cut */
};

struct series_block {
    uint32_t kind;                     /* enum block_kind */
    uint32_t cell;                     /* its first one */
    uint32_t hash;                     /* of its kind and labels */
    uint32_t labels[BLOCK_LABELS_MAX]; /* offsets into texts, of NUL-terminated text */
};

struct telemetry {
    uint64_t started_us; /* wall clock */
    _Atomic uint32_t n_blocks;
    uint32_t n_text_bytes; /* the keeper's */
    struct series_block blocks[TELEMETRY_BLOCKS];
    char texts[TELEMETRY_TEXT_BYTES];
    _Alignas(64) _Atomic uint64_t cells[TELEMETRY_CELLS];
};

/* Before fork, on zeroed memory: the block of the instance and those named "_other". */
void telemetry_init(struct telemetry *t);

/* The keeper: gives every model, upstream and key of the tree its block's first
 * cell, in the image that is about to be published. */
void telemetry_assign(struct telemetry *t, struct snap_root *root);

/* Adds to one series of a metric of BLOCK_INSTANCE; `series` is the position in
 * its closed list, 0 if it has none. Any process, any thread. */
void telemetry_add(struct telemetry *t, enum metric_id id, unsigned series, uint64_t n);

/* Sets a gauge of BLOCK_INSTANCE, or a counter that somebody else counts. */
void telemetry_set(struct telemetry *t, enum metric_id id, unsigned series, uint64_t value);

uint64_t telemetry_get(const struct telemetry *t, enum metric_id id, unsigned series);

/* A value of a histogram of BLOCK_INSTANCE, in a cell's unit; `n` times. */
void telemetry_observe(struct telemetry *t, enum metric_id id, unsigned series, uint64_t value, uint64_t n);

/* How many values it has had. */
uint64_t telemetry_observed(const struct telemetry *t, enum metric_id id, unsigned series);

/* A key of this upstream did not decrypt. */
void telemetry_count_undecryptable(struct telemetry *t, const struct snap_upstream *upstream);

/* A request has found all slots of the upstream's pool in use; the pool was marked as saturated. */
void telemetry_count_slot_rejected(struct telemetry *t, const struct snap_upstream *upstream);
void telemetry_count_saturation(struct telemetry *t, const struct snap_upstream *upstream);

/* How the pool stands that has this first cell (snap_upstream.pool_series). */
struct pool_reading {
    uint32_t series;
    uint32_t held, capacity; /* a pool without limit has 0, and nothing is said of it */
    bool is_known;           /* held is */
};

/* Sets the gauges of all pools: those of others than these n say nothing from now on. */
void telemetry_set_pools(struct telemetry *t, const struct pool_reading *readings, size_t n);

/* Counts a request that has ended: everything that the metrics of requests say of
 * it, once. */
void telemetry_count(struct telemetry *t, const struct request_event *event);

/* --- reading --- */

enum { SERIES_LABELS_MAX = BLOCK_LABELS_MAX + CLOSED_LABELS_MAX + 2 };

struct series {
    enum metric_id id;
    const struct metric *metric;
    unsigned n_labels; /* those without a value are left out */
    struct series_label {
        const char *name, *value;
    } labels[SERIES_LABELS_MAX];
    const _Atomic uint64_t *cells; /* its value, or a histogram's buckets and, behind them, its sum */
};

/* What labels say that no cell holds. */
struct series_facts {
    unsigned program; /* METRIC_OF_ROUTER or METRIC_OF_ADMIN */
    const char *instance;
    const char *tree_version; /* ""; there is none */
};

/* Every series that there is, metric by metric in the table's order. */
void telemetry_visit(const struct telemetry *t, const struct series_facts *facts,
                     void (*visit)(void *ctx, const struct series *series), void *ctx);

/* A cell as it is now; a histogram's count is the sum of its buckets. */
uint64_t series_cell(const struct series *series, unsigned i);

#endif

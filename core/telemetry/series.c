/* Reading the cells: every series with its labels. */
#include "core/telemetry/cells_internal.h"

#include <string.h>

struct visitor {
    const struct telemetry *t;
    const struct series_facts *facts;
    void (*visit)(void *ctx, const struct series *series);
    void *ctx;
};

static void add_label(struct series *series, const char *name, const char *value)
{
    if (name != NULL && value != NULL && value[0] != '\0')
        series->labels[series->n_labels++] = (struct series_label){ name, value };
}

/* The positions in the closed lists that the number of a series stands for: the last list counts fastest. */
static void add_closed(struct series *series, unsigned number)
{
    const struct metric *m = series->metric;
    unsigned places[CLOSED_LABELS_MAX] = { 0 };

    for (size_t i = CLOSED_LABELS_MAX; i-- > 0;) {
        unsigned count = m->closed[i].list != NULL ? m->closed[i].list->count : 1;
        places[i] = number % count;
        number /= count;
    }
    for (size_t i = 0; i < CLOSED_LABELS_MAX; i++) {
        if (m->closed[i].list != NULL)
            add_label(series, m->closed[i].name, m->closed[i].list->values[places[i]]);
    }
}

static void visit_block(const struct visitor *v, enum metric_id id, const struct series_block *block)
{
    const struct metric *m = metric_row(id);
    unsigned n_series = metric_series_count(m), n_cells = metric_series_cells(m);

    for (unsigned i = 0; i < n_series; i++) {
        struct series series = { .id = id, .metric = m };
        series.cells = &v->t->cells[block->cell + metric_offset(id) + i * n_cells];
        if (m->may_be_unknown && atomic_load_explicit(series.cells, memory_order_relaxed) == 0)
            continue;
        for (size_t j = 0; j < BLOCK_LABELS_MAX; j++)
            add_label(&series, m->block_labels[j], v->t->texts + block->labels[j]);
        add_closed(&series, i);
        if (m->names_instance)
            add_label(&series, "service_instance_id", v->facts->instance);
        if (m->names_version)
            add_label(&series, "version", v->facts->tree_version);
        v->visit(v->ctx, &series);
    }
}

void telemetry_visit(const struct telemetry *t, const struct series_facts *facts,
                     void (*visit)(void *ctx, const struct series *series), void *ctx)
{
    const struct visitor v = { t, facts, visit, ctx };
    uint32_t n = atomic_load_explicit(&t->n_blocks, memory_order_acquire);

    for (unsigned id = 0; id < METRIC_COUNT; id++) {
        const struct metric *m = metric_row((enum metric_id)id);
        if ((m->programs & facts->program) == 0 || (m->names_version && facts->tree_version[0] == '\0'))
            continue;
        for (uint32_t i = 0; i < n; i++) {
            if (t->blocks[i].kind == (uint32_t)m->block)
                visit_block(&v, (enum metric_id)id, &t->blocks[i]);
        }
    }
}

uint64_t series_cell(const struct series *series, unsigned i)
{
    uint64_t value = atomic_load_explicit(&series->cells[i], memory_order_relaxed);
    return series->metric->may_be_unknown && value > 0 ? value - 1 : value;
}

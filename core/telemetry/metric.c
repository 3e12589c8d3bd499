#include "core/telemetry/metric_internal.h"

#include <inttypes.h>
#include <string.h>

const struct metric *metric_row(enum metric_id id)
{
    return &metric_rows[id];
}

/* --- where cells lie --- */

unsigned metric_series_count(const struct metric *metric)
{
    unsigned count = 1;
    for (size_t i = 0; i < CLOSED_LABELS_MAX; i++)
        count *= metric->closed[i].list != NULL ? metric->closed[i].list->count : 1;
    return count;
}

unsigned metric_series_cells(const struct metric *metric)
{
    return metric->kind == METRIC_HISTOGRAM ? metric->buckets->count + 2 : 1;
}

/* Made by whoever asks first: the same for all, and before any fork. */
static struct {
    unsigned offsets[METRIC_COUNT], cells[BLOCK_KINDS];
    bool is_made;
} layout;

static void make_layout(void)
{
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        unsigned *cells = &layout.cells[metric_rows[i].block];
        layout.offsets[i] = *cells;
        *cells += metric_series_count(&metric_rows[i]) * metric_series_cells(&metric_rows[i]);
    }
    layout.is_made = true;
}

unsigned metric_offset(enum metric_id id)
{
    if (!layout.is_made)
        make_layout();
    return layout.offsets[id];
}

unsigned block_cells(enum block_kind kind)
{
    if (!layout.is_made)
        make_layout();
    return layout.cells[kind];
}

/* --- positions in closed lists --- */

/* The last value where the text is none of them. */
static unsigned find(const struct closed_list *list, const char *text)
{
    unsigned i = 0;
    while (i < list->count - 1 && strcmp(list->values[i], text) != 0)
        i++;
    return i;
}

unsigned metric_surface(const char *dialect_or_endpoint)
{
    if (dialect_or_endpoint != NULL && strcmp(dialect_or_endpoint, "audio/voices") == 0)
        dialect_or_endpoint = "voices";
    return find(&metric_surfaces, dialect_or_endpoint != NULL ? dialect_or_endpoint : "");
}

/* Statuses have three digits in both lists. */
static unsigned find_status(const struct closed_list *list, int status)
{
    const char text[4] = { (char)('0' + status / 100 % 10), (char)('0' + status / 10 % 10),
                           (char)('0' + status % 10), '\0' };
    return find(list, text);
}

unsigned metric_status(int status)
{
    return status == 0 ? find(&metric_statuses, "none") : find_status(&metric_statuses, status);
}

unsigned metric_reason(const char *reason, int status)
{
    return reason != NULL ? find(&metric_reasons, reason) : find_status(&metric_reasons, status);
}

unsigned metric_verdict(const char *verdict)
{
    return find(&metric_verdicts, verdict != NULL ? verdict : "");
}

unsigned metric_operation(unsigned surface)
{
    return surface < metric_operations.count ? surface : 0;
}

/* --- values --- */

void metric_write_value(struct buf *out, uint64_t value, unsigned divisor)
{
    char digits[24];
    uint64_t whole = value / divisor, rest = value % divisor;
    int len = 0;

    if (rest == 0) {
        buf_printf(out, "%" PRIu64, whole);
        return;
    }
    for (unsigned place = divisor / 10; place > 0 && rest > 0; place /= 10) {
        digits[len++] = (char)('0' + rest / place);
        rest %= place;
    }
    buf_printf(out, "%" PRIu64 ".%.*s", whole, len, digits);
}

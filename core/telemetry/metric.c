#include "core/telemetry/metric_internal.h"

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

/* Paths below a mount. */
static const struct {
    const char *endpoint, *surface;
} surfaces_of[] = {
    { "chat/completions", "chat" },
    { "audio/speech", "speech" },
    { "audio/transcriptions", "transcription" },
    { "audio/voices", "voices" },
};

unsigned metric_surface(const char *name)
{
    for (size_t i = 0; name != NULL && i < sizeof(surfaces_of) / sizeof(surfaces_of[0]); i++) {
        if (strcmp(name, surfaces_of[i].endpoint) == 0)
            name = surfaces_of[i].surface;
    }
    return find(&metric_surfaces, name != NULL ? name : "");
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

unsigned metric_meter(const char *meter)
{
    return find(&metric_meters, meter);
}

unsigned metric_operation(unsigned surface)
{
    return surface < metric_operations.count ? surface : 0;
}

/* --- values --- */

/* The digits of `value` end at `end`; returns where they begin. */
static char *put_digits(char *end, uint64_t value)
{
    do {
        *--end = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    return end;
}

void metric_write_value(struct buf *out, uint64_t value, unsigned divisor)
{
    char whole[24], part[24];
    char *end = whole + sizeof(whole), *digits = put_digits(end, value / divisor);
    uint64_t rest = value % divisor;
    size_t len = 0;

    buf_append(out, digits, (size_t)(end - digits));
    if (rest == 0)
        return;
    part[len++] = '.';
    for (; rest > 0; rest %= divisor) {
        rest *= 10;
        part[len++] = (char)('0' + rest / divisor);
    }
    buf_append(out, part, len);
}

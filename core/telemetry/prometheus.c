#include "core/telemetry/prometheus.h"

#include <string.h>

static const struct {
    const char *media_type;
} formats[] = {
    [PROMETHEUS_TEXT] = { "text/plain; version=0.0.4; charset=utf-8" },
    [PROMETHEUS_OPENMETRICS] = { "application/openmetrics-text; version=1.0.0; charset=utf-8" },
};

enum prometheus_format prometheus_format(const char *accept)
{
    bool is_open = accept != NULL && strstr(accept, "application/openmetrics-text") != NULL;
    return is_open ? PROMETHEUS_OPENMETRICS : PROMETHEUS_TEXT;
}

const char *prometheus_media_type(enum prometheus_format format)
{
    return formats[format].media_type;
}

/* --- names --- */

/* UCUM's units in words; others, and those in braces, are left out. */
static const char *unit_word(const char *unit)
{
    static const struct {
        const char *unit, *word;
    } words[] = { { "s", "seconds" }, { "By", "bytes" } };

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (strcmp(unit, words[i].unit) == 0)
            return words[i].word;
    }
    return NULL;
}

static void append_name(char *out, size_t *len, size_t room, const char *name)
{
    for (; *name != '\0' && *len + 1 < room; name++) {
        bool is_plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
                        (*name >= '0' && *name <= '9') || *name == '_';
        out[(*len)++] = is_plain ? *name : '_';
    }
    out[*len] = '\0';
}

void prometheus_name(const struct metric *metric, char out[METRIC_NAME_BYTES])
{
    const char *word = unit_word(metric->unit);
    size_t len = 0;

    append_name(out, &len, METRIC_NAME_BYTES, metric->name);
    size_t word_len = word != NULL ? strlen(word) : 0;
    bool has_word = word != NULL && len > word_len && strcmp(out + len - word_len, word) == 0;
    if (word != NULL && !has_word) {
        append_name(out, &len, METRIC_NAME_BYTES, "_");
        append_name(out, &len, METRIC_NAME_BYTES, word);
    }
}

/* --- text --- */

enum {
    BOUNDS_BYTES = 4096,
    LABELS_BYTES = SERIES_LABELS_MAX * (METRIC_NAME_BYTES + 2 * TELEMETRY_LABEL_BYTES + 8),
};

struct writer {
    struct buf *out;
    enum prometheus_format format;
    enum metric_id last; /* whose head has been written; METRIC_COUNT: none */
    char name[METRIC_NAME_BYTES];
    struct buf bounds; /* of its buckets, as text, each with a NUL behind it */
    struct buf labels; /* of the series in hand, with the brace that opens them and none that closes */
};

/* Quotes are escaped in a label's value, and in OpenMetrics in a HELP text too. */
static void append_escaped(struct buf *out, const char *text, bool escapes_quotes)
{
    for (; *text != '\0'; text++) {
        if (*text == '\n')
            buf_append_cstr(out, "\\n");
        else if (*text == '\\' || (*text == '"' && escapes_quotes))
            buf_append(out, (const char[]){ '\\', *text }, 2);
        else
            buf_append_char(out, *text);
    }
}

static void compose_labels(struct writer *w, const struct series *series)
{
    buf_clear(&w->labels);
    for (unsigned i = 0; i < series->n_labels; i++) {
        char name[METRIC_NAME_BYTES];
        size_t len = 0;
        append_name(name, &len, sizeof(name), series->labels[i].name);
        buf_append_char(&w->labels, i == 0 ? '{' : ',');
        buf_append(&w->labels, name, len);
        buf_append_cstr(&w->labels, "=\"");
        append_escaped(&w->labels, series->labels[i].value, true);
        buf_append_char(&w->labels, '"');
    }
}

/* A line; `le` is a bucket's bound, or NULL. */
static void append_sample(struct writer *w, const char *suffix, const char *le, uint64_t value,
                          unsigned divisor)
{
    buf_append_cstr(w->out, w->name);
    buf_append_cstr(w->out, suffix);
    buf_append_span(w->out, buf_span(&w->labels));
    if (le != NULL) {
        buf_append_cstr(w->out, w->labels.len > 0 ? ",le=\"" : "{le=\"");
        buf_append_cstr(w->out, le);
        buf_append_char(w->out, '"');
    }
    if (le != NULL || w->labels.len > 0)
        buf_append_char(w->out, '}');
    buf_append_char(w->out, ' ');
    metric_write_value(w->out, value, divisor);
    buf_append_char(w->out, '\n');
}

/* In OpenMetrics they are floating point numbers also where they are whole. */
static void compose_bounds(struct writer *w, const struct metric *metric)
{
    buf_clear(&w->bounds);
    for (unsigned i = 0; i < metric->buckets->count; i++) {
        size_t begin = w->bounds.len;
        metric_write_value(&w->bounds, metric->buckets->bounds[i], metric->divisor);
        if (w->format == PROMETHEUS_OPENMETRICS &&
            memchr(w->bounds.data + begin, '.', w->bounds.len - begin) == NULL)
            buf_append_cstr(&w->bounds, ".0");
        buf_append_char(&w->bounds, '\0');
    }
}

static void append_head(struct writer *w, const struct metric *metric)
{
    static const char *const kinds[] = {
        [METRIC_COUNTER] = "counter",
        [METRIC_GAUGE] = "gauge",
        [METRIC_HISTOGRAM] = "histogram",
    };
    bool is_open = w->format == PROMETHEUS_OPENMETRICS;
    /* In the older format the head names the samples. */
    const char *suffix = metric->kind == METRIC_COUNTER && !is_open ? "_total" : "";
    const char *word = unit_word(metric->unit);

    prometheus_name(metric, w->name);
    buf_printf(w->out, "# HELP %s%s ", w->name, suffix);
    append_escaped(w->out, metric->help, is_open);
    buf_printf(w->out, "\n# TYPE %s%s %s\n", w->name, suffix, kinds[metric->kind]);
    if (is_open && word != NULL)
        buf_printf(w->out, "# UNIT %s %s\n", w->name, word);
}

static void append_histogram(struct writer *w, const struct series *series)
{
    unsigned n = series->metric->buckets->count;
    const char *le = w->bounds.data;
    uint64_t count = 0;

    for (unsigned i = 0; i < n; i++, le += strlen(le) + 1) {
        count += series_cell(series, i);
        append_sample(w, "_bucket", le, count, 1);
    }
    count += series_cell(series, n);
    append_sample(w, "_bucket", "+Inf", count, 1);
    append_sample(w, "_sum", NULL, series_cell(series, n + 1), series->metric->divisor);
    append_sample(w, "_count", NULL, count, 1);
}

static void write_series(void *ctx, const struct series *series)
{
    const struct metric *metric = series->metric;
    struct writer *w = ctx;

    if (w->last != series->id) {
        append_head(w, metric);
        if (metric->kind == METRIC_HISTOGRAM)
            compose_bounds(w, metric);
        w->last = series->id;
    }
    compose_labels(w, series);
    if (metric->kind == METRIC_HISTOGRAM)
        append_histogram(w, series);
    else
        append_sample(w, metric->kind == METRIC_COUNTER ? "_total" : "", NULL, series_cell(series, 0),
                      metric->divisor);
}

void prometheus_write(const struct telemetry *t, const struct series_facts *facts,
                      enum prometheus_format format, struct buf *out)
{
    struct writer w = { .out = out, .format = format, .last = METRIC_COUNT };

    buf_init(&w.bounds, BOUNDS_BYTES);
    buf_init(&w.labels, LABELS_BYTES);
    telemetry_visit(t, facts, write_series, &w);
    if (format == PROMETHEUS_OPENMETRICS)
        buf_append_cstr(out, "# EOF\n");
    buf_free(&w.labels);
    buf_free(&w.bounds);
}

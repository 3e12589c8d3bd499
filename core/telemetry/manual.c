/* The table of metrics as a part of llm-router-metrics(7). */
#include "core/telemetry/metric_internal.h"

#include "core/base/mdoc.h"
#include "core/telemetry/prometheus.h"

enum { TEXT_BYTES = 16 * 1024 };

/* Closed lists, and what the configuration has. */
struct values {
    const struct closed_list *list; /* NULL: `text` says what they are */
    const char *text;
};

static const char MODELS[] = "A model of the tree, or _other.";
static const char PROVIDERS[] = "A provider of the tree, or _other.";

static const struct values block_values[BLOCK_KINDS][BLOCK_LABELS_MAX] = {
    [BLOCK_MODEL] = { { .list = &metric_surfaces }, { .text = MODELS } },
    [BLOCK_PROVIDER] = { { .text = PROVIDERS } },
    [BLOCK_KEY] = { { .text = PROVIDERS },
                    { .text = "The first 8 hex digits of the SHA-256 of a provider key of the tree, as "
                              "keyFingerprint shows it there; or _other." } },
    [BLOCK_POOL] = { { .text = "What names the pool: adapterParams.appid; else, by model and upstream, "
                               "model:[\"MODEL\",\"id\",\"UPSTREAM\"], of llm behind llm:pool:; or _other." },
                     { .text = PROVIDERS } },
    [BLOCK_ROUTE] = { { .list = &metric_operations }, { .text = PROVIDERS }, { .text = MODELS } },
};

static void write_list(struct buf *out, const struct closed_list *list)
{
    struct buf text;

    buf_init(&text, TEXT_BYTES);
    for (unsigned i = 0; i < list->count; i++) {
        const char *separator = i == 0 ? "" : i + 1 < list->count ? ", " : " or ";
        buf_printf(&text, "%s%s", separator, list->values[i][0] != '\0' ? list->values[i] : "absent");
    }
    buf_append(&text, ".", 2); /* with its NUL */
    mdoc_write_text(out, text.data);
    buf_free(&text);
}

static void write_label(struct buf *out, const char *name, struct values values)
{
    if (name == NULL)
        return;
    buf_printf(out, ".It Label Cm %s\n", name);
    if (values.list != NULL)
        write_list(out, values.list);
    else
        mdoc_write_text(out, values.text);
}

static void write_labels(struct buf *out, const struct metric *metric)
{
    for (size_t i = 0; i < BLOCK_LABELS_MAX; i++)
        write_label(out, metric->block_labels[i], block_values[metric->block][i]);
    for (size_t i = 0; i < CLOSED_LABELS_MAX; i++)
        write_label(out, metric->closed[i].name, (struct values){ .list = metric->closed[i].list });
    if (metric->names_instance)
        write_label(out, "service_instance_id", (struct values){ .text = "The id of this run." });
    if (metric->names_version)
        write_label(out, "version", (struct values){ .text = "The version of LLM_ROUTER_CONFIG in force." });
}

static void write_bounds(struct buf *out, const struct metric *metric)
{
    struct buf text;

    buf_init(&text, TEXT_BYTES);
    for (unsigned i = 0; i < metric->buckets->count; i++) {
        buf_append_cstr(&text, i > 0 ? ", " : "");
        metric_write_value(&text, metric->buckets->bounds[i], metric->divisor);
    }
    buf_append(&text, ".", 2); /* with its NUL */
    buf_append_cstr(out, ".It Bounds\n");
    mdoc_write_text(out, text.data);
    buf_free(&text);
}

static void write_metric(struct buf *out, const struct metric *metric)
{
    static const struct {
        const char *name, *suffix;
    } kinds[] = {
        [METRIC_COUNTER] = { "counter", "_total" },
        [METRIC_GAUGE] = { "gauge", "" },
        [METRIC_HISTOGRAM] = { "histogram", "" },
    };
    static const char *const programs[] = {
        [METRIC_OF_ROUTER] = "llm-router",
        [METRIC_OF_ADMIN] = "llm-router-admin",
        [METRIC_OF_BOTH] = "llm-router and llm-router-admin",
    };
    char name[METRIC_NAME_BYTES];

    prometheus_name(metric, name);
    buf_printf(out, ".Ss %s\n", metric->name);
    mdoc_write_text(out, metric->help);
    buf_append_cstr(out, ".Bl -tag -width Ds\n");
    buf_printf(out, ".It Prometheus\n.Cm %s%s\n", name, kinds[metric->kind].suffix);
    buf_printf(out, ".It Kind\nA %s of %s; its unit is %s.\n", kinds[metric->kind].name,
               programs[metric->programs], metric->unit);
    write_labels(out, metric);
    if (metric->buckets != NULL)
        write_bounds(out, metric);
    buf_append_cstr(out, ".It Moves\n");
    mdoc_write_text(out, metric->moves);
    if (metric->advice != NULL) {
        buf_append_cstr(out, ".It What to do\n");
        mdoc_write_text(out, metric->advice);
    }
    buf_append_cstr(out, ".El\n");
}

void metric_manual(struct buf *out)
{
    for (unsigned id = 0; id < METRIC_COUNT; id++)
        write_metric(out, metric_row((enum metric_id)id));
}

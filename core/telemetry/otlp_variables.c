/* The table of OTEL_* variables, and how one is read. */
#include "core/telemetry/otlp_settings_internal.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/environment.h"

enum { MS_MAX = 86400000, NAME_BYTES = 80 };

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* --- the table --- */

enum kind {
    KIND_TEXT,      /* const char * */
    KIND_ADDRESS,   /* const char *, which may hold a password */
    KIND_SECRET,    /* struct span, which is checked here */
    KIND_NUMBER,    /* int64_t, from min to max */
    KIND_BOOL,      /* bool: "true", in any case */
    KIND_CHOICE,    /* bool: which of the two choices */
    KIND_ELSEWHERE, /* is read by core/record/trace_context.c */
    KIND_VOID,      /* would bound what is never sent */
    KIND_IGNORED,
};

struct variable {
    const char *name;
    enum kind kind;
    size_t land;
    int64_t min, max;
    const char *choices[2]; /* of KIND_CHOICE: false, true */
    const char *why;        /* of KIND_IGNORED */
};

#define AT(member) .land = offsetof(struct otlp_values, member)
#define SETTING(member) .land = offsetof(struct otlp_values, settings.member)
#define MS .kind = KIND_NUMBER, .min = 1, .max = MS_MAX
#define LIMIT .kind = KIND_NUMBER, .min = 0, .max = INT32_MAX

static const struct variable variables[] = {
    { "OTEL_SDK_DISABLED", .kind = KIND_BOOL, AT(is_disabled) },
    { "OTEL_TRACES_EXPORTER", .kind = KIND_TEXT, AT(exporters[METRIC_SIGNAL_TRACES]) },
    { "OTEL_METRICS_EXPORTER", .kind = KIND_TEXT, AT(exporters[METRIC_SIGNAL_METRICS]) },
    { "OTEL_LOGS_EXPORTER", .kind = KIND_TEXT, AT(exporters[METRIC_SIGNAL_LOGS]) },
    { "OTEL_SERVICE_NAME", .kind = KIND_TEXT, AT(service_name) },
    { "OTEL_RESOURCE_ATTRIBUTES", .kind = KIND_TEXT, AT(resource) },
    { "OTEL_PROPAGATORS", .kind = KIND_ELSEWHERE },
    { "OTEL_TRACES_SAMPLER", .kind = KIND_ELSEWHERE },
    { "OTEL_TRACES_SAMPLER_ARG", .kind = KIND_ELSEWHERE },
    { "OTEL_BSP_SCHEDULE_DELAY", MS, SETTING(span_delay_ms) },
    { "OTEL_BSP_EXPORT_TIMEOUT", MS, AT(span_timeout_ms) },
    { "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", .kind = KIND_NUMBER, .min = 1, .max = INT32_MAX,
      SETTING(span_batch) },
    { "OTEL_BSP_MAX_QUEUE_SIZE", .kind = KIND_IGNORED,
      .why = "the queue is the spool, bounded by --spool-max-bytes" },
    { "OTEL_BLRP_SCHEDULE_DELAY", MS, SETTING(log_delay_ms) },
    { "OTEL_BLRP_EXPORT_TIMEOUT", MS, AT(log_timeout_ms) },
    { "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE", .kind = KIND_NUMBER, .min = 1, .max = INT32_MAX,
      SETTING(log_batch) },
    { "OTEL_BLRP_MAX_QUEUE_SIZE", .kind = KIND_IGNORED, .why = "the queue is the spool" },
    { "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", LIMIT, AT(attribute_value_limit) },
    { "OTEL_ATTRIBUTE_COUNT_LIMIT", LIMIT, AT(attribute_count_limit) },
    { "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", LIMIT, SETTING(span_value_limit) },
    { "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", LIMIT, SETTING(span_count_limit) },
    { "OTEL_SPAN_EVENT_COUNT_LIMIT", .kind = KIND_VOID },
    { "OTEL_SPAN_LINK_COUNT_LIMIT", .kind = KIND_VOID },
    { "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", .kind = KIND_VOID },
    { "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", .kind = KIND_VOID },
    { "OTEL_LOGRECORD_ATTRIBUTE_VALUE_LENGTH_LIMIT", LIMIT, SETTING(log_value_limit) },
    { "OTEL_LOGRECORD_ATTRIBUTE_COUNT_LIMIT", LIMIT, SETTING(log_count_limit) },
    { "OTEL_METRIC_EXPORT_INTERVAL", MS, SETTING(metric_interval_ms) },
    { "OTEL_METRIC_EXPORT_TIMEOUT", MS, AT(metric_timeout_ms) },
    { OTLP_EXPORTER "METRICS_TEMPORALITY_PREFERENCE", .kind = KIND_TEXT, AT(temporality) },
    { OTLP_EXPORTER "METRICS_DEFAULT_HISTOGRAM_AGGREGATION", .kind = KIND_IGNORED,
      .why = "histograms have explicit buckets" },
    { "OTEL_METRICS_EXEMPLAR_FILTER", .kind = KIND_IGNORED, .why = "there are no exemplars" },
    { "OTEL_LOG_LEVEL", .kind = KIND_IGNORED, .why = "the log has one level" },
    { "OTEL_ENTITIES", .kind = KIND_IGNORED, .why = "use OTEL_RESOURCE_ATTRIBUTES" },
    { "OTEL_CONFIG_FILE", .kind = KIND_IGNORED, .why = "there are variables only" },
    { "OTEL_EXPERIMENTAL_CONFIG_FILE", .kind = KIND_IGNORED, .why = "there are variables only" },
    { "OTEL_SEMCONV_STABILITY_OPT_IN", .kind = KIND_IGNORED,
      .why = "version 1.41.1 of the conventions is used" },
    { "OTEL_EXPORTER_PROMETHEUS_HOST", .kind = KIND_IGNORED,
      .why = "/metrics is served on the health socket" },
    { "OTEL_EXPORTER_PROMETHEUS_PORT", .kind = KIND_IGNORED,
      .why = "/metrics is served on the health socket" },
    { "OTEL_EXPORTER_ZIPKIN_ENDPOINT", .kind = KIND_IGNORED, .why = "only OTLP is offered" },
    { "OTEL_EXPORTER_ZIPKIN_TIMEOUT", .kind = KIND_IGNORED, .why = "only OTLP is offered" },
    { "OTEL_EXPORTER_ZIPKIN_PROTOCOL", .kind = KIND_IGNORED, .why = "only OTLP is offered" },
};

/* Of those that stand once for all signals and once for each: what follows the
 * signal's name. */
#define FIELD(member) .land = offsetof(struct otlp_receiver, member)

static const struct variable receiver_variables[] = {
    { "ENDPOINT", .kind = KIND_ADDRESS, FIELD(url) },
    { "PROTOCOL", .kind = KIND_CHOICE, .choices = { "http/protobuf", "http/json" }, FIELD(is_json) },
    { "HEADERS", .kind = KIND_SECRET, FIELD(headers) },
    { "COMPRESSION", .kind = KIND_CHOICE, .choices = { "none", "gzip" }, FIELD(has_gzip) },
    { "TIMEOUT", MS, FIELD(timeout_ms) },
    { "CERTIFICATE", .kind = KIND_TEXT, FIELD(certificate) },
    { "CLIENT_CERTIFICATE", .kind = KIND_TEXT, FIELD(client_certificate) },
    { "CLIENT_KEY", .kind = KIND_TEXT, FIELD(client_key) },
    { "INSECURE", .kind = KIND_IGNORED, .why = "it is of gRPC: over HTTP, the endpoint's scheme decides" },
};

static const char *const signal_parts[] = { "", "TRACES_", "METRICS_", "LOGS_" }; /* [0]: of all */

enum { RECEIVER_NAMES = COUNT(receiver_variables) * COUNT(signal_parts) };

static const char *receiver_name(size_t i, char name[NAME_BYTES])
{
    const char *part = signal_parts[i / COUNT(receiver_variables)];
    const char *rest = receiver_variables[i % COUNT(receiver_variables)].name;
    size_t len = 0;
    const char *const pieces[] = { OTLP_EXPORTER, part, rest };
    for (size_t p = 0; p < COUNT(pieces); p++) {
        memcpy(name + len, pieces[p], strlen(pieces[p]));
        len += strlen(pieces[p]);
    }
    name[len] = '\0';
    return name;
}

const char *otlp_variable(size_t i, bool *is_honoured)
{
    static char name[NAME_BYTES];
    const struct variable *v;

    if (i >= COUNT(variables) + RECEIVER_NAMES)
        return NULL;
    v = i < COUNT(variables) ? &variables[i]
                             : &receiver_variables[(i - COUNT(variables)) % COUNT(receiver_variables)];
    *is_honoured = v->kind != KIND_IGNORED;
    return i < COUNT(variables) ? v->name : receiver_name(i - COUNT(variables), name);
}

/* --- reading one --- */

static void read_number(const struct otlp_reading *r, const struct variable *v, const char *name,
                        const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || *end != '\0' || errno != 0 || value < v->min || value > v->max)
        r->report(name, arena_printf(r->arena, "a number from %lld to %lld is expected; it counts as not set",
                                     (long long)v->min, (long long)v->max));
    else
        *out = value;
}

static void read_choice(const struct otlp_reading *r, const struct variable *v, const char *name,
                        const char *text, bool *out)
{
    for (int i = 0; i < 2; i++) {
        if (strcmp(text, v->choices[i]) == 0) {
            *out = i == 1;
            return;
        }
    }
    r->report(name, arena_printf(r->arena, "\"%s\" or \"%s\" is expected; it counts as not set",
                                 v->choices[0], v->choices[1]));
}

static void read_bool(const struct otlp_reading *r, const char *name, const char *text, bool *out)
{
    *out = strcasecmp(text, "true") == 0;
    if (!*out && strcasecmp(text, "false") != 0)
        r->report(name, "\"true\" or \"false\" is expected; it counts as \"false\"");
}

static int read_headers(const struct otlp_reading *r, const char *name, struct span *out)
{
    struct span text, rest;
    const char *header, *value;

    int result = environment_take_secret(name, r->arena, &text, r->e);
    if (result != 0 || text.len == 0)
        return result;
    rest = text;
    while (otlp_next_header(&rest, r->arena, &header, &value))
        environment_wipe(span_cstr(value));
    if (rest.len == 0) {
        *out = text;
    } else {
        environment_wipe(text);
        r->report(name, "\"name=value,…\" is expected, values percent-encoded; it counts as not set");
    }
    return 0;
}

static int read_address(const struct otlp_reading *r, const char *name, const char **out)
{
    struct span text;
    int result = environment_take_secret(name, r->arena, &text, r->e);
    if (result == 0 && text.len > 0)
        *out = text.ptr;
    return result;
}

static int read_variable(const struct otlp_reading *r, const struct variable *v, const char *name, void *base)
{
    void *land = (char *)base + v->land;
    const char *text;

    if (v->kind == KIND_SECRET)
        return read_headers(r, name, land);
    if (v->kind == KIND_ADDRESS)
        return read_address(r, name, land);
    text = getenv(name);
    if (text == NULL || text[0] == '\0')
        return 0;
    switch (v->kind) {
    case KIND_TEXT:
        *(const char **)land = arena_strdup(r->arena, text);
        break;
    case KIND_NUMBER:
        read_number(r, v, name, text, land);
        break;
    case KIND_BOOL:
        read_bool(r, name, text, land);
        break;
    case KIND_CHOICE:
        read_choice(r, v, name, text, land);
        break;
    case KIND_IGNORED:
        r->report(name, arena_printf(r->arena, "it is not honoured: %s", v->why));
        break;
    default:
        break;
    }
    return 0;
}

/* Those of all signals first, so that each one's own come over them. */
static int read_receivers(const struct otlp_reading *r)
{
    char name[NAME_BYTES];
    for (size_t i = 0; i < RECEIVER_NAMES; i++) {
        const struct variable *v = &receiver_variables[i % COUNT(receiver_variables)];
        size_t part = i / COUNT(receiver_variables);
        struct otlp_receiver *own = r->values->receivers;
        receiver_name(i, name);
        int result = read_variable(r, v, name, part == 0 ? &own[0] : &own[part - 1]);
        if (result != 0)
            return result;
        if (i + 1 == COUNT(receiver_variables)) {
            r->values->base = own[0].url;
            own[METRIC_SIGNAL_METRICS] = own[METRIC_SIGNAL_LOGS] = own[METRIC_SIGNAL_TRACES];
        }
    }
    return 0;
}

static void report_unknown(const struct otlp_reading *r)
{
    char name[NAME_BYTES];
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        const char *equals = strchr(*entry, '=');
        bool is_known = false, ignored;
        if (strncmp(*entry, "OTEL_", 5) != 0 || equals == NULL || equals[1] == '\0' ||
            (size_t)(equals - *entry) >= sizeof(name))
            continue;
        memcpy(name, *entry, (size_t)(equals - *entry));
        name[equals - *entry] = '\0';
        const char *known;
        for (size_t i = 0; !is_known && (known = otlp_variable(i, &ignored)) != NULL; i++)
            is_known = strcmp(known, name) == 0;
        if (!is_known)
            r->report(name, "it is not known, and not honoured");
    }
}

int otlp_read_variables(const struct otlp_reading *r)
{
    int result = read_receivers(r);
    for (size_t i = 0; result == 0 && i < COUNT(variables); i++)
        result = read_variable(r, &variables[i], variables[i].name, r->values);
    if (result == 0)
        report_unknown(r);
    return result;
}

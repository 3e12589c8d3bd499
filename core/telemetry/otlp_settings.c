#include "core/telemetry/otlp_settings_internal.h"

#include <curl/curl.h>
#include <string.h>

#include "core/base/environment.h"
#include "core/telemetry/sink.h"

enum { ATTRIBUTES_MAX = 64 };

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define DEFAULT_ENDPOINT "http://localhost:4318"

static void add_attribute(struct otlp_attribute *list, size_t *n, const char *name, const char *value)
{
    size_t i = 0;
    while (i < *n && strcmp(list[i].name, name) != 0)
        i++;
    if (i == *n && *n < ATTRIBUTES_MAX)
        (*n)++;
    if (i < *n)
        list[i] = (struct otlp_attribute){ name, value };
}

/* OTEL_SERVICE_NAME has precedence. A list that breaks a rule is dropped whole, as the
 * specification of resources wants it. */
static void set_resource(const struct otlp_reading *r, const char *program)
{
    struct otlp_attribute *list = arena_array_of(r->arena, struct otlp_attribute, ATTRIBUTES_MAX);
    struct span rest = span_cstr(r->values->resource), name, value;
    size_t n = 0;
    bool is_sound = true;

    add_attribute(list, &n, "service.name", program);
    while (is_sound && otlp_next_pair(&rest, &name, &value)) {
        const char *key = otlp_percent_decode(name, r->arena), *text = otlp_percent_decode(value, r->arena);
        is_sound = key != NULL && text != NULL;
        if (is_sound)
            add_attribute(list, &n, key, text);
    }
    if (!is_sound || rest.len > 0) {
        r->report("OTEL_RESOURCE_ATTRIBUTES",
                  "\"name=value,…\" is expected, percent-encoded; it counts as not set");
        n = 1;
    }
    if (r->values->service_name != NULL)
        add_attribute(list, &n, "service.name", r->values->service_name);
    r->values->settings.resource = list;
    r->values->settings.n_resource = n;
}

/* --- where signals go --- */

/* One of the names in a list: "otlp,prometheus". */
static bool has_name(const char *list, const char *name)
{
    struct span rest = span_cstr(list);
    while (rest.len > 0) {
        const char *comma = memchr(rest.ptr, ',', rest.len);
        size_t len = comma == NULL ? rest.len : (size_t)(comma - rest.ptr);
        if (span_is(span_trim(span_of(rest.ptr, len)), name))
            return true;
        rest = span_of(rest.ptr + len + (comma != NULL), rest.len - len - (comma != NULL));
    }
    return false;
}

/* Whether a signal goes over OTLP: if its exporter says so, or says nothing and there is an
 * endpoint. "prometheus" asks for what is there anyway. */
static bool is_wanted(const struct otlp_reading *r, enum metric_signal signal)
{
    static const char *const names[] = { "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER",
                                         "OTEL_LOGS_EXPORTER" };
    const char *exporters = r->values->exporters[signal];

    if (r->values->is_disabled)
        return false;
    if (exporters == NULL)
        return r->values->receivers[signal].url != NULL;
    bool is_otlp = has_name(exporters, "otlp");
    if (!is_otlp && !has_name(exporters, "none") && !has_name(exporters, "prometheus"))
        r->report(names[signal], "only \"otlp\" and \"none\" are offered; nothing is exported");
    return is_otlp;
}

static char *url_part(CURLU *url, CURLUPart part, struct arena *arena)
{
    char *text = NULL, *copy = NULL;
    if (curl_url_get(url, part, &text, 0) == CURLUE_OK)
        copy = arena_strdup(arena, text);
    curl_free(text);
    return copy;
}

/* The base's path with the signal's own behind it: /v1/traces. */
static void append_path(CURLU *url, enum metric_signal signal, struct arena *arena)
{
    const char *path = url_part(url, CURLUPART_PATH, arena);
    size_t len = path == NULL ? 0 : strlen(path);
    while (len > 0 && path[len - 1] == '/')
        len--;
    curl_url_set(url, CURLUPART_PATH,
                 arena_printf(arena, "%.*s/v1/%s", (int)len, path == NULL ? "" : path, sink_name(signal)), 0);
}

/* False: it is no URL of http or https. */
static bool set_url(struct otlp_receiver *receiver, const char *text, bool is_base, enum metric_signal signal,
                    struct arena *arena)
{
    CURLU *url = curl_url();
    bool is_sound = url != NULL && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK;
    const char *scheme = is_sound ? url_part(url, CURLUPART_SCHEME, arena) : NULL;

    is_sound = scheme != NULL && (strcmp(scheme, "http") == 0 || strcmp(scheme, "https") == 0);
    if (is_sound) {
        if (is_base)
            append_path(url, signal, arena);
        receiver->url = url_part(url, CURLUPART_URL, arena);
        static const CURLUPart hidden[] = { CURLUPART_USER, CURLUPART_PASSWORD, CURLUPART_OPTIONS,
                                            CURLUPART_QUERY, CURLUPART_FRAGMENT };
        for (size_t i = 0; i < COUNT(hidden); i++)
            curl_url_set(url, hidden[i], NULL, 0);
        receiver->place = url_part(url, CURLUPART_URL, arena);
    }
    curl_url_cleanup(url);
    return is_sound && receiver->url != NULL && receiver->place != NULL;
}

static void place_receiver(const struct otlp_reading *r, enum metric_signal signal)
{
    static const char *const names[] = { OTLP_EXPORTER "TRACES_ENDPOINT", OTLP_EXPORTER "METRICS_ENDPOINT",
                                         OTLP_EXPORTER "LOGS_ENDPOINT" };
    struct otlp_receiver *receiver = &r->values->receivers[signal];
    bool has_own = receiver->url != r->values->base;

    receiver->is_on = is_wanted(r, signal);
    if (!receiver->is_on)
        return;
    const char *text = receiver->url != NULL ? receiver->url : DEFAULT_ENDPOINT;
    if (set_url(receiver, text, !has_own, signal, r->arena))
        return;
    r->report(has_own ? names[signal] : OTLP_EXPORTER "ENDPOINT",
              arena_printf(r->arena, "it is no URL of http or https; no %s are exported", sink_name(signal)));
    receiver->is_on = false;
}

static bool check_temporality(const struct otlp_reading *r)
{
    const char *text = r->values->temporality;
    if (text == NULL || strcasecmp(text, "cumulative") == 0)
        return false;
    if (strcasecmp(text, "delta") == 0 || strcasecmp(text, "lowmemory") == 0)
        return true;
    r->report(OTLP_EXPORTER "METRICS_TEMPORALITY_PREFERENCE",
              "\"cumulative\", \"delta\" or \"lowmemory\" is expected; it counts as not set");
    return false;
}

static void shorten(int64_t *timeout_ms, int64_t bound_ms)
{
    if (bound_ms < *timeout_ms)
        *timeout_ms = bound_ms;
}

static void fall_back(int64_t *limit, int64_t general, int64_t preset)
{
    if (*limit == OTLP_NO_LIMIT)
        *limit = general != OTLP_NO_LIMIT ? general : preset;
}

static void put_together(const struct otlp_reading *r, const char *program)
{
    struct otlp_values *v = r->values;
    struct otlp_settings *s = &v->settings;

    for (int signal = 0; signal < OTLP_SIGNALS; signal++)
        place_receiver(r, (enum metric_signal)signal);
    shorten(&v->receivers[METRIC_SIGNAL_TRACES].timeout_ms, v->span_timeout_ms);
    shorten(&v->receivers[METRIC_SIGNAL_LOGS].timeout_ms, v->log_timeout_ms);
    shorten(&v->receivers[METRIC_SIGNAL_METRICS].timeout_ms, v->metric_timeout_ms);
    fall_back(&s->span_value_limit, v->attribute_value_limit, OTLP_NO_LIMIT);
    fall_back(&s->log_value_limit, v->attribute_value_limit, OTLP_NO_LIMIT);
    fall_back(&s->span_count_limit, v->attribute_count_limit, 128);
    fall_back(&s->log_count_limit, v->attribute_count_limit, 128);
    s->is_delta = check_temporality(r);
    set_resource(r, program);
    memcpy(s->receivers, v->receivers, sizeof(s->receivers));
}

int otlp_settings_read(const char *program, struct arena *arena,
                       void (*report)(const char *variable, const char *problem), struct otlp_settings *out,
                       struct error *e)
{
    struct otlp_values values = {
        .receivers = { { .timeout_ms = 10000 } },
        .attribute_value_limit = OTLP_NO_LIMIT,
        .attribute_count_limit = OTLP_NO_LIMIT,
        .span_timeout_ms = 30000,
        .log_timeout_ms = 30000,
        .metric_timeout_ms = 30000,
        .settings = {
            .arena = arena,
            .span_delay_ms = 5000,
            .span_batch = 512,
            .log_delay_ms = 1000,
            .log_batch = 512,
            .metric_interval_ms = 60000,
            .span_value_limit = OTLP_NO_LIMIT,
            .span_count_limit = OTLP_NO_LIMIT,
            .log_value_limit = OTLP_NO_LIMIT,
            .log_count_limit = OTLP_NO_LIMIT,
        },
    };
    const struct otlp_reading r = { arena, report, &values, e };

    int result = otlp_read_variables(&r);
    if (result != 0)
        return result;
    put_together(&r, program);
    *out = values.settings;
    return 0;
}

void otlp_settings_wipe(struct otlp_settings *settings)
{
    for (int i = 0; i < OTLP_SIGNALS; i++) {
        environment_wipe(settings->receivers[i].headers);
        settings->receivers[i].headers = span_of(NULL, 0);
    }
}

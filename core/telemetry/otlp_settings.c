#include "core/telemetry/otlp_settings.h"

#include <ctype.h>
#include <curl/curl.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/environment.h"
#include "core/telemetry/sink.h"

enum { MS_MAX = 86400000, ATTRIBUTES_MAX = 64, NAME_BYTES = 80 };

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define EXPORTER "OTEL_EXPORTER_OTLP_"
#define DEFAULT_ENDPOINT "http://localhost:4318"

/* --- the table --- */

enum kind {
    KIND_TEXT,      /* const char * */
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

/* What is read, before what belongs together is put together. */
struct values {
    bool is_disabled;
    const char *exporters[OTLP_SIGNALS];
    const char *service_name, *resource;
    struct otlp_receiver receivers[OTLP_SIGNALS];
    int64_t attribute_value_limit, attribute_count_limit;
    int64_t span_timeout_ms, log_timeout_ms, metric_timeout_ms;
    const char *temporality;
    struct otlp_settings settings;
};

#define AT(member) .land = offsetof(struct values, member)
#define SETTING(member) .land = offsetof(struct values, settings.member)
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
    { EXPORTER "METRICS_TEMPORALITY_PREFERENCE", .kind = KIND_TEXT, AT(temporality) },
    { EXPORTER "METRICS_DEFAULT_HISTOGRAM_AGGREGATION", .kind = KIND_IGNORED,
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
    { "ENDPOINT", .kind = KIND_TEXT, FIELD(url) },
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
    const char *const pieces[] = { EXPORTER, part, rest };
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

struct reading {
    struct arena *arena;
    void (*report)(const char *variable, const char *problem);
    struct values *values;
    struct error *e;
};

static void read_number(const struct reading *r, const struct variable *v, const char *name, const char *text,
                        int64_t *out)
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

static void read_choice(const struct reading *r, const struct variable *v, const char *name, const char *text,
                        bool *out)
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

static void read_bool(const struct reading *r, const char *name, const char *text, bool *out)
{
    *out = strcasecmp(text, "true") == 0;
    if (!*out && strcasecmp(text, "false") != 0)
        r->report(name, "\"true\" or \"false\" is expected; it counts as \"false\"");
}

static int read_headers(const struct reading *r, const char *name, struct span *out)
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

/* The text of the variable, if it is set and not empty. */
static const char *text_of(const char *name)
{
    const char *text = getenv(name);
    return text != NULL && text[0] != '\0' ? text : NULL;
}

static int read_variable(const struct reading *r, const struct variable *v, const char *name, void *base)
{
    void *land = (char *)base + v->land;
    const char *text = text_of(name);

    if (v->kind == KIND_SECRET)
        return read_headers(r, name, land);
    if (text == NULL)
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
static int read_receivers(const struct reading *r)
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
        if (i + 1 == COUNT(receiver_variables))
            own[METRIC_SIGNAL_METRICS] = own[METRIC_SIGNAL_LOGS] = own[METRIC_SIGNAL_TRACES];
    }
    return 0;
}

extern char **environ;

static void report_unknown(const struct reading *r)
{
    char name[NAME_BYTES];
    for (char **entry = environ; *entry != NULL; entry++) {
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

/* --- lists of name=value --- */

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)tolower((unsigned char)c);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* NULL: a broken escape, or a control character. */
static const char *percent_decode(struct span text, struct arena *arena)
{
    char *out = arena_alloc(arena, text.len + 1), *p = out;
    for (size_t i = 0; i < text.len; i++) {
        int high = 0, low = 0;
        char c = text.ptr[i];
        if (c == '%' &&
            (text.len - i < 3 || (high = hex_of(text.ptr[i + 1])) < 0 || (low = hex_of(text.ptr[i + 2])) < 0))
            return NULL;
        if (c == '%') {
            c = (char)(high * 16 + low);
            i += 2;
        }
        if ((unsigned char)c < 0x20 || c == 0x7f)
            return NULL;
        *p++ = c;
    }
    *p = '\0';
    return out;
}

/* Cuts the next "name=value" off the list; empty pieces are skipped. */
static bool next_pair(struct span *rest, struct span *name, struct span *value)
{
    while (rest->len > 0) {
        const char *comma = memchr(rest->ptr, ',', rest->len);
        size_t len = comma == NULL ? rest->len : (size_t)(comma - rest->ptr);
        struct span pair = span_trim(span_of(rest->ptr, len));
        if (pair.len == 0) {
            *rest = span_of(rest->ptr + len + (comma != NULL), rest->len - len - (comma != NULL));
            continue;
        }
        const char *equals = memchr(pair.ptr, '=', pair.len);
        if (equals == NULL)
            return false;
        *name = span_trim(span_of(pair.ptr, (size_t)(equals - pair.ptr)));
        *value = span_trim(span_of(equals + 1, pair.len - (size_t)(equals + 1 - pair.ptr)));
        if (name->len == 0)
            return false;
        *rest = span_of(rest->ptr + len + (comma != NULL), rest->len - len - (comma != NULL));
        return true;
    }
    return false;
}

/* A token of RFC 9110, section 5.6.2. */
static bool is_token(struct span name)
{
    for (size_t i = 0; i < name.len; i++)
        if (!isalnum((unsigned char)name.ptr[i]) && strchr("!#$%&'*+-.^_`|~", name.ptr[i]) == NULL)
            return false;
    return true;
}

bool otlp_next_header(struct span *rest, struct arena *arena, const char **name, const char **value)
{
    struct span before = *rest, key, text;

    if (!next_pair(rest, &key, &text))
        return false;
    *value = percent_decode(text, arena);
    *name = arena_span(arena, key);
    if (*value != NULL && is_token(key))
        return true;
    *rest = before; /* where it breaks */
    return false;
}

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
static void set_resource(const struct reading *r, const char *program)
{
    struct otlp_attribute *list = arena_array_of(r->arena, struct otlp_attribute, ATTRIBUTES_MAX);
    struct span rest = span_cstr(r->values->resource), name, value;
    size_t n = 0;
    bool is_sound = true;

    add_attribute(list, &n, "service.name", program);
    while (is_sound && next_pair(&rest, &name, &value)) {
        const char *key = percent_decode(name, r->arena), *text = percent_decode(value, r->arena);
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
static bool is_wanted(const struct reading *r, enum metric_signal signal)
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

static void place_receiver(const struct reading *r, enum metric_signal signal, const char *base)
{
    static const char *const names[] = { EXPORTER "TRACES_ENDPOINT", EXPORTER "METRICS_ENDPOINT",
                                         EXPORTER "LOGS_ENDPOINT" };
    struct otlp_receiver *receiver = &r->values->receivers[signal];
    const char *own = text_of(names[signal]);

    receiver->is_on = is_wanted(r, signal);
    if (!receiver->is_on)
        return;
    const char *text = own != NULL ? own : base != NULL ? base : DEFAULT_ENDPOINT;
    if (set_url(receiver, text, own == NULL, signal, r->arena))
        return;
    r->report(own != NULL ? names[signal] : EXPORTER "ENDPOINT",
              arena_printf(r->arena, "it is no URL of http or https; no %s are exported", sink_name(signal)));
    receiver->is_on = false;
}

static bool check_temporality(const struct reading *r)
{
    const char *text = r->values->temporality;
    if (text == NULL || strcasecmp(text, "cumulative") == 0)
        return false;
    if (strcasecmp(text, "delta") == 0 || strcasecmp(text, "lowmemory") == 0)
        return true;
    r->report(EXPORTER "METRICS_TEMPORALITY_PREFERENCE",
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

static void put_together(const struct reading *r, const char *program)
{
    struct values *v = r->values;
    struct otlp_settings *s = &v->settings;
    const char *base = text_of(EXPORTER "ENDPOINT");

    for (int signal = 0; signal < OTLP_SIGNALS; signal++)
        place_receiver(r, (enum metric_signal)signal, base);
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
    struct values values = {
        .receivers = { { .timeout_ms = 10000 } },
        .attribute_value_limit = OTLP_NO_LIMIT,
        .attribute_count_limit = OTLP_NO_LIMIT,
        .span_timeout_ms = 30000,
        .log_timeout_ms = 30000,
        .metric_timeout_ms = 30000,
        .settings = {
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
    const struct reading r = { arena, report, &values, e };

    int result = read_receivers(&r);
    for (size_t i = 0; result == 0 && i < COUNT(variables); i++)
        result = read_variable(&r, &variables[i], variables[i].name, &values);
    if (result != 0)
        return result;
    report_unknown(&r);
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

/* The overflow process's answers. It is its own process with a spool of its own. */
#include "fcgi/edge/edge.h"

#include <string.h>

#include "core/admit/auth_failures.h"
#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/log/log.h"
#include "core/telemetry/prometheus.h"
#include "fcgi/edge/health.h"
#include "fcgi/edge/status_page.h"
#include "fcgi/engine/gauges.h"

enum { PAGE_BYTES = OVERFLOW_REPLY_BYTES / 2 - 64 * 1024, PATH_BYTES = 1024 };

static struct spool spool;
static struct request_event event;

static int init(struct engine_process *process, struct error *e)
{
    (void)process;
    if (spool_open(router_spool_plan(), &spool, e) != 0)
        log_line(LOG_ERROR, "spool_unusable", "%s; events are dropped until it can be used", e->text);
    return 0;
}

/* Script name and path info together, cut at PATH_BYTES. */
static void read_path(const struct record_reader *request, char path[PATH_BYTES])
{
    struct span parts[] = { span_cstr(record_param(request, "SCRIPT_NAME")),
                            span_cstr(record_param(request, "PATH_INFO")) };
    size_t len = 0;

    for (size_t i = 0; i < 2; i++) {
        size_t n = parts[i].len < PATH_BYTES - 1 - len ? parts[i].len : PATH_BYTES - 1 - len;
        if (n > 0)
            memcpy(path + len, parts[i].ptr, n);
        len += n;
    }
    path[len] = '\0';
}

/* --- the health socket --- */

/* What a page needs of a request. */
struct visit {
    struct mapping *mapping;
    const struct record_reader *request;
    const char *media_type; /* of what was written */
};

static int write_live(struct visit *visit, struct buf *out)
{
    (void)visit;
    health_write_live(out);
    return 200;
}

static int write_ready(struct visit *visit, struct buf *out)
{
    return health_write_ready(visit->mapping, router_settings()->is_ready_strict, out) ? 200 : 503;
}

static int write_metrics(struct visit *visit, struct buf *out)
{
    enum prometheus_format format = prometheus_format(record_param(visit->request, "HTTP_ACCEPT"));
    struct gauges gauges;

    gauges_read(visit->mapping, METRIC_OF_ROUTER, &gauges);
    prometheus_write(&visit->mapping->telemetry, &gauges.facts, format, out);
    visit->media_type = prometheus_media_type(format);
    return 200;
}

static int write_status(struct visit *visit, struct buf *out)
{
    static struct in_hand_upstreams upstreams;

    upstreams.run_dir = router_settings()->engine.run_dir;
    if (!status_page_is_wanted(record_param(visit->request, "HTTP_ACCEPT"))) {
        health_write_status(visit->mapping, &upstreams, out);
        return 200;
    }
    status_page_write(visit->mapping, &upstreams, out);
    visit->media_type = "text/html; charset=utf-8";
    return 200;
}

static const struct page {
    const char *path; /* the end of the request's */
    bool is_open;     /* to everybody; else see may_read */
    int (*write)(struct visit *visit, struct buf *out);
} pages[] = {
    { "/livez", true, write_live },
    { "/readyz", true, write_ready },
    { "/metrics", false, write_metrics },
    { "/status", false, write_status },
};

static const struct page *find_page(const char *path)
{
    size_t have = strlen(path);
    for (size_t i = 0; i < sizeof(pages) / sizeof(pages[0]); i++) {
        size_t len = strlen(pages[i].path);
        if (have >= len && strcmp(path + have - len, pages[i].path) == 0)
            return &pages[i];
    }
    return NULL;
}

/* Those whom the settings name, administrators, and whoever is at the socket itself
 * and no web server's client. An address may also be missing because headers before it
 * were too long. */
static bool may_read(const struct record_reader *request)
{
    const struct router_settings *settings = router_settings();
    const char *address = record_param(request, "REMOTE_ADDR");
    struct span token = request_bearer_in(record_param(request, "HTTP_AUTHORIZATION"));

    bool is_listed =
        address != NULL ? address_list_has(&settings->metrics_access, address) : !request->is_params_cut;
    return is_listed || admins_have_token(&settings->admins, token) ||
           admins_have_user(&settings->admins, record_param(request, "REMOTE_USER"));
}

/* Once a minute for each source: who asks in vain usually asks on. */
static void log_refusal(const struct record_reader *request, const char *path, const char *id)
{
    static struct auth_failures refusals;
    const char *address = record_param(request, "REMOTE_ADDR");

    if (auth_failures_note(&refusals, address, clock_monotonic_us() / US_PER_S, 1) > 0)
        return;
    struct json_writer *w = log_begin(LOG_WARN, "metrics_refused");
    log_field_text(w, "path", span_cstr(path));
    log_field_text(w, "source_address", span_cstr(address));
    jw_member_cstr(w, "request_id", id);
    log_end();
}

static enum error_form form_of(const char *path)
{
    const char *endpoint;
    const struct mount *mount = mount_find(path, &endpoint);
    return mount != NULL ? mount->form : ERROR_FORM_OPENAI;
}

static void answer_health(struct engine_process *process, const struct record_reader *request,
                          const char *path, const char *id, struct buf *cgi)
{
    struct span method = span_cstr(record_param(request, "REQUEST_METHOD"));
    struct buf body;
    const struct page *page = find_page(path);
    if (page == NULL) {
        reply_compose_failure(cgi, &(struct failure){ .kind = FAILURE_NOT_FOUND }, form_of(path), id);
    } else if (!span_is(method, "GET") && !span_is(method, "HEAD")) {
        reply_compose_failure(cgi,
                              &(struct failure){ .kind = FAILURE_METHOD_NOT_ALLOWED, .allow = "GET, HEAD" },
                              form_of(path), id);
    } else if (!page->is_open && !may_read(request)) {
        log_refusal(request, path, id);
        reply_compose_failure(cgi, &(struct failure){ .kind = FAILURE_FORBIDDEN }, form_of(path), id);
    } else {
        struct visit visit = { process->mapping, request, "application/json" };
        buf_init(&body, PAGE_BYTES);
        int status = page->write(&visit, &body);
        if (body.overflowed) {
            log_line(LOG_ERROR, "page_too_large", "%s has more than %d bytes", page->path, PAGE_BYTES);
            reply_compose_failure(cgi, &(struct failure){ .kind = FAILURE_INTERNAL }, form_of(path), id);
        } else {
            reply_compose(cgi, status, span_cstr(visit.media_type), id, buf_span(&body));
        }
        buf_free(&body);
    }
}

/* --- who has waited too long --- */

static void append_event(struct engine_process *process, const struct record_reader *request,
                         const char *request_id, const struct mount *mount, const char *endpoint, int status,
                         const char *code)
{
    event_begin(&event);
    event.instance = process->mapping->instance;
    event.generation = atomic_load_explicit(&process->mapping->generation, memory_order_relaxed);
    event.request_id = request_id;
    trace_begin(&router_settings()->tracing, span_cstr(record_param(request, "HTTP_TRACEPARENT")),
                &event.trace);
    if (mount != NULL) {
        event.mount = mount->prefix;
        event.endpoint = edge_find_endpoint(endpoint);
    }
    event.end = EVENT_END_OVERFLOW;
    event.status = status;
    event.code = code;
    router_record(&spool, process->mapping, NULL, &event);
}

static void answer_overflow(struct engine_process *process, const struct record_reader *request,
                            const char *path, const char *id, struct buf *cgi)
{
    const struct failure failure = { .kind = FAILURE_OVERLOADED, .retry_after_s = 1 };
    const char *endpoint = NULL;
    const struct mount *mount = mount_find(path, &endpoint);
    enum error_form form = mount != NULL ? mount->form : ERROR_FORM_OPENAI;
    append_event(process, request, id, mount, endpoint, failure_status(&failure, form),
                 failure_code(&failure));
    reply_compose_failure(cgi, &failure, form, id);
}

static void answer(struct engine_process *process, const struct record_reader *request, bool is_health,
                   struct buf *cgi)
{
    char path[PATH_BYTES], id[REQUEST_ID_MAX + 1];

    read_path(request, path);
    request_choose_id(span_cstr(record_param(request, "HTTP_X_REQUEST_ID")), id);
    if (is_health)
        answer_health(process, request, path, id, cgi);
    else
        answer_overflow(process, request, path, id, cgi);
}

const struct overflow_voice edge_voice = { .init = init, .answer = answer };

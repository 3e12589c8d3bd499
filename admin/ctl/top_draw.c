#include "admin/ctl/top_draw.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "admin/ctl/duration.h"
#include "admin/ctl/printable.h"
#include "core/base/clock.h"
#include "core/json/writer.h"

enum {
    LINE_BYTES = 4096,
    UPSTREAM_COLUMNS = 28,
    MODEL_COLUMNS = 24,
    REQUEST_ROWS_MIN = 3, /* kept free for requests in hand, however many upstreams there are */
};

/* Lines under way to a place that may be full. */
struct page {
    struct buf *out;
    size_t rows, columns; /* that are left; of a line */
};

static void put_line(struct page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_line(struct page *page, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list args;

    if (page->rows == 0)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    printable_append(page->out, span_cstr(line), page->columns);
    buf_append_char(page->out, '\n');
    page->rows--;
}

static void put_head(const struct frame *frame, struct page *page)
{
    char up[DURATION_BYTES], time[CLOCK_TEXT_BYTES];

    clock_text(frame->now_us, time);
    put_line(page, "llm-router %s   up %s   %.19sZ", frame->instance, duration_text(frame->up_us, up), time);
    if (frame->generation == 0)
        put_line(page, "no tree is in force");
    else
        put_line(page, "tree %s, generation %" PRIu64, frame->version[0] == '\0' ? "(none)" : frame->version,
                 frame->generation);
    put_line(page, "workers %u: %u idle, %u reading, %u waiting, %u streaming, %u finishing", frame->n_alive,
             frame->stages[STAGE_IDLE], frame->stages[STAGE_READING], frame->stages[STAGE_WAITING],
             frame->stages[STAGE_STREAMING], frame->stages[STAGE_FINISHING]);
    put_line(page, "queue %" PRIu64 "   since the start: %" PRIu64 " turned away, %" PRIu64 " workers died",
             frame->n_queued, frame->n_shed, frame->n_deaths);
}

static void put_recent(const struct frame *frame, struct page *page)
{
    const struct recent_view *recent = &frame->recent;
    char rate[32] = "-", median[DURATION_BYTES], p95[DURATION_BYTES];

    if (frame->requests_per_s >= 0)
        snprintf(rate, sizeof(rate), "%.1f", frame->requests_per_s);
    if (frame->events_problem != NULL) {
        put_line(page, "requests %s/s   %s", rate, frame->events_problem);
        return;
    }
    put_line(page, "requests %s/s   last %u s: %zu done, %zu refused, %zu failed, %zu callers left", rate,
             recent->seconds, recent->endings[RECENT_DONE], recent->endings[RECENT_REFUSED],
             recent->endings[RECENT_FAILED], recent->endings[RECENT_LEFT]);
    put_line(page, "first byte, last %u s: median %s, 95 %% within %s", recent->seconds,
             duration_text(recent->first_byte.median_us, median),
             duration_text(recent->first_byte.p95_us, p95));
}

/* A text for one column, in memory that the next call does not use. */
static const char *column(const char *text, size_t columns, char *out, size_t room)
{
    struct buf padded;

    buf_init(&padded, room - 1);
    printable_pad(&padded, span_cstr(text[0] == '\0' ? "-" : text), columns);
    snprintf(out, room, "%.*s", (int)padded.len, padded.data);
    buf_free(&padded);
    return out;
}

static void put_upstreams(const struct frame *frame, struct page *page)
{
    const struct recent_view *recent = &frame->recent;
    size_t room = page->rows > REQUEST_ROWS_MIN + 4 ? page->rows - REQUEST_ROWS_MIN - 4 : 0,
           n = recent->n_upstreams;

    if (n == 0)
        return;
    put_line(page, "%s", "");
    put_line(page, "%-*s %9s %9s %9s %10s %10s", UPSTREAM_COLUMNS, "UPSTREAM", "ATTEMPTS", "FAILED", "BEATEN",
             "MEDIAN", "95 %");
    for (size_t i = 0; i < n; i++) {
        const struct recent_upstream *row = &recent->upstreams[i];
        char name[4 * UPSTREAM_COLUMNS + 1], median[DURATION_BYTES], p95[DURATION_BYTES];
        if (i + 1 >= room && i + 1 < n) {
            put_line(page, "and %zu more upstreams", n - i);
            break;
        }
        put_line(page, "%s %9zu %9zu %9zu %10s %10s", column(row->name, UPSTREAM_COLUMNS, name, sizeof(name)),
                 row->attempts, row->failures, row->beaten, duration_text(row->first_byte.median_us, median),
                 duration_text(row->first_byte.p95_us, p95));
    }
}

static void put_requests(const struct frame *frame, struct page *page)
{
    put_line(page, "%s", "");
    put_line(page, "%-8s %-9s %10s %10s %10s  %-*s %-*s %s", "PID", "STAGE", "FOR", "FIRST BYTE", "IN HAND",
             MODEL_COLUMNS, "MODEL", UPSTREAM_COLUMNS, "UPSTREAM", "ENDPOINT");
    if (frame->n_requests == 0)
        put_line(page, "no request is in hand");
    for (size_t i = 0; i < frame->n_requests; i++) {
        const struct frame_request *row = &frame->requests[i];
        char model[4 * MODEL_COLUMNS + 1], upstream[4 * UPSTREAM_COLUMNS + 1], stage[DURATION_BYTES],
            first_byte[DURATION_BYTES], age[DURATION_BYTES];
        if (page->rows == 1 && i + 1 < frame->n_requests) {
            put_line(page, "and %zu more requests", frame->n_requests - i);
            break;
        }
        put_line(page, "%-8d %-9s %10s %10s %10s  %s %s %s", (int)row->pid, stage_name(row->stage),
                 duration_text(row->stage_us, stage), duration_text(row->first_byte_us, first_byte),
                 duration_text(row->age_us, age), column(row->model, MODEL_COLUMNS, model, sizeof(model)),
                 column(row->upstream, UPSTREAM_COLUMNS, upstream, sizeof(upstream)), row->endpoint);
    }
}

void top_draw_text(const struct frame *frame, size_t rows, size_t columns, struct buf *out)
{
    struct page page = { out, rows, columns };

    put_head(frame, &page);
    put_recent(frame, &page);
    put_upstreams(frame, &page);
    put_requests(frame, &page);
}

/* --- JSON --- */

static void write_times(struct json_writer *w, const struct recent_times *times)
{
    jw_key(w, "firstByte");
    jw_begin_object(w);
    jw_member_uint(w, "medianUs", times->median_us);
    jw_member_uint(w, "p95Us", times->p95_us);
    jw_end_object(w);
}

static void write_recent(struct json_writer *w, const struct recent_view *recent)
{
    jw_begin_object(w);
    jw_member_uint(w, "seconds", recent->seconds);
    jw_member_uint(w, "done", recent->endings[RECENT_DONE]);
    jw_member_uint(w, "refused", recent->endings[RECENT_REFUSED]);
    jw_member_uint(w, "failed", recent->endings[RECENT_FAILED]);
    jw_member_uint(w, "left", recent->endings[RECENT_LEFT]);
    write_times(w, &recent->first_byte);
    jw_key(w, "upstreams");
    jw_begin_array(w);
    for (size_t i = 0; i < recent->n_upstreams; i++) {
        jw_begin_object(w);
        jw_member_cstr(w, "upstream", recent->upstreams[i].name);
        jw_member_uint(w, "attempts", recent->upstreams[i].attempts);
        jw_member_uint(w, "failures", recent->upstreams[i].failures);
        jw_member_uint(w, "beaten", recent->upstreams[i].beaten);
        write_times(w, &recent->upstreams[i].first_byte);
        jw_end_object(w);
    }
    jw_end_array(w);
    jw_end_object(w);
}

static void write_request(struct json_writer *w, const struct frame_request *row)
{
    jw_begin_object(w);
    jw_member_int(w, "pid", row->pid);
    jw_member_cstr(w, "stage", stage_name(row->stage));
    jw_member_uint(w, "stageUs", row->stage_us);
    jw_member_uint(w, "ageUs", row->age_us);
    jw_member_uint(w, "firstByteUs", row->first_byte_us);
    jw_member_cstr(w, "model", row->model);
    jw_member_cstr(w, "upstream", row->upstream);
    jw_member_cstr(w, "endpoint", row->endpoint);
    jw_member_cstr(w, "requestId", row->request_id);
    jw_end_object(w);
}

void top_draw_json(const struct frame *frame, struct buf *out)
{
    struct json_writer w;
    char rate[64];

    jw_init(&w, out);
    jw_begin_object(&w);
    jw_member_cstr(&w, "instance", frame->instance);
    jw_member_uint(&w, "upUs", frame->up_us);
    jw_member_uint(&w, "generation", frame->generation);
    jw_member_cstr(&w, "version", frame->version[0] == '\0' ? NULL : frame->version);
    jw_key(&w, "workers");
    jw_begin_object(&w);
    jw_member_uint(&w, "alive", frame->n_alive);
    for (unsigned stage = STAGE_IDLE; stage < STAGE_COUNT; stage++)
        jw_member_uint(&w, stage_name((enum stage)stage), frame->stages[stage]);
    jw_end_object(&w);
    jw_member_uint(&w, "queued", frame->n_queued);
    jw_member_uint(&w, "turnedAway", frame->n_shed);
    jw_member_uint(&w, "workerDeaths", frame->n_deaths);
    jw_key(&w, "requestsPerSecond");
    snprintf(rate, sizeof(rate), "%.3f", frame->requests_per_s);
    jw_raw(&w, span_cstr(frame->requests_per_s < 0 ? "null" : rate));
    jw_member_cstr(&w, "eventsProblem", frame->events_problem);
    jw_key(&w, "recent");
    if (frame->events_problem == NULL)
        write_recent(&w, &frame->recent);
    else
        jw_null(&w);
    jw_key(&w, "requests");
    jw_begin_array(&w);
    for (size_t i = 0; i < frame->n_requests; i++)
        write_request(&w, &frame->requests[i]);
    jw_end_array(&w);
    jw_end_object(&w);
    buf_append_char(out, '\n');
}

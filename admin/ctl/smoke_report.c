#include "admin/ctl/smoke_report.h"

#include <inttypes.h>

#include "admin/ctl/duration.h"
#include "admin/ctl/printable.h"
#include "core/base/clock.h"
#include "core/json/writer.h"

enum {
    NAME_COLUMNS = 34,
    TEXT_COLUMNS = 256,   /* of a text of others */
    EXCERPT_COLUMNS = 400 /* of a reply's body */
};

static void put(struct buf *out, const char *text)
{
    printable_append(out, span_cstr(text), TEXT_COLUMNS);
}

/* "1. upstream (provider), key 1a2b3c4d: auth 401, first byte 12 ms" */
static void put_attempt(const struct attempt_line *attempt, size_t n, struct buf *out)
{
    char first_byte[DURATION_BYTES];

    buf_printf(out, "%zu. ", n);
    put(out, attempt->upstream);
    if (attempt->provider[0] != '\0') {
        buf_append_cstr(out, " (");
        put(out, attempt->provider);
        buf_append_char(out, ')');
    }
    buf_append_cstr(out, ", key ");
    put(out, attempt->key_fp[0] == '\0' ? "-" : attempt->key_fp);
    buf_append_cstr(out, ": ");
    put(out, attempt->verdict);
    if (attempt->status != 0)
        buf_printf(out, " %" PRIu64, attempt->status);
    if (attempt->reason[0] != '\0') {
        buf_append_cstr(out, " (");
        put(out, attempt->reason);
        buf_append_char(out, ')');
    }
    buf_printf(out, ", first byte %s", duration_text(attempt->first_byte_us, first_byte));
}

static void put_attempts(const struct smoke_trial *trial, const char *indent, struct buf *out)
{
    if (trial->scenario->end == NULL)
        return; /* a probe: there is none */
    if (trial->event == NULL) {
        buf_printf(out, "%sattempts: not visible from here\n", indent);
        return;
    }
    for (size_t i = 0; i < trial->event->n_attempts; i++) {
        buf_append_cstr(out, indent);
        put_attempt(&trial->event->attempts[i], i + 1, out);
        buf_append_char(out, '\n');
    }
}

void smoke_write_text(const struct smoke_trial *trial, struct buf *out)
{
    const struct http_reply *reply = &trial->reply;
    char first_byte[DURATION_BYTES], total[DURATION_BYTES], name[TEXT_COLUMNS];
    struct buf joined;

    buf_init(&joined, sizeof(name) - 1);
    buf_append_cstr(&joined, trial->scenario->name);
    if (trial->model != NULL && trial->scenario->subject != SUBJECT_UNKNOWN)
        buf_printf(&joined, " %s", trial->model);
    buf_printf(out, "%-8s ", smoke_result_name(trial->result));
    printable_pad(out, buf_span(&joined), NAME_COLUMNS);
    buf_free(&joined);
    if (trial->is_sent)
        buf_printf(out, " %3ld  first byte %9s  total %9s  trace %s", reply->status,
                   duration_text(reply->first_byte_us, first_byte), duration_text(reply->total_us, total),
                   trial->trace_id);
    buf_append_char(out, '\n');
    if (trial->is_sent)
        put_attempts(trial, "         ", out);
    if (trial->finding != NULL) {
        buf_append_cstr(out, "         ");
        put(out, trial->finding);
        buf_append_char(out, '\n');
    }
}

/* --- JSON --- */

static void write_attempts(struct json_writer *w, const struct event_line *event)
{
    jw_begin_array(w);
    for (size_t i = 0; i < event->n_attempts; i++) {
        const struct attempt_line *attempt = &event->attempts[i];
        jw_begin_object(w);
        jw_member_cstr(w, "upstream", attempt->upstream);
        jw_member_cstr(w, "provider", attempt->provider);
        jw_member_cstr(w, "keyFingerprint", attempt->key_fp);
        jw_member_cstr(w, "verdict", attempt->verdict);
        jw_member_cstr(w, "reason", attempt->reason);
        jw_member_uint(w, "status", attempt->status);
        jw_member_uint(w, "firstByteUs", attempt->first_byte_us);
        jw_end_object(w);
    }
    jw_end_array(w);
}

static void write_event(struct json_writer *w, const struct event_line *event)
{
    if (event == NULL) {
        jw_null(w);
        return;
    }
    jw_begin_object(w);
    jw_member_cstr(w, "end", event->end);
    jw_member_cstr(w, "code", event->code);
    jw_member_cstr(w, "traceId", event->trace_id);
    jw_member_int(w, "fallbackDepth", event->fallback_depth);
    jw_key(w, "attempts");
    write_attempts(w, event);
    jw_end_object(w);
}

static void write_trial(struct json_writer *w, const struct smoke_trial *trial)
{
    const struct http_reply *reply = &trial->reply;

    jw_begin_object(w);
    jw_member_cstr(w, "scenario", trial->scenario->name);
    jw_member_cstr(w, "item", trial->scenario->item);
    jw_member_cstr(w, "model", trial->model);
    jw_member_cstr(w, "result", smoke_result_name(trial->result));
    jw_member_cstr(w, "finding", trial->finding);
    jw_member_cstr(w, "command", trial->command);
    jw_member_cstr(w, "expected", trial->scenario->expected);
    if (trial->is_sent) {
        jw_member_int(w, "status", reply->status);
        jw_member_cstr(w, "contentType", reply->content_type);
        jw_member_uint(w, "bytes", reply->body.len);
        jw_member_uint(w, "firstByteUs", reply->first_byte_us);
        jw_member_uint(w, "totalUs", reply->total_us);
        jw_member_cstr(w, "requestId", reply->request_id);
        jw_member_cstr(w, "traceId", trial->trace_id);
        jw_key(w, "event");
        write_event(w, trial->event);
    }
    jw_end_object(w);
}

void smoke_write_json(const struct smoke_summary *summary, struct buf *out)
{
    struct json_writer w;
    char time[CLOCK_TEXT_BYTES];

    clock_text(summary->time_us, time);
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_member_cstr(&w, "url", summary->url);
    jw_member_cstr(&w, "time", time);
    jw_member_cstr(&w, "commit", summary->commit);
    jw_member_cstr(&w, "environment", summary->environment);
    for (size_t i = 0; i < SMOKE_RESULTS; i++)
        jw_member_uint(&w, smoke_result_name((enum smoke_result)i), summary->counts[i]);
    jw_key(&w, "trials");
    jw_begin_array(&w);
    for (size_t i = 0; i < summary->n_trials; i++)
        write_trial(&w, &summary->trials[i]);
    jw_end_array(&w);
    jw_end_object(&w);
    buf_append_char(out, '\n');
}

/* --- Markdown --- */

/* A text of others in a line of ours: as code, which it cannot end. */
static void put_code(struct buf *out, const char *text)
{
    size_t begin = out->len;

    buf_append_char(out, '`');
    put(out, text);
    for (size_t i = begin + 1; i < out->len; i++)
        if (out->data[i] == '`' || out->data[i] == '|')
            out->data[i] = '\'';
    buf_append_char(out, '`');
}

/* Lines of others: an indented block goes on whatever stands in it. */
static void put_block(struct buf *out, struct span text, size_t columns)
{
    while (text.len > 0 && columns > 0) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end == NULL ? text.len : (size_t)(end - text.ptr);
        struct span line = span_trim(span_of(text.ptr, len));
        if (line.len > 0)
            buf_append_cstr(out, "    ");
        columns -= printable_append(out, line, columns);
        buf_append_char(out, '\n');
        len += end != NULL;
        text = span_of(text.ptr + len, text.len - len);
    }
}

static bool is_readable(const struct http_reply *reply)
{
    return span_starts(span_cstr(reply->content_type), "application/json") ||
           span_starts(span_cstr(reply->content_type), "text/");
}

static void put_reply(const struct smoke_trial *trial, struct buf *out)
{
    const struct http_reply *reply = &trial->reply;
    char first_byte[DURATION_BYTES], total[DURATION_BYTES];

    buf_printf(out, "Actual: %ld, ", reply->status);
    put_code(out, reply->content_type);
    buf_printf(out, ", %zu bytes; first byte after %s, all of it after %s.\nTrace ", reply->body.len,
               duration_text(reply->first_byte_us, first_byte), duration_text(reply->total_us, total));
    put_code(out, trial->trace_id);
    if (reply->request_id[0] != '\0') {
        buf_append_cstr(out, ", request ");
        put_code(out, reply->request_id);
    }
    if (trial->event != NULL && trial->event->fallback_depth >= 0)
        buf_printf(out, ", fallback depth %" PRId64, trial->event->fallback_depth);
    buf_append_cstr(out, ".\n\n");
    if (is_readable(reply) && reply->body.len > 0) {
        put_block(out, reply->body, EXCERPT_COLUMNS);
        buf_append_char(out, '\n');
    }
    if (trial->scenario->end != NULL && (trial->event == NULL || trial->event->n_attempts > 0)) {
        buf_append_cstr(out, "Attempts, as the event has them:\n\n");
        put_attempts(trial, "    ", out);
        buf_append_char(out, '\n');
    }
}

static void put_trial(const struct smoke_trial *trial, struct buf *out)
{
    buf_printf(out, "## %s", trial->scenario->name);
    if (trial->model != NULL) {
        buf_append_cstr(out, ", ");
        put_code(out, trial->model);
    }
    buf_printf(out, ": %s\n\n%s", smoke_result_name(trial->result), trial->scenario->what);
    if (trial->scenario->item[0] != '\0')
        buf_printf(out, " (No. %s of the list.)", trial->scenario->item);
    buf_append_cstr(out, "\n\n");
    if (trial->command != NULL) {
        put_block(out, span_cstr(trial->command), SIZE_MAX);
        buf_append_char(out, '\n');
    }
    buf_printf(out, "Expected: %s\n\n", trial->scenario->expected);
    if (trial->is_sent)
        put_reply(trial, out);
    if (trial->finding != NULL) {
        buf_printf(out, "%s: ", trial->result == SMOKE_SKIPPED ? "Skipped" : "Failed");
        put_code(out, trial->finding);
        buf_append_cstr(out, "\n\n");
    }
}

static void put_row(const struct smoke_trial *trial, struct buf *out)
{
    char first_byte[DURATION_BYTES], total[DURATION_BYTES];

    buf_printf(out, "| %s | %s | ", trial->scenario->item, trial->scenario->name);
    if (trial->model != NULL)
        put_code(out, trial->model);
    buf_printf(out, " | %s | ", smoke_result_name(trial->result));
    if (trial->is_sent)
        buf_printf(out, "%ld | %s | %s |\n", trial->reply.status,
                   duration_text(trial->reply.first_byte_us, first_byte),
                   duration_text(trial->reply.total_us, total));
    else
        buf_append_cstr(out, "| | |\n");
}

void smoke_write_markdown(const struct smoke_summary *summary, struct buf *out)
{
    char time[CLOCK_TEXT_BYTES];

    clock_text(summary->time_us, time);
    buf_printf(
        out,
        "# Verification\n\nWritten by `llm-routerctl smoke`, which asked a running instance for one of "
        "each.\n\n- date: %.10s\n- commit: ",
        time);
    put_code(out, summary->commit == NULL ? "not told" : summary->commit);
    buf_append_cstr(out, "\n- environment: ");
    put_code(out, summary->environment == NULL ? "not told" : summary->environment);
    buf_append_cstr(out, "\n- instance: ");
    put_code(out, summary->url);
    buf_printf(out,
               "\n- result: %zu passed, %zu failed, %zu skipped\n\n"
               "| no. | scenario | model | result | status | first byte | total |\n"
               "|---|---|---|---|---|---|---|\n",
               summary->counts[SMOKE_PASSED], summary->counts[SMOKE_FAILED], summary->counts[SMOKE_SKIPPED]);
    for (size_t i = 0; i < summary->n_trials; i++)
        put_row(&summary->trials[i], out);
    buf_append_char(out, '\n');
    for (size_t i = 0; i < summary->n_trials; i++)
        put_trial(&summary->trials[i], out);
}

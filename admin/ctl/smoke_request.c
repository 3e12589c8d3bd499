#include "admin/ctl/smoke_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/json/writer.h"

enum {
    REPLY_LIMIT_BYTES = 64 * 1024 * 1024,
    REPLY_TIMEOUT_S = 330, /* longer than a plain request may take with the tree that is shipped */
    COMPOSED_LIMIT_BYTES = 256 * 1024,
    EVENT_WAIT_MS = 500, /* it is there before the reply's end, if it comes at all */
    EVENT_LOOK_MS = 10,
    SLOW_AFTER_S = 3, /* then a line says that it goes on, and again after each PATIENCE_S */
    PATIENCE_S = 10,
    TRACE_ID_BYTES = 16,
    SPAN_ID_BYTES = 8,
};

#define WRONG_KEY "llm-routerctl-no-such-key"

/* The text as one word of a shell. */
static void quote(struct buf *out, const char *text)
{
    buf_append_char(out, '\'');
    for (; *text != '\0'; text++) {
        if (*text == '\'')
            buf_append_cstr(out, "'\\''");
        else
            buf_append_char(out, *text);
    }
    buf_append_char(out, '\'');
}

static const char *take_text(struct arena *arena, struct buf *text)
{
    const char *copy = arena_span(arena, buf_span(text));
    buf_free(text);
    return copy;
}

/* RFC 3986, section 2.3: what else there may be is escaped. */
static void escape(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
            strchr("-._~", c) != NULL)
            buf_append_char(out, (char)c);
        else
            buf_printf(out, "%%%02X", c);
    }
}

static const char *compose_url(const struct smoke_target *target, const struct smoke_trial *trial)
{
    const char *prefixes[] = {
        [PLACE_ROOT] = "",
        [PLACE_MOUNT] = target->mount,
        [PLACE_V1] = SMOKE_V1,
        [PLACE_CODED] = SMOKE_CODED,
    };
    struct buf url;

    buf_init(&url, COMPOSED_LIMIT_BYTES);
    buf_printf(&url, "%s%s%s", target->root, prefixes[trial->scenario->place], trial->scenario->path);
    if (trial->scenario->members == NULL && trial->model != NULL) {
        buf_append_cstr(&url, "?model=");
        escape(&url, trial->model);
    }
    return take_text(target->arena, &url);
}

static const char *compose_body(const struct smoke_target *target, const struct smoke_trial *trial)
{
    struct buf body;

    if (trial->scenario->members == NULL)
        return NULL;
    buf_init(&body, COMPOSED_LIMIT_BYTES);
    buf_append_cstr(&body, "{\"model\":\"");
    json_escape(&body, span_cstr(trial->model));
    buf_append_char(&body, '"');
    if (trial->voice != NULL) {
        buf_append_cstr(&body, ",\"voice\":\"");
        json_escape(&body, span_cstr(trial->voice));
        buf_append_char(&body, '"');
    }
    buf_printf(&body, ",%s}", trial->scenario->members);
    return take_text(target->arena, &body);
}

/* What does the same at a shell that has the key in CALLER_KEY. */
static const char *compose_command(const struct smoke_target *target, const struct smoke_trial *trial)
{
    const char *key = trial->scenario->is_wrong_key                                        ? WRONG_KEY
                      : target->key_header != NULL && trial->scenario->place != PLACE_ROOT ? "$CALLER_KEY"
                                                                                           : NULL;
    struct buf command;

    buf_init(&command, COMPOSED_LIMIT_BYTES);
    bool is_speech = trial->scenario->subject == SUBJECT_SPEECH && trial->body != NULL;
    buf_append_cstr(&command, is_speech ? "curl -sS -D - -o speech " : "curl -sSi ");
    quote(&command, trial->url);
    if (key != NULL)
        buf_printf(&command, " \\\n-H \"authorization: Bearer %s\"", key);
    if (trial->body != NULL) {
        buf_append_cstr(&command, " \\\n-H 'content-type: application/json' \\\n-d ");
        quote(&command, trial->body);
    }
    return take_text(target->arena, &command);
}

/* The request under way, for who waits for it. */
struct patience {
    const char *name;
    uint64_t told_us; /* when the last line was written; 0: none was */
};

static void on_progress(void *ctx, uint64_t elapsed_us)
{
    struct patience *patience = ctx;
    uint64_t due_us =
        patience->told_us == 0 ? SLOW_AFTER_S * US_PER_S : patience->told_us + PATIENCE_S * US_PER_S;

    if (elapsed_us < due_us)
        return;
    patience->told_us = elapsed_us;
    fprintf(stderr, "llm-routerctl smoke: %s: %" PRIu64 " s so far\n", patience->name, elapsed_us / US_PER_S);
}

static void random_hex(size_t bytes, char *out)
{
    unsigned char id[TRACE_ID_BYTES];
    ids_random(id, bytes);
    ids_hex(id, bytes, out);
}

static void send_request(const struct smoke_target *target, const char *name, const char *url,
                         const char *body, const char *key_header, const char *traceparent,
                         struct http_reply *reply)
{
    struct patience patience = { .name = name };
    struct http_request request = {
        .method = body == NULL ? "GET" : "POST",
        .url = url,
        .body = span_cstr(body),
        .timeout_s = REPLY_TIMEOUT_S,
        .limit_bytes = REPLY_LIMIT_BYTES,
        .on_progress = on_progress,
        .ctx = &patience,
    };
    size_t n = 0;

    if (traceparent != NULL)
        request.headers[n++] = traceparent;
    if (body != NULL)
        request.headers[n++] = "content-type: application/json";
    if (key_header != NULL)
        request.headers[n++] = key_header;
    http_call(&request, target->arena, reply);
}

void smoke_get(const struct smoke_target *target, const char *name, const char *path,
               struct http_reply *reply)
{
    send_request(target, name, arena_printf(target->arena, "%s%s", target->root, path), NULL,
                 target->key_header, NULL, reply);
}

/* Looks at the events that are there by now. */
static bool find_event(struct smoke_target *target, const char *request_id, struct arena *scratch,
                       struct event_line *out)
{
    struct span line;

    while (event_tail_next(&target->tail, &line) == 0) {
        arena_reset(scratch);
        if (event_line_read(line, scratch, out) == 0 && strcmp(out->request_id, request_id) == 0)
            return event_line_read(line, target->arena, out) == 0; /* to stay */
    }
    return false;
}

/* The event of this request, if it comes to be seen here; else NULL. */
static struct event_line *wait_event(struct smoke_target *target, const char *request_id)
{
    const struct timespec pause = { .tv_nsec = EVENT_LOOK_MS * 1000000L };
    uint64_t until_us = clock_monotonic_us() + (target->is_elsewhere ? 0 : EVENT_WAIT_MS * US_PER_MS);
    struct event_line *event = arena_new_of(target->arena, struct event_line);
    bool is_found = false, is_over = !target->has_tail || request_id[0] == '\0';
    struct arena *scratch = arena_new();

    while (!is_found && !is_over) {
        is_over = clock_monotonic_us() >= until_us;
        is_found = find_event(target, request_id, scratch, event);
        if (!is_found && !is_over)
            nanosleep(&pause, NULL);
    }
    arena_free(scratch);
    target->is_elsewhere = !is_found;
    return is_found ? event : NULL;
}

void smoke_run(struct smoke_target *target, struct smoke_trial *trial)
{
    const struct smoke_scenario *scenario = trial->scenario;
    const char *key_header = scenario->is_wrong_key          ? "authorization: Bearer " WRONG_KEY
                             : scenario->place != PLACE_ROOT ? target->key_header
                                                             : NULL;
    char span_id[2 * SPAN_ID_BYTES + 1];

    trial->url = compose_url(target, trial);
    trial->body = compose_body(target, trial);
    trial->command = compose_command(target, trial);
    random_hex(TRACE_ID_BYTES, trial->trace_id);
    random_hex(SPAN_ID_BYTES, span_id);
    trial->is_sent = true;
    send_request(target, scenario->name, trial->url, trial->body, key_header,
                 arena_printf(target->arena, "traceparent: 00-%s-%s-01", trial->trace_id, span_id),
                 &trial->reply);
    if (scenario->end != NULL)
        trial->event = wait_event(target, trial->reply.request_id);
    smoke_judge(trial, target->arena);
}

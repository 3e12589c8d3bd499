#include "fcgi/in_hand.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/log/log.h"

/* The array's last byte is never written, so that a worker which is killed on the
 * way leaves a text. */
static void note(char *place, size_t size, struct span text)
{
    size_t len = text.len < size ? text.len : size - 1;
    if (len > 0)
        memcpy(place, text.ptr, len);
    place[len] = '\0';
}

#define NOTE(place, text) note((place), sizeof(place), (text))

void in_hand_note(struct scoreboard_record *record, const struct request_event *event)
{
    struct scoreboard_request *request = &record->request;

    request->time_us = event->time_us;
    request->series = event->series;
    request->is_sampled = event->trace.is_sampled; /* before the ids, without which it says nothing */
    NOTE(request->parent_span_id, span_cstr(event->trace.parent_span_id));
    NOTE(request->trace_id, span_cstr(event->trace.trace_id));
    NOTE(request->span_id, span_cstr(event->trace.span_id));
    NOTE(request->event_id, span_cstr(event->id));
    NOTE(request->request_id, span_cstr(event->request_id));
    NOTE(request->mount, span_cstr(event->mount));
    NOTE(request->endpoint, span_cstr(event->endpoint));
    NOTE(request->key_id, span_cstr(event->key_id));
    NOTE(request->remote_user, span_cstr(event->remote_user));
    NOTE(request->model, event->model);
}

/* One that died before it had noted its trace has a new one. */
static void take_trace(const struct trace_policy *policy, const struct scoreboard_request *request,
                       struct trace_context *out)
{
    if (strlen(request->trace_id) != TRACE_ID_TEXT_BYTES - 1 ||
        strlen(request->span_id) != SPAN_ID_TEXT_BYTES - 1) {
        trace_begin(policy, span_of(NULL, 0), out);
        return;
    }
    snprintf(out->trace_id, sizeof(out->trace_id), "%s", request->trace_id);
    snprintf(out->span_id, sizeof(out->span_id), "%s", request->span_id);
    snprintf(out->parent_span_id, sizeof(out->parent_span_id), "%.16s", request->parent_span_id);
    out->is_sampled = request->is_sampled != 0;
}

static void make_event(const struct trace_policy *policy, const struct mapping *mapping, unsigned slot,
                       const struct scoreboard_record *record, struct request_event *event)
{
    const struct scoreboard_request *request = &record->request;
    enum stage stage = (enum stage)atomic_load_explicit(&record->stage, memory_order_acquire);

    event_begin(event);
    event->time_us = request->time_us;
    if (request->event_id[0] != '\0')
        snprintf(event->id, sizeof(event->id), "%.36s", request->event_id);
    else
        ids_uuid7(event->time_us, event->id); /* it died before it had read the request */
    event->instance = mapping->instance;
    event->worker = slot;
    event->generation = atomic_load_explicit(&record->generation, memory_order_relaxed);
    event->request_id = request->request_id;
    take_trace(policy, request, &event->trace);
    event->key_id = request->key_id;
    event->remote_user = request->remote_user;
    event->mount = request->mount;
    event->endpoint = request->endpoint;
    event->model = span_cstr(request->model);
    event->series = request->series;
    event->status = request->status; /* so that the metrics and the record say the same */
    event->is_committed = stage == STAGE_STREAMING;
    event->end = EVENT_END_WORKER_DIED;
    event->total_us = clock_monotonic_us() - atomic_load_explicit(&request->started_us, memory_order_acquire);
}

void in_hand_append_death(const struct router_shared *shared, struct mapping *mapping, unsigned slot,
                          const struct scoreboard_record *record)
{
    static struct request_event event; /* large */
    pid_t pid = atomic_load_explicit(&record->pid, memory_order_relaxed);
    uint64_t segment = spool_shared_forget(&shared->spool_plan.shared, pid);
    bool is_counted = atomic_load_explicit(&record->request.is_counted, memory_order_acquire) != 0;
    struct spool spool;
    struct error e;

    make_event(&shared->settings->tracing, mapping, slot, record, &event);
    if (spool_open(&shared->spool_plan, &spool, &e) != 0)
        log_line(LOG_ERROR, "spool_unusable", "%s", e.text);
    if (!is_counted)
        router_record(&spool, mapping, NULL, &event);
    else if (!spool_has(&spool, segment, span_cstr(event.id)))
        router_append_event(&spool, mapping, &event);
    spool_close(&spool);
}

/* The snapshot of this generation; NULL if its file is gone. */
static const struct snap_root *snapshot_of(struct in_hand_upstreams *upstreams, uint64_t generation)
{
    struct snapshot *snapshot = &upstreams->snapshots[generation % IN_HAND_SNAPSHOTS];
    char path[PATH_MAX];

    if (snapshot->root != NULL && snapshot->root->generation == generation)
        return snapshot->root;
    snapshot_unmap(snapshot);
    if (generation == 0 || snapshot_path(upstreams->run_dir, generation, path, sizeof(path)) != 0 ||
        snapshot_map(path, snapshot, NULL) != 0)
        return NULL;
    return snapshot->root;
}

void in_hand_look(struct in_hand_upstreams *upstreams, const struct scoreboard_record *record,
                  struct in_hand_look *out)
{
    uint64_t since = atomic_load_explicit(&record->since_us, memory_order_relaxed);
    const struct snap_root *root = NULL;

    *out = (struct in_hand_look){
        .pid = atomic_load_explicit(&record->pid, memory_order_relaxed),
        .stage = (enum stage)atomic_load_explicit(&record->stage, memory_order_acquire),
        .requests = atomic_load_explicit(&record->requests, memory_order_relaxed),
        .generation = atomic_load_explicit(&record->generation, memory_order_relaxed),
        .upstream = span_of("", 0),
    };
    out->has_request = scoreboard_copy_request(record, &out->request);
    uint64_t now = clock_monotonic_us();
    out->stage_ms = now > since ? (now - since) / US_PER_MS : 0;
    if (!out->has_request)
        return;
    out->age_ms = now > out->request.started_us ? (now - out->request.started_us) / US_PER_MS : 0;
    if (out->request.upstream != 0)
        root = snapshot_of(upstreams, out->generation);
    if (root != NULL)
        out->upstream = snapshot_upstream_id(root, out->request.upstream);
}

void in_hand_log_slow(struct in_hand_upstreams *upstreams, const struct scoreboard_record *record)
{
    struct in_hand_look look;

    in_hand_look(upstreams, record, &look);
    if (!look.has_request)
        return;
    struct json_writer *w = log_begin(LOG_WARN, "slow_request");
    jw_member_cstr(w, "request_id", look.request.request_id);
    jw_member_cstr(w, "endpoint", look.request.endpoint);
    log_field_text(w, "model", span_cstr(look.request.model));
    jw_member_span(w, "upstream", look.upstream);
    jw_member_cstr(w, "stage", stage_name(look.stage));
    jw_member_uint(w, "stage_ms", look.stage_ms);
    jw_member_uint(w, "total_ms", look.age_ms);
    log_end();
}

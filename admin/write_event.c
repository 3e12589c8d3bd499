#include "admin/write_event.h"

#include <errno.h>
#include <string.h>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/json/writer.h"
#include "core/log/log.h"

enum {
    LINE_BYTES = 16 * 1024,
    SPOOL_BYTES_MAX = 64 * 1024 * 1024, /* a hundred thousand writes and more */
};

int write_event_prepare_spool(const struct admin_settings *settings, struct spool_plan *out, struct error *e)
{
    *out = (struct spool_plan){ .state_dir = settings->state_dir,
                                .program = "llm-router-admin",
                                .max_bytes = SPOOL_BYTES_MAX };
    if (!settings->is_check)
        return spool_shared_open(settings->engine.run_dir, out->program, true, &out->shared, e);
    out->shared = spool_shared_alone();
    return 0;
}

static void write_line(const struct admin_turn *turn, const struct admin_change *change, const char *version,
                       struct buf *out)
{
    uint64_t now = clock_wall_us();
    char id[UUID_TEXT_BYTES];
    struct json_writer w;

    ids_uuid7(now, id);
    jw_init(&w, out);
    jw_begin_object(&w);
    jw_member_int(&w, "v", 1);
    jw_member_cstr(&w, "event", "airi.gen_ai.gateway.config.write");
    jw_member_cstr(&w, "id", id);
    jw_member_uint(&w, "time", now);
    jw_member_cstr(&w, "instance", turn->worker->process->mapping->instance);
    jw_member_cstr(&w, "actor_email", turn->actor);
    jw_member_cstr(&w, "version", version);
    jw_member_uint(&w, "key_count", change->key_count);
    jw_member_cstr(&w, "action", change->action);
    jw_member_cstr(&w, "entry", entry_name(change->entry));
    jw_member_cstr(&w, "request_id", turn->request.id);
    jw_end_object(&w);
}

void write_event_append(struct admin_turn *turn, const struct admin_change *change, const char *version)
{
    struct admin_worker *worker = turn->worker;
    struct buf line;

    buf_init(&line, LINE_BYTES);
    write_line(turn, change, version, &line);
    errno = EMSGSIZE;
    if (line.overflowed || spool_append(&worker->spool, buf_span(&line)) != 0) {
        log_line(LOG_ERROR, "event_dropped", "the spool takes no events: %s", strerror(errno));
        telemetry_add(&worker->process->mapping->telemetry, METRIC_SPOOL_DROPPED, 0, 1);
    }
    buf_free(&line);
}

void write_event_count(struct admin_turn *turn, int status)
{
    enum metric_write result = status < 400   ? METRIC_WRITE_SUCCESS
                               : status < 500 ? METRIC_WRITE_4XX
                                              : METRIC_WRITE_5XX;
    telemetry_add(&turn->worker->process->mapping->telemetry, METRIC_CONFIG_WRITE_COUNT, result, 1);
}

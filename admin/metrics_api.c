/* What llm-router-admin has counted, for a Prometheus that is an administrator. */
#include "admin/answer.h"

#include "core/telemetry/prometheus.h"
#include "fcgi/engine/gauges.h"

enum { METRICS_BYTES = 1024 * 1024 };

void admin_get_metrics(struct admin_turn *turn)
{
    enum prometheus_format format = prometheus_format(conn_param(turn->request.conn, "HTTP_ACCEPT"));
    struct mapping *mapping = turn->worker->process->mapping;
    struct gauges gauges;
    struct buf text;

    buf_init(&text, METRICS_BYTES); /* this program's series are bounded by its table */
    gauges_read(mapping, METRIC_OF_ADMIN, &gauges);
    prometheus_write(&mapping->telemetry, &gauges.facts, format, &text);
    reply_start(&turn->reply, 200, span_cstr(prometheus_media_type(format)), (int64_t)text.len);
    reply_header(&turn->reply, "Cache-Control", span_cstr("no-store"));
    reply_finish(&turn->reply, buf_span(&text));
    buf_free(&text);
}

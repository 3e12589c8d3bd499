/* config manual and metrics manual: the parts of manual pages that tables make. */
#include "admin/ctl/ctl.h"
#include "core/base/buf.h"
#include "core/config/entry.h"
#include "core/telemetry/metric.h"

enum { TEXT_LIMIT_BYTES = 1024 * 1024 };

static int print(const struct invocation *call, void (*write)(struct buf *out))
{
    struct buf text;
    buf_init(&text, TEXT_LIMIT_BYTES);
    write(&text);
    int status = ctl_print(call, buf_span(&text));
    buf_free(&text);
    return status;
}

int ctl_config_manual(const struct invocation *call)
{
    return print(call, entry_manual);
}

int ctl_metrics_manual(const struct invocation *call)
{
    return print(call, metric_manual);
}

#include "core/telemetry/sink.h"

const char *sink_name(enum metric_signal signal)
{
    return metric_signals.values[signal];
}

/*
 * OTLP/HTTP: one export request at a time to one receiver, and what becomes of it by the
 * protocol's rules (OTLP specification, "OTLP/HTTP Response"):
 *
 *   2xx                          arrived; what a partial success refuses is counted and logged,
 *                                and never sent again
 *   429, 502, 503, 504           again later; Retry-After counts (seconds or a date)
 *   no connection, a connection  again later
 *   that broke, no reply in time
 *   everything else              given up, counted and logged
 *
 * The same trouble is logged once until something else happens. A log names the place without
 * credentials, and no header. After fork, in one thread.
 */
#ifndef CORE_TELEMETRY_OTLP_SEND_H
#define CORE_TELEMETRY_OTLP_SEND_H

#include <protobuf-c/protobuf-c.h>
#include <stdint.h>

#include "core/telemetry/cells.h"
#include "core/telemetry/otlp_settings.h"
#include "core/telemetry/sink.h"

struct otlp_sender;

/* Both outlive the sender; the metrics export.* count in `telemetry`. ERR_SYSTEM. */
int otlp_sender_open(const struct otlp_settings *settings, enum metric_signal signal,
                     struct telemetry *telemetry, struct otlp_sender **out, struct error *e);
void otlp_sender_close(struct otlp_sender *sender);

/* Sends a message of `n_items` spans, data points or log records. 0: it has arrived, or is given up.
 * ERR_SYSTEM: again later, as turn->retry_after_ms and turn->why say. */
int otlp_send(struct otlp_sender *sender, const ProtobufCMessage *message, size_t n_items,
              struct sink_turn *turn);

#endif

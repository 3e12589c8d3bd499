/* Names of providers: the one that an upstream has unless its configuration says one, and
 * the one that telemetry has for it. Pure. */
#ifndef CORE_CONFIG_PROVIDER_H
#define CORE_CONFIG_PROVIDER_H

#include "core/base/span.h"
#include "core/config/snapshot.h"

/* From the table of hosts; a host that is not in it is its own provider. The
 * result is a constant or `host` itself. */
const char *provider_of_host(const char *host);

/* An upstream's provider as metrics, spans and records name it: one of speech by its
 * adapter's `system` ("azure.speech"), any other as it is. */
struct span provider_in_telemetry(const struct snap_root *root, const struct snap_upstream *upstream);

#endif

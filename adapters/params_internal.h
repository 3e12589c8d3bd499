/* Reading of parameter tables; private to adapters, for its tests too. */
#ifndef ADAPTERS_PARAMS_INTERNAL_H
#define ADAPTERS_PARAMS_INTERNAL_H

#include "adapters/adapter.h"

enum { ADAPTER_COMMON_MODEL, ADAPTER_COMMON_VOICE, ADAPTER_COMMON_COUNT };

/* Reads the members of an object (empty: none) that `right` may set into `values`
 * (by the adapter's table) and `commons` (ADAPTER_COMMON_COUNT); either may be
 * NULL. What stands there already stays where no member replaces it. An operator's
 * unknown member is a fault; a caller's is one if any provider's callers may set
 * it. So is a member that is the other's to set; a caller's null is as good as
 * nothing. The number of faults, each told to on_fault with a clause: "expected …". */
size_t adapter_params_read(const struct adapter *adapter, struct span object, enum param_right right,
                           struct arena *arena, struct adapter_value *values, struct adapter_value *commons,
                           void (*on_fault)(void *ctx, struct span member, const char *message), void *ctx);

/* Whether some provider's callers may set a parameter of this name. */
bool adapter_any_takes(struct span name);

#endif

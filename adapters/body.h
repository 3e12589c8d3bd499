/* The body of an exchange that an adapter writes itself. */
#ifndef ADAPTERS_BODY_H
#define ADAPTERS_BODY_H

#include "adapters/adapter.h"
#include "core/base/buf.h"

enum { BODY_BYTES = 1024 * 1024 }; /* no input that the dialect lets through makes a larger one */

/* Starts a text. */
void body_begin(struct buf *text);

/* Ends it: it becomes the exchange's body, in the call's memory. */
void body_end(struct buf *text, struct adapter_call *call, struct adapter_exchange *out);

#endif

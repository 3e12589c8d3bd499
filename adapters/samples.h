/* Audio that comes as bare 16-bit samples of one channel, for callers who may want WAV. */
#ifndef ADAPTERS_SAMPLES_H
#define ADAPTERS_SAMPLES_H

#include <stdint.h>

#include "adapters/adapter.h"

/* adapter_give; where WAV was asked for, a head that leaves the length open goes before the first of them. */
enum adapter_step samples_give(struct adapter_call *call, struct span samples, uint32_t rate_hz);

/* What samples of another rate than OpenAI's say they are, for call->type: a
 * constant, or NULL for that rate, 24 kHz, and for one that nobody offers. */
const char *samples_type(uint32_t rate_hz);

#endif

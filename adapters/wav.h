/* The head of a WAV file whose length is not known yet. */
#ifndef ADAPTERS_WAV_H
#define ADAPTERS_WAV_H

#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/span.h"

/* With this "fmt " chunk (its contents). The lengths are all ones, which readers
 * take for "to the end". */
void wav_write_head(struct buf *out, struct span format);

/* Of 16-bit samples, one channel. */
void wav_write_pcm16_head(struct buf *out, uint32_t rate_hz);

#endif

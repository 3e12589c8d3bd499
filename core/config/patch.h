/*
 * JSON Merge Patch (RFC 7396) on text: what the patch does not name stays as it
 * was written, to the blank.
 */
#ifndef CORE_CONFIG_PATCH_H
#define CORE_CONFIG_PATCH_H

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"

/*
 * Both are texts that document_check accepts. *out is of the arena, in one piece:
 * a patch may hold plaintext keys, and then so does the result, which is the
 * caller's to wipe; nothing else that this leaves behind holds a value of
 * the patch. ERR_LIMIT: the result has more than STORE_VALUE_LIMIT_BYTES.
 */
int config_patch(struct span target, struct span patch, struct arena *arena, struct span *out);

#endif

/*
 * Building a snapshot's image: texts and vectors are appended behind a root
 * that is filled in last. References are offsets, so the image may move while
 * it grows. One that grows beyond SNAPSHOT_LIMIT_BYTES says so in
 * bytes.overflowed; what was asked for then is absent.
 */
#ifndef CORE_CONFIG_IMAGE_H
#define CORE_CONFIG_IMAGE_H

#include <stddef.h>

#include "core/base/buf.h"
#include "core/base/span.h"
#include "core/config/snapshot.h"

struct image {
    struct buf bytes;
};

/* Begins with a zeroed root. Freed with image_free. */
void image_init(struct image *image);
void image_free(struct image *image);

/* A copy with a NUL behind it. */
struct snap_str image_text(struct image *image, struct span text);

/* A copy of `count` elements of `size` bytes. */
struct snap_vec image_vector(struct image *image, const void *items, size_t count, size_t size);

/* What stands there; valid until something is added. */
struct span image_span(const struct image *image, struct snap_str text);
void *image_at(const struct image *image, struct snap_vec vector);

#endif

#include "core/config/image.h"

enum { ALIGN = 8 };

void image_init(struct image *image)
{
    struct snap_root root = { .layout = SNAPSHOT_LAYOUT };
    buf_init(&image->bytes, SNAPSHOT_LIMIT_BYTES);
    buf_append(&image->bytes, &root, sizeof(root));
}

void image_free(struct image *image)
{
    buf_free(&image->bytes);
}

struct snap_str image_text(struct image *image, struct span text)
{
    struct snap_str at = { (uint32_t)image->bytes.len, (uint32_t)text.len };
    buf_append_span(&image->bytes, text);
    buf_append_char(&image->bytes, '\0');
    return image->bytes.overflowed ? (struct snap_str){ 0, 0 } : at;
}

struct snap_vec image_vector(struct image *image, const void *items, size_t count, size_t size)
{
    static const char zeros[ALIGN];
    if (count == 0)
        return (struct snap_vec){ 0, 0 };
    buf_append(&image->bytes, zeros, (ALIGN - image->bytes.len % ALIGN) % ALIGN);
    struct snap_vec at = { (uint32_t)image->bytes.len, (uint32_t)count };
    buf_append(&image->bytes, items, count * size);
    return image->bytes.overflowed ? (struct snap_vec){ 0, 0 } : at;
}

struct span image_span(const struct image *image, struct snap_str text)
{
    return text.offset == 0 ? span_of("", 0) : span_of(image->bytes.data + text.offset, text.len);
}

void *image_at(const struct image *image, struct snap_vec vector)
{
    return vector.offset == 0 ? NULL : image->bytes.data + vector.offset;
}

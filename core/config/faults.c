#include "core/config/faults.h"

#include <stdarg.h>
#include <stdio.h>

enum { NAME_SHOWN_BYTES = 200, MESSAGE_BYTES = 1024 };

size_t fault_path_push_name(struct buf *path, struct span name)
{
    size_t mark = path->len;
    bool is_cut = name.len > NAME_SHOWN_BYTES;
    if (is_cut) {
        name.len = NAME_SHOWN_BYTES;
        while (name.len > 0 && ((unsigned char)name.ptr[name.len] & 0xc0) == 0x80)
            name.len--; /* not inside a character */
    }
    buf_append_char(path, '/');
    for (size_t i = 0; i < name.len; i++) {
        if (name.ptr[i] == '~')
            buf_append_cstr(path, "~0");
        else if (name.ptr[i] == '/')
            buf_append_cstr(path, "~1");
        else
            buf_append_char(path, name.ptr[i]);
    }
    if (is_cut)
        buf_append_cstr(path, "…");
    return mark;
}

size_t fault_path_push_index(struct buf *path, size_t index)
{
    size_t mark = path->len;
    buf_printf(path, "/%zu", index);
    return mark;
}

void fault_path_pop(struct buf *path, size_t mark)
{
    path->len = mark;
}

void fault_add(struct entry_faults *faults, struct arena *arena, struct span path, const char *format, ...)
{
    char message[MESSAGE_BYTES];
    va_list args;
    if (faults->count == FAULTS_MAX) {
        faults->dropped++;
        return;
    }
    if (faults->items == NULL)
        faults->items = arena_array_of(arena, struct entry_fault, FAULTS_MAX);
    va_start(args, format);
    vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    faults->items[faults->count++] = (struct entry_fault){
        .path = arena_span(arena, path),
        .message = arena_strdup(arena, message),
    };
}

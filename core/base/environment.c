#include "core/base/environment.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"

enum { SECRET_FILE_LIMIT_BYTES = 4096 };

void environment_wipe(struct span secret)
{
    if (secret.len > 0)
        explicit_bzero((char *)(uintptr_t)secret.ptr, secret.len);
}

/* Moves a variable's value into the arena. */
static struct span take_variable(const char *name, struct arena *arena)
{
    char *value = getenv(name);
    if (value == NULL)
        return span_of(NULL, 0);
    size_t len = strlen(value);
    struct span copy = span_of(arena_span(arena, span_of(value, len)), len);
    explicit_bzero(value, len);
    unsetenv(name);
    return copy;
}

/* Without the blanks, and with a NUL where the ones behind it began. */
static struct span trim(struct span text)
{
    struct span trimmed = span_trim(text);
    if (trimmed.len > 0)
        ((char *)(uintptr_t)trimmed.ptr)[trimmed.len] = '\0';
    return trimmed;
}

int environment_take_secret(const char *name, struct arena *arena, struct span *out, struct error *e)
{
    const char *file_name = arena_printf(arena, "%s_FILE", name);
    struct span value = take_variable(name, arena);
    struct span path = take_variable(file_name, arena);
    if (value.len > 0 && path.len > 0) {
        environment_wipe(value);
        return error_set(e, ERR_FORMAT, "%s and %s are both set; one is expected", name, file_name);
    }
    if (path.len > 0) {
        if (file_read(path.ptr, SECRET_FILE_LIMIT_BYTES, arena, &value, e) != 0)
            return ERR_SYSTEM;
        if (span_trim(value).len == 0)
            return error_set(e, ERR_FORMAT, "the file of %s is empty", file_name);
    }
    *out = trim(value);
    return 0;
}

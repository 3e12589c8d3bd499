#include "admin/ctl/ctl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/file.h"

int ctl_fail(const struct invocation *call, enum ctl_exit status, const char *format, ...)
{
    va_list args;
    fprintf(stderr, "llm-routerctl %s: ", call->command);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return (int)status;
}

int ctl_print(const struct invocation *call, struct span text)
{
    if (fwrite(text.ptr, 1, text.len, stdout) != text.len || fflush(stdout) != 0)
        return ctl_fail(call, CTL_REFUSED, "cannot write to stdout: %s", strerror(errno));
    return CTL_OK;
}

int ctl_printf(const struct invocation *call, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vprintf(format, args);
    va_end(args);
    if (n < 0 || fflush(stdout) != 0)
        return ctl_fail(call, CTL_REFUSED, "cannot write to stdout: %s", strerror(errno));
    return CTL_OK;
}

void ctl_print_faults(const struct entry_faults *faults)
{
    for (size_t i = 0; i < faults->count; i++) {
        const char *path = faults->items[i].path;
        fprintf(stderr, "%s: %s\n", path[0] == '\0' ? "the document" : path, faults->items[i].message);
    }
    if (faults->dropped > 0)
        fprintf(stderr, "and %zu more\n", faults->dropped);
}

int ctl_entry(const struct invocation *call, enum entry_id *out)
{
    const char *name = call->options[OPTION_ENTRY];
    if (name == NULL)
        name = entry_name(ENTRY_LLM_ROUTER_CONFIG);
    if (entry_by_name(span_cstr(name), out) == 0)
        return CTL_OK;
    const char *known = entry_name(0);
    for (size_t i = 1; i < ENTRY_COUNT; i++)
        known = arena_printf(call->arena, "%s, %s", known, entry_name((enum entry_id)i));
    return ctl_fail(call, CTL_USAGE, "no such entry: %s (there are %s)", name, known);
}

const char *ctl_directory(const struct invocation *call, enum ctl_option option, const char *variable,
                          const char *fallback)
{
    const char *path = call->options[option];
    if (path == NULL)
        path = getenv(variable);
    return path == NULL || path[0] == '\0' ? fallback : path;
}

static int read_stdin(const struct invocation *call, size_t limit, struct span *out)
{
    /* Not grown piece by piece: what is read may hold keys, and copies would stay behind. */
    char *bytes = arena_alloc(call->arena, limit + 1);
    size_t have = 0;
    while (have <= limit) {
        ssize_t n = read(STDIN_FILENO, bytes + have, limit + 1 - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return ctl_fail(call, CTL_REFUSED, "cannot read stdin: %s", strerror(errno));
        if (n == 0)
            break;
        have += (size_t)n;
    }
    if (have > limit)
        return ctl_fail(call, CTL_REFUSED, "stdin has more than %zu bytes", limit);
    bytes[have] = '\0';
    *out = span_of(bytes, have);
    return CTL_OK;
}

int ctl_read(const struct invocation *call, const char *path, size_t limit, struct span *out)
{
    struct error e;
    if (path == NULL || strcmp(path, "-") == 0)
        return read_stdin(call, limit, out);
    if (file_read(path, limit, call->arena, out, &e) != 0)
        return ctl_fail(call, CTL_REFUSED, "%s", e.text);
    return CTL_OK;
}

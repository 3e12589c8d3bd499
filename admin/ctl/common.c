#include "admin/ctl/ctl.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/file.h"
#include "core/store/place.h"

static const char default_state_dir[] = "/var/lib/llm-router";

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
        return ctl_fail(call, CTL_REFUSED, "cannot write to stdout");
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

int ctl_open_store(const struct invocation *call, struct store **out)
{
    struct error e;
    struct store_place place = { .state_dir = call->options[OPTION_STATE_DIR] };
    int r = store_place_from_environment(&place, &e);
    if (r == 0 && place.state_dir != NULL)
        store_place_wipe(&place); /* a flag overrides the environment */
    else if (r == 0)
        place.state_dir = getenv("LLM_ROUTER_STATE_DIR");
    if (place.state_dir == NULL || place.state_dir[0] == '\0')
        place.state_dir = default_state_dir;
    if (r == 0)
        r = store_open(&place, out, &e);
    store_place_wipe(&place);
    return r == 0 ? CTL_OK : ctl_fail(call, CTL_REFUSED, "%s", e.text);
}

static int read_stdin(const struct invocation *call, size_t limit, struct span *out)
{
    struct buf bytes;
    int status = CTL_OK;
    char *part = arena_alloc(call->arena, BUFSIZ);
    buf_init(&bytes, limit);
    for (;;) {
        ssize_t n = read(STDIN_FILENO, part, BUFSIZ);
        if (n < 0)
            status = ctl_fail(call, CTL_REFUSED, "cannot read stdin");
        else if (n > 0 && buf_append(&bytes, part, (size_t)n) != 0)
            status = ctl_fail(call, CTL_REFUSED, "stdin has more than %zu bytes", limit);
        if (n <= 0 || status != CTL_OK)
            break;
    }
    if (status == CTL_OK)
        *out = span_of(arena_span(call->arena, buf_span(&bytes)), bytes.len);
    buf_free(&bytes);
    return status;
}

int ctl_read(const struct invocation *call, const char *path, size_t limit, struct span *out)
{
    struct error e;
    if (strcmp(path, "-") == 0)
        return read_stdin(call, limit, out);
    if (file_read(path, limit, call->arena, out, &e) != 0)
        return ctl_fail(call, CTL_REFUSED, "%s", e.text);
    return CTL_OK;
}

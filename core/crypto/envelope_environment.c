#include "core/crypto/envelope.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/file.h"

enum { KEY_FILE_LIMIT_BYTES = 4096 };

static const struct source {
    const char *variable, *file_variable;
} current_source = { "LLM_ROUTER_MASTER_KEY", "LLM_ROUTER_MASTER_KEY_FILE" },
  previous_source = { "LLM_ROUTER_MASTER_KEY_PREVIOUS", "LLM_ROUTER_MASTER_KEY_PREVIOUS_FILE" };

/* Moves a variable's value into the arena. The process's environment is
 * readable in /proc for as long as it runs, also what was only unset. */
static struct span take_variable(const char *name, struct arena *arena)
{
    char *value = getenv(name);
    if (value == NULL)
        return span_of(NULL, 0);
    size_t len = strlen(value);
    struct span copy = span_of(arena_span(arena, span_of(value, len)), len);
    OPENSSL_cleanse(value, len);
    unsetenv(name);
    return copy;
}

static void wipe(struct span text)
{
    if (text.len > 0)
        OPENSSL_cleanse((char *)text.ptr, text.len);
}

/* The master key's text, or the empty span if neither form is set. An empty
 * variable counts as not set: process managers pass such for what is missing. */
static int take_source(const struct source *source, struct arena *arena, struct span *out, struct error *e)
{
    struct span value = take_variable(source->variable, arena);
    struct span path = take_variable(source->file_variable, arena);
    if (value.len > 0 && path.len > 0) {
        wipe(value);
        return error_set(e, ERR_FORMAT, "%s and %s are both set; one is expected", source->variable,
                         source->file_variable);
    }
    *out = value;
    if (path.len == 0)
        return 0;
    if (file_read(path.ptr, KEY_FILE_LIMIT_BYTES, arena, out, e) != 0)
        return ERR_SYSTEM;
    if (span_trim(*out).len == 0)
        return error_set(e, ERR_FORMAT, "the file of %s is empty", source->file_variable);
    return 0;
}

int envelope_keys_from_environment(struct envelope_keys *out, struct error *e)
{
    struct arena *arena = arena_new();
    struct span current = { NULL, 0 }, previous = { NULL, 0 };
    struct error first = { 0 };

    /* Both are taken, whatever happens: nothing may stay in the environment. */
    int r = take_source(&current_source, arena, &current, &first);
    int s = take_source(&previous_source, arena, &previous, r == 0 ? &first : NULL);
    if (r == 0)
        r = s;
    if (r != 0)
        error_set(e, r, "%s", first.text);
    else if (current.len == 0 && previous.len > 0)
        r = error_set(e, ERR_FORMAT, "%s is set without %s", previous_source.variable,
                      current_source.variable);
    else if (current.len == 0)
        r = error_set(e, ERR_NOT_FOUND, "neither %s nor %s is set", current_source.variable,
                      current_source.file_variable);
    else
        r = envelope_keys_derive(out, span_trim(current), span_trim(previous), e);
    wipe(current);
    wipe(previous);
    arena_free(arena);
    return r;
}

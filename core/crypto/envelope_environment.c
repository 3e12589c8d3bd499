#include "core/crypto/envelope.h"

#include "core/base/environment.h"

static const char current_name[] = "LLM_ROUTER_MASTER_KEY",
                  previous_name[] = "LLM_ROUTER_MASTER_KEY_PREVIOUS";

int envelope_keys_from_environment(struct envelope_keys *out, struct error *e)
{
    struct arena *arena = arena_new();
    struct span current = { NULL, 0 }, previous = { NULL, 0 };
    struct error first = { 0 };

    /* Both are taken, whatever happens: nothing may stay in the environment. */
    int r = environment_take_secret(current_name, arena, &current, &first);
    int s = environment_take_secret(previous_name, arena, &previous, r == 0 ? &first : NULL);
    if (r == 0)
        r = s;
    if (r != 0)
        error_set(e, r, "%s", first.text);
    else if (current.len == 0 && previous.len > 0)
        r = error_set(e, ERR_FORMAT, "%s is set without %s", previous_name, current_name);
    else if (current.len == 0)
        r = error_set(e, ERR_NOT_FOUND, "neither %s nor %s_FILE is set", current_name, current_name);
    else
        r = envelope_keys_derive(out, current, previous, e);
    environment_wipe(current);
    environment_wipe(previous);
    arena_free(arena);
    return r;
}

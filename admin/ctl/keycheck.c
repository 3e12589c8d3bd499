#include "admin/ctl/keycheck.h"

#include <stdio.h>

#include "core/config/admit.h"
#include "core/config/document.h"
#include "core/config/keyplaces.h"

struct keycheck {
    const struct envelope_keys *keys;
    struct envelope_keys current_only;
    struct arena *arena;
    struct key_tally tally;
};

/* NULL, or why the ciphertext at a place is of no use. */
static const char *problem_of(struct keycheck *check, struct span text, struct span aad)
{
    struct secret secret;
    struct error e;
    if (envelope_decrypt(&check->current_only, text, aad, &secret, NULL) != 0) {
        if (envelope_decrypt(check->keys, text, aad, &secret, &e) != 0)
            return arena_strdup(check->arena, e.text);
        check->tally.previous++;
    }
    const char *problem = config_key_problem(span_of(secret.bytes, secret.len));
    secret_wipe(&secret);
    return problem;
}

static int check_place(void *ctx, const struct key_place *place)
{
    struct keycheck *check = ctx;
    const struct json_value *ciphertext = &place->members[MEMBER_CIPHERTEXT];
    const char *problem = "it is no text";
    struct span aad = key_place_aad(place, check->arena);

    if (ciphertext->kind == JSON_KIND_ABSENT && place->members[MEMBER_CREDENTIAL].kind != JSON_KIND_ABSENT)
        return 0;
    check->tally.keys++;
    if (ciphertext->kind == JSON_KIND_ABSENT)
        problem = "there is no ciphertext";
    else if (ciphertext->kind == JSON_KIND_STRING)
        problem = problem_of(check, json_decode(check->arena, ciphertext->raw), aad);
    if (problem != NULL) {
        fprintf(stderr, "%.*s (%s): %s\n", (int)aad.len, aad.ptr, place->path, problem);
        check->tally.broken++;
    }
    return 0;
}

int keycheck_run(struct span raw, const struct envelope_keys *keys, struct arena *arena,
                 struct key_tally *out)
{
    struct keycheck check = { .keys = keys, .current_only = *keys, .arena = arena };
    struct entry_faults faults = { 0 };

    check.current_only.has_previous = false;
    int r = document_check(raw, arena, &faults);
    if (r == 0)
        r = key_places_walk(raw, arena, check_place, &check);
    envelope_keys_wipe(&check.current_only);
    if (r != 0) {
        ctl_print_faults(&faults);
        return ERR_FORMAT;
    }
    *out = check.tally;
    return 0;
}

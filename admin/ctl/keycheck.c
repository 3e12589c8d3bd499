#include "admin/ctl/keycheck.h"

#include <stdio.h>
#include <string.h>

#include "core/config/admit.h"
#include "core/config/document.h"
#include "core/config/keyplaces.h"
#include "core/packs/tag_key.h"

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

static int check_tree(const struct invocation *call, struct session *session, struct keycheck *check,
                      char version[STORE_VERSION_BYTES])
{
    struct entry_faults faults = { 0 };
    struct store_value tree;

    int status = session_get(call, session, ENTRY_LLM_ROUTER_CONFIG, &tree);
    if (status != CTL_OK)
        return status;
    int r = document_check(tree.raw, call->arena, &faults);
    if (r == 0)
        r = key_places_walk(tree.raw, call->arena, check_place, check);
    if (r != 0) {
        ctl_print_faults(&faults);
        return ctl_fail(call, CTL_REFUSED, "version %s is not a valid document", tree.version);
    }
    memcpy(version, tree.version, STORE_VERSION_BYTES);
    return CTL_OK;
}

static int check_tag_key(const struct invocation *call, struct session *session, struct keycheck *check)
{
    static const struct json_want want = { "ciphertext", false };
    const char *name = entry_name(ENTRY_VOICE_PACK_TAG_KEY);
    struct json_value found = { .kind = JSON_KIND_ABSENT };
    struct store_value value;
    struct secret secret;
    struct error e;

    int r = store_get(session->store, name, call->arena, &value, &e);
    if (r != 0)
        return r == ERR_NOT_FOUND ? CTL_OK : ctl_fail(call, CTL_REFUSED, "%s", e.text);
    check->tally.keys++;
    (void)json_find(value.raw, &want, 1, 0, &found, NULL);
    struct span text = found.kind == JSON_KIND_STRING ? json_decode(call->arena, found.raw) : span_of("", 0);
    if (tag_key_open(&check->current_only, text, &secret, NULL) != 0) {
        if (tag_key_open(check->keys, text, &secret, &e) == 0) {
            check->tally.previous++;
        } else {
            fprintf(stderr, "%s: %s\n", name, e.text);
            check->tally.broken++;
        }
    }
    secret_wipe(&secret);
    return CTL_OK;
}

int keycheck_run(const struct invocation *call, struct session *session, char version[STORE_VERSION_BYTES],
                 struct key_tally *out)
{
    struct keycheck check = { .keys = &session->keys, .current_only = session->keys, .arena = call->arena };

    check.current_only.has_previous = false;
    int status = check_tree(call, session, &check, version);
    if (status == CTL_OK)
        status = check_tag_key(call, session, &check);
    envelope_keys_wipe(&check.current_only);
    if (status == CTL_OK)
        *out = check.tally;
    return status;
}

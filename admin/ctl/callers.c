/* caller-key add, list and revoke. */
#include "admin/ctl/ctl.h"

#include <json-c/json.h>
#include <openssl/crypto.h>
#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/crypto/digest.h"

enum {
    CALLER_KEY_RANDOM_BYTES = 32,
    CALLER_KEY_TEXT_BYTES = 64, /* "lr-", 43 digits, a NUL */
    PUT_TRIES = 10,             /* each lost one means that somebody else's change went through */
};

/* The document in force, or an empty one; *version is NULL without a document. */
static int load(const struct invocation *call, struct store *store, json_object **out, const char **version)
{
    struct store_value value;
    struct entry_faults faults = { 0 };
    struct error e;
    const char *name = entry_name(ENTRY_CALLER_KEYS);
    int r = store_get(store, name, call->arena, &value, &e);
    if (r == ERR_NOT_FOUND) {
        *version = NULL;
        *out = json_object_new_object();
        json_object_object_add(*out, "keys", json_object_new_array());
        return CTL_OK;
    }
    if (r != 0)
        return ctl_fail(call, CTL_REFUSED, "%s", e.text);
    if (entry_check(ENTRY_CALLER_KEYS, value.raw, call->arena, &faults) != 0) {
        ctl_print_faults(&faults);
        return ctl_fail(call, CTL_REFUSED, "%s is not valid as it is; nothing was changed", name);
    }
    *version = arena_strdup(call->arena, value.version);
    *out = json_tokener_parse(value.raw.ptr);
    return CTL_OK;
}

/* One change of the document: CTL_OK, or a status after a message. */
typedef int change_function(const struct invocation *call, json_object *keys, const void *ctx);

static int store_changed(const struct invocation *call, struct store *store, json_object *document,
                         const char *expected, bool *is_lost)
{
    struct store_outcome outcome;
    struct entry_faults faults = { 0 };
    struct error e;
    struct span raw = span_cstr(
        json_object_to_json_string_ext(document, JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE));
    if (entry_check(ENTRY_CALLER_KEYS, raw, call->arena, &faults) != 0) {
        ctl_print_faults(&faults);
        return ctl_fail(call, CTL_REFUSED, "refused; nothing was changed");
    }
    const struct store_change change = {
        .key = entry_name(ENTRY_CALLER_KEYS),
        .raw = raw,
        .expected = expected,
        .audit = { .actor = "llm-routerctl",
                   .action = call->command,
                   .object = entry_name(ENTRY_CALLER_KEYS) },
    };
    int r = store_put(store, &change, &outcome, &e);
    *is_lost = r == ERR_CONFLICT;
    if (r != 0 && r != ERR_CONFLICT)
        return ctl_fail(call, CTL_REFUSED, "%s", e.text);
    return CTL_OK;
}

/* Applies a change to the document in force, again if somebody was faster. */
static int change(const struct invocation *call, change_function *apply, const void *ctx)
{
    struct store *store = NULL;
    bool is_lost = true;
    int status = ctl_open_store(call, &store);
    for (int tries = 0; status == CTL_OK && is_lost; tries++) {
        json_object *document = NULL, *keys = NULL;
        const char *version = NULL;
        if (tries == PUT_TRIES) {
            status = ctl_fail(call, CTL_REFUSED, "others keep changing the keys; try again");
            break;
        }
        status = load(call, store, &document, &version);
        if (status == CTL_OK) {
            json_object_object_get_ex(document, "keys", &keys);
            status = apply(call, keys, ctx);
        }
        if (status == CTL_OK)
            status = store_changed(call, store, document, version, &is_lost);
        json_object_put(document);
    }
    store_close(store);
    return status;
}

static const char *text_member(json_object *key, const char *name)
{
    json_object *value = NULL;
    return json_object_object_get_ex(key, name, &value) ? json_object_get_string(value) : NULL;
}

/* The key with this id, or the number of keys. */
static size_t find_key(json_object *keys, const char *id)
{
    size_t n = json_object_array_length(keys);
    for (size_t i = 0; i < n; i++)
        if (strcmp(text_member(json_object_array_get_idx(keys, i), "id"), id) == 0)
            return i;
    return n;
}

/* "a,b" as a list. */
static json_object *list_of(const struct invocation *call, const char *text)
{
    json_object *list = json_object_new_array();
    char *copy = arena_strdup(call->arena, text), *rest = copy;
    for (char *name = strsep(&rest, ","); name != NULL; name = strsep(&rest, ","))
        json_object_array_add(list, json_object_new_string(name));
    return list;
}

static int add_key(const struct invocation *call, json_object *keys, const void *sha256_text)
{
    char now[CLOCK_TEXT_BYTES];
    const char *id = call->options[OPTION_ID];
    if (find_key(keys, id) < json_object_array_length(keys))
        return ctl_fail(call, CTL_REFUSED, "there is a key with the id \"%s\" already", id);
    clock_text(clock_wall_us(), now);
    json_object *key = json_object_new_object();
    json_object_object_add(key, "id", json_object_new_string(id));
    json_object_object_add(key, "sha256", json_object_new_string(sha256_text));
    if (call->options[OPTION_OWNER] != NULL)
        json_object_object_add(key, "owner", json_object_new_string(call->options[OPTION_OWNER]));
    if (call->options[OPTION_MODELS] != NULL)
        json_object_object_add(key, "models", list_of(call, call->options[OPTION_MODELS]));
    json_object_object_add(key, "createdAt", json_object_new_string(now));
    json_object_array_add(keys, key);
    return CTL_OK;
}

int ctl_caller_key_add(const struct invocation *call)
{
    unsigned char bytes[CALLER_KEY_RANDOM_BYTES];
    char text[CALLER_KEY_TEXT_BYTES] = "lr-", digest[SHA256_HEX_BYTES];
    ids_random(bytes, sizeof(bytes));
    base64url_encode(span_of((const char *)bytes, sizeof(bytes)), text + 3);
    sha256_hex(span_cstr(text), digest);
    int status = change(call, add_key, digest);
    if (status == CTL_OK) {
        size_t len = strlen(text);
        text[len] = '\n';
        status = ctl_print(call, span_of(text, len + 1));
    }
    OPENSSL_cleanse(bytes, sizeof(bytes));
    OPENSSL_cleanse(text, sizeof(text));
    return status;
}

static int revoke_key(const struct invocation *call, json_object *keys, const void *id)
{
    size_t i = find_key(keys, id);
    if (i == json_object_array_length(keys))
        return ctl_fail(call, CTL_REFUSED, "there is no key with the id \"%s\"", (const char *)id);
    json_object_array_del_idx(keys, i, 1);
    return CTL_OK;
}

int ctl_caller_key_revoke(const struct invocation *call)
{
    return change(call, revoke_key, call->argument);
}

/* ID, owner, models and time, by tabs; "-" where there is none, "*" for all models. */
int ctl_caller_key_list(const struct invocation *call)
{
    struct store *store = NULL;
    json_object *document = NULL, *keys = NULL;
    const char *version;
    int status = ctl_open_store(call, &store);
    if (status == CTL_OK)
        status = load(call, store, &document, &version);
    if (status == CTL_OK)
        json_object_object_get_ex(document, "keys", &keys);
    for (size_t i = 0; status == CTL_OK && i < json_object_array_length(keys); i++) {
        json_object *key = json_object_array_get_idx(keys, i), *models = NULL;
        const char *owner = text_member(key, "owner"), *created = text_member(key, "createdAt");
        const char *names = "*";
        if (json_object_object_get_ex(key, "models", &models))
            names = json_object_array_length(models) == 0 ? "-" : NULL;
        for (size_t j = 0; models != NULL && j < json_object_array_length(models); j++) {
            const char *name = json_object_get_string(json_object_array_get_idx(models, j));
            names = names == NULL ? name : arena_printf(call->arena, "%s,%s", names, name);
        }
        status = ctl_print(call, span_cstr(arena_printf(call->arena, "%s\t%s\t%s\t%s\n",
                                                        text_member(key, "id"), owner == NULL ? "-" : owner,
                                                        names, created == NULL ? "-" : created)));
    }
    json_object_put(document);
    store_close(store);
    return status;
}

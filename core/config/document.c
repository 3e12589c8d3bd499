#include "core/config/document.h"

#include "core/config/faults.h"
#include "core/json/scan.h"
#include "core/store/store.h"

static const struct span whole_document = { "", 0 };

/* The offset of an escaped NUL, or raw.len. In JSON a backslash stands in
 * strings only. json-c would cut a name there, and C strings a value. */
static size_t find_escaped_nul(struct span raw)
{
    for (size_t i = 0; i + 1 < raw.len; i++) {
        if (raw.ptr[i] != '\\')
            continue;
        if (raw.len - i >= 6 && memcmp(raw.ptr + i, "\\u0000", 6) == 0)
            return i;
        i++; /* the escaped character, which may be a backslash */
    }
    return raw.len;
}

int document_check(struct span raw, struct arena *arena, struct entry_faults *faults)
{
    struct json_fault fault = { 0, "" };
    if (raw.len > STORE_VALUE_LIMIT_BYTES) {
        fault_add(faults, arena, whole_document, "found %zu bytes, at most %d are allowed", raw.len,
                  STORE_VALUE_LIMIT_BYTES);
        return ERR_FORMAT;
    }
    if (json_scan(raw, NULL, 0, JSON_SCAN_UNIQUE, NULL, NULL, &fault) != 0) {
        fault_add(faults, arena, whole_document, "not valid JSON: %s at byte %zu", fault.what, fault.offset);
        return ERR_FORMAT;
    }
    size_t nul = find_escaped_nul(raw);
    if (nul < raw.len) {
        fault_add(faults, arena, whole_document, "a text holds an escaped NUL at byte %zu", nul);
        return ERR_FORMAT;
    }
    return 0;
}

static void put_tree(void *tree)
{
    json_object_put(tree);
}

json_object *document_parse(struct span raw, struct arena *arena, struct entry_faults *faults)
{
    if (document_check(raw, arena, faults) != 0)
        return NULL;
    struct json_tokener *tokener = json_tokener_new_ex(JSON_DEPTH_MAX + 1);
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    /* A bare number is known to end only by what follows it. */
    json_object *tree = json_tokener_parse_ex(tokener, raw.ptr, (int)raw.len);
    if (json_tokener_get_error(tokener) == json_tokener_continue)
        tree = json_tokener_parse_ex(tokener, "", 1);
    enum json_tokener_error why = json_tokener_get_error(tokener);
    json_tokener_free(tokener);
    if (why != json_tokener_success)
        fault_add(faults, arena, whole_document, "cannot be read: %s", json_tokener_error_desc(why));
    else if (tree == NULL)
        fault_add(faults, arena, whole_document, "found null");
    else
        arena_on_reset(arena, put_tree, tree);
    return why == json_tokener_success ? tree : NULL;
}

/*
 * A document, a merge patch, and what differs afterwards: the result is a document,
 * a patch applied again changes nothing, and what is told of the difference is one line
 * of JSON.
 *
 * Input: the document up to a newline, the patch.
 */
#include "core/config/diff.h"
#include "core/config/document.h"
#include "core/config/patch.h"
#include "core/json/scan.h"
#include "tests/fuzz/fuzz.h"

static bool is_document(struct span text, struct arena *arena)
{
    struct entry_faults faults = { 0 };
    return document_check(text, arena, &faults) == 0;
}

static void check_difference(struct span before, struct span after, bool is_same, struct arena *arena)
{
    struct config_diff diff;

    config_diff(before, after, arena, &diff);
    fuzz_check(!is_same || diff.count == 0, "what is the same does not differ");
    for (size_t i = 0; i < diff.count; i++)
        fuzz_check(diff.items[i].before.ptr != NULL || diff.items[i].after.ptr != NULL,
                   "what differs stands in one of them");
    struct span line = config_diff_audit(&diff, arena);
    fuzz_check(line.len <= DIFF_AUDIT_BYTES, "the audit log is told no more than it has room for");
    fuzz_check(json_scan(line, NULL, 0, 0, NULL, NULL, NULL) == 0, "what it is told is JSON");
    fuzz_check(memchr(line.ptr, '\n', line.len) == NULL, "and one line");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    struct span target = fuzz_take_line(&in), patch = fuzz_rest(&in), out, again;
    struct arena *arena = arena_new();

    if (is_document(target, arena) && is_document(patch, arena)) {
        fuzz_check(config_patch(target, patch, arena, &out) == 0, "a small patch has room");
        fuzz_check(is_document(out, arena), "a patched document is one");
        fuzz_check(config_patch(out, patch, arena, &again) == 0 && span_eq(out, again),
                   "a patch applied again changes nothing");
        check_difference(target, out, false, arena);
        check_difference(out, again, true, arena);
        fuzz_check(config_patch(target, span_cstr("{}"), arena, &out) == 0 &&
                       (span_trim(target).ptr[0] != '{' || span_eq(out, span_trim(target))),
                   "an empty patch leaves an object as it was written");
    }
    arena_free(arena);
    return 0;
}

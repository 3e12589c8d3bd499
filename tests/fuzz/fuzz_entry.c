/*
 * Entries of the configuration: what is accepted compiles to a sound snapshot,
 * what is refused says why, and an administrator who sends back what was shown
 * changes nothing.
 *
 * Input: a byte for the entry (ENTRY_COUNT: LLM_ROUTER_CONFIG as an administrator
 * sends it), the document.
 */
#include "core/config/admit.h"
#include "core/config/entry.h"
#include "core/config/mask.h"
#include "core/json/scan.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/utf8.h"

enum { FAULTS_MAX_SHOWN = 100 };

/* Bytes 0 to 31; the ciphertext holds sk-test-1234567890 for gpt|k1. */
static const char master[] = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
static const char current[] =
    "{\"llm\":{\"models\":{\"gpt\":{\"upstreams\":[{\"baseURL\":\"https://h/v1\",\"keys\":[{\"id\":\"k1\","
    "\"ciphertext\":\"v1.AAECAwQFBgcICQoL.JkoRwjFClio6RY28mZ-qW5fH.BgmvtD1A9OaTYlE6pTNzzw\"}]}]}}}}";

static const struct envelope_keys *fuzz_keys(void)
{
    static struct envelope_keys keys;
    static bool is_derived;
    if (!is_derived)
        fuzz_check(envelope_keys_derive(&keys, span_cstr(master), span_of("", 0), NULL) == 0,
                   "keys are derived");
    is_derived = true;
    return &keys;
}

static void check_faults(int r, const struct entry_faults *faults)
{
    fuzz_check(r == 0 || r == ERR_FORMAT, "a document is accepted, or refused for its form");
    fuzz_check((r == 0) == (faults->count == 0), "a refusal has a fault, and only a refusal");
    fuzz_check(faults->count <= FAULTS_MAX_SHOWN &&
                   (faults->dropped == 0 || faults->count == FAULTS_MAX_SHOWN),
               "faults are dropped from the hundredth on");
    for (size_t i = 0; i < faults->count; i++) {
        const struct entry_fault *fault = &faults->items[i];
        fuzz_check(fault->path[0] == '\0' || fault->path[0] == '/', "a fault's path is a JSON pointer");
        fuzz_check(fault->message[0] != '\0', "a fault has a message");
        fuzz_check(is_utf8(span_cstr(fault->path)) && is_utf8(span_cstr(fault->message)),
                   "a fault can be shown");
    }
}

static void check_compiled(enum entry_id id, struct span document, bool is_valid, struct arena *arena)
{
    struct entry_value values[ENTRY_COUNT] = { { .version = NULL } };
    struct entry_faults faults = { 0 };
    enum entry_id which = ENTRY_COUNT;
    size_t undecryptable;
    struct span image;
    struct error e;

    values[id] = (struct entry_value){ document, "version" };
    int r = entry_compile(values, 1, fuzz_keys(), arena, &image, &undecryptable, &which, &faults);
    fuzz_check((r == 0) == is_valid, "what is valid compiles, and nothing else");
    fuzz_check(r == 0 || which == id, "the entry that is at fault is named");
    check_faults(r, &faults);
    if (r == 0)
        fuzz_check(snapshot_check(image, &e) == 0, "a compiled snapshot is sound");
}

static void check_entry(enum entry_id id, struct span document, struct arena *arena)
{
    struct entry_faults faults = { 0 };
    int r = entry_check(id, document, arena, &faults);
    check_faults(r, &faults);
    check_compiled(id, document, r == 0, arena);
}

static void check_admitted(struct span document, struct arena *arena)
{
    struct entry_faults faults = { 0 };
    struct span shown, again, shown_again;
    struct error e;

    check_entry(ENTRY_LLM_ROUTER_CONFIG, document, arena);
    fuzz_check(config_mask(document, fuzz_keys(), arena, &shown, &e) == 0, "what is stored can be shown");
    fuzz_check(memmem(shown.ptr, shown.len, "\"ciphertext\"", 12) == NULL ||
                   memmem(document.ptr, document.len, "\"ciphertext\"", 12) != NULL,
               "what is shown names no ciphertext of its own");
    int r = config_admit(shown, document, fuzz_keys(), arena, &again, &faults);
    fuzz_check(r == 0, "what was shown is accepted as it is");
    fuzz_check(config_mask(again, fuzz_keys(), arena, &shown_again, &e) == 0 && span_eq(shown, shown_again),
               "what was shown, sent back, is shown again");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    size_t choice = fuzz_take_choice(&in, ENTRY_COUNT + 1);
    /* Not NULL, which says that there is no value. */
    struct span document = in.left == 0 ? span_of("", 0) : fuzz_rest(&in);
    struct arena *arena = arena_new();
    struct entry_faults faults = { 0 };
    struct span admitted;

    if (choice < ENTRY_COUNT) {
        check_entry((enum entry_id)choice, document, arena);
    } else {
        int r = config_admit(document, span_cstr(current), fuzz_keys(), arena, &admitted, &faults);
        check_faults(r, &faults);
        if (r == 0)
            check_admitted(admitted, arena);
    }
    arena_free(arena);
    return 0;
}

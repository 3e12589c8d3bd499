/*
 * A voice pack's snapshot, as a caller sends it: what is believed says what was signed, and
 * is believed again when it is written anew; nothing that is changed is believed.
 *
 * Input: a byte, of which the lowest bit says whether the rest is a snapshot as it came (0), or
 * texts that one is made of, NUL between them (1), of which then one byte is changed: its place and
 * what is added to it are the next two bytes.
 */
#include "core/base/buf.h"
#include "core/json/scan.h"
#include "core/packs/voice_pack.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/utf8.h"

static const struct span key = { "0123456789abcdef0123456789abcdef", 32 };

static struct span written(const struct voice_pack_snapshot *snapshot, struct arena *arena)
{
    struct json_writer w;
    struct buf text;
    buf_init(&text, 1024 * 1024);
    jw_init(&w, &text);
    voice_pack_write_snapshot(snapshot, key, &w);
    struct span out = span_of(arena_span(arena, buf_span(&text)), text.len);
    buf_free(&text);
    return out;
}

static bool is_same(const struct voice_pack_snapshot *a, const struct voice_pack_snapshot *b)
{
    for (size_t i = 0; i < VOICE_PACK_PARAMS; i++)
        if (a->params[i].is_set != b->params[i].is_set ||
            (a->params[i].is_set && a->params[i].value != b->params[i].value))
            return false;
    return span_eq(a->pack_id, b->pack_id) && span_eq(a->name, b->name) &&
           span_eq(a->provider, b->provider) && span_eq(a->model, b->model) &&
           span_eq(a->voice_id, b->voice_id) && span_eq(a->tier, b->tier) &&
           span_eq(a->tts_model_id, b->tts_model_id);
}

/* As the reader of requests hands it over: an object that the scanner has accepted. */
static int read_snapshot(struct span json, struct arena *arena, struct voice_pack_snapshot *out)
{
    struct voice_pack_fault fault = { NULL, NULL };
    if (json_scan(json, NULL, 0, 0, NULL, NULL, NULL) != 0)
        return ERR_FORMAT;
    int r = voice_pack_read_snapshot(span_trim(json), key, arena, out, &fault);
    fuzz_check(r == 0 || r == ERR_FORMAT || r == ERR_CRYPTO, "a snapshot is believed, or refused");
    fuzz_check((r == 0) == (fault.message == NULL), "a refusal says why, and only a refusal");
    fuzz_check(r == 0 || (is_utf8(span_cstr(fault.param)) && is_utf8(span_cstr(fault.message))),
               "a refusal can be shown");
    return r;
}

static void check_as_it_came(struct span json, struct arena *arena)
{
    struct voice_pack_snapshot snapshot, again;
    if (read_snapshot(json, arena, &snapshot) != 0)
        return;
    fuzz_check(read_snapshot(written(&snapshot, arena), arena, &again) == 0 && is_same(&snapshot, &again),
               "what is believed is believed again");
}

static struct span take_text(struct span *rest)
{
    const char *end = rest->len == 0 ? NULL : memchr(rest->ptr, '\0', rest->len);
    struct span text = span_of(rest->ptr, end == NULL ? rest->len : (size_t)(end - rest->ptr));
    *rest = end == NULL ? span_of("", 0) : span_of(end + 1, rest->len - text.len - 1);
    return text.len == 0 || text.len > 200 || !is_utf8(text) ? span_cstr("x") : text;
}

static void check_made(size_t place, size_t added, struct span rest, struct arena *arena)
{
    struct voice_pack_snapshot snapshot = { .pack_id = { NULL, 0 } }, again;
    struct span *const texts[] = { &snapshot.pack_id,  &snapshot.name, &snapshot.provider,    &snapshot.model,
                                   &snapshot.voice_id, &snapshot.tier, &snapshot.tts_model_id };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        *texts[i] = take_text(&rest);
    snapshot.params[place % VOICE_PACK_PARAMS] = (struct voice_pack_number){ (double)added / 7, true };
    struct span json = written(&snapshot, arena);
    fuzz_check(read_snapshot(json, arena, &again) == 0 && is_same(&snapshot, &again),
               "what was written is believed");
    char *changed = arena_span(arena, json);
    changed[place * json.len / 256] = (char)(changed[place * json.len / 256] + (char)added);
    fuzz_check(read_snapshot(span_of(changed, json.len), arena, &again) != 0 || is_same(&snapshot, &again),
               "what says something else is not believed");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    struct arena *arena = arena_new();

    if (fuzz_take_choice(&in, 2) == 0) {
        check_as_it_came(fuzz_rest(&in), arena);
    } else {
        size_t place = fuzz_take_choice(&in, 256), added = fuzz_take_choice(&in, 256);
        check_made(place, added, fuzz_rest(&in), arena);
    }
    arena_free(arena);
    return 0;
}

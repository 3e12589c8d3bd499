/*
 * A caller's request for speech: what is read of it, and what an upstream of the
 * same protocol gets.
 *
 * Input: a byte for the model and the voice that are put in, the body.
 */
#include "core/base/buf.h"
#include "core/dialect/speech.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/utf8.h"

static const char *const models[] = { "m", "", "a\"\\\n", "\xc3\xa4" };
static const char *const voices[] = { "", "v", "\"}" };

static struct span text_of(const struct splice *splice, struct arena *arena)
{
    struct splice_cursor cursor = { 0, 0 };
    size_t size = splice_size(splice);
    char *text = arena_alloc(arena, size);
    fuzz_check(splice_read(splice, &cursor, text, size) == size, "a splice is as long as it says");
    return span_of(text, size);
}

static void check_facts(const struct request_facts *facts)
{
    const struct speech_facts *s = facts->speech;
    const struct span texts[] = { s->input, s->voice, s->format, s->instructions, facts->model };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        fuzz_check(is_utf8(texts[i]), "what is read of a request is UTF-8");
    fuzz_check(s->input_characters >= 1 && s->input_characters <= SPEECH_INPUT_CHARACTERS,
               "a text has 1 to 4096 characters");
    fuzz_check(s->input.len >= s->input_characters, "a character has a byte");
    fuzz_check(s->voice.len <= SPEECH_VOICE_BYTES && s->format.len <= SPEECH_FORMAT_BYTES, "names are short");
    fuzz_check(s->speed >= SPEECH_SPEED_MIN && s->speed <= SPEECH_SPEED_MAX, "the speed is within its range");
}

/* What the upstream gets says the same, and nothing to us. */
static void check_splice(const struct request_facts *facts, struct span model, struct span voice,
                         struct arena *arena)
{
    const struct speech_facts *s = facts->speech;
    struct request_facts again = { 0 };
    struct request_fault fault;
    struct splice splice;

    fuzz_check(speech_splice_request(s, model, voice, arena, &splice) == 0, "there is room for our edits");
    struct span body = text_of(&splice, arena);
    fuzz_check(speech_read_request(body, span_cstr(dialect_speech.media_type), arena, &again, &fault) == 0,
               "what is passed on can be read");
    fuzz_check(span_eq(again.model, model), "the model is the upstream's");
    fuzz_check(span_eq(again.speech->input, s->input) && again.speech->speed == s->speed &&
                   span_eq(again.speech->instructions, s->instructions) &&
                   span_eq(again.speech->format, s->format),
               "what a caller says is passed on");
    fuzz_check(again.speech->extra_body_value.kind == JSON_KIND_ABSENT,
               "what is said to us is not passed on");
    fuzz_check(span_eq(again.speech->voice, s->voice.len > 0 ? s->voice : voice),
               "a default fills a gap and replaces nothing");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    size_t choice = fuzz_take_choice(&in, 12);
    struct arena *arena = arena_new();
    struct request_facts facts = { 0 };
    struct request_fault fault = { 0 };

    if (speech_read_request(fuzz_rest(&in), span_cstr(dialect_speech.media_type), arena, &facts, &fault) ==
        0) {
        check_facts(&facts);
        check_splice(&facts, span_cstr(models[choice % 4]), span_cstr(voices[choice / 4]), arena);
    } else {
        fuzz_check(fault.message != NULL && facts.speech == NULL, "a refusal says why, and nothing else");
    }
    arena_free(arena);
    return 0;
}

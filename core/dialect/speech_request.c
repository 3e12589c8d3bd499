/* Requests of the speech dialect: OpenAI's POST /audio/speech. */
#include "core/dialect/speech.h"

#include "core/base/err.h"
#include "core/dialect/body_internal.h"

enum {
    WANT_BODY,
    WANT_MODEL,
    WANT_INPUT,
    WANT_VOICE,
    WANT_VOICE_ID,
    WANT_VOICE_MEMBER,
    WANT_FORMAT,
    WANT_SPEED,
    WANT_INSTRUCTIONS,
    WANT_STREAM_FORMAT,
    WANT_EXTRA_BODY,
    WANT_EXTRA_PACK,
    WANT_VOICE_PACK,
    WANT_MEMBER,
    N_WANTS,
};

static const struct json_want wants[N_WANTS] = {
    [WANT_BODY] = { "", false },
    [WANT_MODEL] = { "model", true },
    [WANT_INPUT] = { "input", true },
    [WANT_VOICE] = { "voice", true },
    [WANT_VOICE_ID] = { "voice.id", true },
    [WANT_VOICE_MEMBER] = { "voice.*", false },
    [WANT_FORMAT] = { "response_format", true },
    [WANT_SPEED] = { "speed", true },
    [WANT_INSTRUCTIONS] = { "instructions", true },
    [WANT_STREAM_FORMAT] = { "stream_format", true },
    [WANT_EXTRA_BODY] = { "extra_body", true },
    [WANT_EXTRA_PACK] = { "extra_body.voice_pack", false },
    [WANT_VOICE_PACK] = { "voice_pack", true },
    [WANT_MEMBER] = { "*", false },
};

struct reading {
    struct json_value found[N_WANTS];
    size_t voice_members;
    struct arena *arena;
    bool has_rival;
    size_t rival_offset;
};

static int on_value(void *ctx, const struct json_value *value)
{
    struct reading *reading = ctx;
    reading->found[value->path] = *value;
    reading->voice_members += value->path == WANT_VOICE_MEMBER;
    if (value->path == WANT_MEMBER && body_is_rival(value->key, reading->arena)) {
        reading->has_rival = true;
        reading->rival_offset = value->key_offset;
    }
    return 0;
}

/* What is read, member by member. */
struct request {
    const struct reading *reading;
    struct speech_facts *speech;
    struct request_facts *facts;
    struct request_fault *fault;
    struct arena *arena;
};

/* null is as good as nothing. */
static bool is_there(const struct json_value *value)
{
    return value->kind != JSON_KIND_ABSENT && value->kind != JSON_KIND_NULL;
}

/* The characters of what json_decode returned, which is well-formed UTF-8: all bytes
 * but those that continue one (10xxxxxx), which are counted eight at once. */
static size_t count_characters(struct span text)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    size_t i = 0, continuing = 0;
    for (; text.len - i >= 8; i += 8) {
        uint64_t x;
        memcpy(&x, text.ptr + i, 8);
        continuing += (((x >> 7) & ~(x >> 6) & ones) * ones) >> 56;
    }
    for (; i < text.len; i++)
        continuing += ((unsigned char)text.ptr[i] & 0xc0) == 0x80;
    return text.len - continuing;
}

/* The same in UTF-16, where those beyond U+FFFF, of four bytes here, are two. */
static size_t count_utf16(struct span text)
{
    size_t count = count_characters(text);
    for (size_t i = 0; i < text.len; i++)
        count += (unsigned char)text.ptr[i] >= 0xf0;
    return count;
}

static bool has_control(struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7f)
            return true;
    return false;
}

static int read_model(struct request *r)
{
    const struct json_value *model = &r->reading->found[WANT_MODEL];
    r->facts->model_value = r->speech->model_value = *model;
    if (!is_there(model))
        return 0;
    if (model->kind != JSON_KIND_STRING)
        return body_refuse(r->fault, "model", "`model` must be a string.");
    r->facts->model = json_decode(r->arena, model->raw);
    return 0;
}

static int read_input(struct request *r)
{
    const struct json_value *input = &r->reading->found[WANT_INPUT];
    if (input->kind == JSON_KIND_ABSENT)
        return body_refuse(r->fault, "input", "`input` is missing.");
    if (input->kind != JSON_KIND_STRING)
        return body_refuse(r->fault, "input", "`input` must be a string.");
    r->speech->input = json_decode(r->arena, input->raw);
    r->speech->input_characters = count_characters(r->speech->input);
    r->speech->input_utf16 = count_utf16(r->speech->input);
    if (r->speech->input.len == 0)
        return body_refuse(r->fault, "input", "`input` is empty.");
    if (r->speech->input_characters > SPEECH_INPUT_CHARACTERS)
        return body_refuse(r->fault, "input",
                           arena_printf(r->arena, "`input` has %zu characters; at most %d are allowed.",
                                        r->speech->input_characters, SPEECH_INPUT_CHARACTERS));
    return 0;
}

static int read_voice(struct request *r)
{
    static const char message[] = "`voice` must be a string or an object {\"id\": string}.";
    const struct json_value *voice = &r->reading->found[WANT_VOICE], *text = voice;
    r->speech->voice_value = *voice;
    if (!is_there(voice))
        return 0; /* the model may have a default */
    if (voice->kind == JSON_KIND_OBJECT) {
        text = &r->reading->found[WANT_VOICE_ID];
        if (r->reading->voice_members != 1)
            return body_refuse(r->fault, "voice", message);
    }
    if (text->kind != JSON_KIND_STRING)
        return body_refuse(r->fault, "voice", message);
    r->speech->voice = json_decode(r->arena, text->raw);
    if (r->speech->voice.len == 0)
        return body_refuse(r->fault, "voice", "`voice` is empty.");
    if (r->speech->voice.len > SPEECH_VOICE_BYTES)
        return body_refuse(r->fault, "voice", "`voice` is too long to be one.");
    if (has_control(r->speech->voice))
        return body_refuse(r->fault, "voice", "`voice` holds a control character.");
    return 0;
}

static int read_format(struct request *r)
{
    const struct json_value *format = &r->reading->found[WANT_FORMAT];
    if (!is_there(format))
        return 0;
    if (format->kind != JSON_KIND_STRING)
        return body_refuse(r->fault, "response_format", "`response_format` must be a string.");
    r->speech->format = json_decode(r->arena, format->raw);
    if (r->speech->format.len == 0 || r->speech->format.len > SPEECH_FORMAT_BYTES)
        return body_refuse(r->fault, "response_format", "`response_format` is no format's name.");
    return 0;
}

static int read_speed(struct request *r)
{
    const struct json_value *speed = &r->reading->found[WANT_SPEED];
    r->speech->speed = 1;
    r->speech->speed_value = *speed;
    if (!is_there(speed))
        return 0;
    if (speed->kind != JSON_KIND_NUMBER || !json_number(speed->raw, &r->speech->speed) ||
        r->speech->speed < SPEECH_SPEED_MIN || r->speech->speed > SPEECH_SPEED_MAX)
        return body_refuse(r->fault, "speed", "`speed` must be a number from 0.25 to 4.");
    return 0;
}

static int read_instructions(struct request *r)
{
    const struct json_value *instructions = &r->reading->found[WANT_INSTRUCTIONS];
    if (!is_there(instructions))
        return 0;
    if (instructions->kind != JSON_KIND_STRING)
        return body_refuse(r->fault, "instructions", "`instructions` must be a string.");
    r->speech->instructions = json_decode(r->arena, instructions->raw);
    if (count_characters(r->speech->instructions) > SPEECH_INSTRUCTIONS_CHARACTERS)
        return body_refuse(r->fault, "instructions",
                           arena_printf(r->arena, "`instructions` has more than %d characters.",
                                        SPEECH_INSTRUCTIONS_CHARACTERS));
    return 0;
}

static int read_stream_format(struct request *r)
{
    const struct json_value *stream = &r->reading->found[WANT_STREAM_FORMAT];
    if (!is_there(stream))
        return 0;
    r->speech->wants_events = stream->kind == JSON_KIND_STRING && json_string_is(stream->raw, "sse");
    if (!r->speech->wants_events &&
        !(stream->kind == JSON_KIND_STRING && json_string_is(stream->raw, "audio")))
        return body_refuse(r->fault, "stream_format", "`stream_format` must be \"audio\" or \"sse\".");
    return 0;
}

static int read_extra_body(struct request *r)
{
    const struct json_value *extra = &r->reading->found[WANT_EXTRA_BODY];
    r->speech->extra_body_value = *extra;
    if (!is_there(extra))
        return 0;
    if (extra->kind != JSON_KIND_OBJECT)
        return body_refuse(r->fault, "extra_body", "`extra_body` must be an object.");
    if (is_there(&r->reading->found[WANT_EXTRA_PACK])) /* where it would be dropped in silence */
        return body_refuse(r->fault, "extra_body.voice_pack",
                           "`voice_pack` stands beside `extra_body`, and not in it.");
    r->speech->extra_body = extra->raw;
    return 0;
}

static int read_voice_pack(struct request *r)
{
    const struct json_value *pack = &r->reading->found[WANT_VOICE_PACK];
    r->speech->voice_pack_value = *pack;
    if (!is_there(pack))
        return 0;
    if (pack->kind != JSON_KIND_OBJECT)
        return body_refuse(r->fault, "voice_pack", "`voice_pack` must be an object: the snapshot of one.");
    r->speech->voice_pack = pack->raw;
    return 0;
}

int speech_read_request(struct span body, struct span type, struct arena *arena, struct request_facts *facts,
                        struct request_fault *fault)
{
    static int (*const members[])(struct request * r) = {
        read_model,        read_input,         read_voice,      read_format,     read_speed,
        read_instructions, read_stream_format, read_extra_body, read_voice_pack,
    };
    struct reading reading = { .arena = arena }; /* zero is JSON_KIND_ABSENT */
    struct json_fault syntax = { 0 };
    struct speech_facts *speech = arena_new_of(arena, struct speech_facts);
    struct request_facts read = { .body = body, .speech = speech };
    struct request request = { &reading, speech, &read, fault, arena };

    (void)type;
    int r = json_scan(body, wants, N_WANTS, 0, on_value, &reading, &syntax);
    if (r != 0)
        return body_refuse_text(fault, r, &syntax, arena);
    if (reading.found[WANT_BODY].kind != JSON_KIND_OBJECT)
        return body_refuse(fault, NULL, "The body must be a JSON object.");
    if (reading.has_rival)
        return body_refuse_rival(fault, reading.rival_offset, arena);
    speech->body = body;
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]) && r == 0; i++)
        r = members[i](&request);
    if (r != 0)
        return r;
    read.is_stream = speech->wants_events;
    *facts = read;
    return 0;
}

int speech_splice_request(const struct speech_facts *facts, struct span model, struct span voice,
                          struct arena *arena, struct splice *out)
{
    const struct json_value *const ours[] = { &facts->extra_body_value, &facts->voice_pack_value };
    char speed[VOICE_PACK_NUMBER_BYTES];

    splice_init(out, facts->body);
    int r = body_splice_text(facts->body, "model", &facts->model_value, model, arena, out);
    if (r == 0 && voice.len > 0 && (facts->voice.len == 0 || facts->pack != NULL))
        r = body_splice_text(facts->body, "voice", &facts->voice_value, voice, arena, out);
    if (r == 0 && facts->pack != NULL && facts->pack->params[VOICE_PACK_RATE].is_set) {
        voice_pack_write_number(facts->pack->params[VOICE_PACK_RATE].value, speed);
        r = body_splice_json(facts->body, "speed", &facts->speed_value, speed, arena, out);
    }
    return r == 0 ? body_remove_members(facts->body, ours, 2, out) : r;
}

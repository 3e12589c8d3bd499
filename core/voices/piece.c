#include "core/voices/piece.h"

#include "core/json/writer.h"

enum label_kind { LABEL_TEXT, LABEL_LIST, LABEL_NUMBER };

/* The labels: unspeech knows the first four and the two with capitals; the others
 * are ours. */
static const struct label {
    const char *name;
    enum label_kind kind;
    enum voice_column column;
    bool is_always; /* else only where it is known */
} labels[] = {
    { "gender", LABEL_TEXT, VOICE_GENDER, true },
    { "type", LABEL_TEXT, VOICE_TYPE, true },
    { "age", LABEL_TEXT, VOICE_AGE, true },
    { "tailoredScenarios", LABEL_LIST, VOICE_SCENARIOS, true },
    { "voicePersonalities", LABEL_LIST, VOICE_PERSONALITIES, true },
    { "status", LABEL_TEXT, VOICE_STATUS, false },
    { "styles", LABEL_LIST, VOICE_STYLES, false },
    { "roles", LABEL_LIST, VOICE_ROLES, false },
    { "local_name", LABEL_TEXT, VOICE_LOCAL_NAME, false },
    { "sample_rate", LABEL_NUMBER, VOICE_SAMPLE_RATE, false },
    { "words_per_minute", LABEL_NUMBER, VOICE_WORDS_PER_MINUTE, false },
};

static void write_items(struct json_writer *w, struct span list)
{
    struct span item;
    while (voice_list_next(&list, &item))
        jw_string(w, item);
}

static void write_list(struct json_writer *w, const char *name, struct span list)
{
    jw_key(w, name);
    jw_begin_array(w);
    write_items(w, list);
    jw_end_array(w);
}

/* The table has checked that these are digits. */
static void write_number(struct json_writer *w, const char *name, struct span digits)
{
    jw_key(w, name);
    jw_raw(w, digits);
}

static struct span main_title(const struct voice_table *table, const struct voice *voice)
{
    struct span languages = voice->columns[VOICE_LANGUAGES], code = { NULL, 0 };
    voice_list_next(&languages, &code);
    return voice_language_title(table, code);
}

/* In words: its language and what it is made for. */
static void write_description(struct json_writer *w, const struct voice_table *table,
                              const struct voice *voice)
{
    struct span scenarios = voice->columns[VOICE_SCENARIOS], item;
    struct buf text;

    buf_init(&text, VOICE_TABLE_LIMIT_BYTES);
    buf_append_span(&text, main_title(table, voice));
    while (voice_list_next(&scenarios, &item)) {
        buf_append_char(&text, ' ');
        buf_append_span(&text, item);
    }
    jw_member_span(w, "description", buf_span(&text));
    buf_free(&text);
}

static void write_labels(struct json_writer *w, const struct voice_table *table, const struct voice *voice)
{
    jw_key(w, "labels");
    jw_begin_object(w);
    jw_member_span(w, "accent", main_title(table, voice));
    for (size_t i = 0; i < sizeof(labels) / sizeof(labels[0]); i++) {
        struct span value = voice->columns[labels[i].column];
        if (value.len == 0 && !labels[i].is_always)
            continue;
        if (labels[i].kind == LABEL_LIST)
            write_list(w, labels[i].name, value);
        else if (labels[i].kind == LABEL_NUMBER)
            write_number(w, labels[i].name, value);
        else
            jw_member_span(w, labels[i].name, value);
    }
    jw_end_object(w);
}

static void write_languages(struct json_writer *w, const struct voice_table *table, const struct voice *voice)
{
    struct span rest = voice->columns[VOICE_LANGUAGES], code;

    jw_key(w, "languages");
    jw_begin_array(w);
    while (voice_list_next(&rest, &code)) {
        jw_begin_object(w);
        jw_member_span(w, "title", voice_language_title(table, code));
        jw_member_span(w, "code", code);
        jw_end_object(w);
    }
    jw_end_array(w);
}

void voice_write_piece(const struct voice_table *table, const struct voice *voice, struct buf *out)
{
    struct json_writer w;

    jw_init(&w, out);
    jw_begin_object(&w);
    jw_member_span(&w, "id", voice->columns[VOICE_ID]);
    jw_member_span(&w, "name", voice->columns[VOICE_NAME]);
    write_description(&w, table, voice);
    write_labels(&w, table, voice);
    jw_key(&w, "tags");
    jw_begin_array(&w);
    write_items(&w, voice->columns[VOICE_SCENARIOS]);
    write_items(&w, voice->columns[VOICE_PERSONALITIES]);
    jw_end_array(&w);
    write_languages(&w, table, voice);
    write_list(&w, "compatible_models", voice->columns[VOICE_MODELS]);
    jw_key(&w, "predefined_options");
    jw_begin_object(&w);
    jw_end_object(&w);
    jw_member_cstr(&w, "preview_audio_url", "");
    jw_key(&w, "formats");
}

void voice_write_formats(const struct voice_table *table, const struct voice *voice, struct buf *out)
{
    struct json_writer w;

    jw_init(&w, out);
    jw_begin_array(&w);
    for (size_t i = 0; i < voice->n_formats; i++) {
        const struct span *columns = table->formats[voice->first_format + i].columns;
        jw_begin_object(&w);
        jw_member_span(&w, "name", columns[VOICE_FORMAT_NAME]);
        jw_member_span(&w, "extension", columns[VOICE_FORMAT_EXTENSION]);
        jw_member_span(&w, "mime_type", columns[VOICE_FORMAT_MEDIA_TYPE]);
        write_number(&w, "sample_rate", columns[VOICE_FORMAT_SAMPLE_RATE]);
        write_number(&w, "bitrate", columns[VOICE_FORMAT_BITRATE]);
        jw_member_span(&w, "format_code", columns[VOICE_FORMAT_CODE]);
        jw_end_object(&w);
    }
    jw_end_array(&w);
}

#include "admin/ctl/azure_voices.h"

#include <json-c/json.h>
#include <limits.h>
#include <stdlib.h>

struct azure_reader {
    struct arena *arena;
    const struct voice_table *before;
    struct voice_table *table;
    bool *has_parting; /* a text has what parts fields, lines or items in a table */
};

/* ---- members of one voice ---- */

static struct span no_text(void)
{
    return span_of("", 0);
}

/* Numbers stand there as strings; both are taken. */
static struct span text_of(const struct azure_reader *r, json_object *value)
{
    if (value == NULL || json_object_is_type(value, json_type_object) ||
        json_object_is_type(value, json_type_array))
        return no_text();
    struct span text = span_trim(span_cstr(json_object_get_string(value)));
    *r->has_parting = *r->has_parting || strcspn(text.ptr, "\t\n\r;") < text.len;
    return span_of(arena_span(r->arena, text), text.len);
}

static struct span member(const struct azure_reader *r, json_object *voice, const char *name)
{
    json_object *value = NULL;
    json_object_object_get_ex(voice, name, &value);
    return text_of(r, value);
}

static struct span member_in_lower_case(const struct azure_reader *r, json_object *voice, const char *name)
{
    struct span text = member(r, voice, name);
    char *copy = arena_span(r->arena, text);
    for (size_t i = 0; i < text.len; i++)
        if (copy[i] >= 'A' && copy[i] <= 'Z')
            copy[i] = (char)(copy[i] - 'A' + 'a');
    return span_of(copy, text.len);
}

static bool has_item(struct span list, struct span wanted)
{
    struct span item;
    while (voice_list_next(&list, &item))
        if (span_eq(item, wanted))
            return true;
    return false;
}

/* `first` (may be empty) and the items of an array, each once. */
static struct span list_of(const struct azure_reader *r, struct span first, json_object *array)
{
    struct span list = first;
    if (!json_object_is_type(array, json_type_array))
        return list;
    for (size_t i = 0; i < json_object_array_length(array); i++) {
        struct span item = text_of(r, json_object_array_get_idx(array, i));
        if (item.len > 0 && !has_item(list, item))
            list = span_cstr(arena_printf(r->arena, "%.*s%s%.*s", (int)list.len, list.ptr,
                                          list.len == 0 ? "" : ";", (int)item.len, item.ptr));
    }
    return list;
}

static struct span list_member(const struct azure_reader *r, json_object *voice, const char *name)
{
    json_object *value = NULL;
    json_object_object_get_ex(voice, name, &value);
    return list_of(r, no_text(), value);
}

static struct span tag_member(const struct azure_reader *r, json_object *voice, const char *name)
{
    json_object *tag = NULL;
    return json_object_object_get_ex(voice, "VoiceTag", &tag) && json_object_is_type(tag, json_type_object)
               ? list_member(r, tag, name)
               : no_text();
}

/* ---- languages ---- */

static void note_language(const struct azure_reader *r, struct span code, struct span title)
{
    struct voice_table *table = r->table;
    for (size_t i = 0; i < table->n_languages; i++)
        if (span_eq(table->languages[i].code, code)) {
            if (title.len > 0)
                table->languages[i].title = title;
            return;
        }
    if (title.len == 0)
        title = voice_language_title(r->before, code);
    table->languages[table->n_languages++] =
        (struct voice_language){ code, title.len > 0 ? title : code /* nobody says what it is called */ };
}

static int compare(struct span a, struct span b)
{
    int order = memcmp(a.ptr, b.ptr, a.len < b.len ? a.len : b.len);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_languages(const void *a, const void *b)
{
    return compare(((const struct voice_language *)a)->code, ((const struct voice_language *)b)->code);
}

static int compare_voices(const void *a, const void *b)
{
    return compare(((const struct voice *)a)->columns[VOICE_ID],
                   ((const struct voice *)b)->columns[VOICE_ID]);
}

/* ---- the list ---- */

static void read_voice(const struct azure_reader *r, json_object *object, struct voice *voice)
{
    json_object *others = NULL;
    struct span locale = member(r, object, "Locale");

    json_object_object_get_ex(object, "SecondaryLocaleList", &others);
    *voice = (struct voice){
        .columns = {
            [VOICE_ID] = member(r, object, "ShortName"),
            [VOICE_NAME] = member(r, object, "DisplayName"),
            [VOICE_GENDER] = member_in_lower_case(r, object, "Gender"),
            [VOICE_LANGUAGES] = list_of(r, locale, others),
            [VOICE_MODELS] = span_cstr("v1"),
            [VOICE_TYPE] = member(r, object, "VoiceType"),
            [VOICE_SCENARIOS] = tag_member(r, object, "TailoredScenarios"),
            [VOICE_PERSONALITIES] = tag_member(r, object, "VoicePersonalities"),
            [VOICE_STATUS] = member(r, object, "Status"),
            [VOICE_STYLES] = list_member(r, object, "StyleList"),
            [VOICE_ROLES] = list_member(r, object, "RolePlayList"),
            [VOICE_LOCAL_NAME] = member(r, object, "LocalName"),
            [VOICE_SAMPLE_RATE] = member(r, object, "SampleRateHertz"),
            [VOICE_WORDS_PER_MINUTE] = member(r, object, "WordsPerMinute"),
        },
        .n_formats = r->table->n_formats,
    };
}

static size_t count_items(struct span list)
{
    struct span item;
    size_t n = 0;
    while (voice_list_next(&list, &item))
        n++;
    return n;
}

/* Titles first where a voice has the language as its own, which says how it is called. */
static void read_languages(const struct azure_reader *r, json_object *list)
{
    struct voice_table *table = r->table;
    size_t most = 0;
    for (size_t i = 0; i < table->n_voices; i++)
        most += count_items(table->voices[i].columns[VOICE_LANGUAGES]);
    table->languages = arena_array_of(r->arena, struct voice_language, most);
    for (size_t i = 0; i < table->n_voices; i++) {
        struct span rest = table->voices[i].columns[VOICE_LANGUAGES], code;
        struct span title = member(r, json_object_array_get_idx(list, i), "LocaleName");
        for (; voice_list_next(&rest, &code); title = no_text())
            note_language(r, code, title);
    }
}

static int read_list(const struct azure_reader *r, json_object *list, struct error *e)
{
    struct voice_table *table = r->table;

    if (!json_object_is_type(list, json_type_array) || json_object_array_length(list) == 0)
        return error_set(e, ERR_FORMAT, "the reply is no list of voices");
    table->n_voices = json_object_array_length(list);
    table->voices = arena_array_of(r->arena, struct voice, table->n_voices);
    for (size_t i = 0; i < table->n_voices; i++) {
        json_object *object = json_object_array_get_idx(list, i);
        if (!json_object_is_type(object, json_type_object))
            return error_set(e, ERR_FORMAT, "item %zu of the list is no voice", i);
        read_voice(r, object, &table->voices[i]);
    }
    read_languages(r, list);
    if (*r->has_parting)
        return error_set(e, ERR_FORMAT, "a text in the list has a tab, a line's end or a semicolon");
    qsort(table->voices, table->n_voices, sizeof(struct voice), compare_voices);
    qsort(table->languages, table->n_languages, sizeof(struct voice_language), compare_languages);
    return 0;
}

int azure_voices_read(struct span reply, const struct voice_table *before, struct arena *arena,
                      struct voice_table *out, struct error *e)
{
    struct voice_table table = {
        .preamble = before->preamble,
        .formats = before->formats,
        .n_formats = before->n_formats,
    };
    bool has_parting = false;
    const struct azure_reader r = { arena, before, &table, &has_parting };
    json_tokener *tokener = json_tokener_new();
    json_object *list = NULL;

    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    if (reply.len <= INT_MAX)
        list = json_tokener_parse_ex(tokener, reply.ptr, (int)reply.len);
    int result = list == NULL ? error_set(e, ERR_FORMAT, "the reply is not JSON") : read_list(&r, list, e);
    json_object_put(list);
    json_tokener_free(tokener);
    if (result == 0)
        *out = table;
    return result;
}

#include "core/voices/table.h"

#include "core/json/writer.h"

enum {
    FIELDS_MAX = 1 + VOICE_COLUMN_COUNT, /* of a line: what it is, and its columns */
    LINE_MAX_BYTES = 8192,
    ID_MAX_BYTES = 128,
};

/* ---- what a column may hold ---- */

static const char *const gender_names[] = {
    [VOICE_GENDER_FEMALE] = "female",
    [VOICE_GENDER_MALE] = "male",
    [VOICE_GENDER_NEUTRAL] = "neutral",
};

int voice_gender_by_name(struct span name, enum voice_gender *out)
{
    for (size_t i = VOICE_GENDER_FEMALE; i < sizeof(gender_names) / sizeof(gender_names[0]); i++)
        if (span_is_nocase(name, gender_names[i])) {
            *out = (enum voice_gender)i;
            return 0;
        }
    return ERR_NOT_FOUND;
}

static bool is_among(char c, const char *others)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr(others, c) != NULL);
}

static bool is_made_of(struct span text, const char *others)
{
    for (size_t i = 0; i < text.len; i++)
        if (!is_among(text.ptr[i], others))
            return false;
    return true;
}

/* What goes to a provider, and into SSML at that. */
static bool is_id(struct span text)
{
    return text.len <= ID_MAX_BYTES && is_made_of(text, "-_.: ");
}

static bool is_token(struct span text)
{
    return is_made_of(text, "-_.");
}

static bool is_language(struct span text)
{
    return text.len >= 2 && text.ptr[text.len - 1] != '-' && is_made_of(text, "-");
}

static bool is_gender(struct span text)
{
    enum voice_gender gender;
    return voice_gender_by_name(text, &gender) == 0 && span_is(text, gender_names[gender]);
}

static bool is_age(struct span text)
{
    return span_is(text, "child");
}

static bool is_number(struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return false;
    return text.len <= 9 && (text.len == 1 || text.ptr[0] != '0');
}

static bool is_extension(struct span text)
{
    return text.len > 1 && text.ptr[0] == '.' && is_token(span_of(text.ptr + 1, text.len - 1));
}

static bool is_media_type(struct span text)
{
    return memchr(text.ptr, '/', text.len) != NULL && is_made_of(text, "-/.+");
}

struct column {
    const char *name;
    bool (*is_valid)(struct span text); /* of each item of a list; NULL: any text */
    bool is_list;
    bool is_required;
};

static const struct column voice_columns[VOICE_COLUMN_COUNT] = {
    [VOICE_ID] = { "id", is_id, false, true },
    [VOICE_NAME] = { "name", NULL, false, true },
    [VOICE_GENDER] = { "gender", is_gender, false, false },
    [VOICE_AGE] = { "age", is_age, false, false },
    [VOICE_LANGUAGES] = { "languages", is_language, true, true },
    [VOICE_MODELS] = { "models", is_token, true, true },
    [VOICE_TYPE] = { "type", is_token, false, true },
    [VOICE_SCENARIOS] = { "scenarios", NULL, true, false },
    [VOICE_PERSONALITIES] = { "personalities", NULL, true, false },
    [VOICE_STATUS] = { "status", is_token, false, false },
    [VOICE_STYLES] = { "styles", is_token, true, false },
    [VOICE_ROLES] = { "roles", is_token, true, false },
    [VOICE_LOCAL_NAME] = { "local name", NULL, false, false },
    [VOICE_SAMPLE_RATE] = { "sample rate", is_number, false, false },
    [VOICE_WORDS_PER_MINUTE] = { "words per minute", is_number, false, false },
};

static const struct column format_columns[VOICE_FORMAT_COLUMN_COUNT] = {
    [VOICE_FORMAT_NAME] = { "name", NULL, false, true },
    [VOICE_FORMAT_EXTENSION] = { "extension", is_extension, false, true },
    [VOICE_FORMAT_MEDIA_TYPE] = { "media type", is_media_type, false, true },
    [VOICE_FORMAT_SAMPLE_RATE] = { "sample rate", is_number, false, true },
    [VOICE_FORMAT_BITRATE] = { "bit rate", is_number, false, true },
    [VOICE_FORMAT_CODE] = { "code", is_token, false, true },
};

static const struct column language_columns[] = {
    { "code", is_language, false, true },
    { "title", NULL, false, true },
};

enum { LANGUAGE_COLUMN_COUNT = sizeof(language_columns) / sizeof(language_columns[0]) };

const char *voice_column_name(enum voice_column column)
{
    return voice_columns[column].name;
}

bool voice_column_is_list(enum voice_column column)
{
    return voice_columns[column].is_list;
}

bool voice_list_next(struct span *rest, struct span *item)
{
    if (rest->len == 0)
        return false;
    const char *end = memchr(rest->ptr, ';', rest->len);
    size_t len = end == NULL ? rest->len : (size_t)(end - rest->ptr);
    size_t taken = end == NULL ? len : len + 1;
    *item = span_of(rest->ptr, len);
    *rest = span_of(rest->ptr + taken, rest->len - taken);
    return true;
}

struct span voice_language_title(const struct voice_table *table, struct span code)
{
    for (size_t i = 0; i < table->n_languages; i++)
        if (span_eq(table->languages[i].code, code))
            return table->languages[i].title;
    return span_of("", 0);
}

/* ---- reading ---- */

struct table_reader {
    struct voice_table *table;
    const char *name; /* of the file */
    size_t line;      /* counted from 1 */
    struct error *e;
};

static int fault(const struct table_reader *r, const char *column, const char *what, struct span text)
{
    return error_set(r->e, ERR_FORMAT, "%s:%zu: %s%s%s \"%.*s\"", r->name, r->line, column,
                     column[0] == '\0' ? "" : ": ", what, (int)(text.len < 80 ? text.len : 80),
                     text.len == 0 ? "" : text.ptr);
}

static int check_list(const struct table_reader *r, const struct column *column, struct span text)
{
    struct span rest = text, item, others, other;
    if (text.ptr[text.len - 1] == ';')
        return fault(r, column->name, "an item is empty in", text);
    while (voice_list_next(&rest, &item)) {
        if (item.len == 0 || span_trim(item).len != item.len)
            return fault(r, column->name, "an item is empty or begins or ends with a space in", text);
        if (column->is_valid != NULL && !column->is_valid(item))
            return fault(r, column->name, "unexpected", item);
        for (others = rest; voice_list_next(&others, &other);)
            if (span_eq(item, other))
                return fault(r, column->name, "there twice:", item);
    }
    return 0;
}

static int check_column(const struct table_reader *r, const struct column *column, struct span text)
{
    if (text.len == 0)
        return column->is_required ? fault(r, column->name, "missing", text) : 0;
    if (column->is_list)
        return check_list(r, column, text);
    if (span_trim(text).len != text.len)
        return fault(r, column->name, "a space at an end of", text);
    if (column->is_valid != NULL && !column->is_valid(text))
        return fault(r, column->name, "unexpected", text);
    return 0;
}

static int check_columns(const struct table_reader *r, const struct column *columns,
                         const struct span *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        int result = check_column(r, &columns[i], fields[i]);
        if (result != 0)
            return result;
    }
    return 0;
}

static int read_language(struct table_reader *r, const struct span *fields)
{
    struct voice_table *table = r->table;
    int result = check_columns(r, language_columns, fields, LANGUAGE_COLUMN_COUNT);
    if (result == 0 && voice_language_title(table, fields[0]).len > 0)
        result = fault(r, "", "there is such a language already:", fields[0]);
    if (result == 0)
        table->languages[table->n_languages++] = (struct voice_language){ fields[0], fields[1] };
    return result;
}

static int read_format(struct table_reader *r, const struct span *fields)
{
    struct voice_format *format = &r->table->formats[r->table->n_formats];
    memcpy(format->columns, fields, sizeof(format->columns));
    r->table->n_formats++;
    return check_columns(r, format_columns, fields, VOICE_FORMAT_COLUMN_COUNT);
}

/* A voice has the formats that stand above it, up to those that are another's. */
static void attach_formats(struct voice_table *table)
{
    struct voice *voice = &table->voices[table->n_voices];
    size_t taken = 0;
    if (table->n_voices > 0) {
        *voice = (struct voice){ .first_format = voice[-1].first_format, .n_formats = voice[-1].n_formats };
        taken = voice->first_format + voice->n_formats;
    }
    if (taken < table->n_formats) {
        voice->first_format = taken;
        voice->n_formats = table->n_formats - taken;
    }
}

static int read_voice(struct table_reader *r, const struct span *fields)
{
    struct voice_table *table = r->table;
    struct voice *voice = &table->voices[table->n_voices];
    struct span languages = fields[VOICE_LANGUAGES], code;
    int result = check_columns(r, voice_columns, fields, VOICE_COLUMN_COUNT);

    if (result != 0)
        return result;
    while (voice_list_next(&languages, &code))
        if (voice_language_title(table, code).len == 0)
            return fault(r, "languages", "no line before says what this is:", code);
    for (size_t i = 0; i < table->n_voices; i++)
        if (span_eq(table->voices[i].columns[VOICE_ID], fields[VOICE_ID]))
            return fault(r, "id", "there twice:", fields[VOICE_ID]);
    if (table->n_voices == VOICE_TABLE_MAX)
        return fault(r, "", "too many voices; there is no room for", fields[VOICE_ID]);
    attach_formats(table);
    memcpy(voice->columns, fields, sizeof(voice->columns));
    if (voice->n_formats == 0)
        return fault(r, "", "no format stands before", fields[VOICE_ID]);
    table->n_voices++;
    return 0;
}

static const struct kind {
    const char *name;
    size_t n_columns;
    int (*read)(struct table_reader *r, const struct span *fields);
} kinds[] = {
    { "language", LANGUAGE_COLUMN_COUNT, read_language },
    { "format", VOICE_FORMAT_COLUMN_COUNT, read_format },
    { "voice", VOICE_COLUMN_COUNT, read_voice },
};

/* Tabs part the fields, and no other control character may stand there. The
 * writer of JSON marks what is not UTF-8. */
static int check_characters(const struct table_reader *r, struct span line)
{
    struct buf escaped;
    bool is_bad = line.len > LINE_MAX_BYTES;
    for (size_t i = 0; i < line.len && !is_bad; i++)
        is_bad = ((unsigned char)line.ptr[i] < 0x20 && line.ptr[i] != '\t') || line.ptr[i] == 0x7F;
    buf_init(&escaped, 6 * LINE_MAX_BYTES);
    if (!is_bad)
        json_escape(&escaped, line);
    is_bad = is_bad || escaped.len == 0 || memmem(escaped.data, escaped.len, "\xEF\xBF\xBD", 3) != NULL;
    buf_free(&escaped);
    return is_bad ? fault(r, "", "empty, too long, not UTF-8, or with control characters:", span_of("", 0))
                  : 0;
}

static int read_line(struct table_reader *r, struct span line)
{
    struct span fields[FIELDS_MAX] = { { NULL, 0 } };
    size_t n = 0;
    int result = check_characters(r, line);
    if (result != 0)
        return result;
    for (const char *at = line.ptr, *end = line.ptr + line.len; at <= end;) {
        const char *tab = memchr(at, '\t', (size_t)(end - at));
        if (n == FIELDS_MAX)
            return fault(r, "", "too many columns after", fields[n - 1]);
        fields[n++] = span_of(at, (size_t)((tab == NULL ? end : tab) - at));
        at = (tab == NULL ? end : tab) + 1;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (!span_is(fields[0], kinds[i].name))
            continue;
        if (n - 1 > kinds[i].n_columns)
            return fault(r, "", "too many columns after", fields[kinds[i].n_columns]);
        return kinds[i].read(r, fields + 1);
    }
    return fault(r, "", "expected language, format or voice, not", fields[0]);
}

/* A title that no voice needs is a left-over. */
static int check_use(const struct table_reader *r)
{
    const struct voice_table *table = r->table;
    for (size_t i = 0; i < table->n_languages; i++) {
        struct span code = table->languages[i].code, rest, item;
        bool is_used = false;
        for (size_t k = 0; k < table->n_voices && !is_used; k++)
            for (rest = table->voices[k].columns[VOICE_LANGUAGES]; voice_list_next(&rest, &item);)
                is_used = is_used || span_eq(item, code);
        if (!is_used)
            return error_set(r->e, ERR_FORMAT, "%s: no voice speaks \"%.*s\"", r->name, (int)code.len,
                             code.ptr);
    }
    return 0;
}

static size_t count_lines(struct span text)
{
    size_t n = 1;
    for (size_t i = 0; i < text.len; i++)
        n += text.ptr[i] == '\n';
    return n;
}

int voice_table_read(struct span text, const char *name, struct arena *arena, struct voice_table *out,
                     struct error *e)
{
    size_t most = count_lines(text);
    struct voice_table table = {
        .languages = arena_array_of(arena, struct voice_language, most),
        .formats = arena_array_of(arena, struct voice_format, most),
        .voices = arena_array_of(arena, struct voice, most),
    };
    struct table_reader r = { .table = &table, .name = name, .line = 1, .e = e };
    bool is_preamble = true;

    for (size_t at = 0; at < text.len; r.line++) {
        const char *start = text.ptr + at, *end = memchr(start, '\n', text.len - at);
        if (end == NULL)
            return fault(&r, "", "the last line has no end:", span_of(start, text.len - at));
        at += (size_t)(end - start) + 1;
        is_preamble = is_preamble && start[0] == '#';
        if (is_preamble) {
            table.preamble = span_of(text.ptr, at);
            continue;
        }
        int result = read_line(&r, span_of(start, (size_t)(end - start)));
        if (result != 0)
            return result;
    }
    int result = check_use(&r);
    if (result == 0)
        *out = table;
    return result;
}

/* ---- writing ---- */

/* A line ends with its last known column. */
static void write_line(struct buf *out, const char *kind, const struct span *columns, size_t n)
{
    while (n > 0 && columns[n - 1].len == 0)
        n--;
    buf_append_cstr(out, kind);
    for (size_t i = 0; i < n; i++) {
        buf_append_char(out, '\t');
        buf_append_span(out, columns[i]);
    }
    buf_append_char(out, '\n');
}

void voice_table_write(const struct voice_table *table, struct buf *out)
{
    size_t written = 0; /* formats */

    buf_append_span(out, table->preamble);
    for (size_t i = 0; i < table->n_languages; i++) {
        const struct span columns[] = { table->languages[i].code, table->languages[i].title };
        write_line(out, "language", columns, LANGUAGE_COLUMN_COUNT);
    }
    for (size_t i = 0; i < table->n_voices; i++) {
        const struct voice *voice = &table->voices[i];
        for (; written < voice->first_format + voice->n_formats; written++)
            write_line(out, "format", table->formats[written].columns, VOICE_FORMAT_COLUMN_COUNT);
        write_line(out, "voice", voice->columns, VOICE_COLUMN_COUNT);
    }
}

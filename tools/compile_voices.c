/*
 * compile-voices FILE…: writes the catalogs of voices in the given files as C, on
 * standard output; "voices/azure.tsv" becomes the catalog "azure". Run by make.
 *
 * A file that is wrong, or not in the one form that llm-routerctl would write it
 * in, is an error of the build.
 */
#include <stdio.h>
#include <stdlib.h>

#include "core/base/file.h"
#include "core/crypto/digest.h"
#include "core/voices/catalog.h"
#include "core/voices/compiled.h"
#include "core/voices/piece.h"

enum { TEXT_LIMIT_BYTES = 64 * 1024 * 1024, PER_LINE = 32 };

/* "azure" of "voices/azure.tsv". */
static const char *provider_of(const char *path, struct arena *arena)
{
    const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
    const char *dot = strrchr(name, '.');
    return arena_span(arena, span_of(name, dot == NULL ? strlen(name) : (size_t)(dot - name)));
}

/* A file that is read and written again is what it was: a refresh then changes
 * the lines that change, and no other. */
static int check_form(const char *path, struct span raw, const struct voice_table *table, struct error *e)
{
    struct buf again;
    size_t same = 0, line = 1;

    buf_init(&again, VOICE_TABLE_LIMIT_BYTES);
    voice_table_write(table, &again);
    while (same < raw.len && same < again.len && raw.ptr[same] == again.data[same])
        line += raw.ptr[same++] == '\n';
    bool is_same = span_eq(raw, buf_span(&again));
    buf_free(&again);
    return is_same ? 0 : error_set(e, ERR_FORMAT, "%s:%zu: not as it would be written", path, line);
}

/* ---- the text of a catalog, and where things lie in it ---- */

static void append_lower(struct buf *out, struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        buf_append_char(out, text.ptr[i] >= 'A' && text.ptr[i] <= 'Z' ? (char)(text.ptr[i] - 'A' + 'a')
                                                                      : text.ptr[i]);
}

static uint32_t append_languages(struct buf *text, const struct voice *voice)
{
    uint32_t at = (uint32_t)text->len;
    append_lower(text, voice->columns[VOICE_LANGUAGES]);
    buf_append_char(text, '\0');
    return at;
}

static uint32_t append_models(struct buf *text, const struct voice *voice)
{
    uint32_t at = (uint32_t)text->len;
    buf_append_span(text, voice->columns[VOICE_MODELS]);
    buf_append_char(text, '\0');
    return at;
}

/* A line feed between them: no search finds across. */
static uint32_t append_words(struct buf *text, const struct voice *voice)
{
    static const enum voice_column searched[] = { VOICE_ID, VOICE_NAME, VOICE_LOCAL_NAME, VOICE_SCENARIOS,
                                                  VOICE_PERSONALITIES };
    uint32_t at = (uint32_t)text->len;
    for (size_t i = 0; i < sizeof(searched) / sizeof(searched[0]); i++) {
        struct span rest = voice->columns[searched[i]], item;
        if (!voice_column_is_list(searched[i])) {
            append_lower(text, rest);
            buf_append_char(text, '\n');
            continue;
        }
        while (voice_list_next(&rest, &item)) {
            append_lower(text, item);
            buf_append_char(text, '\n');
        }
    }
    buf_append_char(text, '\0');
    return at;
}

static void append_voices(const struct voice_table *table, struct buf *text, struct voice_entry *entries)
{
    for (size_t i = 0; i < table->n_voices; i++) {
        const struct voice *voice = &table->voices[i];
        struct voice_entry *entry = &entries[i];
        enum voice_gender gender = VOICE_GENDER_ANY;

        if (i > 0 && voice[-1].first_format == voice->first_format) {
            entry->formats = entry[-1].formats;
            entry->formats_bytes = entry[-1].formats_bytes;
        } else {
            entry->formats = (uint32_t)text->len;
            voice_write_formats(table, voice, text);
            buf_append_char(text, '}');
            entry->formats_bytes = (uint32_t)text->len - entry->formats;
        }
        entry->piece = (uint32_t)text->len;
        voice_write_piece(table, voice, text);
        entry->piece_bytes = (uint32_t)text->len - entry->piece;
        entry->languages = append_languages(text, voice);
        entry->models = append_models(text, voice);
        entry->words = append_words(text, voice);
        (void)voice_gender_by_name(voice->columns[VOICE_GENDER], &gender);
        entry->gender = (uint32_t)gender;
    }
}

/* ---- as C ---- */

static void print_text(size_t n, const struct buf *text)
{
    printf("static const char text_%zu[] = {", n);
    for (size_t i = 0; i < text->len; i++)
        printf("%s%d,", i % PER_LINE == 0 ? "\n" : "", text->data[i]);
    printf("\n};\n");
}

static void print_entries(size_t n, const struct voice_entry *entries, size_t n_entries)
{
    printf("static const struct voice_entry entries_%zu[] = {\n", n);
    for (size_t i = 0; i < n_entries; i++) {
        const struct voice_entry *e = &entries[i];
        printf("{ %u, %u, %u, %u, %u, %u, %u, %u },\n", e->piece, e->piece_bytes, e->formats,
               e->formats_bytes, e->languages, e->models, e->words, e->gender);
    }
    printf("};\n");
}

/* What the table of catalogs says of this one; appended to *rows. */
static int compile(size_t n, const char *path, struct arena *arena, struct buf *rows, struct error *e)
{
    struct voice_table table;
    struct span raw;
    struct buf text;
    char version[SHA256_HEX_BYTES];
    int result = file_read(path, VOICE_TABLE_LIMIT_BYTES, arena, &raw, e);

    if (result == 0)
        result = voice_table_read(raw, path, arena, &table, e);
    if (result == 0)
        result = check_form(path, raw, &table, e);
    if (result != 0)
        return result;
    struct voice_entry *entries = arena_array_of(arena, struct voice_entry, table.n_voices);
    buf_init(&text, TEXT_LIMIT_BYTES);
    append_voices(&table, &text, entries);
    if (text.overflowed)
        result = error_set(e, ERR_LIMIT, "%s: more than %d bytes as JSON", path, TEXT_LIMIT_BYTES);
    sha256_hex(buf_span(&text), version);
    print_text(n, &text);
    print_entries(n, entries, table.n_voices);
    buf_printf(rows, "{ \"%s\", \"%s\", text_%zu, entries_%zu, %zu },\n", provider_of(path, arena), version,
               n, n, table.n_voices);
    buf_free(&text);
    return result;
}

int main(int argc, char **argv)
{
    struct arena *arena = arena_new();
    struct buf rows;
    struct error e;
    int status = EXIT_SUCCESS;

    buf_init(&rows, TEXT_LIMIT_BYTES);
    printf("/* Written by compile-voices from the files in voices/. */\n"
           "#include \"core/voices/compiled.h\"\n\n");
    for (int i = 1; i < argc && status == EXIT_SUCCESS; i++)
        if (compile((size_t)i, argv[i], arena, &rows, &e) != 0) {
            fprintf(stderr, "%s\n", e.text);
            status = EXIT_FAILURE;
        }
    printf("const struct voice_catalog voice_catalogs[] = {\n%.*s};\n", (int)rows.len,
           rows.data == NULL ? "" : rows.data);
    printf("const size_t n_voice_catalogs = %d;\n", argc - 1);
    if (fflush(stdout) != 0)
        status = EXIT_FAILURE;
    buf_free(&rows);
    arena_free(arena);
    return status;
}

#include "core/voices/catalog.h"

#include <strings.h>

#include "core/voices/compiled.h"

const struct voice_catalog *voice_catalog_find(struct span provider)
{
    for (size_t i = 0; i < n_voice_catalogs; i++)
        if (span_is(provider, voice_catalogs[i].provider))
            return &voice_catalogs[i];
    return NULL;
}

/* ---- which voices ---- */

/* A filter in the form in which it is compared. */
struct question {
    const struct voice_filter *filter;
    char words[VOICE_WORDS_MAX_BYTES];
    size_t n_words; /* bytes */
};

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* "-2025-09-18" at the end names an edition of a model, not another one. */
static struct span without_date(struct span model)
{
    static const char form[] = "-dddd-dd-dd";
    size_t n = sizeof(form) - 1;

    if (model.len <= n)
        return model;
    for (size_t i = 0; i < n; i++) {
        char c = model.ptr[model.len - n + i];
        if (form[i] == 'd' ? c < '0' || c > '9' : c != form[i])
            return model;
    }
    return span_of(model.ptr, model.len - n);
}

/* One of those that can speak with a voice is one of those that are wanted. */
static bool has_model(const char *models, struct span wanted)
{
    struct span model, name;
    while (voice_list_next(&wanted, &name)) {
        struct span rest = span_cstr(models), family = without_date(name);
        while (voice_list_next(&rest, &model))
            if (span_eq(model, name) || span_eq(model, family))
                return true;
    }
    return false;
}

static bool has_models(const char *models, const struct voice_filter *filter)
{
    for (size_t i = 0; i < filter->n_models; i++)
        if (!has_model(models, filter->models[i]))
            return false;
    return true;
}

static bool has_language(const char *languages, struct span range)
{
    struct span rest = span_cstr(languages), tag;
    while (voice_list_next(&rest, &tag))
        if (tag.len >= range.len && strncasecmp(tag.ptr, range.ptr, range.len) == 0 &&
            (tag.len == range.len || tag.ptr[range.len] == '-'))
            return true;
    return false;
}

static bool is_wanted(const struct voice_catalog *catalog, const struct voice_entry *entry,
                      const struct question *question)
{
    const struct voice_filter *filter = question->filter;
    const char *words = catalog->text + entry->words;

    if (filter->gender != VOICE_GENDER_ANY && entry->gender != (uint32_t)filter->gender)
        return false;
    if (!has_models(catalog->text + entry->models, filter))
        return false;
    if (filter->locale.len > 0 && !has_language(catalog->text + entry->languages, filter->locale))
        return false;
    return question->n_words == 0 || memmem(words, strlen(words), question->words, question->n_words) != NULL;
}

void voice_select(const struct voice_catalog *catalog, const struct voice_filter *filter,
                  struct voice_selection *out)
{
    struct question question = { .filter = filter };

    while (question.n_words < filter->words.len && question.n_words < VOICE_WORDS_MAX_BYTES) {
        question.words[question.n_words] = lower(filter->words.ptr[question.n_words]);
        question.n_words++;
    }
    *out = (struct voice_selection){ .catalog = catalog };
    for (size_t i = 0; catalog != NULL && i < catalog->n_entries; i++) {
        const struct voice_entry *entry = &catalog->entries[i];
        if (!is_wanted(catalog, entry, &question))
            continue;
        out->chosen[i / 64] |= UINT64_C(1) << (i % 64);
        out->bytes += entry->piece_bytes + entry->formats_bytes + (out->count > 0);
        out->count++;
    }
}

/* ---- as bytes ---- */

static bool is_chosen(const struct voice_selection *selection, size_t i)
{
    return (selection->chosen[i / 64] >> (i % 64) & 1) != 0;
}

size_t voice_selection_read(const struct voice_selection *selection, struct voice_cursor *cursor,
                            struct span *pieces, size_t room)
{
    const struct voice_catalog *catalog = selection->catalog;
    size_t n = 0;

    for (; catalog != NULL && cursor->next < catalog->n_entries && room - n >= VOICE_PIECES; cursor->next++) {
        const struct voice_entry *entry = &catalog->entries[cursor->next];
        if (!is_chosen(selection, cursor->next))
            continue;
        if (cursor->has_comma)
            pieces[n++] = span_of(",", 1);
        pieces[n++] = span_of(catalog->text + entry->piece, entry->piece_bytes);
        pieces[n++] = span_of(catalog->text + entry->formats, entry->formats_bytes);
        cursor->has_comma = true;
    }
    return n;
}

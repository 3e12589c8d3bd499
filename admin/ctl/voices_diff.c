#include "admin/ctl/voices_diff.h"

static const struct voice *find(const struct voice_table *table, struct span id)
{
    for (size_t i = 0; i < table->n_voices; i++)
        if (span_eq(table->voices[i].columns[VOICE_ID], id))
            return &table->voices[i];
    return NULL;
}

static bool has_item(struct span list, struct span wanted)
{
    struct span item;
    while (voice_list_next(&list, &item))
        if (span_eq(item, wanted))
            return true;
    return false;
}

/* The items of one list that the other has not. */
static bool write_items(struct span list, struct span other, char sign, struct buf *out)
{
    struct span item;
    bool is_any = false;
    while (voice_list_next(&list, &item))
        if (!has_item(other, item)) {
            buf_printf(out, " %c%.*s", sign, (int)item.len, item.ptr);
            is_any = true;
        }
    return is_any;
}

static void write_change(enum voice_column column, struct span before, struct span after, struct buf *out)
{
    buf_printf(out, "  %s:", voice_column_name(column));
    if (!voice_column_is_list(column)) {
        buf_printf(out, " %.*s -> %.*s", (int)before.len, before.ptr, (int)after.len, after.ptr);
        return;
    }
    bool are_new = write_items(after, before, '+', out), are_gone = write_items(before, after, '-', out);
    if (!are_new && !are_gone)
        buf_append_cstr(out, " in another order");
}

static bool write_changes(const struct voice *before, const struct voice *after, struct buf *out)
{
    bool is_any = false;
    for (size_t i = 0; i < VOICE_COLUMN_COUNT; i++) {
        if (span_eq(before->columns[i], after->columns[i]))
            continue;
        if (!is_any)
            buf_printf(out, "~ %.*s", (int)after->columns[VOICE_ID].len, after->columns[VOICE_ID].ptr);
        is_any = true;
        write_change((enum voice_column)i, before->columns[i], after->columns[i], out);
    }
    if (is_any)
        buf_append_char(out, '\n');
    return is_any;
}

static void write_line(char sign, const char *what, struct span text, struct buf *out)
{
    buf_printf(out, "%c %s%.*s\n", sign, what, (int)text.len, text.ptr);
}

/* Languages of one table whose title the other has not. */
static size_t write_titles(const struct voice_table *table, const struct voice_table *other, char sign,
                           struct buf *out)
{
    size_t n = 0;
    for (size_t i = 0; i < table->n_languages; i++) {
        const struct voice_language *language = &table->languages[i];
        if (span_eq(voice_language_title(other, language->code), language->title))
            continue;
        buf_printf(out, "%c language %.*s: %.*s\n", sign, (int)language->code.len, language->code.ptr,
                   (int)language->title.len, language->title.ptr);
        n++;
    }
    return n;
}

void voices_diff_write(const struct voice_table *before, const struct voice_table *after, struct buf *out,
                       struct voices_diff *totals)
{
    *totals = (struct voices_diff){ 0 };
    for (size_t i = 0; i < after->n_voices; i++) {
        const struct voice *voice = &after->voices[i], *old = find(before, voice->columns[VOICE_ID]);
        if (old == NULL) {
            write_line('+', "", voice->columns[VOICE_ID], out);
            totals->added++;
        } else if (write_changes(old, voice, out)) {
            totals->changed++;
        }
    }
    for (size_t i = 0; i < before->n_voices; i++)
        if (find(after, before->voices[i].columns[VOICE_ID]) == NULL) {
            write_line('-', "", before->voices[i].columns[VOICE_ID], out);
            totals->removed++;
        }
    totals->titles = write_titles(before, after, '-', out);
    totals->titles += write_titles(after, before, '+', out);
}

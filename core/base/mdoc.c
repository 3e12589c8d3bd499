#include "core/base/mdoc.h"

#include <stdbool.h>
#include <string.h>

enum { LINE_BYTES = 78 };

/* One word; at a line's beginning a dot or a quote is a request. */
static void write_word(struct buf *out, const char *word, size_t len, bool begins_line)
{
    if (begins_line && (word[0] == '.' || word[0] == '\''))
        buf_append_cstr(out, "\\&");
    for (size_t i = 0; i < len; i++) {
        if (word[i] == '\\')
            buf_append_cstr(out, "\\e");
        else
            buf_append_char(out, word[i]);
    }
}

void mdoc_write_text(struct buf *out, const char *text)
{
    size_t column = 0;
    while (*text != '\0') {
        size_t len = strcspn(text, " ");
        if (column > 0 && column + 1 + len > LINE_BYTES) {
            buf_append_char(out, '\n');
            column = 0;
        } else if (column > 0) {
            buf_append_char(out, ' ');
        }
        write_word(out, text, len, column == 0);
        column += len + (column > 0 ? 1 : 0);
        if (text[len - 1] == '.')
            column = LINE_BYTES; /* the next sentence begins a line */
        text += len;
        text += strspn(text, " ");
    }
    buf_append_char(out, '\n');
}

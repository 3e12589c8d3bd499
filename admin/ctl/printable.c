#include "admin/ctl/printable.h"

#include <stdbool.h>
#include <stdint.h>

/* The character at the beginning of the text; *len receives its bytes. U+0000 with one
 * byte stands for what is not UTF-8 (RFC 3629), and is not printed either. */
static uint32_t first_character(struct span text, size_t *len)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    unsigned char first = (unsigned char)text.ptr[0];
    size_t need = first < 0x80   ? 1
                  : first < 0xC0 ? 0
                  : first < 0xE0 ? 2
                  : first < 0xF0 ? 3
                  : first < 0xF8 ? 4
                                 : 0;

    *len = 1;
    if (need == 1)
        return first;
    if (need == 0 || need > text.len)
        return 0;
    uint32_t code = first & (0x7FU >> need);
    for (size_t i = 1; i < need; i++) {
        unsigned char next = (unsigned char)text.ptr[i];
        if ((next & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (next & 0x3F);
    }
    if (code < least[need] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        return 0;
    *len = need;
    return code;
}

/* Unicode's general categories Cc, Cf, Zl and Zp, as far as they are assigned. */
static const struct range {
    uint32_t first, last;
} unprintable[] = {
    { 0x0000, 0x001F },   { 0x007F, 0x009F },   { 0x00AD, 0x00AD },   { 0x0600, 0x0605 },
    { 0x061C, 0x061C },   { 0x06DD, 0x06DD },   { 0x070F, 0x070F },   { 0x0890, 0x0891 },
    { 0x08E2, 0x08E2 },   { 0x180E, 0x180E },   { 0x200B, 0x200F },   { 0x2028, 0x202E },
    { 0x2060, 0x206F },   { 0xFEFF, 0xFEFF },   { 0xFFF9, 0xFFFB },   { 0x110BD, 0x110BD },
    { 0x110CD, 0x110CD }, { 0x13430, 0x1343F }, { 0x1BCA0, 0x1BCA3 }, { 0x1D173, 0x1D17A },
    { 0xE0001, 0xE007F },
};

static bool is_printable(uint32_t code)
{
    for (size_t i = 0; i < sizeof(unprintable) / sizeof(unprintable[0]); i++)
        if (code >= unprintable[i].first && code <= unprintable[i].last)
            return false;
    return true;
}

size_t printable_append(struct buf *out, struct span text, size_t columns)
{
    size_t n = 0, last = out->len;

    while (text.len > 0) {
        size_t len;
        uint32_t code = first_character(text, &len);
        if (n == columns) { /* one too many: the last one makes room */
            if (columns > 0) {
                out->len = last;
                buf_append_cstr(out, "…");
            }
            return n;
        }
        last = out->len;
        if (is_printable(code))
            buf_append(out, text.ptr, len);
        else
            buf_append_char(out, '?');
        text = span_of(text.ptr + len, text.len - len);
        n++;
    }
    return n;
}

void printable_pad(struct buf *out, struct span text, size_t columns)
{
    for (size_t n = printable_append(out, text, columns); n < columns; n++)
        buf_append_char(out, ' ');
}

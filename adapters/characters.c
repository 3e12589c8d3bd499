#include "adapters/characters.h"

static const uint32_t REPLACEMENT = 0xFFFD;

struct range {
    uint32_t first, last;
};

/* Ascending. Of Unicode's Grapheme_Extend what stands in texts that people have read out. */
static const struct range EXTENDING[] = {
    { 0x0300, 0x036F },   { 0x0483, 0x0489 },   { 0x0591, 0x05BD }, { 0x0610, 0x061A }, { 0x064B, 0x065F },
    { 0x0900, 0x0903 },   { 0x093A, 0x093C },   { 0x093E, 0x094F }, { 0x0E31, 0x0E31 }, { 0x0E34, 0x0E3A },
    { 0x0E47, 0x0E4E },   { 0x1AB0, 0x1AFF },   { 0x1DC0, 0x1DFF }, { 0x200C, 0x200D }, { 0x20D0, 0x20FF },
    { 0x302A, 0x302F },   { 0x3099, 0x309A },   { 0xFE00, 0xFE0F }, { 0xFE20, 0xFE2F }, { 0x1F3FB, 0x1F3FF },
    { 0xE0020, 0xE007F }, { 0xE0100, 0xE01EF },
};

/* Ascending. Beyond ASCII, what cannot be read out. */
static const struct range SILENT[] = {
    { 0x0080, 0x00A9 }, { 0x00AB, 0x00B1 }, { 0x00B4, 0x00B4 }, { 0x00B6, 0x00B8 },   { 0x00BB, 0x00BB },
    { 0x00BF, 0x00BF }, { 0x00D7, 0x00D7 }, { 0x00F7, 0x00F7 }, { 0x02B9, 0x036F },   { 0x2000, 0x206F },
    { 0x20D0, 0x20FF }, { 0x2190, 0x245F }, { 0x2500, 0x2BFF }, { 0x2E00, 0x2E7F },   { 0x3000, 0x3004 },
    { 0x3008, 0x3020 }, { 0x3030, 0x3030 }, { 0x303D, 0x303F }, { 0x30FB, 0x30FB },   { 0xD800, 0xF8FF },
    { 0xFD3E, 0xFD3F }, { 0xFE00, 0xFE6F }, { 0xFEFF, 0xFEFF }, { 0xFF01, 0xFF0F },   { 0xFF1A, 0xFF20 },
    { 0xFF3B, 0xFF40 }, { 0xFF5B, 0xFF65 }, { 0xFFE0, 0xFFFF }, { 0x1F000, 0x1FAFF }, { 0xE0000, 0x10FFFF },
};

static bool is_in(const struct range *ranges, size_t count, uint32_t code)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (code > ranges[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && code >= ranges[low].first;
}

/* The bytes that the first byte announces, and its bits; 0: it can be no first byte. */
static size_t read_lead(unsigned char lead, uint32_t *bits)
{
    if (lead < 0x80) {
        *bits = lead;
        return 1;
    }
    size_t need = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    *bits = lead & (0x7FU >> need);
    return lead < 0xC2 || lead > 0xF4 ? 0 : need;
}

uint32_t character_take(struct span *rest)
{
    static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *p = (const unsigned char *)rest->ptr;
    uint32_t code;
    size_t need = read_lead(p[0], &code), n = 1;

    while (n < need && n < rest->len && (p[n] & 0xC0) == 0x80)
        code = code << 6 | (p[n++] & 0x3F);
    if (need == 0 || n != need || code < least[need] || code > 0x10FFFF ||
        (code >= 0xD800 && code <= 0xDFFF)) {
        n = 1;
        code = REPLACEMENT;
    }
    *rest = span_of(rest->ptr + n, rest->len - n);
    return code;
}

bool character_extends(uint32_t code)
{
    return is_in(EXTENDING, sizeof(EXTENDING) / sizeof(EXTENDING[0]), code);
}

static bool is_readable(uint32_t code)
{
    if (code < 0x80)
        return (code >= '0' && code <= '9') || ((code | 0x20) >= 'a' && (code | 0x20) <= 'z');
    return !is_in(SILENT, sizeof(SILENT) / sizeof(SILENT[0]), code);
}

bool character_any_readable(struct span text)
{
    while (text.len > 0)
        if (is_readable(character_take(&text)))
            return true;
    return false;
}

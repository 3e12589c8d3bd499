/* Whether bytes are UTF-8 (RFC 3629), read by arithmetic: as unlike the scanner's
 * table as can be. */
#ifndef TESTS_UNIT_UTF8_H
#define TESTS_UNIT_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/span.h"

static inline bool is_utf8(struct span text)
{
    static const unsigned least[] = { 0, 0, 0x80, 0x800, 0x10000 };
    const unsigned char *p = (const unsigned char *)text.ptr;
    for (size_t i = 0; i < text.len;) {
        size_t n = p[i] < 0x80 ? 1 : p[i] >= 0xF0 ? 4 : p[i] >= 0xE0 ? 3 : 2;
        unsigned code = n == 1 ? p[i] : p[i] & (0xFFu >> (n + 1));
        if ((p[i] >= 0x80 && p[i] < 0xC0) || p[i] >= 0xF8 || n > text.len - i)
            return false;
        for (size_t k = 1; k < n; k++) {
            if ((p[i + k] & 0xC0) != 0x80)
                return false;
            code = code << 6 | (p[i + k] & 0x3F);
        }
        if (code < least[n] || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
            return false;
        i += n;
    }
    return true;
}

#endif

#include "adapters/base64_reader.h"

static int value_of(unsigned char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == '+')
        return 62;
    return c == '/' ? 63 : -1;
}

static bool take_padding(struct base64_reader *reader)
{
    reader->n_padding++;
    return reader->n_digits >= 2 && reader->n_digits + reader->n_padding <= 4;
}

size_t base64_read(struct base64_reader *reader, struct span digits, unsigned char *out, size_t *n_out)
{
    size_t n = 0, i = 0;
    for (; i < digits.len; i++) {
        unsigned char c = (unsigned char)digits.ptr[i];
        int value = value_of(c);
        if (c == '=' && take_padding(reader))
            continue;
        if (value < 0 || reader->n_padding > 0)
            break;
        reader->bits = reader->bits << 6 | (uint32_t)value;
        reader->n_bits += 6;
        reader->n_digits = (reader->n_digits + 1) % 4;
        if (reader->n_bits >= 8) {
            reader->n_bits -= 8;
            out[n++] = (unsigned char)(reader->bits >> reader->n_bits);
        }
    }
    *n_out = n;
    return i;
}

bool base64_may_end(const struct base64_reader *reader)
{
    return reader->n_digits != 1 && (reader->n_padding == 0 || reader->n_digits + reader->n_padding == 4);
}

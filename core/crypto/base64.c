#include "core/crypto/digest.h"

#include "core/base/err.h"

static const char url_alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
static const char standard_alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Digits without padding; returns how many. */
static size_t encode(const char *alphabet, struct span in, char *out)
{
    size_t n = 0;
    unsigned bits = 0, held = 0;
    for (size_t i = 0; i < in.len; i++) {
        bits = (bits << 8 | (unsigned char)in.ptr[i]) & 0xffff;
        held += 8;
        for (; held >= 6; held -= 6)
            out[n++] = alphabet[bits >> (held - 6) & 63];
    }
    if (held > 0)
        out[n++] = alphabet[bits << (6 - held) & 63];
    return n;
}

/* The digit's value, or -1. Arithmetic, not a table: the timing of a lookup
 * would depend on a master key's bytes. */
static int digit_value(unsigned char c, const char *alphabet)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    if (c == (unsigned char)alphabet[62])
        return 62;
    return c == (unsigned char)alphabet[63] ? 63 : -1;
}

static long decode(const char *alphabet, struct span in, unsigned char *out)
{
    size_t n = 0;
    unsigned bits = 0, held = 0;
    if (in.len % 4 == 1)
        return ERR_FORMAT;
    for (size_t i = 0; i < in.len; i++) {
        int value = digit_value((unsigned char)in.ptr[i], alphabet);
        if (value < 0)
            return ERR_FORMAT;
        bits = (bits << 6 | (unsigned)value) & 0xffff;
        held += 6;
        if (held >= 8) {
            held -= 8;
            out[n++] = (unsigned char)(bits >> held);
        }
    }
    /* Two texts must not mean the same bytes. */
    return (bits & ((1U << held) - 1)) == 0 ? (long)n : ERR_FORMAT;
}

size_t base64url_size(size_t bytes)
{
    return (bytes * 4 + 2) / 3 + 1;
}

void base64url_encode(struct span in, char *out)
{
    out[encode(url_alphabet, in, out)] = '\0';
}

long base64url_decode(struct span in, unsigned char *out)
{
    return decode(url_alphabet, in, out);
}

size_t base64_size(size_t bytes)
{
    return (bytes + 2) / 3 * 4 + 1;
}

void base64_encode(struct span in, char *out)
{
    size_t n = encode(standard_alphabet, in, out);
    while (n % 4 != 0)
        out[n++] = '=';
    out[n] = '\0';
}

long base64_decode(struct span in, unsigned char *out)
{
    if (in.len % 4 != 0)
        return ERR_FORMAT;
    for (int padding = 0; padding < 2 && in.len > 0 && in.ptr[in.len - 1] == '='; padding++)
        in.len--;
    return decode(standard_alphabet, in, out);
}

#include "core/base/ids.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

void ids_random(void *out, size_t bytes)
{
    unsigned char *p = out;
    while (bytes > 0) {
        ssize_t n = getrandom(p, bytes, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            abort();
        p += n;
        bytes -= (size_t)n;
    }
}

/* Random bytes for identifiers, fetched many at a time. The kernel empties the page in
 * a child, so that no two processes make the same ones. */
struct pool {
    size_t left;
    unsigned char bytes[4096 - sizeof(size_t)];
};

static struct pool *pool_open(void)
{
    struct pool *pool = mmap(NULL, sizeof(*pool), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pool == MAP_FAILED || madvise(pool, sizeof(*pool), MADV_WIPEONFORK) != 0)
        abort(); /* no memory; the kernel offers this since 4.14 */
    return pool;
}

static void take_16(unsigned char out[16])
{
    static struct pool *pool;

    if (pool == NULL)
        pool = pool_open();
    if (pool->left < 16) {
        ids_random(pool->bytes, sizeof(pool->bytes));
        pool->left = sizeof(pool->bytes);
    }
    pool->left -= 16;
    memcpy(out, pool->bytes + pool->left, 16);
}

void ids_hex(const void *in, size_t bytes, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = in;
    for (size_t i = 0; i < bytes; i++) {
        out[2 * i] = digits[p[i] >> 4];
        out[2 * i + 1] = digits[p[i] & 15];
    }
    out[2 * bytes] = '\0';
}

void ids_uuid7(uint64_t wall_us, char out[UUID_TEXT_BYTES])
{
    static const size_t bytes_of_group[] = { 4, 2, 2, 2, 6 };
    unsigned char b[16];
    uint64_t ms = wall_us / 1000;
    unsigned fraction = (unsigned)(wall_us % 1000) * 4096 / 1000; /* RFC 9562, 6.2, method 3 */

    take_16(b);
    for (int i = 0; i < 6; i++)
        b[i] = (unsigned char)(ms >> (40 - 8 * i));
    b[6] = (unsigned char)(0x70 | (fraction >> 8));
    b[7] = (unsigned char)fraction;
    b[8] = (unsigned char)(0x80 | (b[8] & 0x3f));
    for (size_t group = 0, at = 0; group < 5; at += bytes_of_group[group++]) {
        if (group > 0)
            *out++ = '-';
        ids_hex(b + at, bytes_of_group[group], out);
        out += 2 * bytes_of_group[group];
    }
}

void ids_request_id(char out[REQUEST_ID_TEXT_BYTES])
{
    unsigned char b[16];
    take_16(b);
    ids_hex(b, sizeof(b), out);
}

void ids_nanoid(char out[NANOID_TEXT_BYTES])
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    unsigned char b[NANOID_TEXT_BYTES - 1];

    ids_random(b, sizeof(b));
    while (alphabet[b[0] & 63] == '-')
        ids_random(b, 1);
    for (size_t i = 0; i < sizeof(b); i++)
        out[i] = alphabet[b[i] & 63];
    out[sizeof(b)] = '\0';
}

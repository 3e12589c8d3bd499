/*
 * A provider's key leaves no trace in the memory of a process that sent it: after
 * an exchange, all writable memory is searched for it, whole, in parts, in base64.
 */
#include <check.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/crypto/digest.h"
#include "core/upstream/exchange.h"
#include "core/upstream/trust.h"
#include "core/upstream/wiping_alloc.h"
#include "tests/unit/run_exchange.h"
#include "tests/unit/server_process.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum {
    KEY_BYTES = 48,
    PART_BYTES = 12,
    MASK = 0xa5,
    CHUNK_BYTES = 1 << 20,
    NEEDLES_MAX = 8,
};

/* What is looked for is kept under a mask: it would find itself. */
struct needle {
    unsigned char masked[PART_BYTES];
};

static unsigned char masked_key[KEY_BYTES];
static struct needle needles[NEEDLES_MAX];
static size_t n_needles;

static void add_needle(const char *part)
{
    ck_assert_uint_lt(n_needles, NEEDLES_MAX);
    for (size_t i = 0; i < PART_BYTES; i++)
        needles[n_needles].masked[i] = (unsigned char)part[i] ^ MASK;
    n_needles++;
}

/* A random key, and what would show a copy of it: its beginning, middle and end,
 * and the middle in base64, which has three forms. */
static void make_key(void)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    unsigned char random[KEY_BYTES];
    char key[KEY_BYTES], shifted[2 + KEY_BYTES], encoded[128];

    FILE *source = fopen("/dev/urandom", "re");
    ck_assert_ptr_nonnull(source);
    setvbuf(source, NULL, _IONBF, 0);
    ck_assert_uint_eq(fread(random, 1, sizeof(random), source), sizeof(random));
    fclose(source);
    for (size_t i = 0; i < KEY_BYTES; i++) {
        key[i] = digits[random[i] % (sizeof(digits) - 1)];
        masked_key[i] = (unsigned char)key[i] ^ MASK;
    }
    n_needles = 0;
    add_needle(key);
    add_needle(key + KEY_BYTES / 2);
    add_needle(key + KEY_BYTES - PART_BYTES);
    for (size_t shift = 0; shift < 3; shift++) {
        memset(shifted, 'x', sizeof(shifted));
        memcpy(shifted + shift, key, KEY_BYTES);
        EVP_EncodeBlock((unsigned char *)encoded, (unsigned char *)shifted, (int)(shift + KEY_BYTES));
        add_needle(encoded + 24);
    }
    explicit_bzero(random, sizeof(random));
    explicit_bzero(key, sizeof(key));
    explicit_bzero(shifted, sizeof(shifted));
    explicit_bzero(encoded, sizeof(encoded));
}

/* "Authorization: Bearer KEY", for the caller to wipe. */
static char *write_key_header(size_t *size)
{
    static const char before[] = "Authorization: Bearer ";
    *size = sizeof(before) + KEY_BYTES;
    char *line = xmalloc(*size);
    memcpy(line, before, sizeof(before) - 1);
    for (size_t i = 0; i < KEY_BYTES; i++)
        line[sizeof(before) - 1 + i] = (char)(masked_key[i] ^ MASK);
    line[*size - 1] = '\0';
    return line;
}

static size_t count_in(const unsigned char *bytes, size_t len)
{
    size_t found = 0;
    for (size_t n = 0; n < n_needles; n++) {
        unsigned char first = needles[n].masked[0] ^ MASK;
        const unsigned char *at = bytes;
        while (len - (size_t)(at - bytes) >= PART_BYTES &&
               (at = memchr(at, first, len - (size_t)(at - bytes) - (PART_BYTES - 1))) != NULL) {
            size_t i = 1;
            while (i < PART_BYTES && (at[i] ^ MASK) == needles[n].masked[i])
                i++;
            found += i == PART_BYTES;
            at++;
        }
    }
    return found;
}

/* Traces in this process's writable memory. */
static size_t count_traces(void)
{
    static unsigned char bytes[CHUNK_BYTES];
    FILE *maps = fopen("/proc/self/maps", "re");
    FILE *memory = fopen("/proc/self/mem", "re");
    char line[512], rights[8];
    unsigned long from, to;
    size_t found = 0, regions = 0;

    ck_assert(maps != NULL && memory != NULL);
    memset(bytes, 0, sizeof(bytes));
    while (fgets(line, sizeof(line), maps) != NULL) {
        if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) != 3 || rights[1] != 'w' ||
            to - from > 1UL << 30) /* AddressSanitizer's shadow */
            continue;
        regions++;
        for (unsigned long at = from; at < to; at += CHUNK_BYTES - PART_BYTES) {
            size_t want = to - at < CHUNK_BYTES ? to - at : CHUNK_BYTES;
            ssize_t n = pread(fileno(memory), bytes, want, (off_t)at);
            if (n > 0)
                found += count_in(bytes, (size_t)n);
        }
    }
    ck_assert_uint_gt(regions, 3);
    fclose(maps);
    fclose(memory);
    return found;
}

/* --- exchanges --- */

static struct exchange_client *client;
static struct authority authority;
static struct trust trust;
static char ca_file[] = "/tmp/test_secrets.XXXXXX";

static enum exchange_want on_head(void *ctx, const struct exchange_head *head)
{
    (void)ctx;
    (void)head;
    return EXCHANGE_MORE;
}

static enum exchange_want on_data(void *ctx, struct span piece)
{
    (void)ctx;
    (void)piece;
    return EXCHANGE_CONTENT;
}

static struct exchange_result send_key(const char *url, size_t body_bytes, uint32_t clock_ms)
{
    const struct exchange_receiver receiver = { .on_head = on_head, .on_data = on_data };
    struct exchange_result result;
    struct splice splice;
    size_t size;
    char *body = xmalloc(body_bytes), *line = write_key_header(&size);
    const char *const headers[] = { line, "Content-Type: application/json", NULL };

    memset(body, ' ', body_bytes);
    splice_init(&splice, span_of(body, body_bytes));
    const struct exchange_request request = {
        .url = url,
        .headers = headers,
        .body = &splice,
        .clocks = { .connect_ms = clock_ms / 2,
                    .first_content_ms = clock_ms,
                    .idle_ms = clock_ms,
                    .chain_us = clock_monotonic_us() + 60 * US_PER_S },
        .caller_fd = -1,
    };
    run_exchange(client, &request, &receiver, &result);
    explicit_bzero(line, size);
    free(line);
    free(body);
    return result;
}

static void set_up(void)
{
    struct error e;
    int fd = mkstemp(ca_file);
    ck_assert_int_ge(fd, 0);
    close(fd);
    authority_make(&authority, "authority");
    authority_append(&authority, ca_file);
    trust = (struct trust){ .path = ca_file };
    ck_assert_ptr_nonnull(trust_store(&trust));
    unlink(ca_file);
    ck_assert_int_eq(exchange_init_master(&e), 0);
    ck_assert_int_eq(exchange_open(&trust, &client, &e), 0);
}

static void tear_down(void)
{
    exchange_close(client);
    trust_free(&trust);
    authority_free(&authority);
}

static const size_t body_bytes[] = { 2, 500, 60000, 900000 };

START_TEST(a_key_that_was_sent_is_in_no_memory_afterwards)
{
    bool is_tls = _i % 2 == 1;
    size_t body = body_bytes[_i / 2];
    struct server_process server;
    char url[64];

    server_process_start(&server, is_tls ? server_tls(&authority, "IP:127.0.0.1", 3600) : NULL);
    snprintf(url, sizeof(url), "http%s://127.0.0.1:%d/", is_tls ? "s" : "", server.port);
    make_key(); /* after the fork: the server gets it from the network only */
    for (int i = 0; i < 2; i++) {
        struct exchange_result result = send_key(url, body, 10000);
        ck_assert_msg(result.end == EXCHANGE_END_WHOLE, "%s", exchange_end_name(result.end));
        ck_assert(result.is_reused == (i > 0));
        size_t traces = count_traces();
        ck_assert_msg(traces == 0, "%zu traces after exchange %d over %s with a body of %zu bytes", traces,
                      i + 1, url, body);
    }
    exchange_close(client);
    client = NULL;
    ck_assert_uint_eq(count_traces(), 0);
    ck_assert_uint_eq(server_process_stop(&server), 2);
}
END_TEST

/* A port of the loopback address, at which somebody may listen, and nobody accepts. */
static int take_port(bool listens, int *port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    if (listens)
        ck_assert_int_eq(listen(fd, 8), 0);
    *port = ntohs(address.sin_port);
    return fd;
}

START_TEST(keys_of_two_exchanges_that_were_cancelled_are_in_no_memory_afterwards)
{
    const struct exchange_receiver receiver = { .on_head = on_head, .on_data = on_data };
    const struct exchange_clocks clocks = { 20000, 20000, 20000, clock_monotonic_us() + 60 * US_PER_S };
    struct exchange_result results[EXCHANGES_MAX];
    struct exchange_request requests[EXCHANGES_MAX];
    struct exchange *running[EXCHANGES_MAX];
    const char *headers[EXCHANGES_MAX][2];
    struct splice body;
    size_t size;
    char url[64];
    int port, fd = take_port(true, &port);

    snprintf(url, sizeof(url), "http://127.0.0.1:%d/", port);
    make_key();
    splice_init(&body, span_cstr("{}"));
    for (size_t i = 0; i < EXCHANGES_MAX; i++) {
        headers[i][0] = write_key_header(&size);
        headers[i][1] = NULL;
        requests[i] = (struct exchange_request){
            .url = url, .headers = headers[i], .body = &body, .clocks = clocks, .caller_fd = -1
        };
        running[i] = exchange_begin(client, &requests[i], &receiver, &results[i]);
        ck_assert_ptr_nonnull(running[i]);
    }
    ck_assert_ptr_null(exchange_wait(client, clock_monotonic_us() + 200 * US_PER_MS));
    for (size_t i = 0; i < EXCHANGES_MAX; i++) {
        exchange_cancel(running[i]);
        ck_assert_ptr_eq(exchange_wait(client, UINT64_MAX), running[i]);
        ck_assert_uint_gt(results[i].bytes_out, 0);
        explicit_bzero((char *)(uintptr_t)headers[i][0], size);
        free((char *)(uintptr_t)headers[i][0]);
    }
    size_t traces = count_traces();
    ck_assert_msg(traces == 0, "%zu traces", traces);
    close(fd);
}
END_TEST

/* Ends in which libcurl is interrupted with the request in its hands. */
START_TEST(a_key_that_could_not_be_sent_is_in_no_memory_afterwards)
{
    static const struct {
        const char *scheme;
        bool listens;
        size_t body_bytes;
        enum exchange_end end;
    } rows[] = {
        { "http", false, 500, EXCHANGE_END_REFUSED },
        { "https", false, 500, EXCHANGE_END_REFUSED },
        { "https", true, 500, EXCHANGE_END_TIMEOUT_CONNECT },
        { "http", true, 500, EXCHANGE_END_TIMEOUT_FIRST_CONTENT },
        { "http", true, 16 << 20, EXCHANGE_END_TIMEOUT_FIRST_CONTENT }, /* more than a socket takes */
    };
    char url[64];

    for (size_t i = 0; i < COUNT(rows); i++) {
        int port, fd = take_port(rows[i].listens, &port);
        snprintf(url, sizeof(url), "%s://127.0.0.1:%d/", rows[i].scheme, port);
        make_key();
        struct exchange_result result = send_key(url, rows[i].body_bytes, 200);
        size_t traces = count_traces();
        ck_assert_msg(result.end == rows[i].end && traces == 0, "row %zu: %s, %zu traces", i,
                      exchange_end_name(result.end), traces);
        close(fd);
    }
}
END_TEST

START_TEST(a_copy_that_stays_is_found)
{
    size_t size;
    make_key();
    ck_assert_uint_eq(count_traces(), 0);
    char *line = write_key_header(&size);
    ck_assert_uint_ge(count_traces(), 3);
    explicit_bzero(line, size);
    ck_assert_uint_eq(count_traces(), 0);
    free(line);
}
END_TEST

/* --- the allocator --- */

static bool is_wiped(const char *freed, size_t len)
{
    char bytes[256] = { 0 };
    FILE *memory = fopen("/proc/self/mem", "re");
    ck_assert(memory != NULL && len <= sizeof(bytes));
    ssize_t n = pread(fileno(memory), bytes, len, (off_t)(uintptr_t)freed);
    fclose(memory);
    return n != (ssize_t)len || memchr(bytes, 'k', len) == NULL;
}

START_TEST(freed_and_moved_blocks_are_overwritten)
{
    for (size_t len = 1; len <= 256; len++) {
        char *block = wiping_malloc(len);
        ck_assert_uint_eq((uintptr_t)block % 16, 0);
        memset(block, 'k', len);
        char *moved = wiping_realloc(block, len * 2);
        ck_assert_msg(is_wiped(block, len), "moved, %zu bytes", len);
        for (size_t i = 0; i < len; i++)
            ck_assert_int_eq(moved[i], 'k');
        char *shrunk = wiping_realloc(moved, (len + 1) / 2);
        ck_assert_msg(is_wiped(moved, len), "shrunk, %zu bytes", len);
        ck_assert_int_eq(shrunk[(len + 1) / 2 - 1], 'k');
        wiping_free(shrunk);
        ck_assert_msg(is_wiped(shrunk, (len + 1) / 2), "freed, %zu bytes", len);
    }
}
END_TEST

START_TEST(the_allocator_is_the_c_librarys_in_every_other_way)
{
    char *none = wiping_malloc(0), *text = wiping_strdup("text"), *empty = wiping_strdup("");
    unsigned char *zeroed = wiping_calloc(33, 3), *fresh = wiping_realloc(NULL, 5);
    ck_assert(none != NULL && fresh != NULL);
    ck_assert_str_eq(text, "text");
    ck_assert_str_eq(empty, "");
    for (size_t i = 0; i < 99; i++)
        ck_assert_uint_eq(zeroed[i], 0);
    volatile size_t most = SIZE_MAX;
    ck_assert_ptr_null(wiping_malloc(most));
    ck_assert_ptr_null(wiping_calloc(most / 2, 3));
    ck_assert_ptr_null(wiping_realloc(text, most));
    ck_assert_str_eq(text, "text"); /* as it was */
    wiping_free(NULL);
    wiping_free(none);
    wiping_free(text);
    wiping_free(empty);
    wiping_free(zeroed);
    wiping_free(fresh);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("secrets");
    TCase *exchanges = tcase_create("exchanges"), *allocator = tcase_create("allocator");
    tcase_add_checked_fixture(exchanges, set_up, tear_down);
    tcase_set_timeout(exchanges, 60);
    tcase_add_loop_test(exchanges, a_key_that_was_sent_is_in_no_memory_afterwards, 0,
                        2 * (int)COUNT(body_bytes));
    tcase_add_test(exchanges, a_key_that_could_not_be_sent_is_in_no_memory_afterwards);
    tcase_add_test(exchanges, keys_of_two_exchanges_that_were_cancelled_are_in_no_memory_afterwards);
    tcase_add_test(exchanges, a_copy_that_stays_is_found);
    tcase_add_test(allocator, freed_and_moved_blocks_are_overwritten);
    tcase_add_test(allocator, the_allocator_is_the_c_librarys_in_every_other_way);
    suite_add_tcase(suite, exchanges);
    suite_add_tcase(suite, allocator);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}

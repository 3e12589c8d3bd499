#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/base/clock.h"
#include "core/base/err.h"
#include "core/base/file.h"
#include "core/base/ids.h"
#include "core/base/span.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- arena ---- */

START_TEST(arena_pieces_are_aligned_and_apart)
{
    static const size_t sizes[] = { 0, 1, 15, 16, 17, 4000, 16 * 1024, 16 * 1024 + 1, 65535, 65536, 1 << 20 };
    struct arena *arena = arena_new();
    unsigned char *pieces[COUNT(sizes)];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < COUNT(sizes); i++) {
            pieces[i] = arena_alloc(arena, sizes[i]);
            ck_assert_ptr_nonnull(pieces[i]);
            ck_assert_msg((uintptr_t)pieces[i] % _Alignof(max_align_t) == 0, "%zu bytes", sizes[i]);
            memset(pieces[i], (int)i + 1, sizes[i]);
        }
        for (size_t i = 0; i < COUNT(sizes); i++)
            for (size_t k = 0; k < sizes[i]; k++)
                if (pieces[i][k] != i + 1)
                    ck_abort_msg("byte %zu of the piece of %zu bytes was overwritten", k, sizes[i]);
        arena_reset(arena);
    }
    arena_free(arena);
}
END_TEST

START_TEST(arena_zeroes_what_it_is_asked_to_also_after_reuse)
{
    static const size_t sizes[] = { 100, 65535, 65536, 300000 };
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT(sizes); i++) {
        memset(arena_alloc(arena, sizes[i]), 0xAA, sizes[i]);
        arena_reset(arena);
        unsigned char *zeroed = arena_calloc(arena, sizes[i], 1);
        for (size_t k = 0; k < sizes[i]; k++)
            if (zeroed[k] != 0)
                ck_abort_msg("byte %zu of %zu", k, sizes[i]);
        arena_reset(arena);
    }
    arena_free(arena);
}
END_TEST

static size_t resident_pages(void)
{
    unsigned long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%lu %lu", &size, &resident), 2);
    fclose(f);
    return resident;
}

START_TEST(arena_returns_large_pieces_to_the_system_at_reset)
{
    struct arena *arena = arena_new();
    size_t bytes = 64 << 20, page = (size_t)sysconf(_SC_PAGESIZE);
    volatile char *large = arena_alloc(arena, bytes);
    for (size_t i = 0; i < bytes; i += page)
        large[i] = 1;
    size_t before = resident_pages();
    arena_reset(arena);
    ck_assert_uint_le(resident_pages() + bytes / page / 2, before);
    arena_free(arena);
}
END_TEST

struct trace {
    struct arena *arena;
    char order[8];
    size_t n;
    const char *kept;
};

static struct trace trace;

static void run_a(void *arg)
{
    ((struct trace *)arg)->order[((struct trace *)arg)->n++] = 'a';
}

static void run_b(void *arg)
{
    struct trace *t = arg;
    t->order[t->n++] = 'b';
    ck_assert_str_eq(t->kept, "still here");
    arena_on_reset(t->arena, run_a, t);
    (void)arena_alloc(t->arena, 100000);
}

START_TEST(arena_runs_clean_ups_in_reverse_order_before_the_memory_goes)
{
    trace = (struct trace){ .arena = arena_new() };
    trace.kept = arena_strdup(trace.arena, "still here");
    arena_on_reset(trace.arena, run_a, &trace);
    arena_on_reset(trace.arena, run_b, &trace);
    arena_reset(trace.arena);
    /* b adds another a, which runs in the same reset. */
    ck_assert_str_eq(trace.order, "baa");
    arena_reset(trace.arena);
    ck_assert_str_eq(trace.order, "baa");
    arena_on_reset(trace.arena, run_a, &trace);
    arena_free(trace.arena);
    ck_assert_str_eq(trace.order, "baaa");
    arena_free(NULL);
}
END_TEST

START_TEST(arena_copies_text)
{
    struct arena *arena = arena_new();
    char large[100001];
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    ck_assert_str_eq(arena_span(arena, span_of("abcdef", 3)), "abc");
    ck_assert_str_eq(arena_span(arena, span_of(NULL, 0)), "");
    ck_assert_str_eq(arena_strdup(arena, large), large);
    ck_assert_str_eq(arena_printf(arena, "%d-%s", 7, "x"), "7-x");
    ck_assert_str_eq(arena_printf(arena, "%s", large), large);
    ck_assert_str_eq(arena_printf(arena, "%s", ""), "");
    arena_free(arena);
}
END_TEST

START_TEST(arena_ends_the_process_when_a_product_overflows)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct arena *arena = arena_new();
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDERR_FILENO);
        (void)arena_calloc(arena, SIZE_MAX / 2, 3);
        _exit(0);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
END_TEST

/* ---- buf ---- */

START_TEST(buf_holds_its_limit_and_not_a_byte_more)
{
    static const size_t limits[] = { 0, 1, 255, 256, 257, 1000, 100000 };
    for (size_t i = 0; i < COUNT(limits); i++) {
        struct buf buf;
        buf_init(&buf, limits[i]);
        for (size_t k = 0; k < limits[i]; k++)
            ck_assert_int_eq(buf_append_char(&buf, (char)('a' + k % 26)), 0);
        ck_assert(!buf.overflowed);
        ck_assert_int_eq(buf_append_char(&buf, '!'), ERR_LIMIT);
        ck_assert(buf.overflowed && buf.len == limits[i] &&
                  buf.capacity <= (limits[i] < 256 ? 256 : limits[i]));
        for (size_t k = 0; k < limits[i]; k++)
            ck_assert_int_eq(buf.data[k], (char)('a' + k % 26));
        buf_clear(&buf);
        ck_assert(!buf.overflowed && buf.len == 0);
        buf_free(&buf);
        ck_assert_ptr_null(buf.data);
    }
}
END_TEST

/* Whatever is lent: nothing, less than is needed, as much, more than the limit. */
START_TEST(buf_in_lent_memory_takes_what_any_other_does_and_leaves_the_rest_alone)
{
    static const size_t sizes[] = { 0, 1, 7, 8, 300, 999, 1000, 1001, 1200 };
    enum { LIMIT = 1000 };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char memory[1300];
        struct buf buf;
        memset(memory, '#', sizeof(memory));
        buf_init_in(&buf, memory, sizes[i], LIMIT);
        for (int n = 0; n < LIMIT / 8; n++) {
            ck_assert_int_eq(buf_append_cstr(&buf, "12345678"), 0);
            bool is_there = buf.data == memory, fits = (size_t)(n + 1) * 8 <= sizes[i];
            ck_assert_msg(is_there == fits, "%zu bytes lent, %d appended: %s", sizes[i], (n + 1) * 8,
                          is_there ? "still there" : "moved");
        }
        ck_assert_int_eq(buf_append_char(&buf, 'x'), ERR_LIMIT);
        for (size_t at = 0; at < LIMIT; at++)
            ck_assert_msg(buf.data[at] == "12345678"[at % 8], "%zu bytes lent: byte %zu is %c", sizes[i], at,
                          buf.data[at]);
        for (size_t at = sizes[i] < LIMIT ? sizes[i] : LIMIT; at < sizeof(memory); at++)
            ck_assert_msg(memory[at] == '#', "%zu bytes lent: byte %zu was written", sizes[i], at);
        buf_free(&buf);
        ck_assert_int_eq(buf_append_cstr(&buf, "again"), 0);
        ck_assert_ptr_ne(buf.data, memory);
        buf_free(&buf);
    }
}
END_TEST

START_TEST(buf_leaves_out_whole_what_does_not_fit)
{
    struct buf buf;
    buf_init(&buf, 8);
    ck_assert_int_eq(buf_append_cstr(&buf, "abcd"), 0);
    ck_assert_int_eq(buf_append_cstr(&buf, "efghi"), ERR_LIMIT);
    ck_assert_int_eq(buf_printf(&buf, "%d", 12345), ERR_LIMIT);
    ck_assert_int_eq(buf_append(&buf, "", SIZE_MAX), ERR_LIMIT);
    ck_assert_int_eq(buf_append_span(&buf, span_cstr("efgh")), 0);
    ck_assert(span_is(buf_span(&buf), "abcdefgh") && buf.overflowed);
    buf_free(&buf);
}
END_TEST

START_TEST(buf_formats_text_of_any_length)
{
    static const int widths[] = { 1, 255, 256, 257, 10000 };
    for (size_t i = 0; i < COUNT(widths); i++) {
        struct buf buf;
        buf_init(&buf, 20000);
        ck_assert_int_eq(buf_append_cstr(&buf, "<"), 0);
        ck_assert_int_eq(buf_printf(&buf, "%*d>", widths[i], 7), 0);
        ck_assert_uint_eq(buf.len, (size_t)widths[i] + 2);
        ck_assert(buf.data[0] == '<' && buf.data[buf.len - 2] == '7' && buf.data[buf.len - 1] == '>');
        buf_free(&buf);
    }
}
END_TEST

START_TEST(buf_writes_numbers_in_digits)
{
    static const struct {
        uint64_t value;
        const char *text;
    } numbers[] = {
        { 0, "0" },
        { 7, "7" },
        { 10, "10" },
        { 99, "99" },
        { 100, "100" },
        { 1234567890, "1234567890" },
        { UINT64_MAX, "18446744073709551615" },
    };
    for (size_t i = 0; i < COUNT(numbers); i++) {
        struct buf buf;
        buf_init(&buf, 30);
        ck_assert_int_eq(buf_append_uint(&buf, numbers[i].value), 0);
        ck_assert_msg(span_is(buf_span(&buf), numbers[i].text), "%.*s instead of %s", (int)buf.len, buf.data,
                      numbers[i].text);
        buf_free(&buf);
    }
}
END_TEST

START_TEST(span_is_copied_as_far_as_there_is_room)
{
    static const struct {
        const char *text;
        size_t size;
        const char *copy;
    } rows[] = {
        { "abc", 5, "abc" }, { "abc", 4, "abc" }, { "abc", 3, "ab" }, { "abc", 1, "" }, { NULL, 4, "" }
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char out[6] = "#####";
        span_copy_text(span_cstr(rows[i].text), out, rows[i].size);
        ck_assert_str_eq(out, rows[i].copy);
        ck_assert_msg(out[rows[i].size] == '#' || rows[i].size == 5, "row %zu: written beyond its room", i);
    }
}
END_TEST

START_TEST(arena_joins_pieces_and_ends_them)
{
    struct arena *arena = arena_new();
    const struct span pieces[] = { span_cstr("Name"), span_cstr(NULL), span_cstr(": "),
                                   span_of("valueX", 5) };
    static const char *const joined[] = { "", "Name", "Name", "Name: ", "Name: value" };
    for (size_t n = 0; n <= COUNT(pieces); n++)
        ck_assert_str_eq(arena_join(arena, pieces, n), joined[n]);
    arena_free(arena);
}
END_TEST

/* What is left of a chunk is room for one, for a shorter one, or for none. */
START_TEST(arena_formats_text_of_any_length_wherever_the_chunk_ends)
{
    struct arena *arena = arena_new();
    for (int len = 0; len < 70000; len = len * 5 / 4 + 1) {
        for (size_t before = 0; before <= 16384; before += 1023) {
            arena_reset(arena);
            memset(arena_alloc(arena, before), '#', before);
            char *text = arena_printf(arena, "%*d", len, 7), *next = arena_alloc(arena, 16);
            memset(next, '#', 16);
            size_t wanted = len == 0 ? 1 : (size_t)len;
            ck_assert_msg(strlen(text) == wanted && text[wanted - 1] == '7',
                          "%d characters behind %zu bytes: %zu came", len, before, strlen(text));
        }
    }
    arena_free(arena);
}
END_TEST

START_TEST(buf_gives_up_bytes_from_the_front)
{
    struct buf buf;
    buf_init(&buf, 100);
    ck_assert_int_eq(buf_append_cstr(&buf, "abcdef"), 0);
    buf_consume(&buf, 0);
    buf_consume(&buf, 2);
    ck_assert(span_is(buf_span(&buf), "cdef"));
    ck_assert_int_eq(buf_append_cstr(&buf, "gh"), 0);
    ck_assert(span_is(buf_span(&buf), "cdefgh"));
    buf_consume(&buf, 1000);
    ck_assert_uint_eq(buf.len, 0);
    buf_free(&buf);
}
END_TEST

/* ---- span ---- */

static const struct {
    const char *in, *out;
} TRIMS[] = {
    { "", "" }, { " ", "" }, { "a", "a" }, { " \t\r\na b\n\r\t ", "a b" }, { "\va\f", "\va\f" },
};

START_TEST(span_trims_white_space_of_http)
{
    ck_assert_msg(span_is(span_trim(span_cstr(TRIMS[_i].in)), TRIMS[_i].out), "\"%s\"", TRIMS[_i].in);
}
END_TEST

START_TEST(span_trims_no_nul)
{
    ck_assert(span_eq(span_trim(span_of("\0 a \0", 5)), span_of("\0 a \0", 5)));
}
END_TEST

START_TEST(span_compares_bytes_and_lengths)
{
    ck_assert(span_is(span_of("abc", 2), "ab"));
    ck_assert(!span_is(span_of("abc", 2), "abc"));
    ck_assert(!span_is(span_of("a\0b", 3), "a"));
    ck_assert(span_is(span_of(NULL, 0), ""));
    ck_assert(span_eq(span_of(NULL, 0), span_cstr("")));
    ck_assert(span_eq(span_cstr(NULL), span_of("x", 0)));
    ck_assert(span_is_nocase(span_cstr("Content-TYPE"), "content-type"));
    ck_assert(!span_is_nocase(span_cstr("content-typ"), "content-type"));
    ck_assert(span_starts(span_cstr("abc"), "ab") && span_starts(span_cstr("abc"), ""));
    ck_assert(!span_starts(span_cstr("a"), "ab"));
}
END_TEST

/* ---- ids and clock ---- */

START_TEST(uuid7_has_its_time_version_and_variant_where_rfc_9562_puts_them)
{
    /* The RFC's own example time (appendix A.6): 2022-02-22T19:22:22.000Z is 017F22E2-79B0. */
    char text[UUID_TEXT_BYTES];
    ids_uuid7(UINT64_C(0x017F22E279B0) * 1000, text);
    ck_assert_uint_eq(strlen(text), 36);
    ck_assert_msg(strncmp(text, "017f22e2-79b0-7000-", 19) == 0, "%s", text);
    ck_assert_msg(strchr("89ab", text[19]) != NULL && text[23] == '-', "%s", text);
    ck_assert_uint_eq(strspn(text, "0123456789abcdef-"), 36);
    /* 999 of 1000 microseconds is 0xffb of 4096. */
    ids_uuid7(UINT64_C(0x017F22E279B0) * 1000 + 999, text);
    ck_assert_msg(strncmp(text, "017f22e2-79b0-7ffb-", 19) == 0, "%s", text);
}
END_TEST

START_TEST(uuid7_sorts_by_time_to_the_microsecond)
{
    char before[UUID_TEXT_BYTES], after[UUID_TEXT_BYTES];
    ids_uuid7(UINT64_C(1700000000000000), before);
    for (uint64_t us = 1; us < 3000; us++) {
        ids_uuid7(UINT64_C(1700000000000000) + us, after);
        ck_assert_msg(strncmp(before, after, 18) < 0, "%s, %s", before, after);
        memcpy(before, after, sizeof(before));
    }
}
END_TEST

START_TEST(ids_of_two_calls_differ)
{
    char a[REQUEST_ID_TEXT_BYTES], b[REQUEST_ID_TEXT_BYTES], u[UUID_TEXT_BYTES], v[UUID_TEXT_BYTES];
    ids_request_id(a);
    ids_request_id(b);
    ck_assert(strlen(a) == 32 && strspn(a, "0123456789abcdef") == 32);
    ck_assert_str_ne(a, b);
    ids_uuid7(1, u);
    ids_uuid7(1, v);
    ck_assert_str_ne(u, v);
}
END_TEST

START_TEST(ids_do_not_repeat)
{
    enum { N = 2000 };
    static char ids[N][REQUEST_ID_TEXT_BYTES];
    for (int i = 0; i < N; i++)
        ids_request_id(ids[i]);
    qsort(ids, N, sizeof(ids[0]), (int (*)(const void *, const void *))strcmp);
    for (int i = 1; i < N; i++)
        ck_assert_str_ne(ids[i - 1], ids[i]);
}
END_TEST

/* All 64 characters come, at each of the 21 places but for a dash at the first. */
START_TEST(nanoids_use_their_alphabet_and_do_not_begin_with_a_dash)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
    static bool seen[NANOID_TEXT_BYTES - 1][256];
    for (int i = 0; i < 5000; i++) {
        char id[NANOID_TEXT_BYTES];
        ids_nanoid(id);
        ck_assert_msg(strlen(id) == 21 && strspn(id, alphabet) == 21 && id[0] != '-', "%s", id);
        for (size_t j = 0; j < 21; j++)
            seen[j][(unsigned char)id[j]] = true;
    }
    for (size_t j = 0; j < 21; j++)
        for (const char *c = alphabet; *c != '\0'; c++)
            ck_assert_msg(seen[j][(unsigned char)*c] == (j > 0 || *c != '-'), "'%c' at %zu", *c, j);
}
END_TEST

START_TEST(ids_of_a_parent_and_its_child_differ)
{
    int ends[2];
    char mine[REQUEST_ID_TEXT_BYTES], its[REQUEST_ID_TEXT_BYTES] = "";
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        ids_request_id(its);
        _exit(write(ends[1], its, sizeof(its)) == sizeof(its) ? 0 : 1);
    }
    ids_request_id(mine);
    ck_assert_int_eq(read(ends[0], its, sizeof(its)), sizeof(its));
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_str_ne(mine, its);
    close(ends[0]);
    close(ends[1]);
}
END_TEST

START_TEST(hex_is_lower_case_and_ended)
{
    char out[9] = "xxxxxxxx";
    ids_hex("\x00\x9A\xFF", 3, out);
    ck_assert_str_eq(out, "009aff");
    ids_hex("", 0, out);
    ck_assert_str_eq(out, "");
}
END_TEST

START_TEST(clock_writes_utc_with_microseconds)
{
    char text[CLOCK_TEXT_BYTES];
    clock_text(0, text);
    ck_assert_str_eq(text, "1970-01-01T00:00:00.000000Z");
    clock_text(UINT64_C(1709210096000007), text);
    ck_assert_str_eq(text, "2024-02-29T12:34:56.000007Z");
}
END_TEST

START_TEST(clock_does_not_go_back)
{
    uint64_t last = clock_monotonic_us();
    for (int i = 0; i < 1000; i++) {
        uint64_t now = clock_monotonic_us();
        ck_assert_uint_ge(now, last);
        last = now;
    }
}
END_TEST

/* ---- errors ---- */

START_TEST(error_codes_have_names_of_their_own)
{
    for (int a = ERR_STOPPED; a <= ERR_OK; a++) {
        ck_assert_msg(strcmp(err_name(a), "unknown") != 0, "%d", a);
        for (int b = ERR_STOPPED; b < a; b++)
            ck_assert_str_ne(err_name(a), err_name(b));
    }
    ck_assert_str_eq(err_name(ERR_STOPPED - 1), "unknown");
    ck_assert_str_eq(err_name(1), "unknown");
}
END_TEST

START_TEST(error_sentences_are_cut_at_the_arrays_end)
{
    struct error e;
    ck_assert_int_eq(error_set(&e, ERR_LIMIT, "%2000d", 7), ERR_LIMIT);
    ck_assert(e.code == ERR_LIMIT && strlen(e.text) == sizeof(e.text) - 1);
    ck_assert_int_eq(error_set(NULL, ERR_FORMAT, "x"), ERR_FORMAT);
}
END_TEST

/* ---- files ---- */

static char folder[] = "/tmp/test_base.XXXXXX";
static struct arena *arena;

static void set_up_folder(void)
{
    memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    arena = arena_new();
}

static size_t count_entries(void)
{
    size_t n = 0;
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return n;
}

static void tear_down_folder(void)
{
    DIR *dir = opendir(folder);
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (entry->d_name[0] != '.')
            ck_assert_int_eq(remove(arena_printf(arena, "%s/%s", folder, entry->d_name)), 0);
    closedir(dir);
    ck_assert_int_eq(rmdir(folder), 0);
    arena_free(arena);
}

static const char *path_of(const char *name)
{
    return arena_printf(arena, "%s/%s", folder, name);
}

static struct span read_back(const char *path)
{
    struct span bytes = span_of(NULL, 0);
    struct error e = { 0 };
    ck_assert_msg(file_read(path, 1 << 20, arena, &bytes, &e) == 0, "%s", e.text);
    ck_assert_int_eq(bytes.ptr[bytes.len], '\0');
    return bytes;
}

START_TEST(file_replace_writes_bytes_and_mode_whatever_the_umask)
{
    static const mode_t modes[] = { 0600, 0640, 0644, 0666 };
    const char *path = path_of("f");
    mode_t old = umask(077);
    for (size_t i = 0; i < COUNT(modes); i++) {
        struct stat st;
        ck_assert_int_eq(file_replace(path, span_of("a\0b", 3), modes[i], NULL), 0);
        ck_assert(span_eq(read_back(path), span_of("a\0b", 3)));
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_uint_eq(st.st_mode & 07777, modes[i]);
    }
    umask(old);
    ck_assert_uint_eq(count_entries(), 1);
    ck_assert_int_eq(file_replace(path, span_of(NULL, 0), 0600, NULL), 0);
    ck_assert_uint_eq(read_back(path).len, 0);
}
END_TEST

START_TEST(file_replace_leaves_an_open_reader_its_old_bytes)
{
    const char *path = path_of("f");
    char bytes[8];
    ck_assert_int_eq(file_replace(path, span_cstr("old"), 0600, NULL), 0);
    int fd = open(path, O_RDONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(file_replace(path, span_cstr("newer"), 0600, NULL), 0);
    ck_assert_int_eq(read(fd, bytes, sizeof(bytes)), 3);
    ck_assert(memcmp(bytes, "old", 3) == 0);
    close(fd);
    ck_assert(span_is(read_back(path), "newer"));
}
END_TEST

/* The parent reads while the child replaces: every read is one whole version. */
START_TEST(file_replace_is_never_seen_half_done)
{
    enum { BYTES = 20000 };
    static char version[BYTES];
    const char *path = path_of("f");
    memset(version, 'a', BYTES);
    ck_assert_int_eq(file_replace(path, span_of(version, BYTES), 0600, NULL), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        for (int i = 1; i < 200; i++) {
            memset(version, 'a' + i % 26, BYTES);
            if (file_replace(path, span_of(version, BYTES), 0600, NULL) != 0)
                _exit(1);
        }
        _exit(0);
    }
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        struct span bytes = read_back(path);
        ck_assert_uint_eq(bytes.len, BYTES);
        ck_assert_int_eq(bytes.ptr[0], bytes.ptr[BYTES - 1]);
        arena_reset(arena);
        path = path_of("f");
    }
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert_uint_eq(count_entries(), 1);
}
END_TEST

START_TEST(file_replace_leaves_nothing_behind_when_it_fails)
{
    struct error e = { 0 };
    /* A folder stands where the file should go: everything works up to the rename. */
    ck_assert_int_eq(mkdir(path_of("taken"), 0700), 0);
    ck_assert_int_eq(file_replace(path_of("taken"), span_cstr("x"), 0600, &e), ERR_SYSTEM);
    ck_assert_msg(strstr(e.text, "taken") != NULL && strstr(e.text, strerror(EISDIR)) != NULL, "%s", e.text);
    ck_assert_uint_eq(count_entries(), 1);
    ck_assert_int_eq(file_replace(path_of("none/f"), span_cstr("x"), 0600, &e), ERR_SYSTEM);
    ck_assert_uint_eq(count_entries(), 1);
}
END_TEST

START_TEST(file_replace_takes_over_what_a_dead_process_left)
{
    const char *path = path_of("f");
    const char *left = arena_printf(arena, "%s.new.%ld", path, (long)getpid());
    ck_assert_int_eq(symlink(path_of("victim"), left), 0);
    ck_assert_int_eq(file_replace(path, span_cstr("x"), 0600, NULL), 0);
    ck_assert(span_is(read_back(path), "x"));
    ck_assert_int_eq(access(path_of("victim"), F_OK), -1);
    ck_assert_uint_eq(count_entries(), 1);
}
END_TEST

START_TEST(file_read_says_why_it_cannot)
{
    struct span out = span_of("kept", 4);
    struct error e = { 0 };
    ck_assert_int_eq(file_replace(path_of("f"), span_cstr("12345"), 0600, NULL), 0);
    ck_assert_int_eq(file_read(path_of("none"), 100, arena, &out, &e), ERR_NOT_FOUND);
    ck_assert_msg(strstr(e.text, "none") != NULL, "%s", e.text);
    ck_assert_int_eq(file_read(path_of("f"), 4, arena, &out, &e), ERR_LIMIT);
    ck_assert_msg(strstr(e.text, "at most 4") != NULL, "%s", e.text);
    ck_assert_int_eq(file_read(folder, 100, arena, &out, &e), ERR_SYSTEM);
    ck_assert(span_is(out, "kept"));
    ck_assert_int_eq(file_read(path_of("f"), 5, arena, &out, NULL), 0);
    ck_assert(span_is(out, "12345"));
}
END_TEST

START_TEST(file_make_dirs_makes_what_is_missing)
{
    struct error e = { 0 };
    struct stat st;
    ck_assert_int_eq(file_make_dirs(path_of("a/b//c/"), 0700, &e), 0);
    ck_assert_int_eq(file_make_dirs(path_of("a/b/c"), 0700, &e), 0);
    ck_assert(stat(path_of("a/b/c"), &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 0777) == 0700);
    ck_assert_int_eq(file_replace(path_of("f"), span_cstr("x"), 0600, NULL), 0);
    ck_assert_int_eq(file_make_dirs(path_of("f/x"), 0700, &e), ERR_SYSTEM);
    ck_assert_int_eq(rmdir(path_of("a/b/c")), 0);
    ck_assert_int_eq(rmdir(path_of("a/b")), 0);
}
END_TEST

START_TEST(file_write_all_writes_over_short_writes)
{
    enum { BYTES = 1 << 20 };
    static char bytes[BYTES], back[BYTES];
    int ends[2];
    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (char)(i * 7 % 251);
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0)
        _exit(file_write_all(ends[1], bytes, BYTES) == 0 ? 0 : 1);
    close(ends[1]);
    size_t have = 0;
    ssize_t n;
    while ((n = read(ends[0], back + have, 1000 < BYTES - have ? 1000 : BYTES - have)) > 0)
        have += (size_t)n;
    int status = 0;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    ck_assert(have == BYTES && memcmp(bytes, back, BYTES) == 0);
    close(ends[0]);
    ck_assert_int_eq(file_write_all(-1, "x", 1), ERR_SYSTEM);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("base");
    TCase *memory = tcase_create("memory"), *values = tcase_create("values"), *files = tcase_create("files");
    tcase_add_test(memory, arena_pieces_are_aligned_and_apart);
    tcase_add_test(memory, arena_zeroes_what_it_is_asked_to_also_after_reuse);
    tcase_add_test(memory, arena_returns_large_pieces_to_the_system_at_reset);
    tcase_add_test(memory, arena_runs_clean_ups_in_reverse_order_before_the_memory_goes);
    tcase_add_test(memory, arena_copies_text);
    tcase_add_test(memory, arena_ends_the_process_when_a_product_overflows);
    tcase_add_test(memory, buf_holds_its_limit_and_not_a_byte_more);
    tcase_add_test(memory, buf_in_lent_memory_takes_what_any_other_does_and_leaves_the_rest_alone);
    tcase_add_test(memory, buf_leaves_out_whole_what_does_not_fit);
    tcase_add_test(memory, buf_formats_text_of_any_length);
    tcase_add_test(memory, buf_writes_numbers_in_digits);
    tcase_add_test(memory, arena_joins_pieces_and_ends_them);
    tcase_add_test(memory, arena_formats_text_of_any_length_wherever_the_chunk_ends);
    tcase_add_test(memory, buf_gives_up_bytes_from_the_front);
    tcase_add_loop_test(values, span_trims_white_space_of_http, 0, (int)COUNT(TRIMS));
    tcase_add_test(values, span_trims_no_nul);
    tcase_add_test(values, span_is_copied_as_far_as_there_is_room);
    tcase_add_test(values, span_compares_bytes_and_lengths);
    tcase_add_test(values, uuid7_has_its_time_version_and_variant_where_rfc_9562_puts_them);
    tcase_add_test(values, nanoids_use_their_alphabet_and_do_not_begin_with_a_dash);
    tcase_add_test(values, uuid7_sorts_by_time_to_the_microsecond);
    tcase_add_test(values, ids_of_two_calls_differ);
    tcase_add_test(values, ids_do_not_repeat);
    tcase_add_test(values, ids_of_a_parent_and_its_child_differ);
    tcase_add_test(values, hex_is_lower_case_and_ended);
    tcase_add_test(values, clock_writes_utc_with_microseconds);
    tcase_add_test(values, clock_does_not_go_back);
    tcase_add_test(values, error_codes_have_names_of_their_own);
    tcase_add_test(values, error_sentences_are_cut_at_the_arrays_end);
    tcase_add_checked_fixture(files, set_up_folder, tear_down_folder);
    tcase_set_timeout(files, 30);
    tcase_add_test(files, file_replace_writes_bytes_and_mode_whatever_the_umask);
    tcase_add_test(files, file_replace_leaves_an_open_reader_its_old_bytes);
    tcase_add_test(files, file_replace_is_never_seen_half_done);
    tcase_add_test(files, file_replace_leaves_nothing_behind_when_it_fails);
    tcase_add_test(files, file_replace_takes_over_what_a_dead_process_left);
    tcase_add_test(files, file_read_says_why_it_cannot);
    tcase_add_test(files, file_make_dirs_makes_what_is_missing);
    tcase_add_test(files, file_write_all_writes_over_short_writes);
    suite_add_tcase(suite, memory);
    suite_add_tcase(suite, values);
    suite_add_tcase(suite, files);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

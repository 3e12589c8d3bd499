#include "core/record/spool_reader.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/record/spool_internal.h"

enum { CURSOR_LIMIT_BYTES = 64, CURSOR_PATH_BYTES = 4096 };

/* --- the cursor --- */

static bool read_number(const char **p, uint64_t *out)
{
    char *end;
    if (!isdigit((unsigned char)**p))
        return false;
    errno = 0;
    *out = strtoull(*p, &end, 10);
    *p = end;
    return errno == 0;
}

static bool parse_cursor(const char *text, struct spool_cursor *out)
{
    struct spool_cursor cursor;
    bool is_whole = read_number(&text, &cursor.segment) && *text++ == ' ' &&
                    read_number(&text, &cursor.offset) && strcmp(text, "\n") == 0 && cursor.segment > 0;
    if (is_whole)
        *out = cursor;
    return is_whole;
}

static void load_cursor(struct spool_reader *reader, struct error *e)
{
    struct arena *arena = arena_new();
    struct span text;

    e->text[0] = '\0';
    int r = file_read(reader->cursor_path, CURSOR_LIMIT_BYTES, arena, &text, e);
    if (r == ERR_NOT_FOUND)
        e->text[0] = '\0'; /* it is new */
    else if (r == 0 && !parse_cursor(text.ptr, &reader->passed))
        error_set(e, ERR_FORMAT, "%s holds no cursor; reading begins with the oldest segment",
                  reader->cursor_path);
    arena_free(arena);
}

int spool_reader_open(const struct spool_plan *plan, const char *name, struct spool_reader *out,
                      struct error *e)
{
    char path[CURSOR_PATH_BYTES];
    char *folder = spool_folder(plan);
    int n =
        folder == NULL ? -1 : snprintf(path, sizeof(path), "%s/%s.%s.cursor", folder, plan->program, name);

    if (n < 0 || n >= (int)sizeof(path)) {
        free(folder);
        return error_set(e, ERR_LIMIT, "the state directory's path is too long");
    }
    *out = (struct spool_reader){ .plan = plan, .folder = folder, .cursor_path = xstrdup(path), .fd = -1 };
    out->window = xmalloc(SPOOL_READER_WINDOW_BYTES);
    load_cursor(out, e);
    out->taken = out->passed;
    return 0;
}

static void let_go(struct spool_reader *reader)
{
    if (reader->fd >= 0)
        close(reader->fd);
    reader->fd = -1;
}

void spool_reader_close(struct spool_reader *reader)
{
    let_go(reader);
    free(reader->window);
    free(reader->cursor_path);
    free(reader->folder);
    *reader = (struct spool_reader){ .fd = -1 };
}

int spool_reader_store(struct spool_reader *reader, struct error *e)
{
    char text[CURSOR_LIMIT_BYTES];
    int n = snprintf(text, sizeof(text), "%llu %llu\n", (unsigned long long)reader->taken.segment,
                     (unsigned long long)reader->taken.offset);

    if (reader->taken.segment == reader->passed.segment && reader->taken.offset == reader->passed.offset)
        return 0;
    reader->passed = reader->taken;
    return file_replace(reader->cursor_path, span_of(text, (size_t)n), 0640, e);
}

/* --- from segment to segment --- */

/* Whether nobody writes to the segment at `at` any more. Asked before it is read to its
 * end: what was written until then is there. */
static bool is_finished(const struct spool_reader *reader, uint64_t current)
{
    return reader->taken.segment < current &&
           !spool_shared_names(&reader->plan->shared, reader->taken.segment);
}

static void go_to(struct spool_reader *reader, uint64_t segment)
{
    let_go(reader);
    reader->taken = (struct spool_cursor){ segment, 0 };
    reader->is_skipping = false;
}

/* The next segment there is; those between are gone. False: the folder cannot be read. */
static bool skip_missing(struct spool_reader *reader, uint64_t current)
{
    uint64_t missing = reader->taken.segment;
    struct census census;

    if (segment_take_census(reader->folder, reader->plan->program, missing, &census) != 0)
        return false;
    uint64_t next = census.oldest != 0 && census.oldest < current ? census.oldest : current;
    reader->n_lost_segments += next - missing;
    go_to(reader, next);
    return true;
}

/* A cursor that stands nowhere begins with the oldest segment; so does one that is ahead
 * of the writers, who began anew in an emptied folder. */
static bool find_place(struct spool_reader *reader, uint64_t current)
{
    struct census census;

    if (reader->taken.segment != 0 && reader->taken.segment <= current)
        return true;
    if (segment_take_census(reader->folder, reader->plan->program, 0, &census) != 0)
        return false;
    go_to(reader, census.oldest != 0 && census.oldest < current ? census.oldest : current);
    return true;
}

/* One that was removed and made anew, or is shorter than what was read of it, is another. */
static void check_identity(struct spool_reader *reader)
{
    struct stat st;
    if (fstat(reader->fd, &st) != 0)
        return;
    if (st.st_nlink == 0 || (uint64_t)st.st_size < reader->taken.offset) {
        reader->n_lost_segments++;
        go_to(reader, reader->taken.segment);
    }
}

/* Opens the segment to be read. False: there is nothing to read for now. */
static bool take_up(struct spool_reader *reader)
{
    char path[SEGMENT_PATH_BYTES];
    uint64_t current = atomic_load(&reader->plan->shared.memory->current);

    if (current == 0 || !find_place(reader, current))
        return false;
    if (reader->fd >= 0 && reader->open_segment == reader->taken.segment)
        check_identity(reader);
    else
        let_go(reader);
    while (reader->fd < 0) {
        if (segment_path(reader->folder, reader->plan->program, reader->taken.segment, path) != 0)
            return false;
        reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        reader->open_segment = reader->taken.segment;
        if (reader->fd < 0 &&
            (errno != ENOENT || reader->taken.segment >= current || !skip_missing(reader, current)))
            return false;
        if (reader->fd >= 0)
            check_identity(reader);
    }
    return true;
}

/* --- records --- */

static ssize_t read_window(const struct spool_reader *reader)
{
    ssize_t n;
    do
        n = pread(reader->fd, reader->window, SPOOL_READER_WINDOW_BYTES, (off_t)reader->taken.offset);
    while (n < 0 && errno == EINTR);
    return n;
}

/* Takes the whole lines of `bytes`, and moves behind them. */
static size_t take_lines(struct spool_reader *reader, struct span bytes, struct span *lines, size_t max)
{
    size_t n = 0;
    const char *end;

    while (n < max && bytes.len > 0 && (end = memchr(bytes.ptr, '\n', bytes.len)) != NULL) {
        struct span line = span_of(bytes.ptr, (size_t)(end - bytes.ptr));
        if (reader->is_skipping)
            reader->is_skipping = false; /* the rest of what was counted */
        else if (segment_is_record(line))
            lines[n++] = line;
        else if (line.len > 0)
            reader->n_unreadable++;
        reader->taken.offset += line.len + 1;
        bytes = span_of(end + 1, bytes.len - line.len - 1);
    }
    return n;
}

/* Something without an end: what fills the window, or is left in a finished segment, is no
 * record. False: its end may still come. */
static bool skip_rest(struct spool_reader *reader, size_t len, bool is_last)
{
    if (len < SPOOL_READER_WINDOW_BYTES && !is_last)
        return false;
    if (!reader->is_skipping)
        reader->n_unreadable++;
    reader->is_skipping = true;
    reader->taken.offset += len;
    return true;
}

/* The next segment is current before it is made; and if it never is, the writers of the next
 * run go on in this one. */
static bool has_successor(const struct spool_reader *reader)
{
    struct census census;
    return segment_take_census(reader->folder, reader->plan->program, reader->taken.segment, &census) == 0 &&
           census.oldest != 0;
}

size_t spool_reader_take(struct spool_reader *reader, struct span *lines, size_t max)
{
    size_t n = 0;

    reader->taken = reader->passed;
    while (n == 0 && take_up(reader)) {
        bool is_last = is_finished(reader, atomic_load(&reader->plan->shared.memory->current));
        ssize_t len = read_window(reader);
        if (len < 0)
            break;
        uint64_t before = reader->taken.offset;
        n = take_lines(reader, span_of(reader->window, (size_t)len), lines, max);
        if (n > 0 || reader->taken.offset > before)
            continue;
        if (len > 0 && !skip_rest(reader, (size_t)len, is_last))
            break;
        if (len == 0 && !(is_last && has_successor(reader)))
            break;
        if (len == 0)
            go_to(reader, reader->taken.segment + 1);
    }
    return n;
}

#include "admin/ctl/event_tail.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/record/event.h"

enum { PIECE_BYTES = 64 * 1024, UNREAD_BYTES = EVENT_LIMIT_BYTES + 2 * PIECE_BYTES, NAME_BYTES = 64 };

static void name_of(uint64_t segment, char name[NAME_BYTES])
{
    snprintf(name, NAME_BYTES, "llm-router.%08" PRIu64 ".jsonl", segment);
}

/* The number in a segment's name; 0: it is none. */
static uint64_t number_in(const char *name)
{
    char again[NAME_BYTES];
    uint64_t number;

    if (sscanf(name, "llm-router.%18" SCNu64, &number) != 1)
        return 0;
    name_of(number, again);
    return strcmp(name, again) == 0 ? number : 0;
}

/* The segments beside `segment`: the nearest one above it and below it, 0 if there is none.
 * ERR_NOT_FOUND: there is no folder. ERR_SYSTEM. */
static int look_around(const struct event_tail *tail, uint64_t segment, uint64_t *below, uint64_t *above)
{
    DIR *dir = opendir(tail->folder);
    if (dir == NULL)
        return errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM;
    *below = *above = 0;
    for (const struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        uint64_t number = number_in(entry->d_name);
        if (number > segment && (*above == 0 || number < *above))
            *above = number;
        if (number < segment && number > *below)
            *below = number;
    }
    closedir(dir);
    return 0;
}

static void let_go(struct event_tail *tail)
{
    if (tail->fd >= 0)
        close(tail->fd);
    tail->fd = -1;
    buf_clear(&tail->unread);
    tail->taken = 0;
}

/* Its size in bytes; -1: it cannot be opened. */
static int64_t take_up(struct event_tail *tail, uint64_t segment)
{
    char path[4096], name[NAME_BYTES];
    struct stat st;

    let_go(tail);
    name_of(segment, name);
    tail->segment = segment;
    if (snprintf(path, sizeof(path), "%s/%s", tail->folder, name) < (int)sizeof(path))
        tail->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    return tail->fd >= 0 && fstat(tail->fd, &st) == 0 ? (int64_t)st.st_size : -1;
}

int event_tail_open(const char *state_dir, uint64_t back_bytes, struct arena *arena, struct event_tail *out,
                    struct error *e)
{
    struct event_tail tail = { .folder = arena_printf(arena, "%s/spool", state_dir),
                               .fd = -1,
                               .is_whole = true };
    uint64_t below, above;

    buf_init(&tail.unread, UNREAD_BYTES);
    int r = look_around(&tail, UINT64_MAX, &below, &above);
    int64_t left = (int64_t)back_bytes;
    while (r == 0 && below != 0) {
        int64_t size = take_up(&tail, below);
        if (size < 0 && errno != ENOENT) {
            r = ERR_SYSTEM;
        } else if (size < 0) {
            break; /* removed meanwhile: the next one follows */
        } else if (size > left) {
            lseek(tail.fd, size - left, SEEK_SET);
            tail.is_whole = false;
            break;
        } else {
            left -= size;
            r = look_around(&tail, tail.segment, &below, &above);
        }
    }
    if (r == ERR_SYSTEM) {
        r = error_set(e, ERR_SYSTEM, "cannot read the spool in %s: %s", tail.folder, strerror(errno));
        event_tail_close(&tail);
        return r;
    }
    *out = tail;
    return 0;
}

void event_tail_close(struct event_tail *tail)
{
    let_go(tail);
    buf_free(&tail->unread);
}

/* Whether a line of at least one byte stands in what was read. */
static bool find_line(struct event_tail *tail, struct span *line)
{
    struct buf *unread = &tail->unread;
    while (tail->taken < unread->len) {
        const char *begin = unread->data + tail->taken, *end = memchr(begin, '\n', unread->len - tail->taken);
        if (end == NULL)
            return false;
        tail->taken += (size_t)(end - begin) + 1;
        if (end > begin) {
            *line = span_of(begin, (size_t)(end - begin));
            return true;
        }
    }
    return false;
}

/* Whether there was more. */
static bool read_on(struct event_tail *tail)
{
    char piece[PIECE_BYTES];
    ssize_t n = tail->fd < 0 ? 0 : read(tail->fd, piece, sizeof(piece));

    if (n <= 0)
        return false;
    buf_consume(&tail->unread, tail->taken);
    tail->taken = 0;
    if (tail->unread.len + (size_t)n > UNREAD_BYTES)
        buf_clear(&tail->unread); /* no record is so long */
    buf_append(&tail->unread, piece, (size_t)n);
    return true;
}

int event_tail_next(struct event_tail *tail, struct span *line)
{
    uint64_t below, above = 0;

    for (;;) {
        if (find_line(tail, line))
            return 0;
        if (read_on(tail))
            continue;
        /* Asked before the last look at this one: what stands in it comes first. */
        if (above != 0)
            take_up(tail, above);
        else if (look_around(tail, tail->segment, &below, &above) != 0 || above == 0)
            return ERR_NOT_FOUND;
        else
            continue;
        above = 0;
    }
}

#include "core/store/jsonl_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/json/scan.h"

int jsonl_append(const char *path, struct span line, mode_t mode, struct error *e)
{
    struct arena *arena = arena_new();
    int result = 0;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, mode);
    /* In one write: a process that is killed leaves all of it or none. */
    char *whole = arena_printf(arena, "\n%.*s\n", (int)line.len, line.ptr);
    /* JSON that somebody has laid out has newlines between its tokens, and nowhere else. */
    for (char *p = whole + 1; (p = strpbrk(p, "\r\n")) != NULL && p < whole + 1 + line.len; p++)
        *p = ' ';
    if (fd < 0)
        result = error_set(e, ERR_SYSTEM, "cannot open %s: %s", path, strerror(errno));
    else if (file_write_all(fd, whole, line.len + 2) != 0 || fsync(fd) != 0)
        result = error_set(e, ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    arena_free(arena);
    return result;
}

int jsonl_read_end(const char *path, size_t limit, struct arena *arena, struct span *text, struct error *e)
{
    struct stat st;
    int result = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) {
        *text = span_of(NULL, 0);
        return 0;
    }
    if (fd < 0)
        return error_set(e, ERR_SYSTEM, "cannot open %s: %s", path, strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        result = error_set(e, ERR_SYSTEM, "%s is not a regular file", path);
        goto out;
    }
    size_t size = (size_t)st.st_size < limit ? (size_t)st.st_size : limit, have = 0;
    char *bytes = arena_alloc(arena, size);
    while (have < size) {
        ssize_t n = pread(fd, bytes + have, size - have, st.st_size - (off_t)(size - have));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            result = error_set(e, ERR_SYSTEM, "cannot read %s: %s", path,
                               n == 0 ? "it became shorter meanwhile" : strerror(errno));
            goto out;
        }
        have += (size_t)n;
    }
    *text = span_of(bytes, size);
out:
    close(fd);
    return result;
}

struct span jsonl_take_last(struct span *text)
{
    while (text->len > 0) {
        const char *newline = memrchr(text->ptr, '\n', text->len);
        size_t begin = newline == NULL ? 0 : (size_t)(newline - text->ptr) + 1;
        struct span line = span_of(text->ptr + begin, text->len - begin);
        text->len = newline == NULL ? 0 : begin - 1;
        if (line.len > 0 && json_scan(line, NULL, 0, 0, NULL, NULL, NULL) == 0)
            return line;
    }
    return span_of(NULL, 0);
}

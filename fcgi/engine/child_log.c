#include "fcgi/engine/child_log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/base/file.h"

enum { PIPE_BYTES = 1024 * 1024 }; /* so that a busy master holds no child up */

int child_log_open(struct child_log *log, struct error *e)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0 || fcntl(fds[0], F_SETFL, O_NONBLOCK) != 0)
        return error_set(e, ERR_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    fcntl(fds[1], F_SETPIPE_SZ, PIPE_BYTES); /* the kernel may grant less */
    *log = (struct child_log){ .read_fd = fds[0], .write_fd = fds[1] };
    return 0;
}

void child_log_attach(const struct child_log *log)
{
    dup2(log->write_fd, STDERR_FILENO);
    close(log->read_fd);
    close(log->write_fd);
}

/* `line` includes its LF, unless it was too long to have one. */
static void pass_on(struct span line)
{
    struct span text = span_trim(line);

    if (text.len == 0)
        return;
    if (text.ptr[0] == '{' && text.ptr[text.len - 1] == '}' && line.ptr[line.len - 1] == '\n') {
        if (file_write_all(STDERR_FILENO, line.ptr, line.len) != 0)
            return; /* there is nowhere to say it */
        return;
    }
    struct json_writer *w = log_begin(LOG_WARN, "child_stderr");
    log_field_text(w, "text", text);
    log_end();
}

void child_log_take(struct child_log *log)
{
    for (;;) {
        ssize_t n = read(log->read_fd, log->line + log->len, sizeof(log->line) - log->len);
        if (n <= 0)
            return;
        log->len += (size_t)n;
        char *begin = log->line, *end;
        size_t left = log->len;
        while ((end = memchr(begin, '\n', left)) != NULL) {
            size_t len = (size_t)(end - begin) + 1;
            pass_on(span_of(begin, len));
            begin += len;
            left -= len;
        }
        if (left == sizeof(log->line)) {
            pass_on(span_of(begin, left));
            left = 0;
        }
        memmove(log->line, begin, left);
        log->len = left;
    }
}

void child_log_flush(struct child_log *log)
{
    child_log_take(log);
    if (log->len > 0)
        pass_on(span_of(log->line, log->len));
    log->len = 0;
}

void child_log_end(struct child_log *log)
{
    child_log_flush(log);
    close(log->read_fd);
    close(log->write_fd);
}

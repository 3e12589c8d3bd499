#include "fcgi/engine/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/base/file.h"

enum {
    HANDOVER_LAYOUT = 1, /* raised when a line means something else; not for a new kind of line */
    HANDOVER_BYTES = 4 * 1024 * 1024,
};

static const char variable[] = "LLM_ROUTER_HANDOVER";

/* --- writing --- */

/* A line ends with a NUL: a path may hold anything else. */
static void write_listener(struct buf *out, const char *kind, const struct listener *listener)
{
    buf_printf(out, "%s %d %d %d %ju %s", kind, listener->fd, listener->is_tcp, listener->is_own_tcp,
               (uintmax_t)listener->inode, listener->path);
    buf_append_char(out, '\0');
}

static void write_text(const struct handover *handover, const char *program, struct buf *out)
{
    buf_printf(out, "handover %d %s%c", HANDOVER_LAYOUT, program, '\0');
    buf_printf(out, "master %ld%c", (long)handover->master, '\0');
    buf_printf(out, "pidfile %d%c", handover->pidfile, '\0');
    buf_printf(out, "log %d %d%c", handover->log_read, handover->log_write, '\0');
    buf_printf(out, "secrets %d%c", handover->secrets, '\0');
    write_listener(out, "listener", &handover->listener);
    write_listener(out, "health", &handover->health);
    for (size_t i = 0; i < handover->n_workers; i++) {
        const struct handover_worker *worker = &handover->workers[i];
        buf_printf(out, "worker %ld %" PRId64 " %" PRIu64 " %" PRIu64 "%c", (long)worker->pid, worker->slot,
                   worker->started_us, worker->leave_by_us, '\0');
    }
}

int handover_write(const struct handover *handover, const char *program, struct error *e)
{
    struct buf text;
    int fd = memfd_create("llm-router-handover", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    buf_init(&text, HANDOVER_BYTES);
    write_text(handover, program, &text);
    if (fd < 0 || text.overflowed || file_write_all(fd, text.data, text.len) != 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
        error_set(e, ERR_SYSTEM, "cannot write what is handed on: %s", strerror(errno));
        if (fd >= 0)
            close(fd);
        fd = ERR_SYSTEM;
    }
    buf_free(&text);
    return fd;
}

void handover_pass(const struct handover *handover, int file, bool is_passed)
{
    const int fds[] = { file,
                        handover->pidfile,
                        handover->log_read,
                        handover->log_write,
                        handover->secrets,
                        handover->listener.fd,
                        handover->health.fd };

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (fds[i] >= 0)
            fcntl(fds[i], F_SETFD, is_passed ? 0 : FD_CLOEXEC);
    }
}

void handover_announce(int file)
{
    char text[16];
    snprintf(text, sizeof(text), "%d", file);
    setenv(variable, text, 1);
}

int handover_take(void)
{
    const char *text = getenv(variable);
    int fd = text == NULL ? -1 : (int)strtol(text, NULL, 10);
    unsetenv(variable);
    return fd;
}

/* --- reading --- */

static bool read_listener(const char *line, const char *kind, struct listener *out)
{
    int fd, is_tcp, is_own_tcp, path_at = 0;
    uintmax_t inode;
    size_t len = strlen(kind);

    if (strncmp(line, kind, len) != 0 ||
        sscanf(line + len, " %d %d %d %ju%n", &fd, &is_tcp, &is_own_tcp, &inode, &path_at) != 4)
        return false;
    const char *path = line + len + path_at;
    if (path[0] != ' ' || strlen(path + 1) >= sizeof(out->path))
        return false;
    *out = (struct listener){
        .fd = fd, .is_tcp = is_tcp != 0, .is_own_tcp = is_own_tcp != 0, .inode = (ino_t)inode
    };
    memcpy(out->path, path + 1, strlen(path));
    return true;
}

static bool read_worker(const char *line, struct handover *out)
{
    struct handover_worker worker;
    long pid;

    if (sscanf(line, "worker %ld %" SCNd64 " %" SCNu64 " %" SCNu64, &pid, &worker.slot, &worker.started_us,
               &worker.leave_by_us) != 4 ||
        pid <= 0)
        return false;
    worker.pid = (pid_t)pid;
    out->workers = xrealloc(out->workers, (out->n_workers + 1) * sizeof(worker));
    out->workers[out->n_workers++] = worker;
    return true;
}

static void read_line(const char *line, struct handover *out)
{
    long master;
    int a, b;

    if (read_worker(line, out) || read_listener(line, "listener", &out->listener) ||
        read_listener(line, "health", &out->health))
        return;
    if (sscanf(line, "master %ld", &master) == 1)
        out->master = (pid_t)master;
    else if (sscanf(line, "pidfile %d", &a) == 1)
        out->pidfile = a;
    else if (sscanf(line, "log %d %d", &a, &b) == 2) {
        out->log_read = a;
        out->log_write = b;
    } else if (sscanf(line, "secrets %d", &a) == 1)
        out->secrets = a;
}

static int read_text(const char *text, size_t len, const char *program, struct handover *out, struct error *e)
{
    char name[32] = "";
    int layout = 0;

    if (len == 0 || text[len - 1] != '\0' || sscanf(text, "handover %d %31s", &layout, name) != 2)
        return error_set(e, ERR_FORMAT, "what was handed on is not understood");
    if (layout != HANDOVER_LAYOUT || strcmp(name, program) != 0)
        return error_set(e, ERR_FORMAT,
                         "what was handed on has layout %d of %s, this program reads layout %d of %s", layout,
                         name, HANDOVER_LAYOUT, program);
    for (const char *line = text; line < text + len; line += strlen(line) + 1)
        read_line(line, out);
    if (out->pidfile < 0 || out->log_read < 0 || out->log_write < 0 || out->listener.fd < 0)
        return error_set(e, ERR_FORMAT, "what was handed on lacks a descriptor");
    return 0;
}

int handover_read(int file, const char *program, struct handover *out, struct error *e)
{
    struct stat st;
    char *text = NULL;
    int r;

    *out = (struct handover){ .pidfile = -1,
                              .log_read = -1,
                              .log_write = -1,
                              .secrets = -1,
                              .listener = { .fd = -1 },
                              .health = { .fd = -1 } };
    if (fstat(file, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size > HANDOVER_BYTES) {
        r = error_set(e, ERR_FORMAT, "%s names no file that was handed on", variable);
        goto out;
    }
    text = xcalloc((size_t)st.st_size + 1, 1);
    if (pread(file, text, (size_t)st.st_size, 0) != st.st_size)
        r = error_set(e, ERR_SYSTEM, "what was handed on cannot be read");
    else
        r = read_text(text, (size_t)st.st_size, program, out, e);
out:
    close(file);
    free(text);
    if (r != 0)
        handover_free(out);
    return r;
}

void handover_free(struct handover *handover)
{
    free(handover->workers);
    handover->workers = NULL;
    handover->n_workers = 0;
}

#include "core/log/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/json/scan.h"

enum {
    MESSAGE_BYTES = 640,       /* fits into a line even if each byte needs a \u00XX */
    SCRATCH_BYTES = 16 * 1024, /* a line before it is known which members fit */
};

static const char *const LEVEL_NAMES[] = { [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error" };

/* A process has one line at a time: a thread that begins one holds the lock until its
 * end. The scratch is static so that a process that is out of memory can still say what
 * happened: at its limit from the start, the buffer never grows and is never freed. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *program_name = "";
static char scratch[SCRATCH_BYTES];
static struct buf scratch_buf;
static struct json_writer writer;

/* The line as it will be written, without its last bracket. */
struct line {
    char bytes[LOG_LINE_BYTES];
    size_t len;
};

void log_init(const char *program)
{
    program_name = program;
}

struct json_writer *log_begin(enum log_level level, const char *event)
{
    char now[CLOCK_TEXT_BYTES];
    pthread_mutex_lock(&lock);
    clock_text(clock_wall_us(), now);
    scratch_buf = (struct buf){ .data = scratch, .capacity = sizeof(scratch), .limit = sizeof(scratch) };
    jw_init(&writer, &scratch_buf);
    jw_begin_object(&writer);
    jw_member_cstr(&writer, "time", now);
    jw_member_cstr(&writer, "level", LEVEL_NAMES[level]);
    jw_member_cstr(&writer, "program", program_name);
    jw_member_int(&writer, "pid", getpid());
    jw_member_cstr(&writer, "event", event);
    return &writer;
}

void log_field_text(struct json_writer *w, const char *name, struct span outside)
{
    char bytes[LOG_TEXT_BYTES];
    struct buf text = { .data = bytes, .capacity = sizeof(bytes), .limit = sizeof(bytes) };
    log_redact(&text, outside, sizeof(bytes));
    jw_member_span(w, name, buf_span(&text));
}

/* Appends a member, or leaves it out whole. */
static int keep_member(void *ctx, const struct json_value *value)
{
    struct line *line = ctx;
    size_t len = value->offset + value->raw.len - value->key_offset;
    size_t comma = line->len > 1;
    if (len + comma > sizeof(line->bytes) - line->len - strlen("}\n"))
        return 0;
    if (comma)
        line->bytes[line->len++] = ',';
    memcpy(line->bytes + line->len, scratch + value->key_offset, len);
    line->len += len;
    return 0;
}

void log_end(void)
{
    static const struct json_want members[] = { { "*", false } };
    static struct line line;
    jw_end_object(&writer);
    line.len = 0;
    line.bytes[line.len++] = '{';
    /* An overflowed scratch ends anywhere; its whole members are kept. */
    (void)json_scan(buf_span(&scratch_buf), members, 1, JSON_SCAN_CUT, keep_member, &line, NULL);
    line.bytes[line.len++] = '}';
    line.bytes[line.len++] = '\n';
    ssize_t n;
    do {
        n = write(STDERR_FILENO, line.bytes, line.len);
    } while (n < 0 && errno == EINTR);
    pthread_mutex_unlock(&lock);
}

void log_line(enum log_level level, const char *event, const char *format, ...)
{
    char message[MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    struct json_writer *w = log_begin(level, event);
    jw_member_cstr(w, "message", len < 0 ? format : message);
    log_end();
}

/* The embedded store: one file per value in the state directory. */
#include "core/store/directory_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/crypto/digest.h"
#include "core/store/audit_internal.h"
#include "core/store/jsonl_internal.h"

enum { AUDIT_LINE_BYTES = 2 * STORE_CHANGES_LIMIT_BYTES, LOCK_TICK_MS = 10 };

static void directory_close(struct store *store)
{
    struct directory_store *d = directory_of(store);
    directory_watch_end(&d->watch);
    free(d->audit_path);
    free(d->path);
    free(d);
}

const char *directory_value_path(const struct directory_store *d, const char *key, struct arena *arena)
{
    return arena_printf(arena, "%s/%s.json", d->path, key);
}

int directory_get(const struct directory_store *d, const char *key, struct arena *arena,
                  struct store_value *out, struct error *e)
{
    struct store_value value;
    const char *path = directory_value_path(d, key, arena);
    int r = file_read(path, STORE_VALUE_LIMIT_BYTES, arena, &value.raw, e);
    if (r != 0)
        return r;
    fingerprint(value.raw, STORE_VERSION_BYTES - 1, value.version);
    *out = value;
    return 0;
}

/* Readers hold no lock, since an editor holds none either: what was read while nothing
 * changed is of one moment. */
static int directory_get_all(struct store *store, const char *const *keys, size_t n, struct arena *arena,
                             struct store_value *out, struct error *e)
{
    struct directory_store *d = directory_of(store);
    struct store_value *values = arena_array_of(arena, struct store_value, n);
    uint64_t deadline_us = clock_monotonic_us() + STORE_TIMEOUT_MS * US_PER_MS, before, after;
    int r = directory_stamp(store, &before, e);
    for (;;) {
        for (size_t i = 0; r == 0 && i < n; i++) {
            values[i] = (struct store_value){ .version = "" };
            r = directory_get(d, keys[i], arena, &values[i], e);
            if (r == ERR_NOT_FOUND)
                r = 0;
        }
        if (r == 0)
            r = directory_stamp(store, &after, e);
        if (r != 0)
            return r;
        if (after == before)
            break;
        if (clock_monotonic_us() > deadline_us)
            return error_set(e, ERR_SYSTEM, "the values in %s change faster than they can be read", d->path);
        before = after;
    }
    memcpy(out, values, n * sizeof(values[0]));
    return 0;
}

/* A lock of the open file: unlike fcntl's older kind it is not lost when this
 * process closes the file elsewhere. Released by close. fcntl would wait for ever
 * for a process that was stopped with it. */
static int lock_for_writing(const struct directory_store *d, struct arena *arena, int *fd, struct error *e)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    const char *path = arena_printf(arena, "%s/lock", d->path);
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, DIRECTORY_FILE_MODE);
    if (lock < 0)
        return error_set(e, ERR_SYSTEM, "cannot open %s: %s", path, strerror(errno));
    uint64_t until_us = clock_monotonic_us() + STORE_WRITERS_MS * US_PER_MS;
    int cause;
    while ((cause = fcntl(lock, F_OFD_SETLK, &whole) == 0 ? 0 : errno) == EAGAIN &&
           clock_monotonic_us() < until_us)
        poll(NULL, 0, LOCK_TICK_MS);
    if (cause == 0) {
        *fd = lock;
        return 0;
    }
    close(lock);
    return cause == EAGAIN
               ? error_set(e, ERR_SYSTEM, "another process has had %s locked for %d ms: is it stopped?", path,
                           STORE_WRITERS_MS)
               : error_set(e, ERR_SYSTEM, "cannot lock %s: %s", path, strerror(cause));
}

static int audit_append(const struct directory_store *d, const struct audit_line *line, struct error *e)
{
    struct json_writer w;
    struct buf text;
    buf_init(&text, AUDIT_LINE_BYTES);
    jw_init(&w, &text);
    audit_write(&w, line);
    int r = text.overflowed ? error_set(e, ERR_LIMIT, "the change is too large for a line of the audit log")
                            : jsonl_append(d->audit_path, buf_span(&text), DIRECTORY_FILE_MODE, e);
    buf_free(&text);
    return r;
}

/* In this order, so that what is in force is always in the history and in the audit log. */
static int replace(const struct directory_store *d, const struct store_change *change,
                   const struct store_value *value, const struct store_value *old, struct arena *arena,
                   struct error *e)
{
    char time[CLOCK_TEXT_BYTES];
    const char *author = change->audit.actor == NULL ? "" : change->audit.actor;
    bool exists = old->raw.ptr != NULL;
    clock_text(clock_wall_us(), time);
    int r = exists ? directory_history_save_edited(d, change->key, old, arena, e) : 0;
    if (r == 0)
        r = directory_history_add(d, change->key, value, time, author, arena, e);
    if (r == 0)
        r = audit_append(d,
                         &(struct audit_line){ .time = time,
                                               .key = change->key,
                                               .version_before = exists ? old->version : NULL,
                                               .version_after = value->version,
                                               .told = change->audit },
                         e);
    return r != 0 ? r
                  : file_replace(directory_value_path(d, change->key, arena), value->raw, DIRECTORY_FILE_MODE,
                                 e);
}

static int directory_put(struct store *store, const struct store_change *change, struct store_outcome *out,
                         struct error *e)
{
    struct directory_store *d = directory_of(store);
    struct arena *arena = arena_new();
    struct store_value old = { .version = "" }, value = { .raw = change->raw };
    int lock = -1;

    int r = lock_for_writing(d, arena, &lock, e);
    if (r != 0)
        goto out;
    r = directory_get(d, change->key, arena, &old, e);
    if (r != 0 && r != ERR_NOT_FOUND)
        goto out;
    const char *current = r == 0 ? old.version : NULL;
    if (!store_is_expected(change->expected, current)) {
        r = store_refuse(change, current, out, e);
        goto out;
    }
    fingerprint(value.raw, STORE_VERSION_BYTES - 1, value.version);
    bool is_same = current != NULL && strcmp(value.version, current) == 0;
    r = is_same ? directory_history_save_edited(d, change->key, &old, arena, e)
                : replace(d, change, &value, &old, arena, e);
    if (r == 0) {
        *out = (struct store_outcome){ .is_same = is_same, .is_published = !is_same };
        memcpy(out->version, value.version, STORE_VERSION_BYTES);
    }
out:
    if (lock >= 0)
        close(lock);
    arena_free(arena);
    return r;
}

static int directory_audit_log(struct store *store, size_t max, struct arena *arena, struct span *json,
                               struct error *e)
{
    struct span text, line;
    struct json_writer w;
    struct buf array;
    int r = jsonl_read_end(directory_of(store)->audit_path, STORE_AUDIT_LIMIT_BYTES, arena, &text, e);
    if (r != 0)
        return r;
    buf_init(&array, STORE_AUDIT_LIMIT_BYTES + 2);
    jw_init(&w, &array);
    jw_begin_array(&w);
    for (size_t n = 0; n < max && (line = jsonl_take_last(&text)).len > 0; n++)
        jw_raw(&w, line);
    jw_end_array(&w);
    *json = span_of(arena_span(arena, buf_span(&array)), array.len);
    buf_free(&array);
    return 0;
}

static int directory_watch_fd(struct store *store)
{
    struct directory_store *d = directory_of(store);
    return directory_watch_begin(&d->watch, d->path);
}

static enum store_news directory_listen(struct store *store)
{
    struct directory_store *d = directory_of(store);
    return directory_watch_take(&d->watch, d->path) ? STORE_NEWS_FILE : STORE_NEWS_NONE;
}

static void directory_health(const struct store *store, struct store_health *out)
{
    (void)store; /* no servers */
    (void)out;
}

static int directory_report(struct store *store, const struct store_instance *self, struct error *e)
{
    (void)store;
    (void)self;
    return error_set(e, ERR_UNSUPPORTED, "a state directory does not know the instances that read it");
}

static int directory_instances(struct store *store, struct arena *arena, struct store_instance **out,
                               size_t *n, struct error *e)
{
    (void)arena;
    (void)out;
    (void)n;
    return directory_report(store, NULL, e);
}

static const struct store_ops directory_ops = {
    .close = directory_close,
    .get_all = directory_get_all,
    .put = directory_put,
    .versions = directory_versions,
    .get_version = directory_get_version,
    .audit_log = directory_audit_log,
    .stamp = directory_stamp,
    .watch_fd = directory_watch_fd,
    .listen = directory_listen,
    .health = directory_health,
    .report = directory_report,
    .instances = directory_instances,
};

int directory_open(const struct store_place *place, struct store **out, struct error *e)
{
    struct arena *arena = arena_new();
    const char *path = arena_printf(arena, "%s/configkv", place->state_dir);
    int r = file_make_dirs(arena_printf(arena, "%s/history", path), DIRECTORY_MODE, e);
    if (r == 0) {
        struct directory_store *d = xcalloc(1, sizeof(*d));
        d->base.ops = &directory_ops;
        d->path = xstrdup(path);
        d->audit_path = xstrdup(arena_printf(arena, "%s/admin_audit_log.jsonl", place->state_dir));
        d->watch = (struct directory_watch){ .fd = -1, .wd = -1 };
        *out = &d->base;
    }
    arena_free(arena);
    return r == 0 ? 0 : ERR_SYSTEM;
}

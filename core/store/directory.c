/* The embedded store: one file per value in the state directory. */
#include "core/store/store_ops.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/crypto/digest.h"
#include "core/json/writer.h"
#include "core/store/directory_watch_internal.h"

enum { DIRECTORY_MODE = 0700, FILE_MODE = 0600, LOG_RECORD_BYTES = 2048 };

struct directory_store {
    struct store base;
    char *path; /* STATE_DIR/configkv */
    struct directory_watch watch;
};

static struct directory_store *directory_of(struct store *store)
{
    return (struct directory_store *)(void *)store;
}

static void directory_close(struct store *store)
{
    struct directory_store *d = directory_of(store);
    directory_watch_end(&d->watch);
    free(d->path);
    free(d);
}

static const char *value_path(const struct directory_store *d, const char *key, struct arena *arena)
{
    return arena_printf(arena, "%s/%s.json", d->path, key);
}

static int directory_get(struct store *store, const char *key, struct arena *arena, struct store_value *out,
                         struct error *e)
{
    struct store_value value;
    const char *path = value_path(directory_of(store), key, arena);
    int r = file_read(path, STORE_VALUE_LIMIT_BYTES, arena, &value.raw, e);
    if (r != 0)
        return r;
    store_version_of(value.raw, value.version);
    *out = value;
    return 0;
}

/* A lock of the open file: unlike fcntl's older kind it is not lost when this
 * process closes the file elsewhere. Released by close. */
static int lock_for_writing(const struct directory_store *d, struct arena *arena, int *fd, struct error *e)
{
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    const char *path = arena_printf(arena, "%s/lock", d->path);
    int lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
    if (lock < 0)
        return error_set(e, ERR_SYSTEM, "cannot open %s: %s", path, strerror(errno));
    while (fcntl(lock, F_OFD_SETLKW, &whole) != 0) {
        if (errno == EINTR)
            continue;
        int r = error_set(e, ERR_SYSTEM, "cannot lock %s: %s", path, strerror(errno));
        close(lock);
        return r;
    }
    *fd = lock;
    return 0;
}

/* Whether a value of this version is in the history already. */
static bool history_has(const char *folder, const char *version)
{
    bool has = false;
    size_t version_len = strlen(version);
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return false;
    for (struct dirent *entry = readdir(dir); entry != NULL && !has; entry = readdir(dir)) {
        size_t len = strlen(entry->d_name);
        has = len > version_len && entry->d_name[len - version_len - 1] == '.' &&
              strcmp(entry->d_name + len - version_len, version) == 0;
    }
    closedir(dir);
    return has;
}

/* One line of history/KEY/log. */
static int log_append(const char *folder, const char *time, const char *version, const char *author,
                      struct arena *arena, struct error *e)
{
    struct json_writer w;
    struct buf line;
    int result = 0;
    const char *path = arena_printf(arena, "%s/log", folder);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
    if (fd < 0)
        return error_set(e, ERR_SYSTEM, "cannot open %s: %s", path, strerror(errno));
    buf_init(&line, LOG_RECORD_BYTES);
    jw_init(&w, &line);
    jw_begin_object(&w);
    jw_member_cstr(&w, "time", time);
    jw_member_cstr(&w, "version", version);
    jw_member_cstr(&w, "author", author);
    jw_end_object(&w);
    buf_append_char(&line, '\n');
    if (line.overflowed)
        result = error_set(e, ERR_LIMIT, "the author's name is too long for the history");
    else if (file_write_all(fd, line.data, line.len) != 0 || fsync(fd) != 0)
        result = error_set(e, ERR_SYSTEM, "cannot write %s: %s", path, strerror(errno));
    buf_free(&line);
    close(fd);
    return result;
}

static int history_add(const struct directory_store *d, const char *key, struct span raw, const char *version,
                       const char *author, struct arena *arena, struct error *e)
{
    char time[CLOCK_TEXT_BYTES];
    const char *folder = arena_printf(arena, "%s/history/%s", d->path, key);
    clock_text(clock_wall_us(), time);
    int r = file_make_dirs(folder, DIRECTORY_MODE, e);
    if (r == 0)
        r = file_replace(arena_printf(arena, "%s/%s.%s", folder, time, version), raw, FILE_MODE, e);
    if (r == 0)
        r = log_append(folder, time, version, author, arena, e);
    return r;
}

/* A value that an editor put there would be lost without this. */
static int history_save_edited(const struct directory_store *d, const char *key,
                               const struct store_value *value, struct arena *arena, struct error *e)
{
    if (history_has(arena_printf(arena, "%s/history/%s", d->path, key), value->version))
        return 0;
    return history_add(d, key, value->raw, value->version, "(found in place)", arena, e);
}

static bool is_expected(const char *expected, bool exists, const char *current)
{
    if (expected == NULL)
        return !exists;
    return strcmp(expected, "*") == 0 || (exists && strcmp(expected, current) == 0);
}

static int directory_put(struct store *store, const char *key, struct span raw, const char *expected,
                         const char *author, char version[STORE_VERSION_BYTES],
                         char current[STORE_VERSION_BYTES], struct error *e)
{
    struct directory_store *d = directory_of(store);
    struct arena *arena = arena_new();
    struct store_value old = { .version = "" };
    char new_version[STORE_VERSION_BYTES];
    int lock = -1;

    int r = lock_for_writing(d, arena, &lock, e);
    if (r != 0)
        goto out;
    r = directory_get(store, key, arena, &old, e);
    bool exists = r == 0;
    if (r != 0 && r != ERR_NOT_FOUND)
        goto out;
    if (!is_expected(expected, exists, old.version)) {
        r = error_set(e, ERR_CONFLICT, "%s has %s%s", key, exists ? "version " : "no value", old.version);
        memcpy(current, old.version, STORE_VERSION_BYTES);
        goto out;
    }
    store_version_of(raw, new_version);
    r = exists ? history_save_edited(d, key, &old, arena, e) : 0;
    if (r == 0 && !(exists && strcmp(new_version, old.version) == 0)) {
        /* In this order: what is in force is always in the history too. */
        r = history_add(d, key, raw, new_version, author, arena, e);
        if (r == 0)
            r = file_replace(value_path(d, key, arena), raw, FILE_MODE, e);
    }
    if (r == 0)
        memcpy(version, new_version, STORE_VERSION_BYTES);
out:
    if (lock >= 0)
        close(lock);
    arena_free(arena);
    return r;
}

static bool is_value_name(const char *name)
{
    size_t len = strlen(name);
    return name[0] != '.' && len > 5 && strcmp(name + len - 5, ".json") == 0;
}

/* What changes with the file: replaced, it has another inode; edited in place,
 * another time. */
static uint64_t stamp_of_file(const char *name, const struct stat *st)
{
    char text[512];
    uint8_t digest[SHA256_BYTES];
    uint64_t stamp;
    int n = snprintf(text, sizeof(text), "%s %llu %llu %lld %lld.%09ld %lld.%09ld", name,
                     (unsigned long long)st->st_dev, (unsigned long long)st->st_ino, (long long)st->st_size,
                     (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec, (long long)st->st_ctim.tv_sec,
                     st->st_ctim.tv_nsec);
    sha256(span_of(text, n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1), digest);
    memcpy(&stamp, digest, sizeof(stamp));
    return stamp;
}

static int directory_stamp(struct store *store, uint64_t *stamp, struct error *e)
{
    struct directory_store *d = directory_of(store);
    uint64_t sum = 0; /* a sum, because a directory has no order */
    int result = 0;
    directory_watch_take(&d->watch, d->path); /* first: what changes while we look is heard again */
    DIR *dir = opendir(d->path);
    if (dir == NULL)
        return error_set(e, ERR_SYSTEM, "cannot open %s: %s", d->path, strerror(errno));
    for (;;) {
        struct stat st;
        errno = 0;
        struct dirent *entry = readdir(dir);
        if (entry == NULL && errno != 0)
            result = error_set(e, ERR_SYSTEM, "cannot read %s: %s", d->path, strerror(errno));
        if (entry == NULL)
            break;
        /* One that vanished meanwhile is as one that is not there. */
        if (is_value_name(entry->d_name) && fstatat(dirfd(dir), entry->d_name, &st, 0) == 0)
            sum += stamp_of_file(entry->d_name, &st);
    }
    closedir(dir);
    if (result == 0)
        *stamp = sum;
    return result;
}

static int directory_watch_fd(struct store *store)
{
    struct directory_store *d = directory_of(store);
    return directory_watch_begin(&d->watch, d->path);
}

static const struct store_ops directory_ops = {
    .close = directory_close,
    .get = directory_get,
    .put = directory_put,
    .stamp = directory_stamp,
    .watch_fd = directory_watch_fd,
};

int store_open_directory(const char *state_dir, struct store **out, struct error *e)
{
    struct arena *arena = arena_new();
    const char *path = arena_printf(arena, "%s/configkv", state_dir);
    int r = file_make_dirs(arena_printf(arena, "%s/history", path), DIRECTORY_MODE, e);
    if (r == 0) {
        struct directory_store *d = xcalloc(1, sizeof(*d));
        d->base.ops = &directory_ops;
        d->path = xstrdup(path);
        d->watch = (struct directory_watch){ .fd = -1, .wd = -1 };
        *out = &d->base;
    }
    arena_free(arena);
    return r == 0 ? 0 : ERR_SYSTEM;
}

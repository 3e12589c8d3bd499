/* What was in force: a file for each value, and a log that says when it was and whose. */
#include "core/store/directory_internal.h"

#include <dirent.h>
#include <sys/stat.h>

#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/json/scan.h"
#include "core/json/writer.h"
#include "core/store/jsonl_internal.h"

enum {
    LOG_RECORD_BYTES = 2048,
    LOG_READ_BYTES = 64 * 1024 * 1024, /* half a million versions */
};

static const char found_in_place[] = "(found in place)";

static const char *history_path(const struct directory_store *d, const char *key, const char *name,
                                struct arena *arena)
{
    return arena_printf(arena, "%s/history/%s/%s", d->path, key, name);
}

static int log_append(const struct directory_store *d, const char *key, const struct store_version *version,
                      struct arena *arena, struct error *e)
{
    struct json_writer w;
    struct buf line;
    buf_init(&line, LOG_RECORD_BYTES);
    jw_init(&w, &line);
    jw_begin_object(&w);
    jw_member_cstr(&w, "time", version->time);
    jw_member_cstr(&w, "version", version->version);
    jw_member_cstr(&w, "author", version->author);
    jw_end_object(&w);
    int r = line.overflowed
                ? error_set(e, ERR_LIMIT, "the author's name is too long for the history")
                : jsonl_append(history_path(d, key, "log", arena), buf_span(&line), DIRECTORY_FILE_MODE, e);
    buf_free(&line);
    return r;
}

/* Takes the last version off the log; false: there is none left. */
static bool log_take_last(struct span *log, struct arena *arena, struct store_version *out)
{
    static const struct json_want wants[] = { { "time", false }, { "version", false }, { "author", false } };
    struct json_value found[3];
    for (;;) {
        struct span line = jsonl_take_last(log);
        if (line.len == 0)
            return false;
        json_find(line, wants, 3, 0, found, NULL);
        if (found[0].kind != JSON_KIND_STRING || found[1].kind != JSON_KIND_STRING ||
            found[1].raw.len - 2 >= STORE_VERSION_BYTES)
            continue;
        *out = (struct store_version){ .time = json_decode(arena, found[0].raw).ptr, .author = "" };
        memcpy(out->version, found[1].raw.ptr + 1, found[1].raw.len - 2);
        if (found[2].kind == JSON_KIND_STRING)
            out->author = json_decode(arena, found[2].raw).ptr;
        return true;
    }
}

/* Whether the history has it: whether the log says so, which is written last. */
static int find_in_log(const struct directory_store *d, const char *key, const char *version,
                       struct arena *arena, bool *has, struct error *e)
{
    struct span log;
    struct store_version at = { .version = "" };
    int r = jsonl_read_end(history_path(d, key, "log", arena), LOG_READ_BYTES, arena, &log, e);
    if (r != 0)
        return r;
    *has = false;
    while (!*has && log_take_last(&log, arena, &at))
        *has = strcmp(at.version, version) == 0;
    return 0;
}

int directory_history_add(const struct directory_store *d, const char *key, const struct store_value *value,
                          const char *time, const char *author, struct arena *arena, struct error *e)
{
    struct store_version version = { .time = time, .author = author };
    memcpy(version.version, value->version, STORE_VERSION_BYTES);
    int r = file_make_dirs(history_path(d, key, "", arena), DIRECTORY_MODE, e);
    if (r == 0)
        r = file_replace(history_path(d, key, arena_printf(arena, "%s.%s", time, value->version), arena),
                         value->raw, DIRECTORY_FILE_MODE, e);
    return r == 0 ? log_append(d, key, &version, arena, e) : r;
}

int directory_history_save_edited(const struct directory_store *d, const char *key,
                                  const struct store_value *value, struct arena *arena, struct error *e)
{
    char time[CLOCK_TEXT_BYTES];
    bool has = false;
    int r = find_in_log(d, key, value->version, arena, &has, e);
    clock_text(clock_wall_us(), time);
    return r != 0 || has ? r : directory_history_add(d, key, value, time, found_in_place, arena, e);
}

/* What an editor put there is a version too, before a put has saved it. */
static struct store_version edited_version(const struct directory_store *d, const char *key,
                                           const struct store_value *value, struct arena *arena)
{
    struct stat st;
    struct store_version version = { .author = found_in_place, .is_in_force = true };
    char *time = arena_alloc(arena, CLOCK_TEXT_BYTES);
    uint64_t wall_us = clock_wall_us();
    if (stat(directory_value_path(d, key, arena), &st) == 0)
        wall_us = (uint64_t)st.st_mtim.tv_sec * US_PER_S + (uint64_t)st.st_mtim.tv_nsec / 1000;
    clock_text(wall_us, time);
    version.time = time;
    memcpy(version.version, value->version, STORE_VERSION_BYTES);
    return version;
}

int directory_versions(struct store *store, const char *key, size_t max, struct arena *arena,
                       struct store_version *out, size_t *n, size_t *total, struct error *e)
{
    struct directory_store *d = directory_of(store);
    struct store_value value = { .version = "" };
    struct store_version version;
    struct span log;
    bool is_found = false;
    size_t count = 0, stored = 0;

    int r = directory_get(d, key, arena, &value, e);
    if (r != 0 && r != ERR_NOT_FOUND)
        return r;
    bool is_saved = r == ERR_NOT_FOUND;
    if (!is_saved && (r = find_in_log(d, key, value.version, arena, &is_saved, e)) != 0)
        return r;
    if ((r = jsonl_read_end(history_path(d, key, "log", arena), LOG_READ_BYTES, arena, &log, e)) != 0)
        return r;
    if (!is_saved && count++ < max)
        out[stored++] = edited_version(d, key, &value, arena);
    for (; log_take_last(&log, arena, &version); count++) {
        /* A value may have been in force more than once. */
        version.is_in_force = !is_found && strcmp(version.version, value.version) == 0;
        is_found = is_found || version.is_in_force;
        if (stored < max)
            out[stored++] = version;
    }
    *n = stored;
    *total = count;
    return 0;
}

/* The name of a file of this version, TIME.VERSION; NULL: there is none. */
static const char *find_file(const char *folder, const char *version, struct arena *arena)
{
    const char *name = NULL;
    size_t version_len = strlen(version);
    DIR *dir = opendir(folder);
    for (struct dirent *entry = dir == NULL ? NULL : readdir(dir); entry != NULL && name == NULL;
         entry = readdir(dir)) {
        size_t len = strlen(entry->d_name);
        if (len > version_len && entry->d_name[len - version_len - 1] == '.' &&
            strcmp(entry->d_name + len - version_len, version) == 0)
            name = arena_strdup(arena, entry->d_name);
    }
    if (dir != NULL)
        closedir(dir);
    return name;
}

int directory_get_version(struct store *store, const char *key, const char *version, struct arena *arena,
                          struct store_value *out, struct error *e)
{
    struct directory_store *d = directory_of(store);
    struct store_value value = { .version = "" };
    int r = directory_get(d, key, arena, &value, e);
    if (r != 0 && r != ERR_NOT_FOUND)
        return r;
    if (r != 0 || strcmp(value.version, version) != 0) {
        const char *name = find_file(history_path(d, key, "", arena), version, arena);
        if (name == NULL)
            return error_set(e, ERR_NOT_FOUND, "%s never had version %s", key, version);
        r = file_read(history_path(d, key, name, arena), STORE_VALUE_LIMIT_BYTES, arena, &value.raw, e);
        if (r != 0)
            return r;
        memcpy(value.version, version, strlen(version) + 1);
    }
    *out = value;
    return 0;
}

#include "core/config/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/crypto/digest.h"

enum { SNAPSHOT_MODE = 0640 };

int snapshot_path(const char *run_dir, uint64_t generation, char *out, size_t room)
{
    int n = snprintf(out, room, "%s/snapshot.%" PRIu64, run_dir, generation);
    return n < 0 || (size_t)n >= room ? ERR_LIMIT : 0;
}

int snapshot_write(const char *run_dir, struct span image, struct error *e)
{
    char path[4096];
    struct snap_root root;
    memcpy(&root, image.ptr, sizeof(root));
    if (snapshot_path(run_dir, root.generation, path, sizeof(path)) != 0)
        return error_set(e, ERR_LIMIT, "the path %.200s… is too long", run_dir);
    return file_replace(path, image, SNAPSHOT_MODE, e);
}

void snapshot_remove_all(const char *run_dir)
{
    DIR *dir = opendir(run_dir);
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, "snapshot.", strlen("snapshot.")) == 0)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir != NULL)
        closedir(dir);
}

int snapshot_map(const char *path, struct snapshot *out, struct error *e)
{
    struct stat st;
    struct error why;
    int result = 0;
    void *base = MAP_FAILED;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return error_set(e, errno == ENOENT ? ERR_NOT_FOUND : ERR_SYSTEM, "cannot open %s: %s", path,
                         strerror(errno));
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        result = error_set(e, ERR_SYSTEM, "%s is not a regular file", path);
        goto out;
    }
    if (st.st_size < (off_t)sizeof(struct snap_root) || st.st_size > SNAPSHOT_LIMIT_BYTES) {
        result = error_set(e, ERR_FORMAT, "%s has %lld bytes, a snapshot has %zu to %d", path,
                           (long long)st.st_size, sizeof(struct snap_root), SNAPSHOT_LIMIT_BYTES);
        goto out;
    }
    base = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        result = error_set(e, ERR_SYSTEM, "cannot map %s: %s", path, strerror(errno));
        goto out;
    }
    if (snapshot_check(span_of(base, (size_t)st.st_size), &why) != 0) {
        munmap(base, (size_t)st.st_size);
        result = error_set(e, ERR_FORMAT, "%s: %s", path, why.text);
        goto out;
    }
    *out = (struct snapshot){ base, (size_t)st.st_size };
out:
    close(fd);
    return result;
}

void snapshot_unmap(struct snapshot *snapshot)
{
    if (snapshot->root != NULL)
        munmap((void *)snapshot->root, snapshot->bytes);
    *snapshot = (struct snapshot){ NULL, 0 };
}

static int compare_spans(struct span a, struct span b)
{
    size_t least = a.len < b.len ? a.len : b.len;
    int order = least == 0 ? 0 : memcmp(a.ptr, b.ptr, least);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* The element with this name; `name_at` is where elements of `bytes` have it. */
static const void *find_named(const struct snap_root *root, struct snap_vec list, struct snap_vec index,
                              size_t bytes, size_t name_at, struct span name)
{
    uint32_t low = 0, high = index.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const char *item =
            (const char *)snap_at(root, list.offset) + *SNAP_ITEM(root, index, uint32_t, middle) * bytes;
        int order =
            compare_spans(name, snap_span(root, *(const struct snap_str *)(const void *)(item + name_at)));
        if (order == 0)
            return item;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static const struct snap_model *find_model(const struct snap_root *root, struct snap_vec models,
                                           struct snap_vec index, struct span name)
{
    return find_named(root, models, index, sizeof(struct snap_model), offsetof(struct snap_model, name),
                      name);
}

const struct snap_model *snapshot_model(const struct snap_root *root, struct span name)
{
    return find_model(root, root->models, root->model_index, name);
}

const struct snap_model *snapshot_tts_model(const struct snap_root *root, struct span name)
{
    return find_model(root, root->tts_models, root->tts_model_index, name);
}

const struct snap_voice_pack *snapshot_voice_pack(const struct snap_root *root, struct span id)
{
    return find_named(root, root->voice_packs, root->voice_pack_index, sizeof(struct snap_voice_pack),
                      offsetof(struct snap_voice_pack, id), id);
}

struct span snapshot_upstream_id(const struct snap_root *root, uint32_t place)
{
    const struct snap_vec lists[] = { root->models, root->tts_models };

    for (size_t part = 0; part < sizeof(lists) / sizeof(lists[0]); part++)
        for (unsigned i = 0; i < lists[part].count; i++) {
            const struct snap_vec upstreams = SNAP_ITEM(root, lists[part], struct snap_model, i)->upstreams;
            uint32_t before = place - upstreams.offset;
            if (place >= upstreams.offset && before % sizeof(struct snap_upstream) == 0 &&
                before / sizeof(struct snap_upstream) < upstreams.count)
                return snap_span(root, ((const struct snap_upstream *)snap_at(root, place))->id);
        }
    return span_of("", 0);
}

/* The search's timing tells how many leading bytes of a digest were met; who
 * knows a digest's beginning is no nearer to a key that has it. */
const struct snap_principal *snapshot_principal(const struct snap_root *root, const uint8_t sha256[32])
{
    uint32_t low = 0, high = root->principals.count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct snap_principal *p = SNAP_ITEM(root, root->principals, struct snap_principal, middle);
        if (memcmp(p->sha256, sha256, SHA256_BYTES) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == root->principals.count)
        return NULL;
    const struct snap_principal *p = SNAP_ITEM(root, root->principals, struct snap_principal, low);
    return equal_in_constant_time(span_of((const char *)p->sha256, SHA256_BYTES),
                                  span_of((const char *)sha256, SHA256_BYTES))
               ? p
               : NULL;
}

bool snapshot_may_use(const struct snap_root *root, const struct snap_principal *principal, struct span model)
{
    if (!principal->has_models)
        return true;
    for (uint32_t i = 0; i < principal->models.count; i++)
        if (span_eq(model, snap_span(root, *SNAP_ITEM(root, principal->models, struct snap_str, i))))
            return true;
    return false;
}

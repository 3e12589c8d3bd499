#include "core/store/directory_internal.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/crypto/digest.h"

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

int directory_stamp(struct store *store, uint64_t *stamp, struct error *e)
{
    struct directory_store *d = directory_of(store);
    uint64_t sum = 0; /* a sum, because a directory has no order */
    int result = 0;
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

#include "core/base/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"

enum { SECRET_FILE_LIMIT_BYTES = 4096, KEPT_LIMIT_BYTES = 256 * 1024 };

/* "NAME=value" and a NUL for each secret. */
static int kept_fd = -1;

/* What came from the process before: the environment points into it. */
static struct {
    char *text;
    size_t len;
} restored;

void environment_wipe(struct span secret)
{
    if (secret.len > 0)
        explicit_bzero((char *)(uintptr_t)secret.ptr, secret.len);
}

static bool is_restored(const char *text)
{
    return restored.text != NULL && text >= restored.text && text < restored.text + restored.len;
}

/* Moves a variable's value into the arena. */
static struct span take_variable(const char *name, struct arena *arena, bool *is_kept)
{
    char *value = getenv(name);
    if (value == NULL)
        return span_of(NULL, 0);
    size_t len = strlen(value);
    struct span copy = span_of(arena_span(arena, span_of(value, len)), len);
    *is_kept = is_restored(value);
    explicit_bzero(value, len);
    unsetenv(name);
    return copy;
}

/* Without the blanks, and with a NUL where the ones behind it began. */
static struct span trim(struct span text)
{
    struct span trimmed = span_trim(text);
    if (trimmed.len > 0)
        ((char *)(uintptr_t)trimmed.ptr)[trimmed.len] = '\0';
    return trimmed;
}

static int keep(const char *name, struct span value, struct error *e)
{
    if (file_write_all(kept_fd, name, strlen(name)) == 0 && file_write_all(kept_fd, "=", 1) == 0 &&
        file_write_all(kept_fd, value.ptr, value.len) == 0 && file_write_all(kept_fd, "", 1) == 0)
        return 0;
    return error_set(e, ERR_SYSTEM, "cannot keep %s: %s", name, strerror(errno));
}

int environment_take_secret(const char *name, struct arena *arena, struct span *out, struct error *e)
{
    const char *file_name = arena_printf(arena, "%s_FILE", name);
    bool is_kept = false;
    struct span value = take_variable(name, arena, &is_kept);
    struct span path = take_variable(file_name, arena, &is_kept);
    if (value.len > 0 && path.len > 0) {
        environment_wipe(value);
        return error_set(e, ERR_FORMAT, "%s and %s are both set; one is expected", name, file_name);
    }
    if (path.len > 0) {
        if (file_read(path.ptr, SECRET_FILE_LIMIT_BYTES, arena, &value, e) != 0)
            return ERR_SYSTEM;
        if (span_trim(value).len == 0)
            return error_set(e, ERR_FORMAT, "the file of %s is empty", file_name);
    }
    value = trim(value);
    if (kept_fd >= 0 && value.len > 0 && !is_kept && keep(name, value, e) != 0) {
        environment_wipe(value);
        return ERR_SYSTEM;
    }
    *out = value;
    return 0;
}

int environment_keep_secrets(struct error *e)
{
    if (kept_fd < 0)
        kept_fd = memfd_create("llm-router-secrets", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return kept_fd >= 0 ? 0 : error_set(e, ERR_SYSTEM, "memfd_create: %s", strerror(errno));
}

/* Nothing in the environment points to it any more. */
static void forget_restored(void)
{
    if (restored.text != NULL)
        explicit_bzero(restored.text, restored.len);
    free(restored.text);
    restored.text = NULL;
    restored.len = 0;
}

/* Out of the environment goes what was put there and nobody took. */
static void remove_untaken(void)
{
    for (size_t i = 0; environ != NULL && environ[i] != NULL;) {
        char *entry = environ[i];
        if (!is_restored(entry)) {
            i++;
            continue;
        }
        size_t len = strcspn(entry, "=");
        char *name = xcalloc(len + 1, 1);
        memcpy(name, entry, len);
        unsetenv(name);
        free(name);
    }
    forget_restored();
}

int environment_seal_kept(void)
{
    remove_untaken();
    if (kept_fd >= 0)
        fcntl(kept_fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
    return kept_fd;
}

void environment_close_kept(void)
{
    if (kept_fd >= 0)
        close(kept_fd);
    kept_fd = -1;
}

/* All of it into memory of ours, checked. */
static int read_kept(int fd, struct error *e)
{
    struct stat st;

    if (fstat(fd, &st) != 0)
        return error_set(e, ERR_SYSTEM, "the secrets that were handed on: %s", strerror(errno));
    if (st.st_size > KEPT_LIMIT_BYTES)
        return error_set(e, ERR_FORMAT, "the secrets that were handed on have %lld bytes",
                         (long long)st.st_size);
    restored.len = (size_t)st.st_size;
    restored.text = xcalloc(restored.len + 1, 1);
    if (pread(fd, restored.text, restored.len, 0) != st.st_size)
        return error_set(e, ERR_SYSTEM, "the secrets that were handed on cannot be read");
    if (restored.len > 0 && restored.text[restored.len - 1] != '\0')
        return error_set(e, ERR_FORMAT, "the secrets that were handed on break off");
    for (size_t at = 0; at < restored.len; at += strlen(restored.text + at) + 1) {
        const char *entry = restored.text + at, *equals = strchr(entry, '=');
        if (equals == NULL || equals == entry)
            return error_set(e, ERR_FORMAT, "the secrets that were handed on are none");
    }
    return 0;
}

int environment_restore_secrets(int fd, struct error *e)
{
    int r = read_kept(fd, e);

    if (r == 0)
        r = environment_keep_secrets(e);
    if (r == 0 && file_write_all(kept_fd, restored.text, restored.len) != 0)
        r = error_set(e, ERR_SYSTEM, "cannot keep secrets: %s", strerror(errno));
    if (r != 0)
        forget_restored();
    for (size_t at = 0; at < restored.len; at += strlen(restored.text + at) + 1)
        putenv(restored.text + at);
    close(fd);
    return r;
}

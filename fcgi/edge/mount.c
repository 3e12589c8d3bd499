#include "fcgi/edge/mount.h"

#include <stddef.h>
#include <string.h>

/* The longer one first: it also holds the shorter one's name. */
static const struct mount mounts[] = {
    { "/api/v1/openai", ERROR_FORM_CODED },
    { "/v1", ERROR_FORM_OPENAI },
};

const struct mount *mount_find(const char *path, const char **endpoint)
{
    for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
        const char *prefix = mounts[i].prefix;
        size_t len = strlen(prefix);
        for (const char *at = strstr(path, prefix); at != NULL; at = strstr(at + 1, prefix)) {
            if (at[len] != '/' && at[len] != '\0')
                continue;
            *endpoint = at[len] == '/' ? at + len + 1 : "";
            return &mounts[i];
        }
    }
    return NULL;
}

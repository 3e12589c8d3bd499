#include "core/admit/admins.h"

#include <string.h>

#include "core/base/arena.h"
#include "core/base/file.h"
#include "core/crypto/digest.h"

enum { TOKEN_FILE_BYTES = 4096 };

static int read_token(const char *file, struct admins *out, struct error *e)
{
    struct arena *arena = arena_new();
    struct span text;

    int r = file_read(file, TOKEN_FILE_BYTES, arena, &text, e);
    if (r == 0) {
        struct span token = span_trim(text);
        if (token.len < ADMIN_TOKEN_BYTES_MIN)
            r = error_set(e, ERR_FORMAT, "%s holds %zu bytes; a token has at least %d", file, token.len,
                          ADMIN_TOKEN_BYTES_MIN);
        else
            sha256(token, out->token_sha256);
        explicit_bzero((char *)(uintptr_t)text.ptr, text.len);
    }
    out->has_token = r == 0;
    arena_free(arena);
    return r;
}

int admins_read(const char *token_file, const char *emails, struct admins *out, struct error *e)
{
    struct admins admins = { .emails = emails };
    int r = token_file != NULL ? read_token(token_file, &admins, e) : 0;
    if (r == 0)
        *out = admins;
    return r;
}

bool admins_have_token(const struct admins *admins, struct span token)
{
    uint8_t digest[SHA256_BYTES];

    if (!admins->has_token || token.len == 0)
        return false;
    sha256(token, digest);
    return equal_in_constant_time(span_of((const char *)digest, sizeof(digest)),
                                  span_of((const char *)admins->token_sha256, sizeof(admins->token_sha256)));
}

bool admins_have_user(const struct admins *admins, const char *user)
{
    const char *list = admins->emails;

    if (list == NULL || user == NULL || user[0] == '\0')
        return false;
    while (*list != '\0') {
        size_t len = strcspn(list, ",");
        struct span member = span_trim(span_of(list, len));
        if (member.len > 0 && span_is_nocase(member, user))
            return true;
        list += len + (list[len] == ',' ? 1 : 0);
    }
    return false;
}

/* Who is an administrator: whoever has the token, and users whom the web server has
 * authenticated and whose address is listed. */
#ifndef CORE_ADMIT_ADMINS_H
#define CORE_ADMIT_ADMINS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/span.h"

enum { ADMIN_TOKEN_BYTES_MIN = 16 };

/* Zero: nobody is. */
struct admins {
    const char *emails; /* comma-separated; NULL: none */
    bool has_token;
    uint8_t token_sha256[32]; /* of the token nothing else is kept */
};

/* Either may be NULL; `emails` is borrowed. ERR_FORMAT: the file's content is too short
 * for a token; errors of file_read. Before fork. */
int admins_read(const char *token_file, const char *emails, struct admins *out, struct error *e);

/* Whether `token`, which may be empty, is the administrators'; in constant time. */
bool admins_have_token(const struct admins *admins, struct span token);

/* Whether the user, whom the web server names, is listed; NULL and "" never are. Case is ignored. */
bool admins_have_user(const struct admins *admins, const char *user);

#endif

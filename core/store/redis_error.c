/* What Redis refuses with. */
#include <ctype.h>
#include <string.h>

#include "core/base/span.h"
#include "core/store/redis_link_internal.h"

static const char *const words[] = { "ERR",     "NOAUTH",     "NOPERM",    "WRONGPASS", "LOADING",
                                     "BUSY",    "MASTERDOWN", "WRONGTYPE", "OOM",       "READONLY",
                                     "MISCONF", "DENIED",     "NOREPLICAS" };

const char *redis_error_word(const redisReply *reply)
{
    struct span text = span_of(reply->str, reply->len);

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t len = strlen(words[i]);
        if (span_starts(text, words[i]) && (text.len == len || !isalnum((unsigned char)text.ptr[len])))
            return words[i];
    }
    return "an error";
}

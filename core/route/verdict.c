#include "core/route/verdict.h"

#include <stddef.h>

static const struct verdict_row rows[VERDICT_COUNT] = {
    [VERDICT_OK] = { "ok", NEXT_NONE, "none", true },
    [VERDICT_AUTH] = { "auth", NEXT_CANDIDATE, "config", false },
    [VERDICT_QUOTA] = { "quota", NEXT_CANDIDATE, "config", false },
    [VERDICT_RATE] = { "rate", NEXT_CANDIDATE, "upstream", true },
    [VERDICT_SERVER] = { "server", NEXT_CANDIDATE, "upstream", true },
    [VERDICT_TIMEOUT] = { "timeout", NEXT_CANDIDATE, "upstream", true },
    [VERDICT_CONNECT] = { "connect", NEXT_CANDIDATE, "upstream", true },
    [VERDICT_CONFIG] = { "config", NEXT_UPSTREAM, "config", false },
    [VERDICT_CLIENT] = { "client", NEXT_NONE, "client", false },
    [VERDICT_OTHER] = { "other", NEXT_NONE, "upstream", false },
    [VERDICT_CANCELLED] = { "cancelled", NEXT_NONE, "none", false },
};

const struct verdict_row *verdict_row(enum verdict verdict)
{
    return &rows[verdict];
}

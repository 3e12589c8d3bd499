#include "core/base/err.h"

#include <stdarg.h>
#include <stdio.h>

const char *err_name(int code)
{
    switch ((enum err)code) {
    case ERR_OK:
        return "ok";
    case ERR_SYSTEM:
        return "system";
    case ERR_LIMIT:
        return "limit";
    case ERR_FORMAT:
        return "format";
    case ERR_NOT_FOUND:
        return "not_found";
    case ERR_CONFLICT:
        return "conflict";
    case ERR_CRYPTO:
        return "crypto";
    case ERR_TIMEOUT:
        return "timeout";
    case ERR_CLIENT_GONE:
        return "client_gone";
    case ERR_UNSUPPORTED:
        return "unsupported";
    case ERR_STOPPED:
        return "stopped";
    }
    return "unknown";
}

int error_set(struct error *e, int code, const char *format, ...)
{
    if (e != NULL) {
        va_list args;
        e->code = code;
        va_start(args, format);
        vsnprintf(e->text, sizeof(e->text), format, args);
        va_end(args);
    }
    return code;
}

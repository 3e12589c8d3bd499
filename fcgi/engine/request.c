#include "fcgi/engine/request.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/err.h"
#include "core/base/ids.h"

static bool is_well_formed_id(struct span id)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";

    for (size_t i = 0; i < id.len; i++) {
        if (memchr(allowed, id.ptr[i], sizeof(allowed) - 1) == NULL)
            return false;
    }
    return id.len > 0 && id.len <= REQUEST_ID_MAX;
}

void request_choose_id(struct span given, char out[REQUEST_ID_MAX + 1])
{
    if (!is_well_formed_id(given)) {
        ids_request_id(out);
        return;
    }
    memcpy(out, given.ptr, given.len);
    out[given.len] = '\0';
}

/* As HTTP has it: ": " and CR LF, less the prefix of the parameter. */
static void add_header_bytes(void *total, struct span name, struct span value)
{
    if (name.len >= 5 && memcmp(name.ptr, "HTTP_", 5) == 0)
        *(size_t *)total += name.len - 5 + value.len + 4;
}

static const char *or_empty(const char *text)
{
    return text != NULL ? text : "";
}

int request_read(struct request *request, struct conn *conn, struct arena *arena, size_t max_header_bytes,
                 size_t max_body_bytes, struct failure *failure)
{
    char *id = arena_alloc(arena, REQUEST_ID_MAX + 1);
    const struct span path[] = { span_cstr(conn_param(conn, "SCRIPT_NAME")),
                                 span_cstr(conn_param(conn, "PATH_INFO")) };
    request_choose_id(span_cstr(conn_param(conn, "HTTP_X_REQUEST_ID")), id);
    *request = (struct request){
        .conn = conn,
        .arena = arena,
        .id = id,
        .method = or_empty(conn_param(conn, "REQUEST_METHOD")),
        .path = arena_join(arena, path, 2),
        .max_body_bytes = max_body_bytes,
    };
    size_t bytes = 0;
    conn_each_param(conn, add_header_bytes, &bytes);
    if (bytes <= max_header_bytes && !conn_is_params_cut(conn))
        return 0;
    *failure = (struct failure){
        .kind = FAILURE_HEADERS_TOO_LARGE,
        .message =
            conn_is_params_cut(conn)
                ? arena_printf(arena, "The request's parameters have more than %d bytes.", RECORD_PARAMS_MAX)
                : arena_printf(arena, "The request's headers have %zu bytes; at most %zu are allowed.", bytes,
                               max_header_bytes),
    };
    return ERR_LIMIT;
}

struct span request_bearer_in(const char *authorization)
{
    struct span value = span_trim(span_cstr(authorization));
    if (value.len < 7 || strncasecmp(value.ptr, "Bearer ", 7) != 0)
        return (struct span){ NULL, 0 };
    return span_trim(span_of(value.ptr + 7, value.len - 7));
}

struct span request_bearer(const struct request *request)
{
    return request_bearer_in(conn_param(request->conn, "HTTP_AUTHORIZATION"));
}

/* -1: no hex digit. */
static int hex_value(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = c == '\0' ? NULL : strchr(digits, tolower((unsigned char)c));
    return at == NULL ? -1 : (int)(at - digits);
}

static struct span decode_form(struct arena *arena, struct span text)
{
    char *out = arena_alloc(arena, text.len);
    size_t n = 0;

    for (size_t i = 0; i < text.len; i++) {
        int high = text.len - i > 2 ? hex_value(text.ptr[i + 1]) : -1;
        int low = text.len - i > 2 ? hex_value(text.ptr[i + 2]) : -1;
        if (text.ptr[i] == '%' && high >= 0 && low >= 0) {
            out[n++] = (char)(high * 16 + low);
            i += 2;
        } else {
            out[n++] = text.ptr[i] == '+' ? ' ' : text.ptr[i];
        }
    }
    return span_of(out, n);
}

bool request_query(const struct request *request, const char *name, struct span *out)
{
    const char *at = or_empty(conn_param(request->conn, "QUERY_STRING"));

    for (;;) {
        size_t len = strcspn(at, "&");
        struct span pair = span_of(at, len), value = span_of("", 0);
        const char *equals = memchr(at, '=', len);
        if (equals != NULL) {
            pair.len = (size_t)(equals - at);
            value = span_of(equals + 1, len - pair.len - 1);
        }
        if (len > 0 && span_is(decode_form(request->arena, pair), name)) {
            *out = decode_form(request->arena, value);
            return true;
        }
        if (at[len] == '\0')
            return false;
        at += len + 1;
    }
}

/* The length that the web server announces; it has read the body whole, or knows. */
static int read_length(const struct request *request, uint64_t *length)
{
    const char *text = conn_param(request->conn, "CONTENT_LENGTH");
    char *end;

    if (text == NULL || text[0] == '\0') {
        *length = 0;
        return 0;
    }
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || text[0] < '0' || text[0] > '9')
        return ERR_FORMAT;
    *length = value;
    return 0;
}

static bool is_of_type(const struct request *request, const char *media_type)
{
    const char *type = conn_param(request->conn, "CONTENT_TYPE");
    struct span media = span_cstr(type);
    const char *semicolon = type == NULL ? NULL : strchr(type, ';');
    if (semicolon != NULL)
        media.len = (size_t)(semicolon - type);
    media = span_trim(media);
    return span_is_nocase(media, media_type) ||
           (request->media_type != NULL && span_is_nocase(media, request->media_type));
}

static bool reserve(const struct request *request, uint64_t bytes)
{
    const struct engine_process *process = request->process;
    return process == NULL || bytes <= REQUEST_BODY_SMALL_BYTES ||
           scoreboard_reserve_body(process->mapping, process->record, bytes, request->body_memory_bytes);
}

/* Reads `size` bytes and the end. What came of a body that is not whole is wiped: an
 * administrator's holds keys, and nobody else will look at it. */
static int read_whole(struct conn *conn, char *bytes, size_t size, struct failure *failure)
{
    size_t have = 0;
    ssize_t n = 1;

    while (have < size && (n = conn_read(conn, bytes + have, size - have)) > 0)
        have += (size_t)n;
    int r = n < 0 ? (int)n : conn_read_end(conn);
    if (n >= 0 && (have < size || r == ERR_FORMAT)) {
        *failure = (struct failure){
            .kind = FAILURE_BODY_INCOMPLETE,
            .message = have < size ? NULL : "The body is longer than its Content-Length.",
        };
        r = ERR_FORMAT;
    }
    if (r != 0)
        explicit_bzero(bytes, have);
    return r;
}

int request_read_body(struct request *request, const char *media_type, struct span *body,
                      struct failure *failure)
{
    uint64_t length;

    if (!is_of_type(request, media_type)) {
        *failure = (struct failure){
            .kind = FAILURE_UNSUPPORTED_MEDIA_TYPE,
            .message = arena_printf(request->arena, "The body must be %s.", media_type),
        };
        return ERR_FORMAT;
    }
    if (read_length(request, &length) != 0) {
        *failure =
            (struct failure){ .kind = FAILURE_INVALID_REQUEST, .message = "Content-Length is not a number." };
        return ERR_FORMAT;
    }
    if (length > request->max_body_bytes) {
        *failure = (struct failure){
            .kind = FAILURE_BODY_TOO_LARGE,
            .message = arena_printf(request->arena, "The body has %llu bytes; at most %zu are allowed.",
                                    (unsigned long long)length, request->max_body_bytes),
        };
        return ERR_LIMIT;
    }
    if (!reserve(request, length)) {
        *failure = (struct failure){ .kind = FAILURE_BODY_MEMORY_FULL, .retry_after_s = 1 };
        return ERR_LIMIT;
    }
    char *bytes = arena_alloc(request->arena, (size_t)length + 1);
    int r = read_whole(request->conn, bytes, (size_t)length, failure);
    if (r == 0)
        *body = span_of(bytes, (size_t)length);
    return r;
}

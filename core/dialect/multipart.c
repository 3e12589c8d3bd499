#include "core/dialect/multipart.h"

#include <string.h>

#include "core/base/err.h"

/* --- words of a header's value --- */

static bool is_control(char c)
{
    return ((unsigned char)c < ' ' && c != '\t') || c == 0x7f;
}

/* RFC 9110, section 5.6.2. */
static bool is_token_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static struct span skip_blanks(struct span text)
{
    while (text.len > 0 && (text.ptr[0] == ' ' || text.ptr[0] == '\t'))
        text = span_of(text.ptr + 1, text.len - 1);
    return text;
}

/* Takes the first `len` bytes off the front. */
static struct span take(struct span *rest, size_t len)
{
    struct span taken = span_of(rest->ptr, len);
    *rest = span_of(rest->ptr + len, rest->len - len);
    return taken;
}

static struct span take_token(struct span *rest)
{
    size_t n = 0;
    while (n < rest->len && is_token_char(rest->ptr[n]))
        n++;
    return take(rest, n);
}

/* A backslash before a quote escapes it for some readers and not for others; any
 * other one is a character: browsers write paths with it. */
static bool take_quoted(struct span *rest, struct span *value)
{
    size_t n = 1;
    while (n < rest->len && rest->ptr[n] != '"') {
        if (rest->ptr[n] == '\\' && n + 1 < rest->len && rest->ptr[n + 1] == '"')
            return false;
        n++;
    }
    if (n == rest->len)
        return false;
    struct span whole = take(rest, n + 1);
    *value = span_of(whole.ptr + 1, whole.len - 2);
    return true;
}

/* More than a token: boundaries and file names are often left unquoted. */
static bool take_unquoted(struct span *rest, struct span *value)
{
    size_t n = 0;
    while (n < rest->len && strchr("; \t\"", rest->ptr[n]) == NULL)
        n++;
    *value = take(rest, n);
    return n > 0;
}

struct parameter {
    struct span name, value;
};

/* Takes the next "; name=value": 1, 0 at the end, or ERR_FORMAT. */
static int take_parameter(struct span *rest, struct parameter *out)
{
    *rest = skip_blanks(*rest);
    if (rest->len == 0)
        return 0;
    if (rest->ptr[0] != ';')
        return ERR_FORMAT;
    take(rest, 1);
    *rest = skip_blanks(*rest);
    out->name = take_token(rest);
    if (out->name.len == 0 || rest->len < 2 || rest->ptr[0] != '=')
        return ERR_FORMAT;
    take(rest, 1);
    bool is_read = rest->ptr[0] == '"' ? take_quoted(rest, &out->value) : take_unquoted(rest, &out->value);
    return is_read ? 1 : ERR_FORMAT;
}

static bool has_control(struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        if (is_control(text.ptr[i]))
            return true;
    return false;
}

/* --- the boundary --- */

static int refuse(struct multipart_fault *fault, size_t offset, const char *what)
{
    *fault = (struct multipart_fault){ offset, what };
    return ERR_FORMAT;
}

/* RFC 2046, section 5.1.1: bchars, and no space at the end. */
static bool is_boundary(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool is_alnum = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_alnum && (c == '\0' || strchr("'()+_,-./:=? ", c) == NULL))
            return false;
    }
    return text.len > 0 && text.len <= MULTIPART_BOUNDARY_BYTES && text.ptr[text.len - 1] != ' ';
}

int multipart_boundary(struct span content_type, struct span *boundary, struct multipart_fault *fault)
{
    const char *mark = content_type.len == 0 ? NULL : memchr(content_type.ptr, ';', content_type.len);
    struct span rest = content_type, found = { NULL, 0 };
    struct parameter parameter;
    int r;

    if (has_control(content_type))
        return refuse(fault, 0, "a control character");
    take(&rest, mark == NULL ? content_type.len : (size_t)(mark - content_type.ptr));
    while ((r = take_parameter(&rest, &parameter)) == 1) {
        if (!span_is_nocase(parameter.name, "boundary"))
            continue;
        if (found.ptr != NULL)
            return refuse(fault, (size_t)(parameter.name.ptr - content_type.ptr), "a second boundary");
        found = parameter.value;
    }
    if (r != 0)
        return refuse(fault, content_type.len - rest.len, "no parameter");
    if (found.ptr == NULL)
        return refuse(fault, content_type.len, "no boundary");
    if (!is_boundary(found))
        return refuse(fault, (size_t)(found.ptr - content_type.ptr), "a value that no boundary may have");
    *boundary = found;
    return 0;
}

/* --- the head of a part --- */

struct head {
    struct multipart_part *part;
    bool has_disposition, has_encoding;
};

/* Each reads the value of one field: NULL, or what is wrong with it. */

static const char *read_disposition(struct head *head, struct span value)
{
    struct multipart_part *part = head->part;
    bool has_file_name = false;
    struct parameter parameter;
    int r;

    if (head->has_disposition)
        return "a second Content-Disposition";
    head->has_disposition = true;
    if (!span_is_nocase(take_token(&value), "form-data"))
        return "a Content-Disposition other than form-data";
    while ((r = take_parameter(&value, &parameter)) == 1) {
        bool is_name = span_is_nocase(parameter.name, "name");
        if (span_is_nocase(parameter.name, "name*"))
            return "a name in the extended form";
        if (is_name && part->name.ptr != NULL)
            return "a second name";
        if (is_name && memchr(parameter.value.ptr, '\\', parameter.value.len) != NULL)
            return "a backslash in a name";
        if (is_name)
            part->name = parameter.value;
        if (span_is_nocase(parameter.name, "filename") && has_file_name)
            return "a second file name";
        has_file_name |= span_is_nocase(parameter.name, "filename");
        part->is_file |= has_file_name || span_is_nocase(parameter.name, "filename*");
    }
    if (r != 0)
        return "a Content-Disposition that cannot be read";
    return part->name.ptr == NULL ? "a part without a name" : NULL;
}

static const char *read_encoding(struct head *head, struct span value)
{
    if (head->has_encoding)
        return "a second Content-Transfer-Encoding";
    head->has_encoding = true;
    if (!span_is_nocase(value, "binary") && !span_is_nocase(value, "8bit") && !span_is_nocase(value, "7bit"))
        return "a Content-Transfer-Encoding that changes bytes";
    return NULL;
}

static const char *read_length(struct head *head, struct span value)
{
    if (head->part->length.ptr != NULL)
        return "a second Content-Length";
    if (value.len == 0)
        return "an empty Content-Length";
    head->part->length = value;
    return NULL;
}

static const struct head_field {
    const char *name;
    const char *(*read)(struct head *head, struct span value);
} head_fields[] = {
    { "Content-Disposition", read_disposition },
    { "Content-Transfer-Encoding", read_encoding },
    { "Content-Length", read_length },
};

/* One line, without its end: NULL, or what is wrong with it. */
static const char *read_head_line(struct head *head, struct span line)
{
    struct span name = take_token(&line);

    if (name.len == 0 || line.len == 0 || line.ptr[0] != ':')
        return "a line of a part's head that is no field";
    if (has_control(line))
        return "a control character in a part's head";
    take(&line, 1);
    for (size_t i = 0; i < sizeof(head_fields) / sizeof(head_fields[0]); i++)
        if (span_is_nocase(name, head_fields[i].name))
            return head_fields[i].read(head, span_trim(line));
    return NULL;
}

/* --- the body --- */

struct scan {
    struct span body;
    char line[MULTIPART_BOUNDARY_BYTES + 4]; /* LF, two hyphens, the boundary */
    size_t line_len;
    size_t at;
    struct multipart_fault *fault;
};

static int fail(const struct scan *s, size_t offset, const char *what)
{
    return refuse(s->fault, offset, what);
}

/* Whether the bytes at `offset` are these. */
static bool stands_at(const struct scan *s, size_t offset, const char *text, size_t len)
{
    return offset <= s->body.len && s->body.len - offset >= len &&
           memcmp(s->body.ptr + offset, text, len) == 0;
}

/* The next line that begins with the boundary: where its LF stands, from `from` on;
 * the body's length if there is none. */
static size_t find_line(const struct scan *s, size_t from)
{
    const char *hit = memmem(s->body.ptr + from, s->body.len - from, s->line, s->line_len);
    return hit == NULL ? s->body.len : (size_t)(hit - s->body.ptr);
}

/* Some readers end lines at a CR alone, some at a LF. */
static int refuse_bare_line(const struct scan *s)
{
    char bare[MULTIPART_BOUNDARY_BYTES + 4];

    memcpy(bare, s->line, s->line_len);
    bare[0] = '\r';
    const char *hit = memmem(s->body.ptr, s->body.len, bare, s->line_len);
    return hit == NULL ? 0 : fail(s, (size_t)(hit - s->body.ptr), "a boundary after a CR alone");
}

/* Behind the boundary, at s->at: goes past the end of its line. */
static int end_line(struct scan *s, bool *is_last)
{
    *is_last = stands_at(s, s->at, "--", 2);
    s->at += *is_last ? 2 : 0;
    while (s->at < s->body.len && (s->body.ptr[s->at] == ' ' || s->body.ptr[s->at] == '\t'))
        s->at++;
    if (*is_last && s->at == s->body.len)
        return 0;
    if (!stands_at(s, s->at, "\r\n", 2))
        return fail(s, s->at, "bytes behind a boundary");
    s->at += 2;
    return 0;
}

/* From the start to behind the first boundary. */
static int skip_preamble(struct scan *s)
{
    if (stands_at(s, 0, s->line + 1, s->line_len - 1)) {
        s->at = s->line_len - 1;
        return 0;
    }
    size_t lf = find_line(s, 0);
    if (lf == s->body.len)
        return fail(s, lf, "no boundary");
    if (lf == 0 || s->body.ptr[lf - 1] != '\r')
        return fail(s, lf, "a boundary after a LF alone");
    s->at = lf + s->line_len;
    return 0;
}

static int read_head(struct scan *s, struct multipart_part *part)
{
    struct head head = { .part = part };
    const size_t start = s->at;

    for (;;) {
        size_t room = s->body.len - s->at, bound = MULTIPART_HEAD_BYTES - (s->at - start);
        const char *line = s->body.ptr + s->at, *what;
        const char *lf = memchr(line, '\n', room < bound ? room : bound);
        if (lf == NULL && room >= bound) {
            fail(s, start, "a part's head of more than 8192 bytes");
            return ERR_LIMIT;
        }
        if (lf == NULL)
            return fail(s, s->body.len, "no end of a part's head");
        size_t len = (size_t)(lf - line);
        if (len == 0 || lf[-1] != '\r')
            return fail(s, s->at + len, "a LF alone in a part's head");
        if (stands_at(s, s->at, s->line + 1, s->line_len - 1))
            return fail(s, s->at, "a boundary in a part's head"); /* it may be a field's name, too */
        if (len > 1 && (what = read_head_line(&head, span_of(line, len - 1))) != NULL)
            return fail(s, s->at, what);
        s->at += len + 1;
        if (len == 1)
            break;
    }
    return head.has_disposition ? 0 : fail(s, start, "a part without Content-Disposition");
}

/* The value of a part, up to behind the boundary that ends it. */
static int read_value(struct scan *s, struct multipart_part *part)
{
    /* From the LF that ends the head: a boundary in the very first line of a value
     * shares it, and is one to some readers only. */
    size_t start = s->at, lf = find_line(s, start - 1);

    if (lf == s->body.len)
        return fail(s, lf, "no closing boundary");
    if (lf < start)
        return fail(s, start, "a boundary right behind a part's head");
    if (s->body.ptr[lf - 1] != '\r')
        return fail(s, lf, "a boundary after a LF alone");
    part->value = span_of(s->body.ptr + start, lf - 1 - start);
    s->at = lf + s->line_len;
    return 0;
}

int multipart_scan(struct span body, struct span boundary,
                   int (*on_part)(void *ctx, const struct multipart_part *part), void *ctx,
                   struct multipart_fault *fault)
{
    struct scan s = { .body = body, .line = "\n--", .line_len = 3 + boundary.len, .fault = fault };
    bool is_last;

    if (body.len == 0)
        return refuse(fault, 0, "no boundary");
    memcpy(s.line + 3, boundary.ptr, boundary.len);
    int r = refuse_bare_line(&s);
    if (r == 0)
        r = skip_preamble(&s);
    if (r == 0)
        r = end_line(&s, &is_last);
    for (unsigned n = 0; r == 0 && !is_last; n++) {
        struct multipart_part part = { .is_file = false };
        if (n == MULTIPART_PARTS) {
            fail(&s, s.at, "too many parts");
            return ERR_LIMIT;
        }
        if ((r = read_head(&s, &part)) == 0 && (r = read_value(&s, &part)) == 0 &&
            (r = end_line(&s, &is_last)) == 0)
            r = on_part(ctx, &part);
    }
    if (r != 0)
        return r;
    size_t lf = find_line(&s, s.at - 1);
    return lf == body.len ? 0 : fail(&s, lf, "a boundary behind the closing one");
}

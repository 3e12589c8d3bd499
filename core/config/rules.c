#include "core/config/rules.h"

#include "core/config/baseurl.h"
#include "core/crypto/envelope.h"

static bool has_control(struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7f)
            return true;
    return false;
}

static const char *label_problem(struct span text)
{
    return has_control(text) ? "it holds a control character" : NULL;
}

static const char *name_problem(struct span text)
{
    return text.len > 0 && memchr(text.ptr, '|', text.len) != NULL ? "it holds \"|\"" : label_problem(text);
}

/* As RFC 4647 has language ranges: which tags are registered is not asked. */
static const char *locale_problem(struct span text)
{
    static const char wrong[] = "it is no language tag (BCP 47)";
    size_t part = 0, parts = 0;
    for (size_t i = 0; i <= text.len; i++) {
        char c = i < text.len ? text.ptr[i] : '-';
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (c == '-') {
            if (part == 0 || part > 8 || (parts == 0 && part < 2))
                return wrong;
            part = 0;
            parts++;
        } else if (is_letter || (parts > 0 && c >= '0' && c <= '9')) {
            part++;
        } else {
            return wrong;
        }
    }
    return NULL;
}

static const char *base_url_problem(struct span text)
{
    return baseurl_parse(text, NULL, NULL);
}

static const char *endpoint_url_problem(struct span text)
{
    return baseurl_parse_endpoint(text, NULL, NULL);
}

/* It becomes a part of a host's name. */
static const char *region_problem(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool is_alphanumeric = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_alphanumeric && (c != '-' || i == 0 || i + 1 == text.len))
            return "it is no label of a host's name";
    }
    return NULL;
}

/* Headers that describe our own message to the upstream (RFC 9110, 9112). */
static const char *const own_headers[] = {
    "host", "content-length", "content-type", "transfer-encoding", "connection",      "expect",
    "te",   "upgrade",        "traceparent",  "tracestate",        "accept-encoding", /* a compressed reply
                                                        could be neither judged nor passed on as it comes */
};

static const char *header_name_problem(struct span text)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool is_alphanumeric = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!is_alphanumeric && (c == '\0' || strchr(marks, c) == NULL))
            return "it is no token (RFC 9110)";
    }
    for (size_t i = 0; i < sizeof(own_headers) / sizeof(own_headers[0]); i++)
        if (span_is_nocase(text, own_headers[i]))
            return "this header is the router's own to send";
    return NULL;
}

static const char *header_template_problem(struct span text)
{
    static const char place[] = "{KEY}";
    size_t found = 0;
    for (size_t i = 0; i + sizeof(place) - 1 <= text.len; i++)
        found += memcmp(text.ptr + i, place, sizeof(place) - 1) == 0;
    if (found != 1)
        return found == 0 ? "it does not hold {KEY}" : "it holds {KEY} more than once";
    return label_problem(text);
}

static const char *ciphertext_problem(struct span text)
{
    return envelope_is_well_formed(text) ? NULL : "it is not of that form";
}

static const char *sha256_problem(struct span text)
{
    for (size_t i = 0; i < text.len; i++)
        if (!((text.ptr[i] >= '0' && text.ptr[i] <= '9') || (text.ptr[i] >= 'a' && text.ptr[i] <= 'f')))
            return "it holds something else than 0-9 and a-f";
    return NULL;
}

static const char *id_problem(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
              c == '-'))
            return "it holds something else than letters, digits, \"_\" and \"-\"";
    }
    return NULL;
}

/* By its shape: whether there was such a day is not asked. */
static const char *time_problem(struct span text)
{
    static const char shape[] = "dddd-dd-ddTdd:dd:dd";
    bool fits = text.len > sizeof(shape) - 1 && text.ptr[text.len - 1] == 'Z';
    for (size_t i = 0; fits && i + 1 < sizeof(shape); i++)
        fits = shape[i] == 'd' ? text.ptr[i] >= '0' && text.ptr[i] <= '9' : text.ptr[i] == shape[i];
    for (size_t i = sizeof(shape) - 1; fits && i + 1 < text.len; i++)
        fits = i == sizeof(shape) - 1 ? text.ptr[i] == '.' : text.ptr[i] >= '0' && text.ptr[i] <= '9';
    return fits ? NULL : "it is no such time";
}

#define NO_CONTROL "^[^\\u0000-\\u001f\\u007f]*$"

const struct text_rule rule_label = {
    "a text without control characters",
    NO_CONTROL,
    label_problem,
};
const struct text_rule rule_name = {
    "a name without \"|\" and control characters",
    "^[^|\\u0000-\\u001f\\u007f]*$",
    name_problem,
};
const struct text_rule rule_locale = {
    "a language tag (BCP 47)",
    "^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$",
    locale_problem,
};
const struct text_rule rule_base_url = {
    "an http or https URL without user, query and fragment",
    "^[Hh][Tt][Tt][Pp][Ss]?://[^?#@\\s]+$",
    base_url_problem,
};
const struct text_rule rule_endpoint_url = {
    "an http or https URL without user and fragment",
    "^[Hh][Tt][Tt][Pp][Ss]?://[^#@\\s]+$",
    endpoint_url_problem,
};
const struct text_rule rule_region = {
    "a region's name of letters, digits and inner hyphens",
    "^[0-9A-Za-z]([0-9A-Za-z-]*[0-9A-Za-z])?$",
    region_problem,
};
const struct text_rule rule_header_name = {
    "the name of a header that is not the router's own",
    "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$",
    header_name_problem,
};
const struct text_rule rule_header_template = {
    "a text with {KEY} exactly once, without control characters",
    "^[^\\u0000-\\u001f\\u007f]*\\{KEY\\}[^\\u0000-\\u001f\\u007f]*$",
    header_template_problem,
};
const struct text_rule rule_header_value = {
    "a header's value without control characters",
    NO_CONTROL,
    label_problem,
};
const struct text_rule rule_ciphertext = {
    "a ciphertext v1.<iv>.<ciphertext>.<tag> as llm-routerctl encrypt prints it",
    "^v1\\.[A-Za-z0-9_-]{16}\\.[A-Za-z0-9_-]*\\.[A-Za-z0-9_-]{22}$",
    ciphertext_problem,
};
const struct text_rule rule_sha256 = {
    "a SHA-256 in lower-case hex",
    "^[0-9a-f]{64}$",
    sha256_problem,
};
const struct text_rule rule_id = {
    "an id of letters, digits, \"_\" and \"-\"",
    "^[A-Za-z0-9_-]*$",
    id_problem,
};
const struct text_rule rule_time = {
    "a time in UTC (RFC 3339)",
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]*)?Z$",
    time_problem,
};

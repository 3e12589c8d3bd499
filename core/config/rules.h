/* Rules for texts: what a string member may hold beyond its length. Pure. */
#ifndef CORE_CONFIG_RULES_H
#define CORE_CONFIG_RULES_H

#include <stdbool.h>

#include "core/base/span.h"

struct text_rule {
    const char *words; /* what is expected: "a name without | and control characters" */
    const char
        *pattern; /* the same for JSON Schema, as far as a regular expression can say it; NULL: nothing */
    const char *(*problem)(struct span text); /* NULL, or a phrase that says what is wrong */
};

extern const struct text_rule rule_label;  /* no control characters */
extern const struct text_rule rule_name;   /* a label without "|", which separates AAD */
extern const struct text_rule rule_locale; /* a language tag (BCP 47): zh, zh-CN, sr-Latn-RS */
extern const struct text_rule rule_base_url;
extern const struct text_rule rule_endpoint_url;    /* the same with a query */
extern const struct text_rule rule_region;          /* a label of a host's name */
extern const struct text_rule rule_header_name;     /* a token, and not a header that is ours to send */
extern const struct text_rule rule_header_template; /* {KEY} exactly once */
extern const struct text_rule rule_header_value;
extern const struct text_rule rule_ciphertext;
extern const struct text_rule rule_sha256;
extern const struct text_rule rule_id;   /* letters, digits, "_" and "-" */
extern const struct text_rule rule_time; /* RFC 3339 */

#endif

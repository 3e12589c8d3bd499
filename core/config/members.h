/*
 * One object's members, or one list's elements, as spans of the text they stand
 * in: for comparing and merging documents without a tree.
 */
#ifndef CORE_CONFIG_MEMBERS_H
#define CORE_CONFIG_MEMBERS_H

#include <stddef.h>

#include "core/base/arena.h"
#include "core/base/span.h"

struct member {
    struct span name;    /* decoded; empty in a list */
    struct span written; /* from the name's opening quote to the value's last byte */
    struct span before;  /* the blanks in front of it, behind the comma or bracket */
    struct span value;   /* as written */
    struct span after;   /* the blanks in front of the comma behind it */
};

struct members {
    struct member *items; /* in the text's order; arena memory */
    size_t count;
    size_t *by_name;    /* positions of an object's members, sorted by name */
    struct span behind; /* the blanks in front of the closing bracket */
};

/* `text` is a value without blanks around it, of a text that document_check
 * accepts. What is neither object nor list has no members. */
struct members members_read(struct span text, struct arena *arena);

/* NULL if there is none of this name. */
const struct member *members_find(const struct members *members, struct span name);

#endif

/*
 * Pages that browsers get from this program: a table of files, compiled into it
 * (tools/embed-pages), so that no path of a request is ever one of the file system.
 * They are for anybody; what they show is asked of llm-router, with a key of whoever looks.
 */
#ifndef ADMIN_PAGES_H
#define ADMIN_PAGES_H

#include <stdbool.h>
#include <stddef.h>

#include "admin/admin.h"
#include "core/base/span.h"

struct page {
    const char *name; /* behind the mount; "" for the page itself */
    const char *media_type;
    const char *tag; /* the first 32 hex digits of its SHA-256 */
    struct span text;
};

extern const struct page pages[];
extern const size_t n_pages;

/* Answers if the path is the mount, /voice-packs, or below it; false: it is not, and nothing was sent. */
bool pages_serve(struct admin_turn *turn);

#endif

/*
 * A strict JSON scanner (RFC 8259): one pass over bytes that stay where they
 * are. It builds nothing; it reports the values that stand at wanted paths, as
 * spans of the input. The hot path reads bodies, replies and events with it.
 *
 * A path is member names joined by dots; "*" stands for every member of an
 * object or element of an array: "model", "stream_options.include_usage",
 * "choices.*.delta.*". Names are compared decoded, so that "mod\u0065l" is
 * found as model. An empty path is the whole text. Paths are the program's own:
 * more than the bounds below allow is an assertion failure.
 *
 * Pure: no I/O, no globals, a bounded stack (JSON_DEPTH_MAX), and no allocation
 * except with JSON_SCAN_UNIQUE, whose table of names is freed before the return.
 */
#ifndef CORE_JSON_SCAN_H
#define CORE_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/span.h"

enum {
    JSON_DEPTH_MAX = 128, /* nested arrays and objects */
    JSON_WANTS_MAX = 32,  /* paths of one scan */
    JSON_PATH_MAX = 8,    /* names of one path */
};

enum json_kind {
    JSON_KIND_ABSENT, /* only in results of json_find: nothing stands there */
    JSON_KIND_NULL,
    JSON_KIND_FALSE,
    JSON_KIND_TRUE,
    JSON_KIND_NUMBER,
    JSON_KIND_STRING,
    JSON_KIND_ARRAY,
    JSON_KIND_OBJECT,
};

struct json_value {
    enum json_kind kind;
    struct span raw;   /* the value as written, with quotes or brackets */
    struct span key;   /* its member's name as written, without quotes; empty in an array.
                        * json_decode takes span_of(key.ptr - 1, key.len + 2). */
    size_t key_offset; /* of the name's opening quote in the text; 0 in an array */
    size_t offset;     /* of raw in the text */
    unsigned path;     /* index of the wanted path */
    size_t element;    /* index in the outermost array that a "*" of the path stands for, else 0 */
};

/* Why a text was refused. */
struct json_fault {
    size_t offset;    /* bytes before the first one that cannot stand there */
    const char *what; /* a constant phrase: "expected a value", ... */
};

struct json_want {
    const char *path;
    bool unique; /* a second member of any name of the path, in one object and at
                  * its place in the path, is refused; "*" is no name */
};

/* Wanted paths, taken apart: for who scans for the same ones over and over. */
struct json_paths {
    /* private: sets of paths have a bit for each */
    const struct json_want *wants;
    size_t n_wants;
    uint32_t ending[JSON_PATH_MAX + 1];  /* [d]: those of exactly d names */
    uint32_t star[JSON_PATH_MAX];        /* [d]: those whose name d is "*" */
    uint32_t initial[JSON_PATH_MAX][32]; /* [d][c % 32]: those whose name d begins with c */
    uint32_t unique;
    struct {
        uint8_t from, len;
    } names[JSON_WANTS_MAX][JSON_PATH_MAX]; /* in the path's text */
};

/* `wants` outlives *paths. A path has at most 255 characters. */
void json_paths_init(struct json_paths *paths, const struct json_want *wants, size_t n_wants);

enum json_scan_flags {
    JSON_SCAN_CUT = 1,    /* the text may end anywhere: its end is then no fault, and
                           * what it leaves unfinished is not reported; nor is a number
                           * at the very end, which might have gone on */
    JSON_SCAN_UNIQUE = 2, /* any second member of one name in any object is refused */
};

/*
 * Scans the whole text and calls on_value(ctx, &value) for each value at a
 * wanted path, when the value's last byte has been read (so an object comes
 * after its members). *value lives for the call, its spans as long as the text.
 * on_value may be NULL when nothing is wanted. A negative return of on_value
 * ends the scan and is returned.
 *
 * ERR_FORMAT: not JSON, or bytes follow it; *fault (if not NULL) says where.
 * ERR_LIMIT: nested deeper than JSON_DEPTH_MAX. ERR_CONFLICT: a repeated member.
 */
int json_scan(struct span text, const struct json_want *wants, size_t n_wants, unsigned flags,
              int (*on_value)(void *ctx, const struct json_value *value), void *ctx,
              struct json_fault *fault);

/* The same for paths that are taken apart already. */
int json_scan_paths(struct span text, const struct json_paths *paths, unsigned flags,
                    int (*on_value)(void *ctx, const struct json_value *value), void *ctx,
                    struct json_fault *fault);

/* json_scan that keeps the last value of each path: found[i] is that of
 * wants[i], of kind JSON_KIND_ABSENT where nothing stands. */
int json_find(struct span text, const struct json_want *wants, size_t n_wants, unsigned flags,
              struct json_value *found, struct json_fault *fault);

/* The text of a string value (quotes included in `raw`, as the scanner gave
 * it), decoded, in the arena and with a NUL behind it that the result does not
 * count. A text without escapes is copied too. A lone surrogate becomes U+FFFD;
 * an escaped NUL is kept, so test with the length. */
struct span json_decode(struct arena *arena, struct span raw);

/* The same into `size` bytes with a NUL at the end: cut at a character's border, and at an
 * escaped NUL. */
void json_copy(struct span raw, char *out, size_t size);

/* Whether the value `raw` is a string that decodes to exactly `text`. Allocates nothing. */
bool json_string_is(struct span raw, const char *text);

/* A number value as an integer: true and *out if it is written without
 * fraction and exponent and fits. */
bool json_int(struct span raw, long long *out);

/* A number value as the nearest double: false if it is written with more than 63
 * bytes or is too large for one. The process has the C locale. */
bool json_number(struct span raw, double *out);

#endif

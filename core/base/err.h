/*
 * Error codes, and errors with a sentence for people.
 *
 * Every function that can fail returns 0 on success and a negative `enum err`
 * otherwise; its out-parameters come last and are untouched on failure. A
 * function that can say more than a code takes a `struct error` and fills it.
 */
#ifndef CORE_BASE_ERR_H
#define CORE_BASE_ERR_H

enum err {
    ERR_OK = 0,
    ERR_SYSTEM = -1,      /* a system call failed; errno was set */
    ERR_LIMIT = -2,       /* a bound was reached */
    ERR_FORMAT = -3,      /* malformed input */
    ERR_NOT_FOUND = -4,   /* no such thing */
    ERR_CONFLICT = -5,    /* somebody else changed it first */
    ERR_CRYPTO = -6,      /* a cryptographic check failed, or a key is missing */
    ERR_TIMEOUT = -7,     /* a deadline passed */
    ERR_CLIENT_GONE = -8, /* the caller closed its connection */
    ERR_UNSUPPORTED = -9, /* understood, but not offered */
    ERR_STOPPED = -10,    /* ended on request: not a failure of the thing itself */
};

/* The code's name in lower case, for logs; never NULL. */
const char *err_name(int code);

/* A failure with one sentence: what was expected, what was found and where.
 * The sentence is cut at the array's end. It never holds a secret. */
struct error {
    int code;
    char text[512];
};

/* Fills *e (which may be NULL) and returns `code`, so that a caller can write
 * `return error_set(e, ERR_FORMAT, "...")`. */
int error_set(struct error *e, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif

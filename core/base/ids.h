/* Identifiers made from the system's random numbers. Safe after fork; of a process with
 * threads, all may call ids_random, and one the others. */
#ifndef CORE_BASE_IDS_H
#define CORE_BASE_IDS_H

#include <stddef.h>
#include <stdint.h>

enum {
    UUID_TEXT_BYTES = 37,       /* 36 characters and a NUL */
    REQUEST_ID_TEXT_BYTES = 33, /* 32 hex characters and a NUL */
    NANOID_TEXT_BYTES = 22,     /* 21 characters and a NUL */
};

/* Random bytes, for keys too; ends the process if the system has none to give. */
void ids_random(void *out, size_t bytes);

/* A UUIDv7 (RFC 9562, section 5.7) whose time is `wall_us`, to the millisecond
 * in its time field and to the microsecond's fraction in rand_a. */
void ids_uuid7(uint64_t wall_us, char out[UUID_TEXT_BYTES]);

/* 32 random lower-case hex characters. */
void ids_request_id(char out[REQUEST_ID_TEXT_BYTES]);

/* 21 random characters of A-Z, a-z, 0-9, "_" and "-", nearly 126 bits; the first is no "-",
 * so that a command takes it for an argument. */
void ids_nanoid(char out[NANOID_TEXT_BYTES]);

/* Lower-case hex of `bytes` bytes and a NUL: `out` has 2 * bytes + 1. */
void ids_hex(const void *in, size_t bytes, char *out);

#endif

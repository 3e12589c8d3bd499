/*
 * Several clips of one format, made into one file: for text that a provider takes
 * only in pieces. Written one behind the other, most clips are no file that a
 * player reads to its end: each has a head that says how long it is.
 *
 * Clips come in pieces of any size, and what can be given out is, so that little
 * is ever held.
 */
#ifndef ADAPTERS_JOIN_H
#define ADAPTERS_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/span.h"

enum join_format {
    JOIN_PCM16,    /* samples of two bytes, nothing around them */
    JOIN_MP3,      /* without the tags and the table of contents of each clip */
    JOIN_WAV,      /* one head, which leaves the length open */
    JOIN_OGG_OPUS, /* one logical stream: pages numbered and timed anew */
};

struct join_sink {
    void *ctx;
    int (*give)(void *ctx, struct span bytes); /* 0, or a negative error that ends the joining */
};

/* A whole number of samples at a time: half of one would turn all that follows into noise. */
struct join_samples {
    size_t sample_bytes;
    unsigned char part[16];
    size_t n_part;
};

struct join_mp3 {
    unsigned state;
    uint64_t skip_bytes;
    struct buf held; /* the head of a clip, then what may be the tag at its end */
};

struct join_wav {
    struct buf held; /* up to the data of a clip */
    uint64_t left;   /* of its data */
    bool is_in_data;
    unsigned char format[64]; /* of the first clip: its "fmt " chunk */
    size_t format_len;
    struct join_samples samples;
};

struct join_ogg {
    struct buf page; /* the one that comes */
    struct buf held; /* the last whole one: it may have to be the end */
    uint32_t serial_in, serial_out;
    uint32_t n_pages; /* given */
    bool is_in_clip, is_first_link;
    unsigned n_heads; /* packets of the clip that come before its audio and were read */
    unsigned char toc[2];
    size_t packet_len; /* of the packet that goes on in the next page; its first bytes are in toc */
    uint64_t clip_samples, total_samples; /* at 48 kHz */
    uint64_t clip_trim;                   /* how many of them its last page takes away */
    bool has_audio;                       /* the held page is of audio that ends there: its time is known */
    unsigned char channels, mapping;
};

struct join {
    enum join_format format;
    bool is_first; /* the clip that comes is the first one */
    union {
        struct join_samples samples;
        struct join_mp3 mp3;
        struct join_wav wav;
        struct join_ogg ogg;
    } u;
};

void join_init(struct join *join, enum join_format format);
void join_free(struct join *join);

/* The next piece of the clip. ERR_FORMAT: it is not of the format, or not of the
 * first one's kind. Else what the sink returned. */
int join_feed(struct join *join, struct span piece, const struct join_sink *sink);

/* The clip has ended; another follows, or, if `is_last`, none. ERR_FORMAT: it was
 * not whole. */
int join_end_clip(struct join *join, bool is_last, const struct join_sink *sink);

#endif

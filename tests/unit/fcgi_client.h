/*
 * A front end for tests: it makes FastCGI records of any kind, also wrong ones,
 * and takes a reply apart. Header only, so that each test stays one program.
 */
#ifndef TESTS_UNIT_FCGI_CLIENT_H
#define TESTS_UNIT_FCGI_CLIENT_H

#include <check.h>
#include <errno.h>
#include <fastcgi.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/buf.h"

enum { CLIENT_REQUEST_ID = 0x0203, WIRE_BYTES = 64 << 20 };

/* --- what the front end sends -------------------------------------------- */

/* One record, padded to a multiple of 8 as real front ends do. */
static inline void wire_record(struct buf *wire, int type, struct span content)
{
    static const char zeros[8];
    size_t padding = (8 - content.len % 8) % 8;
    const unsigned char header[8] = {
        FCGI_VERSION_1,
        (unsigned char)type,
        CLIENT_REQUEST_ID >> 8,
        CLIENT_REQUEST_ID & 0xff,
        (unsigned char)(content.len >> 8),
        (unsigned char)content.len,
        (unsigned char)padding,
    };
    buf_append(wire, header, sizeof(header));
    buf_append_span(wire, content);
    buf_append(wire, zeros, padding);
}

/* A stream in records of at most `record_bytes`, without its end. */
static inline void wire_stream(struct buf *wire, int type, struct span bytes, size_t record_bytes)
{
    while (bytes.len > 0) {
        size_t len = bytes.len < record_bytes ? bytes.len : record_bytes;
        wire_record(wire, type, span_of(bytes.ptr, len));
        bytes = span_of(bytes.ptr + len, bytes.len - len);
    }
}

static inline void wire_end(struct buf *wire, int type)
{
    wire_record(wire, type, span_of(NULL, 0));
}

static inline void wire_begin_role(struct buf *wire, int role, int flags)
{
    const char body[8] = { 0, (char)role, (char)flags };
    wire_record(wire, FCGI_BEGIN_REQUEST, span_of(body, sizeof(body)));
}

static inline void wire_begin(struct buf *wire)
{
    wire_begin_role(wire, FCGI_RESPONDER, 0);
}

static inline void params_add_length(struct buf *params, size_t len)
{
    if (len >= 128) {
        buf_append_char(params, (char)(len >> 24 | 0x80));
        buf_append_char(params, (char)(len >> 16));
        buf_append_char(params, (char)(len >> 8));
    }
    buf_append_char(params, (char)len);
}

static inline void params_add(struct buf *params, struct span name, struct span value)
{
    params_add_length(params, name.len);
    params_add_length(params, value.len);
    buf_append_span(params, name);
    buf_append_span(params, value);
}

/* Begin and parameters: name, value, …, NULL. A NULL value leaves its name out. */
static inline void wire_head(struct buf *wire, const char *const *pairs)
{
    struct buf params;

    buf_init(&params, WIRE_BYTES);
    for (; pairs[0] != NULL; pairs += 2) {
        if (pairs[1] != NULL)
            params_add(&params, span_cstr(pairs[0]), span_cstr(pairs[1]));
    }
    wire_begin(wire);
    wire_stream(wire, FCGI_PARAMS, buf_span(&params), 65535);
    wire_end(wire, FCGI_PARAMS);
    buf_free(&params);
}

/* 0, or an errno: the peer may have gone. */
static inline int wire_try_send(int fd, const struct buf *wire)
{
    for (size_t sent = 0; sent < wire->len;) {
        ssize_t n = send(fd, wire->data + sent, wire->len - sent, MSG_NOSIGNAL);
        if (n < 0)
            return errno;
        sent += (size_t)n;
    }
    return 0;
}

/* Sends all of it and empties it. */
static inline void wire_send(int fd, struct buf *wire)
{
    int error = wire_try_send(fd, wire);
    ck_assert_msg(error == 0, "the front end could not send: %s", strerror(error));
    buf_clear(wire);
}

/* --- what it gets --------------------------------------------------------- */

struct client_reply {
    struct buf bytes;    /* as they came */
    struct buf out;      /* the content of STDOUT */
    size_t records;      /* of STDOUT, with content */
    size_t largest;      /* content of one */
    bool has_end;        /* END_REQUEST came */
    unsigned app_status; /* of END_REQUEST */
    unsigned protocol_status;
    bool is_out_ended; /* the empty STDOUT record came */
    bool is_invalid;   /* a record that no FastCGI has */
    size_t after_end;  /* bytes after END_REQUEST */
    int error;         /* errno of the read that ended it; 0: end of file */
};

static inline void reply_parse(struct client_reply *r)
{
    const unsigned char *p = (const unsigned char *)r->bytes.data;
    size_t left = r->bytes.len;

    while (left >= 8 && !r->has_end) {
        size_t content = (size_t)p[4] << 8 | p[5], whole = 8 + content + p[6];
        if (p[0] != FCGI_VERSION_1 || (p[2] << 8 | p[3]) != CLIENT_REQUEST_ID) {
            r->is_invalid = true;
            return;
        }
        if (left < whole)
            return;
        ck_assert_msg(!r->is_out_ended || p[1] == FCGI_END_REQUEST, "a record of type %d after STDOUT's end",
                      p[1]);
        if (p[1] == FCGI_STDOUT) {
            buf_append(&r->out, p + 8, content);
            r->records += content > 0 ? 1 : 0;
            r->largest = content > r->largest ? content : r->largest;
            r->is_out_ended = content == 0;
        } else {
            ck_assert_msg(p[1] == FCGI_END_REQUEST && content == 8, "a record of type %d and %zu bytes", p[1],
                          content);
            r->has_end = true;
            r->app_status = (unsigned)p[8] << 24 | (unsigned)p[9] << 16 | (unsigned)p[10] << 8 | p[11];
            r->protocol_status = p[12];
        }
        p += whole;
        left -= whole;
    }
    r->after_end = r->has_end ? left : 0;
}

/* Reads to the end of the connection. Freed with client_reply_free. */
static inline void client_read(int fd, struct client_reply *r)
{
    char piece[65536];
    ssize_t n;

    *r = (struct client_reply){ .error = 0 };
    buf_init(&r->bytes, WIRE_BYTES);
    buf_init(&r->out, WIRE_BYTES);
    while ((n = recv(fd, piece, sizeof(piece), 0)) > 0)
        buf_append(&r->bytes, piece, (size_t)n);
    r->error = n < 0 ? errno : 0;
    reply_parse(r);
}

static inline void client_reply_free(struct client_reply *r)
{
    buf_free(&r->bytes);
    buf_free(&r->out);
}

/* A whole reply came, ended as FastCGI has it, and the connection was closed. */
static inline void client_expect_whole(const struct client_reply *r)
{
    ck_assert_msg(r->error == 0, "the connection ended with: %s", strerror(r->error));
    ck_assert_msg(!r->is_invalid, "an invalid record came");
    ck_assert_msg(r->is_out_ended && r->has_end, "the reply has no end");
    ck_assert_uint_eq(r->app_status, 0);
    ck_assert_uint_eq(r->protocol_status, FCGI_REQUEST_COMPLETE);
    ck_assert_uint_eq(r->after_end, 0);
}

#endif

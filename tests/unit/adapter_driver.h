/*
 * Drives an adapter as an attempt does, without a network: a caller's body in, the
 * exchanges out, and replies fed to it, whole or in pieces of any size.
 */
#ifndef TESTS_UNIT_ADAPTER_DRIVER_H
#define TESTS_UNIT_ADAPTER_DRIVER_H

#include <check.h>
#include <stdlib.h>

#include "adapters/adapter.h"
#include "core/base/arena.h"

struct driver {
    struct arena *arena, *scratch;
    struct request_facts facts;
    struct adapter_order order;
    struct adapter_fault fault;       /* why there is no call */
    struct adapter_call *call;        /* NULL: the order was refused */
    struct adapter_exchange exchange; /* the one to run */
    struct audio_sink sink;
    struct buf audio; /* what came out */
    size_t writes;
    int sink_result; /* what the sink answers */
};

static inline int driver_take_audio(void *ctx, struct span audio)
{
    struct driver *d = ctx;
    d->writes++;
    buf_append_span(&d->audio, audio);
    return d->sink_result;
}

/* An order for this body at an upstream with these adapterParams ("" for none), to be spoken with a
 * voice pack (NULL: with none). A body that the dialect refuses fails the test. */
static inline void driver_open_pack(struct driver *d, const char *adapter, const char *body,
                                    const char *params, const struct voice_pack_snapshot *pack)
{
    struct request_fault bad = { 0 };

    *d = (struct driver){ .arena = arena_new(), .scratch = arena_new() };
    buf_init(&d->audio, 64 * 1024 * 1024);
    d->sink = (struct audio_sink){ .ctx = d, .write = driver_take_audio };
    ck_assert_msg(speech_read_request(span_cstr(body), span_cstr(dialect_speech.media_type), d->arena,
                                      &d->facts, &bad) == 0,
                  "%s: %s", body, bad.message);
    struct speech_facts *speech = arena_new_of(d->arena, struct speech_facts);
    *speech = *d->facts.speech;
    if (pack != NULL) {
        speech->pack = pack;
        speech->voice = pack->voice_id;
        if (pack->params[VOICE_PACK_RATE].is_set)
            speech->speed = pack->params[VOICE_PACK_RATE].value;
    }
    d->order = (struct adapter_order){
        .adapter = adapter_find(span_cstr(adapter)),
        .speech = speech,
        .asked_model = span_cstr("asked"),
        .params = span_cstr(params),
        .endpoint = "https://upstream.test/speech",
        .id = "0123456789abcdef0123456789abcdef",
    };
    ck_assert_msg(d->order.adapter != NULL, "no adapter %s", adapter);
    d->call = adapter_call_new(&d->order, d->arena, d->scratch, &d->fault);
    if (d->call == NULL)
        return;
    d->call->sink = &d->sink;
    adapter_call_begin(d->call, &d->exchange);
}

static inline void driver_open(struct driver *d, const char *adapter, const char *body, const char *params)
{
    driver_open_pack(d, adapter, body, params, NULL);
}

static inline void driver_close(struct driver *d)
{
    arena_free(d->arena);
    arena_free(d->scratch);
    buf_free(&d->audio);
}

/* The body of the exchange to run, with a NUL behind it. */
static inline const char *driver_body(struct driver *d)
{
    struct splice_cursor cursor = { 0, 0 };
    size_t size = splice_size(&d->exchange.body);
    char *text = arena_alloc(d->arena, size + 1);
    text[splice_read(&d->exchange.body, &cursor, text, size)] = '\0';
    return text;
}

/* The value of a header of the exchange to run, or NULL. */
static inline const char *driver_header(const struct driver *d, const char *name)
{
    size_t len = strlen(name);
    for (const char *const *h = d->exchange.headers; h != NULL && *h != NULL; h++)
        if (strncasecmp(*h, name, len) == 0 && (*h)[len] == ':')
            return *h + len + 1 + strspn(*h + len + 1, " ");
    return NULL;
}

/* A whole 2xx in pieces of `step` bytes (0: in one). What the last function said;
 * after ADAPTER_AGAIN d->exchange is the next one. */
static inline enum adapter_step driver_reply(struct driver *d, const char *content_type, struct span body,
                                             size_t step)
{
    const struct adapter_reply head = { .status = 200, .content_type = span_cstr(content_type) };
    enum adapter_step said = adapter_call_head(d->call, &head);

    if (step == 0)
        step = body.len;
    while (said == ADAPTER_MORE && body.len > 0) {
        size_t len = body.len < step ? body.len : step;
        said = adapter_call_feed(d->call, span_of(body.ptr, len));
        body = span_of(body.ptr + len, body.len - len);
    }
    return said == ADAPTER_MORE ? adapter_call_finish(d->call, &d->exchange) : said;
}

#endif

/*
 * Adapters: what is known of one provider of speech, in one row of functions and
 * tables. An adapter turns what a caller asked for into the provider's requests,
 * and the provider's replies into audio. Bytes in, bytes out: it opens no
 * connection, keeps nothing between two calls, knows neither callers nor keys
 * (where a key goes is written {KEY}), and is tested and fuzzed alone.
 *
 * An order is what is to be spoken, and where. A call is one attempt at it:
 *
 *     adapter_call_new         reads parameters, checks what the provider can do
 *     adapter_call_begin       the first exchange
 *       adapter_call_head      a 2xx begins            } these three
 *       adapter_call_feed      its bytes, as they come } for each exchange
 *       adapter_call_finish    it ended: another exchange, or done
 *
 * Whoever drives a call runs the exchanges. A reply that is no 2xx is not fed: it
 * ends the call, and adapter_classify says what it means. So does a reply that
 * reports a failure inside its 2xx (ADAPTER_FAILED).
 */
#ifndef ADAPTERS_ADAPTER_H
#define ADAPTERS_ADAPTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/span.h"
#include "core/dialect/speech.h"
#include "core/json/splice.h"
#include "core/record/usage.h"

enum {
    ADAPTER_PARAMS_MAX = 48,               /* rows of one table */
    ADAPTER_FAILURE_BYTES = 8 * 1024,      /* that are kept of a failure */
    ADAPTER_EVENT_BYTES = 4 * 1024 * 1024, /* of one event or line of a stream: some ten seconds of WAV */
};

/* ---- what a provider takes ---- */

enum param_kind {
    PARAM_TEXT,   /* a string of min..max bytes without control characters */
    PARAM_NAME,   /* the same of visible ASCII without blanks: fit for a header or a path */
    PARAM_CHOICE, /* one of `choices` */
    PARAM_WHOLE,  /* a whole number of min..max */
    PARAM_NUMBER, /* any number of min..max */
    PARAM_BOOL,
    PARAM_JSON, /* an object or a list of at most max bytes as written, which goes on as it is */
};

/* Who may set it: operators in `adapterParams`, callers in `extra_body`. Where
 * both do, the caller's counts. */
enum param_right { PARAM_BY_OPERATOR = 1, PARAM_BY_CALLER = 2, PARAM_BY_BOTH = 3 };

struct adapter_param {
    const char *name;
    enum param_kind kind;
    enum param_right right;
    double min, max;
    const char *const *choices; /* ends with NULL */
    const char *doc;            /* one sentence */
};

/* A parameter's value. `text` is decoded for texts, as written for all others. */
struct adapter_value {
    bool is_set;
    bool is_callers;
    struct span text;
    double number;
    bool truth;
};

/* A `response_format`, and what it is at the provider. */
struct adapter_format {
    const char *name; /* as callers ask for it */
    const char *wire; /* as the provider calls it */
    const char *type; /* media type of what comes */
};

/* How a provider counts a text. */
enum text_unit {
    TEXT_CHARACTERS, /* Unicode code points */
    TEXT_BYTES,      /* of UTF-8 */
    TEXT_HAN_TWICE,  /* code points, but an ideograph counts 2 */
};

/* ---- failures ---- */

/* What a failure means, and with it whom it blames: the first three the key, the
 * next two the upstream, the last nobody but the caller. */
enum adapter_class {
    ADAPTER_UNKNOWN, /* nothing of this provider's own: judge it as one would any HTTP reply */
    ADAPTER_AUTH,    /* the key is wrong, or of another region */
    ADAPTER_QUOTA,   /* its account is empty */
    ADAPTER_RATE,    /* too fast, or too many at once, for now */
    ADAPTER_SERVER,  /* the provider failed */
    ADAPTER_CONFIG,  /* path, region, grant: an operator's matter; the next upstream may do better */
    ADAPTER_CLIENT,  /* the caller's mistake */
};

/* A failed reply: one that is no 2xx, or a 2xx whose call said ADAPTER_FAILED. */
struct adapter_failure {
    int status;
    struct span reason; /* phrase of the status line */
    struct span content_type;
    struct span body; /* what the call kept in `failure`, or the reply's first ADAPTER_FAILURE_BYTES */
};

struct adapter_opinion {
    enum adapter_class class;
    bool is_doubtful;    /* ADAPTER_CLIENT, but perhaps the upstream's: one other is to be asked */
    const char *rule;    /* which row decided, for the record: "code:3050", "status"; of few values */
    struct span code;    /* the provider's own token; empty: none */
    struct span message; /* the provider's sentence; empty: none. Redact it. */
    const char *param;   /* ADAPTER_CLIENT: the member at fault ("voice"), or NULL */
};

/* What a caller asks for and a provider, as configured, cannot do; or what an
 * operator wrote and it cannot be. */
struct adapter_fault {
    const char *param;   /* "response_format", "extra_body.pitch"; for operators a member of the upstream */
    const char *message; /* a sentence */
};

/* An upstream as its operator has it. */
struct adapter_site {
    struct span base_url, region;       /* at most one is not empty */
    struct span model;                  /* adapterParams.model; empty: not configured */
    const struct adapter_value *values; /* in the order of the adapter's table */
};

/* ---- one call ---- */

/* What is to be spoken and where; borrowed for the call. */
struct adapter_order {
    const struct adapter *adapter;
    const struct speech_facts *speech;
    struct span asked_model; /* the model's name in the tree */
    struct span params;      /* adapterParams as JSON; empty: none */
    const char *endpoint;    /* baseURL, or what adapter_endpoint made */
    const char *id;          /* 32 hex digits, new for every call */
};

/* One HTTP request. Its memory is the call's, until the next exchange. */
struct adapter_exchange {
    const char *url;
    const char *key_header;     /* "Authorization: Bearer {KEY}", the same for a whole call, whose first
                                   exchange has it; NULL: the key stays at home */
    const char *const *headers; /* "Name: value", ends with NULL; may be NULL */
    bool is_get;                /* then there is no body */
    struct splice body;
};

/* The head of a 2xx reply. */
struct adapter_reply {
    int status;
    struct span content_type;
};

enum adapter_step {
    ADAPTER_MORE,   /* go on */
    ADAPTER_AGAIN,  /* of finish only: the next exchange is written */
    ADAPTER_DONE,   /* all audio has been given; of head and feed: what follows does not matter */
    ADAPTER_FAILED, /* the reply is a failure: see `failure` and `why` */
    ADAPTER_LEFT,   /* the sink failed */
};

/* Takes audio as it comes. 0, or a negative error, which ends the call. */
struct audio_sink {
    void *ctx;
    int (*write)(void *ctx, struct span audio);
};

struct adapter_call {
    /* for the adapter to read */
    const struct adapter_order *order;
    const struct adapter_format *format;             /* the asked one */
    struct span model;                               /* adapterParams.model; empty: not configured */
    struct span voice;                               /* the asked one, or adapterParams.defaultVoice */
    struct adapter_value values[ADAPTER_PARAMS_MAX]; /* in the order of the adapter's table */
    struct arena *arena;                             /* lives as long as the call */
    struct arena *scratch; /* emptied after each function: a long stream leaves nothing behind */

    /* for the adapter to write */
    void *state;        /* its own; arena memory */
    const char *type;   /* media type of the audio, a constant, if it is another than the format's */
    const char *why;    /* ADAPTER_FAILED: a constant name for the record */
    struct buf failure; /* ADAPTER_FAILED: what says so; see adapter_fail */
    struct usage usage; /* tokens, if the provider counts them */
    int64_t characters; /* as the provider counts them; -1: it does not say */

    const struct audio_sink *sink; /* the driver's to set, before the first head */
    uint64_t audio_bytes;          /* given to it */
};

/* What of a request beside text, voice and format a provider can do; the rest is
 * refused, unless it asks for nothing. */
enum adapter_skill {
    ADAPTER_SPEED = 1,
    ADAPTER_INSTRUCTIONS = 2,
};

/* How a provider is told what a voice pack says of how to speak. */
struct adapter_expression {
    int param;        /* by this one of its parameters; -1: by the request's speed */
    const char *text; /* the parameter's value, as struct adapter_value has it */
};

struct adapter {
    const char *name;         /* `provider` in the tree */
    const char *system;       /* gen_ai.system of traces: "azure.speech" */
    const char *catalog;      /* of its voices, in `voices`; NULL: none */
    const char *trace_header; /* the reply's header that the provider's support asks for; NULL: none */
    const struct adapter_param *params;
    size_t n_params;
    const struct adapter_format *formats; /* the first is for a caller that names none */
    size_t n_formats;
    size_t n_common_formats; /* those before the provider's own names, which are taken, but not listed
                              * where another is refused; 0: all */
    unsigned skills;
    bool speaks_as_callers; /* its refusals are what callers expect: they go on as they were written */
    size_t text_max;        /* of `input`, in text_unit; 0: the dialect's bound is enough */
    enum text_unit text_unit;

    /* The URL of an upstream: its base_url, or one that is made. NULL with *fault:
     * what is missing, or what of its parameters does not fit together. */
    const char *(*endpoint)(const struct adapter_site *site, struct arena *arena,
                            struct adapter_fault *fault);

    /* The model that an upstream speaks with, as the catalog knows it; several, if
     * the voice decides, parted by ';'. `values` and `model` are the operator's.
     * NULL: it is known by its own name, adapterParams.model or else the asked one. */
    struct span (*catalog_model)(struct span model, const struct adapter_value *values);

    /* Whether it can speak so, and how it is told. It clamps nothing: what is beyond its range it cannot,
     * nor what would be as usual, rounded to what the provider counts in.
     * NULL: no pitch and no volume, and each rate, if it has ADAPTER_SPEED. */
    bool (*express)(const struct adapter_call *call, enum voice_pack_param param, double value,
                    struct adapter_expression *out);

    /* Beyond the tables: whether this upstream can do it. 0, or ERR_UNSUPPORTED
     * with *fault. May choose another call->format where the caller named none.
     * May be NULL. */
    int (*check)(struct adapter_call *call, struct adapter_fault *fault);

    /* Makes `state` and writes the first exchange. */
    void (*begin)(struct adapter_call *call, struct adapter_exchange *out);

    /* A 2xx begins; its bytes; its end, as HTTP says it must be. finish writes the
     * next exchange if it returns ADAPTER_AGAIN. head may be NULL. */
    enum adapter_step (*head)(struct adapter_call *call, const struct adapter_reply *reply);
    enum adapter_step (*feed)(struct adapter_call *call, struct span piece);
    enum adapter_step (*finish)(struct adapter_call *call, struct adapter_exchange *next);

    /* What a failure means. *out is zeroed; its memory is the arena's, the
     * failure's or constant. */
    void (*classify)(const struct adapter_failure *failure, struct arena *arena, struct adapter_opinion *out);
};

/* ---- the table ---- */

/* NULL if there is none of this name. */
const struct adapter *adapter_find(struct span name);

/* The name of the i-th, NULL behind the last. */
const char *adapter_name(size_t i);

/* ---- for configuration ---- */

/* The i-th parameter that an operator or a caller may set, those of every
 * provider first; NULL behind the last. */
const struct adapter_param *adapter_param(const struct adapter *adapter, size_t i);

/* What is expected of a parameter, in words. */
const char *adapter_param_expectation(const struct adapter_param *param, struct arena *arena);

/* Reads adapterParams (a JSON object as written) and calls on_fault for each
 * member that may not stand there, with a clause in arena memory: "expected …".
 * The number of faults. */
size_t adapter_read_params(const struct adapter *adapter, struct span params, struct arena *arena,
                           void (*on_fault)(void *ctx, struct span member, const char *message), void *ctx);

/* The URL of an upstream, as the adapter has it; base_url and region may be empty,
 * `params` has no fault of its own. NULL with *fault, whose param names a member
 * of the upstream: "region", "adapterParams.model". */
const char *adapter_endpoint(const struct adapter *adapter, struct span base_url, struct span region,
                             struct span params, struct arena *arena, struct adapter_fault *fault);

/* ---- for the list of voices ---- */

/* What adapter->catalog knows the model by that an upstream with these
 * adapterParams speaks with; several, parted by ';'. Memory of the arena, of
 * asked_model or constant. */
struct span adapter_catalog_model(const struct adapter *adapter, struct span asked_model, struct span params,
                                  struct arena *arena);

/* ---- for whoever drives a call ---- */

/* A call, in the arena, whose reset frees all of it; `scratch` is another one,
 * which the call's functions reset. NULL with *fault (arena memory) if the
 * provider, as this upstream is configured, cannot do what is asked. */
struct adapter_call *adapter_call_new(const struct adapter_order *order, struct arena *arena,
                                      struct arena *scratch, struct adapter_fault *fault);

/* Done without a byte of audio is a failure, "no_audio", whoever says so. */
void adapter_call_begin(struct adapter_call *call, struct adapter_exchange *out);
enum adapter_step adapter_call_head(struct adapter_call *call, const struct adapter_reply *reply);
enum adapter_step adapter_call_feed(struct adapter_call *call, struct span piece);

enum adapter_step adapter_call_finish(struct adapter_call *call, struct adapter_exchange *next);

/* The media type of what was given first: what its first bytes say, else
 * call->type, else the format's. A constant. */
const char *adapter_call_type(const struct adapter_call *call, struct span first);

void adapter_classify(const struct adapter *adapter, const struct adapter_failure *failure,
                      struct arena *arena, struct adapter_opinion *out);

/* ---- for adapters ---- */

/* Gives audio to the sink: ADAPTER_MORE or ADAPTER_LEFT. Empty audio is none. */
enum adapter_step adapter_give(struct adapter_call *call, struct span audio);

/* Decodes a JSON string of base64 and gives what it holds. An empty one is none;
 * ADAPTER_FAILED if it is not base64. */
enum adapter_step adapter_give_base64(struct adapter_call *call, const struct json_value *value);

/* The media type of audio that a reply's header claims, for call->type: a constant,
 * or NULL if it is none that is known. */
const char *adapter_known_type(struct span content_type);

/* Keeps the first bytes of what says the failure: ADAPTER_FAILED. */
enum adapter_step adapter_fail(struct adapter_call *call, const char *why, struct span bytes);

/* Fills *fault: ERR_UNSUPPORTED, for a check. */
int adapter_refuse(struct adapter_fault *fault, struct arena *arena, const char *param, const char *format,
                   ...) __attribute__((format(printf, 4, 5)));

#endif

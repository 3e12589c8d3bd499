/*
 * The field table: one row per member of a configuration object. Everything
 * that is known about a member stands in its row, and everything that is done
 * with members (reading, defaults, messages, schema, manual) goes over rows.
 *
 * A record is an object with a fixed set of members, and the C struct its
 * values land in. What depends on several members is in its `finish`.
 */
#ifndef CORE_CONFIG_FIELD_H
#define CORE_CONFIG_FIELD_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adapters/adapter.h"
#include "core/base/arena.h"
#include "core/base/buf.h"
#include "core/config/entry.h"
#include "core/config/image.h"
#include "core/config/rules.h"

enum {
    NAME_MAX_BYTES = 200, /* of models, keys, upstreams, credentials, labels */
    HEADER_NAME_MAX_BYTES = 100,
    HEADER_VALUE_MAX_BYTES = 4096,
};

/* What a value is, and what it lands in. */
enum field_kind {
    FIELD_TEXT,    /* string of min..max bytes -> struct snap_str */
    FIELD_INT,     /* whole number of min..max -> uint32_t */
    FIELD_NUMBER,  /* any number of low..high -> struct voice_pack_number */
    FIELD_BOOL,    /* -> uint32_t */
    FIELD_ENUM,    /* one of `choices` -> struct snap_str */
    FIELD_SHA256,  /* 64 hex digits -> uint8_t[32] */
    FIELD_CODES,   /* list of whole numbers of min..max -> struct snap_vec of uint32_t */
    FIELD_TEXTS,   /* list of at most max texts -> struct snap_vec of struct snap_str */
    FIELD_HEADERS, /* object of at most max texts -> struct snap_vec of struct snap_header_line */
    FIELD_RECORD,  /* object -> the struct of `record`, in place */
    FIELD_LIST,    /* list of min..max objects -> struct snap_vec of the struct of `record` */
    FIELD_MAP,     /* object of at most max objects, by name -> the same */
    FIELD_REFUSED, /* known, but not allowed: `doc` says why */
    FIELD_PARAMS,  /* object, by the table of the model's adapter -> struct snap_str, its JSON */
    FIELD_KINDS,
};

struct record;

struct field {
    const char *name; /* NULL: the document itself */
    enum field_kind kind;
    bool is_required;
    bool lands_nowhere; /* only checked, or used by a finish */
    size_t land;        /* offset in the record's struct */
    long long min, max;
    double low, high;
    const char *preset;                 /* the default, as JSON; NULL: none */
    const char *inherits;               /* or: what stands under this name in `defaults` */
    const char *const *choices;         /* ends with NULL; or */
    const char *(*choice_at)(size_t i); /* NULL behind the last */
    const struct text_rule *rule;       /* of a text, of each text of a list, of a map's names */
    const struct record *record;
    const char *doc; /* one sentence */
};

struct reader;

struct record {
    const char *title; /* "upstream" */
    size_t bytes;      /* of the struct */
    const struct field *fields;
    size_t n_fields;
    size_t name_land;          /* in a map: where the member's name lands, a struct snap_str */
    const char *const *one_of; /* exactly one of these members is expected; ends with NULL; may be NULL */
    /* What any other member is, and what its name must obey. NULL: there may be no other. It lands nowhere.
     */
    const struct field *other;
    const struct text_rule *other_name;
    /* The member that names the adapter whose table says what FIELD_PARAMS below are; may be NULL. */
    const char *adapter_member;
    /* Before and after the members; may be NULL. finish is for objects that stand in the document. */
    void (*prepare)(struct reader *reader, json_object *object);
    void (*finish)(struct reader *reader, void *into, json_object *object);
};

/* What `defaults` of LLM_ROUTER_CONFIG holds. */
struct config_defaults {
    uint32_t attempt_timeout_ms, chain_timeout_ms, plain_timeout_ms, connect_timeout_ms;
    uint32_t stream_idle_timeout_ms, client_stall_timeout_ms;
    struct snap_vec http_codes; /* uint32_t */
    uint32_t propagates_trace;
};

/* All that is read from the entries. */
struct compiled {
    struct config_defaults defaults;
    struct snap_vec models;     /* struct snap_model, in the document's order */
    struct snap_vec tts_models; /* the same for speech */
    struct snap_vec principals; /* struct snap_principal, sorted by SHA-256 */
    struct snap_vec tts_voices; /* struct tts_voices */
    struct snap_str default_chat_model, default_tts_model;
    struct snap_vec voice_packs;      /* struct snap_voice_pack, in the document's order */
    struct snap_vec voice_pack_index; /* uint32_t: positions in voice_packs, sorted by id */
    struct snap_str voice_pack_tag_key;
};

/* What DEFAULT_TTS_VOICES says of one model. */
struct tts_voices {
    struct snap_str model;
    struct snap_str by_locale; /* as JSON */
};

/* One row per entry; its field lands in struct compiled. */
struct entry_row {
    const char *name;
    const struct field *field;
};
const struct entry_row *entry_row(enum entry_id id);

extern const struct field field_llm_router_config, field_default_chat_model, field_default_tts_model,
    field_default_tts_voices, field_caller_keys, field_voice_packs, field_voice_pack_tag_key;

/* The row of `defaults` with this name, for `inherits`. */
const struct field *field_of_defaults(const char *name);

/* The state of reading one document. */
struct reader {
    struct arena *arena;
    struct image *image;
    struct entry_faults *faults;   /* NULL: faults are not wanted */
    struct buf path;               /* where the walk stands */
    json_object *document;         /* NULL: the entry has no value */
    struct span owner;             /* the name of the innermost map's member; empty outside */
    const struct adapter *adapter; /* of the speech model that is read; NULL: none, or none that is known */
    struct config_defaults *defaults;
    const struct envelope_keys *keys; /* may be NULL */
    size_t undecryptable;
};

/* Reads a document (NULL: only defaults land) into the struct at `into`. */
void reader_read(struct reader *reader, const struct field *field, void *into);

/* Reads one object, for a prepare. NULL: only defaults land, and nothing is a fault. */
void reader_read_record(struct reader *reader, const struct record *record, json_object *object, void *into);

/* A fault where the walk stands, or at a member there. */
void reader_fault(struct reader *reader, const char *format, ...) __attribute__((format(printf, 2, 3)));
void reader_fault_at(struct reader *reader, const char *member, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One of the values that must differ. */
struct distinct {
    struct span value;
    size_t index; /* in the document's list */
};

/* Sorts the items and calls on_repeat(reader, ctx, first, again) for each that
 * has the value of one before it in the list. */
void reader_check_distinct(struct reader *reader, struct distinct *items, size_t n, const void *ctx,
                           void (*on_repeat)(struct reader *reader, const void *ctx, size_t first,
                                             size_t again));

/* The i-th of a field's choices, NULL behind the last. */
const char *field_choice(const struct field *field, size_t i);

/* What is expected of a value, in words: "a whole number from 1 to 3600000". */
const char *field_expectation(const struct field *field, struct arena *arena);

#endif

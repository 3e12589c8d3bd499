/*
 * A snapshot: one immutable generation of the configuration, compiled from the
 * entries of configKV into a position-independent image. The keeper writes it
 * to a file; every worker maps that file read-only. References inside it are
 * offsets from its first byte.
 *
 * A request keeps the snapshot it started with to its end.
 */
#ifndef CORE_CONFIG_SNAPSHOT_H
#define CORE_CONFIG_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/span.h"
#include "core/packs/voice_pack.h"

enum {
    SNAPSHOT_LIMIT_BYTES = 16 * 1024 * 1024,
    SNAPSHOT_LAYOUT = 11,         /* raised with every change of the structs below */
    SNAPSHOT_UPSTREAMS_MAX = 100, /* of a model */
    SNAPSHOT_FP_BYTES = 9,        /* 8 hex of SHA-256(key) and a NUL */
    SNAPSHOT_VERSION_BYTES = 65,
};

#define SNAPSHOT_MAGIC "LLMRSNAP"

/* `len` bytes at `offset`, with a NUL behind them. {0, 0} is an absent text. */
struct snap_str {
    uint32_t offset, len;
};

/* `count` elements at `offset`. */
struct snap_vec {
    uint32_t offset, count;
};

struct snap_header_line {
    struct snap_str name, value;
};

/* What a model is asked for: chat, or speech where it is one of `tts`; or transcription. */
enum snap_way { SNAP_WAY_FIRST, SNAP_WAY_TRANSCRIPTION, SNAP_WAYS };

/* `series` are first cells of blocks (core/telemetry/cells.h), put in by the keeper; 0: none. */

struct snap_key {
    struct snap_str id;
    struct snap_str ciphertext;
    struct snap_str aad; /* what the ciphertext is bound to: "model|key id" or "credential|NAME" */
    char fingerprint[SNAPSHOT_FP_BYTES]; /* telemetry's key.id; "" where the keeper could not decrypt it */
    uint32_t series;
};

struct snap_upstream {
    struct snap_str id;       /* never empty: derived where the document has none */
    struct snap_str provider; /* never empty: from the table of hosts, else the host; of speech: an adapter */
    struct snap_str host;     /* of the URL, without port */
    struct snap_str url;      /* the base URL, without a slash at its end; of speech: the whole endpoint */
    struct snap_str override_model; /* absent: the asked name is sent */
    struct snap_str header_name,
        header_template; /* of speech: empty, the adapter says where the key stands */
    struct snap_str dialect;
    struct snap_str adapter_params;          /* of speech: a JSON object, checked by the adapter's table */
    struct snap_str supplier_model, account; /* labels for the record; may be absent */
    struct snap_vec headers;                 /* struct snap_header_line, sent as they are */
    struct snap_vec keys;                    /* struct snap_key, at least one */
    uint32_t timeout_ms;                     /* first content byte; defaults applied */
    uint32_t plain_timeout_ms;               /* the same for plain requests; 0: timeout_ms */
    uint32_t connect_timeout_ms;
    uint32_t propagates_trace; /* 1: it is told the request's trace */
    uint32_t max_concurrency;  /* slots of its pool; 0: without limit */
    struct snap_str pool; /* its id, never empty: "tts:pool:APPID", "llm:pool:model:[MODEL,"id",UPSTREAM]" */
    uint64_t pool_hash;   /* of that: the same in all instances; never 0 */
    uint32_t series, route_series[SNAP_WAYS]; /* of the provider; of this model with it */
    uint32_t pool_series;
};

struct snap_model {
    struct snap_str name;
    struct snap_vec upstreams;  /* struct snap_upstream, at least one, in the document's order */
    struct snap_vec http_codes; /* uint32_t: statuses that move on */
    uint32_t on_timeout;        /* 1: a timeout moves on */
    uint32_t stream_idle_timeout_ms;
    uint32_t heartbeat_ms;         /* of streams; 0: none */
    uint32_t beats_before_content; /* 1: not only after it */
    uint32_t full_chain_timeout_ms;
    uint32_t worker_share_percent; /* 1 to 100 */
    uint32_t pool_wait_ms;         /* for a slot, when no upstream has one free; 0: not at all */
    uint32_t hedge_after_ms;       /* until the next candidate is asked beside the first; 0: never */
    struct snap_str recommended;   /* of speech: voices by locale as a JSON object; absent: none */
    uint32_t series[SNAP_WAYS];
};

/* What a caller may have; 0: without limit. */
struct snap_limits {
    uint32_t concurrency; /* requests in hand at the same time */
    uint32_t requests_per_minute, tokens_per_minute;
};

struct snap_principal {
    uint8_t sha256[32]; /* of the caller's key */
    struct snap_str id, owner;
    struct snap_vec models; /* struct snap_str; empty and !has_models: all */
    uint32_t has_models;
    struct snap_limits limits;
};

/* A voice as its curators made it: a model that speaks, a voice of its provider's, and how it is to speak. */
struct snap_voice_pack {
    struct snap_str id, name, description; /* the last may be absent, as upstream_voice may */
    struct snap_str provider, model, voice, upstream_voice;
    struct snap_str tts_model; /* by its name in `tts`; need not be there */
    struct snap_str tier;      /* "lite", "standard", "pro", "premium" */
    uint32_t is_enabled;       /* 0: it is in no list, and makes no snapshots */
    struct voice_pack_number params[VOICE_PACK_PARAMS];
};

struct snap_root {
    uint8_t magic[8]; /* "LLMRSNAP" */
    uint32_t layout;
    uint32_t bytes; /* of the whole image */
    uint64_t generation;
    uint64_t compiled_wall_us;
    char tree_version[SNAPSHOT_VERSION_BYTES]; /* of LLM_ROUTER_CONFIG; "" without one */
    uint8_t has_tree;
    struct snap_vec models;                                /* struct snap_model, in the document's order */
    struct snap_vec model_index;                           /* uint32_t: positions in models, sorted by name */
    struct snap_vec principals;                            /* struct snap_principal, sorted by sha256 */
    struct snap_vec tts_models, tts_model_index;           /* the same for speech */
    struct snap_str default_chat_model, default_tts_model; /* absent: not set */
    struct snap_vec voice_packs;        /* struct snap_voice_pack, in the document's order */
    struct snap_vec voice_pack_index;   /* uint32_t: positions in voice_packs, sorted by id */
    struct snap_str voice_pack_tag_key; /* ciphertext of the key of snapshots' tags; absent: there is none */
    uint32_t client_stall_timeout_ms;
};

/* A mapped image. Zero-initialised: nothing mapped. */
struct snapshot {
    const struct snap_root *root; /* NULL: nothing mapped */
    size_t bytes;
};

/* Whether the bytes are a whole image of this layout: every reference in it, at
 * every depth, lies inside and has its NUL, and nothing that must be there is
 * missing. A reader of a checked image needs no check of its own. `image` is
 * aligned for its root. ERR_FORMAT. */
int snapshot_check(struct span image, struct error *e);

/* "RUN_DIR/snapshot.GENERATION" into `out` of `room` bytes. ERR_LIMIT. */
int snapshot_path(const char *run_dir, uint64_t generation, char *out, size_t room);

/* Writes a compiled image to its place, whole or not at all, mode 0640. ERR_SYSTEM, ERR_LIMIT. */
int snapshot_write(const char *run_dir, struct span image, struct error *e);

/* Removes all of them from RUN_DIR: an instance that begins anew counts from 1, and would
 * never come to what an earlier one has left. Who has one mapped keeps it. */
void snapshot_remove_all(const char *run_dir);

/* Maps the file and applies snapshot_check. ERR_NOT_FOUND, ERR_FORMAT, ERR_SYSTEM. */
int snapshot_map(const char *path, struct snapshot *out, struct error *e);
void snapshot_unmap(struct snapshot *snapshot);

static inline const void *snap_at(const struct snap_root *root, uint32_t offset)
{
    return (const char *)root + offset;
}

static inline struct span snap_span(const struct snap_root *root, struct snap_str s)
{
    return s.offset == 0 ? (struct span){ "", 0 }
                         : (struct span){ (const char *)snap_at(root, s.offset), s.len };
}

/* "" for an absent text. */
static inline const char *snap_cstr(const struct snap_root *root, struct snap_str s)
{
    return s.offset == 0 ? "" : (const char *)snap_at(root, s.offset);
}

static inline bool snap_has(struct snap_str s)
{
    return s.offset != 0;
}

/* Element i of a vector: SNAP_ITEM(root, model->upstreams, struct snap_upstream, i). */
#define SNAP_ITEM(root, vec, type, i) (&((const type *)snap_at((root), (vec).offset))[i])

/* NULL if there is no model of this name; one of `llm`, one of `tts`. */
const struct snap_model *snapshot_model(const struct snap_root *root, struct span name);
const struct snap_model *snapshot_tts_model(const struct snap_root *root, struct span name);

/* The id of the upstream that stands so many bytes behind the root; "" if none does. */
struct span snapshot_upstream_id(const struct snap_root *root, uint32_t place);

/* NULL if there is no voice pack with this id. */
const struct snap_voice_pack *snapshot_voice_pack(const struct snap_root *root, struct span id);

/* The caller whose key has this SHA-256, compared in constant time; NULL if none. */
const struct snap_principal *snapshot_principal(const struct snap_root *root, const uint8_t sha256[32]);

/* Whether the principal may use the model. */
bool snapshot_may_use(const struct snap_root *root, const struct snap_principal *principal,
                      struct span model);

#endif

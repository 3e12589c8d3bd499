/*
 * The shared mapping: RUN_DIR/PROGRAM.map, made by the master before it forks
 * and mapped by every child. It holds what processes tell each other: the
 * scoreboard, the snapshot's generation, the keeper's view of the store, the
 * metrics' cells. Other programs may map it read-only; magic and layout say
 * whether they understand it.
 *
 * Every field has one kind of writer, named below; readers take no lock.
 */
#ifndef FCGI_ENGINE_MAPPING_H
#define FCGI_ENGINE_MAPPING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/admit/admit.h"
#include "core/admit/pools.h"
#include "core/base/err.h"
#include "core/signal/memo.h"
#include "core/telemetry/cells.h"

enum {
    MAPPING_LAYOUT = 14,
    SCOREBOARD_MAX = 4096, /* workers */
};

/* Where a worker is in its request. */
enum stage {
    STAGE_FREE,      /* no worker has this record */
    STAGE_IDLE,      /* waiting for a connection */
    STAGE_READING,   /* reading the request */
    STAGE_WAITING,   /* for an upstream, nothing committed */
    STAGE_STREAMING, /* to the caller */
    STAGE_FINISHING, /* writing the record */
    STAGE_COUNT,
};

const char *stage_name(enum stage stage);

/* What is known of the request in hand, as it becomes known: from it the master
 * makes the event of a request whose worker died. A text is cut at its array's
 * end and always ends with a NUL. */
struct scoreboard_request {
    _Atomic uint64_t started_us; /* monotonic; 0: no request is in hand */
    _Atomic uint32_t is_counted; /* in the metrics' cells; its event is about to be written, or is */
    int32_t status;              /* of the reply that has begun, or that it was counted with; 0: none */
    uint32_t series;             /* of its model, as in struct request_event */
    uint64_t time_us;            /* wall clock */
    char event_id[40];
    char request_id[129];
    char trace_id[36], span_id[20], parent_span_id[20];
    uint32_t is_sampled;
    char mount[32], endpoint[32];
    char key_id[20], remote_user[20];
    char model[129];
    /* Of the attempt in hand: where its upstream stands in the record's snapshot, in
     * bytes from the root; 0: there was none yet. */
    _Atomic uint32_t upstream;
};

/* One worker's record. Written by that worker; by the master when it is free or
 * its worker has died. */
struct scoreboard_record {
    _Alignas(64) _Atomic int32_t pid; /* 0: free */
    _Atomic uint32_t stage;
    _Atomic uint64_t since_us;    /* monotonic; of the stage */
    _Atomic uint64_t requests;    /* finished by this worker */
    _Atomic uint64_t generation;  /* of the snapshot it uses */
    _Atomic uint64_t body_bytes;  /* reserved for the body in hand; 0: none, or a small one */
    _Atomic uint64_t share;       /* see scoreboard_take_share; 0: none */
    _Atomic uint64_t lease;       /* the caller whose place it has (core/admit/admit.h); 0: none */
    struct pool_owner pool_owner; /* the slots that it has, or waits for */
    struct scoreboard_request request;
};

/* What made the keeper read a configuration. */
enum reload_source {
    RELOAD_TTL,       /* the look that it takes every second */
    RELOAD_FILE,      /* a file of the state directory changed */
    RELOAD_PUBSUB,    /* a message that verified */
    RELOAD_RECONNECT, /* the subscription began (again): messages may have been lost */
    RELOAD_SIGNAL,    /* SIGHUP */
    RELOAD_SOURCES,
};

/* "ttl", "file", "pubsub", "reconnect", "signal" */
const char *reload_source_name(uint32_t source);

/* The tree in force; a text always ends with a NUL. */
struct tree_in_force {
    char version[40];  /* "": there is none */
    uint64_t since_us; /* wall clock: this version came into force in this instance */
    uint32_t source;   /* an enum reload_source: how it came */
};

/* The keeper's view of the store. */
struct keeper_view {
    _Atomic uint64_t checked_us; /* monotonic; of the last look */
    /* Monotonic: SIGHUPs sent before this have been followed, as far as the store let them be. */
    _Atomic uint64_t followed_us;
    _Atomic uint32_t is_store_ok;
    _Atomic uint32_t is_refused;              /* the store holds a configuration that was refused */
    _Atomic uint32_t has_database, has_redis; /* what the store stands on */
    _Atomic uint32_t is_database_ok, is_redis_ok;
    /* Of the generations that are even and odd: written before the generation that it
     * belongs to is in force, so that no reader finds it half written. */
    struct tree_in_force trees[2];
};

struct mapping {
    char magic[8]; /* "LLMRMAP" and a NUL */
    uint32_t layout;
    uint32_t n_records; /* in the scoreboard: more than there are workers at most times */
    uint64_t started_wall_us;
    char program[32];
    char instance[40]; /* an id of this run */

    _Alignas(64) _Atomic uint64_t generation; /* of the snapshot in force; 0: none. Keeper, release order */
    struct keeper_view keeper;
    _Alignas(64) _Atomic uint64_t accepted; /* connections, by every acceptor */
    _Atomic uint64_t waiting;               /* connections in the queue at the last tick; overflow */
    _Atomic uint32_t is_resting;            /* there are no workers because nobody came; master */
    _Alignas(64) struct memo memo;          /* any */
    struct admit_shared admit;              /* workers */
    struct pools_shared pools;              /* workers */
    struct telemetry telemetry;             /* any; its directory of blocks: the keeper */
    struct scoreboard_record workers[];
};

/* Makes the file and maps it. Before fork. ERR_SYSTEM. */
int mapping_create(const char *run_dir, const char *program, unsigned n_records, struct mapping **out,
                   struct error *e);

/* Maps the file that this master, or the program that it was before an exec, has made.
 * ERR_FORMAT: it is of another layout, damaged, or has fewer records. ERR_NOT_FOUND, ERR_SYSTEM. */
int mapping_adopt(const char *run_dir, const char *program, unsigned n_records, struct mapping **out,
                  struct error *e);

/* Maps the running instance's file, for a process that is neither its master nor
 * its child: what is there may be read, and the atomic cells that say "any" may be
 * written. ERR_NOT_FOUND: no instance runs. ERR_FORMAT: it is of another layout,
 * or damaged. */
int mapping_open(const char *run_dir, const char *program, struct mapping **out, struct error *e);

/* The same for one who only looks: nothing of it can be written. */
int mapping_view(const char *run_dir, const char *program, const struct mapping **out, struct error *e);

/* A mapping that nobody shares. */
struct mapping *mapping_alone(const char *program, unsigned n_records);

/* Gives back what mapping_open, mapping_view or mapping_alone gave. NULL is allowed. */
void mapping_close(const struct mapping *mapping);

/* A worker enters a stage: the record's stage and time. */
void scoreboard_enter(struct scoreboard_record *record, enum stage stage);

/* A worker takes a request in hand, of which nothing is known yet. */
void scoreboard_begin_request(struct scoreboard_record *record);

/* The request is no longer in hand: it has ended, has its event, or needs none. */
void scoreboard_end_request(struct scoreboard_record *record);

/* Copies what is known of the request in hand, while its worker goes on: false if there is none. */
bool scoreboard_copy_request(const struct scoreboard_record *record, struct scoreboard_request *out);

/* Reserves memory for a body: false if all workers together would then have more
 * than `limit_bytes`. There is no counter that a worker's death could falsify:
 * what is reserved is what the records say. Two that ask for the last of it at
 * the same time may both be refused. */
bool scoreboard_reserve_body(const struct mapping *mapping, struct scoreboard_record *record, uint64_t bytes,
                             uint64_t limit_bytes);
void scoreboard_release_body(struct scoreboard_record *record);

/* Takes a worker's share of `model` (a memo_fact, or another hash): false if `limit`
 * workers have one. Again, what is taken is what the records say. Of those that ask for
 * the last ones at the same time, as many get one as there are, unless one of them is kept from
 * the processor for a second while it asks. */
bool scoreboard_take_share(const struct mapping *mapping, struct scoreboard_record *record, uint64_t model,
                           unsigned limit);
void scoreboard_release_share(struct scoreboard_record *record);
/* The leases of all workers; and what they have of pools, which the workers themselves write. */
struct leases scoreboard_leases(const struct mapping *mapping);
struct pool_owners scoreboard_pool_owners(struct mapping *mapping);

/* Workers in each stage; a record without one counts as free. */
void scoreboard_count_stages(const struct mapping *mapping, unsigned counts[STAGE_COUNT]);

/* Workers that are alive. */
unsigned scoreboard_alive(const struct mapping *mapping);

/* Of them, those that use the generation in force. */
unsigned scoreboard_current(const struct mapping *mapping);

/* The keeper: puts the next generation in force, whose tree this is. */
void mapping_put_in_force(struct mapping *mapping, uint64_t generation, const struct tree_in_force *tree);

/* Whether the keeper has looked at the store in the last five seconds: an older
 * view is no witness. And whether it could read it. */
bool mapping_is_view_fresh(const struct mapping *mapping);
bool mapping_is_store_ok(const struct mapping *mapping);

/* The generation in force, and its tree: empty if there is none. */
uint64_t mapping_in_force(const struct mapping *mapping, struct tree_in_force *tree);

#endif

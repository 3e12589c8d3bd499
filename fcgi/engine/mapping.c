#include "fcgi/engine/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/ids.h"
#include "fcgi/engine/pidfile.h"

static const char MAGIC[8] = "LLMRMAP";

enum { VIEW_OLD_US = 5 * 1000 * 1000 };

const char *stage_name(enum stage stage)
{
    static const char *const names[] = {
        [STAGE_FREE] = "free",       [STAGE_IDLE] = "idle",           [STAGE_READING] = "reading",
        [STAGE_WAITING] = "waiting", [STAGE_STREAMING] = "streaming", [STAGE_FINISHING] = "finishing",
    };
    return (unsigned)stage < sizeof(names) / sizeof(names[0]) ? names[stage] : "unknown";
}

const char *reload_source_name(uint32_t source)
{
    static const char *const names[RELOAD_SOURCES] = {
        [RELOAD_TTL] = "ttl",       [RELOAD_FILE] = "file",
        [RELOAD_PUBSUB] = "pubsub", [RELOAD_RECONNECT] = "reconnect",
        [RELOAD_SIGNAL] = "signal",
    };
    return source < RELOAD_SOURCES ? names[source] : "unknown";
}

static size_t size_for(unsigned n_records)
{
    return sizeof(struct mapping) + n_records * sizeof(struct scoreboard_record);
}

static void fill(struct mapping *mapping, const char *program, unsigned n_records)
{
    char id[UUID_TEXT_BYTES];

    mapping->started_wall_us = clock_wall_us();
    ids_uuid7(mapping->started_wall_us, id);
    snprintf(mapping->instance, sizeof(mapping->instance), "%s", id);
    snprintf(mapping->program, sizeof(mapping->program), "%s", program);
    mapping->layout = MAPPING_LAYOUT;
    mapping->n_records = n_records;
    telemetry_init(&mapping->telemetry);
    admit_init(&mapping->admit);
    pools_init(&mapping->pools);
    memcpy(mapping->magic, MAGIC, sizeof(mapping->magic));
}

/* Under another name until it is whole: who opens it by its name finds all of it. */
int mapping_create(const char *run_dir, const char *program, unsigned n_records, struct mapping **out,
                   struct error *e)
{
    char path[4096], unfinished[4096];
    size_t size = size_for(n_records);
    int result = 0;

    snprintf(path, sizeof(path), "%s/%s.map", run_dir, program);
    snprintf(unfinished, sizeof(unfinished), "%s/%s.map.new", run_dir, program);
    unlink(path); /* an old one stays with those who still have it mapped */
    unlink(unfinished);
    int fd = open(unfinished, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (fd < 0)
        return error_set(e, ERR_SYSTEM, "cannot create %s: %s", unfinished, strerror(errno));
    /* Allocated, not sparse: a full tmpfs must show here and not as SIGBUS later. */
    int cause = posix_fallocate(fd, 0, (off_t)size);
    if (cause != 0) {
        result = error_set(e, ERR_SYSTEM, "cannot give %s %zu bytes: %s", path, size, strerror(cause));
        goto out;
    }
    void *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED) {
        result = error_set(e, ERR_SYSTEM, "cannot map %s: %s", path, strerror(errno));
        goto out;
    }
    fill(base, program, n_records);
    if (rename(unfinished, path) != 0) {
        result = error_set(e, ERR_SYSTEM, "cannot name %s: %s", path, strerror(errno));
        munmap(base, size);
        goto out;
    }
    *out = base;
out:
    if (result != 0)
        unlink(unfinished);
    close(fd);
    return result;
}

/* Maps what is there; `is_writable`: for the cells that anybody may write. */
static int map_existing(const char *run_dir, const char *program, bool is_writable, struct mapping **out,
                        struct error *e)
{
    int protection = PROT_READ | (is_writable ? PROT_WRITE : 0);
    char path[4096];
    struct stat st;
    int result = 0;

    snprintf(path, sizeof(path), "%s/%s.map", run_dir, program);
    int fd = open(path, (is_writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return error_set(e, ERR_NOT_FOUND, "cannot open %s: %s", path, strerror(errno));
    if (fstat(fd, &st) != 0 || (size_t)st.st_size < sizeof(struct mapping)) {
        result = error_set(e, ERR_FORMAT, "%s is too short", path);
        goto out;
    }
    struct mapping *mapping = mmap(NULL, (size_t)st.st_size, protection, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED) {
        result = error_set(e, ERR_SYSTEM, "cannot map %s: %s", path, strerror(errno));
        goto out;
    }
    if (memcmp(mapping->magic, MAGIC, sizeof(mapping->magic)) != 0 || mapping->layout != MAPPING_LAYOUT) {
        munmap(mapping, (size_t)st.st_size);
        result = error_set(e, ERR_FORMAT, "%s is of another version of %s", path, program);
        goto out;
    }
    if (mapping->n_records > ((size_t)st.st_size - sizeof(*mapping)) / sizeof(mapping->workers[0])) {
        result = error_set(e, ERR_FORMAT, "%s has no room for its %u workers", path, mapping->n_records);
        munmap(mapping, (size_t)st.st_size);
        goto out;
    }
    *out = mapping;
out:
    close(fd);
    return result;
}

int mapping_open(const char *run_dir, const char *program, struct mapping **out, struct error *e)
{
    if (!pidfile_is_held(run_dir, program))
        return error_set(e, ERR_NOT_FOUND, "no %s runs in %s", program, run_dir);
    return map_existing(run_dir, program, true, out, e);
}

int mapping_view(const char *run_dir, const char *program, const struct mapping **out, struct error *e)
{
    struct mapping *mapping = NULL;
    if (!pidfile_is_held(run_dir, program))
        return error_set(e, ERR_NOT_FOUND, "no %s runs in %s", program, run_dir);
    int r = map_existing(run_dir, program, false, &mapping, e);
    if (r == 0)
        *out = mapping;
    return r;
}

/* It does not look at the lock: to close a descriptor of the pid file would let go of it. */
int mapping_adopt(const char *run_dir, const char *program, unsigned n_records, struct mapping **out,
                  struct error *e)
{
    struct mapping *mapping = NULL;
    int r = map_existing(run_dir, program, true, &mapping, e);
    if (mapping == NULL)
        return r;
    if (mapping->n_records < n_records) {
        r = error_set(e, ERR_FORMAT, "%s.map has %u records, %u are needed", program, mapping->n_records,
                      n_records);
        mapping_close(mapping);
        return r;
    }
    *out = mapping;
    return 0;
}

struct mapping *mapping_alone(const char *program, unsigned n_records)
{
    struct mapping *mapping =
        mmap(NULL, size_for(n_records), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (mapping == MAP_FAILED)
        abort();
    fill(mapping, program, n_records);
    return mapping;
}

void mapping_close(const struct mapping *mapping)
{
    if (mapping != NULL)
        munmap((void *)(uintptr_t)mapping, size_for(mapping->n_records));
}

void scoreboard_enter(struct scoreboard_record *record, enum stage stage)
{
    atomic_store_explicit(&record->since_us, clock_monotonic_us(), memory_order_relaxed);
    atomic_store_explicit(&record->stage, (uint32_t)stage, memory_order_release);
}

/* A worker may be killed between any two lines: started_us is stored when the rest
 * is in place, and cleared before the rest changes. */
void scoreboard_begin_request(struct scoreboard_record *record)
{
    struct scoreboard_request *request = &record->request;

    atomic_store_explicit(&request->is_counted, 0, memory_order_relaxed);
    request->series = 0;
    request->status = 0;
    request->time_us = clock_wall_us();
    request->event_id[0] = '\0';
    request->request_id[0] = '\0';
    request->trace_id[0] = '\0';
    request->span_id[0] = '\0';
    request->parent_span_id[0] = '\0';
    request->is_sampled = 0;
    request->mount[0] = '\0';
    request->endpoint[0] = '\0';
    request->key_id[0] = '\0';
    request->remote_user[0] = '\0';
    request->model[0] = '\0';
    atomic_store_explicit(&request->upstream, 0, memory_order_relaxed);
    atomic_store_explicit(&request->started_us, clock_monotonic_us(), memory_order_release);
}

void scoreboard_end_request(struct scoreboard_record *record)
{
    atomic_store_explicit(&record->request.started_us, 0, memory_order_seq_cst);
}

/* A worker writes while we read: what was copied counts if the same request is still in hand. */
bool scoreboard_copy_request(const struct scoreboard_record *record, struct scoreboard_request *out)
{
    enum { TRIES = 4 };

    for (int i = 0; i < TRIES; i++) {
        uint64_t started = atomic_load_explicit(&record->request.started_us, memory_order_acquire);
        if (started == 0)
            return false;
        memcpy(out, &record->request, sizeof(*out));
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&record->request.started_us, memory_order_relaxed) != started)
            continue;
        char *const ends[] = { &out->model[sizeof(out->model) - 1], &out->endpoint[sizeof(out->endpoint) - 1],
                               &out->request_id[sizeof(out->request_id) - 1] };
        for (size_t k = 0; k < sizeof(ends) / sizeof(ends[0]); k++)
            *ends[k] = '\0';
        return true;
    }
    return false;
}

bool scoreboard_reserve_body(const struct mapping *mapping, struct scoreboard_record *record, uint64_t bytes,
                             uint64_t limit_bytes)
{
    uint64_t total = 0;

    atomic_store(&record->body_bytes, bytes); /* seen by those who ask after us, before we ask */
    for (unsigned i = 0; i < mapping->n_records; i++)
        total += atomic_load(&mapping->workers[i].body_bytes);
    if (total <= limit_bytes)
        return true;
    scoreboard_release_body(record);
    return false;
}

void scoreboard_release_body(struct scoreboard_record *record)
{
    atomic_store_explicit(&record->body_bytes, 0, memory_order_release);
}

enum { SHARE_CLAIMED = 1, SHARE_PAUSE_US = 20, SHARE_PAUSES_MAX = 50, SHARE_PATIENCE_MS = 1000 };

static unsigned count_shares(const struct mapping *mapping, const struct scoreboard_record *but,
                             uint64_t share)
{
    unsigned n = 0;
    for (unsigned i = 0; i < mapping->n_records; i++) {
        const struct scoreboard_record *record = &mapping->workers[i];
        n += record != but && atomic_load(&record->share) == share;
    }
    return n;
}

/* Who asks says so first: of two that do not see each other's claim one would have come
 * after the other's look. Those that see too many claims withdraw, and come again after
 * pauses that differ. */
bool scoreboard_take_share(const struct mapping *mapping, struct scoreboard_record *record, uint64_t model,
                           unsigned limit)
{
    uint64_t held = model & ~(uint64_t)SHARE_CLAIMED, claimed = model | SHARE_CLAIMED;
    unsigned place = (unsigned)getpid();
    uint64_t end_us = clock_monotonic_us() + SHARE_PATIENCE_MS * US_PER_MS;

    for (unsigned i = 1;; i++) {
        atomic_store(&record->share, claimed);
        unsigned n_claimed = count_shares(mapping, record, claimed);
        unsigned n_held = count_shares(mapping, record, held);
        if (n_held + n_claimed < limit) {
            atomic_store(&record->share, held);
            return true;
        }
        scoreboard_release_share(record);
        if (n_held >= limit || clock_monotonic_us() >= end_us)
            return false;
        unsigned pauses = (i < SHARE_PAUSES_MAX ? i : SHARE_PAUSES_MAX) + place * i % 17;
        nanosleep(&(struct timespec){ .tv_nsec = SHARE_PAUSE_US * 1000L * pauses }, NULL);
    }
}

void scoreboard_release_share(struct scoreboard_record *record)
{
    atomic_store(&record->share, 0);
}

struct leases scoreboard_leases(const struct mapping *mapping)
{
    return (struct leases){ &mapping->workers[0].lease, sizeof(mapping->workers[0]), mapping->n_records };
}

struct pool_owners scoreboard_pool_owners(struct mapping *mapping)
{
    return (struct pool_owners){ &mapping->workers[0].pool_owner, sizeof(mapping->workers[0]),
                                 mapping->n_records };
}

void scoreboard_count_stages(const struct mapping *mapping, unsigned counts[STAGE_COUNT])
{
    memset(counts, 0, STAGE_COUNT * sizeof(counts[0]));
    for (unsigned i = 0; i < mapping->n_records; i++) {
        const struct scoreboard_record *record = &mapping->workers[i];
        uint32_t stage = atomic_load_explicit(&record->stage, memory_order_relaxed);
        bool is_alive = atomic_load_explicit(&record->pid, memory_order_relaxed) != 0;
        counts[is_alive && stage < STAGE_COUNT ? stage : STAGE_FREE]++;
    }
}

unsigned scoreboard_alive(const struct mapping *mapping)
{
    unsigned alive = 0;
    for (unsigned i = 0; i < mapping->n_records; i++) {
        if (atomic_load_explicit(&mapping->workers[i].pid, memory_order_relaxed) != 0)
            alive++;
    }
    return alive;
}

unsigned scoreboard_current(const struct mapping *mapping)
{
    uint64_t generation = atomic_load_explicit(&mapping->generation, memory_order_relaxed);
    unsigned current = 0;
    for (unsigned i = 0; i < mapping->n_records; i++) {
        const struct scoreboard_record *record = &mapping->workers[i];
        if (atomic_load_explicit(&record->pid, memory_order_relaxed) != 0 &&
            atomic_load_explicit(&record->generation, memory_order_relaxed) == generation)
            current++;
    }
    return current;
}

bool mapping_is_view_fresh(const struct mapping *mapping)
{
    uint64_t checked = atomic_load_explicit(&mapping->keeper.checked_us, memory_order_acquire);
    return checked != 0 && clock_monotonic_us() - checked < VIEW_OLD_US;
}

bool mapping_is_store_ok(const struct mapping *mapping)
{
    return mapping_is_view_fresh(mapping) &&
           atomic_load_explicit(&mapping->keeper.is_store_ok, memory_order_relaxed) != 0;
}

void mapping_put_in_force(struct mapping *mapping, uint64_t generation, const struct tree_in_force *tree)
{
    /* Whoever sees a byte of it sees that the generation before is in force. */
    atomic_thread_fence(memory_order_release);
    mapping->keeper.trees[generation % 2] = *tree;
    atomic_store_explicit(&mapping->generation, generation, memory_order_release);
}

/* The place that was read is written again only for the generation after the next. */
uint64_t mapping_in_force(const struct mapping *mapping, struct tree_in_force *tree)
{
    uint64_t generation, after = atomic_load_explicit(&mapping->generation, memory_order_acquire);
    do {
        generation = after;
        *tree = mapping->keeper.trees[generation % 2];
        atomic_thread_fence(memory_order_acquire);
        after = atomic_load_explicit(&mapping->generation, memory_order_relaxed);
    } while (after != generation);
    tree->version[sizeof(tree->version) - 1] = '\0';
    return generation;
}

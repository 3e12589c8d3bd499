#include "core/upstream/session_cache.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/clock.h"
#include "core/upstream/session_cache_internal.h"

int session_cache_open(struct session_cache **out, struct error *e)
{
    struct session_cache *cache =
        mmap(NULL, sizeof(*cache), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (cache == MAP_FAILED)
        return error_set(e, ERR_SYSTEM, "no memory for TLS sessions: %s", strerror(errno));
    int cause = madvise(cache, sizeof(*cache), MADV_DONTDUMP) != 0 ? errno : shared_mutex_init(&cache->mutex);
    if (cause != 0) {
        session_cache_close(cache);
        return error_set(e, ERR_SYSTEM, "TLS sessions cannot be shared: %s", strerror(cause));
    }
    *out = cache;
    return 0;
}

void session_cache_close(struct session_cache *cache)
{
    if (cache != NULL)
        munmap(cache, sizeof(*cache));
}

static void drop(struct session_cache *cache, size_t i)
{
    explicit_bzero(cache->bytes[i], cache->entries[i].len);
    cache->entries[i].len = 0;
}

/* What a holder that died was doing is not known: nothing of it is believed. */
static void empty(struct session_cache *cache)
{
    explicit_bzero(cache->bytes, sizeof(cache->bytes));
    explicit_bzero(cache->entries, sizeof(cache->entries));
}

/* Does not wait: the other may have been stopped, and a handshake in full costs less. */
static bool enter(struct session_cache *cache)
{
    enum shared_mutex_grant grant = shared_mutex_try(&cache->mutex);
    if (grant == SHARED_MUTEX_ORPHANED)
        empty(cache);
    return grant != SHARED_MUTEX_BUSY;
}

static void leave(struct session_cache *cache)
{
    shared_mutex_unlock(&cache->mutex);
}

static void drop_lapsed(struct session_cache *cache)
{
    uint64_t now = clock_monotonic_us();
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        if (cache->entries[i].len > 0 && cache->entries[i].until_us <= now)
            drop(cache, i);
    }
}

static bool is_of(const struct session_entry *entry, const struct session_peer *peer)
{
    return entry->len > 0 && memcmp(&entry->peer, peer, sizeof(*peer)) == 0;
}

/* Where a further one of this peer goes: a free place, if it has not its share yet. */
static size_t place_for(const struct session_cache *cache, const struct session_peer *peer)
{
    size_t n_own = 0, free_place = SESSIONS_MAX, own = SESSIONS_MAX, any = 0;

    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        const struct session_entry *entry = &cache->entries[i];
        if (entry->len == 0) {
            free_place = i;
            continue;
        }
        if (is_of(entry, peer)) {
            n_own++;
            if (own == SESSIONS_MAX || entry->until_us < cache->entries[own].until_us)
                own = i;
        }
        if (entry->until_us < cache->entries[any].until_us)
            any = i;
    }
    if (n_own >= SESSIONS_PER_PEER)
        return own;
    return free_place < SESSIONS_MAX ? free_place : any;
}

bool session_cache_put(struct session_cache *cache, const struct session_peer *peer, struct span session,
                       uint64_t until_us)
{
    if (session.len == 0 || session.len > SESSION_BYTES_MAX || until_us <= clock_monotonic_us() ||
        !enter(cache))
        return false;
    drop_lapsed(cache);
    size_t i = place_for(cache, peer);
    drop(cache, i);
    memcpy(cache->bytes[i], session.ptr, session.len);
    cache->entries[i] = (struct session_entry){ .len = session.len, .until_us = until_us, .peer = *peer };
    leave(cache);
    return true;
}

size_t session_cache_take(struct session_cache *cache, const struct session_peer *peer,
                          uint8_t out[SESSION_BYTES_MAX])
{
    const struct session_entry *entries = cache->entries;
    size_t found = SESSIONS_MAX, len = 0;

    if (!enter(cache))
        return 0;
    drop_lapsed(cache);
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        if (is_of(&entries[i], peer) &&
            (found == SESSIONS_MAX || entries[i].until_us > entries[found].until_us))
            found = i;
    }
    if (found < SESSIONS_MAX) {
        len = entries[found].len;
        memcpy(out, cache->bytes[found], len);
        drop(cache, found);
    }
    leave(cache);
    return len;
}

#include "fcgi/engine/overflow.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/log/log.h"
#include "fcgi/engine/queue.h"
#include "fcgi/engine/record.h"
#include "fcgi/engine/shedding.h"

enum {
    PEERS_MAX = 8192,
    HEALTH_SHARE = 8,        /* one place in so many is for the health socket alone */
    OTHER_DESCRIPTORS = 32,  /* that are no peers */
    PEER_PATIENCE_MS = 5000, /* for a peer that does not send its request, or reads nothing */
    DISCARD_MS = 1000,       /* for one that is still sending when it has its answer */
    IDLE_TICKS = 2,          /* a worker idle for so long beside a queue has missed its wake-up */
    EVENTS_AT_ONCE = 64,
};

/* A connection of ours. */
struct peer {
    struct peer *next, **link; /* in the list of all */
    int fd;
    bool is_health;
    bool is_answered; /* `out` is the whole reply */
    struct record_reader reader;
    struct buf out;
    size_t sent;
    uint64_t ends_us;
};

struct overflow {
    const struct overflow_voice *voice;
    struct engine_process *process;
    struct queue_meter meter;
    bool has_meter;
    struct shedding shedding;
    int epoll, timer;
    bool is_told;           /* see listener_accept */
    bool is_health_resting; /* the health socket is not looked at until the next tick */
    struct peer *peers;
    size_t n_peers, peers_max;
    unsigned next_nudge; /* slot of the worker that is signalled next */
};

/* What epoll reports; anything else is a peer. */
static char tag_timer, tag_health;

static void close_peer(struct overflow *o, struct peer *peer)
{
    *peer->link = peer->next;
    if (peer->next != NULL)
        peer->next->link = peer->link;
    o->n_peers--;
    close(peer->fd); /* leaves the epoll set by itself */
    record_reader_free(&peer->reader);
    buf_free(&peer->out);
    free(peer);
}

static bool add_peer(struct overflow *o, int fd, bool is_health)
{
    struct peer *peer = xcalloc(1, sizeof(*peer));
    struct epoll_event wanted = { .events = EPOLLIN, .data.ptr = peer };

    if (epoll_ctl(o->epoll, EPOLL_CTL_ADD, fd, &wanted) != 0) {
        close(fd);
        free(peer);
        return false;
    }
    peer->fd = fd;
    peer->is_health = is_health;
    peer->ends_us = clock_monotonic_us() + PEER_PATIENCE_MS * US_PER_MS;
    record_reader_init(&peer->reader);
    buf_init(&peer->out, OVERFLOW_REPLY_BYTES);
    peer->next = o->peers;
    peer->link = &o->peers;
    if (o->peers != NULL)
        o->peers->link = &peer->next;
    o->peers = peer;
    o->n_peers++;
    return true;
}

/* False: the peer is done with, one way or the other. */
static bool send_reply(struct overflow *o, struct peer *peer)
{
    while (peer->sent < peer->out.len) {
        ssize_t n = send(peer->fd, peer->out.data + peer->sent, peer->out.len - peer->sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            struct epoll_event wanted = { .events = EPOLLIN | EPOLLOUT, .data.ptr = peer };
            epoll_ctl(o->epoll, EPOLL_CTL_MOD, peer->fd, &wanted);
            return true;
        }
        if (n < 0)
            return false;
        peer->sent += (size_t)n;
        peer->ends_us = clock_monotonic_us() + PEER_PATIENCE_MS * US_PER_MS;
    }
    if (peer->reader.has_ended)
        return false;
    /* It is still sending: closed now, it would lose the answer. */
    struct epoll_event wanted = { .events = EPOLLIN, .data.ptr = peer };
    epoll_ctl(o->epoll, EPOLL_CTL_MOD, peer->fd, &wanted);
    shutdown(peer->fd, SHUT_WR);
    peer->ends_us = clock_monotonic_us() + DISCARD_MS * US_PER_MS;
    return true;
}

static void answer(struct overflow *o, struct peer *peer)
{
    struct buf cgi;

    buf_init(&cgi, OVERFLOW_REPLY_BYTES / 2);
    o->voice->answer(o->process, &peer->reader, peer->is_health, &cgi);
    record_write_reply(&peer->out, &peer->reader, buf_span(&cgi));
    buf_free(&cgi);
    peer->is_answered = true;
}

/* False: the peer is done with. */
static bool receive(struct overflow *o, struct peer *peer)
{
    char bytes[16384];

    for (;;) {
        ssize_t n = recv(peer->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        if (n == 0)
            return false;
        if (record_reader_feed(&peer->reader, span_of(bytes, (size_t)n)) != 0)
            return false;
        if (peer->reader.has_params && !peer->is_answered) {
            answer(o, peer);
            if (!send_reply(o, peer))
                return false;
        }
        if (peer->is_answered && peer->sent == peer->out.len && peer->reader.has_ended)
            return false;
    }
}

/* What cannot be accepted would not let us sleep. */
static void rest_health(struct overflow *o, bool is_resting)
{
    struct epoll_event wanted = { .events = is_resting ? 0 : EPOLLIN, .data.ptr = &tag_health };
    if (o->is_health_resting != is_resting)
        epoll_ctl(o->epoll, EPOLL_CTL_MOD, o->process->health->fd, &wanted);
    o->is_health_resting = is_resting;
}

static void accept_health(struct overflow *o)
{
    bool is_in_vain = true;
    int fd;
    while ((fd = listener_accept(o->process->health, SOCK_NONBLOCK, &o->is_told)) >= 0) {
        is_in_vain = false;
        if (o->n_peers < o->peers_max)
            add_peer(o, fd, true);
        else
            close(fd); /* left where it is, it would not let us sleep */
    }
    /* One that is shut is readable for ever, and as long as we do not sleep no signal is let in. */
    if ((errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) ||
        (is_in_vain && listener_is_shut(o->process->health)))
        rest_health(o, true);
}

static void shed(struct overflow *o)
{
    _Atomic uint64_t *accepted = &o->process->mapping->accepted;
    size_t places = o->peers_max - o->peers_max / HEALTH_SHARE;

    while (o->n_peers < places &&
           shedding_is_due(&o->shedding, atomic_load_explicit(accepted, memory_order_relaxed))) {
        int fd = listener_accept(o->process->listener, SOCK_NONBLOCK, &o->is_told);
        if (fd < 0)
            return;
        atomic_fetch_add_explicit(accepted, 1, memory_order_relaxed);
        if (add_peer(o, fd, false))
            telemetry_add(&o->process->mapping->telemetry, METRIC_OVERFLOW, 0, 1);
    }
}

/* A worker that was killed between wake-up and accept took the wake-up with it:
 * the others sleep beside a waiting connection. One of them, in turn, is woken. */
static void nudge(struct overflow *o)
{
    struct mapping *mapping = o->process->mapping;
    uint64_t now = clock_monotonic_us();

    for (unsigned i = 0; i < mapping->n_records; i++) {
        struct scoreboard_record *record = &mapping->workers[o->next_nudge++ % mapping->n_records];
        pid_t pid = atomic_load_explicit(&record->pid, memory_order_acquire);
        uint64_t since = atomic_load_explicit(&record->since_us, memory_order_relaxed);
        if (pid <= 0 || atomic_load_explicit(&record->stage, memory_order_acquire) != STAGE_IDLE ||
            now - since < IDLE_TICKS * SHEDDING_TICK_MS * US_PER_MS)
            continue;
        kill(pid, SIGHUP);
        telemetry_add(&mapping->telemetry, METRIC_WAKEUPS_REPAIRED, 0, 1);
        return;
    }
}

static void end_late_peers(struct overflow *o)
{
    uint64_t now = clock_monotonic_us();
    struct peer *next;

    for (struct peer *peer = o->peers; peer != NULL; peer = next) {
        next = peer->next;
        if (now >= peer->ends_us)
            close_peer(o, peer);
    }
}

static void note_waiting(void *ctx, uint64_t ticks, uint64_t n)
{
    struct mapping *mapping = ctx;
    telemetry_observe(&mapping->telemetry, METRIC_QUEUE_DURATION, 0, ticks * SHEDDING_TICK_MS * US_PER_MS, n);
}

static void note_queue(const struct overflow *o, uint32_t waiting)
{
    atomic_store_explicit(&o->process->mapping->waiting, waiting, memory_order_relaxed);
    if (waiting > 0)
        engine_tell_need(o->process);
}

/* All that is known where the kernel does not count them. */
static bool is_somebody_waiting(const struct overflow *o)
{
    struct pollfd listener = { .fd = o->process->listener->fd, .events = POLLIN };
    return poll(&listener, 1, 0) == 1;
}

static void tick(struct overflow *o)
{
    struct mapping *mapping = o->process->mapping;
    uint64_t ticks = 1;
    uint32_t waiting = 0;

    if (read(o->timer, &ticks, sizeof(ticks)) != (ssize_t)sizeof(ticks))
        return;
    end_late_peers(o);
    rest_health(o, false);
    if (engine_is_stopping() && !listener_is_shut(o->process->listener))
        return; /* who waits is the successor's */
    uint64_t accepted = atomic_load_explicit(&mapping->accepted, memory_order_relaxed);
    /* From where the histogram is, so that no death of this process loses or doubles one. */
    uint64_t accounted = telemetry_observed(&mapping->telemetry, METRIC_QUEUE_DURATION, 0);
    shedding_account(&o->shedding, accounted, accepted, note_waiting, mapping);
    if (o->has_meter && queue_meter_read(&o->meter, &waiting) == 0) {
        note_queue(o, waiting);
        shedding_tick(&o->shedding, ticks, accepted, waiting);
        shed(o);
        /* While it stops, a place on the scoreboard may be of one who has ended. */
        if (waiting > 0 && o->shedding.standing >= IDLE_TICKS && !engine_is_stopping())
            nudge(o);
    } else if (!o->has_meter) {
        note_queue(o, is_somebody_waiting(o) ? 1 : 0);
    }
}

static void on_peer(struct overflow *o, struct peer *peer, uint32_t events)
{
    bool goes_on = true;

    if ((events & EPOLLOUT) != 0)
        goes_on = send_reply(o, peer);
    if (goes_on && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0)
        goes_on = receive(o, peer);
    if (!goes_on)
        close_peer(o, peer);
}

/* How many peers there are descriptors for. The default limit, 1024, is for
 * programs that call select. */
static size_t find_places(void)
{
    struct rlimit limit = { 0 };
    size_t places = OTHER_DESCRIPTORS;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur > 2 * OTHER_DESCRIPTORS)
        places = (size_t)limit.rlim_cur - OTHER_DESCRIPTORS;
    return places < PEERS_MAX ? places : PEERS_MAX;
}

static int prepare(struct overflow *o, struct error *e)
{
    struct itimerspec every = { .it_interval.tv_nsec = SHEDDING_TICK_MS * 1000000,
                                .it_value.tv_nsec = SHEDDING_TICK_MS * 1000000 };
    struct epoll_event timer = { .events = EPOLLIN, .data.ptr = &tag_timer };
    struct epoll_event health = { .events = EPOLLIN, .data.ptr = &tag_health };

    o->peers_max = find_places();
    o->epoll = epoll_create1(EPOLL_CLOEXEC);
    o->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (o->epoll < 0 || o->timer < 0 || timerfd_settime(o->timer, 0, &every, NULL) != 0 ||
        epoll_ctl(o->epoll, EPOLL_CTL_ADD, o->timer, &timer) != 0 ||
        epoll_ctl(o->epoll, EPOLL_CTL_ADD, o->process->health->fd, &health) != 0)
        return error_set(e, ERR_SYSTEM, "epoll: %s", strerror(errno));
    o->has_meter =
        queue_meter_open(&o->meter, o->process->listener->fd, o->process->listener->is_tcp, e) == 0;
    if (!o->has_meter)
        log_line(LOG_WARN, "queue_unmeasured", "%s; waiting connections are not shed", e->text);
    return o->voice->init(o->process, e);
}

/* Whether who came before the socket was shut is still waiting: no successor will know of him, and the
 * workers may all have long requests in hand. Where the kernel does not count them, it is left to those. */
static bool has_last_callers(struct overflow *o)
{
    uint32_t waiting = 0;
    return listener_is_shut(o->process->listener) && o->has_meter &&
           queue_meter_read(&o->meter, &waiting) == 0 && waiting > 0;
}

/* Told to stop, it goes on until nobody is owed an answer. */
static bool must_go_on(struct overflow *o)
{
    return !engine_is_stopping() || o->peers != NULL || has_last_callers(o);
}

int overflow_run(const struct overflow_voice *voice, struct engine_process *process)
{
    struct overflow o = { .voice = voice, .process = process };
    struct epoll_event events[EVENTS_AT_ONCE];
    struct error e;

    if (prepare(&o, &e) != 0) {
        log_line(LOG_ERROR, "overflow_failed", "%s", e.text);
        return 1;
    }
    shedding_init(&o.shedding, (uint64_t)process->settings->queue_timeout_ms);
    while (must_go_on(&o)) {
        int n = epoll_pwait(o.epoll, events, EVENTS_AT_ONCE, -1, &process->open_mask);
        /* The timer last: it may close peers that other events point to. */
        bool has_tick = false;
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr == &tag_timer)
                has_tick = true;
            else if (events[i].data.ptr == &tag_health)
                accept_health(&o);
            else
                on_peer(&o, events[i].data.ptr, events[i].events);
        }
        if (has_tick)
            tick(&o);
    }
    shedding_free(&o.shedding);
    queue_meter_close(&o.meter);
    close(o.timer);
    close(o.epoll);
    return 0;
}

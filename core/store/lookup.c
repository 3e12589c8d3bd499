#include "core/store/lookup_internal.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "core/base/arena.h"
#include "core/base/clock.h"

struct lookup {
    char *host, *port;
    pthread_mutex_t lock; /* of what follows */
    pthread_cond_t ended;
    bool has_ended;
    bool is_left; /* nobody wants the answer: who comes last frees it */
    int result;
    struct addrinfo *found;
    uint64_t ended_us;
};

static void free_lookup(struct lookup *lookup)
{
    if (lookup->found != NULL)
        freeaddrinfo(lookup->found);
    pthread_cond_destroy(&lookup->ended);
    pthread_mutex_destroy(&lookup->lock);
    free(lookup->host);
    free(lookup->port);
    free(lookup);
}

static void note_end(struct lookup *lookup, int result, struct addrinfo *found)
{
    lookup->has_ended = true;
    lookup->result = result;
    lookup->found = found;
    lookup->ended_us = clock_monotonic_us();
}

static int ask(const struct lookup *lookup, int flags, struct addrinfo **found)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV | flags };

    *found = NULL;
    return getaddrinfo(lookup->host, lookup->port, &hints, found);
}

static void *run(void *arg)
{
    struct lookup *lookup = arg;
    struct addrinfo *found;
    int result = ask(lookup, 0, &found);

    pthread_mutex_lock(&lookup->lock);
    note_end(lookup, result, found);
    bool is_left = lookup->is_left;
    pthread_cond_signal(&lookup->ended);
    pthread_mutex_unlock(&lookup->lock);
    if (is_left)
        free_lookup(lookup);
    return NULL;
}

static bool start_thread(struct lookup *lookup)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;

    sigfillset(&all); /* signals are the process' own matter */
    pthread_attr_init(&attributes);
    pthread_attr_setsigmask_np(&attributes, &all);
    int cause = pthread_create(&thread, &attributes, run, lookup);
    pthread_attr_destroy(&attributes);
    if (cause != 0)
        return false;
    pthread_setname_np(thread, "lookup");
    pthread_detach(thread);
    return true;
}

static struct lookup *begin(const char *host, const char *port)
{
    struct lookup *lookup = xcalloc(1, sizeof(*lookup));
    struct addrinfo *found;

    lookup->host = xstrdup(host);
    lookup->port = xstrdup(port);
    pthread_mutex_init(&lookup->lock, NULL);
    pthread_cond_init(&lookup->ended, NULL);
    int result = ask(lookup, AI_NUMERICHOST, &found); /* an address in digits needs nobody to be asked */
    if (result != EAI_NONAME)
        note_end(lookup, result, found);
    else if (!start_thread(lookup))
        note_end(lookup, EAI_AGAIN, NULL);
    return lookup;
}

static bool has_lapsed(struct lookup *lookup)
{
    pthread_mutex_lock(&lookup->lock);
    bool has_lapsed =
        lookup->has_ended && clock_monotonic_us() - lookup->ended_us > LOOKUP_ANSWER_MS * US_PER_MS;
    pthread_mutex_unlock(&lookup->lock);
    return has_lapsed;
}

void lookup_go_on(struct lookup **lookup, const char *host, const char *port)
{
    if (*lookup != NULL && has_lapsed(*lookup)) {
        lookup_end(*lookup);
        *lookup = NULL;
    }
    if (*lookup == NULL)
        *lookup = begin(host, port);
}

bool lookup_take(struct lookup *lookup, struct addrinfo **found, const char **why)
{
    pthread_mutex_lock(&lookup->lock);
    bool has_ended = lookup->has_ended;
    if (has_ended) {
        *found = lookup->found;
        *why = lookup->result == 0 ? "" : gai_strerror(lookup->result);
        lookup->found = NULL;
    }
    pthread_mutex_unlock(&lookup->lock);
    return has_ended;
}

void lookup_wait(struct lookup *lookup, unsigned timeout_ms)
{
    uint64_t until_us = clock_monotonic_us() + timeout_ms * US_PER_MS;
    const struct timespec until = { .tv_sec = (time_t)(until_us / US_PER_S),
                                    .tv_nsec = (long)(until_us % US_PER_S) * 1000 };
    int r = 0;

    pthread_mutex_lock(&lookup->lock);
    while (r == 0 && !lookup->has_ended)
        r = pthread_cond_clockwait(&lookup->ended, &lookup->lock, CLOCK_MONOTONIC, &until);
    pthread_mutex_unlock(&lookup->lock);
}

void lookup_end(struct lookup *lookup)
{
    if (lookup == NULL)
        return;
    pthread_mutex_lock(&lookup->lock);
    bool has_ended = lookup->has_ended;
    lookup->is_left = true;
    pthread_mutex_unlock(&lookup->lock);
    if (has_ended)
        free_lookup(lookup);
}

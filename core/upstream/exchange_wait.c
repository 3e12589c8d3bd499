/* The one loop in which all exchanges of a client run: what libcurl waits for, the
 * clocks, the beats and the caller. */
#include <errno.h>
#include <poll.h>

#include "core/base/clock.h"
#include "core/upstream/exchange_internal.h"

enum { WAIT_MAX_MS = 60000 };

/* --- what libcurl waits for --- */

/* libcurl says what it waits for, rather than being asked by a call that makes it look at each of
 * its sockets again: three system calls for a piece of a reply, not five. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *ignored)
{
    struct exchange_client *client = ctx;
    unsigned i = 0;

    (void)easy;
    (void)ignored;
    while (i < client->n_watched && client->watched[i].fd != fd)
        i++;
    if (what == CURL_POLL_REMOVE) {
        if (i < client->n_watched)
            client->watched[i] = client->watched[--client->n_watched];
        return 0;
    }
    if (i == WATCHED_MAX)
        return -1;
    if (i == client->n_watched)
        client->n_watched++;
    client->watched[i] = (struct pollfd){
        .fd = fd,
        .events = (short)((what & CURL_POLL_IN ? POLLIN : 0) | (what & CURL_POLL_OUT ? POLLOUT : 0)),
    };
    return 0;
}

static int on_timer(CURLM *multi, long ms, void *ctx)
{
    struct exchange_client *client = ctx;
    (void)multi;
    client->timer_us = ms < 0 ? UINT64_MAX : clock_monotonic_us() + (uint64_t)ms * US_PER_MS;
    return 0;
}

void exchange_watch(struct exchange_client *client)
{
    client->timer_us = UINT64_MAX;
    curl_multi_setopt(client->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(client->multi, CURLMOPT_SOCKETDATA, client);
    curl_multi_setopt(client->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(client->multi, CURLMOPT_TIMERDATA, client);
}

static int readiness_of(const struct pollfd *p)
{
    return (p->revents & (POLLIN | POLLHUP) ? CURL_CSELECT_IN : 0) |
           (p->revents & POLLOUT ? CURL_CSELECT_OUT : 0) |
           (p->revents & (POLLERR | POLLNVAL) ? CURL_CSELECT_ERR : 0);
}

/* Tells libcurl what is ready, of what was waited for. Its answer changes what is watched. */
static CURLMcode act(struct exchange_client *client)
{
    struct pollfd ready[WATCHED_MAX];
    unsigned n = 0;
    CURLMcode r = CURLM_OK;
    int running;

    for (unsigned i = 0; i < client->n_watched; i++) {
        if (client->watched[i].revents != 0)
            ready[n++] = client->watched[i];
        client->watched[i].revents = 0;
    }
    for (unsigned i = 0; i < n && r == CURLM_OK; i++)
        r = curl_multi_socket_action(client->multi, ready[i].fd, readiness_of(&ready[i]), &running);
    if (r == CURLM_OK && client->timer_us <= clock_monotonic_us()) {
        client->timer_us = UINT64_MAX;
        r = curl_multi_socket_action(client->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    return r;
}

/* Moves all as far as they go without waiting. True: one is over, and how. */
static bool perform(struct exchange_client *client, struct exchange **over, enum exchange_end *end)
{
    CURLMsg *message;
    char *of_message;
    int left;

    if (act(client) != CURLM_OK) {
        *over = client->running[0];
        *end = EXCHANGE_END_INVALID;
        return true;
    }
    for (unsigned i = 0; i < client->n_running; i++) {
        struct exchange *x = client->running[i];
        if (!exchange_hand_over(x, span_of(x->gathered, x->n_gathered))) {
            *over = x;
            *end = exchange_end_of(x, CURLE_OK);
            return true;
        }
    }
    while ((message = curl_multi_info_read(client->multi, &left)) != NULL) {
        if (message->msg != CURLMSG_DONE)
            continue;
        CURLcode code = message->data.result;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &of_message);
        *over = (struct exchange *)(void *)of_message;
        *end = exchange_end_of(*over, code);
        return true;
    }
    return false;
}

/* --- clocks --- */

/* The next deadline, on the exchange's own time, and what its passing means. */
static uint64_t next_deadline(const struct exchange *x, enum exchange_end *means)
{
    const struct exchange_clocks *clocks = &x->request->clocks;

    if (x->result->first_content_us > 0) {
        *means = EXCHANGE_END_TIMEOUT_IDLE;
        return x->last_byte_us + clocks->idle_ms * US_PER_MS;
    }
    uint64_t deadline = x->start_us + clocks->first_content_ms * US_PER_MS;
    *means = EXCHANGE_END_TIMEOUT_FIRST_CONTENT;
    if (x->sends == 0 && x->start_us + clocks->connect_ms * US_PER_MS < deadline) {
        deadline = x->start_us + clocks->connect_ms * US_PER_MS;
        *means = EXCHANGE_END_TIMEOUT_CONNECT;
    }
    if (clocks->chain_us < deadline) {
        deadline = clocks->chain_us;
        *means = EXCHANGE_END_TIMEOUT_CHAIN;
    }
    return deadline;
}

/* Runs the beats that are due; when one is due next. False: the caller is gone. */
static bool keep_beats(struct exchange *x, uint64_t *due_us)
{
    size_t n = x->want == EXCHANGE_LINGER ? 0 : x->request->n_beats;

    *due_us = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const struct exchange_beat *beat = &x->request->beats[i];
        uint64_t now = clock_monotonic_us();
        if (beat->due_us(beat->ctx) <= now) {
            if (beat->run(beat->ctx) != 0)
                return false;
            exchange_hold_clocks(x->client, clock_monotonic_us() - now);
        }
        uint64_t next_us = beat->due_us(beat->ctx);
        *due_us = next_us < *due_us ? next_us : *due_us;
    }
    return true;
}

/* Asks for the caller if it is time to; when it is next. False: the caller is gone. */
static bool look_for_caller(struct exchange *x, uint64_t *due_us)
{
    uint64_t now;

    if (x->want != EXCHANGE_LINGER && x->look_us != UINT64_MAX &&
        (now = clock_monotonic_us()) >= x->look_us) {
        if (x->request->has_caller_left(x->request->caller))
            return false;
        x->look_us = now + EXCHANGE_LOOK_MS * US_PER_MS;
    }
    *due_us = x->want == EXCHANGE_LINGER ? UINT64_MAX : x->look_us;
    return true;
}

/* What an exchange wants done by the clock: does what is due of it, and lowers *until_us to
 * when it is to be looked at again. True: it is over. */
static bool keep_time(struct exchange *x, uint64_t *until_us, enum exchange_end *end)
{
    enum exchange_end means = EXCHANGE_END_ENOUGH;
    uint64_t deadline_us, beat_us, look_us;

    if (!keep_beats(x, &beat_us) || !look_for_caller(x, &look_us)) {
        *end = EXCHANGE_END_CALLER_LEFT;
        return true;
    }
    if (x->want == EXCHANGE_LINGER)
        deadline_us = x->linger_until_us;
    else
        deadline_us = next_deadline(x, &means) + x->result->receiver_us;
    if (clock_monotonic_us() >= deadline_us) {
        *end = means;
        return true;
    }
    *until_us = deadline_us < *until_us ? deadline_us : *until_us;
    *until_us = beat_us < *until_us ? beat_us : *until_us;
    *until_us = look_us < *until_us ? look_us : *until_us;
    return false;
}

/* Waits for the upstreams, the caller, a beat, the next deadline or until_us. True: one is over by
 * one of them, and how. */
static bool wait_for_more(struct exchange_client *client, uint64_t until_us, struct exchange **over,
                          enum exchange_end *end)
{
    struct pollfd *caller = &client->watched[client->n_watched];
    struct exchange *of_caller = NULL; /* that is over if the caller leaves */

    for (unsigned i = 0; i < client->n_running; i++) {
        struct exchange *x = client->running[i];
        if (keep_time(x, &until_us, end)) {
            *over = x;
            return true;
        }
        if (x->request->caller_fd >= 0 && x->want != EXCHANGE_LINGER)
            of_caller = x;
    }
    until_us = client->timer_us < until_us ? client->timer_us : until_us;
    uint64_t now = clock_monotonic_us();
    uint64_t wait_ms = until_us > now ? (until_us - now + US_PER_MS - 1) / US_PER_MS : 0;
    *caller =
        (struct pollfd){ .fd = of_caller != NULL ? of_caller->request->caller_fd : -1, .events = POLLIN };
    int n = poll(client->watched, client->n_watched + (of_caller != NULL),
                 (int)(wait_ms > WAIT_MAX_MS ? WAIT_MAX_MS : wait_ms));
    if (n < 0 && errno != EINTR) {
        *over = client->running[0];
        *end = EXCHANGE_END_INVALID;
        return true;
    }
    if (n > 0 && of_caller != NULL && caller->revents != 0) {
        *over = of_caller;
        *end = EXCHANGE_END_CALLER_LEFT;
        return true;
    }
    return false;
}

struct exchange *exchange_wait(struct exchange_client *client, uint64_t until_us)
{
    enum exchange_end end = EXCHANGE_END_INVALID;
    struct exchange *over = NULL;
    bool is_time = false; /* what has come by then is looked at first */

    while (!perform(client, &over, &end)) {
        if (is_time)
            return NULL;
        if (wait_for_more(client, until_us, &over, &end))
            break;
        is_time = until_us != UINT64_MAX && clock_monotonic_us() >= until_us;
    }
    exchange_settle(over, end);
    return over;
}

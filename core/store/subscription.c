#include "core/store/subscription_internal.h"

#include <ctype.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/ids.h"
#include "core/store/redis_link_internal.h"

enum {
    PAUSE_MIN_MS = 100, /* before it connects again; doubled each time, */
    PAUSE_MAX_MS = 5000,
    OPEN_MS = 2000,   /* from the beginning to the subscription */
    SILENT_MS = 2000, /* then it is asked whether it is there */
    ANSWER_MS = 1500,
    PROVEN_MS = 5000,    /* a subscription that stood for so long begins with the shortest pause again */
    LOOKUP_TICK_MS = 20, /* a lookup in a thread has no descriptor */
};

enum subscription_state {
    SUBSCRIPTION_RESTING, /* until `until_us` */
    SUBSCRIPTION_OPENING, /* at most until `until_us` */
    SUBSCRIPTION_STANDING,
};

struct subscription {
    struct redis_address address;
    char *channel;
    const struct envelope_keys *keys;
    struct redis_link link, publishing; /* the second is open while something is published */
    int epoll, timer;                   /* -1: not made yet */
    enum subscription_state state;
    bool has_greeted;
    unsigned replies_awaited; /* before the subscription's own */
    uint64_t until_us;
    uint64_t stands_since_us, heard_us;
    uint64_t asked_us; /* a PING without an answer; 0: none */
    unsigned pause_ms;
    uint64_t refused, connections;
};

int subscription_open(const char *redis_url, const char *prefix, const struct envelope_keys *keys,
                      struct subscription **out, struct error *e)
{
    struct redis_address address;
    int r = redis_address_parse(redis_url, &address, e);
    if (r != 0)
        return r;
    struct subscription *s = xcalloc(1, sizeof(*s));
    size_t prefix_len = prefix == NULL ? 0 : strlen(prefix);
    s->address = address;
    s->channel = xmalloc(prefix_len + sizeof(INVALIDATION_CHANNEL));
    sprintf(s->channel, "%s%s", prefix == NULL ? "" : prefix, INVALIDATION_CHANNEL);
    s->keys = keys;
    s->epoll = s->timer = -1;
    s->pause_ms = PAUSE_MIN_MS;
    redis_link_init(&s->link, &s->address);
    redis_link_init(&s->publishing, &s->address);
    *out = s;
    return 0;
}

static void close_descriptors(struct subscription *s)
{
    if (s->epoll >= 0)
        close(s->epoll);
    if (s->timer >= 0)
        close(s->timer);
    s->epoll = s->timer = -1;
}

void subscription_close(struct subscription *s)
{
    if (s == NULL)
        return;
    redis_link_free(&s->link);
    redis_link_free(&s->publishing);
    redis_address_wipe(&s->address);
    close_descriptors(s);
    free(s->channel);
    free(s);
}

/* --- what Redis says --- */

/* Empty for what has none. */
static struct span text_of(const redisReply *reply)
{
    return span_of(reply->str, reply->len);
}

static bool is_text(const redisReply *reply, const char *text)
{
    return reply->type == REDIS_REPLY_STRING && span_is(text_of(reply), text);
}

static bool is_ok(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STATUS && span_is(text_of(reply), "OK");
}

static bool is_push(const redisReply *reply, const char *kind, size_t n)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements == n && is_text(reply->element[0], kind);
}

static bool is_of_channel(const struct subscription *s, const redisReply *push)
{
    return is_text(push->element[1], s->channel);
}

static void fail_reply(struct subscription *s, const redisReply *reply)
{
    if (reply->type == REDIS_REPLY_ERROR)
        redis_link_fail(&s->link, "it answers with %s", redis_error_word(reply));
    else
        redis_link_fail(&s->link, "it does not speak as Redis does");
}

static enum store_news take_message(struct subscription *s, const redisReply *payload)
{
    struct invalidation news;
    if (s->keys != NULL && payload->type == REDIS_REPLY_STRING &&
        invalidation_read(text_of(payload), s->keys, &news) == 0)
        return STORE_NEWS_PUBSUB;
    s->refused++;
    return STORE_NEWS_NONE;
}

static enum store_news take_reply(struct subscription *s, const redisReply *reply)
{
    s->heard_us = clock_monotonic_us();
    s->asked_us = 0;
    if (s->state == SUBSCRIPTION_STANDING && is_push(reply, "message", 3) && is_of_channel(s, reply))
        return take_message(s, reply->element[2]);
    if (s->state == SUBSCRIPTION_STANDING && is_push(reply, "pong", 2))
        return STORE_NEWS_NONE;
    if (s->state == SUBSCRIPTION_OPENING && s->replies_awaited > 0 && is_ok(reply)) {
        s->replies_awaited--;
        return STORE_NEWS_NONE;
    }
    if (s->state == SUBSCRIPTION_OPENING && s->replies_awaited == 0 && is_push(reply, "subscribe", 3) &&
        is_of_channel(s, reply)) {
        s->state = SUBSCRIPTION_STANDING;
        s->stands_since_us = s->heard_us;
        s->connections++;
        s->link.trouble[0] = '\0';
        return STORE_NEWS_RECONNECT;
    }
    fail_reply(s, reply);
    return STORE_NEWS_NONE;
}

/* --- the life of the connection --- */

/* A pause between half of it and all of it: instances that lost one Redis together do not
 * come back together. */
static void rest(struct subscription *s)
{
    uint64_t now = clock_monotonic_us();
    uint32_t random;
    ids_random(&random, sizeof(random));
    if (s->state == SUBSCRIPTION_STANDING && now - s->stands_since_us >= PROVEN_MS * US_PER_MS)
        s->pause_ms = PAUSE_MIN_MS;
    unsigned pause_ms = s->pause_ms / 2 + random % (s->pause_ms / 2 + 1);
    s->pause_ms = s->pause_ms * 2 < PAUSE_MAX_MS ? s->pause_ms * 2 : PAUSE_MAX_MS;
    s->state = SUBSCRIPTION_RESTING;
    s->until_us = now + pause_ms * US_PER_MS;
    redis_link_close(&s->link);
}

static void begin(struct subscription *s)
{
    s->state = SUBSCRIPTION_OPENING;
    s->until_us = clock_monotonic_us() + OPEN_MS * US_PER_MS;
    s->has_greeted = false;
    s->asked_us = 0;
    redis_link_open(&s->link);
}

static void greet(struct subscription *s)
{
    const struct span words[] = { span_cstr("SUBSCRIBE"), span_cstr(s->channel) };
    s->has_greeted = true;
    s->replies_awaited = redis_link_greet(&s->link);
    redis_link_send(&s->link, words, 2);
}

/* A peer that is gone without a word, or frozen, is known by its silence only. */
static void watch_clock(struct subscription *s)
{
    const struct span ping[] = { span_cstr("PING") };
    uint64_t now = clock_monotonic_us(); /* not before anything that was heard */

    if (s->link.state == REDIS_LINK_LOOKING_UP)
        s->until_us = now + OPEN_MS * US_PER_MS; /* one lookup at a time: its end is the resolver's matter */
    else if (s->state == SUBSCRIPTION_OPENING && now >= s->until_us)
        redis_link_fail(&s->link, "no subscription in %d ms", OPEN_MS);
    if (s->state != SUBSCRIPTION_STANDING)
        return;
    if (s->asked_us != 0 && now - s->asked_us >= ANSWER_MS * US_PER_MS) {
        redis_link_fail(&s->link, "no answer in %d ms", ANSWER_MS);
    } else if (s->asked_us == 0 && now - s->heard_us >= SILENT_MS * US_PER_MS) {
        s->asked_us = now;
        redis_link_send(&s->link, ping, 1);
    }
}

static enum store_news talk(struct subscription *s)
{
    enum store_news news = STORE_NEWS_NONE;
    redisReply *reply;

    if (redis_link_step(&s->link) == REDIS_LINK_UP && !s->has_greeted)
        greet(s);
    while ((reply = redis_link_receive(&s->link)) != NULL) {
        enum store_news heard = take_reply(s, reply);
        freeReplyObject(reply);
        if (heard > news)
            news = heard;
    }
    if (s->link.state != REDIS_LINK_DOWN)
        watch_clock(s);
    if (s->link.state == REDIS_LINK_DOWN) {
        /* Nobody waits for its end: what it may have said is read after the reconnection. */
        if (s->state == SUBSCRIPTION_STANDING && s->link.is_reply_too_long)
            s->refused++;
        rest(s);
    }
    return news;
}

/* --- when to be called --- */

static uint64_t next_us(const struct subscription *s)
{
    if (s->state == SUBSCRIPTION_STANDING)
        return s->asked_us != 0 ? s->asked_us + ANSWER_MS * US_PER_MS : s->heard_us + SILENT_MS * US_PER_MS;
    if (s->link.state == REDIS_LINK_LOOKING_UP)
        return clock_monotonic_us() + LOOKUP_TICK_MS * US_PER_MS;
    return s->until_us;
}

/* Setting the timer anew also takes back that it has gone off. */
static void set_watch(struct subscription *s)
{
    uint64_t next = next_us(s);
    const struct itimerspec at = { .it_value = { .tv_sec = (time_t)(next / US_PER_S),
                                                 .tv_nsec = (long)(next % US_PER_S * 1000) + 1 } };
    struct epoll_event wanted = { .data.fd = s->link.fd };

    timerfd_settime(s->timer, TFD_TIMER_ABSTIME, &at, NULL);
    if (s->link.fd < 0)
        return;
    /* poll's events have epoll's values. A socket that was closed has left the set by itself. */
    wanted.events = (uint32_t)redis_link_events(&s->link);
    if (epoll_ctl(s->epoll, EPOLL_CTL_MOD, s->link.fd, &wanted) != 0)
        epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->link.fd, &wanted);
}

static bool make_descriptors(struct subscription *s)
{
    struct epoll_event wanted = { .events = EPOLLIN };

    if (s->epoll >= 0)
        return true;
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (s->epoll >= 0 && s->timer >= 0 && epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->timer, &wanted) == 0)
        return true;
    close_descriptors(s);
    return false;
}

int subscription_fd(struct subscription *s)
{
    bool is_first = s->epoll < 0;
    if (!make_descriptors(s))
        return -1;
    if (is_first)
        set_watch(s); /* it goes off at once: the rest of a new one is over */
    return s->epoll;
}

enum store_news subscription_listen(struct subscription *s)
{
    enum store_news news = STORE_NEWS_NONE;

    if (s->state == SUBSCRIPTION_RESTING && clock_monotonic_us() >= s->until_us)
        begin(s);
    if (s->state != SUBSCRIPTION_RESTING)
        news = talk(s);
    if (make_descriptors(s))
        set_watch(s);
    return news;
}

/* --- what we say --- */

static bool await_reply_of(struct redis_link *link, int type, uint64_t until_us)
{
    redisReply *reply = redis_link_await_reply(link, until_us);
    bool is_of_type = reply != NULL && reply->type == type;
    freeReplyObject(reply);
    return is_of_type;
}

/* True: the reply to PUBLISH was heard, after those to what came before it. */
static bool await_published(struct redis_link *link, unsigned replies_before, uint64_t until_us)
{
    for (unsigned i = 0; i < replies_before; i++) {
        if (!await_reply_of(link, REDIS_REPLY_STATUS, until_us))
            return false;
    }
    return await_reply_of(link, REDIS_REPLY_INTEGER, until_us);
}

bool subscription_publish(struct subscription *s, const struct invalidation *news)
{
    uint64_t until_us = clock_monotonic_us() + SUBSCRIPTION_PUBLISH_MS * US_PER_MS;
    struct redis_link *link = &s->publishing;
    struct buf payload;
    bool is_out = false;

    if (s->keys == NULL)
        return false;
    buf_init(&payload, INVALIDATION_LIMIT_BYTES);
    if (invalidation_write(news, s->keys, &payload) == 0 && redis_link_await_up(link, until_us)) {
        const struct span words[] = { span_cstr("PUBLISH"), span_cstr(s->channel), buf_span(&payload) };
        unsigned replies_before = redis_link_greet(link);
        redis_link_send(link, words, 3);
        is_out = await_published(link, replies_before, until_us);
    }
    buf_free(&payload);
    redis_link_close(link);
    return is_out;
}

void subscription_health(const struct subscription *s, struct store_health *out)
{
    out->has_redis = true;
    out->is_redis_ok = s->state == SUBSCRIPTION_STANDING;
    out->refused_messages = s->refused;
    out->redis_connections = s->connections;
    snprintf(out->redis_trouble, sizeof(out->redis_trouble), "%s", out->is_redis_ok ? "" : s->link.trouble);
}

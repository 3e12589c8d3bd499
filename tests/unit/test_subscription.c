/*
 * The news through Redis, against one of our own that says what no real one would;
 * the real one is in the integration tests. Whatever a test waits for, it waits for at
 * the subscription's descriptor: what that does not tell, it does not see.
 */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/store/redis_link_internal.h"
#include "core/store/subscription_internal.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

#define SUBSCRIBE "*2\r\n$9\r\nSUBSCRIBE\r\n$19\r\nconfigkv:invalidate\r\n"
#define SUBSCRIBED "*3\r\n$9\r\nsubscribe\r\n$19\r\nconfigkv:invalidate\r\n:1\r\n"
#define PING "*1\r\n$4\r\nPING\r\n"
#define PONG "*2\r\n$4\r\npong\r\n$0\r\n\r\n"

static const char master[] = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

static struct arena *arena;
static struct envelope_keys keys;
static char dir[64];
static const char *url;
static struct subscription *s;
static int listener, peer; /* of the server; -1: none */

static void listen_at(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    strcpy(address.sun_path, path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(listen(listener, 16), 0);
}

static void set_up(void)
{
    arena = arena_new();
    strcpy(dir, "/tmp/test_subscription.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(envelope_keys_derive(&keys, span_cstr(master), span_of("", 0), NULL), 0);
    url = arena_printf(arena, "unix:%s/s", dir);
    s = NULL;
    peer = -1;
    listen_at(arena_printf(arena, "%s/s", dir));
}

static void tear_down(void)
{
    subscription_close(s);
    close(peer);
    close(listener);
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", dir)), 0);
    arena_free(arena);
}

static void open_at(const char *place, const char *prefix)
{
    struct error e = { 0 };
    ck_assert_msg(subscription_open(place, prefix, &keys, &s, &e) == 0, "%s", e.text);
}

static struct store_health health(void)
{
    struct store_health out = { .has_redis = false };
    subscription_health(s, &out);
    ck_assert(out.has_redis);
    return out;
}

/* Listens as a keeper does, until there is news or so much time has passed. */
static enum store_news listen_for(unsigned ms)
{
    uint64_t now, ends_us = clock_monotonic_us() + ms * US_PER_MS;
    while ((now = clock_monotonic_us()) < ends_us) {
        struct pollfd p = { .fd = subscription_fd(s), .events = POLLIN };
        ck_assert_int_ge(p.fd, 0);
        if (poll(&p, 1, (int)((ends_us - now) / US_PER_MS) + 1) == 0)
            continue;
        enum store_news news = subscription_listen(s);
        /* Under sanitizers, the trusted authorities alone take a third of a second to read. */
        ck_assert_msg(clock_monotonic_us() - now < (uint64_t)(ms + 1000) * US_PER_MS, "it waited");
        if (news != STORE_NEWS_NONE)
            return news;
    }
    return STORE_NEWS_NONE;
}

static void say(const char *text)
{
    ck_assert_int_eq(send(peer, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* What has come from the client by now, as far as `len` bytes of it. */
static const char *heard(size_t len)
{
    char *text = arena_calloc(arena, 1, len + 1);
    struct timeval patience = { .tv_sec = 2 };
    setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    ck_assert_int_ge(recv(peer, text, len, MSG_WAITALL), 0);
    return text;
}

static bool is_gone(void)
{
    char byte;
    return recv(peer, &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
}

static void accept_peer(void)
{
    close(peer);
    listen_for(20);
    peer = accept(listener, NULL, NULL);
    ck_assert_int_ge(peer, 0);
}

/* A subscription that stands. */
static void subscribe(void)
{
    open_at(url, NULL);
    accept_peer();
    listen_for(20);
    ck_assert_str_eq(heard(strlen(SUBSCRIBE)), SUBSCRIBE);
    ck_assert_int_eq(health().is_redis_ok, 0);
    say(SUBSCRIBED);
    ck_assert_int_eq(listen_for(1000), STORE_NEWS_RECONNECT);
}

static const char *payload(void)
{
    struct invalidation news = { "LLM_ROUTER_CONFIG", "v", 1764450000123 };
    struct buf out;
    buf_init(&out, INVALIDATION_LIMIT_BYTES);
    ck_assert_int_eq(invalidation_write(&news, &keys, &out), 0);
    const char *text = arena_span(arena, buf_span(&out));
    buf_free(&out);
    return text;
}

/* A payload that verifies, with blanks behind it. */
static const char *padded_to(size_t len)
{
    return arena_printf(arena, "%-*s", (int)len, payload());
}

static const char *message(const char *channel, const char *text)
{
    return arena_printf(arena, "*3\r\n$7\r\nmessage\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n", strlen(channel),
                        channel, strlen(text), text);
}

/* --- beginning -------------------------------------------------------------------- */

static const struct greeting {
    const char *place, *prefix; /* %s: the socket */
    const char *commands, *answers;
} greetings[] = {
    { "unix:%s", NULL, SUBSCRIBE, SUBSCRIBED },
    { "unix:%s", "", SUBSCRIBE, SUBSCRIBED },
    { "unix:%s", "a:", "*2\r\n$9\r\nSUBSCRIBE\r\n$21\r\na:configkv:invalidate\r\n",
      "*3\r\n$9\r\nsubscribe\r\n$21\r\na:configkv:invalidate\r\n:1\r\n" },
    { "unix://:secret@%s", NULL, "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n" SUBSCRIBE, "+OK\r\n" SUBSCRIBED },
    { "unix://me:secret@%s?db=3", NULL,
      "*3\r\n$4\r\nAUTH\r\n$2\r\nme\r\n$6\r\nsecret\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n" SUBSCRIBE,
      "+OK\r\n+OK\r\n" SUBSCRIBED },
};

START_TEST(a_subscription_begins_with_the_news_that_messages_may_be_lost)
{
    const struct greeting *row = &greetings[_i];
    const char *mark = strstr(row->place, "%s");

    open_at(arena_printf(arena, "%.*s%s/s%s", (int)(mark - row->place), row->place, dir, mark + 2),
            row->prefix);
    ck_assert_int_eq(health().is_redis_ok, 0);
    accept_peer();
    listen_for(20);
    ck_assert_str_eq(heard(strlen(row->commands)), row->commands);
    ck_assert_int_eq(listen_for(50), STORE_NEWS_NONE);
    say(row->answers);
    ck_assert_int_eq(listen_for(1000), STORE_NEWS_RECONNECT);
    ck_assert_int_eq(health().is_redis_ok, 1);
    ck_assert_uint_eq(health().redis_connections, 1);
    ck_assert_str_eq(health().redis_trouble, "");
    ck_assert_int_eq(listen_for(50), STORE_NEWS_NONE);
}
END_TEST

static int listen_on_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    close(listener);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, size), 0);
    ck_assert_int_eq(listen(listener, 16), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    return ntohs(address.sin_port);
}

static const char *const hosts[] = { "127.0.0.1", "localhost", "[::ffff:127.0.0.1]" };

/* A name may have addresses where nobody listens. */
START_TEST(a_server_is_reached_at_its_address_or_its_name)
{
    open_at(arena_printf(arena, "redis://%s:%d", hosts[_i], listen_on_port()), NULL);
    listen_for(200);
    accept_peer();
    listen_for(50);
    ck_assert_str_eq(heard(strlen(SUBSCRIBE)), SUBSCRIBE);
    say(SUBSCRIBED);
    ck_assert_int_eq(listen_for(1000), STORE_NEWS_RECONNECT);
}
END_TEST

START_TEST(a_server_without_tls_is_none_where_tls_is_wanted)
{
    open_at(arena_printf(arena, "rediss://:hunter2@127.0.0.1:%d", listen_on_port()), NULL);
    listen_for(50);
    accept_peer();
    listen_for(50);
    ck_assert_int_eq(heard(1)[0], 0x16); /* a handshake, and no password */
    say("-NOAUTH Authentication required.\r\n");
    ck_assert_int_eq(listen_for(50), STORE_NEWS_NONE);
    ck_assert_str_eq(health().redis_trouble, "it does not speak TLS as we do");
}
END_TEST

/* --- hearing ------------------------------------------------------------------------ */

START_TEST(a_message_that_verifies_is_news_in_whatever_pieces_it_comes)
{
    subscribe();
    const char *wire = message(INVALIDATION_CHANNEL, payload());
    say(wire);
    ck_assert_int_eq(listen_for(1000), STORE_NEWS_PUBSUB);
    for (const char *byte = wire; *byte != '\0'; byte++) {
        char one[2] = { *byte, '\0' };
        say(one);
        ck_assert_int_eq(listen_for(byte[1] == '\0' ? 1000 : 1),
                         byte[1] == '\0' ? STORE_NEWS_PUBSUB : STORE_NEWS_NONE);
    }
    say(arena_printf(arena, "%s%s", wire, wire));
    ck_assert_int_eq(listen_for(1000), STORE_NEWS_PUBSUB); /* two are one */
    ck_assert_int_eq(listen_for(20), STORE_NEWS_NONE);
    ck_assert_uint_eq(health().refused_messages, 0);
}
END_TEST

START_TEST(messages_that_do_not_verify_change_nothing_and_are_counted)
{
    char *forged = arena_strdup(arena, payload());
    char *other_version = arena_strdup(arena, payload());
    char *digit = strstr(forged, "\"hmac\":\"") + 8;
    *digit = *digit == '0' ? '1' : '0';
    *(strstr(other_version, "\"version\":\"v") + 11) = 'w';
    const char *const payloads[] = {
        "",
        "hello",
        "{}",
        "null",
        "{\"key\":\"LLM_ROUTER_CONFIG\"}",
        forged,
        other_version,
        padded_to(1999),
        padded_to(60000),
    };
    subscribe();
    for (size_t i = 0; i < COUNT(payloads); i++) {
        say(message(INVALIDATION_CHANNEL, payloads[i]));
        ck_assert_msg(listen_for(20) == STORE_NEWS_NONE, "%s", payloads[i]);
        ck_assert_msg(health().refused_messages == i + 1, "%s", payloads[i]);
    }
    ck_assert_int_eq(health().is_redis_ok, 1);
    say(message(INVALIDATION_CHANNEL, payload()));
    ck_assert_int_eq(listen_for(1000), STORE_NEWS_PUBSUB);
}
END_TEST

#define X10 "xxxxxxxxxx"
#define X100 X10 X10 X10 X10 X10 X10 X10 X10 X10 X10
#define X1000 X100 X100 X100 X100 X100 X100 X100 X100 X100 X100
#define MESSAGE "*3\r\n$7\r\nmessage\r\n$19\r\n" INVALIDATION_CHANNEL "\r\n"

static const struct endless {
    const char *what, *begin;
    const char *again; /* and again */
} endlesses[] = {
    { "a text", MESSAGE "$67108864\r\n", "x" },
    { "a text that is longer than memory", MESSAGE "$9223372036854775807\r\n", "x" },
    { "a line", "+", "x" },
    { "the length of a text", "$", "1" },
    { "elements, none of which is long", "*64\r\n", "$2000\r\n" X1000 X1000 "\r\n" },
};

/* Says it until it is not listened to: whether that was soon. A process of its own. */
static void say_without_end(const struct endless *row)
{
    enum { PIECE_BYTES = 32 * 1024, SOON_BYTES = 2 * 1024 * 1024 }; /* the kernel holds some */
    char *piece = arena_calloc(arena, 1, PIECE_BYTES + 1);
    size_t said = 0, len = strlen(row->again);
    for (size_t at = 0; at + len <= PIECE_BYTES; at += len)
        memcpy(piece + at, row->again, len);
    subscription_close(s); /* this process's copy, with which the connection would stay */
    say(row->begin);
    while (said < SOON_BYTES && send(peer, piece, strlen(piece), MSG_NOSIGNAL) > 0)
        said += strlen(piece);
    _exit(said < SOON_BYTES ? 0 : 1);
}

START_TEST(a_message_without_end_is_counted_and_its_connection_made_again)
{
    const struct endless *row = &endlesses[_i];
    int status;

    subscribe();
    pid_t writer = fork();
    if (writer == 0)
        say_without_end(row);
    while (health().is_redis_ok)
        ck_assert_msg(listen_for(20) == STORE_NEWS_NONE, "%s", row->what);
    ck_assert_int_eq(waitpid(writer, &status, 0), writer);
    ck_assert_msg(status == 0, "%s: all of it was taken", row->what);
    ck_assert_msg(health().refused_messages == 1, "%s: %llu refused, \"%s\"", row->what,
                  (unsigned long long)health().refused_messages, health().redis_trouble);
    listen_for(300);
    accept_peer();
    listen_for(20);
    say(SUBSCRIBED);
    ck_assert_int_eq(listen_for(1000), STORE_NEWS_RECONNECT);
    say(message(INVALIDATION_CHANNEL, payload()));
    ck_assert_int_eq(listen_for(1000), STORE_NEWS_PUBSUB);
}
END_TEST

START_TEST(without_a_master_key_all_that_is_heard_is_refused_and_nothing_is_said)
{
    struct invalidation news = { "A", "v", 1 };
    struct error e;

    ck_assert_int_eq(subscription_open(url, NULL, NULL, &s, &e), 0);
    accept_peer();
    listen_for(20);
    say(SUBSCRIBED);
    ck_assert_int_eq(listen_for(1000), STORE_NEWS_RECONNECT);
    say(message(INVALIDATION_CHANNEL, payload()));
    ck_assert_int_eq(listen_for(20), STORE_NEWS_NONE);
    ck_assert_uint_eq(health().refused_messages, 1);
    ck_assert(!subscription_publish(s, &news));
}
END_TEST

/* --- a server that is none ----------------------------------------------------------- */

static const struct hostile {
    const char *what;
    const char *before, *after; /* the subscription stands; NULL: nothing is said then */
    const char *trouble;
} hostiles[] = {
    { "it is no Redis", "HTTP/1.1 400 Bad Request\r\n\r\n", NULL, "does not speak as Redis does" },
    { "an array of too many", "*321\r\n", NULL, "does not speak as Redis does" },
    { "an array that is larger than memory", "*2147483647\r\n", NULL, "does not speak as Redis does" },
    { "one inside an array", "*2\r\n*2147483647\r\n", NULL, "does not speak as Redis does" },
    { "one of many inside an array", "*2\r\n*9\r\n", NULL, "does not speak as Redis does" },
    { "an array of negative length", "*-2\r\n", NULL, "does not speak as Redis does" },
    { "an empty array", "*0\r\n", NULL, "does not speak as Redis does" },
    { "no array", "*-1\r\n", NULL, "does not speak as Redis does" },
    { "no text", "$-1\r\n", NULL, "does not speak as Redis does" },
    { "an array of arrays", "*3\r\n*1\r\n+a\r\n*0\r\n:1\r\n", NULL, "does not speak as Redis does" },
    { "arrays without a bottom", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n", NULL,
      "does not speak as Redis does" },
    { "a subscription whose names are no texts", "*3\r\n+subscribe\r\n:1\r\n:1\r\n", NULL,
      "does not speak as Redis does" },
    { "a map, as of RESP3", "%1\r\n+a\r\n+b\r\n", NULL, "does not speak as Redis does" },
    { "a text of no length", "$x\r\n", NULL, "does not speak as Redis does" },
    { "an OK that nobody asked for", "+OK\r\n", NULL, "does not speak as Redis does" },
    { "a message before the subscription", "*3\r\n$7\r\nmessage\r\n$19\r\nconfigkv:invalidate\r\n$1\r\nx\r\n",
      NULL, "does not speak as Redis does" },
    { "a subscription to another channel", "*3\r\n$9\r\nsubscribe\r\n$1\r\nx\r\n:1\r\n", NULL,
      "does not speak as Redis does" },
    { "a password is missing", "-NOAUTH Authentication required: hunter2\r\n", NULL, "answers with NOAUTH" },
    { "it is starting", "-LOADING Redis is loading the dataset: hunter2\r\n", NULL, "answers with LOADING" },
    { "an error with words of its own", "-hunter2 is wrong\r\n", NULL, "answers with an error" },
    { "an error that begins like one", "-NOAUTHhunter2\r\n", NULL, "answers with an error" },
    { "a second subscription", SUBSCRIBED, SUBSCRIBED, "does not speak as Redis does" },
    { "a message of another channel", SUBSCRIBED, "*3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\nx\r\n",
      "does not speak as Redis does" },
    { "a message of no channel", SUBSCRIBED, "*3\r\n$7\r\nmessage\r\n$-1\r\n$1\r\nx\r\n",
      "does not speak as Redis does" },
    { "a message of two elements", SUBSCRIBED, "*2\r\n$7\r\nmessage\r\n$19\r\nconfigkv:invalidate\r\n",
      "does not speak as Redis does" },
    { "an end of the subscription", SUBSCRIBED,
      "*3\r\n$11\r\nunsubscribe\r\n$19\r\nconfigkv:invalidate\r\n:0\r\n", "does not speak as Redis does" },
    { "an error later on", SUBSCRIBED, "-ERR hunter2\r\n", "answers with ERR" },
};

START_TEST(what_no_redis_would_say_ends_the_connection_with_a_reason_of_our_own_words)
{
    const struct hostile *row = &hostiles[_i];

    open_at(url, NULL);
    accept_peer();
    listen_for(20);
    heard(strlen(SUBSCRIBE));
    say(row->before);
    listen_for(20);
    ck_assert_int_eq(health().is_redis_ok, row->after != NULL);
    if (row->after != NULL)
        say(row->after);
    ck_assert_msg(listen_for(20) == STORE_NEWS_NONE, "%s", row->what);
    ck_assert_msg(!health().is_redis_ok && is_gone(), "%s: %s", row->what, health().redis_trouble);
    ck_assert_msg(strstr(health().redis_trouble, row->trouble) != NULL, "%s: %s", row->what,
                  health().redis_trouble);
    ck_assert_ptr_null(strstr(health().redis_trouble, "hunter2"));
}
END_TEST

START_TEST(a_server_that_hangs_up_again_and_again_is_asked_ever_more_rarely)
{
    unsigned connections = 0;
    uint64_t ends_us = clock_monotonic_us() + 3 * US_PER_S;

    open_at(url, NULL);
    while (clock_monotonic_us() < ends_us) {
        struct pollfd p[] = { { .fd = subscription_fd(s), .events = POLLIN },
                              { .fd = listener, .events = POLLIN } };
        poll(p, 2, 100);
        subscription_listen(s);
        if ((p[1].revents & POLLIN) != 0) {
            close(accept(listener, NULL, NULL));
            connections++;
        }
    }
    /* Pauses of 50 to 100 ms, 100 to 200, 200 to 400, …: 1.5 to 3.1 s for the first five. */
    ck_assert_msg(connections >= 5 && connections <= 8, "%u in 3 s", connections);
    ck_assert(!health().is_redis_ok);
    ck_assert_ptr_nonnull(strstr(health().redis_trouble, "connection")); /* it closed it, or it broke */
}
END_TEST

START_TEST(a_server_that_comes_back_is_subscribed_to_again)
{
    subscribe();
    close(peer);
    peer = -1;
    ck_assert_int_eq(listen_for(20), STORE_NEWS_NONE);
    ck_assert(!health().is_redis_ok);
    listen_for(300);
    accept_peer();
    listen_for(20);
    say(SUBSCRIBED);
    ck_assert_int_eq(listen_for(1000), STORE_NEWS_RECONNECT);
    ck_assert_uint_eq(health().redis_connections, 2);
}
END_TEST

START_TEST(a_server_that_is_not_there_is_a_trouble_and_no_more)
{
    open_at(arena_printf(arena, "unix:%s/none", dir), NULL);
    ck_assert_int_eq(listen_for(300), STORE_NEWS_NONE);
    ck_assert(!health().is_redis_ok);
    ck_assert_str_eq(health().redis_trouble, "cannot connect: No such file or directory");
}
END_TEST

START_TEST(a_name_that_nobody_knows_is_looked_up_without_waiting)
{
    open_at("redis://no-such-host.invalid", NULL);
    uint64_t before = clock_monotonic_us();
    subscription_listen(s);
    subscription_listen(s);
    ck_assert_uint_lt(clock_monotonic_us() - before, 100 * US_PER_MS);
    for (int i = 0; i < 100 && health().redis_trouble[0] == '\0'; i++)
        listen_for(200);
    ck_assert_ptr_nonnull(strstr(health().redis_trouble, "its host is not found"));
}
END_TEST

/* --- a server that is silent -------------------------------------------------------- */

START_TEST(a_silent_server_is_asked_and_its_answer_is_enough)
{
    subscribe();
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(listen_for(2100), STORE_NEWS_NONE);
        ck_assert_str_eq(heard(strlen(PING)), PING);
        ck_assert(health().is_redis_ok);
        say(PONG);
        ck_assert_int_eq(listen_for(20), STORE_NEWS_NONE);
    }
    ck_assert_uint_eq(health().redis_connections, 1);
    ck_assert_uint_eq(health().refused_messages, 0);
}
END_TEST

START_TEST(a_server_that_does_not_answer_is_given_up)
{
    subscribe();
    ck_assert_int_eq(listen_for(4000), STORE_NEWS_NONE);
    ck_assert_str_eq(heard(strlen(PING)), PING);
    ck_assert(!health().is_redis_ok);
    ck_assert_ptr_nonnull(strstr(health().redis_trouble, "no answer in"));
}
END_TEST

START_TEST(a_server_that_accepts_and_says_nothing_is_given_up)
{
    open_at(url, NULL);
    ck_assert_int_eq(listen_for(2300), STORE_NEWS_NONE);
    ck_assert_ptr_nonnull(strstr(health().redis_trouble, "no subscription in"));
}
END_TEST

/* --- saying -------------------------------------------------------------------------- */

static const char *published(const char *text)
{
    return arena_printf(arena, "*3\r\n$7\r\nPUBLISH\r\n$19\r\n" INVALIDATION_CHANNEL "\r\n$%zu\r\n%s\r\n",
                        strlen(text), text);
}

static const struct publication {
    const char *what;
    bool has_password;
    const char *answer; /* NULL: none */
    bool is_out;
} publications[] = {
    { "nobody listens", false, ":0\r\n", true },
    { "many listen", false, ":12\r\n", true },
    { "with a password", true, "+OK\r\n:1\r\n", true },
    { "with a wrong password", true, "-WRONGPASS no\r\n-NOAUTH no\r\n", false },
    { "without the right to", false, "-NOPERM no\r\n", false },
    { "it is no Redis", false, "HTTP/1.1 400 Bad Request\r\n", false },
    { "it hangs up", false, "", false },
    { "it does not answer", false, NULL, false },
};

/* The server's part, in a process of its own: what it heard is checked there. */
static void answer_publication(const struct publication *row, const char *wanted)
{
    peer = accept(listener, NULL, NULL);
    if (peer < 0 || strcmp(heard(strlen(wanted)), wanted) != 0)
        _exit(1);
    if (row->answer != NULL && send(peer, row->answer, strlen(row->answer), MSG_NOSIGNAL) < 0)
        _exit(2);
    if (row->answer == NULL)
        (void)!recv(peer, &(char){ 0 }, 1, 0); /* until it is given up */
    _exit(0);
}

START_TEST(news_is_out_when_redis_has_said_so)
{
    const struct publication *row = &publications[_i];
    struct invalidation news = { "LLM_ROUTER_CONFIG", "v", 1764450000123 };
    int status;

    open_at(row->has_password ? arena_printf(arena, "unix://:secret@%s/s", dir) : url, NULL);
    const char *wanted = arena_printf(
        arena, "%s%s", row->has_password ? "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n" : "", published(payload()));
    pid_t server = fork();
    if (server == 0)
        answer_publication(row, wanted);
    uint64_t before = clock_monotonic_us();
    bool is_out = subscription_publish(s, &news);
    uint64_t took_ms = (clock_monotonic_us() - before) / US_PER_MS;
    ck_assert_msg(is_out == row->is_out, "%s", row->what);
    ck_assert_msg(took_ms < SUBSCRIPTION_PUBLISH_MS + 300, "%s: %llu ms", row->what,
                  (unsigned long long)took_ms);
    ck_assert_int_eq(waitpid(server, &status, 0), server);
    ck_assert_msg(status == 0, "%s: not what was to be said", row->what);
}
END_TEST

/* Until it takes no more. */
static void fill_socket(int fd)
{
    static const char bytes[4096];
    while (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) > 0)
        ;
    ck_assert_int_eq(errno, EAGAIN);
}

START_TEST(a_password_that_was_sent_stays_nowhere_in_the_connection)
{
    static const char wanted[] = "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n";
    struct redis_address address;
    struct redis_link link;
    struct error e;

    ck_assert_int_eq(redis_address_parse(arena_printf(arena, "unix://:secret@%s/s", dir), &address, &e), 0);
    redis_link_init(&link, &address);
    redis_link_open(&link);
    ck_assert_int_eq(redis_link_step(&link), REDIS_LINK_UP);
    peer = accept(listener, NULL, NULL);
    ck_assert_uint_eq(redis_link_greet(&link), 1);
    ck_assert_str_eq(heard(strlen(wanted)), wanted);
    ck_assert_ptr_null(memmem(&link, sizeof(link), "secret", 6));

    /* What cannot be sent is kept, and goes with the connection. */
    fill_socket(link.fd);
    redis_link_greet(&link);
    ck_assert_ptr_nonnull(memmem(&link, sizeof(link), "secret", 6));
    redis_link_close(&link);
    ck_assert_ptr_null(memmem(&link, sizeof(link), "secret", 6));
    redis_link_free(&link);
    redis_address_wipe(&address);
}
END_TEST

START_TEST(news_is_not_out_when_redis_is_not_there)
{
    struct invalidation news = { "A", "v", 1 };
    open_at(arena_printf(arena, "unix:%s/none", dir), NULL);
    ck_assert(!subscription_publish(s, &news));
}
END_TEST

START_TEST(what_was_closed_leaves_nothing_open)
{
    int before = dup(0);
    close(before);
    subscribe();
    subscription_close(s);
    s = NULL;
    ck_assert_int_eq(close(peer), 0);
    peer = -1;
    int after = dup(0);
    close(after);
    ck_assert_int_eq(before, after);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("subscription");
    TCase *tests = tcase_create("subscription");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 30);
    tcase_add_loop_test(tests, a_subscription_begins_with_the_news_that_messages_may_be_lost, 0,
                        COUNT(greetings));
    tcase_add_loop_test(tests, a_server_is_reached_at_its_address_or_its_name, 0, COUNT(hosts));
    tcase_add_test(tests, a_server_without_tls_is_none_where_tls_is_wanted);
    tcase_add_test(tests, a_message_that_verifies_is_news_in_whatever_pieces_it_comes);
    tcase_add_test(tests, messages_that_do_not_verify_change_nothing_and_are_counted);
    tcase_add_loop_test(tests, a_message_without_end_is_counted_and_its_connection_made_again, 0,
                        COUNT(endlesses));
    tcase_add_test(tests, without_a_master_key_all_that_is_heard_is_refused_and_nothing_is_said);
    tcase_add_loop_test(tests, what_no_redis_would_say_ends_the_connection_with_a_reason_of_our_own_words, 0,
                        COUNT(hostiles));
    tcase_add_test(tests, a_server_that_hangs_up_again_and_again_is_asked_ever_more_rarely);
    tcase_add_test(tests, a_server_that_comes_back_is_subscribed_to_again);
    tcase_add_test(tests, a_server_that_is_not_there_is_a_trouble_and_no_more);
    tcase_add_test(tests, a_name_that_nobody_knows_is_looked_up_without_waiting);
    tcase_add_test(tests, a_silent_server_is_asked_and_its_answer_is_enough);
    tcase_add_test(tests, a_server_that_does_not_answer_is_given_up);
    tcase_add_test(tests, a_server_that_accepts_and_says_nothing_is_given_up);
    tcase_add_loop_test(tests, news_is_out_when_redis_has_said_so, 0, COUNT(publications));
    tcase_add_test(tests, a_password_that_was_sent_stays_nowhere_in_the_connection);
    tcase_add_test(tests, news_is_not_out_when_redis_is_not_there);
    tcase_add_test(tests, what_was_closed_leaves_nothing_open);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/arena.h"
#include "fcgi/engine/conn.h"
#include "tests/unit/fcgi_client.h"

enum { STALL_MS = 300, LONG_STALL_MS = 20000 };

static struct conn conn;
static int front; /* the front end's side of the connection */
static struct buf wire;

static const char *const get[] = { "REQUEST_METHOD", "GET", NULL };

static void connect_front(int type)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, pair), 0);
    front = pair[0];
    conn.fd = pair[1]; /* where the next conn_begin finds it */
}

static void set_up(void)
{
    conn_init(&conn);
    buf_init(&wire, WIRE_BYTES);
    connect_front(SOCK_STREAM);
}

static void tear_down(void)
{
    if (front >= 0)
        close(front); /* first: a close of ours would wait for what it may still send */
    conn_close(&conn);
    conn_free(&conn);
    buf_free(&wire);
}

static void begin(uint32_t stall_ms)
{
    int r = conn_begin(&conn, conn.fd, stall_ms);
    ck_assert_msg(r == 0, "conn_begin: %s", err_name(r));
}

/* A request without a body, read to its end. */
static void begin_get(uint32_t stall_ms)
{
    wire_head(&wire, get);
    wire_end(&wire, FCGI_STDIN);
    wire_send(front, &wire);
    begin(stall_ms);
    ck_assert_int_eq(conn_read_end(&conn), 0);
}

/* A request whose body has begun and not ended. */
static void begin_half_body(uint32_t stall_ms)
{
    wire_head(&wire, get);
    wire_record(&wire, FCGI_STDIN, span_cstr("half"));
    wire_send(front, &wire);
    begin(stall_ms);
}

static void read_whole(char *body, size_t len)
{
    for (size_t have = 0; have < len;) {
        ssize_t n = conn_read(&conn, body + have, len - have);
        ck_assert_int_gt(n, 0);
        have += (size_t)n;
    }
}

static void leave(void)
{
    close(front);
    front = -1;
}

/* What an exchange watches: when the input has been read, readable means gone. */
static bool is_gone(void)
{
    struct pollfd p = { .fd = conn.fd, .events = POLLIN };
    return conn.is_input_read && poll(&p, 1, 0) > 0;
}

static void sleep_ms(unsigned ms)
{
    struct timespec t = { .tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000 };
    nanosleep(&t, NULL);
}

static unsigned elapsed_ms(uint64_t since_us)
{
    return (unsigned)((clock_monotonic_us() - since_us) / US_PER_MS);
}

/* The front end as a thread of its own, where both sides must move. */
struct player {
    pthread_t thread;
    struct buf wire;           /* sent by play_send */
    unsigned delay_ms;         /* before each step */
    struct client_reply reply; /* of play_read and play_send_and_read */
    int error;                 /* of a send */
    ssize_t n_read;            /* bytes, of play_read_some */
};

static void play(struct player *player, void *(*run)(void *))
{
    ck_assert_int_eq(pthread_create(&player->thread, NULL, run, player), 0);
}

static void play_out(struct player *player)
{
    ck_assert_int_eq(pthread_join(player->thread, NULL), 0);
}

static void *play_send(void *arg)
{
    struct player *player = arg;
    sleep_ms(player->delay_ms);
    player->error = wire_try_send(front, &player->wire);
    return NULL;
}

/* A byte every 20 ms, until nobody takes any. */
static void *play_drip(void *arg)
{
    struct player *player = arg;
    for (size_t i = 0; i < player->wire.len; i++) {
        if (send(front, player->wire.data + i, 1, MSG_NOSIGNAL) != 1)
            break;
        sleep_ms(20);
    }
    return NULL;
}

static void *play_read(void *arg)
{
    struct player *player = arg;
    client_read(front, &player->reply);
    return NULL;
}

static void *play_send_and_read(void *arg)
{
    play_send(arg);
    return play_read(arg);
}

static void *play_leave(void *arg)
{
    struct player *player = arg;
    sleep_ms(player->delay_ms);
    leave();
    return NULL;
}

static void *play_half_close(void *arg)
{
    struct player *player = arg;
    sleep_ms(player->delay_ms);
    shutdown(front, SHUT_WR);
    return NULL;
}

static char *pattern(size_t len)
{
    char *bytes = xmalloc(len + 1);
    for (size_t i = 0; i < len; i++)
        bytes[i] = (char)('a' + i % 23);
    return bytes;
}

/* --- parameters --------------------------------------------------------- */

static const struct param_row {
    size_t name_len, value_len, record_bytes;
} param_rows[] = {
    { 1, 0, 65535 },      { 1, 1, 65535 },     { 127, 127, 65535 },  { 128, 127, 65535 },
    { 127, 128, 65535 },  { 300, 300, 65535 }, { 12, 70000, 65535 }, { 5, 9000, 8192 },
    { 129, 20000, 1000 }, { 40, 300, 7 },      { 128, 128, 1 },
};

struct listed {
    const char *name, *value;
    unsigned times;
};

static void see_param(void *ctx, struct span name, struct span value)
{
    struct listed *wanted = ctx;
    if (span_is(name, wanted->name) && span_is(value, wanted->value))
        wanted->times++;
}

static bool is_listed(const char *name, const char *value)
{
    struct listed wanted = { name, value, 0 };
    conn_each_param(&conn, see_param, &wanted);
    return wanted.times == 1;
}

START_TEST(parameters_come_back_whatever_their_lengths_and_records)
{
    const struct param_row *row = &param_rows[_i];
    char *name = pattern(row->name_len), *value = pattern(row->value_len);
    struct buf params;

    name[row->name_len] = value[row->value_len] = '\0';
    buf_init(&params, WIRE_BYTES);
    params_add(&params, span_cstr("FIRST"), span_cstr("1"));
    params_add(&params, span_cstr(name), span_cstr(value));
    params_add(&params, span_cstr("LAST"), span_cstr(""));
    wire_begin(&wire);
    wire_stream(&wire, FCGI_PARAMS, buf_span(&params), row->record_bytes);
    wire_end(&wire, FCGI_PARAMS);
    wire_send(front, &wire);
    begin(STALL_MS);

    const char *found = conn_param(&conn, name);
    ck_assert_msg(found != NULL && strcmp(found, value) == 0,
                  "name of %zu, value of %zu bytes, records of %zu", row->name_len, row->value_len,
                  row->record_bytes);
    ck_assert_str_eq(conn_param(&conn, "FIRST"), "1");
    ck_assert_str_eq(conn_param(&conn, "LAST"), "");
    ck_assert_ptr_null(conn_param(&conn, "NONE"));
    ck_assert(is_listed("FIRST", "1"));
    ck_assert(is_listed("LAST", ""));
    buf_free(&params);
    free(name);
    free(value);
}
END_TEST

/* --- the body ----------------------------------------------------------- */

static const struct body_row {
    size_t body, record_bytes, read_bytes;
} body_rows[] = {
    { 0, 1, 100 },
    { 1, 1, 100 },
    { 1000, 1, 1000 },
    { 5000, 7, 4096 },
    { 100000, 8, 8192 },
    { 100000, 8192, 8192 },
    { 100000, 65535, 1 << 20 },
    { 100000, 65535, 1 },
    { 3000000, 65528, 65536 },
};

START_TEST(a_body_comes_back_byte_for_byte_whatever_its_records)
{
    const struct body_row *row = &body_rows[_i];
    char *body = pattern(row->body), *got = xmalloc(row->body + row->read_bytes);
    struct player player = { .delay_ms = 0 };
    size_t have = 0;
    ssize_t n;

    buf_init(&player.wire, WIRE_BYTES);
    wire_head(&player.wire, get);
    wire_stream(&player.wire, FCGI_STDIN, span_of(body, row->body), row->record_bytes);
    wire_end(&player.wire, FCGI_STDIN);
    play(&player, play_send);
    begin(STALL_MS);
    while ((n = conn_read(&conn, got + have, row->read_bytes)) > 0 && have <= row->body)
        have += (size_t)n;
    play_out(&player);
    ck_assert_int_eq(n, 0);
    ck_assert_msg(span_eq(span_of(got, have), span_of(body, row->body)), "%zu bytes of %zu in records of %zu",
                  have, row->body, row->record_bytes);
    ck_assert(conn.is_input_read);
    ck_assert(!is_gone());
    buf_free(&player.wire);
    free(body);
    free(got);
}
END_TEST

START_TEST(the_end_of_a_body_that_comes_late_is_waited_for_and_is_no_departure)
{
    struct player player = { .delay_ms = 200 };
    char body[4];

    begin_half_body(LONG_STALL_MS);
    buf_init(&player.wire, 100);
    wire_end(&player.wire, FCGI_STDIN);
    play(&player, play_send);
    ck_assert_int_eq(conn_read(&conn, body, sizeof(body)), 4);
    ck_assert(!conn.is_input_read);
    ck_assert(!is_gone());
    ck_assert_int_eq(conn_read_end(&conn), 0);
    play_out(&player);
    ck_assert(!is_gone());
    ck_assert_uint_ge(conn.blocked_us, 100 * US_PER_MS);
    buf_free(&player.wire);
}
END_TEST

START_TEST(a_body_longer_than_expected_is_told)
{
    char body[2];
    begin_half_body(STALL_MS);
    ck_assert_int_eq(conn_read(&conn, body, sizeof(body)), 2);
    ck_assert_int_eq(conn_read_end(&conn), ERR_FORMAT);
}
END_TEST

START_TEST(a_body_that_stops_coming_is_a_timeout)
{
    char body[100];
    begin_half_body(STALL_MS);
    uint64_t start = clock_monotonic_us();
    ck_assert_int_eq(conn_read(&conn, body, sizeof(body)), 4);
    ck_assert_int_eq(conn_read(&conn, body, sizeof(body)), ERR_TIMEOUT);
    ck_assert_uint_ge(elapsed_ms(start), STALL_MS - 10);
    ck_assert_uint_lt(elapsed_ms(start), 2000);
    ck_assert_uint_ge(conn.blocked_us, (STALL_MS - 10) * US_PER_MS);
}
END_TEST

START_TEST(a_front_end_that_leaves_inside_the_body_is_gone)
{
    char body[100];
    begin_half_body(LONG_STALL_MS);
    leave();
    ck_assert_int_eq(conn_read(&conn, body, sizeof(body)), 4);
    ck_assert_int_eq(conn_read(&conn, body, sizeof(body)), ERR_CLIENT_GONE);
}
END_TEST

START_TEST(an_abort_inside_the_body_is_a_departure)
{
    char body[100];
    begin_half_body(LONG_STALL_MS);
    wire_record(&wire, FCGI_ABORT_REQUEST, span_of(NULL, 0));
    wire_send(front, &wire);
    ck_assert_int_eq(conn_read(&conn, body, sizeof(body)), 4);
    ck_assert_int_eq(conn_read(&conn, body, sizeof(body)), ERR_CLIENT_GONE);
}
END_TEST

/* --- what is no request --------------------------------------------------- */

static const struct nonsense_row {
    const char *what;
    struct span bytes;
    int error;
} nonsense_rows[] = {
    { "nothing", { "", 0 }, ERR_CLIENT_GONE },
    { "HTTP", { "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27 }, ERR_FORMAT },
    { "zeros", { "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16 }, ERR_FORMAT },
    { "another version", { "\2\1\2\3\0\10\0\0\0\1\0\0\0\0\0\0", 16 }, ERR_FORMAT },
    { "half a header", { "\1\1\2", 3 }, ERR_CLIENT_GONE },
    { "half a begin", { "\1\1\2\3\0\10\0\0\0\1", 10 }, ERR_CLIENT_GONE },
    { "a begin of 4 bytes", { "\1\1\2\3\0\4\0\0\0\1\0\0", 12 }, ERR_FORMAT },
    { "no role", { "\1\1\2\3\0\10\0\0\0\0\0\0\0\0\0\0", 16 }, ERR_FORMAT },
    { "an unknown role", { "\1\1\2\3\0\10\0\0\0\11\0\0\0\0\0\0", 16 }, ERR_FORMAT },
    { "parameters before the begin", { "\1\4\2\3\0\4\0\0\1\1AB\1\4\2\3\0\0\0\0", 20 }, ERR_FORMAT },
    { "parameters without an end",
      { "\1\1\2\3\0\10\0\0\0\1\0\0\0\0\0\0\1\4\2\3\0\4\0\0\1\1AB", 28 },
      ERR_CLIENT_GONE },
    { "a name longer than its record",
      { "\1\1\2\3\0\10\0\0\0\1\0\0\0\0\0\0\1\4\2\3\0\4\0\0\7\1AB\1\4\2\3\0\0\0\0", 36 },
      ERR_FORMAT },
    { "a name of 2 GiB",
      { "\1\1\2\3\0\10\0\0\0\1\0\0\0\0\0\0\1\4\2\3\0\6\0\0\377\377\377\377\1A\1\4\2\3\0\0\0\0", 38 },
      ERR_FORMAT },
    { "a parameter with a NUL",
      { "\1\1\2\3\0\10\0\0\0\1\0\0\0\0\0\0\1\4\2\3\0\5\0\0\1\2A\0B\1\4\2\3\0\0\0\0", 37 },
      ERR_FORMAT },
};

START_TEST(nonsense_is_refused_and_the_next_connection_is_served)
{
    const struct nonsense_row *row = &nonsense_rows[_i];
    struct client_reply reply;
    uint64_t start = clock_monotonic_us();

    ck_assert_int_eq(send(front, row->bytes.ptr, row->bytes.len, 0), (ssize_t)row->bytes.len);
    shutdown(front, SHUT_WR);
    int r = conn_begin(&conn, conn.fd, LONG_STALL_MS);
    ck_assert_msg(r == row->error, "%s: %s", row->what, err_name(r));
    ck_assert_int_eq(conn.fd, -1);
    ck_assert_msg(elapsed_ms(start) < 1000, "%s: %u ms", row->what, elapsed_ms(start));
    client_read(front, &reply);
    ck_assert_msg(!reply.has_end && reply.out.len == 0, "%s was answered", row->what);
    client_reply_free(&reply);
    conn_close(&conn); /* has nothing to do */
    leave();

    connect_front(SOCK_STREAM);
    begin_get(STALL_MS);
    ck_assert_str_eq(conn_param(&conn, "REQUEST_METHOD"), "GET");
}
END_TEST

START_TEST(a_request_that_stops_half_way_costs_no_more_than_the_stall_bound)
{
    struct span half = { "\1\1\2\3\0\10\0\0\0\1", 10 };
    for (size_t len = 0; len <= half.len; len += half.len) {
        ck_assert_int_eq(send(front, half.ptr, len, 0), (ssize_t)len);
        uint64_t start = clock_monotonic_us();
        ck_assert_int_eq(conn_begin(&conn, conn.fd, STALL_MS), ERR_TIMEOUT);
        ck_assert_uint_ge(elapsed_ms(start), STALL_MS - 10);
        ck_assert_uint_lt(elapsed_ms(start), 2000);
        leave();
        connect_front(SOCK_STREAM);
    }
}
END_TEST

START_TEST(parameters_that_drip_cost_no_more_than_the_stall_bound)
{
    struct player player = { .delay_ms = 0 };
    buf_init(&player.wire, WIRE_BYTES);
    wire_head(&player.wire, get);
    play(&player, play_drip);
    uint64_t start = clock_monotonic_us();
    ck_assert_int_eq(conn_begin(&conn, conn.fd, STALL_MS), ERR_TIMEOUT);
    ck_assert_uint_ge(elapsed_ms(start), STALL_MS - 10);
    ck_assert_uint_lt(elapsed_ms(start), 2000);
    play_out(&player);
    buf_free(&player.wire);
}
END_TEST

START_TEST(parameters_that_are_never_waited_for_have_the_stall_bound_too)
{
    enum { LARGE_BYTES = 64 * 1024 };
    char *large = pattern(LARGE_BYTES);
    large[LARGE_BYTES] = '\0';
    wire_head(&wire, (const char *const[]){ "LARGE", large, NULL });
    wire_send(front, &wire);
    ck_assert_int_eq(conn_begin(&conn, conn.fd, 0), ERR_TIMEOUT);
    free(large);
}
END_TEST

START_TEST(parameters_beyond_the_bound_are_dropped_and_the_request_goes_on)
{
    struct player player = { .delay_ms = 0 };
    struct buf params;
    char *large = pattern(RECORD_PARAMS_MAX);

    large[RECORD_PARAMS_MAX] = '\0';
    buf_init(&params, WIRE_BYTES);
    buf_init(&player.wire, WIRE_BYTES);
    params_add(&params, span_cstr("FIRST"), span_cstr("1"));
    params_add(&params, span_cstr("LARGE"), span_cstr(large));
    params_add(&params, span_cstr("LAST"), span_cstr("1"));
    wire_begin(&player.wire);
    wire_stream(&player.wire, FCGI_PARAMS, buf_span(&params), 65535);
    wire_end(&player.wire, FCGI_PARAMS);
    wire_end(&player.wire, FCGI_STDIN);
    play(&player, play_send);
    begin(LONG_STALL_MS);
    play_out(&player);
    ck_assert(conn_is_params_cut(&conn));
    ck_assert_str_eq(conn_param(&conn, "FIRST"), "1");
    ck_assert_ptr_null(conn_param(&conn, "LARGE"));
    ck_assert_ptr_null(conn_param(&conn, "LAST"));
    ck_assert_int_eq(conn_read_end(&conn), 0);
    buf_free(&params);
    buf_free(&player.wire);
    free(large);
}
END_TEST

/* Whether a secret stands in the memory that outlives a request. */
START_TEST(nothing_of_a_request_stays_in_memory)
{
    static const char *const head[] = { "HTTP_AUTHORIZATION", "Bearer lr-canary", NULL };
    wire_head(&wire, head);
    wire_stream(&wire, FCGI_STDIN, span_cstr("{\"key\":\"canary\"}"), 65535);
    wire_end(&wire, FCGI_STDIN);
    wire_send(front, &wire);
    begin(STALL_MS);
    ck_assert_str_eq(conn_param(&conn, "HTTP_AUTHORIZATION"), "Bearer lr-canary");
    ck_assert_ptr_nonnull(memmem(conn.in, 16384, "canary", 6));
    shutdown(front, SHUT_WR);
    conn_close(&conn);
    ck_assert_ptr_null(memmem(conn.in, 16384, "canary", 6));
    ck_assert_ptr_null(memmem(conn.reader.params, conn.reader.params_room, "canary", 6));
}
END_TEST

/* What came first reached further into it than what came last. */
START_TEST(nothing_of_a_request_that_came_in_pieces_stays_in_memory)
{
    static const char *const head[] = { "A", "1", NULL };
    char filler[4000], out[100];

    memset(filler, 'x', sizeof(filler));
    wire_head(&wire, head);
    wire_record(&wire, FCGI_STDIN, span_of(filler, sizeof(filler)));
    wire_record(&wire, FCGI_STDIN, span_cstr("canary"));
    wire_send(front, &wire);
    begin(STALL_MS);
    while (conn_read(&conn, out, sizeof(out)) > 0 && conn.in_start < conn.in_end)
        ;
    buf_clear(&wire);
    wire_end(&wire, FCGI_STDIN);
    wire_send(front, &wire);
    ck_assert_int_eq(conn_read_end(&conn), 0);
    ck_assert_ptr_nonnull(memmem(conn.in, 16384, "canary", 6));
    conn_close(&conn);
    ck_assert_ptr_null(memmem(conn.in, 16384, "canary", 6));
    ck_assert_ptr_null(memmem(conn.in, 16384, "x", 1));
}
END_TEST

/* A process that stops us in 100 ms, lets us go on, and sends the rest. */
static pid_t be_stopped(void)
{
    pid_t self = getpid(), pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid != 0)
        return pid;
    sleep_ms(100);
    kill(self, SIGSTOP);
    sleep_ms(50);
    kill(self, SIGCONT);
    sleep_ms(50);
    _exit(wire_try_send(front, &wire));
}

START_TEST(a_process_that_is_stopped_and_goes_on_loses_no_request)
{
    char body[8] = "";
    pid_t pid;
    int status;

    if (_i == 0) {
        wire_head(&wire, get);
        wire_record(&wire, FCGI_STDIN, span_cstr("half"));
    } else {
        begin_half_body(LONG_STALL_MS);
    }
    wire_record(&wire, FCGI_STDIN, span_cstr("rest"));
    wire_end(&wire, FCGI_STDIN);
    pid = be_stopped();
    if (_i == 0)
        begin(LONG_STALL_MS);
    read_whole(body, sizeof(body));
    ck_assert(memcmp(body, "halfrest", sizeof(body)) == 0);
    ck_assert_int_eq(conn_read_end(&conn), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

/* --- departures ----------------------------------------------------------- */

static void depart_close(void)
{
    leave();
}

static void depart_half_close(void)
{
    shutdown(front, SHUT_WR);
}

static void depart_abort(void)
{
    wire_record(&wire, FCGI_ABORT_REQUEST, span_of(NULL, 0));
    wire_send(front, &wire);
}

static const struct departure_row {
    const char *how;
    void (*depart)(void);
} departure_rows[] = {
    { "close", depart_close },
    { "half close", depart_half_close },
    { "abort record", depart_abort },
};

START_TEST(a_departure_while_the_caller_waits_is_seen)
{
    const struct departure_row *row = &departure_rows[_i];
    begin_get(STALL_MS);
    ck_assert(!is_gone());
    row->depart();
    ck_assert_msg(is_gone(), "%s", row->how);
}
END_TEST

static void *(*const departures_while_writing[])(void *) = { play_leave, play_half_close };

START_TEST(a_departure_during_a_blocked_write_ends_it_at_once)
{
    struct player player = { .delay_ms = 100 };
    char *bytes = pattern(8 << 20);
    struct span piece = { bytes, 8 << 20 };

    begin_get(LONG_STALL_MS);
    uint64_t start = clock_monotonic_us();
    play(&player, departures_while_writing[_i]);
    ck_assert_int_eq(conn_write(&conn, &piece, 1, false), ERR_CLIENT_GONE);
    ck_assert_uint_lt(elapsed_ms(start), 2000);
    play_out(&player);
    ck_assert(is_gone());
    free(bytes);
}
END_TEST

START_TEST(a_write_to_one_who_left_fails_and_so_do_later_ones)
{
    struct span piece = span_cstr("x");
    begin_get(STALL_MS);
    leave();
    ck_assert_int_eq(conn_write(&conn, &piece, 1, false), ERR_CLIENT_GONE);
    ck_assert_int_eq(conn_write(&conn, &piece, 1, false), ERR_CLIENT_GONE);
    ck_assert_int_eq(conn_end(&conn), ERR_CLIENT_GONE);
    conn_abort(&conn); /* must not raise SIGPIPE */
}
END_TEST

/* --- the reply ------------------------------------------------------------ */

enum { RECORD_MAX = 65528 };

static const struct reply_row {
    size_t pieces[CONN_PIECES_MAX];
    size_t n;
    size_t records;
} reply_rows[] = {
    { { 0 }, 0, 0 },
    { { 0 }, 1, 0 },
    { { 1 }, 1, 1 },
    { { 7 }, 1, 1 },
    { { 8 }, 1, 1 },
    { { 9, 0, 0, 2 }, 4, 1 },
    { { 0, 0, 5, 0 }, 4, 1 },
    { { RECORD_MAX - 1 }, 1, 1 },
    { { RECORD_MAX }, 1, 1 },
    { { RECORD_MAX + 1 }, 1, 2 },
    { { 65535 }, 1, 2 },
    { { 65536 }, 1, 2 },
    { { RECORD_MAX - 4, 4 }, 2, 1 },
    { { RECORD_MAX - 4, 5 }, 2, 2 },
    { { 1, RECORD_MAX, 1, RECORD_MAX }, 4, 3 },
    { { 3, RECORD_MAX, 5, 100000 }, 4, 3 },
    { { 16 * RECORD_MAX }, 1, 16 },
    { { 16 * RECORD_MAX + 1 }, 1, 17 },
    { { 3000000, 17, 2000000, 1 }, 4, 77 },
};

START_TEST(a_reply_of_any_sizes_arrives_whole_in_full_records)
{
    const struct reply_row *row = &reply_rows[_i];
    struct span pieces[CONN_PIECES_MAX];
    struct player player = { .delay_ms = 0 };
    size_t total = 0;

    for (size_t i = 0; i < row->n; i++)
        total += row->pieces[i];
    char *bytes = pattern(total), *at = bytes;
    for (size_t i = 0; i < row->n; i++) {
        pieces[i] = span_of(at, row->pieces[i]);
        at += row->pieces[i];
    }
    begin_get(STALL_MS);
    play(&player, play_read);
    ck_assert_int_eq(conn_write(&conn, pieces, row->n, true), 0);
    conn_close(&conn);
    play_out(&player);
    client_expect_whole(&player.reply);
    ck_assert_msg(span_eq(buf_span(&player.reply.out), span_of(bytes, total)), "%zu bytes came of %zu",
                  player.reply.out.len, total);
    ck_assert_uint_eq(player.reply.records, row->records);
    ck_assert_uint_le(player.reply.largest, RECORD_MAX);
    ck_assert_uint_eq(player.reply.bytes.len % 8, 0);
    client_reply_free(&player.reply);
    free(bytes);
}
END_TEST

START_TEST(many_small_pieces_fill_one_record)
{
    enum { PIECE = 100 };
    struct span pieces[CONN_PIECES_MAX];
    struct player player = { .delay_ms = 0 };
    char *bytes = pattern(CONN_PIECES_MAX * PIECE);

    for (size_t i = 0; i < CONN_PIECES_MAX; i++)
        pieces[i] = span_of(bytes + i * PIECE, PIECE);
    begin_get(STALL_MS);
    play(&player, play_read);
    ck_assert_int_eq(conn_write(&conn, pieces, CONN_PIECES_MAX, true), 0);
    conn_close(&conn);
    play_out(&player);
    client_expect_whole(&player.reply);
    ck_assert(span_eq(buf_span(&player.reply.out), span_of(bytes, CONN_PIECES_MAX * PIECE)));
    ck_assert_uint_eq(player.reply.records, 1);
    client_reply_free(&player.reply);
    free(bytes);
}
END_TEST

START_TEST(pieces_of_later_writes_follow_each_other)
{
    struct client_reply reply;
    struct span one[] = { span_cstr("a"), span_cstr("bc") }, two = span_cstr("d"), none = { NULL, 0 };

    begin_get(STALL_MS);
    ck_assert_int_eq(conn_write(&conn, one, 2, false), 0);
    ck_assert_int_eq(conn_write(&conn, &none, 1, false), 0);
    ck_assert_int_eq(conn_write(&conn, &two, 1, false), 0);
    ck_assert_int_eq(conn_end(&conn), 0);
    ck_assert_int_eq(conn_end(&conn), 0); /* the second one is nothing */
    ck_assert_int_eq(conn_write(&conn, &two, 1, false), ERR_CLIENT_GONE);
    conn_close(&conn);
    client_read(front, &reply);
    client_expect_whole(&reply);
    ck_assert(span_is(buf_span(&reply.out), "abcd"));
    client_reply_free(&reply);
}
END_TEST

/* On this kind of socket one read gets exactly what one write sent. */
START_TEST(the_end_leaves_in_one_write_with_the_last_bytes)
{
    struct span pieces[] = { span_cstr("Status: 200 OK\r\n\r\n"), span_cstr("body") };
    char got[200];

    tear_down();
    set_up();
    leave();
    close(conn.fd);
    connect_front(SOCK_SEQPACKET);
    begin_get(STALL_MS);
    ck_assert_int_eq(conn_write(&conn, pieces, 2, true), 0);
    ssize_t n = recv(front, got, sizeof(got), 0);
    ck_assert_int_eq(n, 8 + 24 + 8 + 16); /* 22 bytes and 2 of padding; STDOUT's end; END_REQUEST */
    ck_assert_int_eq(got[n - 16 + 1], FCGI_END_REQUEST);
}
END_TEST

START_TEST(a_kept_connection_is_closed_all_the_same)
{
    struct client_reply reply;

    wire_begin_role(&wire, FCGI_RESPONDER, FCGI_KEEP_CONN);
    wire_end(&wire, FCGI_PARAMS);
    wire_end(&wire, FCGI_STDIN);
    wire_send(front, &wire);
    begin(STALL_MS);
    ck_assert_int_eq(conn_read_end(&conn), 0);
    ck_assert_int_eq(conn_end(&conn), 0);
    conn_close(&conn);
    client_read(front, &reply); /* would wait for ever */
    ck_assert_uint_eq(reply.after_end, RECORD_HEADER_BYTES + 8);
    reply.after_end = 0;
    client_expect_whole(&reply);
    client_reply_free(&reply);
}
END_TEST

START_TEST(one_connection_after_another_is_served_by_the_same_structure)
{
    for (int i = 0; i < 50; i++) {
        struct client_reply reply;
        char number[16];
        snprintf(number, sizeof(number), "%d", i);
        const char *const pairs[] = { "NUMBER", number, NULL };
        struct span piece = span_cstr(number);

        wire_head(&wire, pairs);
        wire_end(&wire, FCGI_STDIN);
        wire_send(front, &wire);
        begin(STALL_MS);
        ck_assert_str_eq(conn_param(&conn, "NUMBER"), number);
        ck_assert(!conn.is_ended && !conn.is_broken && conn.blocked_us == 0);
        ck_assert_int_eq(conn_read_end(&conn), 0);
        ck_assert_int_eq(conn_write(&conn, &piece, 1, true), 0);
        conn_close(&conn);
        client_read(front, &reply);
        client_expect_whole(&reply);
        ck_assert(span_is(buf_span(&reply.out), number));
        client_reply_free(&reply);
        leave();
        connect_front(SOCK_STREAM);
    }
}
END_TEST

/* --- a front end that is slow, or does not read ---------------------------- */

START_TEST(a_front_end_that_does_not_read_is_a_timeout)
{
    char *bytes = pattern(8 << 20);
    struct span piece = { bytes, 8 << 20 };

    begin_get(STALL_MS);
    uint64_t start = clock_monotonic_us();
    ck_assert_int_eq(conn_write(&conn, &piece, 1, false), ERR_TIMEOUT);
    ck_assert_uint_ge(elapsed_ms(start), STALL_MS - 10);
    ck_assert_uint_lt(elapsed_ms(start), 2000);
    ck_assert_uint_ge(conn.blocked_us, (STALL_MS - 50) * US_PER_MS);
    ck_assert(conn.is_broken);
    start = clock_monotonic_us();
    ck_assert_int_eq(conn_end(&conn), ERR_CLIENT_GONE);
    conn_close(&conn);
    ck_assert_uint_lt(elapsed_ms(start), 200); /* nobody waits a second time for it */
    free(bytes);
}
END_TEST

/* Reads some bytes in each half of the stall bound. */
static void *play_read_slowly(void *arg)
{
    struct player *player = arg;
    char piece[128 * 1024];
    ssize_t n;
    do {
        sleep_ms(player->delay_ms);
        n = recv(front, piece, sizeof(piece), 0);
    } while (n > 0);
    return NULL;
}

START_TEST(progress_renews_the_stall_bound)
{
    struct player player = { .delay_ms = 200 };
    enum { BYTES = 1000000 };
    char *bytes = pattern(BYTES);
    struct span piece = { bytes, BYTES };

    begin_get(600);
    uint64_t start = clock_monotonic_us();
    play(&player, play_read_slowly);
    ck_assert_int_eq(conn_write(&conn, &piece, 1, true), 0);
    ck_assert_uint_gt(elapsed_ms(start), 700); /* longer than the bound in all */
    conn_close(&conn);
    play_out(&player);
    free(bytes);
}
END_TEST

START_TEST(the_stall_bound_can_be_set_anew)
{
    char *bytes = pattern(8 << 20);
    struct span piece = { bytes, 8 << 20 };

    begin_get(LONG_STALL_MS);
    conn_set_stall(&conn, 200);
    uint64_t start = clock_monotonic_us();
    ck_assert_int_eq(conn_write(&conn, &piece, 1, false), ERR_TIMEOUT);
    ck_assert_uint_lt(elapsed_ms(start), 2000);
    free(bytes);
}
END_TEST

static void count_beat(void *ctx)
{
    ++*(unsigned *)ctx;
}

START_TEST(what_is_to_be_kept_alive_is_as_long_as_a_write_waits_and_puts_off_no_bound)
{
    enum { BEAT_MS = STALL_MS / 8 };
    char *bytes = pattern(8 << 20);
    struct span piece = { bytes, 8 << 20 };
    unsigned beats = 0;

    begin_get(STALL_MS);
    conn_set_beat(&conn, BEAT_MS, count_beat, &beats);
    uint64_t start = clock_monotonic_us();
    ck_assert_int_eq(conn_write(&conn, &piece, 1, false), ERR_TIMEOUT);
    uint64_t took_ms = elapsed_ms(start);
    ck_assert_uint_ge(took_ms, STALL_MS - 10);
    ck_assert_uint_lt(took_ms, 2000);
    ck_assert_msg(beats >= 2 && beats <= 64 + took_ms / BEAT_MS, "%u beats in %lu ms", beats,
                  (unsigned long)took_ms);
    free(bytes);
}
END_TEST

START_TEST(no_beat_is_left_when_it_was_taken_away_or_in_the_next_request)
{
    char *bytes = pattern(8 << 20);
    struct span piece = { bytes, 8 << 20 };
    unsigned beats = 0;

    begin_get(STALL_MS);
    conn_set_beat(&conn, 1, count_beat, &beats);
    conn_set_beat(&conn, 0, NULL, NULL);
    ck_assert_int_eq(conn_write(&conn, &piece, 1, false), ERR_TIMEOUT);
    conn_set_beat(&conn, 1, count_beat, &beats);
    conn_close(&conn);
    connect_front(SOCK_STREAM);
    begin_get(STALL_MS);
    ck_assert_int_eq(conn_write(&conn, &piece, 1, false), ERR_TIMEOUT);
    ck_assert_uint_eq(beats, 0);
    free(bytes);
}
END_TEST

/* --- abort, and close ------------------------------------------------------- */

START_TEST(an_aborted_reply_is_broken_for_the_front_end)
{
    struct client_reply reply;
    struct span piece = span_cstr("Status: 200 OK\r\n\r\nhalf");

    begin_get(STALL_MS);
    ck_assert_int_eq(conn_write(&conn, &piece, 1, false), 0);
    conn_abort(&conn);
    conn_end(&conn); /* comes too late */
    conn_close(&conn);
    client_read(front, &reply);
    ck_assert(span_eq(buf_span(&reply.out), piece)); /* what had been written arrives */
    ck_assert(reply.is_invalid);
    ck_assert(!reply.has_end);
    client_reply_free(&reply);
}
END_TEST

/* Once, whatever there is. */
static void *play_read_some(void *arg)
{
    struct player *player = arg;
    sleep_ms(player->delay_ms);
    char bytes[1024];
    player->n_read = recv(front, bytes, sizeof(bytes), 0);
    return NULL;
}

START_TEST(an_abort_waits_until_what_was_sent_has_been_read)
{
    struct span piece = span_cstr("Status: 200 OK\r\n\r\nhalf");
    struct player player = { .delay_ms = 20 };
    unsigned char next = 0;

    begin_get(STALL_MS);
    ck_assert_int_eq(conn_write(&conn, &piece, 1, false), 0);
    play(&player, play_read_some);
    conn_abort(&conn);
    play_out(&player);
    ck_assert_int_eq(player.n_read, (ssize_t)(RECORD_HEADER_BYTES + (piece.len + 7) / 8 * 8));
    ck_assert_int_eq(recv(front, &next, 1, 0), 1);
    ck_assert_uint_eq(next, 0xff);
    conn_close(&conn);
}
END_TEST

START_TEST(an_abort_does_not_wait_for_long)
{
    struct span piece = span_cstr("Status: 200 OK\r\n\r\nhalf");

    begin_get(STALL_MS);
    ck_assert_int_eq(conn_write(&conn, &piece, 1, false), 0);
    uint64_t start = clock_monotonic_us();
    conn_abort(&conn);
    ck_assert_uint_ge(elapsed_ms(start), 100);
    ck_assert_uint_lt(elapsed_ms(start), 2000);
    conn_close(&conn);
}
END_TEST

START_TEST(a_front_end_that_is_still_sending_gets_the_early_reply)
{
    struct span piece = span_cstr("Status: 413 Content Too Large\r\n\r\n");
    struct player player = { .delay_ms = 0 };
    enum { BODY_BYTES = 4 << 20 };
    char *body = pattern(BODY_BYTES);

    buf_init(&player.wire, WIRE_BYTES);
    wire_head(&player.wire, get);
    wire_stream(&player.wire, FCGI_STDIN, span_of(body, BODY_BYTES), 65528);
    wire_end(&player.wire, FCGI_STDIN);
    play(&player, play_send_and_read); /* reads only when it has sent everything */
    begin(STALL_MS);
    ck_assert_int_eq(conn_write(&conn, &piece, 1, true), 0);
    conn_close(&conn);
    play_out(&player);
    ck_assert_msg(player.error == 0, "the front end could not send: %s", strerror(player.error));
    client_expect_whole(&player.reply);
    ck_assert(span_eq(buf_span(&player.reply.out), piece));
    client_reply_free(&player.reply);
    buf_free(&player.wire);
    free(body);
}
END_TEST

static void *play_send_for_ever(void *arg)
{
    static const char zeros[4096];
    (void)arg;
    while (send(front, zeros, sizeof(zeros), MSG_NOSIGNAL) > 0)
        sleep_ms(5);
    return NULL;
}

START_TEST(one_that_never_stops_sending_is_left_after_a_second)
{
    struct player player = { .delay_ms = 0 };

    begin_half_body(STALL_MS);
    ck_assert_int_eq(conn_end(&conn), 0);
    play(&player, play_send_for_ever);
    uint64_t start = clock_monotonic_us();
    conn_close(&conn);
    ck_assert_uint_ge(elapsed_ms(start), 800);
    ck_assert_uint_lt(elapsed_ms(start), 2500);
    play_out(&player);
}
END_TEST

START_TEST(close_does_not_wait_when_the_request_was_read)
{
    begin_get(STALL_MS);
    ck_assert_int_eq(conn_end(&conn), 0);
    uint64_t start = clock_monotonic_us();
    conn_close(&conn);
    conn_close(&conn); /* the second one is nothing */
    ck_assert_uint_lt(elapsed_ms(start), 200);
}
END_TEST

START_TEST(close_does_not_wait_for_one_that_did_not_read)
{
    static const char bytes[1 << 20];
    const struct span piece = { bytes, sizeof(bytes) };

    begin_half_body(STALL_MS);
    ck_assert_int_eq(conn_write(&conn, &piece, 1, false), ERR_TIMEOUT);
    conn_abort(&conn); /* changes nothing */
    uint64_t start = clock_monotonic_us();
    conn_close(&conn);
    ck_assert_uint_lt(elapsed_ms(start), 200);
}
END_TEST

enum {
    N_PARAMS = sizeof(param_rows) / sizeof(param_rows[0]),
    N_BODIES = sizeof(body_rows) / sizeof(body_rows[0]),
    N_NONSENSE = sizeof(nonsense_rows) / sizeof(nonsense_rows[0]),
    N_DEPARTURES = sizeof(departure_rows) / sizeof(departure_rows[0]),
    N_REPLIES = sizeof(reply_rows) / sizeof(reply_rows[0]),
};

int main(void)
{
    Suite *suite = suite_create("conn");
    TCase *reading = tcase_create("reading"), *writing = tcase_create("writing");

    tcase_add_checked_fixture(reading, set_up, tear_down);
    tcase_set_timeout(reading, 15);
    tcase_add_loop_test(reading, parameters_come_back_whatever_their_lengths_and_records, 0, N_PARAMS);
    tcase_add_loop_test(reading, a_body_comes_back_byte_for_byte_whatever_its_records, 0, N_BODIES);
    tcase_add_test(reading, the_end_of_a_body_that_comes_late_is_waited_for_and_is_no_departure);
    tcase_add_test(reading, a_body_longer_than_expected_is_told);
    tcase_add_test(reading, a_body_that_stops_coming_is_a_timeout);
    tcase_add_test(reading, a_front_end_that_leaves_inside_the_body_is_gone);
    tcase_add_test(reading, an_abort_inside_the_body_is_a_departure);
    tcase_add_loop_test(reading, nonsense_is_refused_and_the_next_connection_is_served, 0, N_NONSENSE);
    tcase_add_test(reading, a_request_that_stops_half_way_costs_no_more_than_the_stall_bound);
    tcase_add_test(reading, parameters_that_drip_cost_no_more_than_the_stall_bound);
    tcase_add_test(reading, parameters_that_are_never_waited_for_have_the_stall_bound_too);
    tcase_add_test(reading, parameters_beyond_the_bound_are_dropped_and_the_request_goes_on);
    tcase_add_test(reading, nothing_of_a_request_stays_in_memory);
    tcase_add_test(reading, nothing_of_a_request_that_came_in_pieces_stays_in_memory);
    tcase_add_loop_test(reading, a_process_that_is_stopped_and_goes_on_loses_no_request, 0, 2);
    tcase_add_loop_test(reading, a_departure_while_the_caller_waits_is_seen, 0, N_DEPARTURES);
    suite_add_tcase(suite, reading);

    tcase_add_checked_fixture(writing, set_up, tear_down);
    tcase_set_timeout(writing, 15);
    tcase_add_loop_test(writing, a_departure_during_a_blocked_write_ends_it_at_once, 0, 2);
    tcase_add_test(writing, a_write_to_one_who_left_fails_and_so_do_later_ones);
    tcase_add_loop_test(writing, a_reply_of_any_sizes_arrives_whole_in_full_records, 0, N_REPLIES);
    tcase_add_test(writing, many_small_pieces_fill_one_record);
    tcase_add_test(writing, pieces_of_later_writes_follow_each_other);
    tcase_add_test(writing, the_end_leaves_in_one_write_with_the_last_bytes);
    tcase_add_test(writing, a_kept_connection_is_closed_all_the_same);
    tcase_add_test(writing, one_connection_after_another_is_served_by_the_same_structure);
    tcase_add_test(writing, a_front_end_that_does_not_read_is_a_timeout);
    tcase_add_test(writing, progress_renews_the_stall_bound);
    tcase_add_test(writing, the_stall_bound_can_be_set_anew);
    tcase_add_test(writing, what_is_to_be_kept_alive_is_as_long_as_a_write_waits_and_puts_off_no_bound);
    tcase_add_test(writing, no_beat_is_left_when_it_was_taken_away_or_in_the_next_request);
    tcase_add_test(writing, an_aborted_reply_is_broken_for_the_front_end);
    tcase_add_test(writing, an_abort_waits_until_what_was_sent_has_been_read);
    tcase_add_test(writing, an_abort_does_not_wait_for_long);
    tcase_add_test(writing, a_front_end_that_is_still_sending_gets_the_early_reply);
    tcase_add_test(writing, one_that_never_stops_sending_is_left_after_a_second);
    tcase_add_test(writing, close_does_not_wait_when_the_request_was_read);
    tcase_add_test(writing, close_does_not_wait_for_one_that_did_not_read);
    suite_add_tcase(suite, writing);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}

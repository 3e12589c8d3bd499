/* TLS sessions in shared memory: who gets one, what is bounded, and what a death in the middle leaves. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/upstream/session_cache_internal.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { LATER_S = 3600 };

static struct session_cache *cache;

static void set_up(void)
{
    struct error e = { 0 };
    ck_assert_msg(session_cache_open(&cache, &e) == 0, "%s", e.text);
}

static void tear_down(void)
{
    session_cache_close(cache);
}

static struct session_peer peer(unsigned n)
{
    struct session_peer peer = { { 'p' } };
    memcpy(peer.digest + 1, &n, sizeof(n));
    return peer;
}

static uint64_t in_s(unsigned s)
{
    return clock_monotonic_us() + s * US_PER_S;
}

static bool put(unsigned whose, const char *session, unsigned lapses_in_s)
{
    struct session_peer whom = peer(whose);
    return session_cache_put(cache, &whom, span_cstr(session), in_s(lapses_in_s));
}

/* The text that was put, "" if there is none. */
static const char *take(unsigned whose)
{
    static uint8_t out[SESSION_BYTES_MAX + 1];
    struct session_peer whom = peer(whose);
    out[session_cache_take(cache, &whom, out)] = '\0';
    return (const char *)out;
}

/* In whose bytes, and not in those of free places only, which nobody would look at. */
static bool is_in_memory(const char *text)
{
    return memmem(cache, sizeof(*cache), text, strlen(text)) != NULL;
}

static size_t count_kept(void)
{
    size_t n = 0;
    for (size_t i = 0; i < SESSIONS_MAX; i++)
        n += cache->entries[i].len > 0;
    return n;
}

START_TEST(a_session_is_given_to_the_first_who_asks_for_its_peer_and_overwritten)
{
    ck_assert(put(1, "of the first", LATER_S));
    ck_assert(put(2, "of the second", LATER_S));
    ck_assert(is_in_memory("of the first"));
    ck_assert_str_eq(take(3), "");
    ck_assert_str_eq(take(1), "of the first");
    ck_assert(!is_in_memory("of the first"));
    ck_assert_str_eq(take(1), "");
    ck_assert_str_eq(take(2), "of the second");
    ck_assert_uint_eq(count_kept(), 0);
}
END_TEST

START_TEST(of_a_peers_sessions_the_one_that_lapses_last_is_given_first)
{
    ck_assert(put(1, "an hour", 3600));
    ck_assert(put(1, "two hours", 7200));
    ck_assert(put(1, "a minute", 60));
    ck_assert_str_eq(take(1), "two hours");
    ck_assert_str_eq(take(1), "an hour");
    ck_assert_str_eq(take(1), "a minute");
}
END_TEST

static const struct {
    size_t len;
    bool has_lapsed, is_kept;
} sizes[] = {
    { 0, false, false },
    { 1, false, true },
    { SESSION_BYTES_MAX, false, true },
    { SESSION_BYTES_MAX + 1, false, false },
    { 100, true, false },
};

START_TEST(what_is_empty_too_large_or_of_the_past_is_not_kept)
{
    static const char bytes[SESSION_BYTES_MAX + 1] = { 1 };
    uint8_t out[SESSION_BYTES_MAX];
    struct session_peer whom = peer(1);
    bool is_kept = session_cache_put(cache, &whom, span_of(bytes, sizes[_i].len),
                                     sizes[_i].has_lapsed ? clock_monotonic_us() : in_s(LATER_S));
    size_t len = session_cache_take(cache, &whom, out);

    ck_assert_msg(is_kept == sizes[_i].is_kept && len == (is_kept ? sizes[_i].len : 0),
                  "%zu bytes: %skept, %zu taken", sizes[_i].len, is_kept ? "" : "not ", len);
    ck_assert(len == 0 || memcmp(out, bytes, len) == 0);
}
END_TEST

START_TEST(a_session_that_has_lapsed_is_given_to_nobody_and_overwritten_by_whoever_comes_next)
{
    struct session_peer whom = peer(1);
    uint64_t until_us = clock_monotonic_us() + 50 * US_PER_MS;

    ck_assert(session_cache_put(cache, &whom, span_cstr("short-lived"), until_us));
    ck_assert(put(2, "long-lived", LATER_S));
    while (clock_monotonic_us() <= until_us)
        usleep(1000);
    ck_assert_str_eq(take(3), "");
    ck_assert(!is_in_memory("short-lived"));
    ck_assert_str_eq(take(1), "");
    ck_assert_str_eq(take(2), "long-lived");
}
END_TEST

START_TEST(a_full_cache_gives_up_what_lapses_first)
{
    char text[32];

    for (unsigned i = 0; i < 2 * SESSIONS_MAX; i++) {
        snprintf(text, sizeof(text), "session %u.", i);
        /* The later half lapses later. */
        ck_assert(put(i, text, LATER_S + i));
    }
    ck_assert_uint_eq(count_kept(), SESSIONS_MAX);
    for (unsigned i = 0; i < 2 * SESSIONS_MAX; i++) {
        snprintf(text, sizeof(text), "session %u.", i);
        bool is_kept = i >= SESSIONS_MAX;
        ck_assert_msg(is_in_memory(text) == is_kept, "%s is%s in memory", text, is_kept ? " not" : "");
        ck_assert_str_eq(take(i), is_kept ? text : "");
    }
}
END_TEST

START_TEST(a_peer_that_is_lavish_displaces_its_own_only)
{
    ck_assert(put(1, "of another", 60));
    for (unsigned i = 0; i < 3 * SESSIONS_MAX; i++)
        ck_assert(put(2, "one of many", LATER_S + i));
    ck_assert_uint_eq(count_kept(), 1 + SESSIONS_PER_PEER);
    ck_assert_str_eq(take(1), "of another");
}
END_TEST

static pid_t child(void (*run)(void))
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        run();
        _exit(0);
    }
    return pid;
}

static int end_of(pid_t pid)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return status;
}

static void put_from_a_child(void)
{
    put(1, "of a child", LATER_S);
}

START_TEST(what_one_process_keeps_another_takes)
{
    ck_assert_int_eq(end_of(child(put_from_a_child)), 0);
    ck_assert_str_eq(take(1), "of a child");
}
END_TEST

static void stop_at_work(void)
{
    shared_mutex_lock(&cache->mutex);
    raise(SIGSTOP);
}

START_TEST(one_that_is_stopped_at_work_keeps_nobody_waiting_and_dies_with_what_was_kept)
{
    int status;

    ck_assert(put(1, "before", LATER_S));
    pid_t stopped = child(stop_at_work);
    ck_assert_int_eq(waitpid(stopped, &status, WUNTRACED), stopped);
    ck_assert(WIFSTOPPED(status));
    ck_assert(!put(1, "meanwhile", LATER_S));
    ck_assert_str_eq(take(1), "");
    kill(stopped, SIGKILL);
    end_of(stopped);
    ck_assert_str_eq(take(1), "");
    ck_assert(!is_in_memory("before"));
    ck_assert(put(1, "after", LATER_S));
    ck_assert_str_eq(take(1), "after");
}
END_TEST

/* The worst place to die at: the entry says that it is whole. */
static void die_while_writing(void)
{
    shared_mutex_lock(&cache->mutex);
    cache->entries[7] = (struct session_entry){ .len = 20, .until_us = in_s(LATER_S), .peer = peer(1) };
    memcpy(cache->bytes[7], "half a secr", 11);
    raise(SIGKILL);
}

START_TEST(what_was_half_written_by_one_that_died_is_given_to_nobody_and_overwritten)
{
    ck_assert(WIFSIGNALED(end_of(child(die_while_writing))));
    ck_assert(is_in_memory("half a secr"));
    ck_assert_str_eq(take(1), "");
    ck_assert(!is_in_memory("half a secr"));
    ck_assert_uint_eq(count_kept(), 0);
}
END_TEST

/* A session that says of itself whether it is whole, and whose. */
static size_t make_session(unsigned whose, unsigned seed, char out[SESSION_BYTES_MAX])
{
    size_t len = 64 + seed * 7919U % (SESSION_BYTES_MAX - 64);
    memcpy(out, &whose, sizeof(whose));
    memcpy(out + sizeof(whose), &seed, sizeof(seed));
    memset(out + 2 * sizeof(seed), (int)(seed % 251), len - 2 * sizeof(seed));
    return len;
}

static bool is_whole(unsigned whose, const char *bytes, size_t len)
{
    char expected[SESSION_BYTES_MAX];
    unsigned seed;

    memcpy(&seed, bytes + sizeof(whose), sizeof(seed));
    return len == make_session(whose, seed, expected) && memcmp(bytes, expected, len) == 0;
}

enum { PEERS = 5, WORKERS = 2, TAKEN = 60, KILLS = 12 };

static _Noreturn void work_until_killed(unsigned seed)
{
    char bytes[SESSION_BYTES_MAX];
    uint8_t out[SESSION_BYTES_MAX];

    for (;; seed++) {
        struct session_peer whom = peer(seed % PEERS);
        size_t len = make_session(seed % PEERS, seed, bytes);
        session_cache_put(cache, &whom, span_of(bytes, len), in_s(LATER_S));
        whom = peer((seed + 1) % PEERS);
        len = seed % 3 == 0 ? session_cache_take(cache, &whom, out) : 0;
        if (len > 0 && !is_whole((seed + 1) % PEERS, (const char *)out, len))
            _exit(1);
    }
}

static pid_t start_worker(unsigned seed)
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        work_until_killed(seed);
    }
    return pid;
}

START_TEST(however_many_are_killed_at_work_what_is_given_is_whole_and_its_peers)
{
    pid_t workers[WORKERS];
    unsigned taken = 0, kills = 0;
    uint8_t out[SESSION_BYTES_MAX];

    for (unsigned i = 0; i < WORKERS; i++)
        workers[i] = start_worker(i * 1000003);
    for (unsigned round = 0; taken < TAKEN || kills < KILLS; round++) {
        struct session_peer whom = peer(round % PEERS);
        size_t len = session_cache_take(cache, &whom, out);
        if (len > 0) {
            ck_assert_msg(is_whole(round % PEERS, (const char *)out, len), "after %u kills", kills);
            taken++;
        }
        if (kills < KILLS && taken >= kills * (TAKEN / KILLS)) {
            pid_t *victim = &workers[kills++ % WORKERS];
            usleep((useconds_t)(kills * 7919 % 1000));
            kill(*victim, SIGKILL);
            ck_assert_msg(WIFSIGNALED(end_of(*victim)), "a worker found a torn session");
            *victim = start_worker(kills * 15485863);
        }
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        kill(workers[i], SIGKILL);
        ck_assert_msg(WIFSIGNALED(end_of(workers[i])), "a worker found a torn session");
    }
    take(0); /* whoever held it is dead: this one empties it, or nobody held it */
    ck_assert(put(PEERS, "afterwards", LATER_S));
    ck_assert_str_eq(take(PEERS), "afterwards");
}
END_TEST

/* smaps: the mapping's line, and further down its VmFlags. */
START_TEST(it_is_in_no_file_and_in_no_core_dump)
{
    char line[4096], place[32];
    bool is_ours = false, is_found = false;
    FILE *maps = fopen("/proc/self/smaps", "r");

    ck_assert_ptr_nonnull(maps);
    snprintf(place, sizeof(place), "%lx-", (unsigned long)(uintptr_t)cache);
    while (fgets(line, sizeof(line), maps) != NULL) {
        if (strncmp(line, place, strlen(place)) == 0) {
            is_ours = true;
            ck_assert_msg(strstr(line, "/dev/zero") != NULL, "%s", line);
        } else if (is_ours && strncmp(line, "VmFlags:", 8) == 0) {
            ck_assert_msg(strstr(line, " dd ") != NULL, "%s", line);
            is_found = true;
            break;
        }
    }
    fclose(maps);
    ck_assert(is_found);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("session_cache");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_set_timeout(all, 60);
    tcase_add_test(all, a_session_is_given_to_the_first_who_asks_for_its_peer_and_overwritten);
    tcase_add_test(all, of_a_peers_sessions_the_one_that_lapses_last_is_given_first);
    tcase_add_loop_test(all, what_is_empty_too_large_or_of_the_past_is_not_kept, 0, (int)COUNT(sizes));
    tcase_add_test(all, a_session_that_has_lapsed_is_given_to_nobody_and_overwritten_by_whoever_comes_next);
    tcase_add_test(all, a_full_cache_gives_up_what_lapses_first);
    tcase_add_test(all, a_peer_that_is_lavish_displaces_its_own_only);
    tcase_add_test(all, what_one_process_keeps_another_takes);
    tcase_add_test(all, one_that_is_stopped_at_work_keeps_nobody_waiting_and_dies_with_what_was_kept);
    tcase_add_test(all, what_was_half_written_by_one_that_died_is_given_to_nobody_and_overwritten);
    tcase_add_test(all, however_many_are_killed_at_work_what_is_given_is_whole_and_its_peers);
    tcase_add_test(all, it_is_in_no_file_and_in_no_core_dump);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}

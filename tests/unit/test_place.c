/* The addresses of the store, as they come in the environment. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/store/place.h"

static struct arena *arena;
static char dir[64];
static struct error e;

static void set_up(void)
{
    arena = arena_new();
    strcpy(dir, "/tmp/test_place.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void tear_down(void)
{
    ck_assert_int_eq(system(arena_printf(arena, "rm -rf %s", dir)), 0);
    arena_free(arena);
}

static const char *file_of(const char *name, const char *text)
{
    const char *path = arena_printf(arena, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    return path;
}

static const char *const names[] = { "DATABASE_URL", "DATABASE_URL_FILE", "REDIS_URL", "REDIS_URL_FILE" };

static const struct row {
    const char *database, *database_file, *redis, *redis_file; /* contents of files; NULL: not set */
    int result;
    const char *said;
} rows[] = {
    { NULL, NULL, NULL, NULL, 0, NULL },
    { "", NULL, "", NULL, 0, NULL },
    { "host=pg", NULL, "unix:/red", NULL, 0, NULL },
    { NULL, "  host=pg\n", NULL, "unix:/red\n", 0, NULL },
    { "host=pg\n", NULL, NULL, "unix:/red", 0, NULL },
    { "host=pg", NULL, NULL, NULL, ERR_FORMAT, "DATABASE_URL is set without REDIS_URL" },
    { NULL, NULL, NULL, "unix:/red", ERR_FORMAT, "REDIS_URL is set without DATABASE_URL" },
    { "host=pg", NULL, "", NULL, ERR_FORMAT, "DATABASE_URL is set without REDIS_URL" },
    { "host=pg", "host=pg", "unix:/red", NULL, ERR_FORMAT,
      "DATABASE_URL and DATABASE_URL_FILE are both set" },
    { "host=pg", NULL, "unix:/red", "unix:/red", ERR_FORMAT, "REDIS_URL and REDIS_URL_FILE are both set" },
    { "s3cret", NULL, "unix:/red", NULL, ERR_FORMAT, "not one of libpq's" },
    { "host=pg", NULL, "s3cret", NULL, ERR_FORMAT, "address of Redis" },
    { NULL, "\n", "unix:/red", NULL, ERR_FORMAT, "the file of DATABASE_URL_FILE is empty" },
};

static void set_environment(const struct row *row)
{
    const char *const values[] = {
        row->database,
        row->database_file == NULL ? NULL : file_of("database", row->database_file),
        row->redis,
        row->redis_file == NULL ? NULL : file_of("redis", row->redis_file),
    };
    for (size_t i = 0; i < 4; i++) {
        if (values[i] == NULL)
            unsetenv(names[i]);
        else
            setenv(names[i], values[i], 1);
    }
}

START_TEST(both_addresses_or_none)
{
    const struct row *row = &rows[_i];
    struct store_place place = { .state_dir = "kept" };
    set_environment(row);
    int r = store_place_from_environment(&place, &e);
    ck_assert_msg(r == row->result, "%d: %s", r, e.text);
    ck_assert_ptr_null(strstr(e.text, "s3cret"));
    if (row->said != NULL)
        ck_assert_msg(strstr(e.text, row->said) != NULL, "\"%s\" is not in: %s", row->said, e.text);
    bool is_set = r == 0 && ((row->database != NULL && row->database[0] != 0) || row->database_file != NULL);
    if (is_set) {
        ck_assert_str_eq(place.database_url, "host=pg");
        ck_assert_str_eq(place.redis_url, "unix:/red");
    } else {
        ck_assert_ptr_null(place.database_url);
        ck_assert_ptr_null(place.redis_url);
    }
    ck_assert_str_eq(place.state_dir, "kept");
    for (size_t i = 0; i < 4; i++)
        ck_assert_msg(getenv(names[i]) == NULL, "%s is still set", names[i]);
    store_place_wipe(&place);
    ck_assert_ptr_null(place.database_url);
}
END_TEST

START_TEST(a_password_beside_the_address_is_refused_and_does_not_stay)
{
    struct store_place place = { .state_dir = NULL };
    setenv("DATABASE_URL", "host=pg", 1);
    setenv("REDIS_URL", "unix:/red", 1);
    setenv("PGPASSWORD", "s3cret", 1);
    ck_assert_int_eq(store_place_from_environment(&place, &e), ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(e.text, "PGPASSWORD is set"));
    ck_assert_ptr_null(strstr(e.text, "s3cret"));
    ck_assert_ptr_null(place.database_url);
    ck_assert_ptr_null(getenv("PGPASSWORD"));
    setenv("PGPASSWORD", "s3cret", 1); /* without a database it is nobody's, and still goes */
    ck_assert_int_eq(store_place_from_environment(&place, &e), 0);
    ck_assert_ptr_null(getenv("PGPASSWORD"));
}
END_TEST

START_TEST(a_file_that_cannot_be_read_is_named)
{
    struct store_place place = { .state_dir = NULL };
    unsetenv("DATABASE_URL");
    setenv("DATABASE_URL_FILE", "/nonexistent/database.url", 1);
    setenv("REDIS_URL", "unix:/red", 1);
    unsetenv("REDIS_URL_FILE");
    ck_assert_int_eq(store_place_from_environment(&place, &e), ERR_SYSTEM);
    ck_assert_ptr_nonnull(strstr(e.text, "/nonexistent/database.url"));
    ck_assert_ptr_null(getenv("REDIS_URL"));
}
END_TEST

START_TEST(an_address_is_overwritten_where_it_stood)
{
    struct store_place place = { .state_dir = NULL };
    setenv("DATABASE_URL", "postgresql://u:s3cret@h/d", 1);
    setenv("REDIS_URL", "redis://:s3cret@h", 1);
    unsetenv("DATABASE_URL_FILE");
    unsetenv("REDIS_URL_FILE");
    const char *database = getenv("DATABASE_URL"), *redis = getenv("REDIS_URL");
    ck_assert_int_eq(store_place_from_environment(&place, &e), 0);
    ck_assert_str_eq(database, "");
    ck_assert_str_eq(redis, "");
    store_place_wipe(&place);
}
END_TEST

START_TEST(the_prefix_goes_with_redis)
{
    struct store_place place = { .state_dir = NULL };
    setenv("LLM_ROUTER_REDIS_PREFIX", "one:", 1);
    set_environment(&rows[0]);
    ck_assert_int_eq(store_place_from_environment(&place, &e), 0);
    ck_assert_ptr_null(place.redis_prefix);
    set_environment(&rows[2]);
    ck_assert_int_eq(store_place_from_environment(&place, &e), 0);
    ck_assert_str_eq(place.redis_prefix, "one:");
    store_place_wipe(&place);
}
END_TEST

START_TEST(a_prefix_has_at_most_128_bytes)
{
    struct store_place place = { .state_dir = NULL };
    char prefix[REDIS_PREFIX_MAX_BYTES + 2] = { 0 };
    memset(prefix, 'p', REDIS_PREFIX_MAX_BYTES);
    setenv("LLM_ROUTER_REDIS_PREFIX", prefix, 1);
    set_environment(&rows[2]);
    ck_assert_int_eq(store_place_from_environment(&place, &e), 0);
    store_place_wipe(&place);
    prefix[REDIS_PREFIX_MAX_BYTES] = 'p';
    setenv("LLM_ROUTER_REDIS_PREFIX", prefix, 1);
    set_environment(&rows[2]);
    ck_assert_int_eq(store_place_from_environment(&place, &e), ERR_FORMAT);
    ck_assert_ptr_nonnull(strstr(e.text, "more than 128 bytes"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("place");
    TCase *tests = tcase_create("place");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, both_addresses_or_none, 0, (int)(sizeof(rows) / sizeof(rows[0])));
    tcase_add_test(tests, a_file_that_cannot_be_read_is_named);
    tcase_add_test(tests, a_password_beside_the_address_is_refused_and_does_not_stay);
    tcase_add_test(tests, an_address_is_overwritten_where_it_stood);
    tcase_add_test(tests, the_prefix_goes_with_redis);
    tcase_add_test(tests, a_prefix_has_at_most_128_bytes);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

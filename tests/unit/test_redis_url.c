#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/store/redis_url_internal.h"

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

#define P8 "pppppppp"
#define P104 P8 P8 P8 P8 P8 P8 P8 P8 P8 P8 P8 P8 P8

static const struct {
    const char *url;
    struct redis_address address;
} good[] = {
    { "redis://h", { .host = "h", .port = "6379" } },
    { "redis://h/", { .host = "h", .port = "6379" } },
    { "redis://h:7000", { .host = "h", .port = "7000" } },
    { "redis://10.0.0.1:1/15", { .host = "10.0.0.1", .port = "1", .database = "15" } },
    { "redis://[::1]", { .host = "::1", .port = "6379" } },
    { "redis://[::1]:65535/0", { .host = "::1", .port = "65535", .database = "0" } },
    { "rediss://cache.example:6380/2",
      { .host = "cache.example", .port = "6380", .database = "2", .is_tls = true } },
    { "redis://:secret@h", { .host = "h", .port = "6379", .password = "secret" } },
    { "redis://user:secret@h:1/3",
      { .host = "h", .port = "1", .database = "3", .user = "user", .password = "secret" } },
    { "redis://us%65r:p%40s%2Fs%3a@h",
      { .host = "h", .port = "6379", .user = "user", .password = "p@s/s:" } },
    { "redis://user:a@b/c:d@h/1",
      { .host = "h", .port = "6379", .database = "1", .user = "user", .password = "a@b/c:d" } },
    { "unix:/run/redis.sock", { .path = "/run/redis.sock" } },
    { "unix:///run/redis.sock", { .path = "/run/redis.sock" } },
    { "unix:/run/redis.sock?db=7", { .path = "/run/redis.sock", .database = "7" } },
    { "unix:/run/a@b.sock", { .path = "/run/a@b.sock" } },
    { "unix://user:secret@/run/r.sock?db=0",
      { .path = "/run/r.sock", .user = "user", .password = "secret", .database = "0" } },
    { "unix://:secret@/run/a@b", { .path = "/run/a@b", .password = "secret" } },
    { "unix:/" P104 "pp", { .path = "/" P104 "pp" } },
};

static const char *shown(const char *text)
{
    return text == NULL ? "(none)" : text;
}

START_TEST(an_address_is_taken_apart)
{
    const struct redis_address *wanted = &good[_i].address;
    struct redis_address found;
    struct error e = { 0 };

    int r = redis_address_parse(good[_i].url, &found, &e);
    ck_assert_msg(r == 0, "%s: %s", good[_i].url, e.text);
    ck_assert_str_eq(shown(found.path), shown(wanted->path));
    ck_assert_str_eq(shown(found.host), shown(wanted->host));
    ck_assert_str_eq(shown(found.port), shown(wanted->port));
    ck_assert_str_eq(shown(found.user), shown(wanted->user));
    ck_assert_str_eq(shown(found.password), shown(wanted->password));
    ck_assert_str_eq(shown(found.database), shown(wanted->database));
    ck_assert_int_eq(found.is_tls, wanted->is_tls);
    redis_address_wipe(&found);
    ck_assert_ptr_null(found.text);
}
END_TEST

static const char *const bad[] = {
    "",
    "hunter2",
    "redis",
    "redis:",
    "redis:hunter2",
    "redis://",
    "redis:///1",
    "redis://:6379",
    "http://hunter2",
    "REDIS://hunter2",
    "redis://hunter2:0",
    "redis://hunter2:65536",
    "redis://hunter2:",
    "redis://hunter2:port",
    "redis://hunter2:-1",
    "redis://hunter2/db",
    "redis://hunter2/1/2",
    "redis://hunter2/999999",
    "redis://hunter2?db=1",
    "redis://hunter2#1",
    "redis://[::1",
    "redis://[::1]x",
    "redis://[]",
    "redis://hunter2@h",
    "redis://hunter2:@h",
    "redis://user:hunter2%@h",
    "redis://user:hunter2%0@h",
    "redis://user:hunter2%zz@h",
    "redis://user:hunter2%00@h",
    "redis://user:hunter2@",
    "unix:",
    "unix:hunter2",
    "unix:/",
    "unix://hunter2/run/r.sock",
    "unix://hunter2@/run/r.sock",
    "unix:/run/hunter2?database=1",
    "unix:/run/hunter2?db=",
    "unix:/run/hunter2?db=x",
    "unix:/" P104 "ppp",
};

START_TEST(what_cannot_be_an_address_is_refused_without_being_shown)
{
    struct redis_address found = { .host = "untouched" };
    struct error e = { 0 };

    int r = redis_address_parse(bad[_i], &found, &e);
    ck_assert_msg(r == ERR_FORMAT, "%s: %s", bad[_i], err_name(r));
    ck_assert_str_eq(found.host, "untouched");
    ck_assert_msg(strstr(e.text, "hunter2") == NULL && strstr(e.text, "redis://[user") != NULL, "%s", e.text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("redis_url");
    TCase *tests = tcase_create("address");
    tcase_add_loop_test(tests, an_address_is_taken_apart, 0, COUNT(good));
    tcase_add_loop_test(tests, what_cannot_be_an_address_is_refused_without_being_shown, 0, COUNT(bad));
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

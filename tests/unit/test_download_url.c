#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapters/download_url.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define OSS "dashscope-result-bj.oss-cn-beijing.aliyuncs.com"
#define ENDPOINT "http://127.0.0.1:8081/api/v1/x"

static const struct {
    const char *url, *get; /* NULL: it may not be gone to */
} URLS[] = {
    { "http://" OSS "/a/b.wav?Expires=1&Signature=x%2By%3D",
      "https://" OSS "/a/b.wav?Expires=1&Signature=x%2By%3D" },
    { "https://" OSS "/b.wav", "https://" OSS "/b.wav" },
    { "HTTPS://X.ALIYUNCS.COM/b", "https://X.ALIYUNCS.COM/b" },
    { "http://" OSS ":80/b", "https://" OSS "/b" },
    { "https://" OSS ":443/b", "https://" OSS "/b" },
    { "https://" OSS "?x=1", "https://" OSS "?x=1" },
    /* The endpoint's own place. */
    { "http://127.0.0.1:8081/clips/1.wav", "http://127.0.0.1:8081/clips/1.wav" },
    { "http://127.0.0.1:8082/clips/1.wav", NULL },
    { "https://127.0.0.1:8081/clips/1.wav", NULL },
    { "http://127.0.0.1/clips/1.wav", NULL },
    /* Somebody else's. */
    { "https://aliyuncs.com.evil.example/b", NULL },
    { "https://evilaliyuncs.com/b", NULL },
    { "https://evil.example/aliyuncs.com", NULL },
    { "https://" OSS "@evil.example/b", NULL },
    { "https://evil.example#." OSS "/b", NULL },
    { "https://evil.example\\." OSS "/b", NULL },
    { "https://evil.example?." OSS, NULL },
    { "https://" OSS ":8443/b", NULL },
    { "http://" OSS ":22/b", NULL },
    { "https://" OSS ":/b", NULL },
    { "https://" OSS ":443:1/b", NULL },
    { "https://169.254.169.254/latest/meta-data", NULL },
    { "https://[::1]/b", NULL },
    { "https://.aliyuncs.com/b", NULL },
    { "https://evil%2e.aliyuncs.com/b", NULL },
    { "file:///etc/passwd", NULL },
    { "ftp://" OSS "/b", NULL },
    { "//" OSS "/b", NULL },
    { "https:/" OSS "/b", NULL },
    { "https://" OSS "/b c", NULL },
    { "https://" OSS "/b\r\nX: y", NULL },
    { "https://" OSS "/\xC3\xA9", NULL },
    { "https://", NULL },
    { "", NULL },
};

START_TEST(only_the_providers_own_hosts_are_gone_to)
{
    struct arena *arena = arena_new();
    const char *found = download_url_check(span_cstr(URLS[_i].url), "aliyuncs.com", ENDPOINT, arena);
    bool is_same = URLS[_i].get == NULL ? found == NULL : found != NULL && strcmp(found, URLS[_i].get) == 0;
    ck_assert_msg(is_same, "%s: expected %s, found %s", URLS[_i].url,
                  URLS[_i].get == NULL ? "none" : URLS[_i].get, found == NULL ? "none" : found);
    arena_free(arena);
}
END_TEST

START_TEST(a_url_has_a_bound_and_no_nul)
{
    struct arena *arena = arena_new();
    char url[DOWNLOAD_URL_BYTES + 1];
    int len = snprintf(url, sizeof(url), "https://%s/", OSS);
    memset(url + len, 'a', sizeof(url) - (size_t)len);
    ck_assert_ptr_nonnull(
        download_url_check(span_of(url, DOWNLOAD_URL_BYTES), "aliyuncs.com", ENDPOINT, arena));
    ck_assert_ptr_null(download_url_check(span_of(url, sizeof(url)), "aliyuncs.com", ENDPOINT, arena));
    url[len] = '\0';
    ck_assert_ptr_null(download_url_check(span_of(url, (size_t)len + 2), "aliyuncs.com", ENDPOINT, arena));
    arena_free(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("download_url");
    TCase *tests = tcase_create("check");
    tcase_add_loop_test(tests, only_the_providers_own_hosts_are_gone_to, 0, (int)COUNT(URLS));
    tcase_add_test(tests, a_url_has_a_bound_and_no_nul);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

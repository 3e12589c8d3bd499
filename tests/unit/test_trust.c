/* Who is trusted with a request over https, and who is not. */
#include <check.h>
#include <openssl/x509.h>

#include "core/upstream/trust.h"
#include "tests/unit/posting.h"
#include "tests/unit/server_process.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static char ours_file[] = "/tmp/test_trust.ours.XXXXXX", theirs_file[] = "/tmp/test_trust.theirs.XXXXXX",
            text_file[] = "/tmp/test_trust.text.XXXXXX";
static struct authority ours, theirs;

static void make_file(char *path)
{
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
}

static void set_up(void)
{
    make_file(ours_file);
    make_file(theirs_file);
    make_file(text_file);
    authority_make(&ours, "ours");
    authority_make(&theirs, "theirs");
    authority_append(&ours, ours_file);
    authority_append(&theirs, theirs_file);
}

static size_t count_certificates(X509_STORE *store)
{
    return (size_t)sk_X509_OBJECT_num(X509_STORE_get0_objects(store));
}

static void tear_down(void)
{
    unlink(ours_file);
    unlink(theirs_file);
    unlink(text_file);
    authority_free(&ours);
    authority_free(&theirs);
}

static unsigned reports;

static void count_report(const struct error *e)
{
    ck_assert_str_ne(e->text, "");
    reports++;
}

static struct trust in_file(const char *path)
{
    return (struct trust){ .path = path, .report = count_report };
}

enum { NOBODY, OURS, THEIRS };

static const struct {
    const char *what;
    int trusted;
    const char *names;
    long ends_in_s;
    const char *host;
    enum exchange_end end;
    const char *detail; /* is in it */
} servers[] = {
    { "a name", OURS, "DNS:localhost", 3600, "localhost", EXCHANGE_END_WHOLE, NULL },
    { "one name of several", OURS, "DNS:other.example,DNS:localhost", 3600, "localhost", EXCHANGE_END_WHOLE,
      NULL },
    { "an address", OURS, "IP:127.0.0.1", 3600, "127.0.0.1", EXCHANGE_END_WHOLE, NULL },
    { "another authority", THEIRS, "DNS:localhost", 3600, "localhost", EXCHANGE_END_TLS,
      "issuer certificate" },
    { "no authority", NOBODY, "DNS:localhost", 3600, "localhost", EXCHANGE_END_TLS, "issuer certificate" },
    { "another name", OURS, "DNS:other.example", 3600, "localhost", EXCHANGE_END_TLS, "subject name" },
    { "another address", OURS, "IP:127.0.0.2", 3600, "127.0.0.1", EXCHANGE_END_TLS, "subject name" },
    { "a name for an address", OURS, "DNS:localhost", 3600, "127.0.0.1", EXCHANGE_END_TLS, "subject name" },
    { "an address written as a name", OURS, "DNS:127.0.0.1", 3600, "127.0.0.1", EXCHANGE_END_TLS,
      "subject name" },
    { "an expired certificate", OURS, "DNS:localhost", -3600, "localhost", EXCHANGE_END_TLS, "expired" },
};

START_TEST(only_a_server_that_our_authority_vouches_for_by_this_name_gets_a_request)
{
    bool is_trusted = servers[_i].end == EXCHANGE_END_WHOLE;
    struct trust trust = in_file(servers[_i].trusted == OURS ? ours_file : theirs_file);
    struct server_process server;
    char url[64];

    server_process_start(&server, server_tls(&ours, servers[_i].names, servers[_i].ends_in_s));
    snprintf(url, sizeof(url), "https://%s:%d/", servers[_i].host, server.port);
    struct exchange_result result = post_to(servers[_i].trusted == NOBODY ? NULL : &trust, url);
    unsigned requests = server_process_stop(&server);
    ck_assert_msg(result.end == servers[_i].end, "%s: %s", servers[_i].what, exchange_end_name(result.end));
    ck_assert_msg(is_trusted ? result.detail == NULL
                             : result.detail != NULL && strstr(result.detail, servers[_i].detail) != NULL,
                  "%s: \"%s\"", servers[_i].what, result.detail == NULL ? "(none)" : result.detail);
    ck_assert_uint_eq(requests, is_trusted);
    ck_assert_uint_eq(result.bytes_out, is_trusted ? 2 : 0);
    trust_free(&trust);
}
END_TEST

/* The system's bundle is not asked beside the store. */
START_TEST(the_systems_variables_add_nobody_to_a_store)
{
    struct trust trust = in_file(theirs_file);
    struct server_process server;
    char url[64];

    setenv("SSL_CERT_FILE", ours_file, 1);
    setenv("CURL_CA_BUNDLE", ours_file, 1);
    server_process_start(&server, server_tls(&ours, "DNS:localhost", 3600));
    snprintf(url, sizeof(url), "https://localhost:%d/", server.port);
    struct exchange_result result = post_to(&trust, url);
    ck_assert_uint_eq(server_process_stop(&server), 0);
    ck_assert_int_eq(result.end, EXCHANGE_END_TLS);
    trust_free(&trust);
}
END_TEST

START_TEST(a_warm_handshake_takes_nothing_from_a_store_and_adds_nobody)
{
    struct trust trust = in_file(ours_file);
    struct server_process server, stranger;
    struct error e = { 0 };
    char url[64];

    ck_assert_msg(trust_warm(trust_store(&trust), &e) == 0, "%s", e.text);
    ck_assert_msg(trust_warm(NULL, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(count_certificates(trust_store(&trust)), 1);
    server_process_start(&server, server_tls(&ours, "DNS:localhost", 3600));
    snprintf(url, sizeof(url), "https://localhost:%d/", server.port);
    ck_assert_int_eq(post_to(&trust, url).end, EXCHANGE_END_WHOLE);
    server_process_stop(&server);
    server_process_start(&stranger, server_tls(&theirs, "DNS:localhost", 3600));
    snprintf(url, sizeof(url), "https://localhost:%d/", stranger.port);
    ck_assert_int_eq(post_to(&trust, url).end, EXCHANGE_END_TLS);
    server_process_stop(&stranger);
    trust_free(&trust);
}
END_TEST

START_TEST(a_file_may_hold_many_certificates_and_text_between_them)
{
    FILE *file = fopen(ours_file, "a");
    ck_assert_ptr_nonnull(file);
    fputs("\n# the other one\n", file);
    fclose(file);
    authority_append(&theirs, ours_file);
    authority_append(&ours, ours_file); /* again */
    struct trust trust = in_file(ours_file);
    ck_assert_uint_eq(count_certificates(trust_store(&trust)), 2);
    trust_free(&trust);
}
END_TEST

static const struct {
    const char *text; /* NULL: there is no file */
    int code;
    const char *says;
} unusable[] = {
    { NULL, ERR_SYSTEM, "No such file" },
    { "", ERR_FORMAT, "holds no certificate" },
    { "no PEM\n", ERR_FORMAT, "holds no certificate" },
    { "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", ERR_FORMAT,
      "certificate 1 is broken" },
    { "-----BEGIN CERTIFICATE-----\nAAAA", ERR_FORMAT, "certificate 1 is broken" },
};

START_TEST(a_file_without_a_usable_certificate_is_refused_with_its_name)
{
    X509_STORE *trust = NULL;
    struct error e = { 0 };

    unlink(text_file);
    if (unusable[_i].text != NULL) {
        FILE *file = fopen(text_file, "w");
        ck_assert_ptr_nonnull(file);
        fputs(unusable[_i].text, file);
        fclose(file);
    }
    int r = trust_load(text_file, &trust, &e);
    ck_assert_msg(r == unusable[_i].code && strstr(e.text, unusable[_i].says) != NULL &&
                      strstr(e.text, text_file) != NULL,
                  "\"%s\": %s: %s", unusable[_i].text == NULL ? "(none)" : unusable[_i].text, err_name(r),
                  e.text);
    ck_assert_ptr_null(trust);
}
END_TEST

START_TEST(a_store_is_loaded_at_the_first_handshake_and_not_before)
{
    struct trust trust = in_file(ours_file), none = in_file(text_file);
    struct server_process server;
    char url[64];

    ck_assert_int_eq(post_to(&trust, "http://127.0.0.1:1/").end, EXCHANGE_END_REFUSED);
    ck_assert_ptr_null(trust.store);
    server_process_start(&server, server_tls(&ours, "DNS:localhost", 3600));
    snprintf(url, sizeof(url), "https://localhost:%d/", server.port);
    ck_assert_int_eq(post_to(&trust, url).end, EXCHANGE_END_WHOLE);
    ck_assert_ptr_nonnull(trust.store);
    ck_assert_uint_eq(reports, 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(post_to(&none, url).end, EXCHANGE_END_TLS);
    ck_assert_uint_eq(reports, 1);
    server_process_stop(&server);
    trust_free(&trust);
    trust_free(&none);
}
END_TEST

START_TEST(a_broken_certificate_among_good_ones_is_told_with_its_number)
{
    X509_STORE *trust = NULL;
    struct error e = { 0 };
    FILE *file = fopen(ours_file, "a");
    ck_assert_ptr_nonnull(file);
    fputs("-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n", file);
    fclose(file);
    ck_assert_int_eq(trust_load(ours_file, &trust, &e), ERR_FORMAT);
    ck_assert_msg(strstr(e.text, "certificate 2 is broken") != NULL, "%s", e.text);
}
END_TEST

START_TEST(the_setting_comes_before_the_systems_variable_before_debians_bundle)
{
    unsetenv("SSL_CERT_FILE");
    ck_assert_str_eq(trust_file(NULL), "/etc/ssl/certs/ca-certificates.crt");
    ck_assert_str_eq(trust_file(""), "/etc/ssl/certs/ca-certificates.crt");
    setenv("SSL_CERT_FILE", "", 1);
    ck_assert_str_eq(trust_file(NULL), "/etc/ssl/certs/ca-certificates.crt");
    setenv("SSL_CERT_FILE", "/system", 1);
    ck_assert_str_eq(trust_file(NULL), "/system");
    ck_assert_str_eq(trust_file("/ours"), "/ours");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("trust");
    TCase *all = tcase_create("all");
    tcase_add_checked_fixture(all, set_up, tear_down);
    tcase_set_timeout(all, 20);
    tcase_add_loop_test(all, only_a_server_that_our_authority_vouches_for_by_this_name_gets_a_request, 0,
                        (int)COUNT(servers));
    tcase_add_test(all, the_systems_variables_add_nobody_to_a_store);
    tcase_add_test(all, a_warm_handshake_takes_nothing_from_a_store_and_adds_nobody);
    tcase_add_test(all, a_file_may_hold_many_certificates_and_text_between_them);
    tcase_add_loop_test(all, a_file_without_a_usable_certificate_is_refused_with_its_name, 0,
                        (int)COUNT(unusable));
    tcase_add_test(all, a_store_is_loaded_at_the_first_handshake_and_not_before);
    tcase_add_test(all, a_broken_certificate_among_good_ones_is_told_with_its_number);
    tcase_add_test(all, the_setting_comes_before_the_systems_variable_before_debians_bundle);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}

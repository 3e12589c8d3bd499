#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/json/scan.h"
#include "core/log/log.h"
#include "tests/unit/utf8.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define CLEAN(text) \
    {               \
        text, text  \
    }

/* What the program writes to stderr arrives here, one packet per write. */
static int ear = -1, real_stderr = -1;

static void set_up(void)
{
    int pair[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    real_stderr = dup(STDERR_FILENO);
    ck_assert_int_ge(dup2(pair[1], STDERR_FILENO), 0);
    close(pair[1]);
    ear = pair[0];
    log_init("test");
}

static void tear_down(void)
{
    dup2(real_stderr, STDERR_FILENO);
    close(real_stderr);
    close(ear);
}

/* The next line, which must be one write, one line, and valid JSON without a repeated name. */
static struct span next_line(void)
{
    static char packet[64 * 1024];
    ssize_t n = recv(ear, packet, sizeof(packet), MSG_DONTWAIT);
    ck_assert_int_gt(n, 0);
    ck_assert_int_le(n, LOG_LINE_BYTES);
    ck_assert_ptr_eq(memchr(packet, '\n', (size_t)n), packet + n - 1);
    struct json_fault fault = { 0, "none" };
    struct span line = span_of(packet, (size_t)n - 1);
    int r = json_scan(line, NULL, 0, JSON_SCAN_UNIQUE, NULL, NULL, &fault);
    ck_assert_msg(r == 0, "%s at %zu of %.*s", fault.what, fault.offset, (int)n, packet);
    return line;
}

static struct json_value member(struct span line, const char *name)
{
    struct json_want want = { name, true };
    struct json_value found;
    ck_assert_int_eq(json_find(line, &want, 1, 0, &found, NULL), 0);
    return found;
}

static void assert_member(struct span line, const char *name, const char *expected)
{
    struct json_value found = member(line, name);
    ck_assert_msg(found.kind == JSON_KIND_STRING && json_string_is(found.raw, expected), "%s in %.*s, not %s",
                  name, (int)line.len, line.ptr, expected);
}

START_TEST(writes_one_json_line_with_one_write)
{
    log_line(LOG_WARN, "snapshot_refused", "bad \"%s\" at %d", "thing", 7);
    struct span line = next_line();
    long long pid = 0;
    assert_member(line, "level", "warn");
    assert_member(line, "program", "test");
    assert_member(line, "event", "snapshot_refused");
    assert_member(line, "message", "bad \"thing\" at 7");
    ck_assert(json_int(member(line, "pid").raw, &pid) && pid == getpid());
    ck_assert_uint_eq(member(line, "time").raw.len, strlen("\"2026-11-29T21:02:20.123456Z\""));
    char more;
    ck_assert_int_lt(recv(ear, &more, 1, MSG_DONTWAIT), 0);
}
END_TEST

START_TEST(names_every_level)
{
    static const char *const names[] = { [LOG_INFO] = "info", [LOG_WARN] = "warn", [LOG_ERROR] = "error" };
    for (size_t i = 0; i < COUNT(names); i++) {
        log_line((enum log_level)i, "x", "y");
        assert_member(next_line(), "level", names[i]);
    }
}
END_TEST

START_TEST(takes_members_of_the_callers)
{
    struct json_writer *w = log_begin(LOG_ERROR, "upstream_failed");
    jw_member_int(w, "status", 502);
    jw_key(w, "attempts");
    jw_begin_array(w);
    jw_begin_object(w);
    jw_member_cstr(w, "upstream", "u1");
    jw_end_object(w);
    jw_end_array(w);
    log_field_text(w, "said", span_cstr("Incorrect API key provided: sk-abc***xyz."));
    log_end();
    struct span line = next_line();
    assert_member(line, "said", "Incorrect API key provided: [redacted].");
    ck_assert(span_is(member(line, "attempts").raw, "[{\"upstream\":\"u1\"}]"));
    ck_assert(span_is(member(line, "status").raw, "502"));
}
END_TEST

START_TEST(leaves_out_whole_what_does_not_fit)
{
    static const size_t sizes[] = { 1000, 3900, 3950, 4000, 4096, 10000, 16 * 1024, 100 * 1024 };
    for (size_t i = 0; i < COUNT(sizes); i++) {
        char *large = malloc(sizes[i]);
        ck_assert_ptr_nonnull(large);
        memset(large, 'x', sizes[i]);
        struct json_writer *w = log_begin(LOG_INFO, "large");
        jw_member_int(w, "before", 1);
        jw_member_span(w, "large", span_of(large, sizes[i]));
        jw_member_int(w, "after", 2);
        log_end();
        struct span line = next_line();
        struct json_value kept = member(line, "large");
        ck_assert(span_is(member(line, "before").raw, "1"));
        ck_assert_msg(kept.kind == JSON_KIND_ABSENT ? sizes[i] > 3900 : kept.raw.len == sizes[i] + 2,
                      "%zu bytes: %zu", sizes[i], kept.raw.len);
        if (sizes[i] <= 10000)
            ck_assert(span_is(member(line, "after").raw, "2"));
        free(large);
    }
}
END_TEST

START_TEST(fills_a_line_to_its_last_byte)
{
    for (size_t size = 3800; size < LOG_LINE_BYTES; size++) {
        char large[LOG_LINE_BYTES];
        memset(large, 'x', sizeof(large));
        struct json_writer *w = log_begin(LOG_INFO, "large");
        jw_member_span(w, "large", span_of(large, size));
        log_end();
        struct span line = next_line();
        bool is_kept = member(line, "large").kind != JSON_KIND_ABSENT;
        size_t without = is_kept ? line.len - size - strlen(",\"large\":\"\"") : line.len;
        ck_assert_msg(is_kept == (without + strlen(",\"large\":\"\"\n") + size <= LOG_LINE_BYTES), "%zu",
                      size);
    }
}
END_TEST

START_TEST(stays_valid_json_with_a_thousand_members_of_broken_text)
{
    struct json_writer *w = log_begin(LOG_INFO, "many");
    for (int i = 0; i < 1000; i++) {
        char name[16], text[] = { (char)i, '"', '\\', (char)(i * 7), '\n' };
        snprintf(name, sizeof(name), "m%d", i);
        log_field_text(w, name, span_of(text, sizeof(text)));
    }
    log_end();
    struct span line = next_line();
    ck_assert_uint_gt(line.len, LOG_LINE_BYTES - 64);
    assert_member(line, "event", "many");
}
END_TEST

START_TEST(cuts_a_message_that_is_too_long)
{
    char message[8192];
    memset(message, '\x01', sizeof(message) - 1);
    message[sizeof(message) - 1] = '\0';
    log_line(LOG_ERROR, "long", "%s", message);
    struct json_value found = member(next_line(), "message");
    ck_assert(found.kind == JSON_KIND_STRING && found.raw.len == 2 + 639 * strlen("\\u0001"));
}
END_TEST

START_TEST(cuts_text_from_outside)
{
    char text[1000];
    memset(text, ' ', sizeof(text));
    struct json_writer *w = log_begin(LOG_INFO, "cut");
    log_field_text(w, "text", span_of(text, sizeof(text)));
    log_end();
    ck_assert_uint_eq(member(next_line(), "text").raw.len, LOG_TEXT_BYTES + 2);
}
END_TEST

static const struct {
    const char *text;
    const char *expected;
} REDACTED[] = {
    /* schemes */
    { "Authorization: Bearer abc", "Authorization: [redacted]" },
    { "sent Bearer abc.def-ghi to host", "sent Bearer [redacted] to host" },
    { "BEARER\tabc", "BEARER\t[redacted]" },
    { "Bearer  sk-abc, twice", "Bearer  [redacted], twice" },
    { "Basic dXNlcjpwYXNz", "Basic [redacted]" },
    { "basic YTpi", "basic [redacted]" },
    { "\"authorization\":\"Bearer abc def\"", "\"authorization\":\"[redacted]\"" },
    { "authorization: Digest username=\"bob\"\r\nhost: x", "authorization: [redacted]\"bob\"\r\nhost: x" },
    { "Cookie: a=b; c=d\nnext", "Cookie: [redacted]\nnext" },
    { "x-auth-token: Bearer abc", "x-auth-token: Bearer [redacted]" },
    /* prefixes */
    { "Incorrect API key provided: sk-abc***xyz. You can",
      "Incorrect API key provided: [redacted]. You can" },
    { "Incorrect API key provided: abc***xyz.", "Incorrect API key provided: [redacted]." },
    { "key sk-a was", "key [redacted] was" },
    { "sk-proj-Ab_cd-ef", "[redacted]" },
    { "(sk-ant-api03-xyz)", "([redacted])" },
    { "'AIzaSyD4'", "'[redacted]'" },
    { "AKIAIOSFODNN7EXAMPLE", "[redacted]" },
    { "ghp_16C7e42F", "[redacted]" },
    { "github_pat_11AB", "[redacted]" },
    { "xoxb-123-abc", "[redacted]" },
    { "gsk_abcd", "[redacted]" },
    { "eyJhbGciOi.eyJzdWIi.SflKx", "[redacted]" },
    { "token=eyJhbGciOi", "token=[redacted]" },
    /* labels */
    { "{\"api_key\":\"abc\",\"n\":1}", "{\"api_key\":\"[redacted]\",\"n\":1}" },
    { "{\"api_key\" : \"a\\\"b\",\"n\":1}", "{\"api_key\" : \"[redacted]\",\"n\":1}" },
    { "{\\\"apiKey\\\":\\\"abc\\\",\\\"n\\\":1}", "{\\\"apiKey\\\":\\\"[redacted]\\\",\\\"n\\\":1}" },
    { "{\"password\":\"open ended", "{\"password\":\"[redacted]" },
    { "api-key: abc def", "api-key: [redacted] def" },
    { "API_KEY='a b c'", "API_KEY='[redacted]'" },
    { "secret => hunter2;", "secret => [redacted];" },
    { "https://h/p?key=abc&alt=sse", "https://h/p?key=[redacted]&alt=sse" },
    { "https://h/p?x=1&access_token=abc#frag", "https://h/p?x=1&access_token=[redacted]" },
    { "sig=a%2Bb&se=1", "sig=[redacted]&se=1" },
    { "api_key%3Dabc", "api_key%3D[redacted]" },
    { "Ocp-Apim-Subscription-Key: 1234", "Ocp-Apim-Subscription-Key: [redacted]" },
    { "client_secret=abc", "client_secret=[redacted]" },
    { "postgres://user:pw@db/x", "postgres://[redacted]@db/x" },
    { "redis://:pw@db", "redis://[redacted]@db" },
    /* runs */
    { "0123456789abcdef0123456789abcdef", "[redacted]" },
    { "id 0b9f6a2e-1111-4a3c-9def-0123456789ab!", "id [redacted]!" },
    { "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "[redacted]" },
    { "ab12-cd34-ef56-gh78", "[redacted]" },
    { "dGhpcyBpcyBhIHNlY3JldCBrZXkgMTIz==", "[redacted]" },
    { "QWxhZGRpbkxvbmdTZWNyZXRLZXk", "[redacted]" },
    { "two 0123456789abcdef0123 and 0123456789abcdef0124.", "two [redacted] and [redacted]." },
    /* what stays */
    CLEAN(""),
    CLEAN("The model `gpt-4o-mini-2024-07-18` does not exist or you do not have access to it."),
    CLEAN("claude-3-5-sonnet-20241022 and claude-sonnet-4-20250514 and anthropic/claude-3.5-haiku-20241022"),
    CLEAN("meta-llama/Meta-Llama-3.1-405B-Instruct-Turbo, deepseek-ai/DeepSeek-R1-Distill-Llama-70B"),
    CLEAN("accounts/fireworks/models/llama-v3p1-405b-instruct"),
    CLEAN("Qwen/Qwen2.5-VL-72B-Instruct; mixtral-8x7b-instruct-v0.1; text-embedding-3-large; cosyvoice-v2"),
    CLEAN("zh-CN-XiaoxiaoMultilingualNeural en-US-JennyNeural"),
    CLEAN("https://api.openai.com/v1/chat/completions answered 429 after 12034 ms"),
    CLEAN("myresource2.openai.azure.com:443 eastus2.tts.speech.microsoft.com 10.0.0.12:8080"),
    CLEAN("Rate limit reached for gpt-4o on tokens per min (TPM): Limit 30000, Used 29871, Requested 912."),
    CLEAN("{\"error\":{\"type\":\"invalid_request_error\",\"code\":\"invalid_api_key\",\"param\":null}}"),
    CLEAN("{\"max_tokens\":4096,\"usage\":{\"prompt_tokens\":12,\"total_tokens\":15}}"),
    CLEAN("2026-11-29T21:02:20.123456Z libcurl/7.88.1 OpenSSL/3.0.15 HTTP/1.1 503"),
    CLEAN("bearer authentication is required; basic plan; a bearer token is missing"),
    CLEAN("RATE_LIMIT_EXCEEDED_429 ContentPolicyViolationError Unexpected token < in JSON at position 0"),
    CLEAN("ask-me desk-lamp risk-free --------------------------------"),
    CLEAN("3.14159265358979323846264338327950288"),
    CLEAN("\xE4\xBD\xA0\xE5\xA5\xBD, na\xC3\xAFve caf\xC3\xA9"),
};

static void redact(struct buf *out, struct span text, size_t limit)
{
    char *copy = malloc(text.len + (text.len == 0));
    ck_assert_ptr_nonnull(copy);
    if (text.len > 0)
        memcpy(copy, text.ptr, text.len);
    buf_clear(out);
    log_redact(out, span_of(copy, text.len), limit);
    free(copy);
}

START_TEST(redacts_credentials_and_leaves_the_rest)
{
    struct buf out;
    buf_init(&out, 4096);
    redact(&out, span_cstr(REDACTED[_i].text), 1000);
    ck_assert_msg(span_is(buf_span(&out), REDACTED[_i].expected), "%s\nbecame   %.*s\nexpected %s",
                  REDACTED[_i].text, (int)out.len, out.data, REDACTED[_i].expected);
    buf_free(&out);
}
END_TEST

static bool contains(struct span text, const char *part)
{
    return text.len > 0 && memmem(text.ptr, text.len, part, strlen(part)) != NULL;
}

/* Keys as providers make them, in the sentences in which they come back. */
START_TEST(lets_no_random_key_through)
{
    static const char base64url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    static const struct {
        const char *alphabet;
        size_t letters, len;
    } kinds[] = {
        { "0123456789abcdef", 16, 32 },
        { "0123456789ABCDEF", 16, 24 },
        { "abcdefghijklmnopqrstuvwxyz0123456789", 36, 24 },
        { base64url, 62, 24 },
        { base64url, 62, 40 },
        { base64url, 64, 43 },
        { base64url, 64, 86 },
    };
    static const char *const sentences[] = {
        "%s",
        "The key %s is not valid.",
        "(%s)",
        "{\"message\":\"no access for '%s'\"}",
        "https://host/%s/x",
        "user/%s",
        "x-%s-y",
        "a=%s&b",
        "\xE4\xBD\xA0%s\xE5\xA5\xBD",
    };
    unsigned state = 12345;
    struct buf out;
    buf_init(&out, 4096);
    for (size_t kind = 0; kind < COUNT(kinds); kind++) {
        for (int round = 0; round < 2000; round++) {
            char key[100], text[256];
            for (size_t i = 0; i < kinds[kind].len; i++) {
                state = state * 1664525u + 1013904223u;
                key[i] = kinds[kind].alphabet[(state >> 16) % kinds[kind].letters];
            }
            key[kinds[kind].len] = '\0';
            for (size_t i = 0; i < COUNT(sentences); i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
                snprintf(text, sizeof(text), sentences[i], key);
#pragma GCC diagnostic pop
                redact(&out, span_cstr(text), 256);
                ck_assert_msg(!contains(buf_span(&out), key), "%s became %.*s", text, (int)out.len, out.data);
            }
        }
    }
    buf_free(&out);
}
END_TEST

/* The cut comes after the redaction: no limit lets the beginning of a key through. */
START_TEST(never_exceeds_its_limit_and_shows_no_part_of_a_key)
{
    static const char text[] =
        "caf\xC3\xA9 \xF0\x9F\x98\x80 key 0123456789abcdef0123456789abcdef \xE4\xBD\xA0 sk-secret end";
    struct buf out, whole;
    buf_init(&out, 4096);
    buf_init(&whole, 4096);
    redact(&whole, span_cstr(text), 1000);
    for (size_t limit = 0; limit <= sizeof(text); limit++) {
        redact(&out, span_cstr(text), limit);
        ck_assert_msg(out.len <= limit, "limit %zu: %zu bytes", limit, out.len);
        ck_assert_msg(out.len + 3 >= (limit < whole.len ? limit : whole.len), "limit %zu: %zu bytes", limit,
                      out.len);
        ck_assert(out.len == 0 || memcmp(out.data, whole.data, out.len) == 0);
        ck_assert_msg(is_utf8(buf_span(&out)), "limit %zu splits a character", limit);
        ck_assert(!contains(buf_span(&out), "0123") && !contains(buf_span(&out), "sk-"));
    }
    buf_free(&out);
    buf_free(&whole);
}
END_TEST

START_TEST(reads_large_and_broken_text_without_harm)
{
    static const char *const patterns[] = { "://",     "key=", "\"key\":\"", "Bearer ",  "sk-",
                                            "a1-",     "****", "\\\"",       "\xFF\xC3", "eyJ",
                                            "key is ", "%3A",  "/a/b.c" };
    struct buf out;
    size_t size = 1 << 20;
    char *text = malloc(size);
    ck_assert_ptr_nonnull(text);
    buf_init(&out, 4096);
    for (size_t i = 0; i < COUNT(patterns); i++) {
        for (size_t k = 0; k < size; k++)
            text[k] = patterns[i][k % strlen(patterns[i])];
        redact(&out, span_of(text, size), 256);
        ck_assert_uint_le(out.len, 256);
    }
    for (size_t k = 0; k < 4096; k++) {
        redact(&out, span_of(text, k), 4096);
        ck_assert_uint_le(out.len, 4096);
    }
    free(text);
    buf_free(&out);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log");
    TCase *lines = tcase_create("lines"), *redaction = tcase_create("redaction");
    tcase_add_checked_fixture(lines, set_up, tear_down);
    tcase_add_test(lines, writes_one_json_line_with_one_write);
    tcase_add_test(lines, names_every_level);
    tcase_add_test(lines, takes_members_of_the_callers);
    tcase_add_test(lines, leaves_out_whole_what_does_not_fit);
    tcase_add_test(lines, fills_a_line_to_its_last_byte);
    tcase_add_test(lines, stays_valid_json_with_a_thousand_members_of_broken_text);
    tcase_add_test(lines, cuts_a_message_that_is_too_long);
    tcase_add_test(lines, cuts_text_from_outside);
    tcase_set_timeout(redaction, 30);
    tcase_add_loop_test(redaction, redacts_credentials_and_leaves_the_rest, 0, (int)COUNT(REDACTED));
    tcase_add_test(redaction, lets_no_random_key_through);
    tcase_add_test(redaction, never_exceeds_its_limit_and_shows_no_part_of_a_key);
    tcase_add_test(redaction, reads_large_and_broken_text_without_harm);
    suite_add_tcase(suite, lines);
    suite_add_tcase(suite, redaction);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

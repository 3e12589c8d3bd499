/*
 * What a caller or an operator writes stays where it belongs: in whatever text it
 * stands, a request has the members, elements, attributes and headers that it has
 * with a harmless one, or there is no request. For every parameter of every table.
 */
#include "tests/unit/adapter_driver.h"

#include <stdio.h>

#include "core/json/scan.h"
#include "core/json/writer.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const hostile[] = {
    "\"/><x/>",
    "'/><x/>",
    "</voice><voice/>",
    "]]><!--",
    "&bomb;",
    "\"},\"app\":{\"token\":\"x\"},\"a\":{\"b\":\"",
    "\\\",\"model\":\"x",
    "\\",
    "{KEY}",
    "{\"code\":0",
    "a/../b?c=d&e#f",
    "@evil.test:1/",
    "%0d%0aX-Evil:1",
    "a\r\nX-Evil: 1",
    "+20%\"/><x/>",
    "\xE2\x80\xA8\"\xE5\xAD\x97",
};

/* One is a value of each parameter that takes a text. */
static const char *const harmless[] = { "calm", "slow", "low", "soft", "en" };

static const struct {
    const char *adapter, *params; /* operators' members, without brackets */
} sites[] = {
    { "openai", "\"model\":\"tts-1\"" },
    { "azure", "\"locale\":\"en-US\"" },
    { "dashscope-cosyvoice", "\"model\":\"cosyvoice-v3-flash\"" },
    { "dashscope-cosyvoice", "\"model\":\"qwen3-tts-instruct-flash\"" },
    { "volcengine", "\"appid\":\"1\"" },
    { "volcengine", "\"api\":\"v3\"" },
    { "volcengine", "\"api\":\"v3\",\"appid\":\"1\"" },
    { "elevenlabs", "\"model\":\"m\"" },
};

/* ---- what a request is made of ---- */

static void draw_json(struct buf *out, struct arena *arena, struct span text);

/* A value's text is left out, unless it is JSON itself; a name is kept. */
static size_t draw_string(struct buf *out, struct arena *arena, struct span text)
{
    size_t n = 1, after;
    while (text.ptr[n] != '"')
        n += text.ptr[n] == '\\' ? 2 : 1;
    struct span raw = span_of(text.ptr, ++n);
    for (after = n; after < text.len && text.ptr[after] == ' ';)
        after++;
    if (after < text.len && text.ptr[after] == ':') {
        buf_append_span(out, raw);
        return n;
    }
    struct span value = json_decode(arena, raw);
    buf_append_cstr(out, "\"");
    if (json_scan(value, NULL, 0, 0, NULL, NULL, NULL) == 0 && value.ptr[0] == '{')
        draw_json(out, arena, value);
    buf_append_cstr(out, "\"");
    return n;
}

static void draw_json(struct buf *out, struct arena *arena, struct span text)
{
    ck_assert_msg(json_scan(text, NULL, 0, JSON_SCAN_UNIQUE, NULL, NULL, NULL) == 0, "no JSON: %.*s",
                  (int)text.len, text.ptr);
    for (size_t i = 0; i < text.len;) {
        if (text.ptr[i] == '"')
            i += draw_string(out, arena, span_of(text.ptr + i, text.len - i));
        else
            buf_append_char(out, text.ptr[i++]);
    }
}

/* Tags, without what stands between them and in their attributes. */
static void draw_xml(struct buf *out, struct span text)
{
    bool in_tag = false, in_value = false;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        bool is_mark = (c == '<' && !in_value) || (c == '>' && !in_value) || (c == '"' && in_tag);
        ck_assert_msg(c != '<' || !in_value, "an attribute with \"<\": %.*s", (int)text.len, text.ptr);
        if (is_mark || (in_tag && !in_value))
            buf_append_char(out, c);
        in_value = in_tag && (c == '"') != in_value;
        in_tag = !is_mark || c == '"' ? in_tag : c == '<';
    }
    ck_assert_msg(!in_tag && !in_value, "an open tag: %.*s", (int)text.len, text.ptr);
}

/* A URL's parts, without the voice that may be one of them. */
static void draw_url(struct buf *out, const char *url)
{
    for (; *url != '\0'; url++) {
        ck_assert_msg(*url > ' ' && *url < 0x7f && strchr("\"<>\\{}", *url) == NULL, "%s", url);
        if (strchr("/?&#@:=%", *url) != NULL)
            buf_append_char(out, *url);
    }
}

static void draw_request(struct buf *out, struct driver *d)
{
    const char *body = driver_body(d);
    draw_url(out, d->exchange.url);
    buf_printf(out, "\n%s\n", d->exchange.key_header);
    for (const char *const *h = d->exchange.headers; *h != NULL; h++) {
        ck_assert_msg(strpbrk(*h, "\r\n") == NULL, "a header of two lines: %s", *h);
        buf_append(out, *h, strcspn(*h, ":"));
        buf_append_cstr(out, "\n");
    }
    if (body[0] == '<')
        draw_xml(out, span_cstr(body));
    else
        draw_json(out, d->arena, span_cstr(body));
}

/* ---- one value ---- */

static bool is_request(const char *body)
{
    struct arena *arena = arena_new();
    struct request_facts facts = { 0 };
    struct request_fault fault = { 0 };
    bool is = speech_read_request(span_cstr(body), span_cstr(dialect_speech.media_type), arena, &facts,
                                  &fault) == 0;
    arena_free(arena);
    return is;
}

/* The request with this text in place of the mark, drawn; empty: it is refused. */
static void draw_with(struct buf *out, unsigned site, const char *members, const char *params,
                      const char *text)
{
    struct buf filled[2], quoted;
    struct json_writer w;
    struct driver d;

    buf_init(&quoted, 1024);
    jw_init(&w, &quoted);
    jw_cstr(&w, text);
    buf_append_char(&quoted, '\0');
    for (size_t i = 0; i < 2; i++) {
        const char *form = i == 0 ? members : params, *mark = strchr(form, '$');
        buf_init(&filled[i], 8192);
        buf_append(&filled[i], form, mark == NULL ? strlen(form) : (size_t)(mark - form));
        if (mark != NULL)
            buf_printf(&filled[i], "%s%s", quoted.data, mark + 1);
        buf_append_char(&filled[i], '\0');
    }
    buf_clear(out);
    if (is_request(filled[0].data)) {
        driver_open(&d, sites[site].adapter, filled[0].data, filled[1].data);
        if (d.call != NULL)
            draw_request(out, &d);
        driver_close(&d);
    }
    buf_free(&filled[0]);
    buf_free(&filled[1]);
    buf_free(&quoted);
}

/* Whether the operator's own configuration would refuse the parameters with this text. */
static void count_fault(void *ctx, struct span member, const char *message)
{
    (void)member;
    (void)message;
    ++*(size_t *)ctx;
}

static bool is_configurable(unsigned site, const char *params, const char *text)
{
    struct arena *arena = arena_new();
    const struct adapter *adapter = adapter_find(span_cstr(sites[site].adapter));
    const char *mark = strchr(params, '$');
    struct adapter_fault fault = { NULL, NULL };
    struct buf filled;
    struct json_writer w;
    size_t faults = 0;

    buf_init(&filled, 8192);
    buf_append(&filled, params, (size_t)(mark - params));
    jw_init(&w, &filled);
    jw_cstr(&w, text);
    buf_append_cstr(&filled, mark + 1);
    adapter_read_params(adapter, buf_span(&filled), arena, count_fault, &faults);
    bool is_good = faults == 0 && adapter_endpoint(adapter, span_cstr("https://upstream.test/speech"),
                                                   span_of("", 0), buf_span(&filled), arena, &fault) != NULL;
    buf_free(&filled);
    arena_free(arena);
    return is_good;
}

/* `members` and `params` are a request and an operator's parameters, one of them with a "$" for a text. */
static void check_place(unsigned site, const char *members, const char *params)
{
    struct buf expected, found;
    bool is_operators = strchr(params, '$') != NULL;

    buf_init(&expected, 8192);
    buf_init(&found, 8192);
    for (size_t i = 0; i < COUNT(harmless) && expected.len == 0; i++)
        draw_with(&expected, site, members, params, harmless[i]);
    for (size_t i = 0; i < COUNT(hostile); i++) {
        if (is_operators && !is_configurable(site, params, hostile[i]))
            continue;
        draw_with(&found, site, members, params, hostile[i]);
        ck_assert_msg(found.len == 0 || span_eq(buf_span(&found), buf_span(&expected)),
                      "%s with %s and %s: %s made\n%.*s\ninstead of\n%.*s", sites[site].adapter, members,
                      params, hostile[i], (int)found.len, found.data, (int)expected.len,
                      expected.len > 0 ? expected.data : "");
    }
    buf_free(&expected);
    buf_free(&found);
}

#define ASK(more) "{\"input\":\"Hi\",\"voice\":\"v\"" more "}"

START_TEST(a_text_stays_a_text_in_what_every_request_has)
{
    static const char *const members[] = {
        "{\"input\":$,\"voice\":\"v\"}",
        "{\"input\":\"Hi\",\"voice\":$}",
        ASK(",\"instructions\":$"),
        ASK(",\"response_format\":$"),
        ASK(",\"stream_format\":\"sse\",\"extra_body\":{\"somebodys\":$}"),
        "{\"input\":\"Hi\"}",
    };
    struct arena *arena = arena_new();
    const char *params = arena_printf(arena, "{%s}", sites[_i].params);
    for (size_t i = 0; i + 1 < COUNT(members); i++)
        check_place((unsigned)_i, members[i], params);
    check_place((unsigned)_i, members[COUNT(members) - 1],
                arena_printf(arena, "{%s,\"defaultVoice\":$}", sites[_i].params));
    arena_free(arena);
}
END_TEST

START_TEST(a_text_stays_a_text_in_every_parameter)
{
    static const char *const forms[] = { "$", "{\"a\":$}", "[$]" };
    const struct adapter *adapter = adapter_find(span_cstr(sites[_i].adapter));
    struct arena *arena = arena_new();
    const struct adapter_param *param;

    for (size_t n = 0; (param = adapter_param(adapter, n)) != NULL; n++) {
        for (size_t form = 0; form < COUNT(forms); form++) {
            const char *value = arena_printf(arena, "\"%s\":%s", param->name, forms[form]);
            check_place((unsigned)_i, arena_printf(arena, ASK(",\"extra_body\":{%s}"), value),
                        arena_printf(arena, "{%s}", sites[_i].params));
            check_place((unsigned)_i, ASK(""), arena_printf(arena, "{%s,%s}", sites[_i].params, value));
        }
    }
    arena_free(arena);
}
END_TEST

/* The parts of a URL that is made; none of them may become another. */
START_TEST(a_text_stays_in_its_part_of_the_url)
{
    static const struct {
        const char *adapter, *region, *params;
    } rows[] = {
        { "azure", "$", "{}" },
        { "azure", "eastus", "{\"deploymentId\":\"$\"}" },
        { "dashscope-cosyvoice", "$", "{\"model\":\"cosyvoice-v3-flash\"}" },
        { "dashscope-cosyvoice", "", "{\"model\":\"cosyvoice-$\"}" },
        { "dashscope-cosyvoice", "", "{\"model\":\"cosyvoice-v3-flash\",\"workspaceId\":\"$\"}" },
    };
    static const char *const breaking[] = { "evil.test/", "a@evil.test", "a:1",    "a?b", "a#b",
                                            "a%2fb",      "a&b=c",       "a b",    "a/b", "evil.test\\u002f",
                                            "\\r\\nX:1",  "..",          "\\u0000" };
    struct arena *arena = arena_new();
    for (size_t i = 0; i < COUNT(rows); i++) {
        for (size_t k = 0; k < COUNT(breaking); k++) {
            struct adapter_fault fault = { NULL, NULL };
            size_t faults = 0;
            const char *text[2] = { rows[i].region, rows[i].params };
            for (size_t t = 0; t < 2; t++) {
                const char *mark = strchr(text[t], '$');
                if (mark != NULL)
                    text[t] = arena_printf(arena, "%.*s%s%s", (int)(mark - text[t]), text[t], breaking[k],
                                           mark + 1);
            }
            const struct adapter *adapter = adapter_find(span_cstr(rows[i].adapter));
            if (adapter_read_params(adapter, span_cstr(text[1]), arena, count_fault, &faults) > 0)
                continue;
            const char *url = adapter_endpoint(adapter, span_of("", 0), span_cstr(text[0]),
                                               span_cstr(text[1]), arena, &fault);
            bool is_models =
                strstr(rows[i].params, "cosyvoice-$") != NULL; /* it decides, and stands in none */
            ck_assert_msg(url == NULL || (is_models && strchr(url + 8, '@') == NULL &&
                                          strncmp(url, "https://dashscope.aliyuncs.com/api/v1/", 38) == 0),
                          "%s %s %s: %s", rows[i].adapter, text[0], text[1], url);
        }
    }
    arena_free(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("adapter injection");
    TCase *tcase = tcase_create("all");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_text_stays_a_text_in_what_every_request_has, 0, (int)COUNT(sites));
    tcase_add_loop_test(tcase, a_text_stays_a_text_in_every_parameter, 0, (int)COUNT(sites));
    tcase_add_test(tcase, a_text_stays_in_its_part_of_the_url);
    suite_add_tcase(suite, tcase);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/*
 * What a worker does for the longest request for speech before it asks anybody:
 *
 *   longest COUNT
 *
 * reads a body with 4,096 Chinese characters, looks whether the upstream can speak
 * them, and writes the provider's request; COUNT times for each row. Prints one
 * line of JSON: of each row p50 and p99, in microseconds.
 */
#include <stdio.h>
#include <stdlib.h>

#include "adapters/adapter.h"
#include "core/base/clock.h"

enum { CHARACTERS = 4096, BODY_BYTES = 64 * 1024, COUNT_MAX = 100000 };

static const struct {
    const char *name, *adapter, *params, *voice;
    bool is_escaped;
} rows[] = {
    { "openai", "openai", "", "alloy", false },
    { "openai, as \\\\u escapes", "openai", "", "alloy", true },
    { "azure", "azure", "", "zh-CN-XiaoxiaoNeural", false },
    { "dashscope", "dashscope-cosyvoice", "{\"model\":\"cosyvoice-v3-flash\"}", "longanyang", false },
    { "volcengine v1", "volcengine", "{\"appid\":\"1\"}", "BV001_streaming", false },
    { "volcengine v3", "volcengine", "{\"api\":\"v3\"}", "BV001_streaming", false },
};

static void fail(const char *message)
{
    fprintf(stderr, "longest: %s\n", message);
    exit(1);
}

/* No two characters in a row are alike, as in a text. */
static void write_body(struct buf *body, const char *voice, bool is_escaped)
{
    buf_clear(body);
    buf_printf(body, "{\"model\":\"m\",\"voice\":\"%s\",\"input\":\"", voice);
    for (unsigned i = 0; i < CHARACTERS; i++) {
        unsigned code = 0x4E00 + i * 7919 % 20000;
        if (is_escaped)
            buf_printf(body, "\\u%04x", code);
        else
            buf_printf(body, "%c%c%c", 0xE0 | code >> 12, 0x80 | (code >> 6 & 0x3F), 0x80 | (code & 0x3F));
    }
    buf_append_cstr(body, "\"}");
}

static uint64_t run_once(size_t row, struct span body, struct arena *request, struct arena *attempt,
                         struct arena *scratch)
{
    uint64_t begun_us = clock_monotonic_us();
    struct request_facts facts = { 0 };
    struct request_fault bad = { 0 };
    struct adapter_fault fault = { NULL, NULL };
    struct adapter_exchange exchange;

    if (speech_read_request(body, span_cstr(dialect_speech.media_type), request, &facts, &bad) != 0)
        fail(bad.message);
    const struct adapter_order order = {
        .adapter = adapter_find(span_cstr(rows[row].adapter)),
        .speech = facts.speech,
        .asked_model = span_cstr("m"),
        .params = span_cstr(rows[row].params),
        .endpoint = "https://upstream.test/speech",
        .id = "0123456789abcdef0123456789abcdef",
    };
    if (adapter_call_new(&order, attempt, scratch, &fault) == NULL)
        fail(fault.message);
    arena_reset(attempt);
    struct adapter_call *call = adapter_call_new(&order, attempt, scratch, &fault);
    adapter_call_begin(call, &exchange);
    uint64_t took_us = clock_monotonic_us() - begun_us;
    arena_reset(attempt);
    arena_reset(request);
    return took_us;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static uint64_t took_us[COUNT_MAX];
    struct arena *request = arena_new(), *attempt = arena_new(), *scratch = arena_new();
    long count = argc == 2 ? atol(argv[1]) : 0;
    struct buf body;

    if (count < 1 || count > COUNT_MAX)
        fail("usage: longest COUNT");
    buf_init(&body, BODY_BYTES);
    for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
        write_body(&body, rows[row].voice, rows[row].is_escaped);
        for (long i = 0; i < count; i++)
            took_us[i] = run_once(row, buf_span(&body), request, attempt, scratch);
        qsort(took_us, (size_t)count, sizeof(took_us[0]), compare);
        printf("%s\"%s\":{\"p50\":%llu,\"p99\":%llu}", row == 0 ? "{" : ",", rows[row].name,
               (unsigned long long)took_us[count / 2], (unsigned long long)took_us[count * 99 / 100]);
    }
    printf("}\n");
    buf_free(&body);
    arena_free(scratch);
    arena_free(attempt);
    arena_free(request);
    return 0;
}

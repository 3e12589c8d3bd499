/*
 * Adapters: whatever an upstream sends, an adapter makes the same audio and the
 * same end of it in whatever pieces it comes, asks for nothing that it may not,
 * and has a class for what failed.
 *
 * Input: a byte for the order, the sizes of the pieces, the replies, each ended by
 * a byte 0x1E; the first line of a reply is its content type.
 */
#include "adapters/adapter.h"
#include "tests/fuzz/fuzz.h"

enum { AUDIO_BYTES = 16 * 1024 * 1024, REPLY_END = 0x1E, EXCHANGES_MAX = 4 };

#define TEXT                                                                                                 \
    "0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF012345" \
    "6789"
#define ASK(format) "{\"input\":\"Hi\",\"voice\":\"v\",\"response_format\":\"" format "\"}"
#define LONG(format)                                                                                  \
    "{\"input\":\"" TEXT TEXT TEXT TEXT TEXT TEXT TEXT TEXT TEXT TEXT TEXT TEXT "\",\"voice\":\"v\"," \
    "\"response_format\":\"" format "\"}"

static const struct {
    const char *adapter, *params, *body;
} orders[] = {
    { "openai", "", ASK("mp3") },
    { "openai", "",
      "{\"input\":\"<&>\\u0001\",\"voice\":\"v\",\"response_format\":\"pcm\",\"stream_format\":\"sse\"}" },
    { "azure", "", ASK("mp3") },
    { "dashscope-cosyvoice", "{\"model\":\"cosyvoice-v2\"}", ASK("mp3") },
    { "dashscope-cosyvoice", "{\"model\":\"cosyvoice-v2\"}", ASK("wav") },
    { "dashscope-cosyvoice", "{\"model\":\"qwen-tts\",\"stream\":false}", ASK("wav") },
    { "volcengine", "{\"appid\":\"1\"}", ASK("mp3") },
    { "volcengine", "{\"appid\":\"1\"}", LONG("mp3") },
    { "volcengine", "{\"appid\":\"1\"}", LONG("wav") },
    { "volcengine", "{\"appid\":\"1\"}", LONG("opus") },
    { "volcengine", "{\"appid\":\"1\"}", LONG("pcm") },
    { "volcengine", "{\"api\":\"v3\"}", ASK("mp3") },
    { "volcengine", "{\"api\":\"v3\"}", ASK("wav") },
    { "elevenlabs", "", ASK("wav") },
};

enum { N_ORDERS = sizeof(orders) / sizeof(orders[0]) };

/* What came of one call. */
struct result {
    struct arena *arena, *scratch;
    struct adapter_call *call;
    struct buf audio;
    enum adapter_step step;
    size_t exchanges;
};

static int take_audio(void *ctx, struct span audio)
{
    struct result *result = ctx;
    fuzz_check(audio.len > 0, "no empty audio is given");
    fuzz_check(buf_append_span(&result->audio, audio) == 0,
               "a reply makes little more audio than it has bytes");
    return 0;
}

static struct span take_reply(struct span *replies)
{
    size_t n = 0;
    while (n < replies->len && replies->ptr[n] != REPLY_END)
        n++;
    struct span reply = span_of(replies->ptr, n);
    n += n < replies->len;
    *replies = span_of(replies->ptr + n, replies->len - n);
    return reply;
}

static struct span take_line(struct span *rest)
{
    size_t n = 0;
    while (n < rest->len && rest->ptr[n] != '\n')
        n++;
    struct span line = span_of(rest->ptr, n);
    n += n < rest->len;
    *rest = span_of(rest->ptr + n, rest->len - n);
    return line;
}

/* One reply; the pieces are copies that are gone when the next one comes. */
static void run_exchange(struct result *result, struct span reply, struct fuzz_pieces *pieces,
                         struct adapter_exchange *next)
{
    struct span type = fuzz_copy(take_line(&reply));
    const struct adapter_reply head = { .status = 200, .content_type = type };

    result->step = adapter_call_head(result->call, &head);
    fuzz_free_copy(type);
    while (result->step == ADAPTER_MORE && reply.len > 0) {
        struct span piece = reply;
        if (pieces != NULL)
            piece = fuzz_next_piece(pieces, &reply);
        else
            reply.len = 0;
        struct span copy = fuzz_copy(piece);
        result->step = adapter_call_feed(result->call, copy);
        fuzz_free_copy(copy);
        fuzz_check(result->step != ADAPTER_AGAIN, "only an end leads to another exchange");
    }
    if (result->step == ADAPTER_MORE)
        result->step = adapter_call_finish(result->call, next);
    fuzz_check(result->step != ADAPTER_MORE, "an exchange that ended leads somewhere");
}

static void check_get(const char *url)
{
    fuzz_check(strncmp(url, "https://", 8) == 0, "a file is got over TLS");
    fuzz_check(strncmp(url, "https://upstream.test/", 22) == 0 || strstr(url, "aliyuncs.com") != NULL,
               "a file is got from its provider");
}

static void check_exchange(const struct adapter_exchange *exchange, size_t n)
{
    fuzz_check(exchange->url != NULL, "an exchange has a URL");
    fuzz_check(exchange->is_get || strncmp(exchange->url, "https://upstream.test/speech", 28) == 0,
               "what is sent goes to the endpoint");
    fuzz_check(n > 0 || (exchange->key_header != NULL && strstr(exchange->key_header, "{KEY}") != NULL),
               "the first exchange has a place for the key");
    fuzz_check(!exchange->is_get || exchange->key_header == NULL, "a key goes to its endpoint only");
    for (size_t i = 0; exchange->headers != NULL && exchange->headers[i] != NULL; i++)
        fuzz_check(strpbrk(exchange->headers[i], "\r\n") == NULL, "a header is one line");
    if (exchange->is_get)
        check_get(exchange->url);
}

static void run(size_t order_index, struct span replies, struct fuzz_pieces *pieces, struct result *result)
{
    struct request_facts facts = { 0 };
    struct request_fault bad = { 0 };
    struct adapter_fault fault = { NULL, NULL };
    struct adapter_exchange exchange;

    *result = (struct result){ .arena = arena_new(), .scratch = arena_new() };
    buf_init(&result->audio, AUDIO_BYTES);
    fuzz_check(speech_read_request(span_cstr(orders[order_index].body), span_cstr(dialect_speech.media_type),
                                   result->arena, &facts, &bad) == 0,
               "the order is one");
    struct adapter_order *order = arena_new_of(result->arena, struct adapter_order);
    *order = (struct adapter_order){
        .adapter = adapter_find(span_cstr(orders[order_index].adapter)),
        .speech = facts.speech,
        .asked_model = span_cstr("asked"),
        .params = span_cstr(orders[order_index].params),
        .endpoint = "https://upstream.test/speech",
        .id = "0123456789abcdef0123456789abcdef",
    };
    struct audio_sink *sink = arena_new_of(result->arena, struct audio_sink);
    *sink = (struct audio_sink){ .ctx = result, .write = take_audio };
    result->call = adapter_call_new(order, result->arena, result->scratch, &fault);
    fuzz_check(result->call != NULL, "the order can be carried out");
    result->call->sink = sink;
    adapter_call_begin(result->call, &exchange);
    do {
        check_exchange(&exchange, result->exchanges);
        fuzz_check(result->exchanges++ < EXCHANGES_MAX, "an order has few exchanges");
        run_exchange(result, take_reply(&replies), pieces, &exchange);
    } while (result->step == ADAPTER_AGAIN);
}

static void check_result(const struct result *result)
{
    fuzz_check(result->step == ADAPTER_DONE || result->step == ADAPTER_FAILED,
               "a call is done, or has failed");
    fuzz_check(result->call->audio_bytes == result->audio.len, "audio is counted");
    if (result->step == ADAPTER_DONE)
        fuzz_check(result->audio.len > 0, "a call without audio has failed");
    else
        fuzz_check(result->call->why != NULL, "a failure has a name");
    fuzz_check(result->call->failure.len <= ADAPTER_FAILURE_BYTES,
               "no more of a failure is kept than the bound");
}

/* A failure's words, cut anywhere, under any status. */
static void check_class(const struct adapter *adapter, struct span body, int status)
{
    struct arena *arena = arena_new();
    const struct adapter_failure failure = { .status = status, .reason = body, .body = body };
    struct adapter_opinion opinion;

    adapter_classify(adapter, &failure, arena, &opinion);
    fuzz_check(opinion.class <= ADAPTER_CLIENT, "a failure has one of the classes");
    fuzz_check(opinion.class == ADAPTER_UNKNOWN || opinion.rule != NULL, "who decides says by which rule");
    fuzz_check(!opinion.is_doubtful || opinion.class == ADAPTER_CLIENT,
               "only a caller's mistake is in doubt");
    arena_free(arena);
}

static void free_result(struct result *result)
{
    arena_free(result->arena);
    arena_free(result->scratch);
    buf_free(&result->audio);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    size_t order = fuzz_take_choice(&in, N_ORDERS);
    struct fuzz_pieces pieces = fuzz_take_pieces(&in);
    struct span replies = fuzz_rest(&in);
    struct result whole, cut;

    if (replies.len > AUDIO_BYTES / 64)
        return 0;
    run(order, replies, NULL, &whole);
    run(order, replies, &pieces, &cut);
    check_result(&whole);
    check_result(&cut);
    fuzz_check(whole.step == cut.step && whole.exchanges == cut.exchanges, "cuts change no end");
    fuzz_check(span_eq(buf_span(&whole.audio), buf_span(&cut.audio)), "cuts change no audio");
    const struct adapter *adapter = adapter_find(span_cstr(orders[order].adapter));
    check_class(adapter, replies, 200);
    check_class(adapter, replies, 400);
    check_class(adapter, replies, 429);
    free_result(&whole);
    free_result(&cut);
    return 0;
}

/*
 * Adapters: whatever an upstream sends, an adapter makes the same audio of it in
 * whatever pieces it comes, and ends.
 *
 * Input: a byte each for the adapter, the caller's body and the reply's type, the
 * sizes of the pieces, the reply. Further exchanges get the same reply.
 */
#include "adapters/adapter.h"
#include "core/base/buf.h"
#include "tests/fuzz/fuzz.h"

enum { AUDIO_BYTES = 64 * 1024 * 1024, EXCHANGES_MAX = 8 };

static const struct {
    const char *body, *params;
} orders[] = {
    { "{\"input\":\"Hi\",\"voice\":\"v\"}", "" },
    { "{\"input\":\"\xe4\xbd\xa0\xe5\xa5\xbd\xe3\x80\x82\",\"voice\":\"v\",\"response_format\":\"wav\"}",
      "{\"model\":\"cosyvoice-v2\",\"appid\":\"1\"}" },
    { "{\"input\":\"<&>\\u0001\",\"voice\":\"v\",\"response_format\":\"pcm\",\"stream_format\":\"sse\"}",
      "{\"model\":\"qwen3-tts-flash\",\"appid\":\"1\"}" },
    { "{\"input\":\"Hi.\",\"voice\":\"v\",\"response_format\":\"opus\"}",
      "{\"model\":\"cosyvoice-v2\",\"appid\":\"1\",\"api\":\"v3\"}" },
};

static const char *const types[] = { "audio/mpeg", "text/event-stream", "application/json", "" };

struct outcome {
    struct buf audio;
    enum adapter_step step;
    bool is_call; /* the order was accepted */
};

static int take_audio(void *ctx, struct span audio)
{
    struct outcome *out = ctx;
    fuzz_check(audio.len > 0, "audio that is given has bytes");
    buf_append_span(&out->audio, audio);
    return 0;
}

static enum adapter_step feed(struct adapter_call *call, struct span reply, const char *type,
                              struct fuzz_pieces *pieces, struct adapter_exchange *next)
{
    const struct adapter_reply head = { .status = 200, .content_type = span_cstr(type) };
    enum adapter_step step = adapter_call_head(call, &head);

    while (step == ADAPTER_MORE && reply.len > 0) {
        struct span piece = reply;
        if (pieces != NULL)
            piece = fuzz_next_piece(pieces, &reply);
        else
            reply.len = 0;
        struct span copy = fuzz_copy(piece); /* gone when the next one comes */
        step = adapter_call_feed(call, copy);
        fuzz_free_copy(copy);
        fuzz_check(step != ADAPTER_AGAIN, "another exchange begins when one has ended");
    }
    return step == ADAPTER_MORE ? adapter_call_finish(call, next) : step;
}

static void check_exchange(const struct adapter_exchange *exchange, unsigned n)
{
    fuzz_check(exchange->url != NULL && strncmp(exchange->url, "http", 4) == 0, "an exchange has a URL");
    fuzz_check(n > 0 || (exchange->key_header != NULL && strstr(exchange->key_header, "{KEY}") != NULL),
               "the first exchange has a place for the key");
    for (size_t i = 0; exchange->headers != NULL && exchange->headers[i] != NULL; i++)
        fuzz_check(strpbrk(exchange->headers[i], "\r\n") == NULL, "a header is one line");
}

static void run(const struct adapter *adapter, size_t which, const char *type, struct span reply,
                struct fuzz_pieces *pieces, struct outcome *out)
{
    struct arena *arena = arena_new(), *scratch = arena_new();
    const struct audio_sink sink = { .ctx = out, .write = take_audio };
    struct request_facts facts = { 0 };
    struct request_fault bad = { 0 };
    struct adapter_fault fault = { 0 };
    struct adapter_exchange exchange;

    *out = (struct outcome){ .step = ADAPTER_AGAIN };
    buf_init(&out->audio, AUDIO_BYTES);
    fuzz_check(speech_read_request(span_cstr(orders[which].body), arena, &facts, &bad) == 0,
               "the target's own bodies can be read");
    const struct adapter_order order = {
        .adapter = adapter,
        .speech = facts.speech,
        .asked_model = span_cstr("cosyvoice-v2"),
        .params = span_cstr(orders[which].params),
        .endpoint = "https://upstream.test/speech",
        .id = "0123456789abcdef0123456789abcdef",
    };
    struct adapter_call *call = adapter_call_new(&order, arena, scratch, &fault);
    out->is_call = call != NULL;
    if (call == NULL) {
        fuzz_check(fault.param != NULL && fault.message != NULL, "a refusal says why");
    } else {
        call->sink = &sink;
        adapter_call_begin(call, &exchange);
        for (unsigned n = 0; n < EXCHANGES_MAX && out->step == ADAPTER_AGAIN; n++) {
            check_exchange(&exchange, n);
            out->step = feed(call, reply, type, pieces, &exchange);
            fuzz_check(out->step != ADAPTER_MORE && out->step != ADAPTER_LEFT,
                       "a reply that has ended is followed by another or by nothing");
        }
        fuzz_check(out->step != ADAPTER_FAILED || call->why != NULL, "a failure has a name");
        fuzz_check(out->step != ADAPTER_DONE || call->audio_bytes > 0, "who is done has given audio");
        fuzz_check(call->audio_bytes == out->audio.len, "audio is counted");
        fuzz_check(call->failure.len <= ADAPTER_FAILURE_BYTES, "no more of a failure is kept than the bound");
    }
    arena_free(arena);
    arena_free(scratch);
}

/* A failure's words, cut anywhere, under any status. */
static void classify(const struct adapter *adapter, struct span body, int status)
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    size_t n_adapters = 0;
    while (adapter_name(n_adapters) != NULL)
        n_adapters++;
    fuzz_check(n_adapters > 0, "there are adapters");
    const char *name = adapter_name(fuzz_take_choice(&in, n_adapters));
    const struct adapter *adapter = adapter_find(span_cstr(name));
    size_t which = fuzz_take_choice(&in, sizeof(orders) / sizeof(orders[0]));
    const char *type = types[fuzz_take_choice(&in, sizeof(types) / sizeof(types[0]))];
    struct fuzz_pieces pieces = fuzz_take_pieces(&in);
    struct span reply = fuzz_rest(&in);
    struct outcome whole, cut;

    run(adapter, which, type, reply, NULL, &whole);
    run(adapter, which, type, reply, &pieces, &cut);
    if (whole.is_call) {
        fuzz_check(whole.step == cut.step, "cuts do not change how a reply ends");
        fuzz_check(span_eq(buf_span(&whole.audio), buf_span(&cut.audio)), "cuts change no audio");
    }
    classify(adapter, reply, 200);
    classify(adapter, reply, 400);
    classify(adapter, reply, 429);
    buf_free(&whole.audio);
    buf_free(&cut.audio);
    return 0;
}

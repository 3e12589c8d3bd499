/*
 * What it costs that a request is seen. In its worker: counting it, alone and while another
 * process counts into the same cells; its event's line; appending that to the spool. In the
 * shipper, afterwards: making its spans, as they are sent, and its row.
 *
 *   counting COUNT STATE_DIR
 *
 * Prints one line of JSON: nanoseconds of CPU for each, of a request with one attempt, and of counting
 * one that fell back twice; what the text of /metrics takes, and has, with MODELS models. The
 * spool is left in STATE_DIR.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/record/spool.h"
#include "core/store/request_log_row_internal.h"
#include "core/telemetry/otlp_trace.h"
#include "core/telemetry/prometheus.h"

enum {
    MODELS = 200,
    TEXT_BYTES = 128 * 1024 * 1024,
    IMAGE_BYTES = 4096,
    BATCH = 512,
    ROWS_BYTES = 4 * 1024 * 1024
};

/* --- a tree with one model --- */

static struct {
    _Alignas(64) char bytes[IMAGE_BYTES];
    uint32_t used;
} image;

static struct snap_str put_text(const char *text)
{
    uint32_t len = (uint32_t)strlen(text), at = image.used;
    memcpy(image.bytes + at, text, len + 1);
    image.used += (len + 8) / 8 * 8;
    return (struct snap_str){ at, len };
}

static struct snap_vec put_one(const void *item, size_t size)
{
    uint32_t at = image.used;
    memcpy(image.bytes + at, item, size);
    image.used += (uint32_t)(size + 7) / 8 * 8;
    return (struct snap_vec){ at, 1 };
}

static struct snap_root *make_tree(unsigned n)
{
    char name[32];
    struct snap_root *root = (struct snap_root *)(void *)image.bytes;
    struct snap_key key = { .fingerprint = "0123abcd" };

    memset(image.bytes, 0, sizeof(image.bytes));
    image.used = sizeof(*root);
    snprintf(name, sizeof(name), "model-%u", n);
    struct snap_upstream upstream = { .provider = put_text("openai"), .host = put_text("api.openai.com") };
    upstream.keys = put_one(&key, sizeof(key));
    struct snap_model model = { .name = put_text(name) };
    model.upstreams = put_one(&upstream, sizeof(upstream));
    root->models = put_one(&model, sizeof(model));
    return root;
}

/* --- a request --- */

static void add_attempt(struct request_event *event, const struct snap_root *root, const char *verdict,
                        int status)
{
    const struct snap_model *model = SNAP_ITEM(root, root->models, struct snap_model, 0);
    const struct snap_upstream *upstream = SNAP_ITEM(root, model->upstreams, struct snap_upstream, 0);
    struct attempt_event *attempt = event_add_attempt(event);

    attempt->upstream = span_cstr("a");
    attempt->host = span_cstr("api.openai.com");
    attempt->dialect = span_cstr("chat");
    attempt->key_fp = "0123abcd";
    attempt->verdict = verdict;
    attempt->status = status;
    attempt->took_us = 300000;
    attempt->first_byte_us = 290000;
    attempt->series = (struct attempt_series){
        .key = SNAP_ITEM(root, upstream->keys, struct snap_key, 0)->series,
        .provider = upstream->series,
        .route = upstream->route_series[SNAP_WAY_FIRST],
    };
    event->series = model->series[SNAP_WAY_FIRST];
}

static void make_event(struct request_event *event, const struct snap_root *root, unsigned failures)
{
    event_begin(event);
    event->dialect = "chat";
    event->endpoint = "chat/completions";
    event->mount = "/v1";
    event->request_id = "0123456789abcdef0123456789abcdef";
    event->trace = (struct trace_context){ .trace_id = "0af7651916cd43dd8448eb211c80319c",
                                           .span_id = "b7ad6b7169203331",
                                           .is_sampled = true };
    event->model = span_cstr("model-0");
    event->status = 200;
    event->total_us = 310000;
    event->upstream_us = 300000;
    event->ttft_us = 295000;
    event->usage = (struct usage){ .present = true, .input = 700, .output = 300 };
    for (unsigned i = 0; i < failures; i++)
        add_attempt(event, root, "rate", 429);
    add_attempt(event, root, "ok", 200);
}

/* --- measuring: CPU time, so that who else is there does not matter much --- */

static uint64_t spent_ns(void)
{
    struct timespec spent;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return (uint64_t)spent.tv_sec * 1000000000 + (uint64_t)spent.tv_nsec;
}

static double count_ns(struct telemetry *t, const struct request_event *event, unsigned count)
{
    uint64_t begun = spent_ns();
    for (unsigned i = 0; i < count; i++)
        telemetry_count(t, event);
    return (double)(spent_ns() - begun) / count;
}

/* Beside another process, which counts until it is ended. */
static double count_beside_ns(struct telemetry *t, const struct request_event *event, unsigned count)
{
    pid_t other = fork();
    if (other == 0) {
        for (;;)
            telemetry_count(t, event);
    }
    usleep(10000);
    double ns = count_ns(t, event, count);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    return ns;
}

static double write_ns(const struct request_event *event, unsigned count)
{
    struct buf line;
    uint64_t begun = spent_ns();

    buf_init(&line, EVENT_LIMIT_BYTES);
    for (unsigned i = 0; i < count; i++) {
        buf_clear(&line);
        event_write(event, &line);
    }
    buf_free(&line);
    return (double)(spent_ns() - begun) / count;
}

/* --- what becomes of the line --- */

/* As a worker appends it. */
static double append_ns(const char *state_dir, struct span line, unsigned count)
{
    struct spool_plan plan = { .state_dir = state_dir,
                               .program = "bench",
                               .max_bytes = (uint64_t)64 * 1024 * 1024 };
    struct spool spool;
    struct error e;

    if (spool_shared_open(state_dir, "bench", false, &plan.shared, &e) != 0 ||
        spool_open(&plan, &spool, &e) != 0) {
        fprintf(stderr, "counting: %s\n", e.text);
        exit(1);
    }
    uint64_t begun = spent_ns();
    for (unsigned i = 0; i < count; i++)
        if (spool_append(&spool, line) != 0)
            exit(1);
    double ns = (double)(spent_ns() - begun) / count;
    spool_close(&spool);
    return ns;
}

/* As the shipper packs them, in batches. */
static double trace_ns(struct span line, unsigned batches)
{
    static const struct otlp_attribute service = { "service.name", "bench" };
    const struct otlp_settings settings = {
        .resource = &service, .n_resource = 1, .span_value_limit = OTLP_NO_LIMIT, .span_count_limit = 128
    };
    struct arena *arena = arena_new();
    struct span lines[BATCH];

    for (size_t i = 0; i < BATCH; i++)
        lines[i] = line;
    uint64_t begun = spent_ns();
    for (unsigned i = 0; i < batches; i++) {
        Otlp__TraceRequest *request = otlp_trace_request(&settings, "instance", lines, BATCH, arena);
        if (request == NULL)
            exit(1);
        size_t size = otlp__trace_request__get_packed_size(request);
        otlp__trace_request__pack(request, arena_alloc(arena, size));
        arena_reset(arena);
    }
    double ns = (double)(spent_ns() - begun) / batches / BATCH;
    arena_free(arena);
    return ns;
}

static double row_ns(struct span line, unsigned batches)
{
    struct arena *arena = arena_new();
    struct json_writer w;
    struct buf rows;
    struct error e;

    buf_init(&rows, ROWS_BYTES);
    uint64_t begun = spent_ns();
    for (unsigned i = 0; i < batches * BATCH; i++) {
        if (i % BATCH == 0) {
            buf_clear(&rows);
            arena_reset(arena);
        }
        jw_init(&w, &rows);
        if (request_log_write_row(line, arena, &w, &e) != 0)
            exit(1);
    }
    double ns = (double)(spent_ns() - begun) / batches / BATCH;
    buf_free(&rows);
    arena_free(arena);
    return ns;
}

static void print_telling(const struct request_event *event, const char *state_dir, unsigned count)
{
    struct buf line;

    buf_init(&line, EVENT_LIMIT_BYTES);
    event_write(event, &line);
    printf("\"append_ns\":%.0f,", append_ns(state_dir, buf_span(&line), count));
    printf("\"trace_ns\":%.0f,", trace_ns(buf_span(&line), count / BATCH + 1));
    printf("\"row_ns\":%.0f,", row_ns(buf_span(&line), count / BATCH + 1));
    buf_free(&line);
}

static void print_text(const struct telemetry *t)
{
    const struct series_facts facts = { METRIC_OF_ROUTER, "instance", "version" };
    struct buf text;

    buf_init(&text, TEXT_BYTES);
    uint64_t begun = spent_ns();
    prometheus_write(t, &facts, PROMETHEUS_TEXT, &text);
    printf("\"text_ms\":%.1f,\"text_mb\":%.1f}\n", (double)(spent_ns() - begun) / 1e6,
           (double)text.len / 1e6);
    buf_free(&text);
}

int main(int argc, char **argv)
{
    static struct request_event plain, fallen;
    unsigned count = argc == 3 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    struct telemetry *t = mmap(NULL, sizeof(*t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (count == 0 || t == MAP_FAILED) {
        fprintf(stderr, "usage: counting COUNT STATE_DIR\n");
        return 1;
    }
    telemetry_init(t);
    for (unsigned n = MODELS; n-- > 0;)
        telemetry_assign(t, make_tree(n));
    make_event(&plain, (const struct snap_root *)(const void *)image.bytes, 0);
    make_event(&fallen, (const struct snap_root *)(const void *)image.bytes, 2);
    count_ns(t, &plain, count / 10); /* the pages are there then */
    printf("{\"plain_ns\":%.0f,", count_ns(t, &plain, count));
    printf("\"fallen_ns\":%.0f,", count_ns(t, &fallen, count));
    printf("\"beside_ns\":%.0f,", count_beside_ns(t, &plain, count));
    printf("\"line_ns\":%.0f,", write_ns(&plain, count / 10));
    print_telling(&plain, argv[2], count / 10);
    print_text(t);
    return 0;
}

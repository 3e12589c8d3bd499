/*
 * What a new connection to an upstream costs its worker: without TLS, with a full handshake, and
 * with one that resumes a session.
 *
 *   handshakes COUNT CA_FILE KEY HTTP_URL HTTPS_URL…
 *
 * COUNT exchanges of each way, in batches that alternate. The upstream answers a GET with that key,
 * and closes. Prints one line of JSON, microseconds of this process's CPU for an exchange with its
 * connection, means over all batches: {"plain": N, "full": [N of each URL], "resumed": [the same]}.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/upstream/exchange.h"

enum { BATCH = 20, URLS_MAX = 4 };

static char key_header[256];

static void fail(const char *what)
{
    fprintf(stderr, "handshakes: %s\n", what);
    exit(1);
}

static double cpu_us(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec * 1e6 + (double)used.tv_nsec / 1e3;
}

static enum exchange_want on_head(void *ctx, const struct exchange_head *head)
{
    (void)ctx;
    (void)head;
    return EXCHANGE_MORE;
}

static enum exchange_want on_data(void *ctx, struct span piece)
{
    (void)ctx;
    (void)piece;
    return EXCHANGE_CONTENT;
}

static void ask(struct exchange_client *client, const char *url)
{
    const struct exchange_receiver receiver = { .on_head = on_head, .on_data = on_data };
    const char *const headers[] = { key_header, NULL };
    const struct exchange_request request = {
        .url = url,
        .headers = headers,
        .clocks = { .connect_ms = 10000,
                    .first_content_ms = 10000,
                    .idle_ms = 10000,
                    .chain_us = clock_monotonic_us() + 30 * US_PER_S },
        .caller_fd = -1,
    };
    struct exchange_result result;

    if (exchange_begin(client, &request, &receiver, &result) != NULL)
        exchange_wait(client, UINT64_MAX);
    if (result.end != EXCHANGE_END_WHOLE || result.status != 200 || result.is_reused)
        fail(result.detail != NULL ? result.detail : exchange_end_name(result.end));
}

/* CPU of a batch; the first exchange, which leaves a session, is not in it. */
static double run_batch(struct exchange_client *client, const char *url)
{
    ask(client, url);
    double before = cpu_us();
    for (int i = 0; i < BATCH; i++)
        ask(client, url);
    return cpu_us() - before;
}

static void print_list(const char *name, const double *used, int n, double count)
{
    printf("\"%s\": [", name);
    for (int i = 0; i < n; i++)
        printf("%s%.1f", i > 0 ? ", " : "", used[i] / count);
    printf("]");
}

int main(int argc, char **argv)
{
    int batches = argc < 6 ? 0 : atoi(argv[1]) / BATCH, n_urls = argc - 5;
    double plain = 0, full[URLS_MAX] = { 0 }, resumed[URLS_MAX] = { 0 };
    struct trust alone = { 0 }, shared = { 0 };
    struct exchange_client *of_alone, *of_shared;
    struct error e;

    if (batches < 1 || n_urls > URLS_MAX)
        fail("handshakes COUNT CA_FILE KEY HTTP_URL HTTPS_URL...");
    snprintf(key_header, sizeof(key_header), "Authorization: Bearer %s", argv[3]);
    if (exchange_init_master(&e) != 0 || trust_load(argv[2], &shared.store, &e) != 0 ||
        trust_load(argv[2], &alone.store, &e) != 0 || session_cache_open(&shared.sessions, &e) != 0)
        fail(e.text);
    shared.is_settled = alone.is_settled = true;
    if (exchange_open(&alone, &of_alone, &e) != 0 || exchange_open(&shared, &of_shared, &e) != 0)
        fail(e.text);
    for (int batch = 0; batch < batches; batch++) {
        plain += run_batch(of_alone, argv[4]);
        for (int i = 0; i < n_urls; i++) {
            full[i] += run_batch(of_alone, argv[5 + i]);
            resumed[i] += run_batch(of_shared, argv[5 + i]);
        }
    }
    double count = (double)batches * BATCH;
    printf("{\"plain\": %.1f, ", plain / count);
    print_list("full", full, n_urls, count);
    printf(", ");
    print_list("resumed", resumed, n_urls, count);
    printf("}\n");
    exchange_close(of_alone);
    exchange_close(of_shared);
    trust_free(&alone);
    trust_free(&shared);
    return 0;
}

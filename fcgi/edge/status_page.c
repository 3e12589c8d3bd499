#include "fcgi/edge/status_page.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/arena.h"
#include "core/base/clock.h"
#include "core/base/version.h"
#include "fcgi/edge/health.h"

static const char HEAD[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta http-equiv=\"refresh\" "
    "content=\"5\">"
    "<title>llm-router</title><style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}"
    "td,th{padding:.2em .8em;border-bottom:1px solid "
    "#ccc;text-align:left}td.n{text-align:right}</style></head>"
    "<body>\n";

bool status_page_is_wanted(const char *accept)
{
    return accept != NULL && strstr(accept, "text/html") != NULL && strstr(accept, "json") == NULL;
}

/* Control characters have no place in HTML, escaped or not. */
static void write_text(struct buf *out, struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.ptr[i];
        if (c < 0x20 || c == 0x7f)
            buf_append_char(out, '?');
        else if (strchr("&<>\"'", c) != NULL)
            buf_printf(out, "&#%d;", c);
        else
            buf_append_char(out, (char)c);
    }
}

static void write_cell(struct buf *out, struct span text)
{
    buf_append_cstr(out, "<td>");
    write_text(out, text);
    buf_append_cstr(out, "</td>");
}

static void write_seconds(struct buf *out, uint64_t ms)
{
    buf_printf(out, "<td class=\"n\">%" PRIu64 ".%" PRIu64 " s</td>", ms / 1000, ms % 1000 / 100);
}

static void write_tree(struct buf *out, const struct mapping *mapping)
{
    struct tree_in_force tree;
    char since[CLOCK_TEXT_BYTES], started[CLOCK_TEXT_BYTES];
    uint64_t generation = mapping_in_force(mapping, &tree);

    clock_text(mapping->started_wall_us, started);
    buf_printf(out, "<h1>llm-router %s</h1>\n<p>Instance %s, since %s.</p>\n", LLM_ROUTER_VERSION,
               mapping->instance, started);
    if (generation == 0 || tree.version[0] == '\0') {
        buf_append_cstr(out, "<p>No configuration is in force.</p>\n");
    } else {
        clock_text(tree.since_us, since);
        buf_append_cstr(out, "<p>Configuration ");
        write_text(out, span_cstr(tree.version));
        buf_printf(out, ", generation %" PRIu64 ", since %s.</p>\n", generation, since);
    }
    if (atomic_load_explicit(&mapping->keeper.is_refused, memory_order_relaxed) != 0)
        buf_append_cstr(out, "<p><b>The store holds a configuration that was refused.</b></p>\n");
    if (!mapping_is_store_ok(mapping))
        buf_append_cstr(out, "<p><b>The store cannot be read.</b></p>\n");
    if (health_is_pools_alone(mapping))
        buf_append_cstr(out, "<p><b>Redis does not count slots of pools.</b></p>\n");
}

static void write_stages(struct buf *out, const struct mapping *mapping)
{
    unsigned counts[STAGE_COUNT];

    scoreboard_count_stages(mapping, counts);
    buf_printf(out, "<h2>Workers: %u</h2>\n<table><tr>", scoreboard_alive(mapping));
    for (unsigned i = STAGE_IDLE; i < STAGE_COUNT; i++)
        buf_printf(out, "<th>%s</th>", stage_name((enum stage)i));
    buf_append_cstr(out, "<th>queue</th></tr>\n<tr>");
    for (unsigned i = STAGE_IDLE; i < STAGE_COUNT; i++)
        buf_printf(out, "<td class=\"n\">%u</td>", counts[i]);
    buf_printf(out, "<td class=\"n\">%" PRIu64 "</td></tr></table>\n",
               atomic_load_explicit(&mapping->waiting, memory_order_relaxed));
}

/* --- requests in hand --- */

struct age {
    uint64_t started_us;
    unsigned slot;
};

static int compare_ages(const void *a, const void *b)
{
    const struct age *x = a, *y = b;
    return (x->started_us > y->started_us) - (x->started_us < y->started_us);
}

static void write_request(struct buf *out, const struct in_hand_look *look)
{
    buf_append_cstr(out, "<tr>");
    write_seconds(out, look->age_ms);
    write_cell(out, span_cstr(stage_name(look->stage)));
    write_seconds(out, look->stage_ms);
    write_cell(out, span_cstr(look->request.endpoint));
    write_cell(out, span_cstr(look->request.model));
    write_cell(out, look->upstream);
    write_cell(out, span_cstr(look->request.request_id));
    buf_printf(out, "<td class=\"n\">%d</td></tr>\n", (int)look->pid);
}

static void write_requests(struct buf *out, const struct mapping *mapping,
                           struct in_hand_upstreams *upstreams)
{
    struct age *ages = xcalloc(mapping->n_records, sizeof(*ages));
    unsigned n = 0;

    for (unsigned i = 0; i < mapping->n_records; i++) {
        uint64_t started =
            atomic_load_explicit(&mapping->workers[i].request.started_us, memory_order_relaxed);
        if (started != 0)
            ages[n++] = (struct age){ started, i };
    }
    qsort(ages, n, sizeof(*ages), compare_ages);
    buf_printf(out, "<h2>Requests in hand: %u</h2>\n", n);
    if (n > 0)
        buf_append_cstr(out,
                        "<table><tr><th>age</th><th>stage</th><th>for</th><th>endpoint</th><th>model</th>"
                        "<th>upstream</th><th>request</th><th>process</th></tr>\n");
    for (unsigned i = 0; i < n; i++) {
        struct in_hand_look look;
        in_hand_look(upstreams, &mapping->workers[ages[i].slot], &look);
        if (look.has_request)
            write_request(out, &look);
    }
    if (n > 0)
        buf_append_cstr(out, "</table>\n");
    free(ages);
}

void status_page_write(const struct mapping *mapping, struct in_hand_upstreams *upstreams, struct buf *out)
{
    buf_append_cstr(out, HEAD);
    write_tree(out, mapping);
    write_stages(out, mapping);
    write_requests(out, mapping, upstreams);
    buf_append_cstr(out, "</body></html>\n");
}

/* top: a running instance, live. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "admin/ctl/ctl.h"
#include "admin/ctl/printable.h"
#include "admin/ctl/screen.h"
#include "admin/ctl/top_draw.h"
#include "core/base/clock.h"

#define INTERVAL_MIN_S 0.1
#define INTERVAL_MAX_S 60.0

static int read_interval(const struct invocation *call, uint64_t *out_us)
{
    const char *text = call->options[OPTION_INTERVAL];
    char *end = NULL;
    double seconds = text == NULL ? 1.0 : strtod(text, &end);

    if (end != NULL &&
        (end == text || *end != '\0' || !(seconds >= INTERVAL_MIN_S && seconds <= INTERVAL_MAX_S)))
        return ctl_fail(call, CTL_USAGE, "--interval is \"%.40s\", but must be %.1f to %.0f seconds", text,
                        INTERVAL_MIN_S, INTERVAL_MAX_S);
    *out_us = (uint64_t)(seconds * (double)US_PER_S);
    return CTL_OK;
}

/* One frame, after an interval in which requests were counted. */
static int show_once(const struct invocation *call, struct top *top, uint64_t interval_us)
{
    const struct timespec pause = { .tv_sec = (time_t)(interval_us / US_PER_S),
                                    .tv_nsec = (long)(interval_us % US_PER_S * 1000) };
    struct frame frame;
    struct error e;
    struct buf text;

    int r = top_look(top, call->arena, &frame, &e);
    if (r == 0) {
        nanosleep(&pause, NULL);
        r = top_look(top, call->arena, &frame, &e);
    }
    if (r != 0)
        return ctl_fail(call, CTL_REFUSED, "%s", e.text);
    buf_init(&text, TOP_DRAW_BYTES);
    if (call->options[OPTION_JSON] != NULL)
        top_draw_json(&frame, &text);
    else
        top_draw_text(&frame, SIZE_MAX, SIZE_MAX, &text);
    int status = ctl_print(call, buf_span(&text));
    buf_free(&text);
    return status;
}

/* An instance that is not there is waited for: it may be starting again. */
static void show_absence(const struct error *e, size_t columns, struct buf *out)
{
    printable_append(out, span_cstr(e->text), columns);
    buf_append_char(out, '\n');
    printable_append(out, span_cstr("Waiting for it; q leaves."), columns);
    buf_append_char(out, '\n');
}

static int show_live(const struct invocation *call, struct top *top, uint64_t interval_us)
{
    struct arena *arena = arena_new();
    struct error e;
    struct buf text;
    enum screen_event event = SCREEN_CHANGED;
    uint64_t due_us = clock_monotonic_us();

    buf_init(&text, TOP_DRAW_BYTES);
    int r = screen_enter(&e);
    if (r != 0) {
        r = ctl_fail(call, CTL_USAGE, "%s; --once shows one frame", e.text);
        goto out;
    }
    while (event != SCREEN_LEAVE) {
        const struct screen_size size = screen_size();
        struct frame frame;
        buf_clear(&text);
        if (top_look(top, arena, &frame, &e) == 0)
            top_draw_text(&frame, size.rows, size.columns, &text);
        else
            show_absence(&e, size.columns, &text);
        screen_show(buf_span(&text));
        arena_reset(arena);
        if (event == SCREEN_TIME_UP)
            due_us = clock_monotonic_us();
        event = screen_wait(due_us + interval_us);
    }
    screen_leave();
out:
    buf_free(&text);
    arena_free(arena);
    return r;
}

int ctl_top(const struct invocation *call)
{
    bool is_once = call->options[OPTION_ONCE] != NULL || call->options[OPTION_JSON] != NULL;
    uint64_t interval_us = 0;
    struct top top;

    int status = read_interval(call, &interval_us);
    if (status != CTL_OK)
        return status;
    top_init(&top, ctl_directory(call, OPTION_RUN_DIR, "LLM_ROUTER_RUN_DIR", "/run/llm-router"),
             ctl_directory(call, OPTION_STATE_DIR, "LLM_ROUTER_STATE_DIR", "/var/lib/llm-router"),
             call->arena);
    status = is_once ? show_once(call, &top, interval_us) : show_live(call, &top, interval_us);
    top_close(&top);
    return status;
}

/* /livez and /readyz. The health of provider keys never matters here. */
#include "fcgi/edge/edge.h"

#include "core/base/clock.h"

enum { VIEW_OLD_US = 5 * 1000 * 1000 }; /* a keeper that has not looked for so long is no witness */

void serve_livez(struct turn *turn)
{
    reply_json(&turn->reply, 200, span_cstr("{\"status\":\"live\"}"));
}

static bool is_store_ok(const struct mapping *mapping)
{
    uint64_t checked = atomic_load_explicit(&mapping->keeper.checked_us, memory_order_acquire);
    return checked != 0 && clock_monotonic_us() - checked < VIEW_OLD_US &&
           atomic_load_explicit(&mapping->keeper.is_store_ok, memory_order_relaxed) != 0;
}

void serve_readyz(struct turn *turn)
{
    const struct mapping *mapping = turn->worker->process->mapping;
    bool store = is_store_ok(mapping);
    bool workers = scoreboard_alive(mapping) > 0;
    bool serves = turn->root != NULL && workers;
    bool is_ready = turn->worker->shared->settings->is_ready_strict ? store && workers : serves;

    const char *body = arena_printf(
        turn->request.arena, "{\"status\":\"%s\",\"checks\":{\"store\":\"%s\",\"workers\":\"%s\"}}",
        is_ready ? "ready" : "not_ready", store ? "ok" : "fail", workers ? "ok" : "fail");
    reply_json(&turn->reply, is_ready ? 200 : 503, span_cstr(body));
}

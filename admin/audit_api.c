/* Who has changed what. */
#include "admin/answer.h"

enum { LINES_PRESET = 100 };

void admin_get_audit_log(struct admin_turn *turn)
{
    struct arena *arena = turn->request.arena;
    struct span lines;
    struct error e;
    size_t max;

    if (!admin_limit(turn, LINES_PRESET, &max))
        return;
    if (store_audit_log(turn->worker->store, max, arena, &lines, &e) != 0) {
        admin_fail_store(turn, &e);
        return;
    }
    const char *body = arena_printf(arena, "{\"entries\":%.*s}", (int)lines.len, lines.ptr);
    admin_reply(turn, 200, span_cstr(body), NULL);
}

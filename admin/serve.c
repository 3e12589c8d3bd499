/* One request, of an administrator or for a page, from its parameters to its end. */
#include "admin/admin.h"

#include "admin/answer.h"
#include "admin/pages.h"

void admin_serve(struct admin_worker *worker, struct conn *conn)
{
    const struct admin_settings *settings = worker->shared->settings;
    struct admin_turn turn = { .worker = worker };
    struct failure failure;

    int r = request_read(&turn.request, conn, worker->arena, (size_t)settings->max_header_bytes,
                         (size_t)settings->max_body_bytes, &failure);
    reply_init(&turn.reply, conn);
    turn.reply.request_id = turn.request.id;
    if (r != 0)
        admin_fail(&turn, &failure);
    else if (!pages_serve(&turn) && admin_identify(&turn))
        admin_route(&turn);
    conn_end(conn);
    reply_free(&turn.reply);
    arena_reset(worker->arena);
}

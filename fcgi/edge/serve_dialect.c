/* POST of a dialect's endpoint: read, scan, plan, attempt, relay. */
#include "fcgi/edge/edge.h"

#include "core/base/clock.h"
#include "core/dialect/speech.h"
#include "core/json/writer.h"
#include "core/signal/memo.h"
#include "fcgi/edge/limits.h"
#include "fcgi/edge/slots.h"
#include "fcgi/edge/speech.h"
#include "fcgi/edge/voice_packs.h"

enum { DETAILS_BYTES = 512 * 1024 };

static struct snap_str preset_chat(const struct snap_root *root)
{
    return root->default_chat_model;
}

static struct snap_str preset_tts(const struct snap_root *root)
{
    return root->default_tts_model;
}

/* What differs on the way of a request between dialects that upstreams speak and
 * those that are adapted. */
static const struct service {
    enum model_parts part;
    struct snap_str (*preset)(const struct snap_root *root);
    const struct snap_model *(*find)(const struct snap_root *root, struct span name);
    bool (*can_serve)(void *ctx, const struct snap_upstream *upstream);
    const struct attempt_kind *attempts;
} services[] = {
    [false] = { MODELS_LLM, preset_chat, snapshot_model, NULL, &attempts_of_dialect },
    [true] = { MODELS_TTS, preset_tts, snapshot_tts_model, speech_can_serve, &attempts_of_speech },
};

static void list_name(void *ctx, struct span name)
{
    jw_string(ctx, name);
}

void turn_fail_unknown_model(struct turn *turn, struct span requested, enum model_parts parts)
{
    struct failure failure = { .kind = FAILURE_UNKNOWN_MODEL, .param = "model" };
    struct json_writer w;
    struct buf details;

    buf_init(&details, DETAILS_BYTES);
    if (turn->mount->form == ERROR_FORM_CODED) {
        jw_init(&w, &details);
        jw_begin_object(&w);
        jw_member_span(&w, "requested", requested);
        jw_key(&w, "available");
        jw_begin_array(&w);
        turn_visit_models(turn, parts, list_name, &w);
        jw_end_array(&w);
        jw_end_object(&w);
        if (!details.overflowed)
            failure.details = buf_span(&details);
    } else {
        struct span shown = span_of(requested.ptr, requested.len > 200 ? 200 : requested.len);
        failure.message = arena_printf(turn->request.arena,
                                       "The model `%.*s` does not exist or you do not have access to it.",
                                       (int)shown.len, shown.ptr);
    }
    turn_fail(turn, &failure);
    buf_free(&details);
}

/* Reads and scans the body: 0, or it has been answered. */
static int read_request(struct turn *turn, const struct dialect *dialect, struct request_facts *facts)
{
    struct failure failure = { .kind = FAILURE_KIND_COUNT };
    struct request_fault fault;
    struct span body;

    struct span type = span_cstr(conn_param(turn->request.conn, "CONTENT_TYPE"));

    if (dialect->body_bytes != 0 && dialect->body_bytes < turn->request.max_body_bytes)
        turn->request.max_body_bytes = dialect->body_bytes;
    int r = request_read_body(&turn->request, dialect->media_type, &body, &failure);
    if (r != 0 && failure.kind == FAILURE_KIND_COUNT) {
        turn->event->end = EVENT_END_CLIENT_GONE;
        return r;
    }
    if (r == 0 && dialect->read_request(body, type, turn->request.arena, facts, &fault) != 0) {
        failure = (struct failure){
            .kind = fault.is_syntax ? FAILURE_INVALID_JSON : FAILURE_INVALID_REQUEST,
            .message = fault.message,
            .param = fault.param,
        };
        r = ERR_FORMAT;
    }
    if (r != 0) {
        turn_fail(turn, &failure);
        return r;
    }
    turn->event->body_bytes = body.len;
    if (facts->speech != NULL)
        turn->event->text_utf16 = facts->speech->input_utf16;
    turn->event->has_stream = true;
    turn->event->is_stream = facts->is_stream;
    turn->event->model = facts->model;
    turn_note(turn);
    return 0;
}

/* The model that serves: the asked one, or the default for none, "" and "auto". */
static const struct snap_model *find_model(struct turn *turn, const struct dialect *dialect,
                                           const struct service *service, const struct request_facts *facts)
{
    const struct snap_root *root = turn->root;
    bool wants_default = facts->model.len == 0 || span_is(facts->model, "auto");

    if (wants_default && dialect->needs_model) {
        turn_fail(turn, &(struct failure){ .kind = FAILURE_MISSING_MODEL, .param = "model" });
        return NULL;
    }
    struct span name = wants_default ? snap_span(root, service->preset(root)) : facts->model;
    const struct snap_model *model = name.len > 0 ? service->find(root, name) : NULL;

    if (!root->has_tree || !turn->worker->shared->has_keys || (wants_default && model == NULL)) {
        struct failure failure = { .kind = FAILURE_CONFIG_NOT_SET };
        if (wants_default && root->has_tree)
            failure.message =
                name.len == 0 ? "No default model is set." : "The default model does not exist.";
        turn_fail(turn, &failure);
        return NULL;
    }
    if (model == NULL || (turn->principal != NULL && !snapshot_may_use(root, turn->principal, name))) {
        turn_fail_unknown_model(turn, name, service->part);
        return NULL;
    }
    turn->event->model_routed = name;
    return model;
}

/* One slow provider must not have all workers. 0, or it has been answered. */
static int take_share(struct turn *turn, const struct snap_model *model, enum model_parts part)
{
    const struct engine_process *process = turn->worker->process;
    const struct span texts[] = { span_cstr(part == MODELS_TTS ? "share of tts" : "share of llm"),
                                  snap_span(turn->root, model->name) };
    unsigned limit = engine_pool(process->settings).max * model->worker_share_percent / 100;

    if (model->worker_share_percent == 100 ||
        scoreboard_take_share(process->mapping, process->record, memo_fact(texts, 2), limit > 0 ? limit : 1))
        return 0;
    turn_fail(turn, &(struct failure){ .kind = FAILURE_MODEL_BUSY, .retry_after_s = 1 });
    return ERR_LIMIT;
}

/* The whole chain's deadline. A plain request's first byte is the end of its
 * generation: where more is granted for that, the chain has it too. */
static uint64_t chain_deadline(const struct turn *turn, const struct snap_model *model, bool is_stream)
{
    uint64_t ms = model->full_chain_timeout_ms;
    for (unsigned i = 0; i < model->upstreams.count && !is_stream; i++) {
        uint32_t plain = SNAP_ITEM(turn->root, model->upstreams, struct snap_upstream, i)->plain_timeout_ms;
        ms = plain > ms ? plain : ms;
    }
    return clock_monotonic_us() + ms * US_PER_MS;
}

static uint64_t now_us(void *ctx)
{
    (void)ctx;
    return clock_monotonic_us();
}

/* No upstream of the model can do what is asked. */
static void fail_unserved(const struct errand *errand)
{
    turn_fail(errand->turn, &(struct failure){
                                .kind = FAILURE_INVALID_REQUEST,
                                .param = errand->unserved_param,
                                .message = errand->unserved_message,
                            });
}

static void conclude(struct errand *errand, const struct loop_result *result)
{
    struct turn *turn = errand->turn;

    switch (result->end) {
    case LOOP_CANCELLED:
        turn->event->end = EVENT_END_CLIENT_GONE;
        break;
    case LOOP_REFUSED:
        answer_refuse(errand->answer, &result->refusal);
        break;
    case LOOP_FAILED:
        turn->event->is_exhausted = result->is_exhausted;
        if (result->failure.kind == FAILURE_ALL_SKIPPED)
            slots_fail(errand);
        else
            answer_fail(errand->answer, &result->failure);
        break;
    case LOOP_ANSWERED: /* the attempt has written the reply and said how it ended */
        if (errand->is_cut_short)
            conn_abort(turn->request.conn);
        else if (turn->event->end != EVENT_END_CLIENT_GONE)
            reply_finish(&turn->reply, (struct span){ NULL, 0 });
        break;
    }
}

void serve_dialect(struct turn *turn, const struct dialect *dialect)
{
    struct request_facts facts;
    struct loop_result result;
    struct plan plan;

    turn->event->dialect = dialect->name;
    if (read_request(turn, dialect, &facts) != 0 || voice_packs_apply(turn, &facts) != 0)
        return;
    const struct service *service = &services[dialect->is_adapted];
    const struct snap_model *model = find_model(turn, dialect, service, &facts);
    if (model == NULL || take_share(turn, model, service->part) != 0)
        return;
    struct answer answer;
    struct errand errand = {
        .turn = turn,
        .dialect = dialect,
        .facts = &facts,
        .model = model,
        .kind = service->attempts,
        .answer = &answer,
        .way = facts.transcription != NULL ? SNAP_WAY_TRANSCRIPTION : SNAP_WAY_FIRST,
        .deadline_us = chain_deadline(turn, model, facts.is_stream),
    };
    const struct plan_facts plan_facts = {
        .root = turn->root,
        .model = model,
        .can_serve = service->can_serve,
        .ctx = &errand,
    };
    const struct loop_ops ops = {
        .ctx = &errand,
        .now_us = now_us,
        .admit = slots_admit,
        .begin = race_begin,
        .wait = race_wait,
        .admit_beside = race_admit_beside,
        .cancel = race_cancel,
    };

    turn->event->series = model->series[errand.way];
    turn_note(turn);
    answer_init(&answer, turn, dialect, model, facts.is_stream);
    plan_make(&plan_facts, turn->request.arena, &plan);
    if (plan.count == 0) {
        fail_unserved(&errand);
        return;
    }
    if (!limits_admit(turn, dialect, &facts) || !slots_take(&errand, &plan))
        return;
    loop_run(&plan_facts, &plan, errand.deadline_us, &ops, &result);
    conclude(&errand, &result);
}

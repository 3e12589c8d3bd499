/* GET audio/voices: the voices that a speech model can be asked for. */
#include "fcgi/edge/edge.h"

#include "adapters/adapter.h"
#include "core/voices/catalog.h"

enum { LOCALE_MAX_BYTES = 35 }; /* RFC 5646, 4.4.1 */

static const char voices_before[] = "{\"voices\":[", voices_after[] = "],\"recommended\":", closing[] = "}";

/* ---- what is asked ---- */

static void fail_parameter(struct turn *turn, const char *name, const char *message)
{
    turn_fail(turn, &(struct failure){ .kind = FAILURE_INVALID_REQUEST, .param = name, .message = message });
}

static bool is_language_range(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.ptr[i];
        if (!(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') && !(c >= '0' && c <= '9') && c != '-')
            return false;
    }
    return text.len <= LOCALE_MAX_BYTES;
}

/* The filters of the query; one that is empty asks for nothing. */
static int read_filter(struct turn *turn, struct voice_filter *filter)
{
    struct span gender = { NULL, 0 };

    request_query(&turn->request, "locale", &filter->locale);
    request_query(&turn->request, "q", &filter->words);
    request_query(&turn->request, "gender", &gender);
    if (!is_language_range(filter->locale))
        fail_parameter(turn, "locale", "`locale` must be a language tag such as en or en-US.");
    else if (filter->words.len > VOICE_WORDS_MAX_BYTES)
        fail_parameter(turn, "q", "`q` must have at most 256 bytes.");
    else if (gender.len > 0 && voice_gender_by_name(gender, &filter->gender) != 0)
        fail_parameter(turn, "gender", "`gender` must be female, male or neutral.");
    else
        return 0;
    return ERR_FORMAT;
}

/* The asked model, or the default for none, "" and "auto"; NULL: it has been answered. */
static const struct snap_model *find_model(struct turn *turn)
{
    const struct snap_root *root = turn->root;
    struct span name = { NULL, 0 };

    request_query(&turn->request, "model", &name);
    turn->event->model = name;
    bool wants_default = name.len == 0 || span_is(name, "auto");
    if (wants_default)
        name = snap_span(root, root->default_tts_model);
    if (name.len == 0) {
        turn_fail(turn, &(struct failure){ .kind = FAILURE_MISSING_MODEL, .param = "model" });
        return NULL;
    }
    const struct snap_model *model = snapshot_tts_model(root, name);
    if (!root->has_tree || (wants_default && model == NULL)) {
        struct failure failure = { .kind = FAILURE_CONFIG_NOT_SET };
        if (root->has_tree)
            failure.message = "The default model does not exist.";
        turn_fail(turn, &failure);
        return NULL;
    }
    if (model == NULL || (turn->principal != NULL && !snapshot_may_use(root, turn->principal, name))) {
        turn_fail_unknown_model(turn, name, MODELS_TTS);
        return NULL;
    }
    turn->event->model_routed = name;
    return model;
}

/* A request may reach any upstream of the model, and a voice that one of them does
 * not have ends it: only what all of them can speak with is offered. */
static const struct voice_catalog *find_catalog(struct turn *turn, const struct snap_model *model,
                                                struct voice_filter *filter)
{
    const struct snap_root *root = turn->root;
    struct span *models = arena_array_of(turn->request.arena, struct span, model->upstreams.count);
    const struct adapter *adapter = NULL;

    for (unsigned i = 0; i < model->upstreams.count; i++) {
        const struct snap_upstream *u = SNAP_ITEM(root, model->upstreams, struct snap_upstream, i);
        adapter = adapter_find(snap_span(root, u->provider));
        if (adapter == NULL)
            return NULL;
        models[i] = adapter_catalog_model(adapter, snap_span(root, model->name),
                                          snap_span(root, u->adapter_params), turn->request.arena);
    }
    filter->models = models;
    filter->n_models = model->upstreams.count;
    return adapter == NULL ? NULL : voice_catalog_find(span_cstr(adapter->catalog));
}

/* ---- the answer ---- */

/* The last bytes take the end with them: the length is announced. */
static int write_list(struct reply *reply, const struct voice_selection *selection, struct span recommended)
{
    struct voice_cursor cursor = { 0 };
    struct span pieces[REPLY_PIECES_MAX];
    size_t n = 0, more;

    pieces[n++] = span_cstr(voices_before);
    while ((more = voice_selection_read(selection, &cursor, pieces + n, REPLY_PIECES_MAX - n)) > 0) {
        int r = reply_write_pieces(reply, pieces, n + more);
        if (r != 0)
            return r;
        n = 0;
    }
    pieces[n++] = span_cstr(voices_after);
    pieces[n++] = recommended;
    pieces[n++] = span_cstr(closing);
    return reply_write_pieces(reply, pieces, n);
}

/* Callers may keep the list, and ask whether it is still the same. */
static void begin(struct turn *turn, int status, struct span type, int64_t length, const char *etag)
{
    reply_start(&turn->reply, status, type, length);
    reply_header(&turn->reply, "ETag", span_cstr(etag));
    reply_header(&turn->reply, "Cache-Control", span_cstr("private, no-cache"));
}

static void answer(struct turn *turn, const struct voice_selection *selection, struct span recommended)
{
    struct span known = span_cstr(conn_param(turn->request.conn, "HTTP_IF_NONE_MATCH"));
    char etag[VOICE_ETAG_BYTES];
    int r;

    voice_selection_etag(selection, recommended, etag);
    if (voice_etag_is_known(known, etag)) {
        begin(turn, 304, span_of("", 0), -1, etag);
        r = reply_finish(&turn->reply, span_of("", 0));
    } else {
        size_t bytes = strlen(voices_before) + selection->bytes + strlen(voices_after) + recommended.len +
                       strlen(closing);
        begin(turn, 200, span_cstr("application/json"), (int64_t)bytes, etag);
        r = write_list(&turn->reply, selection, recommended);
    }
    if (r != 0)
        turn->event->end = EVENT_END_CLIENT_GONE;
}

void serve_voices(struct turn *turn)
{
    struct voice_filter filter = { .gender = VOICE_GENDER_ANY };
    struct voice_selection selection;
    const struct snap_model *model;

    if (read_filter(turn, &filter) != 0 || (model = find_model(turn)) == NULL)
        return;
    voice_select(find_catalog(turn, model, &filter), &filter, &selection);
    answer(turn, &selection,
           snap_has(model->recommended) ? snap_span(turn->root, model->recommended) : span_cstr("{}"));
}

/* smoke: asks a running instance for one of each, and says what came. */
#include <string.h>

#include "admin/ctl/ctl.h"
#include "admin/ctl/smoke_report.h"
#include "admin/ctl/smoke_request.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/json/scan.h"

enum { KEY_LIMIT_BYTES = 4096 };

struct smoke {
    const struct invocation *call;
    struct smoke_target target;
    struct smoke_trial *trials; /* planned, in the order of the table */
    size_t n_trials;
};

/* --- what is asked --- */

static int read_url(struct smoke *smoke)
{
    static const char *const mounts[] = { SMOKE_CODED, SMOKE_V1 };
    const char *url = smoke->call->options[OPTION_URL], *host = strstr(url, "://");
    size_t len = strlen(url);

    if ((strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) || host[3] == '\0' ||
        host[3] == '/' || strpbrk(url, "?#@\\") != NULL)
        return ctl_fail(smoke->call, CTL_USAGE,
                        "--url is \"%.200s\", but must be an address like http://127.0.0.1:8080/v1", url);
    while (url[len - 1] == '/')
        len--;
    smoke->target.mount = SMOKE_V1;
    for (size_t i = 0; i < sizeof(mounts) / sizeof(mounts[0]); i++) {
        size_t suffix = strlen(mounts[i]);
        if (len > suffix && strncmp(url + len - suffix, mounts[i], suffix) == 0) {
            smoke->target.mount = mounts[i];
            len -= suffix;
            break;
        }
    }
    smoke->target.root = arena_printf(smoke->call->arena, "%.*s", (int)len, url);
    return CTL_OK;
}

static int read_key(struct smoke *smoke)
{
    const char *path = smoke->call->options[OPTION_KEY_FILE];
    struct span key;

    if (path == NULL)
        return CTL_OK;
    int status = ctl_read(smoke->call, path, KEY_LIMIT_BYTES, &key);
    if (status != CTL_OK)
        return status;
    struct span text = span_trim(key);
    bool is_key = text.len > 0;
    for (size_t i = 0; i < text.len; i++)
        is_key = is_key && text.ptr[i] > ' ' && text.ptr[i] < 0x7F;
    if (is_key)
        smoke->target.key_header =
            arena_printf(smoke->call->arena, "authorization: Bearer %.*s", (int)text.len, text.ptr);
    explicit_bzero((char *)(uintptr_t)key.ptr, key.len);
    return is_key ? CTL_OK : ctl_fail(smoke->call, CTL_REFUSED, "%s holds no caller's key", path);
}

/* --- the trials --- */

/* The option that names models of a subject; OPTION_HELP: none does. */
static const struct {
    enum ctl_option option;
    const char *missing; /* why a scenario is skipped without it */
} subjects[] = {
    [SUBJECT_NONE] = { OPTION_HELP, NULL },
    [SUBJECT_CHAT] = { OPTION_CHAT_MODEL, NULL },
    [SUBJECT_FALLBACK] = { OPTION_FALLBACK_MODEL, "no --fallback-model was given" },
    [SUBJECT_SPEECH] = { OPTION_SPEECH_MODEL, "no --speech-model was given, and none was found" },
    [SUBJECT_EXHAUSTED] = { OPTION_EXHAUSTED_MODEL, "no --exhausted-model was given" },
    [SUBJECT_UNKNOWN] = { OPTION_HELP, NULL },
};

static void add_trial(struct smoke *smoke, const struct smoke_scenario *scenario, const char *model,
                      const char *skipped)
{
    smoke->trials[smoke->n_trials++] = (struct smoke_trial){
        .scenario = scenario,
        .model = model,
        .is_coded = scenario->place == PLACE_CODED ||
                    (scenario->place == PLACE_MOUNT && strcmp(smoke->target.mount, SMOKE_CODED) == 0),
        .result = SMOKE_SKIPPED,
        .finding = skipped,
    };
}

/* The voice that was found for the model. */
static const char *voice_of(const struct smoke *smoke, const char *model)
{
    for (size_t i = 0; i < smoke->n_trials; i++)
        if (smoke->trials[i].voice != NULL && strcmp(smoke->trials[i].model, model) == 0)
            return smoke->trials[i].voice;
    return NULL;
}

struct name_list {
    struct arena *arena;
    const char **names;
    size_t n, room;
};

static void add_name(struct name_list *list, const char *name)
{
    if (list->n == list->room) {
        const char **more = arena_array_of(list->arena, const char *, 2 * list->room + 8);
        if (list->n > 0)
            memcpy(more, list->names, list->n * sizeof(more[0]));
        list->names = more;
        list->room = 2 * list->room + 8;
    }
    list->names[list->n++] = name;
}

static int take_name(void *ctx, const struct json_value *value)
{
    struct name_list *list = ctx;
    if (value->kind == JSON_KIND_STRING)
        add_name(list, json_decode(list->arena, value->raw).ptr);
    return 0;
}

/* GET models tells all names; which of them speak, the refusal of one that does not exist. */
static void find_speakers(struct smoke *smoke, struct name_list *out)
{
    static const struct json_want available = { "details.available.*", false };
    struct http_reply reply;

    smoke_get(&smoke->target, "models that speak", SMOKE_CODED "/audio/voices?model=" SMOKE_UNKNOWN_MODEL,
              &reply);
    if (reply.problem == NULL)
        json_scan(reply.body, &available, 1, 0, take_name, out, NULL);
}

/* The models of a subject: those given, else what is asked then. */
static void list_models(struct smoke *smoke, enum smoke_subject subject, struct name_list *out)
{
    const struct invocation *call = smoke->call;

    for (size_t i = 0; subjects[subject].option != OPTION_HELP && i < call->n_given; i++)
        if (call->given[i].option == subjects[subject].option)
            add_name(out, call->given[i].value);
    if (out->n > 0)
        return;
    if (subject == SUBJECT_CHAT)
        add_name(out, "auto");
    else if (subject == SUBJECT_UNKNOWN)
        add_name(out, SMOKE_UNKNOWN_MODEL);
    else if (subject == SUBJECT_SPEECH)
        find_speakers(smoke, out);
}

static void plan_trials(struct smoke *smoke)
{
    struct name_list lists[SUBJECT_UNKNOWN + 1];
    size_t most = 1;

    for (size_t i = 0; i <= SUBJECT_UNKNOWN; i++) {
        lists[i] = (struct name_list){ .arena = smoke->call->arena };
        list_models(smoke, (enum smoke_subject)i, &lists[i]);
        most = lists[i].n > most ? lists[i].n : most;
    }
    smoke->trials = arena_array_of(smoke->call->arena, struct smoke_trial, smoke_n_scenarios * most);
    for (size_t i = 0; i < smoke_n_scenarios; i++) {
        const struct smoke_scenario *scenario = &smoke_scenarios[i];
        const struct name_list *list = &lists[scenario->subject];
        const char *missing = subjects[scenario->subject].missing; /* NULL: there is always one, or none */
        if (scenario->is_wrong_key && smoke->target.key_header == NULL)
            add_trial(smoke, scenario, NULL,
                      "no --key-file was given: callers may be known by something else");
        else if (list->n == 0)
            add_trial(smoke, scenario, NULL, missing);
        else
            for (size_t m = 0; m < list->n; m++)
                add_trial(smoke, scenario, list->names[m], NULL);
    }
}

/* --- the command --- */

static int show_trial(const struct invocation *call, const struct smoke_trial *trial)
{
    struct buf text;

    if (call->options[OPTION_JSON] != NULL)
        return CTL_OK;
    buf_init(&text, SMOKE_REPORT_BYTES);
    smoke_write_text(trial, &text);
    int status = ctl_print(call, buf_span(&text));
    buf_free(&text);
    return status;
}

static int run_trials(struct smoke *smoke, struct smoke_summary *summary)
{
    int status = CTL_OK;

    for (size_t i = 0; i < smoke->n_trials && status == CTL_OK; i++) {
        struct smoke_trial *trial = &smoke->trials[i];
        if (trial->finding == NULL) {
            if (trial->scenario->subject == SUBJECT_SPEECH)
                trial->voice = voice_of(smoke, trial->model);
            smoke_run(&smoke->target, trial);
        }
        summary->counts[trial->result]++;
        status = show_trial(smoke->call, trial);
    }
    return status;
}

static int write_report(const struct invocation *call, const struct smoke_summary *summary)
{
    const char *path = call->options[OPTION_REPORT];
    struct buf text;
    struct error e;
    int status = CTL_OK;

    if (path == NULL)
        return CTL_OK;
    buf_init(&text, SMOKE_REPORT_BYTES);
    smoke_write_markdown(summary, &text);
    if (file_replace(path, buf_span(&text), 0644, &e) != 0)
        status = ctl_fail(call, CTL_REFUSED, "%s", e.text);
    buf_free(&text);
    return status;
}

static int show_summary(const struct invocation *call, const struct smoke_summary *summary)
{
    struct buf text;

    if (call->options[OPTION_JSON] == NULL)
        return ctl_printf(call, "%zu passed, %zu failed, %zu skipped\n", summary->counts[SMOKE_PASSED],
                          summary->counts[SMOKE_FAILED], summary->counts[SMOKE_SKIPPED]);
    buf_init(&text, SMOKE_REPORT_BYTES);
    smoke_write_json(summary, &text);
    int status = ctl_print(call, buf_span(&text));
    buf_free(&text);
    return status;
}

int ctl_smoke(const struct invocation *call)
{
    struct smoke *smoke = arena_new_of(call->arena, struct smoke);
    struct smoke_summary summary = {
        .url = call->options[OPTION_URL],
        .commit = call->options[OPTION_COMMIT],
        .environment = call->options[OPTION_ENVIRONMENT],
        .time_us = clock_wall_us(),
    };
    const char *state_dir =
        ctl_directory(call, OPTION_STATE_DIR, "LLM_ROUTER_STATE_DIR", "/var/lib/llm-router");

    smoke->call = call;
    smoke->target.arena = call->arena;
    int status = read_url(smoke);
    if (status == CTL_OK)
        status = read_key(smoke);
    if (status != CTL_OK)
        return status;
    smoke->target.has_tail = event_tail_open(state_dir, 0, call->arena, &smoke->target.tail, NULL) == 0;
    plan_trials(smoke);
    summary.trials = smoke->trials;
    summary.n_trials = smoke->n_trials;
    status = run_trials(smoke, &summary);
    if (status == CTL_OK)
        status = show_summary(call, &summary);
    if (status == CTL_OK)
        status = write_report(call, &summary);
    if (status == CTL_OK && summary.counts[SMOKE_FAILED] > 0)
        status = CTL_REFUSED;
    if (smoke->target.has_tail)
        event_tail_close(&smoke->target.tail);
    if (smoke->target.key_header != NULL)
        explicit_bzero(smoke->target.key_header, strlen(smoke->target.key_header));
    return status;
}

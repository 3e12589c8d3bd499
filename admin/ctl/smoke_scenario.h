/*
 * The scenarios of smoke: what is asked of a running instance, and what has to come.
 * One table; a trial is one scenario with one model, sent and judged.
 */
#ifndef ADMIN_CTL_SMOKE_SCENARIO_H
#define ADMIN_CTL_SMOKE_SCENARIO_H

#include <stdbool.h>

#include "admin/ctl/event_line.h"
#include "admin/ctl/http_call.h"
#include "core/base/arena.h"
#include "core/base/span.h"

/* Which model is asked for. */
enum smoke_subject {
    SUBJECT_NONE,
    SUBJECT_CHAT,
    SUBJECT_FALLBACK,
    SUBJECT_SPEECH,
    SUBJECT_EXHAUSTED,
    SUBJECT_UNKNOWN, /* a name that no tree has */
};

#define SMOKE_UNKNOWN_MODEL "llm-routerctl-no-such-model"

/* Where the path begins. */
enum smoke_place { PLACE_ROOT, PLACE_MOUNT, PLACE_V1, PLACE_CODED };

enum smoke_result { SMOKE_PASSED, SMOKE_FAILED, SMOKE_SKIPPED, SMOKE_RESULTS };

const char *smoke_result_name(enum smoke_result result);

struct smoke_trial;

struct smoke_scenario {
    const char *name;
    const char *item; /* its number in the list of verifications; "" if it is none of them */
    const char *what; /* a sentence */
    enum smoke_place place;
    const char *path;    /* behind the place; a GET of a subject has ?model= behind it */
    const char *members; /* of a POST's body, besides the model; NULL: a GET */
    enum smoke_subject subject;
    bool is_wrong_key;
    const char *end;      /* of the event; NULL: it leaves none */
    const char *expected; /* a sentence */
    enum smoke_result (*judge)(struct smoke_trial *trial, struct arena *arena);
};

struct smoke_trial {
    const struct smoke_scenario *scenario;
    const char *model; /* NULL: none is asked for */
    const char *voice; /* of speech, and found by voices; NULL: none */
    bool is_coded;     /* the mount has the seeds' error form */
    const char *url, *body, *command;
    char trace_id[33];
    bool is_sent;
    struct http_reply reply;
    struct event_line *event; /* NULL: not visible from here */
    enum smoke_result result;
    const char *finding; /* why it did not pass; NULL if it did */
};

extern const struct smoke_scenario smoke_scenarios[];
extern const size_t smoke_n_scenarios;

/* Judges what came: the reply, and the event if there is one. Texts are in the arena. */
void smoke_judge(struct smoke_trial *trial, struct arena *arena);

#endif

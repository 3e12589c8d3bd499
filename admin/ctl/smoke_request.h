/* The requests of smoke: how a trial is asked, and what of it is seen on this host. */
#ifndef ADMIN_CTL_SMOKE_REQUEST_H
#define ADMIN_CTL_SMOKE_REQUEST_H

#include "admin/ctl/event_tail.h"
#include "admin/ctl/smoke_scenario.h"

#define SMOKE_V1 "/v1"
#define SMOKE_CODED "/api/v1/openai"

/* Who is asked, and with what. */
struct smoke_target {
    struct arena *arena;
    const char *root;  /* the instance's URL without a mount */
    const char *mount; /* SMOKE_V1 or SMOKE_CODED: where most scenarios ask */
    char *key_header;  /* NULL: no key was given; wiped by its owner */
    struct event_tail tail;
    bool has_tail;     /* there are events to be seen */
    bool is_elsewhere; /* the last event did not come: the next one is not waited for */
};

/* Sends the trial and judges it. While that takes long, lines on stderr say so. */
void smoke_run(struct smoke_target *target, struct smoke_trial *trial);

/* GET of a path at the root, with the caller's key; `name` is for what smoke_run says too. */
void smoke_get(const struct smoke_target *target, const char *name, const char *path,
               struct http_reply *reply);

#endif

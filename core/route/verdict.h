/*
 * Verdicts: the class of an attempt's outcome, and what follows from it. One
 * table; the loop, the record and the caller's error ask it.
 */
#ifndef CORE_ROUTE_VERDICT_H
#define CORE_ROUTE_VERDICT_H

#include <stdbool.h>

enum verdict {
    VERDICT_OK,
    VERDICT_AUTH,      /* the key is wrong, revoked, expired */
    VERDICT_QUOTA,     /* the key's account is empty */
    VERDICT_RATE,      /* too fast for now */
    VERDICT_SERVER,    /* the upstream failed, or its 2xx is unusable */
    VERDICT_TIMEOUT,   /* one of our clocks, or the upstream's own */
    VERDICT_CONNECT,   /* refused, unresolvable, reset before a reply */
    VERDICT_CONFIG,    /* wrong path, model, region or grant: the operator's matter */
    VERDICT_CLIENT,    /* the caller's mistake */
    VERDICT_OTHER,     /* a status that nothing here knows */
    VERDICT_CANCELLED, /* the caller left, or another attempt answered */
    VERDICT_COUNT,
};

/* What the outcome says something about. */
enum blame {
    BLAME_NOTHING,
    BLAME_KEY,
    BLAME_KEY_MODEL, /* this key with this model */
    BLAME_UPSTREAM,
};

enum next_step {
    NEXT_NONE,      /* the chain ends */
    NEXT_CANDIDATE, /* the next one in the list */
    NEXT_UPSTREAM,  /* the next one of another upstream */
};

struct verdict_row {
    const char *name; /* as the record has it */
    enum next_step next;
    const char *fault; /* whose: "config", "upstream", "client", "none" */
    bool counts_for_health;
};

const struct verdict_row *verdict_row(enum verdict verdict);

#endif

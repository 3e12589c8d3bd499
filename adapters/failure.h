/*
 * What a provider's failures mean, as a table of its own: the first row that fits
 * decides, so that what is trusted most stands first.
 */
#ifndef ADAPTERS_FAILURE_H
#define ADAPTERS_FAILURE_H

#include "adapters/adapter.h"

/* A row fits when everything it names fits. */
struct failure_rule {
    int status, last_status; /* 0: any; last_status 0: this one only */
    const char *code;        /* whole; one that ends with "*" fits all that begin so. NULL: any */
    const char *phrase;      /* lower case, somewhere in the message. NULL: none needed */
    enum adapter_class class;
    bool is_doubtful;
    const char *param; /* the caller's member at fault, or NULL */
};

/* What a failed reply says of itself. */
struct failure_facts {
    int status;
    struct span code, message;
};

/* Fills *out; without a fitting row its class is ADAPTER_UNKNOWN. Phrases are
 * looked for in the message without its quoted part, which may be a caller's
 * words. The rule's name is "phrase:…", "code:…" or "status". */
void failure_judge(const struct failure_rule *rules, size_t n_rules, const struct failure_facts *facts,
                   struct arena *arena, struct adapter_opinion *out);

/* Reads the strings and whole numbers at these paths of a JSON object, which may
 * be cut anywhere, as texts: texts[i] is empty where nothing stands. At most
 * FAILURE_PATHS_MAX. False: it is no JSON object. */
enum { FAILURE_PATHS_MAX = 8 };
bool failure_read(struct span body, const char *const *paths, size_t n_paths, struct arena *arena,
                  struct span *texts);

#endif

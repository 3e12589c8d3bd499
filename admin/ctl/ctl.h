/*
 * llm-routerctl: one row per command in main.c, one function per command here.
 * A command gets its options by number and returns the exit status.
 */
#ifndef ADMIN_CTL_CTL_H
#define ADMIN_CTL_CTL_H

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"
#include "core/config/entry.h"
#include "core/crypto/envelope.h"
#include "core/store/store.h"

enum ctl_exit { CTL_OK = 0, CTL_REFUSED = 1, CTL_USAGE = 2 };

enum ctl_option {
    OPTION_HELP,
    OPTION_VERSION,
    OPTION_STATE_DIR,
    OPTION_ENTRY,
    OPTION_MODEL,
    OPTION_KEY_ID,
    OPTION_CREDENTIAL,
    OPTION_ID,
    OPTION_OWNER,
    OPTION_MODELS,
    OPTION_REGION,
    OPTION_URL,
    OPTION_FILE,
    OPTION_WRITE,
    OPTION_FORCE,
    OPTION_COUNT,
};

struct invocation {
    const char *command;               /* "caller-key add" */
    const char *options[OPTION_COUNT]; /* NULL: not given */
    const char *argument;              /* NULL: not given */
    struct arena *arena;
};

int ctl_keygen(const struct invocation *call);
int ctl_encrypt(const struct invocation *call);
int ctl_config_check(const struct invocation *call);
int ctl_config_schema(const struct invocation *call);
int ctl_config_get(const struct invocation *call);
int ctl_config_manual(const struct invocation *call);
int ctl_caller_key_add(const struct invocation *call);
int ctl_caller_key_list(const struct invocation *call);
int ctl_caller_key_revoke(const struct invocation *call);
int ctl_voices_refresh(const struct invocation *call);

/* A sentence on stderr, after the command's name; returns `status`. */
int ctl_fail(const struct invocation *call, enum ctl_exit status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Bytes on stdout, flushed: CTL_OK, or CTL_REFUSED after a message. */
int ctl_print(const struct invocation *call, struct span text);

/* All faults on stderr, a line each: "PATH: message". */
void ctl_print_faults(const struct entry_faults *faults);

/* The entry of --entry, by default LLM_ROUTER_CONFIG: CTL_OK or CTL_USAGE after a message. */
int ctl_entry(const struct invocation *call, enum entry_id *out);

/* Opens the store of --state-dir or LLM_ROUTER_STATE_DIR: CTL_OK, or CTL_REFUSED after a message. */
int ctl_open_store(const struct invocation *call, struct store **out);

/* At most `limit` bytes of a file, or of stdin for "-", in the arena: CTL_OK, or CTL_REFUSED after a message.
 */
int ctl_read(const struct invocation *call, const char *path, size_t limit, struct span *out);

#endif

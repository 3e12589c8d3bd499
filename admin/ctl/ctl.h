/*
 * llm-routerctl: one row per command in main.c, one function per command here.
 * A command gets its options by number and returns the exit status.
 */
#ifndef ADMIN_CTL_CTL_H
#define ADMIN_CTL_CTL_H

#include <stdbool.h>

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"
#include "core/config/entry.h"

enum ctl_exit { CTL_OK = 0, CTL_REFUSED = 1, CTL_USAGE = 2 };

enum ctl_option {
    OPTION_HELP,
    OPTION_VERSION,
    OPTION_STATE_DIR,
    OPTION_RUN_DIR,
    OPTION_ENTRY,
    OPTION_IF_VERSION,
    OPTION_FORCE,
    OPTION_LIMIT,
    OPTION_FIRST_KEY,
    OPTION_OUTPUT,
    OPTION_DRY_RUN,
    OPTION_JSON,
    OPTION_MODEL,
    OPTION_KEY_ID,
    OPTION_CREDENTIAL,
    OPTION_ID,
    OPTION_OWNER,
    OPTION_MODELS,
    OPTION_CONCURRENCY,
    OPTION_REQUESTS_PER_MINUTE,
    OPTION_TOKENS_PER_MINUTE,
    OPTION_DATABASE_URL_FILE,
    OPTION_GRANT_TO,
    OPTION_REGION,
    OPTION_URL,
    OPTION_FILE,
    OPTION_WRITE,
    OPTION_ONCE,
    OPTION_INTERVAL,
    OPTION_KEY_FILE,
    OPTION_CHAT_MODEL,
    OPTION_FALLBACK_MODEL,
    OPTION_SPEECH_MODEL,
    OPTION_EXHAUSTED_MODEL,
    OPTION_REPORT,
    OPTION_COMMIT,
    OPTION_ENVIRONMENT,
    OPTION_COUNT,
};

struct given_option {
    enum ctl_option option;
    const char *value;
};

struct invocation {
    const char *command;               /* "caller-key add" */
    const char *options[OPTION_COUNT]; /* NULL: not given; of one given more than once, the last */
    struct given_option *given;        /* all of them, as they came */
    size_t n_given;
    const char *argument; /* NULL: not given */
    struct arena *arena;
};

int ctl_keygen(const struct invocation *call);
int ctl_encrypt(const struct invocation *call);
int ctl_config_check(const struct invocation *call);
int ctl_config_schema(const struct invocation *call);
int ctl_config_get(const struct invocation *call);
int ctl_config_put(const struct invocation *call);
int ctl_config_diff(const struct invocation *call);
int ctl_config_versions(const struct invocation *call);
int ctl_config_restore(const struct invocation *call);
int ctl_config_export(const struct invocation *call);
int ctl_config_manual(const struct invocation *call);
int ctl_metrics_manual(const struct invocation *call);
int ctl_verify(const struct invocation *call);
int ctl_rotate(const struct invocation *call);
int ctl_status(const struct invocation *call);
int ctl_caller_key_add(const struct invocation *call);
int ctl_caller_key_list(const struct invocation *call);
int ctl_caller_key_revoke(const struct invocation *call);
int ctl_voice_pack_list(const struct invocation *call);
int ctl_voice_pack_add(const struct invocation *call);
int ctl_voice_pack_change(const struct invocation *call);
int ctl_voice_pack_enable(const struct invocation *call);
int ctl_voice_pack_disable(const struct invocation *call);
int ctl_voice_pack_rekey(const struct invocation *call);
int ctl_migrate(const struct invocation *call);
int ctl_voices_refresh(const struct invocation *call);
int ctl_smoke(const struct invocation *call);
int ctl_top(const struct invocation *call);

/* A sentence on stderr, after the command's name; returns `status`. */
int ctl_fail(const struct invocation *call, enum ctl_exit status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Bytes on stdout, flushed: CTL_OK, or CTL_REFUSED after a message. */
int ctl_print(const struct invocation *call, struct span text);
int ctl_printf(const struct invocation *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* All faults on stderr, a line each: "PATH: message". */
void ctl_print_faults(const struct entry_faults *faults);

/* The entry of --entry, by default LLM_ROUTER_CONFIG: CTL_OK or CTL_USAGE after a message. */
int ctl_entry(const struct invocation *call, enum entry_id *out);

/* A directory: that of the option, else of the environment's variable, else `fallback`. */
const char *ctl_directory(const struct invocation *call, enum ctl_option option, const char *variable,
                          const char *fallback);

/* At most `limit` bytes of a file, or of stdin for "-" or NULL, in the arena and nowhere
 * else, so that the caller can wipe them: CTL_OK, or CTL_REFUSED after a message. */
int ctl_read(const struct invocation *call, const char *path, size_t limit, struct span *out);

#endif

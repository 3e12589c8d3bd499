/*
 * Settings of a process: flags, which override the environment, which overrides
 * the default. One table of rows drives reading, messages and --help. (Settings
 * of models are in the configuration tree.)
 */
#ifndef FCGI_ENGINE_SETTINGS_H
#define FCGI_ENGINE_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"

enum setting_kind { SETTING_TEXT, SETTING_NUMBER };

struct setting {
    const char *flag;        /* "listen": --listen VALUE */
    const char *environment; /* or NULL */
    enum setting_kind kind;
    const char *fallback;   /* the default, as text; NULL: none */
    int64_t min, max;       /* of a number */
    const char *value_name; /* in --help: "ADDRESS" */
    const char *help;       /* one line */
    size_t place;           /* offsetof a `const char *` or an `int64_t` in the program's struct */
};

enum settings_result {
    SETTINGS_RUN = 0,
    SETTINGS_EXIT_OK = 1,    /* --help or --version was asked for and answered */
    SETTINGS_EXIT_USAGE = 2, /* said on stderr what is wrong */
    SETTINGS_CHECK = 3,      /* --check: as SETTINGS_RUN, but only to look whether it could begin */
};

/* Fills `out` from argv and the environment. `about` is the first line of --help. */
enum settings_result settings_read(const struct setting *rows, size_t n_rows, const char *program,
                                   const char *about, int argc, char **argv, void *out);

#endif

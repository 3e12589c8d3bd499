#include "fcgi/engine/settings.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/version.h"

static int set(const struct setting *row, const char *from, const char *value, const char *program, void *out)
{
    char *place = (char *)out + row->place;

    if (row->kind == SETTING_TEXT) {
        memcpy(place, &value, sizeof(value));
        return 0;
    }
    char *end;
    errno = 0;
    long long number = strtoll(value, &end, 10);
    if (errno != 0 || end == value || *end != '\0' || number < row->min || number > row->max) {
        fprintf(stderr, "%s: %s: \"%s\" is not a whole number from %lld to %lld\n", program, from, value,
                (long long)row->min, (long long)row->max);
        return -1;
    }
    int64_t fits = number;
    memcpy(place, &fits, sizeof(fits));
    return 0;
}

/* "--flag VALUE", and how long it is. */
static int write_flag(const struct setting *row, char *out, size_t room)
{
    return snprintf(out, room, "--%s %s", row->flag, row->value_name);
}

static void print_help(const struct setting *rows, size_t n_rows, const char *program, const char *about)
{
    char flag[64];
    int width = 0;

    for (size_t i = 0; i < n_rows; i++) {
        int len = write_flag(&rows[i], flag, sizeof(flag));
        width = len > width ? len : width;
    }
    printf("%s: %s\n\nusage: %s [--FLAG VALUE ...]\n\n", program, about, program);
    for (size_t i = 0; i < n_rows; i++) {
        write_flag(&rows[i], flag, sizeof(flag));
        printf("  %-*s  %s", width, flag, rows[i].help);
        if (rows[i].fallback != NULL)
            printf(" (%s)", rows[i].fallback);
        printf("\n");
        if (rows[i].environment != NULL)
            printf("  %-*s  or %s\n", width, "", rows[i].environment);
    }
    printf("  %-*s  look whether it could begin, and exit\n", width, "--check");
    printf("  %-*s  this text\n  %-*s  the version\n", width, "--help", width, "--version");
    printf("\n%s(8) says more, also of variables that have no flag.\n", program);
}

/* The value of "--flag=value" or "--flag value"; moves *i on in the second case.
 * NULL: it is not this flag, or *is_bare: its value is missing. */
static const char *flag_value(const struct setting *row, int argc, char **argv, int *i, bool *is_bare)
{
    const char *argument = argv[*i] + 2;
    size_t len = strlen(row->flag);

    if (strncmp(argument, row->flag, len) != 0)
        return NULL;
    if (argument[len] == '=')
        return argument + len + 1;
    if (argument[len] != '\0')
        return NULL;
    *is_bare = *i + 1 >= argc;
    return *is_bare ? NULL : argv[++*i];
}

static int read_flags(const struct setting *rows, size_t n_rows, const char *program, int argc, char **argv,
                      void *out, bool *is_check)
{
    for (int i = 1; i < argc; i++) {
        const char *value = NULL;
        bool is_bare = false;
        if (strcmp(argv[i], "--check") == 0) {
            *is_check = true;
            continue;
        }
        if (strncmp(argv[i], "--", 2) != 0) {
            fprintf(stderr, "%s: \"%s\" is not a flag; see %s --help\n", program, argv[i], program);
            return -1;
        }
        const char *flag = argv[i];
        for (size_t k = 0; k < n_rows && value == NULL; k++) {
            value = flag_value(&rows[k], argc, argv, &i, &is_bare);
            if (value != NULL && set(&rows[k], flag, value, program, out) != 0)
                return -1;
        }
        if (value == NULL) {
            fprintf(stderr, "%s: %s %s; see %s --help\n", program, flag,
                    is_bare ? "needs a value" : "is unknown", program);
            return -1;
        }
    }
    return 0;
}

enum settings_result settings_read(const struct setting *rows, size_t n_rows, const char *program,
                                   const char *about, int argc, char **argv, void *out)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            print_help(rows, n_rows, program, about);
            return SETTINGS_EXIT_OK;
        }
        if (strcmp(argv[i], "--version") == 0) {
            printf("%s %s\n", program, LLM_ROUTER_VERSION);
            return SETTINGS_EXIT_OK;
        }
    }
    for (size_t i = 0; i < n_rows; i++) {
        const char *value = rows[i].environment != NULL ? getenv(rows[i].environment) : NULL;
        if (value != NULL && value[0] != '\0') {
            if (set(&rows[i], rows[i].environment, value, program, out) != 0)
                return SETTINGS_EXIT_USAGE;
        } else if (rows[i].fallback != NULL &&
                   set(&rows[i], rows[i].flag, rows[i].fallback, program, out) != 0) {
            return SETTINGS_EXIT_USAGE;
        }
    }
    bool is_check = false;
    if (read_flags(rows, n_rows, program, argc, argv, out, &is_check) != 0)
        return SETTINGS_EXIT_USAGE;
    return is_check ? SETTINGS_CHECK : SETTINGS_RUN;
}

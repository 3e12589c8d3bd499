#include "admin/ctl/ctl.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/base/version.h"

static const char version[] = "llm-routerctl " LLM_ROUTER_VERSION "\n";

#define BIT(option) (1U << (option))

static const struct option_row {
    const char *name, *value; /* value: what follows it; NULL: nothing */
    const char *doc;
} option_rows[OPTION_COUNT] = {
    [OPTION_HELP] = { "help", NULL, "show this" },
    [OPTION_VERSION] = { "version", NULL, "show the version" },
    [OPTION_STATE_DIR] = { "state-dir", "DIR",
                           "the state directory; else LLM_ROUTER_STATE_DIR, else /var/lib/llm-router" },
    [OPTION_ENTRY] = { "entry", "NAME", "the entry of the configuration; else LLM_ROUTER_CONFIG" },
    [OPTION_MODEL] = { "model", "NAME", "the model that the key is for" },
    [OPTION_KEY_ID] = { "key-id", "ID", "the key's id in its upstream" },
    [OPTION_CREDENTIAL] = { "credential", "NAME", "instead of these: the member of credentials it is for" },
    [OPTION_ID] = { "id", "ID", "the caller key's name" },
    [OPTION_OWNER] = { "owner", "TEXT", "whose key it is" },
    [OPTION_MODELS] = { "models", "NAME,…", "the only models it may use; else all" },
    [OPTION_REGION] = { "region", "NAME", "the region to ask: eastus" },
    [OPTION_URL] = { "url", "URL", "instead of it: the address of the provider's list" },
    [OPTION_FILE] = { "file", "FILE", "the catalog; else voices/PROVIDER.tsv" },
    [OPTION_WRITE] = { "write", NULL, "write the catalog; else the difference is only shown" },
    [OPTION_FORCE] = { "force", NULL, "whatever would be lost by it" },
};

static const struct command {
    const char *words[2]; /* the second may be NULL */
    const char *argument; /* NULL: it takes none; in brackets: it may be left out */
    const char *doc;
    unsigned accepts;  /* bits of options */
    unsigned requires; /* those of them that must be given */
    int (*run)(const struct invocation *call);
} commands[] = {
    { { "keygen", NULL }, NULL, "print a new master key", 0, 0, ctl_keygen },
    { { "encrypt", NULL },
      NULL,
      "encrypt the provider key on stdin, for one place of the configuration",
      BIT(OPTION_MODEL) | BIT(OPTION_KEY_ID) | BIT(OPTION_CREDENTIAL),
      0,
      ctl_encrypt },
    { { "config", "check" },
      "[FILE|-]",
      "say all that is wrong with a document",
      BIT(OPTION_ENTRY),
      0,
      ctl_config_check },
    { { "config", "schema" }, NULL, "print an entry's JSON Schema", BIT(OPTION_ENTRY), 0, ctl_config_schema },
    { { "config", "get" },
      NULL,
      "print an entry as it is in force, keys as fingerprints",
      BIT(OPTION_ENTRY) | BIT(OPTION_STATE_DIR),
      0,
      ctl_config_get },
    { { "config", "manual" }, NULL, "print the list of fields for the manual page", 0, 0, ctl_config_manual },
    { { "caller-key", "add" },
      NULL,
      "make a caller's key and print it, this once",
      BIT(OPTION_ID) | BIT(OPTION_OWNER) | BIT(OPTION_MODELS) | BIT(OPTION_STATE_DIR),
      BIT(OPTION_ID),
      ctl_caller_key_add },
    { { "caller-key", "list" }, NULL, "list the caller keys", BIT(OPTION_STATE_DIR), 0, ctl_caller_key_list },
    { { "caller-key", "revoke" },
      "ID",
      "remove a caller key",
      BIT(OPTION_STATE_DIR),
      0,
      ctl_caller_key_revoke },
    { { "voices", "refresh" },
      "PROVIDER",
      "compare a catalog of voices with the provider's list; its key comes on stdin",
      BIT(OPTION_REGION) | BIT(OPTION_URL) | BIT(OPTION_FILE) | BIT(OPTION_WRITE) | BIT(OPTION_FORCE),
      0,
      ctl_voices_refresh },
};

enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const char *name_of(const struct command *command, struct arena *arena)
{
    const char *second = command->words[1];
    return arena_printf(arena, "%s%s%s", command->words[0], second == NULL ? "" : " ",
                        second == NULL ? "" : second);
}

static void print_options(unsigned which)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char left[40];
        const struct option_row *row = &option_rows[i];
        if ((which & BIT(i)) == 0)
            continue;
        snprintf(left, sizeof(left), "--%s%s%s", row->name, row->value == NULL ? "" : " ",
                 row->value == NULL ? "" : row->value);
        printf("  %-20s %s\n", left, row->doc);
    }
}

static int print_help(const struct command *command, struct arena *arena)
{
    if (command != NULL) {
        printf("usage: llm-routerctl %s%s%s%s\n%s\n\n", name_of(command, arena),
               command->accepts == 0 ? "" : " [OPTION…]", command->argument == NULL ? "" : " ",
               command->argument == NULL ? "" : command->argument, command->doc);
        print_options(command->accepts | BIT(OPTION_HELP));
    } else {
        printf("usage: llm-routerctl COMMAND [OPTION…]\n\n");
        for (size_t i = 0; i < N_COMMANDS; i++)
            printf("  %-20s %s\n", name_of(&commands[i], arena), commands[i].doc);
        printf("\nllm-routerctl COMMAND --help lists a command's options.\n\n");
        print_options(BIT(OPTION_HELP) | BIT(OPTION_VERSION));
        printf("\nencrypt and config get take the master key from LLM_ROUTER_MASTER_KEY or\n"
               "LLM_ROUTER_MASTER_KEY_FILE. Exit status: 0 done, 1 refused or failed, 2 usage.\n");
    }
    return fflush(stdout) == 0 ? CTL_OK : CTL_REFUSED;
}

static int usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int usage(const char *format, ...)
{
    va_list args;
    fputs("llm-routerctl: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputs("; see llm-routerctl --help\n", stderr);
    return CTL_USAGE;
}

/* The command that argv begins with; *n_words says how many words it took. */
static const struct command *find_command(int argc, char **argv, int *n_words)
{
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const struct command *command = &commands[i];
        int n = command->words[1] == NULL ? 1 : 2;
        if (argc > n && strcmp(argv[1], command->words[0]) == 0 &&
            (n == 1 || strcmp(argv[2], command->words[1]) == 0)) {
            *n_words = n;
            return command;
        }
    }
    return NULL;
}

/* Fills the invocation from what stands behind the command's words. */
static int read_options(const struct command *command, int argc, char **argv, struct invocation *call)
{
    struct option rows[OPTION_COUNT + 1] = { { 0 } };
    for (size_t i = 0; i < OPTION_COUNT; i++)
        rows[i] = (struct option){ option_rows[i].name,
                                   option_rows[i].value == NULL ? no_argument : required_argument, NULL, 0 };
    opterr = 0;
    for (;;) {
        int index = -1, got = getopt_long(argc, argv, ":", rows, &index);
        if (got == -1)
            break;
        if (got == ':')
            return ctl_fail(call, CTL_USAGE, "%s needs a value", argv[optind - 1]);
        if (got != 0)
            return ctl_fail(call, CTL_USAGE, "no such option: %s", argv[optind - 1]);
        if (index != OPTION_HELP && (command->accepts & BIT(index)) == 0)
            return ctl_fail(call, CTL_USAGE, "--%s is not an option of this command",
                            option_rows[index].name);
        if (call->options[index] != NULL)
            return ctl_fail(call, CTL_USAGE, "--%s is given twice", option_rows[index].name);
        call->options[index] = optarg == NULL ? "" : optarg;
    }
    if (call->options[OPTION_HELP] != NULL)
        return CTL_OK;
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if ((command->requires & BIT(i)) != 0 && call->options[i] == NULL)
            return ctl_fail(call, CTL_USAGE, "--%s is missing", option_rows[i].name);
    call->argument = optind < argc ? argv[optind++] : NULL;
    if (call->argument == NULL && command->argument != NULL && command->argument[0] != '[')
        return ctl_fail(call, CTL_USAGE, "%s is missing", command->argument);
    if (optind < argc || (call->argument != NULL && command->argument == NULL))
        return ctl_fail(call, CTL_USAGE, "unexpected argument: %s",
                        optind < argc ? argv[optind] : call->argument);
    return CTL_OK;
}

int main(int argc, char **argv)
{
    struct invocation call = { .arena = arena_new() };
    const struct command *command;
    int n_words = 0, status;

    if (argc < 2) {
        status = usage("the command is missing");
    } else if (strcmp(argv[1], "--help") == 0) {
        status = print_help(NULL, call.arena);
    } else if (strcmp(argv[1], "--version") == 0) {
        status = fputs(version, stdout) == EOF || fflush(stdout) != 0 ? CTL_REFUSED : CTL_OK;
    } else if ((command = find_command(argc, argv, &n_words)) == NULL) {
        status = usage("no such command: %s", argc > 2 && argv[1][0] != '-'
                                                  ? arena_printf(call.arena, "%s %s", argv[1], argv[2])
                                                  : argv[1]);
    } else {
        call.command = name_of(command, call.arena);
        status = read_options(command, argc - n_words, argv + n_words, &call);
        if (status == CTL_OK)
            status =
                call.options[OPTION_HELP] != NULL ? print_help(command, call.arena) : command->run(&call);
    }
    arena_free(call.arena);
    return status;
}

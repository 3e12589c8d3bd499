#include "admin/ctl/ctl.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/memory_secrecy.h"
#include "core/base/version.h"
#include "core/config/nearest.h"

static const char version[] = "llm-routerctl " LLM_ROUTER_VERSION "\n";

#define BIT(option) (UINT64_C(1) << (option))

static const struct option_row {
    const char *name, *value; /* value: what follows it; NULL: nothing */
    const char *doc;
} option_rows[OPTION_COUNT] = {
    [OPTION_HELP] = { "help", NULL, "show this" },
    [OPTION_VERSION] = { "version", NULL, "show the version" },
    [OPTION_STATE_DIR] = { "state-dir", "DIR",
                           "the state directory; else LLM_ROUTER_STATE_DIR, else /var/lib/llm-router" },
    [OPTION_RUN_DIR] = { "run-dir", "DIR",
                         "the run directory; else LLM_ROUTER_RUN_DIR, else /run/llm-router" },
    [OPTION_ENTRY] = { "entry", "NAME", "the entry of the configuration; else LLM_ROUTER_CONFIG" },
    [OPTION_IF_VERSION] = { "if-version", "VERSION",
                            "only if this is in force; \"none\": only if there is no value yet" },
    [OPTION_FORCE] = { "force", NULL, "over whatever is in force; whatever would be lost" },
    [OPTION_LIMIT] = { "limit", "N", "how many, from 1 to 10000; else 20" },
    [OPTION_FIRST_KEY] = { "first-key", NULL, "of each model the first key that decrypts; must be said" },
    [OPTION_OUTPUT] = { "output", "FILE", "write there, readable by you alone; else to stdout" },
    [OPTION_DRY_RUN] = { "dry-run", NULL, "say what would be done, and change nothing" },
    [OPTION_JSON] = { "json", NULL, "as JSON, for programs" },
    [OPTION_MODEL] = { "model", "NAME", "the model that the key is for" },
    [OPTION_KEY_ID] = { "key-id", "ID", "the key's id in its upstream" },
    [OPTION_CREDENTIAL] = { "credential", "NAME", "instead of these: the member of credentials it is for" },
    [OPTION_ID] = { "id", "ID", "the caller key's name" },
    [OPTION_OWNER] = { "owner", "TEXT", "whose key it is" },
    [OPTION_MODELS] = { "models", "NAME,…", "the only models it may use; else all" },
    [OPTION_CONCURRENCY] = { "concurrency", "N", "requests it may have in hand at the same time" },
    [OPTION_REQUESTS_PER_MINUTE] = { "requests-per-minute", "N", "requests it may make" },
    [OPTION_TOKENS_PER_MINUTE] = { "tokens-per-minute", "N", "tokens it may use, read and written" },
    [OPTION_DATABASE_URL_FILE] = { "database-url-file", "FILE",
                                   "holds the address of Postgres; else DATABASE_URL or DATABASE_URL_FILE" },
    [OPTION_GRANT_TO] = { "grant-to", "ROLE", "the role of the programs gets what they need of the tables" },
    [OPTION_REGION] = { "region", "NAME", "the region to ask: eastus" },
    [OPTION_URL] = { "url", "URL", "the address: of the provider's list, or of the instance's mount" },
    [OPTION_FILE] = { "file", "FILE", "the catalog; else voices/PROVIDER.tsv" },
    [OPTION_WRITE] = { "write", NULL, "write the catalog; else the difference is only shown" },
    [OPTION_ONCE] = { "once", NULL, "one frame, as plain text" },
    [OPTION_INTERVAL] = { "interval", "SECONDS", "between two frames, from 0.1 to 60; else 1" },
    [OPTION_KEY_FILE] = { "key-file", "FILE", "holds the caller's key; \"-\": standard input" },
    [OPTION_CHAT_MODEL] = { "chat-model", "NAME", "a model that answers; else the default model" },
    [OPTION_FALLBACK_MODEL] = { "fallback-model", "NAME", "a model whose first key or upstream fails" },
    [OPTION_SPEECH_MODEL] = { "speech-model", "NAME", "a model that speaks, any number of times; else all" },
    [OPTION_EXHAUSTED_MODEL] = { "exhausted-model", "NAME", "a model of which every key fails" },
    [OPTION_REPORT] = { "report", "FILE", "write a report in Markdown there, too" },
    [OPTION_COMMIT] = { "commit", "TEXT", "for the report: what was built" },
    [OPTION_ENVIRONMENT] = { "environment", "TEXT", "for the report: where it runs" },
};

#define STORE_OPTIONS BIT(OPTION_STATE_DIR)
#define LIMIT_OPTIONS \
    (BIT(OPTION_CONCURRENCY) | BIT(OPTION_REQUESTS_PER_MINUTE) | BIT(OPTION_TOKENS_PER_MINUTE))
#define MAY_REPEAT BIT(OPTION_SPEECH_MODEL)

static const struct command {
    const char *words[2]; /* the second may be NULL */
    const char *argument; /* NULL: it takes none; in brackets: it may be left out */
    const char *doc;
    uint64_t accepts;  /* bits of options */
    uint64_t requires; /* those of them that must be given */
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
    { { "config", "manual" }, NULL, "print the list of fields for the manual page", 0, 0, ctl_config_manual },
    { { "config", "get" },
      "[VERSION]",
      "print an entry, as it is in force or was, keys as fingerprints",
      BIT(OPTION_ENTRY) | STORE_OPTIONS,
      0,
      ctl_config_get },
    { { "config", "put" },
      "[FILE|-]",
      "put an entry in force; plaintext keys in it are encrypted",
      BIT(OPTION_ENTRY) | BIT(OPTION_IF_VERSION) | BIT(OPTION_FORCE) | STORE_OPTIONS,
      0,
      ctl_config_put },
    { { "config", "diff" },
      "[FILE|-]",
      "show what a put would change; exit status 1 if there is anything",
      BIT(OPTION_ENTRY) | STORE_OPTIONS,
      0,
      ctl_config_diff },
    { { "config", "versions" },
      NULL,
      "list what was ever in force, the newest first",
      BIT(OPTION_ENTRY) | BIT(OPTION_LIMIT) | STORE_OPTIONS,
      0,
      ctl_config_versions },
    { { "config", "restore" },
      "VERSION",
      "put an older version in force again",
      BIT(OPTION_ENTRY) | BIT(OPTION_IF_VERSION) | STORE_OPTIONS,
      0,
      ctl_config_restore },
    { { "config", "export" },
      NULL,
      "write one URL and key of each model in plaintext, for a gateway that knows no more",
      BIT(OPTION_FIRST_KEY) | BIT(OPTION_OUTPUT) | STORE_OPTIONS,
      BIT(OPTION_FIRST_KEY),
      ctl_config_export },
    { { "metrics", "manual" },
      NULL,
      "print the list of metrics for the manual page",
      0,
      0,
      ctl_metrics_manual },
    { { "verify", NULL },
      NULL,
      "decrypt every key in force, and name those that fail",
      STORE_OPTIONS,
      0,
      ctl_verify },
    { { "rotate", NULL },
      NULL,
      "encrypt every key anew, from the previous master key to the current one",
      BIT(OPTION_DRY_RUN) | STORE_OPTIONS,
      0,
      ctl_rotate },
    { { "status", NULL },
      NULL,
      "show what is in force, and which instances serve it",
      BIT(OPTION_JSON) | BIT(OPTION_RUN_DIR) | STORE_OPTIONS,
      0,
      ctl_status },
    { { "caller-key", "add" },
      NULL,
      "make a caller's key and print it, this once",
      BIT(OPTION_ID) | BIT(OPTION_OWNER) | BIT(OPTION_MODELS) | LIMIT_OPTIONS | STORE_OPTIONS,
      BIT(OPTION_ID),
      ctl_caller_key_add },
    { { "caller-key", "list" }, NULL, "list the caller keys", STORE_OPTIONS, 0, ctl_caller_key_list },
    { { "caller-key", "revoke" }, "ID", "remove a caller key", STORE_OPTIONS, 0, ctl_caller_key_revoke },
    { { "voice-pack", "list" }, NULL, "list the voice packs", STORE_OPTIONS, 0, ctl_voice_pack_list },
    { { "voice-pack", "add" },
      "[FILE|-]",
      "make a voice pack of a JSON object, and print its id",
      STORE_OPTIONS,
      0,
      ctl_voice_pack_add },
    { { "voice-pack", "change" },
      "ID",
      "change a voice pack by the merge patch on stdin",
      STORE_OPTIONS,
      0,
      ctl_voice_pack_change },
    { { "voice-pack", "enable" },
      "ID",
      "let callers find a voice pack",
      STORE_OPTIONS,
      0,
      ctl_voice_pack_enable },
    { { "voice-pack", "disable" },
      "ID",
      "hide a voice pack from callers; snapshots of it are spoken on",
      STORE_OPTIONS,
      0,
      ctl_voice_pack_disable },
    { { "voice-pack", "rekey" },
      NULL,
      "make a new key of tags: every snapshot that clients keep is refused then; must be said",
      BIT(OPTION_FORCE) | STORE_OPTIONS,
      BIT(OPTION_FORCE),
      ctl_voice_pack_rekey },
    { { "migrate", NULL },
      NULL,
      "bring the tables in Postgres up to those of this program",
      BIT(OPTION_DATABASE_URL_FILE) | BIT(OPTION_GRANT_TO),
      0,
      ctl_migrate },
    { { "voices", "refresh" },
      "PROVIDER",
      "compare a catalog of voices with the provider's list; its key comes on stdin",
      BIT(OPTION_REGION) | BIT(OPTION_URL) | BIT(OPTION_FILE) | BIT(OPTION_WRITE) | BIT(OPTION_FORCE),
      0,
      ctl_voices_refresh },
    { { "smoke", NULL },
      NULL,
      "ask a running instance for one of each, and say what came",
      BIT(OPTION_URL) | BIT(OPTION_KEY_FILE) | BIT(OPTION_CHAT_MODEL) | BIT(OPTION_FALLBACK_MODEL) |
          BIT(OPTION_SPEECH_MODEL) | BIT(OPTION_EXHAUSTED_MODEL) | BIT(OPTION_STATE_DIR) | BIT(OPTION_JSON) |
          BIT(OPTION_REPORT) | BIT(OPTION_COMMIT) | BIT(OPTION_ENVIRONMENT),
      BIT(OPTION_URL),
      ctl_smoke },
    { { "top", NULL },
      NULL,
      "show the instance on this host, live: workers, requests, upstreams",
      BIT(OPTION_ONCE) | BIT(OPTION_JSON) | BIT(OPTION_INTERVAL) | BIT(OPTION_RUN_DIR) |
          BIT(OPTION_STATE_DIR),
      0,
      ctl_top },
};

enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static const char *name_of(const struct command *command, struct arena *arena)
{
    const char *second = command->words[1];
    return arena_printf(arena, "%s%s%s", command->words[0], second == NULL ? "" : " ",
                        second == NULL ? "" : second);
}

static void print_options(uint64_t which)
{
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        char left[40];
        const struct option_row *row = &option_rows[i];
        if ((which & BIT(i)) == 0)
            continue;
        snprintf(left, sizeof(left), "--%s%s%s", row->name, row->value == NULL ? "" : " ",
                 row->value == NULL ? "" : row->value);
        printf("  %-23s %s\n", left, row->doc);
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
            printf("  %-23s %s\n", name_of(&commands[i], arena), commands[i].doc);
        printf("\nllm-routerctl COMMAND --help lists a command's options.\n\n");
        print_options(BIT(OPTION_HELP) | BIT(OPTION_VERSION));
        printf("\nThe master key is taken from LLM_ROUTER_MASTER_KEY or LLM_ROUTER_MASTER_KEY_FILE,\n"
               "the one before it from the same with _PREVIOUS. Exit status: 0 done, 1 refused\n"
               "or failed, 2 usage; config diff and status have their own, see llm-routerctl(8).\n");
    }
    return CTL_OK;
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

/* What of the table was probably meant, as the end of a message; "" if nothing is near. */
static const char *suggest_command(const char *typed, struct arena *arena)
{
    const char *best = NULL;
    size_t least = 0;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const char *name = name_of(&commands[i], arena);
        size_t distance = name_distance(span_cstr(name), span_cstr(typed));
        if (name_is_near(span_cstr(name), distance) && (best == NULL || distance < least)) {
            best = name;
            least = distance;
        }
    }
    return best == NULL ? "" : arena_printf(arena, " (the nearest is \"%s\")", best);
}

/* The same for the options of a command. */
static const char *suggest_option(const struct command *command, const char *typed, struct arena *arena)
{
    const char *best = NULL;
    size_t least = 0, len = strcspn(typed, "=");
    struct span name = len > 2 ? span_of(typed + 2, len - 2) : span_of("", 0);
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        struct span known = span_cstr(option_rows[i].name);
        size_t distance = name_distance(known, name);
        if ((command->accepts & BIT(i)) != 0 && name_is_near(known, distance) &&
            (best == NULL || distance < least)) {
            best = option_rows[i].name;
            least = distance;
        }
    }
    return best == NULL ? "" : arena_printf(arena, " (the nearest is --%s)", best);
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
    call->given = arena_array_of(call->arena, struct given_option, (size_t)argc);
    opterr = 0;
    for (;;) {
        int index = -1, got = getopt_long(argc, argv, ":", rows, &index);
        if (got == -1)
            break;
        if (got == ':')
            return ctl_fail(call, CTL_USAGE, "%s needs a value", argv[optind - 1]);
        if (got != 0)
            return ctl_fail(call, CTL_USAGE, "no such option: %s%s", argv[optind - 1],
                            suggest_option(command, argv[optind - 1], call->arena));
        if (index != OPTION_HELP && (command->accepts & BIT(index)) == 0)
            return ctl_fail(call, CTL_USAGE, "--%s is not an option of this command",
                            option_rows[index].name);
        if (call->options[index] != NULL && (MAY_REPEAT & BIT(index)) == 0)
            return ctl_fail(call, CTL_USAGE, "--%s is given twice", option_rows[index].name);
        call->options[index] = optarg == NULL ? "" : optarg;
        call->given[call->n_given++] = (struct given_option){ (enum ctl_option)index, call->options[index] };
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

static int run(int argc, char **argv, struct arena *arena)
{
    struct invocation call = { .arena = arena };
    int n_words = 0;

    if (argc < 2)
        return usage("the command is missing");
    if (strcmp(argv[1], "--help") == 0)
        return print_help(NULL, arena);
    if (strcmp(argv[1], "--version") == 0)
        return fputs(version, stdout) == EOF ? CTL_REFUSED : CTL_OK;
    const struct command *command = find_command(argc, argv, &n_words);
    if (command == NULL) {
        const char *typed =
            argc > 2 && argv[2][0] != '-' ? arena_printf(arena, "%s %s", argv[1], argv[2]) : argv[1];
        return usage("no such command: %s%s", typed, suggest_command(typed, arena));
    }
    call.command = name_of(command, arena);
    int status = read_options(command, argc - n_words, argv + n_words, &call);
    if (status != CTL_OK)
        return status;
    return call.options[OPTION_HELP] != NULL ? print_help(command, arena) : command->run(&call);
}

/* What was said to be done is done only if it has arrived: a full disk may tell at the end. */
static int close_stdout(int status)
{
    bool had_failed = ferror(stdout) != 0;
    int r = fclose(stdout), cause = errno;
    if (status != CTL_OK || (r == 0 && !had_failed)) /* a failed command has said why */
        return status;
    fprintf(stderr, "llm-routerctl: cannot write to stdout: %s\n", r != 0 ? strerror(cause) : "it failed");
    return CTL_REFUSED;
}

int main(int argc, char **argv)
{
    struct error e;

    /* Who closes the other end of a pipe must not end a command between two steps. */
    signal(SIGPIPE, SIG_IGN);
    if (memory_keep_secret(&e) != 0) {
        fprintf(stderr, "llm-routerctl: %s\n", e.text);
        return CTL_REFUSED;
    }
    struct arena *arena = arena_new();
    int status = run(argc, argv, arena);
    arena_free(arena);
    return close_stdout(status);
}

/*
 * Runs a fuzz target on every file of the given folders, without libFuzzer:
 * replay FOLDER... Each file has a process of its own, so that all those that
 * fail are named.
 */
#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/file.h"
#include "tests/fuzz/fuzz.h"

enum { INPUT_LIMIT_BYTES = 1024 * 1024, INPUT_LIMIT_S = 20 };

static _Noreturn void run_input(const char *path)
{
    struct arena *arena = arena_new();
    struct error e;
    struct span bytes;

    alarm(INPUT_LIMIT_S);
    if (file_read(path, INPUT_LIMIT_BYTES, arena, &bytes, &e) != 0) {
        fprintf(stderr, "%s\n", e.text);
        _exit(EXIT_FAILURE);
    }
    struct span input = fuzz_copy(bytes);
    (void)LLVMFuzzerTestOneInput((const uint8_t *)input.ptr, input.len);
    fuzz_free_copy(input);
    arena_free(arena);
    exit(EXIT_SUCCESS); /* not _exit: leaks are looked for on the way */
}

static bool passes(const char *path)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0)
        run_input(path);
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        status = -1;
    if (status == 0)
        return true;
    fprintf(stderr, "%s: %s\n", path,
            WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "takes too long" : "fails");
    return false;
}

static bool replay_folder(const char *folder, size_t *n_inputs, size_t *n_failed)
{
    struct dirent **entries;
    char path[4096];
    int n = scandir(folder, &entries, NULL, alphasort);
    if (n < 0) {
        perror(folder);
        return false;
    }
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.') {
            snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
            ++*n_inputs;
            *n_failed += passes(path) ? 0 : 1;
        }
        free(entries[i]);
    }
    free(entries);
    return true;
}

int main(int argc, char **argv)
{
    size_t n_inputs = 0, n_failed = 0;
    bool can_read = true;

    for (int i = 1; i < argc; i++)
        can_read = replay_folder(argv[i], &n_inputs, &n_failed) && can_read;
    printf("%s: %zu inputs, %zu failed\n", basename(argv[0]), n_inputs, n_failed);
    /* A folder without inputs is a mistake in its name. */
    return can_read && n_inputs > 0 && n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

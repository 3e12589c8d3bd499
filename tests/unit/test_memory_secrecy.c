/* Who may read a process's memory after memory_keep_secret. */
#include <check.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/memory_secrecy.h"

static int is_secret(void)
{
    struct rlimit core = { 1, 1 };
    return prctl(PR_GET_DUMPABLE) == 0 && getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur == 0 &&
           core.rlim_max == 0;
}

START_TEST(a_process_and_its_children_leave_no_core_dump)
{
    struct error e = { 0 };
    int status = 0;

    ck_assert(!is_secret());
    ck_assert_msg(memory_keep_secret(&e) == 0, "%s", e.text);
    ck_assert(is_secret());
    pid_t child = fork();
    if (child == 0)
        _exit(is_secret() ? 0 : 1);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    child = fork();
    if (child == 0)
        abort();
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && !WCOREDUMP(status));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memory_secrecy");
    TCase *all = tcase_create("all");
    tcase_add_test(all, a_process_and_its_children_leave_no_core_dump);
    suite_add_tcase(suite, all);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}

#include <check.h>
#include <string.h>

#include "fcgi/edge/mount.h"

static const struct mount_row {
    const char *path;
    const char *prefix; /* NULL: no mount */
    const char *endpoint;
    enum error_form form;
} rows[] = {
    { "/v1/chat/completions", "/v1", "chat/completions", ERROR_FORM_OPENAI },
    { "/api/v1/openai/chat/completions", "/api/v1/openai", "chat/completions", ERROR_FORM_CODED },
    { "/v1/models/a/b", "/v1", "models/a/b", ERROR_FORM_OPENAI },
    /* the mount itself */
    { "/v1", "/v1", "", ERROR_FORM_OPENAI },
    { "/v1/", "/v1", "", ERROR_FORM_OPENAI },
    { "/api/v1/openai", "/api/v1/openai", "", ERROR_FORM_CODED },
    /* below something else */
    { "/llm/v1/models", "/v1", "models", ERROR_FORM_OPENAI },
    { "/llm/api/v1/openai/models", "/api/v1/openai", "models", ERROR_FORM_CODED },
    { "/api/v1/models", "/v1", "models", ERROR_FORM_OPENAI },
    { "/v10/v1/models", "/v1", "models", ERROR_FORM_OPENAI },
    { "/v1x/v1/v1/models", "/v1", "v1/models", ERROR_FORM_OPENAI },
    /* the longer one, wherever it stands */
    { "/v1/api/v1/openai/models", "/api/v1/openai", "models", ERROR_FORM_CODED },
    { "/api/v1/openai/v1/models", "/api/v1/openai", "v1/models", ERROR_FORM_CODED },
    /* a name that only begins like the longer one */
    { "/api/v1/openais/models", "/v1", "openais/models", ERROR_FORM_OPENAI },
    /* no mount */
    { "", NULL, NULL, ERROR_FORM_OPENAI },
    { "/", NULL, NULL, ERROR_FORM_OPENAI },
    { "/livez", NULL, NULL, ERROR_FORM_OPENAI },
    { "v1/models", NULL, NULL, ERROR_FORM_OPENAI },
    { "/v1x/models", NULL, NULL, ERROR_FORM_OPENAI },
    { "/v10", NULL, NULL, ERROR_FORM_OPENAI },
    { "/xv1/models", NULL, NULL, ERROR_FORM_OPENAI },
    { "/V1/models", NULL, NULL, ERROR_FORM_OPENAI },
    { "/v2/models", NULL, NULL, ERROR_FORM_OPENAI },
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

START_TEST(a_mount_is_found_wherever_it_stands)
{
    const struct mount_row *row = &rows[_i];
    const char *endpoint = "untouched";
    const struct mount *mount = mount_find(row->path, &endpoint);

    if (row->prefix == NULL) {
        ck_assert_msg(mount == NULL, "\"%s\": %s", row->path, mount != NULL ? mount->prefix : "");
        ck_assert_str_eq(endpoint, "untouched");
        return;
    }
    ck_assert_msg(mount != NULL, "\"%s\": none, expected %s", row->path, row->prefix);
    ck_assert_msg(strcmp(mount->prefix, row->prefix) == 0 && strcmp(endpoint, row->endpoint) == 0,
                  "\"%s\": %s and \"%s\", expected %s and \"%s\"", row->path, mount->prefix, endpoint,
                  row->prefix, row->endpoint);
    ck_assert_msg(mount->form == row->form, "\"%s\": the other error form", row->path);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("mount");
    TCase *tcase = tcase_create("mount");

    tcase_add_loop_test(tcase, a_mount_is_found_wherever_it_stands, 0, N_ROWS);
    suite_add_tcase(suite, tcase);

    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}

/* voices refresh: a catalog of the repository against what its provider has now. */
#include <openssl/crypto.h>
#include <stdio.h>
#include <sys/stat.h>

#include "admin/ctl/azure_voices.h"
#include "admin/ctl/http_call.h"
#include "admin/ctl/secret.h"
#include "admin/ctl/voices_diff.h"
#include "core/base/file.h"
#include "core/config/admit.h"

enum {
    REPLY_LIMIT_BYTES = 16 * 1024 * 1024,
    REPLY_TIMEOUT_S = 60,
    HEADER_BYTES = 64, /* of the key's header, besides the key */
    REGION_MAX_BYTES = 40,
};

/* The catalogs that a provider's live list can bring up to date. */
static const struct source {
    const char *provider;
    const char *file;   /* by default */
    const char *url;    /* with the region's place as %s */
    const char *header; /* of the key */
    int (*read)(struct span reply, const struct voice_table *before, struct arena *arena,
                struct voice_table *out, struct error *e);
} sources[] = {
    { "azure", "voices/azure.tsv", "https://%s.tts.speech.microsoft.com/cognitiveservices/voices/list",
      "Ocp-Apim-Subscription-Key", azure_voices_read },
};

static const struct source *find_source(const char *provider)
{
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
        if (strcmp(sources[i].provider, provider) == 0)
            return &sources[i];
    return NULL;
}

static bool is_region(const char *text)
{
    size_t len = strlen(text);
    return len > 0 && len <= REGION_MAX_BYTES && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789") == len;
}

/* The address of the list, from --region or --url. */
static int url_of(const struct invocation *call, const struct source *source, const char **out)
{
    const char *region = call->options[OPTION_REGION], *url = call->options[OPTION_URL];
    if ((region == NULL) == (url == NULL))
        return ctl_fail(call, CTL_USAGE, "either --region or --url is expected");
    if (region != NULL && !is_region(region))
        return ctl_fail(call, CTL_USAGE, "\"%.40s\" is no region: expected a name like eastus", region);
    if (url != NULL) {
        *out = url;
        return CTL_OK;
    }
    const char *place = strstr(source->url, "%s");
    *out = arena_printf(call->arena, "%.*s%s%s", (int)(place - source->url), source->url, region, place + 2);
    return CTL_OK;
}

/* The list, from a reply with the status 200. */
static int ask(const struct invocation *call, const char *url, const char *header, struct span *list)
{
    const struct http_request request = {
        .method = "GET",
        .url = url,
        .headers = { header },
        .timeout_s = REPLY_TIMEOUT_S,
        .limit_bytes = REPLY_LIMIT_BYTES,
    };
    struct http_reply reply;

    http_call(&request, call->arena, &reply);
    if (reply.problem != NULL)
        return ctl_fail(call, CTL_REFUSED, "%s", reply.problem);
    if (reply.status != 200)
        return ctl_fail(call, CTL_REFUSED, "the provider said %s", reply.status_line);
    *list = reply.body;
    return CTL_OK;
}

static int fetch(const struct invocation *call, const struct source *source, const char *url,
                 struct span *reply)
{
    char key[ENVELOPE_PLAINTEXT_MAX + 2], header[HEADER_BYTES + sizeof(key)];
    size_t len = 0;
    int status = secret_read(call, "Key of the speech service", key, sizeof(key), &len);

    if (status == CTL_OK) {
        const char *problem = config_key_problem(span_of(key, len));
        if (problem != NULL)
            status = ctl_fail(call, CTL_REFUSED, "%s", problem);
    }
    if (status == CTL_OK) {
        snprintf(header, sizeof(header), "%s: %.*s", source->header, (int)len, key);
        status = ask(call, url, header, reply);
        OPENSSL_cleanse(header, sizeof(header));
    }
    OPENSSL_cleanse(key, sizeof(key));
    return status;
}

static int read_file(const struct invocation *call, const char *path, struct span *raw,
                     struct voice_table *out)
{
    struct error e;
    int status = ctl_read(call, path, VOICE_TABLE_LIMIT_BYTES, raw);
    if (status == CTL_OK && voice_table_read(*raw, path, call->arena, out, &e) != 0)
        status = ctl_fail(call, CTL_REFUSED, "%s", e.text);
    return status;
}

/* The reply as the file that would be written, and read as that. */
static int convert(const struct invocation *call, const struct source *source, struct span reply,
                   const struct voice_table *before, struct buf *text, struct voice_table *after)
{
    struct error e;
    int r = source->read(reply, before, call->arena, after, &e);
    if (r == 0) {
        voice_table_write(after, text);
        r = text->overflowed ? error_set(&e, ERR_LIMIT, "more than %d bytes", VOICE_TABLE_LIMIT_BYTES)
                             : voice_table_read(buf_span(text), "the new list", call->arena, after, &e);
    }
    return r == 0 ? CTL_OK : ctl_fail(call, CTL_REFUSED, "%s; nothing was written", e.text);
}

static int show(const struct invocation *call, const struct voice_table *before,
                const struct voice_table *after, struct voices_diff *totals)
{
    struct buf text;
    buf_init(&text, 4 * VOICE_TABLE_LIMIT_BYTES);
    voices_diff_write(before, after, &text, totals);
    buf_printf(&text, "%zu voices: %zu added, %zu removed, %zu changed, %zu titles of languages differ\n",
               after->n_voices, totals->added, totals->removed, totals->changed, totals->titles);
    int status = ctl_print(call, buf_span(&text));
    buf_free(&text);
    return status;
}

/* Keeps the file's mode: it is a file of the repository. */
static int replace(const struct invocation *call, const char *path, struct span text)
{
    struct stat st;
    struct error e;
    if (stat(path, &st) != 0)
        return ctl_fail(call, CTL_REFUSED, "%s is gone", path);
    if (file_replace(path, text, st.st_mode & 0777, &e) != 0)
        return ctl_fail(call, CTL_REFUSED, "%s", e.text);
    return CTL_OK;
}

static bool has_shrunk(const struct voice_table *before, const struct voice_table *after)
{
    return 4 * after->n_voices < 3 * before->n_voices;
}

static int compare_and_write(const struct invocation *call, const char *path, struct span raw,
                             const struct voice_table *before, const struct voice_table *after,
                             struct span text)
{
    struct voices_diff totals;
    int status = show(call, before, after, &totals);
    if (status == CTL_OK && has_shrunk(before, after) && call->options[OPTION_FORCE] == NULL)
        return ctl_fail(call, CTL_REFUSED,
                        "%zu voices of %zu are left, which is less than three quarters; nothing was written "
                        "(--force takes it all the same)",
                        after->n_voices, before->n_voices);
    if (status == CTL_OK && call->options[OPTION_WRITE] != NULL && !span_eq(raw, text))
        status = replace(call, path, text);
    return status;
}

int ctl_voices_refresh(const struct invocation *call)
{
    const struct source *source = find_source(call->argument);
    const char *path = call->options[OPTION_FILE], *url = NULL;
    struct voice_table before, after;
    struct span raw = { NULL, 0 }, reply = { NULL, 0 };
    struct buf text;

    if (source == NULL)
        return ctl_fail(call, CTL_USAGE, "no list of \"%.40s\" can be read (there is %s)", call->argument,
                        sources[0].provider);
    if (path == NULL)
        path = source->file;
    buf_init(&text, VOICE_TABLE_LIMIT_BYTES);
    int status = url_of(call, source, &url);
    if (status == CTL_OK)
        status = read_file(call, path, &raw, &before);
    if (status == CTL_OK)
        status = fetch(call, source, url, &reply);
    if (status == CTL_OK)
        status = convert(call, source, reply, &before, &text, &after);
    if (status == CTL_OK)
        status = compare_and_write(call, path, raw, &before, &after, buf_span(&text));
    buf_free(&text);
    return status;
}

/* config export: one URL and one key for each model, in plaintext. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include "admin/ctl/session.h"
#include "core/base/buf.h"
#include "core/base/file.h"
#include "core/config/snapshot.h"
#include "core/json/writer.h"

enum {
    EXPORT_LIMIT_BYTES = 64 * 1024 * 1024,
    EXPORT_MODE = 0600,
    OTHERS = 0077, /* the permissions of everybody but the owner */
};

struct export
{
    const struct invocation *call;
    const struct snap_root *root;
    const struct envelope_keys *keys;
    struct json_writer w;
};

/* The header's value: the template with the key in it. */
static void write_credential(struct export *x, const struct snap_upstream *upstream, struct span key)
{
    static const char mark[] = "{KEY}";
    struct span template = snap_span(x->root, upstream->header_template);
    const char *place = strstr(template.ptr, mark);
    size_t before = place == NULL ? template.len : (size_t)(place - template.ptr);
    char *value = arena_alloc(x->call->arena, template.len + key.len + 1);
    size_t len = before;

    memcpy(value, template.ptr, before);
    if (place != NULL) {
        const char *after = place + sizeof(mark) - 1;
        size_t rest = template.len - before - (sizeof(mark) - 1);
        memcpy(value + len, key.ptr, key.len);
        memcpy(value + len + key.len, after, rest);
        len += key.len + rest;
    }
    jw_member_span(&x->w, snap_cstr(x->root, upstream->header_name), span_of(value, len));
    OPENSSL_cleanse(value, len);
}

static void write_model(struct export *x, const struct snap_model *model,
                        const struct snap_upstream *upstream, const struct snap_key *key,
                        const struct secret *secret)
{
    struct span real = snap_span(x->root, upstream->override_model);
    struct span plaintext = span_of(secret->bytes, secret->len);

    jw_key_span(&x->w, snap_span(x->root, model->name));
    jw_begin_object(&x->w);
    jw_member_cstr(&x->w, "url",
                   arena_printf(x->call->arena, "%s/chat/completions", snap_cstr(x->root, upstream->url)));
    jw_member_span(&x->w, "model", real.len > 0 ? real : snap_span(x->root, model->name));
    jw_member_span(&x->w, "keyId", snap_span(x->root, key->id));
    jw_member_span(&x->w, "key", plaintext);
    jw_key(&x->w, "headers");
    jw_begin_object(&x->w);
    for (uint32_t i = 0; i < upstream->headers.count; i++) {
        const struct snap_header_line *line =
            SNAP_ITEM(x->root, upstream->headers, struct snap_header_line, i);
        jw_member_span(&x->w, snap_cstr(x->root, line->name), snap_span(x->root, line->value));
    }
    write_credential(x, upstream, plaintext);
    jw_end_object(&x->w);
    jw_end_object(&x->w);
}

/* The first key that decrypts, in the document's order. */
static int export_model(struct export *x, const struct snap_model *model)
{
    for (uint32_t i = 0; i < model->upstreams.count; i++) {
        const struct snap_upstream *upstream = SNAP_ITEM(x->root, model->upstreams, struct snap_upstream, i);
        for (uint32_t j = 0; j < upstream->keys.count; j++) {
            const struct snap_key *key = SNAP_ITEM(x->root, upstream->keys, struct snap_key, j);
            struct secret secret;
            if (envelope_decrypt(x->keys, snap_span(x->root, key->ciphertext), snap_span(x->root, key->aad),
                                 &secret, NULL) != 0)
                continue;
            write_model(x, model, upstream, key, &secret);
            secret_wipe(&secret);
            return CTL_OK;
        }
    }
    return ctl_fail(x->call, CTL_REFUSED, "no key of model \"%s\" decrypts; nothing was written",
                    snap_cstr(x->root, model->name));
}

static int compose(const struct invocation *call, const struct session *session,
                   const struct store_value *tree, struct buf *out)
{
    struct entry_value values[ENTRY_COUNT] = { [ENTRY_LLM_ROUTER_CONFIG] = { tree->raw, tree->version } };
    struct entry_faults faults = { 0 };
    enum entry_id which;
    size_t undecryptable;
    struct span image;
    int status = CTL_OK;

    if (entry_compile(values, 1, &session->keys, call->arena, &image, &undecryptable, &which, &faults) != 0) {
        ctl_print_faults(&faults);
        return ctl_fail(call, CTL_REFUSED, "version %s is not a valid document", tree->version);
    }
    struct export x = { .call = call, .keys = &session->keys, .root = (const void *)image.ptr };
    jw_init(&x.w, out);
    jw_begin_object(&x.w);
    jw_member_cstr(&x.w, "version", tree->version);
    jw_key(&x.w, "models");
    jw_begin_object(&x.w);
    for (uint32_t i = 0; status == CTL_OK && i < x.root->models.count; i++)
        status = export_model(&x, SNAP_ITEM(x.root, x.root->models, struct snap_model, i));
    jw_end_object(&x.w);
    jw_end_object(&x.w);
    buf_append_char(out, '\n');
    if (status == CTL_OK && out->overflowed)
        status = ctl_fail(call, CTL_REFUSED, "the export would have more than %d bytes", EXPORT_LIMIT_BYTES);
    return status;
}

/* Plaintext keys are not for a screen, nor for a file that others may read. */
static int check_stdout(const struct invocation *call)
{
    struct stat st;
    if (isatty(STDOUT_FILENO))
        return ctl_fail(call, CTL_REFUSED, "keys are not shown at a terminal; give --output FILE");
    if (fstat(STDOUT_FILENO, &st) == 0 && S_ISREG(st.st_mode) && (st.st_mode & OTHERS) != 0)
        return ctl_fail(call, CTL_REFUSED,
                        "stdout is a file that others may read (mode %04o); give --output FILE",
                        (unsigned)(st.st_mode & 07777));
    return CTL_OK;
}

int ctl_config_export(const struct invocation *call)
{
    const char *path = call->options[OPTION_OUTPUT];
    struct session session = { 0 };
    struct store_value tree;
    struct buf text;
    struct error e;
    buf_init(&text, EXPORT_LIMIT_BYTES);

    int status = path != NULL ? CTL_OK : check_stdout(call);
    if (status == CTL_OK)
        status = session_open(call, SESSION_KEYS_NEEDED, &session);
    if (status == CTL_OK)
        status = session_get(call, &session, ENTRY_LLM_ROUTER_CONFIG, &tree);
    if (status == CTL_OK)
        status = compose(call, &session, &tree, &text);
    if (status == CTL_OK && path == NULL)
        status = ctl_print(call, buf_span(&text));
    else if (status == CTL_OK && file_replace(path, buf_span(&text), EXPORT_MODE, &e) != 0)
        status = ctl_fail(call, CTL_REFUSED, "%s", e.text);
    if (text.len > 0)
        OPENSSL_cleanse(text.data, text.len);
    buf_free(&text);
    session_close(&session);
    return status;
}

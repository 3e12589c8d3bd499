/* keygen and encrypt. */
#include "admin/ctl/secret.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#include "core/base/ids.h"
#include "core/config/admit.h"
#include "core/config/field.h"
#include "core/crypto/digest.h"

int ctl_keygen(const struct invocation *call)
{
    unsigned char key[ENVELOPE_MASTER_BYTES];
    char text[64];
    ids_random(key, sizeof(key));
    base64_encode(span_of((const char *)key, sizeof(key)), text);
    text[base64_size(sizeof(key)) - 1] = '\n';
    int status = ctl_print(call, span_of(text, base64_size(sizeof(key))));
    OPENSSL_cleanse(key, sizeof(key));
    OPENSSL_cleanse(text, sizeof(text));
    return status;
}

/* "model|id" or "credential|NAME" from the options. */
static int aad_of(const struct invocation *call, struct span *out)
{
    const char *model = call->options[OPTION_MODEL], *id = call->options[OPTION_KEY_ID];
    const char *credential = call->options[OPTION_CREDENTIAL];
    bool is_key = model != NULL && id != NULL && credential == NULL;
    bool is_credential = model == NULL && id == NULL && credential != NULL;
    if (!is_key && !is_credential)
        return ctl_fail(call, CTL_USAGE, "either --model and --key-id, or --credential is expected");
    const char *parts[2] = { is_key ? model : "credential", is_key ? id : credential };
    for (size_t i = 0; i < 2; i++) {
        size_t len = strlen(parts[i]);
        const char *problem = rule_name.problem(span_cstr(parts[i]));
        if (len == 0 || len > NAME_MAX_BYTES || problem != NULL)
            return ctl_fail(call, CTL_USAGE, "\"%.40s\": expected %s, 1 to %d bytes", parts[i],
                            rule_name.words, NAME_MAX_BYTES);
    }
    *out = span_cstr(arena_printf(call->arena, "%s|%s", parts[0], parts[1]));
    return CTL_OK;
}

int ctl_encrypt(const struct invocation *call)
{
    struct envelope_keys keys = { .has_previous = false };
    struct error e;
    struct span aad = { NULL, 0 };
    char plaintext[ENVELOPE_PLAINTEXT_MAX + 2], *text; /* one too many, and a newline */
    size_t len = 0;
    int status = aad_of(call, &aad);

    if (status == CTL_OK && envelope_keys_from_environment(&keys, &e) != 0)
        status = ctl_fail(call, CTL_REFUSED, "%s", e.text);
    if (status == CTL_OK)
        status = secret_read(call, "Provider key", plaintext, sizeof(plaintext), &len);
    if (status == CTL_OK) {
        const char *problem = config_key_problem(span_of(plaintext, len));
        if (problem != NULL)
            status = ctl_fail(call, CTL_REFUSED, "%s", problem);
    }
    if (status == CTL_OK &&
        envelope_encrypt(&keys, span_of(plaintext, len), aad, call->arena, &text, &e) != 0)
        status = ctl_fail(call, CTL_REFUSED, "%s", e.text);
    if (status == CTL_OK)
        status = ctl_print(call, span_cstr(arena_printf(call->arena, "%s\n", text)));
    OPENSSL_cleanse(plaintext, sizeof(plaintext));
    envelope_keys_wipe(&keys);
    return status;
}

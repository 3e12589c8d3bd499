#include "core/config/admit.h"

#include <openssl/crypto.h>

#include "core/config/document.h"
#include "core/config/faults.h"
#include "core/config/keyplaces.h"
#include "core/crypto/digest.h"
#include "core/store/store.h"

/* Stands for a ciphertext that a fault was found with, so that entry_check
 * does not find another one there. Never stored. */
static const char placeholder[] = "v1.AAAAAAAAAAAAAAAA..AAAAAAAAAAAAAAAAAAAAAA";

/* A ciphertext of the current document. */
struct kept {
    struct kept *next;
    bool is_credential;
    struct span owner, id;
    const char *ciphertext;
    char fingerprint[CIPHERTEXT_FINGERPRINT_DIGITS + 1];
};

struct admission {
    const struct envelope_keys *keys;
    struct arena *arena;
    struct entry_faults *faults;
    struct kept *kept;
};

const char *config_key_problem(struct span plaintext)
{
    if (plaintext.len == 0)
        return "a key is empty";
    if (plaintext.len > ENVELOPE_PLAINTEXT_MAX)
        return "a key has at most 8192 bytes";
    for (size_t i = 0; i < plaintext.len; i++)
        if ((unsigned char)plaintext.ptr[i] < ' ' || plaintext.ptr[i] == 0x7f)
            return "a key holds no control characters";
    if (plaintext.ptr[0] == ' ' || plaintext.ptr[plaintext.len - 1] == ' ')
        return "a key neither begins nor ends with a blank";
    return NULL;
}
_Static_assert(ENVELOPE_PLAINTEXT_MAX == 8192, "config_key_problem says so");

static int keep_place(void *ctx, const struct key_place *place)
{
    struct admission *a = ctx;
    const struct json_value *ciphertext = &place->members[MEMBER_CIPHERTEXT];
    if (ciphertext->kind != JSON_KIND_STRING)
        return 0;
    struct span text = json_decode(a->arena, ciphertext->raw);
    struct kept *kept = arena_new_of(a->arena, struct kept);
    kept->is_credential = place->is_credential;
    kept->owner = place->owner;
    kept->id = key_place_id(place, a->arena);
    kept->ciphertext = text.ptr;
    fingerprint(text, CIPHERTEXT_FINGERPRINT_DIGITS, kept->fingerprint);
    kept->next = a->kept;
    a->kept = kept;
    return 0;
}

static void fault_at(struct admission *a, const struct key_place *place, enum key_member member,
                     const char *text)
{
    const char *path = arena_printf(a->arena, "%s/%s", place->path, key_member_names[member]);
    fault_add(a->faults, a->arena, span_cstr(path), "%s", text);
}

/* Each returns the ciphertext to be stored; NULL after a fault. */

static const char *encrypt_plaintext(struct admission *a, const struct key_place *place)
{
    const struct json_value *value = &place->members[MEMBER_KEY];
    char *ciphertext = NULL;
    struct error e = { .text = "" };
    if (value->kind != JSON_KIND_STRING) {
        fault_at(a, place, MEMBER_KEY, "expected a text");
        return NULL;
    }
    if (a->keys == NULL) {
        fault_at(a, place, MEMBER_KEY, "cannot be encrypted: no master key is set");
        return NULL;
    }
    struct span plaintext = json_decode(a->arena, value->raw);
    const char *problem = config_key_problem(plaintext);
    if (problem == NULL &&
        envelope_encrypt(a->keys, plaintext, key_place_aad(place, a->arena), a->arena, &ciphertext, &e) != 0)
        problem = e.text;
    OPENSSL_cleanse((char *)plaintext.ptr, plaintext.len);
    if (problem != NULL)
        fault_at(a, place, MEMBER_KEY, problem);
    return ciphertext;
}

static const char *find_kept(struct admission *a, const struct key_place *place)
{
    const struct json_value *value = &place->members[MEMBER_CIPHERTEXT_FINGERPRINT];
    struct span id = key_place_id(place, a->arena);
    for (const struct kept *kept = a->kept; kept != NULL; kept = kept->next)
        if (value->kind == JSON_KIND_STRING && kept->is_credential == place->is_credential &&
            span_eq(kept->owner, place->owner) && span_eq(kept->id, id) &&
            json_string_is(value->raw, kept->fingerprint))
            return kept->ciphertext;
    fault_at(a, place, MEMBER_CIPHERTEXT_FINGERPRINT,
             place->is_credential
                 ? "the current document has no credential of this name with this ciphertextFingerprint"
                 : "the current document has no key of this model and id with this ciphertextFingerprint");
    return NULL;
}

static const char *verify_ciphertext(struct admission *a, const struct key_place *place)
{
    const struct json_value *value = &place->members[MEMBER_CIPHERTEXT];
    struct secret secret;
    struct error e;
    if (value->kind != JSON_KIND_STRING) {
        fault_at(a, place, MEMBER_CIPHERTEXT, "expected a text");
        return NULL;
    }
    if (a->keys == NULL) {
        fault_at(a, place, MEMBER_CIPHERTEXT, "cannot be verified: no master key is set");
        return NULL;
    }
    struct span text = json_decode(a->arena, value->raw);
    if (envelope_decrypt(a->keys, text, key_place_aad(place, a->arena), &secret, &e) != 0) {
        fault_at(a, place, MEMBER_CIPHERTEXT, e.text);
        return NULL;
    }
    const char *problem = config_key_problem(span_of(secret.bytes, secret.len));
    secret_wipe(&secret);
    if (problem == NULL)
        return text.ptr;
    fault_at(a, place, MEMBER_CIPHERTEXT, problem);
    return NULL;
}

/* The forms in which a key may come; a name of a credential is left alone. */
static const struct form {
    enum key_member member;
    const char *(*to_ciphertext)(struct admission *a, const struct key_place *place);
    unsigned left_out; /* beside the member itself */
} forms[] = {
    { MEMBER_KEY, encrypt_plaintext, 0 },
    { MEMBER_CIPHERTEXT_FINGERPRINT, find_kept, 1U << MEMBER_KEY_FINGERPRINT },
    { MEMBER_CIPHERTEXT, verify_ciphertext, 0 },
    { MEMBER_CREDENTIAL, NULL, 0 },
};

static int admit_place(void *ctx, const struct key_place *place, struct buf *out)
{
    struct admission *a = ctx;
    size_t n_forms = sizeof(forms) / sizeof(forms[0]) - (place->is_credential ? 1 : 0), found = 0;
    const struct form *form = NULL;
    const char *ciphertext = NULL;
    unsigned left_out = 0;
    struct json_writer w;

    for (size_t i = 0; i < n_forms; i++) {
        if (place->members[forms[i].member].kind == JSON_KIND_ABSENT)
            continue;
        form = &forms[i];
        left_out |= 1U << form->member | form->left_out;
        found++;
    }
    if (found == 1 && form->to_ciphertext == NULL) {
        key_place_begin(place, 0, &w, out);
        jw_end_object(&w);
        return 0;
    }
    if (found == 1)
        ciphertext = form->to_ciphertext(a, place);
    else
        fault_add(a->faults, a->arena, span_cstr(place->path),
                  "expected exactly one of \"key\", \"ciphertext\", \"ciphertextFingerprint\"%s",
                  place->is_credential ? "" : " and \"credential\"");
    key_place_begin(place, left_out, &w, out);
    jw_member_cstr(&w, key_member_names[MEMBER_CIPHERTEXT], ciphertext == NULL ? placeholder : ciphertext);
    jw_end_object(&w);
    return 0;
}

int config_admit(struct span body, struct span current, const struct envelope_keys *keys, struct arena *arena,
                 struct span *out, struct entry_faults *faults)
{
    struct admission a = { keys, arena, faults, NULL };
    struct entry_faults ignored = { 0 };
    struct span stored = { NULL, 0 };
    struct buf text;
    int r;

    if (document_check(body, arena, faults) != 0)
        return ERR_FORMAT;
    /* A current document that is broken has nothing to keep; it can be replaced. */
    if (current.len > 0 && document_check(current, arena, &ignored) == 0)
        key_places_walk(current, arena, keep_place, &a);
    buf_init(&text, STORE_VALUE_LIMIT_BYTES);
    r = key_places_rewrite(body, arena, admit_place, &a, &text);
    if (r == 0)
        stored = span_of(arena_span(arena, buf_span(&text)), text.len);
    else
        fault_add(faults, arena, span_of("", 0), "with its keys encrypted it has more than %d bytes",
                  STORE_VALUE_LIMIT_BYTES);
    buf_free(&text);
    if (r == 0)
        entry_check(ENTRY_LLM_ROUTER_CONFIG, stored, arena, faults);
    if (faults->count > 0)
        return ERR_FORMAT;
    *out = stored;
    return 0;
}

#include "core/route/signature.h"

#include <string.h>
#include <time.h>

#include "core/route/signature_body.h"
#include "core/route/signature_table.h"

/* One body under judgement. */
struct hearing {
    struct span provider;                    /* as the tables name it */
    const struct signature_gateway *gateway; /* NULL: none recognised */
    const struct signature_body *body;
    int status; /* that of the failure: HTTP's, or in a 2xx the one inside the error, 0 if it has none */
    bool has_retry_after;
};

struct finding {
    bool is_own; /* of a row of the provider or the gateway itself */
    enum verdict verdict;
    enum blame blame;
    enum signature_field field;
    const char *token, *phrase; /* of the row; NULL: none */
    struct span text;           /* the token as the provider wrote it */
};

enum pass { PASS_OWN, PASS_SHARED, PASS_COUNT };

static bool provider_fits(const struct hearing *hearing, const char *provider, enum pass pass)
{
    if (pass == PASS_SHARED)
        return provider == NULL;
    if (provider == NULL)
        return false;
    return span_is_nocase(hearing->provider, provider) ||
           (hearing->gateway != NULL && strcmp(hearing->gateway->provider, provider) == 0);
}

static bool row_fits(const struct hearing *hearing, const struct signature_row *row,
                     enum signature_field field, struct span token)
{
    if (row->field != field && (row->field != FIELD_ANY || field > FIELD_CLASS))
        return false;
    return (row->status == 0 || row->status == hearing->status) && signature_token_fits(row->token, token) &&
           (row->phrase == NULL || signature_phrase_fits(row->phrase, hearing->body->text));
}

/* The first row that fits a token: own rows first, then by field, then by row. */
static bool find_token(const struct hearing *hearing, const struct signature_row *rows, size_t n_rows,
                       struct finding *out)
{
    const struct signature_body *body = hearing->body;
    for (enum pass pass = PASS_OWN; pass < PASS_COUNT; pass++) {
        for (enum signature_field field = FIELD_REASON; field < FIELD_COUNT; field++) {
            for (size_t r = 0; r < n_rows; r++) {
                if (!provider_fits(hearing, rows[r].provider, pass))
                    continue;
                for (size_t t = 0; t < body->n_tokens; t++) {
                    if (body->tokens[t].field != field ||
                        !row_fits(hearing, &rows[r], field, body->tokens[t].text))
                        continue;
                    *out = (struct finding){ pass == PASS_OWN, rows[r].verdict, rows[r].blame,       field,
                                             rows[r].token,    rows[r].phrase,  body->tokens[t].text };
                    return true;
                }
            }
        }
    }
    return false;
}

/* A rejected key, an empty account or a fast caller is never the request's own
 * fault, whatever words stand beside it. */
static bool may_be_client(int status)
{
    return status != 401 && status != 402 && status != 429;
}

static bool find_phrase(const struct hearing *hearing, struct finding *out)
{
    for (enum pass pass = PASS_OWN; pass < PASS_COUNT; pass++) {
        for (size_t r = 0; r < signature_phrases_count; r++) {
            const struct signature_phrase *row = &signature_phrases[r];
            if (!provider_fits(hearing, row->provider, pass) ||
                (row->status != 0 && row->status != hearing->status) ||
                (row->verdict == VERDICT_CLIENT && !may_be_client(hearing->status)) ||
                !signature_phrase_fits(row->phrase, hearing->body->text))
                continue;
            *out = (struct finding){ .is_own = pass == PASS_OWN,
                                     .verdict = row->verdict,
                                     .blame = row->blame,
                                     .phrase = row->phrase };
            return true;
        }
    }
    return false;
}

static bool find_status(const struct hearing *hearing, const struct signature_status *rows, size_t n_rows,
                        int status, struct finding *out)
{
    for (enum pass pass = PASS_OWN; pass < PASS_COUNT; pass++) {
        for (size_t r = 0; r < n_rows; r++) {
            const struct signature_status *row = &rows[r];
            if (status < row->first || status > row->last || !provider_fits(hearing, row->provider, pass) ||
                (row->with_retry_after && !hearing->has_retry_after) ||
                (row->phrase != NULL && !signature_phrase_fits(row->phrase, hearing->body->text)))
                continue;
            *out = (struct finding){ .is_own = pass == PASS_OWN,
                                     .verdict = row->verdict,
                                     .blame = row->blame,
                                     .phrase = row->phrase };
            return true;
        }
    }
    return false;
}

static const struct signature_gateway *find_gateway(const struct signature_body *body)
{
    for (size_t g = 0; g < signature_gateways_count; g++) {
        const struct signature_gateway *row = &signature_gateways[g];
        if (row->field == FIELD_ANY && signature_token_fits(row->pattern, body->message))
            return row;
        for (size_t t = 0; t < body->n_tokens; t++)
            if (body->tokens[t].field == row->field &&
                signature_token_fits(row->pattern, body->tokens[t].text))
                return row;
    }
    return NULL;
}

static struct span canonical_provider(struct span name)
{
    for (size_t i = 0; i < signature_aliases_count; i++)
        if (span_is_nocase(name, signature_aliases[i].alias))
            return span_cstr(signature_aliases[i].provider);
    return name;
}

/* A key that is to blame behind a gateway is the gateway's, not ours. */
static enum blame blame_behind_gateway(enum blame blame)
{
    return blame == BLAME_KEY || blame == BLAME_KEY_MODEL ? BLAME_UPSTREAM : blame;
}

/* What the words of one body say; false: nothing. */
static bool find_in_body(const struct hearing *hearing, struct finding *out)
{
    return find_token(hearing, signature_providers, signature_providers_count, out) ||
           find_token(hearing, signature_tokens, signature_tokens_count, out) ||
           find_status(hearing, signature_alone, signature_alone_count, hearing->status, out) ||
           find_phrase(hearing, out);
}

/* The same for a body inside the body, one level down, with its own status. */
static bool find_in_inner(const struct hearing *outer, struct arena *arena, struct finding *out)
{
    struct signature_body body;
    if (outer->body->inner.len == 0)
        return false;
    signature_body_read(outer->body->inner, arena, &body);
    struct hearing inner = { .provider = outer->provider, .body = &body, .status = body.status };
    bool found = find_in_body(&inner, out) ||
                 find_token(&inner, signature_classes, signature_classes_count, out) ||
                 find_status(&inner, signature_fallback, signature_fallback_count, inner.status, out);
    if (found)
        out->blame = blame_behind_gateway(out->blame);
    return found;
}

static bool find_finish(const struct signature_body *body, struct finding *out)
{
    for (size_t t = 0; t < body->n_tokens; t++) {
        enum verdict verdict = signature_finish_reason(body->tokens[t].text);
        if (body->tokens[t].field != FIELD_FINISH || verdict == VERDICT_OK)
            continue;
        *out = (struct finding){ .verdict = verdict,
                                 .blame = verdict == VERDICT_CLIENT ? BLAME_NOTHING : BLAME_UPSTREAM,
                                 .field = FIELD_FINISH,
                                 .token = "",
                                 .text = body->tokens[t].text };
        return true;
    }
    return false;
}

/* The record's name of a finding. */
static const char *name_finding(const struct finding *finding, struct arena *arena)
{
    if (finding->token == NULL)
        return finding->phrase == NULL ? "status" : arena_printf(arena, "phrase:%s", finding->phrase);
    const char *field = signature_field_name(finding->field);
    if (finding->phrase != NULL)
        return arena_printf(arena, "%s:%s+%s", field, finding->token, finding->phrase);
    if (finding->field == FIELD_FINISH || strcmp(finding->token, "*") == 0)
        return field;
    return arena_printf(arena, "%s:%s", field, finding->token);
}

/* The provider's token for the record: the one that decided, else the most
 * telling one that is more than a repeated status. */
static void copy_code(const struct finding *finding, const struct signature_body *body, char out[64])
{
    struct span text =
        finding->field == FIELD_PARAM || finding->field == FIELD_LOC || finding->field == FIELD_MEMBER
            ? span_of(NULL, 0)
            : finding->text;
    for (enum signature_field field = FIELD_REASON; field <= FIELD_CLASS && text.len == 0; field++)
        for (size_t t = 0; t < body->n_tokens && text.len == 0; t++)
            if (body->tokens[t].field == field && body->tokens[t].text.len != 3)
                text = body->tokens[t].text;
    size_t len = 0;
    for (size_t i = 0; i < text.len && len < 63; i++)
        if (text.ptr[i] >= 0x20 && text.ptr[i] < 0x7F)
            out[len++] = text.ptr[i];
    out[len] = '\0';
}

/* Whether the refusal is of the usage option that the router itself adds to
 * streams. Quoted parts count here: it only names a client's mistake more exactly. */
static bool names_stream_options(const struct signature_body *body)
{
    for (size_t t = 0; t < body->n_tokens; t++) {
        enum signature_field field = body->tokens[t].field;
        if ((field == FIELD_PARAM || field == FIELD_LOC) &&
            signature_token_fits("stream_options*", body->tokens[t].text))
            return true;
    }
    return signature_token_fits("*stream_options*", body->message);
}

/* A failure's verdict by everything but its being an unrecognised 4xx. */
static const char *judge(const struct hearing *hearing, const struct reply_facts *facts, struct arena *arena,
                         struct finding *finding)
{
    const struct signature_body *body = hearing->body;
    if (body->is_html && find_token(hearing, signature_providers, signature_providers_count, finding))
        return name_finding(finding, arena);
    if (body->is_html && find_status(hearing, signature_html, signature_html_count, facts->status, finding))
        return "html";
    if (find_in_body(hearing, finding) || find_in_inner(hearing, arena, finding) ||
        find_token(hearing, signature_classes, signature_classes_count, finding))
        return name_finding(finding, arena);
    if (hearing->status != 0 &&
        find_status(hearing, signature_fallback, signature_fallback_count, hearing->status, finding))
        return "status";
    if (hearing->status == 0 && find_finish(body, finding))
        return name_finding(finding, arena);
    return NULL;
}

void signature_judge(const struct reply_facts *facts, struct arena *arena, struct opinion *out)
{
    struct signature_body body;
    struct finding finding = { .verdict = VERDICT_OTHER, .blame = BLAME_UPSTREAM };
    struct span bytes = facts->body;
    if (bytes.len > SIGNATURE_BODY_MAX)
        bytes.len = SIGNATURE_BODY_MAX;
    signature_body_read(bytes, arena, &body);
    /* "AccessDeniedException:http://internal.amazon.com/…": the class, and where it is described */
    const char *colon = facts->amzn_error_type.len == 0
                            ? NULL
                            : memchr(facts->amzn_error_type.ptr, ':', facts->amzn_error_type.len);
    signature_body_add(
        &body, FIELD_TYPE,
        colon == NULL ? facts->amzn_error_type
                      : span_of(facts->amzn_error_type.ptr, (size_t)(colon - facts->amzn_error_type.ptr)));

    struct hearing hearing = { .provider = canonical_provider(facts->provider),
                               .gateway = find_gateway(&body),
                               .body = &body,
                               .status = facts->in_band ? body.status : facts->status,
                               .has_retry_after =
                                   facts->retry_after.len > 0 || facts->retry_after_ms.len > 0 };
    const char *name = judge(&hearing, facts, arena, &finding);
    bool is_refusal = hearing.status == 400 || hearing.status == 415 || hearing.status == 422;
    *out = (struct opinion){ .is_proven = true, .signature = name, .inner_status = body.status };
    if (name == NULL) {
        out->signature = "status";
        if (is_refusal) {
            finding.verdict = VERDICT_CLIENT;
            finding.blame = BLAME_NOTHING;
            out->is_proven = false;
        } else if (facts->in_band) {
            finding.verdict = VERDICT_SERVER;
        }
    } else if (hearing.gateway != NULL && hearing.gateway->relays && !finding.is_own) {
        finding.blame = blame_behind_gateway(finding.blame);
    }
    if (is_refusal && finding.verdict == VERDICT_CLIENT && names_stream_options(&body)) {
        out->signature = "stream_options";
        out->is_proven = true;
    }
    out->verdict = finding.verdict;
    out->blame = finding.blame;
    out->refuses_stream_options = strcmp(out->signature, "stream_options") == 0;
    out->message = span_of(arena_span(arena, body.message), body.message.len);
    out->retry_after_s = signature_hint_s(facts->retry_after_ms, facts->retry_after, &body,
                                          facts->now_s != 0 ? facts->now_s : (int64_t)time(NULL));
    copy_code(&finding, &body, out->code);
}

enum verdict signature_finish_reason(struct span text)
{
    for (size_t i = 0; i < signature_finishes_count; i++)
        if (span_is(text, signature_finishes[i].reason))
            return signature_finishes[i].verdict;
    return VERDICT_OK;
}

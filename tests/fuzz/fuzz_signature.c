/*
 * Signatures: of any failed reply there is one opinion, within its bounds, and
 * what lies beyond the part that is looked at changes nothing.
 *
 * Input: lines for the status (200: the error stands inside it), the provider,
 * Retry-After, retry-after-ms and x-amzn-ErrorType, and for how many blanks
 * stand before the body, then the body.
 */
#include "core/json/scan.h"
#include "core/route/signature.h"
#include "tests/fuzz/fuzz.h"

enum { NOW_S = 1796000000, BLANKS_MAX = SIGNATURE_BODY_MAX, RETRY_AFTER_MAX_S = 3600, CODE_BYTES = 64 };

/* A failure's, or 200. */
static int read_status(struct span text)
{
    long long status;
    return json_int(text, &status) && status >= 300 && status <= 999 ? (int)status : 200;
}

/* A copy of the body with blanks before it, so that it goes beyond what is looked at. */
static struct span with_blanks(struct span body, struct span number)
{
    long long blanks;
    if (!json_int(number, &blanks) || blanks < 0 || blanks > BLANKS_MAX)
        blanks = 0;
    char *copy = xmalloc(body.len + (size_t)blanks);
    memset(copy, ' ', (size_t)blanks);
    if (body.len > 0)
        memcpy(copy + blanks, body.ptr, body.len);
    return span_of(copy, body.len + (size_t)blanks);
}

static void check_opinion(const struct reply_facts *facts, const struct opinion *opinion)
{
    bool is_refusal = facts->status == 400 || facts->status == 415 || facts->status == 422;

    fuzz_check(opinion->verdict < VERDICT_COUNT && opinion->blame <= BLAME_UPSTREAM,
               "an opinion is one of the table's");
    fuzz_check(opinion->verdict != VERDICT_CANCELLED && opinion->verdict != VERDICT_CONNECT,
               "a reply is not taken for none");
    fuzz_check(opinion->signature != NULL && opinion->signature[0] != '\0', "a signature has a name");
    fuzz_check(!opinion->refuses_stream_options || facts->status == 400 || facts->status == 422,
               "stream_options are refused with a 400 or 422");
    fuzz_check(opinion->is_proven || (is_refusal && opinion->verdict == VERDICT_CLIENT) || facts->in_band,
               "only a refusal is left unproven");
    fuzz_check(strnlen(opinion->code, CODE_BYTES) < CODE_BYTES, "a code has its NUL");
    for (const char *p = opinion->code; *p != '\0'; p++)
        fuzz_check(*p >= 0x20 && *p < 0x7F, "a code is printable");
    fuzz_check(opinion->inner_status == 0 || (opinion->inner_status >= 300 && opinion->inner_status <= 599),
               "an inner status is that of a failure");
    fuzz_check(opinion->retry_after_s <= RETRY_AFTER_MAX_S, "a hint is at most an hour");
    fuzz_check(opinion->message.len <= 6 * (size_t)SIGNATURE_BODY_MAX,
               "a message is no longer than its body");
}

static void check_same(const struct opinion *a, const struct opinion *b)
{
    fuzz_check(a->verdict == b->verdict && a->blame == b->blame && a->is_proven == b->is_proven &&
                   a->retry_after_s == b->retry_after_s && a->inner_status == b->inner_status &&
                   strcmp(a->signature, b->signature) == 0 && strcmp(a->code, b->code) == 0 &&
                   span_eq(a->message, b->message),
               "the same reply gives the same opinion");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input in = fuzz_input_of(data, size);
    struct reply_facts facts = { .now_s = NOW_S };
    struct arena *arena = arena_new();
    struct opinion opinion, again;

    facts.status = read_status(fuzz_take_line(&in));
    facts.in_band = facts.status == 200;
    facts.provider = fuzz_take_line(&in);
    facts.retry_after = fuzz_take_line(&in);
    facts.retry_after_ms = fuzz_take_line(&in);
    facts.amzn_error_type = fuzz_take_line(&in);
    struct span blanks = fuzz_take_line(&in);
    struct span body = with_blanks(fuzz_rest(&in), blanks);
    facts.body = body;

    signature_judge(&facts, arena, &opinion);
    check_opinion(&facts, &opinion);
    if (facts.body.len > SIGNATURE_BODY_MAX)
        facts.body.len = SIGNATURE_BODY_MAX;
    struct span part = fuzz_copy(facts.body);
    facts.body = part;
    signature_judge(&facts, arena, &again);
    check_same(&opinion, &again);
    fuzz_check(signature_finish_reason(body) < VERDICT_COUNT, "a finish reason has a verdict");
    fuzz_free_copy(part);
    fuzz_free_copy(body);
    arena_free(arena);
    return 0;
}

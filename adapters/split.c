#include "adapters/split.h"

#include "adapters/characters.h"

/* How good a place a cut is; a higher one wins, of two equal ones the later. */
enum rank {
    RANK_NONE, /* inside what belongs together */
    RANK_CHARACTER,
    RANK_SPACE,
    RANK_CLAUSE,
    RANK_SENTENCE,
    RANK_COUNT,
};

enum kind {
    KIND_OTHER,
    KIND_EXTENDING, /* belongs to the character before it */
    KIND_SPACE,
    KIND_NEWLINE,
    KIND_CLOSING,  /* quotes and brackets that end with the sentence */
    KIND_CLAUSE,   /* ends a clause if a space follows */
    KIND_SENTENCE, /* ends a sentence if a space follows */
    KIND_WIDE_CLAUSE,
    KIND_WIDE_SENTENCE, /* ends a sentence whatever follows: such scripts write no spaces */
};

static const struct {
    uint32_t code;
    enum kind kind;
} KINDS[] = {
    { '\n', KIND_NEWLINE },         { '\r', KIND_NEWLINE },         { ' ', KIND_SPACE },
    { '\t', KIND_SPACE },           { 0x3000, KIND_SPACE },         { 0x2028, KIND_NEWLINE },
    { 0x2029, KIND_NEWLINE },       { '.', KIND_SENTENCE },         { '!', KIND_SENTENCE },
    { '?', KIND_SENTENCE },         { 0x2026, KIND_SENTENCE },      { 0x061F, KIND_SENTENCE },
    { 0x06D4, KIND_SENTENCE },      { 0x0964, KIND_SENTENCE },      { 0x3002, KIND_WIDE_SENTENCE },
    { 0xFF01, KIND_WIDE_SENTENCE }, { 0xFF1F, KIND_WIDE_SENTENCE }, { 0xFF0E, KIND_WIDE_SENTENCE },
    { 0xFF61, KIND_WIDE_SENTENCE }, { ',', KIND_CLAUSE },           { ';', KIND_CLAUSE },
    { ':', KIND_CLAUSE },           { 0x2014, KIND_CLAUSE },        { 0x060C, KIND_CLAUSE },
    { 0x061B, KIND_CLAUSE },        { 0x3001, KIND_WIDE_CLAUSE },   { 0xFF0C, KIND_WIDE_CLAUSE },
    { 0xFF1A, KIND_WIDE_CLAUSE },   { 0xFF1B, KIND_WIDE_SENTENCE }, { '"', KIND_CLOSING },
    { '\'', KIND_CLOSING },         { ')', KIND_CLOSING },          { ']', KIND_CLOSING },
    { '}', KIND_CLOSING },          { 0x2019, KIND_CLOSING },       { 0x201D, KIND_CLOSING },
    { 0x00BB, KIND_CLOSING },       { 0x3009, KIND_CLOSING },       { 0x300B, KIND_CLOSING },
    { 0x300D, KIND_CLOSING },       { 0x300F, KIND_CLOSING },       { 0x3011, KIND_CLOSING },
    { 0xFF09, KIND_CLOSING },
};

static enum kind kind_of(uint32_t code)
{
    for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++)
        if (KINDS[i].code == code)
            return KINDS[i].kind;
    return character_extends(code) ? KIND_EXTENDING : KIND_OTHER;
}

/* What was read up to a place between two characters. */
struct reading {
    enum kind mark;    /* what the last punctuation says, if only closing ones and spaces followed it */
    bool saw_space;    /* right before this place */
    bool saw_joiner;   /* a joiner: the next character belongs to it */
    bool is_flag_half; /* an odd number of regional indicators: a flag is two */
};

/* How good a cut is before a character of this kind. */
static enum rank rank_before(const struct reading *reading, enum kind next, uint32_t code)
{
    bool is_indicator = code >= 0x1F1E6 && code <= 0x1F1FF;
    if (next == KIND_EXTENDING || reading->saw_joiner || (reading->is_flag_half && is_indicator))
        return RANK_NONE;
    bool is_run = next == KIND_SPACE || next == KIND_NEWLINE || next == KIND_CLOSING;
    if (is_run)
        return RANK_CHARACTER; /* it goes with what is before it, and the cut comes after it */
    switch (reading->mark) {
    case KIND_NEWLINE:
        return RANK_SENTENCE;
    case KIND_WIDE_SENTENCE:
        return next == KIND_WIDE_SENTENCE || next == KIND_SENTENCE ? RANK_CHARACTER : RANK_SENTENCE;
    case KIND_SENTENCE:
        return reading->saw_space ? RANK_SENTENCE : RANK_CHARACTER;
    case KIND_WIDE_CLAUSE:
        return RANK_CLAUSE;
    case KIND_CLAUSE:
        return reading->saw_space ? RANK_CLAUSE : RANK_CHARACTER;
    default:
        return reading->saw_space ? RANK_SPACE : RANK_CHARACTER;
    }
}

static void read_on(struct reading *reading, enum kind kind, uint32_t code)
{
    bool is_indicator = code >= 0x1F1E6 && code <= 0x1F1FF;
    reading->saw_joiner = code == 0x200D;
    reading->is_flag_half = is_indicator && !reading->is_flag_half;
    if (kind == KIND_EXTENDING)
        return;
    reading->saw_space = kind == KIND_SPACE || kind == KIND_NEWLINE;
    if (kind != KIND_SPACE && kind != KIND_CLOSING)
        reading->mark = kind;
}

struct span split_take(struct span *rest, size_t max_bytes)
{
    struct span ahead = *rest;
    struct reading reading = { .mark = KIND_OTHER };
    size_t cuts[RANK_COUNT] = { 0 }; /* the last place of each rank; 0: there is none */
    size_t at = 0, cut = rest->len;

    while (ahead.len > 0 && at <= max_bytes && rest->len > max_bytes) {
        uint32_t code = character_take(&ahead);
        enum kind kind = kind_of(code);
        cuts[rank_before(&reading, kind, code)] = at;
        read_on(&reading, kind, code);
        at = rest->len - ahead.len;
    }
    for (enum rank rank = RANK_NONE; rank < RANK_COUNT && rest->len > max_bytes; rank++)
        if (cuts[rank] > 0)
            cut = cuts[rank];
    struct span piece = span_of(rest->ptr, cut);
    *rest = span_of(rest->ptr + cut, rest->len - cut);
    return piece;
}

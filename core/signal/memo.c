#include "core/signal/memo.h"

/* FNV-1a. A text's length follows it, so that "ab", "c" is not "a", "bc". */
static uint64_t mix(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t memo_fact(const struct span *texts, size_t n_texts)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n_texts; i++) {
        hash = mix(hash, texts[i].ptr, texts[i].len);
        hash = mix(hash, &texts[i].len, sizeof(texts[i].len));
    }
    return hash != 0 ? hash : 1;
}

/* The upper half: of a product, those bits depend on all bytes. */
static size_t set_of(uint64_t fact)
{
    return (size_t)(fact >> 32) % MEMO_SETS;
}

bool memo_has(const struct memo *memo, uint64_t fact)
{
    const _Atomic uint64_t *set = memo->facts[set_of(fact)];
    for (size_t i = 0; i < MEMO_WAYS; i++) {
        if (atomic_load_explicit(&set[i], memory_order_relaxed) == fact)
            return true;
    }
    return false;
}

void memo_note(struct memo *memo, uint64_t fact)
{
    _Atomic uint64_t *set = memo->facts[set_of(fact)];

    for (size_t i = 0; i < MEMO_WAYS; i++) {
        uint64_t found = 0;
        /* If another process takes the place meanwhile, `found` is what it noted. */
        if (atomic_compare_exchange_strong_explicit(&set[i], &found, fact, memory_order_relaxed,
                                                    memory_order_relaxed) ||
            found == fact)
            return;
    }
    /* Whichever is next in turn: what nobody asks for any more goes too, in time. */
    uint64_t turn = atomic_fetch_add_explicit(&memo->forgotten, 1, memory_order_relaxed);
    atomic_store_explicit(&set[turn % MEMO_WAYS], fact, memory_order_relaxed);
}

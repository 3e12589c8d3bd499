#include "core/admit/windows.h"

#include <stddef.h>
#include <stdlib.h>

void windows_init(struct windows *windows)
{
    for (size_t i = 0; i < WINDOW_SETS; i++) {
        if (shared_mutex_init(&windows->sets[i].mutex) != 0)
            abort();
    }
}

struct window_set *windows_lock(struct windows *windows, uint64_t caller)
{
    struct window_set *set = &windows->sets[caller % WINDOW_SETS];
    return shared_mutex_lock(&set->mutex) != SHARED_MUTEX_BUSY ? set : NULL;
}

void windows_unlock(struct window_set *set)
{
    if (set != NULL)
        shared_mutex_unlock(&set->mutex);
}

/* Two processes read the clock in one order and come here in another: a window may have
 * begun a moment later than now. One that ends much later is of another clock. */
static bool is_current(const struct window *window, uint64_t now_us)
{
    return window->ends_us > now_us && window->ends_us - now_us < 2 * WINDOW_US;
}

uint64_t window_left_us(const struct window *window, uint64_t now_us)
{
    if (window->ends_us <= now_us)
        return 1;
    uint64_t left_us = window->ends_us - now_us;
    return left_us < WINDOW_US ? left_us : WINDOW_US;
}

/* The caller's window that lasts, or NULL. */
static struct window *find(struct window_set *set, uint64_t caller, uint64_t now_us)
{
    for (size_t i = 0; i < WINDOW_WAYS; i++) {
        if (set->windows[i].caller == caller && is_current(&set->windows[i], now_us))
            return &set->windows[i];
    }
    return NULL;
}

/* The caller's own place, else the one whose window ended first, or never began. */
static struct window *place_for(struct window_set *set, uint64_t caller)
{
    struct window *oldest = &set->windows[0];
    for (size_t i = 0; i < WINDOW_WAYS; i++) {
        struct window *window = &set->windows[i];
        if (window->caller == caller)
            return window;
        if (window->ends_us < oldest->ends_us)
            oldest = window;
    }
    return oldest;
}

static struct window *begin(struct window_set *set, uint64_t caller, uint64_t now_us)
{
    struct window *window = place_for(set, caller);
    *window = (struct window){ .caller = caller, .id = now_us + WINDOW_US, .ends_us = now_us + WINDOW_US };
    return window;
}

void window_read(const struct window_set *set, uint64_t caller, uint64_t now_us, struct window *out)
{
    const struct window *window = find((struct window_set *)(uintptr_t)set, caller, now_us);
    *out = window != NULL ? *window : (struct window){ .caller = caller, .ends_us = now_us + WINDOW_US };
}

enum window_refusal window_take(struct window_set *set, uint64_t caller, uint64_t now_us,
                                const struct window_amounts *limits, const struct window_amounts *wanted,
                                struct window *out)
{
    enum window_refusal refusal = WINDOW_TAKEN;
    struct window *window = find(set, caller, now_us);

    if (window == NULL)
        window = begin(set, caller, now_us);
    if (limits->requests > 0 && window->requests + wanted->requests > limits->requests)
        refusal = WINDOW_NO_REQUESTS;
    else if (limits->tokens > 0 && window->tokens + wanted->tokens > limits->tokens)
        refusal = WINDOW_NO_TOKENS;
    if (refusal == WINDOW_TAKEN) {
        window->requests += wanted->requests;
        window->tokens += wanted->tokens;
    }
    *out = *window;
    return refusal;
}

static uint64_t corrected(uint64_t count, uint64_t taken, uint64_t instead)
{
    return count + instead >= taken ? count + instead - taken : 0;
}

void window_correct(struct window_set *set, uint64_t caller, uint64_t now_us, uint64_t id,
                    const struct window_amounts *taken, const struct window_amounts *instead)
{
    struct window *window = find(set, caller, now_us);

    if (window != NULL && window->id == id) {
        window->requests = corrected(window->requests, taken->requests, instead->requests);
        window->tokens = corrected(window->tokens, taken->tokens, instead->tokens);
        return;
    }
    if (instead->tokens == 0)
        return;
    if (window == NULL)
        window = begin(set, caller, now_us);
    window->tokens += instead->tokens;
}

void window_put(struct window_set *set, const struct window *window)
{
    struct window *place = place_for(set, window->caller);
    bool is_known = place->caller == window->caller && place->id == window->id;
    uint64_t ends_us = is_known ? place->ends_us : window->ends_us;

    *place = *window;
    place->ends_us = ends_us; /* whoever told of it may have been slow to do so */
}

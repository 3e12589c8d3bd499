#include "core/admit/shared_windows.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/base/clock.h"
#include "core/base/ids.h"

enum { KEY_BYTES = 256, NUMBER_BYTES = 24, ARGUMENTS = 6, ANSWERS = 5 };

/* A number is a double there: an id has fewer bits than are exact in one. */
#define ID_MASK ((UINT64_C(1) << 48) - 1)

/* KEYS[1]: the window. ARGV: its length in ms, an id if it begins now, the limits of requests and of
 * tokens, and what is wanted of both. Answers: the refusal, requests, tokens, ms left, id.
 * A window that lasts longer than a minute is one whose clock was set back. */
static const char take_script[] =
    "local length = tonumber(ARGV[1])\n"
    "local left = redis.call('PTTL', KEYS[1])\n"
    "if left <= 0 then redis.call('DEL', KEYS[1]) end\n"
    "local is_new = left <= 0 or left > length\n"
    "if is_new then left = length end\n"
    "local had = redis.call('HMGET', KEYS[1], 'id', 'requests', 'tokens')\n"
    "local id = had[1] or ARGV[2]\n"
    "local requests, tokens = tonumber(had[2] or 0), tonumber(had[3] or 0)\n"
    "local most_requests, most_tokens = tonumber(ARGV[3]), tonumber(ARGV[4])\n"
    "local refusal = 0\n"
    "if most_requests > 0 and requests + ARGV[5] > most_requests then refusal = 1\n"
    "elseif most_tokens > 0 and tokens + ARGV[6] > most_tokens then refusal = 2\n"
    "else\n"
    "  requests, tokens = requests + ARGV[5], tokens + ARGV[6]\n"
    "  redis.call('HSET', KEYS[1], 'id', id, 'requests', requests, 'tokens', tokens)\n"
    "end\n"
    "if is_new then redis.call('PEXPIRE', KEYS[1], left) end\n"
    "return {refusal, requests, tokens, left, tonumber(id)}\n";

/* KEYS[1]: the window. ARGV: its length in ms, an id if it begins now, the id of the one in which was
 * taken, by how much its requests and its tokens are corrected, and the tokens if it has ended. */
static const char correct_script[] = "local id = redis.call('HGET', KEYS[1], 'id')\n"
                                     "if id == ARGV[3] then\n"
                                     "  for place, name in ipairs({'requests', 'tokens'}) do\n"
                                     "    if redis.call('HINCRBY', KEYS[1], name, ARGV[3 + place]) < 0 then\n"
                                     "      redis.call('HSET', KEYS[1], name, 0)\n"
                                     "    end\n"
                                     "  end\n"
                                     "elseif tonumber(ARGV[6]) > 0 then\n"
                                     "  redis.call('HINCRBY', KEYS[1], 'tokens', ARGV[6])\n"
                                     "  if not id then\n"
                                     "    redis.call('HSET', KEYS[1], 'id', ARGV[2])\n"
                                     "    redis.call('PEXPIRE', KEYS[1], ARGV[1])\n"
                                     "  end\n"
                                     "end\n"
                                     "return {}\n";

struct command {
    struct span words[4 + ARGUMENTS];
    char key[KEY_BYTES];
    char numbers[ARGUMENTS][NUMBER_BYTES];
};

static uint64_t new_id(void)
{
    uint64_t random;
    ids_random(&random, sizeof(random));
    return (random & ID_MASK) | 1;
}

/* Both scripts have the window's length and a new id as their first two arguments. */
static void compose(struct command *c, struct redis_client *redis, const char *script, uint64_t caller,
                    const int64_t rest[ARGUMENTS - 2])
{
    snprintf(c->key, sizeof(c->key), "%slimit:%016" PRIx64, redis_client_prefix(redis), caller);
    snprintf(c->numbers[0], NUMBER_BYTES, "%d", WINDOW_US / (int)US_PER_MS);
    snprintf(c->numbers[1], NUMBER_BYTES, "%" PRIu64, new_id());
    for (size_t i = 2; i < ARGUMENTS; i++)
        snprintf(c->numbers[i], NUMBER_BYTES, "%" PRId64, rest[i - 2]);
    c->words[0] = span_cstr("EVAL");
    c->words[1] = span_cstr(script);
    c->words[2] = span_cstr("1");
    c->words[3] = span_cstr(c->key);
    for (size_t i = 0; i < ARGUMENTS; i++)
        c->words[4 + i] = span_cstr(c->numbers[i]);
}

bool shared_window_take(struct redis_client *redis, uint64_t caller, const struct window_amounts *limits,
                        const struct window_amounts *wanted, enum window_refusal *refusal, struct window *out)
{
    uint64_t until_us = clock_monotonic_us() + SHARED_WINDOWS_PATIENCE_MS * US_PER_MS;
    const int64_t rest[] = { (int64_t)limits->requests, (int64_t)limits->tokens, (int64_t)wanted->requests,
                             (int64_t)wanted->tokens };
    int64_t answer[ANSWERS];
    struct command command;

    compose(&command, redis, take_script, caller, rest);
    if (!redis_client_ask(redis, command.words, 4 + ARGUMENTS, until_us, answer, ANSWERS) ||
        answer[0] < WINDOW_TAKEN || answer[0] > WINDOW_NO_TOKENS)
        return false;
    *refusal = (enum window_refusal)answer[0];
    *out = (struct window){
        .caller = caller,
        .id = (uint64_t)answer[4],
        .ends_us = clock_monotonic_us() + (uint64_t)answer[3] * US_PER_MS,
        .requests = (uint64_t)answer[1],
        .tokens = (uint64_t)answer[2],
    };
    return true;
}

void shared_window_correct(struct redis_client *redis, uint64_t caller, uint64_t id,
                           const struct window_amounts *taken, const struct window_amounts *instead)
{
    const int64_t rest[] = { (int64_t)id, (int64_t)(instead->requests - taken->requests),
                             (int64_t)(instead->tokens - taken->tokens), (int64_t)instead->tokens };
    struct command command;

    compose(&command, redis, correct_script, caller, rest);
    redis_client_tell(redis, command.words, 4 + ARGUMENTS);
}

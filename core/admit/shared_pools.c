#include "core/admit/shared_pools.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/store/place.h"

enum {
    KEYS_MAX = 1 + POOLS_MAX,
    HASH_BYTES = sizeof("#0123456789abcdef"),
    KEY_BYTES = REDIS_PREFIX_MAX_BYTES + SHARED_POOL_ID_BYTES + HASH_BYTES + sizeof(":leases"),
    NUMBER_BYTES = 24,
    TAKE_ARGUMENTS = 6, /* and three of each pool */
    ARGUMENTS_MAX = TAKE_ARGUMENTS + 3 * POOLS_MAX,
    ANSWER_HEAD = 2, /* and three of each pool */
    ANSWER_ROW = 3,
};

#define NOW                             \
    "local time = redis.call('TIME')\n" \
    "local now = time[1] * 1000 + math.floor(time[2] / 1000)\n"

/* KEYS: the last ticket, then the pools. ARGV: the lease, one that is in doubt, whether it waits, its
 * ticket, how long leases and tickets last; then of each pool its capacity, what is held at least, and for
 * how long it is saturated at least, which Redis may have missed.
 * Answers: which was taken, the ticket, and of each pool what is held, who is ahead, and for how long
 * it is saturated. Which is taken: pools_choose says the same. */
static const char take_script[] =
    NOW "local lease, doubtful, waits, ticket = ARGV[1], ARGV[2], ARGV[3] == '1', tonumber(ARGV[4])\n"
        "local lasts, patience = tonumber(ARGV[5]), tonumber(ARGV[6])\n"
        "local answer, queues = {0, 0}, {}\n"
        "local limited, unlimited, best, most\n"
        "local function leave(pool, whose)\n"
        "  redis.call('ZREM', pool .. ':queue', whose)\n"
        "  redis.call('ZREM', pool .. ':tickets', whose)\n"
        "end\n"
        "local function drop(pool, from, to)\n"
        "  for _, other in ipairs(redis.call('ZRANGEBYSCORE', pool .. ':tickets', from, to)) do\n"
        "    leave(pool, other)\n"
        "  end\n"
        "end\n"
        "for i = 1, #KEYS - 1 do\n"
        "  local pool, capacity = KEYS[i + 1], tonumber(ARGV[4 + 3 * i])\n"
        "  local held, ahead, room = 0, 0, 1\n"
        "  local saturated = redis.call('PTTL', pool .. ':saturated')\n"
        "  if saturated > 0 and saturated > tonumber(redis.call('GET', pool .. ':saturated') or 0) then\n"
        "    redis.call('DEL', pool .. ':saturated')\n"
        "    saturated = 0\n"
        "  end\n"
        "  saturated = math.max(saturated, 0)\n"
        "  local known = tonumber(ARGV[6 + 3 * i])\n"
        "  if known > saturated then\n"
        "    redis.call('SET', pool .. ':saturated', known, 'PX', known)\n"
        "    saturated = known\n"
        "  end\n"
        "  if capacity > 0 then\n"
        "    queues[#queues + 1] = pool\n"
        "    if doubtful ~= '' then\n"
        "      redis.call('ZREM', pool .. ':leases', doubtful)\n"
        "      leave(pool, doubtful)\n"
        "    end\n"
        "    held = redis.call('ZCOUNT', pool .. ':leases', '(' .. now, now + lasts)\n"
        "    held = math.max(held, tonumber(ARGV[5 + 3 * i]))\n"
        "    if redis.call('EXISTS', pool .. ':queue') == 1 then\n"
        "      drop(pool, '-inf', now)\n"
        "      drop(pool, '(' .. now + patience, '+inf')\n"
        "      local before = ticket > 0 and '(' .. ticket or '+inf'\n"
        "      ahead = redis.call('ZCOUNT', pool .. ':queue', '-inf', before)\n"
        "    end\n"
        "    room = capacity - held - ahead\n"
        "    limited = limited or i\n"
        "  end\n"
        "  if saturated == 0 and room > 0 then\n"
        "    if capacity == 0 then\n"
        "      unlimited = unlimited or i\n"
        "    elseif not best or room / capacity > most then\n"
        "      best, most = i, room / capacity\n"
        "    end\n"
        "  end\n"
        "  for _, number in ipairs({held, ahead, saturated}) do answer[#answer + 1] = number end\n"
        "end\n"
        "local place = best\n"
        "if not best or unlimited and unlimited < limited then place = unlimited end\n"
        "if place and tonumber(ARGV[4 + 3 * place]) > 0 then\n"
        "  local leases = KEYS[place + 1] .. ':leases'\n"
        "  redis.call('ZREMRANGEBYSCORE', leases, '-inf', now)\n"
        "  redis.call('ZREMRANGEBYSCORE', leases, '(' .. now + lasts, '+inf')\n"
        "  redis.call('ZADD', leases, now + lasts, lease)\n"
        "  redis.call('PEXPIRE', leases, lasts)\n"
        "end\n"
        "if place or not waits then\n"
        "  if ticket > 0 then\n"
        "    for _, pool in ipairs(queues) do leave(pool, lease) end\n"
        "  end\n"
        "  ticket = 0\n"
        "else\n"
        "  if ticket == 0 then\n"
        "    ticket = redis.call('INCR', KEYS[1])\n"
        "  elseif tonumber(redis.call('GET', KEYS[1]) or 0) < ticket then\n"
        "    redis.call('SET', KEYS[1], ticket)\n"
        "  end\n"
        "  redis.call('PEXPIRE', KEYS[1], 60000 + patience)\n"
        "  for _, pool in ipairs(queues) do\n"
        "    redis.call('ZADD', pool .. ':queue', ticket, lease)\n"
        "    redis.call('ZADD', pool .. ':tickets', now + patience, lease)\n"
        "    redis.call('PEXPIRE', pool .. ':queue', patience)\n"
        "    redis.call('PEXPIRE', pool .. ':tickets', patience)\n"
        "  end\n"
        "end\n"
        "answer[1], answer[2] = place or 0, ticket\n"
        "return answer\n";

/* KEYS: a pool. ARGV: the lease, how long it lasts. */
static const char hold_script[] = NOW "local leases = KEYS[1] .. ':leases'\n"
                                      "redis.call('ZADD', leases, now + ARGV[2], ARGV[1])\n"
                                      "redis.call('PEXPIRE', leases, ARGV[2])\n"
                                      "return {}\n";

/* KEYS: pools. ARGV: the lease. */
static const char leave_script[] = "for _, pool in ipairs(KEYS) do\n"
                                   "  for _, set in ipairs({':leases', ':queue', ':tickets'}) do\n"
                                   "    redis.call('ZREM', pool .. set, ARGV[1])\n"
                                   "  end\n"
                                   "end\n"
                                   "return {}\n";

/* KEYS: a pool. ARGV: for how long. */
static const char mark_script[] = "local key, ms = KEYS[1] .. ':saturated', tonumber(ARGV[1])\n"
                                  "if redis.call('PTTL', key) < ms then\n"
                                  "  redis.call('SET', key, ms, 'PX', ms)\n"
                                  "end\n"
                                  "return {}\n";

/* KEYS: pools. ARGV: how long a lease lasts. */
static const char count_script[] =
    NOW "local answer = {}\n"
        "for i, pool in ipairs(KEYS) do\n"
        "  answer[i] = redis.call('ZCOUNT', pool .. ':leases', '(' .. now, now + ARGV[1])\n"
        "end\n"
        "return answer\n";

/* --- words of a command --- */

struct command {
    struct span words[3 + KEYS_MAX + ARGUMENTS_MAX];
    size_t n;
    char keys[KEYS_MAX][KEY_BYTES];
    size_t n_keys;
    char numbers[1 + ARGUMENTS_MAX][NUMBER_BYTES];
    size_t n_numbers;
};

static void add(struct command *c, const char *word)
{
    c->words[c->n++] = span_cstr(word);
}

static void add_number(struct command *c, int64_t number)
{
    char *text = c->numbers[c->n_numbers++];
    snprintf(text, NUMBER_BYTES, "%" PRId64, number);
    add(c, text);
}

static void begin(struct command *c, const char *name)
{
    c->n = c->n_keys = c->n_numbers = 0;
    add(c, name);
}

static void begin_script(struct command *c, const char *script, size_t n_keys)
{
    begin(c, "EVAL");
    add(c, script);
    add_number(c, (int64_t)n_keys);
}

static void add_key(struct command *c, const struct redis_client *redis, const struct slot_pool *pool,
                    const char *end)
{
    char *key = c->keys[c->n_keys++], hash[HASH_BYTES] = "";
    size_t len = pool->id.len < SHARED_POOL_ID_BYTES ? pool->id.len : SHARED_POOL_ID_BYTES;

    if (len < pool->id.len)
        snprintf(hash, sizeof(hash), "#%016" PRIx64, pool->hash);
    snprintf(key, KEY_BYTES, "%s%.*s%s%s", redis_client_prefix(redis), (int)len, pool->id.ptr, hash, end);
    add(c, key);
}

static void add_pools(struct command *c, const struct redis_client *redis, const struct slot_pool *asked,
                      size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_key(c, redis, &asked[i], "");
}

/* --- questions --- */

static bool is_u32(int64_t number)
{
    return number >= 0 && number <= UINT32_MAX;
}

static bool read_states(const int64_t *numbers, size_t n, struct pool_state *states)
{
    for (size_t i = 0; i < n; i++, numbers += ANSWER_ROW) {
        if (!is_u32(numbers[0]) || !is_u32(numbers[1]) || !is_u32(numbers[2]))
            return false;
        states[i] = (struct pool_state){ (uint32_t)numbers[0], (uint32_t)numbers[1], (uint32_t)numbers[2] };
    }
    return true;
}

bool shared_pools_take(struct redis_client *redis, const struct pool_question *question, uint64_t until_us,
                       size_t *place, int64_t *ticket, struct pool_state *states)
{
    size_t n = question->n, n_answer = ANSWER_HEAD + ANSWER_ROW * n;
    int64_t answer[ANSWER_HEAD + ANSWER_ROW * POOLS_MAX];
    struct command c;

    begin_script(&c, take_script, 1 + n);
    snprintf(c.keys[c.n_keys], KEY_BYTES, "%spools:ticket", redis_client_prefix(redis));
    add(&c, c.keys[c.n_keys++]);
    add_pools(&c, redis, question->asked, n);
    add(&c, question->lease);
    add(&c, question->doubtful);
    add(&c, question->waits ? "1" : "0");
    add_number(&c, question->ticket);
    add_number(&c, question->terms->lease_ms);
    add_number(&c, question->terms->ticket_ms);
    for (size_t i = 0; i < n; i++) {
        add_number(&c, question->asked[i].capacity);
        add_number(&c, question->held[i]);
        add_number(&c, question->saturated_ms[i]);
    }
    if (!redis_client_ask(redis, c.words, c.n, until_us, answer, n_answer) || answer[0] < 0 ||
        answer[0] > (int64_t)n || answer[1] < 0 || !read_states(answer + ANSWER_HEAD, n, states))
        return false;
    *place = answer[0] > 0 ? (size_t)answer[0] - 1 : n;
    *ticket = answer[1];
    return true;
}

bool shared_pools_count(struct redis_client *redis, const struct pool_terms *terms,
                        const struct slot_pool *asked, size_t n, uint64_t until_us, uint32_t *held)
{
    int64_t answer[POOLS_MAX];
    struct command c;

    begin_script(&c, count_script, n);
    add_pools(&c, redis, asked, n);
    add_number(&c, terms->lease_ms);
    if (!redis_client_ask(redis, c.words, c.n, until_us, answer, n))
        return false;
    for (size_t i = 0; i < n; i++)
        held[i] = asked[i].capacity > 0 && is_u32(answer[i]) ? (uint32_t)answer[i] : 0;
    return true;
}

/* --- what nobody waits for --- */

void shared_pool_hold(struct redis_client *redis, const char *lease, const struct pool_terms *terms,
                      const struct slot_pool *pool)
{
    struct command c;

    begin_script(&c, hold_script, 1);
    add_key(&c, redis, pool, "");
    add(&c, lease);
    add_number(&c, terms->lease_ms);
    redis_client_tell(redis, c.words, c.n);
}

/* The most frequent of all, and a script would cost Redis twenty times as much. */
void shared_pool_give_back(struct redis_client *redis, const char *lease, const struct slot_pool *pool)
{
    struct command c;

    begin(&c, "ZREM");
    add_key(&c, redis, pool, ":leases");
    add(&c, lease);
    redis_client_tell(redis, c.words, c.n);
}

void shared_pools_leave(struct redis_client *redis, const char *lease, const struct slot_pool *asked,
                        size_t n)
{
    struct command c;

    begin_script(&c, leave_script, n);
    add_pools(&c, redis, asked, n);
    add(&c, lease);
    redis_client_tell(redis, c.words, c.n);
}

void shared_pool_mark_saturated(struct redis_client *redis, const struct slot_pool *pool, uint32_t ms)
{
    struct command c;

    begin_script(&c, mark_script, 1);
    add_key(&c, redis, pool, "");
    add_number(&c, ms);
    redis_client_tell(redis, c.words, c.n);
}

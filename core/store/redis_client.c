#include "core/store/redis_client.h"

#include <stdlib.h>

#include "core/store/redis_link_internal.h"

struct redis_client {
    struct redis_address address;
    char *prefix;
    struct redis_link link;
    bool is_greeted;       /* the connection that there is */
    unsigned replies_owed; /* to what nobody waits for: they come before the next answer */
};

int redis_client_open(const struct store_place *place, struct redis_client **out, struct error *e)
{
    struct redis_address address;

    if (place->redis_url == NULL || place->redis_url[0] == '\0')
        return error_set(e, ERR_NOT_FOUND, "there is no Redis");
    int r = redis_address_parse(place->redis_url, &address, e);
    if (r != 0)
        return r;
    struct redis_client *client = xcalloc(1, sizeof(*client));
    client->address = address;
    client->prefix = xstrdup(place->redis_prefix != NULL ? place->redis_prefix : "");
    redis_link_init(&client->link, &client->address);
    *out = client;
    return 0;
}

void redis_client_close(struct redis_client *client)
{
    if (client == NULL)
        return;
    redis_link_free(&client->link);
    redis_address_wipe(&client->address);
    free(client->prefix);
    free(client);
}

const char *redis_client_prefix(const struct redis_client *client)
{
    return client->prefix;
}

const char *redis_client_trouble(const struct redis_client *client)
{
    return client->link.trouble;
}

/* Replies that nobody waits for, as far as they have come. What they say is not asked: a
 * command that was refused would be lost as well without them. */
static void take_owed(struct redis_client *client)
{
    redisReply *reply = NULL;
    while (client->link.state == REDIS_LINK_UP && (reply = redis_link_receive(&client->link)) != NULL) {
        freeReplyObject(reply);
        if (client->replies_owed > 0)
            client->replies_owed--;
        else
            redis_link_fail(&client->link, "it says what it was not asked");
    }
}

/* A connection that the server has closed since is made again. */
bool redis_client_connect(struct redis_client *client)
{
    struct redis_link *link = &client->link;

    redis_link_step(link);
    take_owed(client);
    if (link->state == REDIS_LINK_DOWN) {
        redis_link_open(link);
        client->is_greeted = false;
    }
    if (link->state == REDIS_LINK_UP && !client->is_greeted) {
        client->replies_owed = redis_link_greet(link);
        client->is_greeted = true;
    }
    return link->state == REDIS_LINK_UP;
}

static bool await_connection(struct redis_client *client, uint64_t until_us)
{
    if (redis_client_connect(client))
        return true;
    return redis_link_await_up(&client->link, until_us) && redis_client_connect(client);
}

static bool read_numbers(const redisReply *reply, int64_t *numbers, size_t count)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (reply->element[i]->type != REDIS_REPLY_INTEGER)
            return false;
    }
    for (size_t i = 0; i < count; i++)
        numbers[i] = reply->element[i]->integer;
    return true;
}

bool redis_client_ask(struct redis_client *client, const struct span *words, size_t n, uint64_t until_us,
                      int64_t *numbers, size_t count)
{
    struct redis_link *link = &client->link;
    redisReply *reply = NULL;

    if (await_connection(client, until_us)) {
        redis_link_send(link, words, n);
        while ((reply = redis_link_await_reply(link, until_us)) != NULL && client->replies_owed > 0) {
            client->replies_owed--;
            freeReplyObject(reply);
        }
    }
    bool is_answered = reply != NULL && read_numbers(reply, numbers, count);
    /* What comes next on this connection is not known, or it does not let us ask. */
    if (reply == NULL && link->state != REDIS_LINK_DOWN)
        redis_link_fail(link, link->state == REDIS_LINK_LOOKING_UP ? "its host was not found in time"
                                                                   : "no answer in time");
    else if (reply != NULL && reply->type == REDIS_REPLY_ERROR)
        redis_link_fail(link, "it answers with %s", redis_error_word(reply));
    else if (reply != NULL && !is_answered)
        redis_link_fail(link, "it answers what it was not asked");
    freeReplyObject(reply);
    return is_answered;
}

void redis_client_tell(struct redis_client *client, const struct span *words, size_t n)
{
    if (client->link.state != REDIS_LINK_UP)
        return;
    redis_link_send(&client->link, words, n);
    client->replies_owed++;
}

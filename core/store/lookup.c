#include "core/store/lookup_internal.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "core/base/arena.h"

struct lookup {
    struct gaicb request;
    struct addrinfo hints;
    char *host, *port;
    int result; /* EAI_INPROGRESS: of the request in the thread */
};

struct lookup *lookup_begin(const char *host, const char *port)
{
    struct lookup *lookup = xcalloc(1, sizeof(*lookup));
    struct gaicb *list[] = { &lookup->request };

    lookup->host = xstrdup(host);
    lookup->port = xstrdup(port);
    lookup->hints = (struct addrinfo){ .ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV };
    lookup->request.ar_name = lookup->host;
    lookup->request.ar_service = lookup->port;
    lookup->request.ar_request = &lookup->hints;
    /* An address in digits needs nobody to be asked. */
    const struct addrinfo digits = { .ai_socktype = SOCK_STREAM,
                                     .ai_flags = AI_NUMERICSERV | AI_NUMERICHOST };
    lookup->result = getaddrinfo(host, port, &digits, &lookup->request.ar_result);
    if (lookup->result == EAI_NONAME)
        lookup->result = getaddrinfo_a(GAI_NOWAIT, list, 1, NULL) == 0 ? EAI_INPROGRESS : EAI_AGAIN;
    return lookup;
}

bool lookup_take(struct lookup *lookup, struct addrinfo **found, const char **why)
{
    if (lookup->result == EAI_INPROGRESS)
        lookup->result = gai_error(&lookup->request);
    if (lookup->result == EAI_INPROGRESS)
        return false;
    *found = lookup->result == 0 ? lookup->request.ar_result : NULL;
    *why = lookup->result == 0 ? "" : gai_strerror(lookup->result);
    lookup->request.ar_result = NULL;
    return true;
}

void lookup_wait(struct lookup *lookup, unsigned timeout_ms)
{
    const struct gaicb *list[] = { &lookup->request };
    const struct timespec timeout = { .tv_sec = timeout_ms / 1000,
                                      .tv_nsec = (long)(timeout_ms % 1000) * 1000000 };
    if (lookup->result == EAI_INPROGRESS)
        gai_suspend(list, 1, &timeout);
}

void lookup_end(struct lookup *lookup)
{
    if (lookup == NULL)
        return;
    /* A thread that is at work cannot be called back, and goes on with the request's memory. */
    if (lookup->result == EAI_INPROGRESS && gai_cancel(&lookup->request) == EAI_NOTCANCELED)
        return;
    if (lookup->request.ar_result != NULL)
        freeaddrinfo(lookup->request.ar_result);
    free(lookup->host);
    free(lookup->port);
    free(lookup);
}

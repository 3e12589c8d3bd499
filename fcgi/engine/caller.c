#include "fcgi/engine/caller.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { KERNEL_MS = 100, REPLY_BYTES = 1024 };

static bool read_port(const char *text, __be16 *out)
{
    char *end;
    unsigned long port = text == NULL ? 0 : strtoul(text, &end, 10);

    if (port == 0 || port > UINT16_MAX || *end != '\0')
        return false;
    *out = htons((uint16_t)port);
    return true;
}

static bool read_addresses(struct caller_socket *c, int family, const char *server, const char *remote)
{
    c->family = (uint8_t)family;
    return server != NULL && remote != NULL && inet_pton(family, server, c->id.idiag_src) == 1 &&
           inet_pton(family, remote, c->id.idiag_dst) == 1;
}

void caller_socket_begin(struct caller_socket *c, const char *server_address, const char *server_port,
                         const char *remote_address, const char *remote_port)
{
    c->was_seen = false;
    c->id = (struct inet_diag_sockid){ .idiag_cookie = { INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE } };
    c->is_known = (read_addresses(c, AF_INET, server_address, remote_address) ||
                   read_addresses(c, AF_INET6, server_address, remote_address)) &&
                  read_port(server_port, &c->id.idiag_sport) && read_port(remote_port, &c->id.idiag_dport);
}

static bool open_netlink(struct caller_socket *c)
{
    struct timeval patience = { .tv_usec = KERNEL_MS * 1000 };

    if (c->netlink == 0) {
        c->netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
        if (c->netlink >= 0)
            setsockopt(c->netlink, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    }
    return c->netlink > 0;
}

static bool ask(struct caller_socket *c)
{
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 body;
    } request = {
        .header = {
            .nlmsg_len = sizeof(request),
            .nlmsg_type = SOCK_DIAG_BY_FAMILY,
            .nlmsg_flags = NLM_F_REQUEST,
            .nlmsg_seq = ++c->asked,
        },
        .body = {
            .sdiag_family = c->family,
            .sdiag_protocol = IPPROTO_TCP,
            .idiag_states = UINT32_MAX,
            .id = c->id,
        },
    };
    return send(c->netlink, &request, sizeof(request), 0) == (ssize_t)sizeof(request);
}

enum answer { ANSWER_NONE, ANSWER_OPEN, ANSWER_CLOSED, ANSWER_ABSENT };

static enum answer read_answer(const struct caller_socket *c)
{
    _Alignas(struct nlmsghdr) char reply[REPLY_BYTES];
    const struct nlmsghdr *answer = (const struct nlmsghdr *)reply;

    do {
        ssize_t n = recv(c->netlink, reply, sizeof(reply), 0);
        if (n < (ssize_t)sizeof(*answer))
            return ANSWER_NONE;
    } while (answer->nlmsg_seq != c->asked); /* of a look that gave up */
    if (answer->nlmsg_type == NLMSG_ERROR && answer->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr)))
        return ((const struct nlmsgerr *)NLMSG_DATA(answer))->error == -ENOENT ? ANSWER_ABSENT : ANSWER_NONE;
    if (answer->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        answer->nlmsg_len < NLMSG_LENGTH(sizeof(struct inet_diag_msg)))
        return ANSWER_NONE;
    switch (((const struct inet_diag_msg *)NLMSG_DATA(answer))->idiag_state) {
    case TCP_ESTABLISHED:
        return ANSWER_OPEN;
    case TCP_LISTEN: /* found where there is no connection: it would take a new one */
        return ANSWER_ABSENT;
    default:
        return ANSWER_CLOSED;
    }
}

bool caller_socket_is_closed(struct caller_socket *c)
{
    if (!c->is_known || !open_netlink(c) || !ask(c))
        return false;
    switch (read_answer(c)) {
    case ANSWER_OPEN:
        c->was_seen = true;
        return false;
    case ANSWER_CLOSED:
        return true;
    case ANSWER_ABSENT:
        c->is_known = c->was_seen; /* never seen: it is not to be found here */
        return c->was_seen;
    default:
        return false;
    }
}

void caller_socket_end(struct caller_socket *c)
{
    if (c->netlink > 0)
        close(c->netlink);
    *c = (struct caller_socket){ .netlink = 0 };
}

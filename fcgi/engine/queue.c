#include "fcgi/engine/queue.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum { REPLY_BYTES = 8192, KERNEL_MS = 100 };

int queue_meter_open(struct queue_meter *meter, int listen_fd, bool is_tcp, struct error *e)
{
    struct timeval patience = { .tv_usec = KERNEL_MS * 1000 };
    struct stat st;

    *meter = (struct queue_meter){ .listen_fd = listen_fd, .is_tcp = is_tcp, .netlink = -1 };
    if (is_tcp)
        return 0;
    if (fstat(listen_fd, &st) != 0)
        return error_set(e, ERR_SYSTEM, "fstat of the listening socket: %s", strerror(errno));
    meter->inode = (uint32_t)st.st_ino;
    meter->netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (meter->netlink < 0)
        return error_set(e, ERR_SYSTEM, "the kernel's socket diagnosis: %s", strerror(errno));
    setsockopt(meter->netlink, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return 0;
}

void queue_meter_close(struct queue_meter *meter)
{
    if (meter->netlink >= 0)
        close(meter->netlink);
    meter->netlink = -1;
}

static int read_tcp(int fd, uint32_t *waiting)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return ERR_SYSTEM;
    *waiting = info.tcpi_unacked; /* of a listening socket: its accept queue */
    return 0;
}

static int ask(struct queue_meter *meter)
{
    struct {
        struct nlmsghdr header;
        struct unix_diag_req body;
    } request = {
        .header = {
            .nlmsg_len = sizeof(request),
            .nlmsg_type = SOCK_DIAG_BY_FAMILY,
            .nlmsg_flags = NLM_F_REQUEST,
            .nlmsg_seq = ++meter->asked,
        },
        .body = {
            .sdiag_family = AF_UNIX,
            .udiag_states = UINT32_MAX,
            .udiag_ino = meter->inode,
            .udiag_show = UDIAG_SHOW_RQLEN,
            .udiag_cookie = { UINT32_MAX, UINT32_MAX }, /* whatever it is */
        },
    };
    return send(meter->netlink, &request, sizeof(request), 0) == (ssize_t)sizeof(request) ? 0 : ERR_SYSTEM;
}

/* The queue length among the attributes of one answer. */
static int find_length(const struct nlmsghdr *answer, uint32_t *waiting)
{
    if (answer->nlmsg_type != SOCK_DIAG_BY_FAMILY ||
        answer->nlmsg_len < NLMSG_LENGTH(sizeof(struct unix_diag_msg)))
        return ERR_SYSTEM;
    const struct unix_diag_msg *message = NLMSG_DATA(answer);
    const struct rtattr *attribute = (const struct rtattr *)(message + 1);
    unsigned left = (unsigned)(answer->nlmsg_len - NLMSG_LENGTH(sizeof(*message)));

    for (; RTA_OK(attribute, left); attribute = RTA_NEXT(attribute, left)) {
        struct unix_diag_rqlen length;
        if (attribute->rta_type != UNIX_DIAG_RQLEN || RTA_PAYLOAD(attribute) < sizeof(length))
            continue;
        memcpy(&length, RTA_DATA(attribute), sizeof(length));
        *waiting = length.udiag_rqueue; /* of a listening socket: connections not accepted yet */
        return 0;
    }
    return ERR_SYSTEM;
}

static int read_unix(struct queue_meter *meter, uint32_t *waiting)
{
    _Alignas(struct nlmsghdr) char reply[REPLY_BYTES];

    if (ask(meter) != 0)
        return ERR_SYSTEM;
    const struct nlmsghdr *answer = (const struct nlmsghdr *)reply;
    do {
        ssize_t n = recv(meter->netlink, reply, sizeof(reply), 0);
        if (n < 0 || !NLMSG_OK(answer, (unsigned)n))
            return ERR_SYSTEM;
    } while (answer->nlmsg_seq != meter->asked);
    return find_length(answer, waiting);
}

int queue_meter_read(struct queue_meter *meter, uint32_t *waiting)
{
    return meter->is_tcp ? read_tcp(meter->listen_fd, waiting) : read_unix(meter, waiting);
}

/* How many connections wait at a listening socket to be accepted. */
#ifndef FCGI_ENGINE_QUEUE_H
#define FCGI_ENGINE_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/err.h"

/* Asks the kernel: sock_diag for unix sockets, TCP_INFO for TCP. */
struct queue_meter {
    int listen_fd;
    bool is_tcp;
    int netlink;    /* -1 for TCP */
    uint32_t inode; /* of a unix socket */
    uint32_t asked; /* number of the last question, so that a late answer is not taken for its answer */
};

/* After fork. ERR_SYSTEM: the kernel does not tell (AF_NETLINK may be forbidden). */
int queue_meter_open(struct queue_meter *meter, int listen_fd, bool is_tcp, struct error *e);
void queue_meter_close(struct queue_meter *meter);

/* ERR_SYSTEM. */
int queue_meter_read(struct queue_meter *meter, uint32_t *waiting);

#endif

/* The listening socket: opened by us, or inherited. Before fork. */
#ifndef FCGI_ENGINE_LISTENER_H
#define FCGI_ENGINE_LISTENER_H

#include <stdbool.h>
#include <sys/types.h>

#include "core/base/err.h"

struct listener {
    int fd; /* non-blocking, close-on-exec */
    bool is_tcp;
    bool is_own_tcp; /* made by us: no successor will serve who waits there */
    char path[108];  /* of a unix socket that we made; "" otherwise */
    ino_t inode;     /* of the path */
};

enum { LISTENER_BACKLOG = 4096 }; /* the kernel cuts it to net.core.somaxconn */

/*
 * `address`: "unix:/path" (made with mode 0660; one whose maker has died is
 * replaced) or "tcp:HOST:PORT" (HOST numeric; an IPv6 one in brackets). NULL: the
 * one that sd_listen_fds(3) tells of, and that goes from the environment; else fd 0, if it is
 * a listening socket. ERR_FORMAT (also: not one is passed, or it does not listen),
 * ERR_NOT_FOUND (no address, and nothing is passed), ERR_CONFLICT (somebody listens there),
 * ERR_SYSTEM.
 */
int listener_open(const char *address, struct listener *out, struct error *e);

/* accept4(2) with SOCK_CLOEXEC and these flags. That descriptors or memory are used up, the
 * system's if not ours, the log says once: *is_told is false at first, and again when one has been
 * accepted. After fork. */
int listener_accept(const struct listener *listener, int flags, bool *is_told);

/* Nobody new comes to a socket of ours: the path is removed if it is still ours, and who waits
 * behind it can still be accepted. A TCP socket ends for all who hold it: nothing else keeps new
 * callers away from a port, and who waits there is turned away. */
void listener_withdraw(const struct listener *listener);

/* Whether that has been done, by whichever process, to a socket file of ours. */
bool listener_is_withdrawn(const struct listener *listener);

/* Withdraws it and closes the socket. */
void listener_close(struct listener *listener);

#endif

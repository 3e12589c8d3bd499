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

/* Whether an address means something: ERR_FORMAT. Opens nothing, and does not look who listens there. */
int listener_check(const char *address, struct error *e);

/* accept4(2) with SOCK_CLOEXEC and these flags. That descriptors or memory are used up, the
 * system's if not ours, the log says once: *is_told is false at first, and again when one has been
 * accepted. After fork. */
int listener_accept(const struct listener *listener, int flags, bool *is_told);

/* Whether we made it. One that was passed to us is the matter of who did. */
bool listener_is_ours(const struct listener *listener);

/* Nobody new is let in at a socket of ours, whichever process holds it: a connect is refused. Who waits
 * at a unix socket can still be accepted; at TCP nothing else keeps new callers away from a port, and
 * who waits there is turned away. Leaves one that is not ours as it is. Safe in a signal handler. */
void listener_shut(const struct listener *listener);

/* Whether that has been done, by whichever process. */
bool listener_is_shut(const struct listener *listener);

/* Shuts and closes it, and removes the path if it is still ours. In the master: nobody else may make
 * another at the same path meanwhile. */
void listener_close(struct listener *listener);

#endif

/*
 * The caller's own connection to the web server, looked at in the kernel.
 *
 * A web server need not tell that its client has left, while it waits for us: lighttpd
 * (1.4.69, connection_set_fdevent_interest) does not poll a client whose whole request came
 * with its connection, until the reply begins; Apache and Caddy find out by a write of theirs,
 * or a few. Where the web server is on this machine, its socket says so: sock_diag(7) knows it
 * by the addresses that are among a request's parameters. Where it is not, or its addresses
 * are rewritten, nothing is found, and nothing is said.
 */
#ifndef FCGI_ENGINE_CALLER_H
#define FCGI_ENGINE_CALLER_H

#include <linux/inet_diag.h>
#include <stdbool.h>
#include <stdint.h>

/* A process's own; zero is the beginning. */
struct caller_socket {
    int netlink; /* opened at the first look; 0: not yet, -1: cannot be had */
    uint32_t asked;
    bool is_known; /* `id` is one */
    bool was_seen;
    uint8_t family;
    struct inet_diag_sockid id;
};

/* Takes the addresses of a request: SERVER_ADDR, SERVER_PORT, REMOTE_ADDR, REMOTE_PORT; any may be NULL. */
void caller_socket_begin(struct caller_socket *caller, const char *server_address, const char *server_port,
                         const char *remote_address, const char *remote_port);

/* Whether the client has closed its side, or its connection is gone after it was
 * seen. False whenever it is not known. Two system calls. */
bool caller_socket_is_closed(struct caller_socket *caller);

/* Closes what the first look opened. */
void caller_socket_end(struct caller_socket *caller);

#endif

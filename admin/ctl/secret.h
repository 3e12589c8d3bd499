/* A secret from standard input: never from an argument, which every user of a host can see. */
#ifndef ADMIN_CTL_SECRET_H
#define ADMIN_CTL_SECRET_H

#include "admin/ctl/ctl.h"

/* Reads to the end, or on a terminal to the end of the line, without showing
 * what is typed and after asking for `what`; a newline at the end is not part of
 * it. At most `room` bytes, which the caller wipes: CTL_OK, or CTL_REFUSED after a
 * message. */
int secret_read(const struct invocation *call, const char *what, char *out, size_t room, size_t *len);

#endif

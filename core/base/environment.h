/* Secrets that come in the environment. Before fork, and before there are threads. */
#ifndef CORE_BASE_ENVIRONMENT_H
#define CORE_BASE_ENVIRONMENT_H

#include "core/base/arena.h"
#include "core/base/err.h"
#include "core/base/span.h"

/*
 * Takes the secret NAME: the value of the variable NAME, or the content of the file
 * that NAME_FILE names, without the blanks around it; the empty span if neither is set.
 * (An empty variable counts as not set: process managers pass such for what is missing.)
 * Both variables are overwritten in place and removed, whatever happens: the process's
 * environment is readable in /proc for as long as it runs, also what was only unset.
 *
 * The secret lies in the arena, with a NUL behind it; the caller wipes it.
 * ERR_FORMAT: both forms are set, or the file is empty. ERR_SYSTEM: it cannot be read.
 */
int environment_take_secret(const char *name, struct arena *arena, struct span *out, struct error *e);

/* Overwrites a secret's bytes. */
void environment_wipe(struct span secret);

/*
 * A process that will exec its successor hands the secrets on. From the first call on,
 * what environment_take_secret takes is also kept, as the value of NAME, in a file in
 * memory that is no part of any process. ERR_SYSTEM.
 */
int environment_keep_secrets(struct error *e);

/* No secret will be taken any more: seals the file. Its descriptor, which is
 * close-on-exec and stays the module's; -1: nothing is kept. */
int environment_seal_kept(void);

/* In a child, which has no use for it. */
void environment_close_kept(void);

/*
 * In the successor, before it takes any: puts the secrets of such a file back into the
 * environment, closes it, and keeps them for the next successor. What none of the calls
 * of environment_take_secret takes leaves the environment when the file is sealed.
 * ERR_FORMAT: it holds something else. ERR_SYSTEM.
 */
int environment_restore_secrets(int fd, struct error *e);

#endif

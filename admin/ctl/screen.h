/*
 * A terminal taken for a while: another screen, no cursor, no echo. However the
 * program is told to end (a key, SIGINT, SIGTERM, SIGHUP, SIGQUIT), the terminal is
 * given back as it was found, and so it is while the program is stopped by SIGTSTP.
 * One at a time in a process.
 */
#ifndef ADMIN_CTL_SCREEN_H
#define ADMIN_CTL_SCREEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/err.h"
#include "core/base/span.h"

enum screen_event {
    SCREEN_TIME_UP,
    SCREEN_CHANGED, /* its size, or it was given back for a while: show again */
    SCREEN_LEAVE,   /* "q", Ctrl-C, a signal, or nobody is there any more */
};

struct screen_size {
    size_t rows, columns;
};

/* Takes standard input and output. ERR_UNSUPPORTED: they are no terminal. ERR_SYSTEM. */
int screen_enter(struct error *e);
void screen_leave(void);

struct screen_size screen_size(void);

/* Shows text of lines that are not longer than the screen is wide, over what was there. */
void screen_show(struct span text);

/* Waits until the time is up (on the monotonic clock), or for what happens before that. */
enum screen_event screen_wait(uint64_t until_us);

#endif

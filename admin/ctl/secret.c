#include "admin/ctl/secret.h"

#include <errno.h>
#include <stdio.h>
#include <termios.h>
#include <unistd.h>

int secret_read(const struct invocation *call, const char *what, char *out, size_t room, size_t *len)
{
    struct termios shown, hidden;
    bool is_tty = tcgetattr(STDIN_FILENO, &shown) == 0;
    size_t have = 0;
    ssize_t n = 0;
    if (is_tty) {
        hidden = shown;
        hidden.c_lflag &= ~(tcflag_t)ECHO;
        if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden) != 0)
            return ctl_fail(call, CTL_REFUSED, "cannot hide what is typed: %s", strerror(errno));
        fprintf(stderr, "%s (not shown): ", what);
    }
    while (have < room) {
        n = read(STDIN_FILENO, out + have, room - have);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        have += (size_t)n;
        if (is_tty && out[have - 1] == '\n')
            break;
    }
    if (is_tty) {
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
        fputc('\n', stderr);
    }
    if (n < 0)
        return ctl_fail(call, CTL_REFUSED, "cannot read stdin: %s", strerror(errno));
    if (have > 0 && out[have - 1] == '\n')
        have--;
    *len = have;
    return CTL_OK;
}

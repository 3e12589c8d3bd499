#include "admin/ctl/screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "core/base/buf.h"
#include "core/base/clock.h"

enum { SHOW_BYTES = 1024 * 1024, ROOM_TIMEOUT_MS = 500 };

/* Another screen, no cursor, lines are cut at the edge; and the way back. */
static const char take_screen[] = "\033[?1049h\033[?25l\033[?7l\033[H\033[2J",
                  give_screen[] = "\033[?7h\033[?25h\033[?1049l";

static struct termios found; /* as the terminal was */
static sigset_t usual;       /* the signals that were blocked */
static volatile sig_atomic_t is_ending, is_changed, is_stopping;

static void on_end(int number)
{
    (void)number;
    is_ending = 1;
}

static void on_change(int number)
{
    (void)number;
    is_changed = 1;
}

static void on_stop(int number)
{
    (void)number;
    is_stopping = 1;
}

static const struct {
    int number;
    void (*run)(int number);
} handlers[] = {
    { SIGINT, on_end },  { SIGTERM, on_end },     { SIGHUP, on_end },
    { SIGQUIT, on_end }, { SIGWINCH, on_change }, { SIGTSTP, on_stop },
};

enum { N_HANDLERS = sizeof(handlers) / sizeof(handlers[0]) };

/* A terminal that takes nothing (Ctrl-S) must not keep us from ending: a signal ends the write. */
static void write_out(const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDOUT_FILENO, bytes, len);
        if (n < 0 && errno == EINTR && !is_ending)
            continue;
        if (n <= 0)
            return;
        bytes += n;
        len -= (size_t)n;
    }
}

static void take(void)
{
    struct termios ours = found;
    ours.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    ours.c_cc[VMIN] = 1;
    ours.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSANOW, &ours);
    write_out(take_screen, sizeof(take_screen) - 1);
}

/* One that takes nothing, not even when it is let go on (Ctrl-S), gets its settings only. */
static void give_back(void)
{
    struct pollfd room = { .fd = STDOUT_FILENO, .events = POLLOUT };

    tcflow(STDOUT_FILENO, TCOON);
    if (poll(&room, 1, ROOM_TIMEOUT_MS) == 1)
        write_out(give_screen, sizeof(give_screen) - 1);
    tcflush(STDIN_FILENO, TCIFLUSH);
    tcsetattr(STDIN_FILENO, TCSANOW, &found);
}

int screen_enter(struct error *e)
{
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
        return error_set(e, ERR_UNSUPPORTED, "standard input and output are no terminal");
    if (tcgetattr(STDIN_FILENO, &found) != 0)
        return error_set(e, ERR_SYSTEM, "cannot read the terminal's settings: %s", strerror(errno));
    sigprocmask(SIG_SETMASK, NULL, &usual);
    for (size_t i = 0; i < N_HANDLERS; i++) {
        struct sigaction action = { .sa_handler = handlers[i].run };
        sigaction(handlers[i].number, &action, NULL);
        sigdelset(&usual, handlers[i].number);
    }
    sigprocmask(SIG_SETMASK, &usual, NULL);
    take();
    return 0;
}

void screen_leave(void)
{
    give_back();
}

struct screen_size screen_size(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        return (struct screen_size){ 24, 80 };
    return (struct screen_size){ size.ws_row, size.ws_col };
}

/* Each line replaces the one that was there: nothing flickers. */
void screen_show(struct span text)
{
    struct buf out;

    buf_init(&out, SHOW_BYTES);
    buf_append_cstr(&out, "\033[H");
    for (bool is_first = true; text.len > 0; is_first = false) {
        const char *end = memchr(text.ptr, '\n', text.len);
        size_t len = end == NULL ? text.len : (size_t)(end - text.ptr);
        buf_append_cstr(&out, is_first ? "" : "\r\n");
        buf_append(&out, text.ptr, len);
        buf_append_cstr(&out, "\033[K");
        len += end != NULL;
        text = span_of(text.ptr + len, text.len - len);
    }
    buf_append_cstr(&out, "\033[J");
    write_out(out.data, out.len);
    buf_free(&out);
}

/* Until SIGCONT. */
static void stop(void)
{
    is_stopping = 0;
    give_back();
    raise(SIGSTOP);
    tcgetattr(STDIN_FILENO, &found);
    take();
    is_changed = 1;
}

/* Signals are let in only while it waits, so that none comes between the question and the wait. */
enum screen_event screen_wait(uint64_t until_us)
{
    enum screen_event event = SCREEN_TIME_UP;
    bool is_over = false;
    sigset_t blocked = usual;

    for (size_t i = 0; i < N_HANDLERS; i++)
        sigaddset(&blocked, handlers[i].number);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    while (!is_over) {
        struct pollfd keys = { .fd = STDIN_FILENO, .events = POLLIN };
        uint64_t now = clock_monotonic_us(), left = until_us > now ? until_us - now : 0;
        struct timespec timeout = { .tv_sec = (time_t)(left / US_PER_S),
                                    .tv_nsec = (long)(left % US_PER_S * 1000) };
        char key = 0;
        int ready = ppoll(&keys, 1, &timeout, &usual);
        if (is_stopping)
            stop();
        if (ready > 0 && read(STDIN_FILENO, &key, 1) != 1)
            is_ending = 1;
        if (is_ending || key == 'q' || key == 'Q')
            event = SCREEN_LEAVE;
        else if (is_changed)
            event = SCREEN_CHANGED;
        is_over = event != SCREEN_TIME_UP || ready == 0;
        is_changed = 0;
    }
    sigprocmask(SIG_SETMASK, &usual, NULL);
    return event;
}

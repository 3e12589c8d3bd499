/* One request as a CGI program: no master, no workers. */
#include "fcgi/engine/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/memory_secrecy.h"
#include "core/log/log.h"

bool engine_is_cgi(void)
{
    int listening = 0;
    socklen_t len = sizeof(listening);

    if (getenv("GATEWAY_INTERFACE") == NULL)
        return false;
    return getsockopt(STDIN_FILENO, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) != 0 || !listening;
}

/* The running instance's mapping, else one of our own. */
static int prepare(const struct engine_program *program, struct engine_process *process, struct error *e)
{
    static struct scoreboard_record record; /* an instance does not count us */
    int r, found;

    if ((r = memory_keep_secret(e)) != 0)
        return r;
    found = mapping_open(process->settings->run_dir, program->name, &process->mapping, e);
    if (found == ERR_FORMAT) /* as between a package's upgrade and the restart */
        log_line(LOG_WARN, "instance_not_understood", "%s; the store is read instead", e->text);
    else if (found != 0 && found != ERR_NOT_FOUND)
        return found;
    process->record = &record;
    if (found != 0) {
        process->mapping = mapping_alone(program->name, 1);
        process->record = &process->mapping->workers[0];
        atomic_store_explicit(&process->record->pid, getpid(), memory_order_relaxed);
    }
    if ((r = program->init_master(process, e)) != 0)
        return r;
    if (found != 0 && program->init_alone != NULL && (r = program->init_alone(process, e)) != 0)
        return r;
    return program->init_worker(process, e);
}

static int nobody_reads = -1; /* a pipe without a reader */

static void leave_stdout(int signal)
{
    (void)signal;
    dup2(nobody_reads, STDOUT_FILENO);
}

/* A web server that sends SIGTERM says that the caller has left. Noticed as any
 * other departure, it leaves an event; the default action would leave none. */
static int take_signals(struct error *e)
{
    struct sigaction action = { .sa_handler = leave_stdout };
    int fds[2];

    signal(SIGPIPE, SIG_IGN); /* the front end's departure is an error of a write, */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file that may grow no more */
    if (pipe2(fds, O_CLOEXEC) != 0)
        return error_set(e, ERR_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    close(fds[0]);
    nobody_reads = fds[1];
    sigemptyset(&action.sa_mask);
    sigaction(SIGTERM, &action, NULL);
    return 0;
}

int engine_run_cgi(const struct engine_program *program, const struct engine_settings *settings)
{
    struct engine_process process = { .settings = settings };
    struct conn conn;
    struct error e;

    log_init(program->name);
    if (take_signals(&e) != 0 || prepare(program, &process, &e) != 0) {
        log_line(LOG_ERROR, "start_failed", "%s", e.text);
        return 1; /* nothing was written: the web server answers 500 */
    }
    conn_begin_cgi(&conn, program->stall_ms);
    program->serve(&process, &conn);
    conn_close(&conn);
    return conn.is_broken ? 1 : 0;
}

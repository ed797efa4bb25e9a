/* The launcher: supervisor and init of a sandbox, one static program.
 *
 * It is started in one of three ways:
 *
 *   init                   (no arguments) broker, starts supervisors for its parent
 *   init --serve SOCKET    pid 1 of somebody else's container: spawn server only
 *   init --userns MAP      hold a user namespace with that map until EOF on 0
 *
 * All channels are SOCK_SEQPACKET unix sockets. A packet is a list of fields,
 * each ended by a NUL byte, with descriptors beside it (SCM_RIGHTS). An answer is
 * "ok" FIELD... or "error" ERRNO STEP, where STEP says what was being done.
 *
 * Supervisor (host root, a mount namespace of its own). A request is a list of
 * verbs with their arguments, done in order until one fails; one answer follows,
 * and before it "told" NUMBER from a verb that says something at once. Ahead of
 * all answers comes "ok" PID, the supervisor's own, or the error that kept the
 * broker from starting it.
 * The verbs are the table in launcher_supervisor.c. Descriptors are named by
 * their place in the packet, "-" stands for none. When the owner process dies,
 * or on "quit", it kills the sandbox, removes its control groups, and exits; its
 * mounts end with its namespace. It starts the sandbox's init in two moves: `hull`
 * clones it into its namespaces, where it waits; `go` lets it enter the root that
 * the verbs between the two have mounted. So a hull can be made ahead of its use.
 *
 * Init (pid 1 inside) serves requests on the spawn socket. The first descriptor
 * of each request is the report socket, which carries every answer to it:
 *
 *   "spawn" USER TTY CWD ARGC ARG... ENV...   descriptors after the first become
 *                                             0, 1, 2, ... of the new process
 *       -> "pid"               from the child itself, with SCM_CREDENTIALS, if
 *                              the receiver has set SO_PASSCRED
 *       -> "started"           exec has happened
 *        | "error" ERRNO STEP  it has not; the last word on this request
 *       -> "exit" STATUS       the last word; 128 + signal if it was killed
 *   "listen" TYPE ADDRESS PORT  -> "ok" with a bound (and listening) socket
 *   "terminal"                  -> "ok" with the two ends of a pseudo-terminal
 *
 * Init is not dumpable, ignores every signal from inside, and never trusts a
 * process that it started: exit statuses come from wait(2).
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4
#endif
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

#include "launcher_wire.c"
#include "launcher_filter.c"
#include "launcher_trees.c"
#include "launcher_init.c"
#include "launcher_world.c"
#include "launcher_supervisor.c"

/* Clone a supervisor, the child of our parent, which speaks for itself from then on. */
static void start_supervisor(int channel)
{
    struct clone_args args = {.flags = CLONE_PARENT};
    pid_t pid = syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0)
        _exit(dup2(channel, 0) < 0 || send_field(0, "ok", getpid()) < 0 || supervise() < 0);
    if (pid < 0)
        answer_error(channel, errno, "starting a supervisor");
}

/* The parent's memory may be large and its threads many: we are neither. What is
 * cloned from us becomes pid 1 inside, where its command line is seen: no arguments,
 * and the name that all of us have. */
static int broker(void)
{
    static struct packet request;
    int handle = syscall(SYS_pidfd_open, getppid(), 0);
    if (handle < 0)
        return -1;
    syscall(SYS_close_range, handle + 1, ~0u, 0);
    setsid();
    for (;;) {
        struct pollfd waits[2] = {{0, POLLIN, 0}, {handle, POLLIN, 0}};
        if (poll(waits, 2, -1) < 0 && errno != EINTR)
            return -1;
        if (waits[1].revents || (waits[0].revents && receive(0, &request) <= 0))
            return 0;
        if (!waits[0].revents)
            continue;
        if (request.count == 1)
            start_supervisor(request.fds[0]);
        close_received(&request);
    }
}

/* Hold a user namespace: answer with its descriptor, then end. */
static int hold_userns(const char *map)
{
    int pair[2];
    if (pipe2(pair, O_CLOEXEC) < 0)
        return failed("making a pipe");
    struct clone_args args = {.flags = CLONE_NEWUSER, .exit_signal = SIGCHLD};
    pid_t child = syscall(SYS_clone3, &args, sizeof args);
    if (child < 0)
        return failed("making a user namespace");
    if (child == 0) {
        char byte;
        close(pair[1]);
        _exit(read(pair[0], &byte, 1) < 0);
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/user", child);
    int space = -1;
    int ok = write_ids(child, map) == 0 && (space = open(path, O_RDONLY | O_CLOEXEC)) >= 0;
    if (!ok)
        failed("mapping ids");
    close(pair[1]);
    waitpid(child, NULL, 0);
    return ok ? answer(0, "ok", 2, &space, 1) : -1;
}

/* Without a user namespace init and the container's root are one user: a saved id
 * of its own keeps that root from setting init's limits and priorities. */
static int stand_apart(void)
{
    TRY(setresgid(-1, -1, 65534), "changing the saved group");
    TRY(setresuid(-1, -1, 65534), "changing the saved user");
    return 0;
}

static int serve_socket(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (sock < 0 || strlen(path) >= sizeof address.sun_path)
        return failed("making a socket");
    strcpy(address.sun_path, path);
    if (connect(sock, (struct sockaddr *)&address, sizeof address) < 0)
        return failed("connecting to the host");
    TRY(syscall(SYS_close_range, 0, ~0u, CLOSE_RANGE_CLOEXEC), "closing descriptors");
    TRY(harden_init(), NULL);
    TRY(stand_apart(), NULL);
    TRY(install_filter(), NULL);
    return serve(sock);
}

/* A trainer may ignore signals; what runs here must not inherit that. The C library
 * keeps two numbers to itself, so the kernel is asked. */
static void reset_signals(void)
{
    const uint64_t plain[8] = {0}; /* of the kernel's form: handler, flags, restorer, mask */
    for (int number = 1; number <= 64; number++)
        syscall(SYS_rt_sigaction, number, plain, NULL, sizeof(uint64_t));
}

int main(int argc, char **argv)
{
    reset_signals();
    if (argc == 1) {
        find_unreadable();
        return broker() < 0;
    }
    if (argc == 3 && strcmp(argv[1], "--userns") == 0)
        return hold_userns(argv[2]) < 0 && answer_failure(0) < 0;
    if (argc == 3 && strcmp(argv[1], "--serve") == 0) {
        if (serve_socket(argv[2]) == 0)
            return 0;
        dprintf(2, "init: %s: %s\n", failed_step, strerror(failed_errno));
        return 1;
    }
    dprintf(2, "usage: init [--serve SOCKET | --userns MAP]\n");
    return 2;
}

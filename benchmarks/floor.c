/* The floor that `rlvr bench reset` is compared with: one sandbox by bare system
 * calls, with nothing that only a product needs (no seccomp, no masks, no limits).
 *
 * usage: floor LOWER WORK CGROUP...
 * For each byte on standard input it builds a sandbox over LOWER, reads the first
 * word of the shell inside, removes everything, and prints the nanoseconds taken.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FLAGS                                                                       \
    (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC |     \
     CLONE_NEWUTS | CLONE_NEWCGROUP)

static char scratch[4096];

static void die(const char *what)
{
    dprintf(2, "floor: %s: %s\n", what, strerror(errno));
    _exit(1);
}

static const char *path(const char *format, ...)
{
    static char names[8][4096];
    static int next;
    char *name = names[next++ % 8];
    va_list rest;

    va_start(rest, format);
    vsnprintf(name, sizeof names[0], format, rest);
    va_end(rest);
    return name;
}

static void put(const char *file, const char *text)
{
    int fd = open(file, O_WRONLY | O_CLOEXEC);

    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        die(file);
    close(fd);
}

static long long now(void)
{
    struct timespec at;

    clock_gettime(CLOCK_MONOTONIC, &at);
    return at.tv_sec * 1000000000LL + at.tv_nsec;
}

static void lay(const char *lower, const char *work)
{
    if (mount("tmpfs", work, "tmpfs", 0, "size=256m,nr_inodes=65536,mode=755"))
        die("tmpfs");
    mkdir(path("%s/upper", work), 0755);
    mkdir(path("%s/work", work), 0755);
    mkdir(path("%s/root", work), 0755);
    if (chown(path("%s/upper", work), 100000, 100000))
        die("chown");
    snprintf(scratch, sizeof scratch, "lowerdir=%s,upperdir=%s/upper,workdir=%s/work",
             lower, work, work);
    if (mount("overlay", path("%s/root", work), "overlay", 0, scratch))
        die("overlay");
}

static void loopback_up(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo))
        die("lo");
    close(fd);
}

static void inside(const char *root, int ready, int out)
{
    char byte;

    if (read(ready, &byte, 1) != 1 || setgid(0) || setuid(0))
        die("ids");
    if (mount(0, "/", 0, MS_REC | MS_PRIVATE, 0) ||
        mount(root, root, 0, MS_BIND | MS_REC, 0) ||
        mount("proc", path("%s/proc", root), "proc", MS_NOSUID | MS_NODEV, 0) ||
        mount("tmpfs", path("%s/dev", root), "tmpfs", MS_NOSUID, "mode=755,size=64k"))
        die("mounts");
    if (chdir(root) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH) ||
        chdir("/"))
        die("pivot_root");
    loopback_up();
    dup2(out, 1);
    execl("/bin/bash", "bash", "--norc", "--noprofile", "-c", "echo ok", (char *)0);
    die("exec");
}

static void start(const char *root, char **cgroups, int count)
{
    struct clone_args how = {.flags = FLAGS, .exit_signal = SIGCHLD};
    int ready[2], out[2], status, i;
    char word[3];
    long pid;

    if (pipe2(ready, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
        die("pipe");
    pid = syscall(SYS_clone3, &how, sizeof how);
    if (pid < 0)
        die("clone3");
    if (pid == 0)
        inside(root, ready[0], out[1]);
    for (i = 0; i < count; i++)
        put(path("%s/floor/cgroup.procs", cgroups[i]), path("%ld", pid));
    put(path("/proc/%ld/uid_map", pid), "0 100000 65536");
    put(path("/proc/%ld/gid_map", pid), "0 100000 65536");
    if (write(ready[1], "x", 1) != 1 || (close(out[1]), read(out[0], word, 3)) != 3)
        die("first word");
    kill(pid, SIGKILL);
    if (waitpid(pid, &status, 0) != pid)
        die("wait");
    close(ready[0]);
    close(ready[1]);
    close(out[0]);
}

static void once(const char *lower, const char *work, char **cgroups, int count)
{
    int i;

    for (i = 0; i < count; i++)
        if (mkdir(path("%s/floor", cgroups[i]), 0755) && errno != EEXIST)
            die("cgroup");
    lay(lower, work);
    start(path("%s/root", work), cgroups, count);
    if (umount2(path("%s/root", work), MNT_DETACH) || umount2(work, MNT_DETACH))
        die("umount");
    for (i = 0; i < count; i++)
        while (rmdir(path("%s/floor", cgroups[i])) && errno == EBUSY)
            ;
}

int main(int argc, char **argv)
{
    long long began;
    char byte;

    if (argc < 3)
        return 2;
    unshare(CLONE_NEWNS);
    mount(0, "/", 0, MS_REC | MS_PRIVATE, 0);
    while (read(0, &byte, 1) == 1) {
        began = now();
        once(argv[1], argv[2], argv + 3, argc - 3);
        dprintf(1, "%lld\n", now() - began);
    }
    return 0;
}

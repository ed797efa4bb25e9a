/* The way into the sandbox: what init does once, before it serves.
 *
 * Its working folder is the supervisor's room of mounts (see overlay.py):
 *   r  the root to be     p  files to show in /proc ('!' stands for '/')
 *   e  an empty folder, shown over folders of /proc that are nobody's business
 * Init keeps the host's root as its user, which no id inside maps to: nothing
 * inside, root neither, can signal, limit or trace it. Its capabilities are
 * those of the sandbox's user namespace alone.
 */

/* Of /proc: what tells of the host, as far as anybody inside could read it. */
struct mask {
    const char *name;
    int folder, unreadable;
};

static struct mask masks[] = {
    {"acpi", 1}, {"asound", 1}, {"bus", 1}, {"cmdline"}, {"config.gz"}, {"diskstats"},
    {"driver", 1}, {"dynamic_debug", 1}, {"fs", 1}, {"interrupts"}, {"iomem"}, {"ioports"},
    {"irq", 1}, {"kallsyms"}, {"kcore"}, {"key-users"}, {"keys"}, {"kmsg"}, {"kpagecgroup"},
    {"kpagecount"}, {"kpageflags"}, {"latency_stats"}, {"mdstat"}, {"modules"}, {"mtrr"},
    {"pagetypeinfo"}, {"pressure", 1}, {"sched_debug"}, {"schedstat"}, {"scsi", 1},
    {"slabinfo"}, {"softirqs"}, {"sysrq-trigger"}, {"timer_list"}, {"timer_stats"},
    {"vmallocinfo"}, {"vmstat"}, {"zoneinfo"}, {"buddyinfo"}, {"partitions"}, {"swaps"},
    {"cgroups"}, {"version_signature"}};

/* What only the host's root may open stays shut: no id inside maps to it. Each mount
 * costs every sandbox time and memory, so this is found out once, before the clones. */
static void find_unreadable(void)
{
    for (size_t i = 0; i < COUNT(masks); i++) {
        char path[PATH_MAX];
        struct stat info;
        snprintf(path, sizeof path, "/proc/%s", masks[i].name);
        masks[i].unreadable = lstat(path, &info) == 0 && S_ISREG(info.st_mode) &&
                              info.st_uid == 0 && info.st_gid == 0 && !(info.st_mode & 07);
    }
}

enum { SEALED = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC };

/* A read-only mount of a folder upon itself; what is bound from it is read-only too. */
static int seal(const char *folder)
{
    TRY(mount(folder, folder, NULL, MS_BIND, NULL), "sealing a folder");
    TRY(mount(NULL, folder, NULL, MS_BIND | MS_REMOUNT | SEALED, NULL), "sealing a folder");
    return 0;
}

/* What this kernel does not have needs no cover: still 0. */
static int cover(const char *source, const char *target)
{
    return mount(source, target, NULL, MS_BIND, NULL) < 0 && errno != ENOENT ? -1 : 0;
}

static int mask_proc(void)
{
    static const char *covers[] = {"r/dev/null", "e"};
    char path[PATH_MAX];
    TRY(seal("e"), NULL);
    for (size_t i = 0; i < COUNT(masks); i++) {
        if (masks[i].unreadable)
            continue;
        snprintf(path, sizeof path, "r/proc/%s", masks[i].name);
        int code = cover(covers[masks[i].folder], path);
        if (code < 0 && errno == ENOTDIR) /* another kernel: a file there, a folder here */
            code = cover(covers[!masks[i].folder], path);
        TRY(code, "masking /proc");
    }
    return 0;
}

static int show_in_proc(void)
{
    TRY(seal("p"), NULL);
    DIR *folder = opendir("p");
    if (!folder)
        return failed("listing the files for /proc");
    struct dirent *entry;
    while ((entry = readdir(folder))) {
        char source[PATH_MAX], target[PATH_MAX];
        if (entry->d_name[0] == '.')
            continue;
        snprintf(source, sizeof source, "p/%s", entry->d_name);
        snprintf(target, sizeof target, "r/proc/%s", entry->d_name);
        for (char *c = target; *c; c++)
            *c = *c == '!' ? '/' : *c;
        TRY(cover(source, target), "showing a file in /proc");
    }
    closedir(folder);
    return 0;
}

static int mount_kernel_files(void)
{
    TRY(mount("proc", "r/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "mounting /proc");
    TRY(mount("devpts", "r/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
              "newinstance,ptmxmode=0666,mode=0620,gid=5"), "mounting /dev/pts");
    poke("r/proc/sys/net/ipv4/ping_group_range", "0 65535");
    poke("r/proc/sys/net/ipv4/ip_unprivileged_port_start", "0");
    TRY(seal("r/proc/sys"), NULL);
    TRY(show_in_proc(), NULL);
    return mask_proc();
}

static int raise_loopback(void)
{
    int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    TRY(sock, "raising the loopback interface");
    struct ifreq lo = {.ifr_name = "lo"};
    lo.ifr_flags = IFF_UP | IFF_RUNNING;
    int code = ioctl(sock, SIOCSIFFLAGS, &lo);
    close(sock);
    return code < 0 ? failed("raising the loopback interface") : 0;
}

static int enter_root(void)
{
    TRY(chdir("r"), "entering the root");
    TRY(syscall(SYS_pivot_root, ".", "."), "changing the root");
    TRY(umount2(".", MNT_DETACH), "leaving the old root");
    TRY(chdir("/"), "entering the root");
    return 0;
}

enum { UPTIME_SECONDS = 3600 }; /* as in procfiles.py */

/* Write how far a clock has to be moved to say UPTIME_SECONDS now. */
static int shift_clock(char *line, size_t size, const char *name, clockid_t clock)
{
    struct timespec now;
    TRY(clock_gettime(clock, &now), "reading a clock");
    return snprintf(line, size, "%s %ld %ld\n", name, UPTIME_SECONDS - 1 - (long)now.tv_sec,
                    1000000000 - now.tv_nsec - (now.tv_nsec == 0));
}

/* Let the clocks that count from boot start anew for what init will start: they,
 * and the start times of processes, would tell how long the host has been up. */
static int restart_clocks(void)
{
    char lines[2][80], text[160];
    if (unshare(CLONE_NEWTIME) < 0)
        return errno == EINVAL ? 0 : failed("making a time namespace");
    TRY(shift_clock(lines[0], sizeof lines[0], "monotonic", CLOCK_MONOTONIC), NULL);
    TRY(shift_clock(lines[1], sizeof lines[1], "boottime", CLOCK_BOOTTIME), NULL);
    snprintf(text, sizeof text, "%s%s", lines[0], lines[1]);
    TRY(poke("/proc/self/timens_offsets", text), "moving the clocks");
    return 0;
}

static int enter_world(const char *room, const char *host)
{
    TRY(setgroups(0, NULL), "dropping groups");
    TRY(unshare(CLONE_NEWNS), "making a mount namespace");
    TRY(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), "making mounts private");
    TRY(chdir(room), "entering the room of mounts");
    TRY(mount("r", "r", NULL, MS_BIND | MS_REC, NULL), "binding the root");
    TRY(mount_kernel_files(), NULL);
    TRY(enter_root(), NULL);
    TRY(sethostname(host, strlen(host)), "setting the host name");
    TRY(restart_clocks(), NULL);
    return raise_loopback();
}

/* Keep the two sockets as 3 and 4, and nothing else of the supervisor's. */
static int keep_sockets(int spawn, int gate)
{
    TRY(spawn = fcntl(spawn, F_DUPFD_CLOEXEC, 16), "keeping the spawn socket");
    TRY(gate = fcntl(gate, F_DUPFD_CLOEXEC, 16), "keeping the gate");
    TRY(dup3(spawn, 3, O_CLOEXEC), "keeping the spawn socket");
    TRY(dup3(gate, 4, O_CLOEXEC), "keeping the gate");
    TRY(syscall(SYS_close_range, 5, ~0u, 0), "closing descriptors");
    TRY(syscall(SYS_close_range, 0, 2, 0), "closing descriptors");
    return 0;
}

static int open_null(void)
{
    for (int i = 0; i < 3; i++)
        TRY(open("/dev/null", O_RDWR | O_CLOEXEC), "opening /dev/null");
    return 0;
}

/* The life of init: wait at the gate, enter the world, serve. */
static int run_init(int spawn, int gate)
{
    TRY(prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0), "watching the supervisor");
    TRY(keep_sockets(spawn, gate), NULL);
    if (receive(4, &request) <= 0)
        return -1;
    char *room = field(&request), *host = field(&request);
    int code = enter_world(room, host);
    if (code == 0)
        code = open_null();
    if (code == 0)
        code = harden_init();
    if (code == 0)
        code = install_filter();
    if (code < 0)
        return answer_failure(4), -1;
    answer(4, "ok", 2, NULL, 0);
    close(4);
    return serve(3);
}

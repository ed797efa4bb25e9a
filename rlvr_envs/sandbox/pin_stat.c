/*
 * libpin.so, second half: file times as the frozen clock would have made them.
 *
 * The kernel stamps files with the host's present. After each turn the host gives
 * files of the writable layer the turn's virtual time; until then, and for what
 * has no other times (/proc, /dev, change and birth times), stat and its kin show
 *   - a time from this turn as a moment of the virtual second before the turn, in
 *     the same order, so that nothing lies in the future;
 *   - an earlier time of this episode as the task's epoch;
 *   - change, access and birth times as the modification time, where that is
 *     virtual already.
 *
 * Device numbers of the sandbox's own mounts depend on what else the host mounted;
 * they are shown as small fixed ones.
 *
 * The host's present is never written down inside: the change times of
 * /run/rlvr/seed and /run/rlvr/clock tell when episode and turn began.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

enum { BEFORE_S = 3600, AFTER_S = 2 * 86400, NS = 1000000000, SLOWER = 1000 };

static int64_t episode_s, turn_s, turn_ns, epoch_s, virtual_s;
static int known;

static int ctime_of(const char *path, int64_t *seconds, int64_t *nanoseconds) {
    struct stat about;
    if (syscall(SYS_newfstatat, AT_FDCWD, path, &about, 0) != 0) return 0;
    *seconds = about.st_ctim.tv_sec;
    *nanoseconds = about.st_ctim.tv_nsec;
    return 1;
}

/* Returns the number after the first of a mark in a small file; -1 for none. */
static int64_t number_after(const char *path, char mark) {
    char text[64];
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t length = syscall(SYS_read, fd, text, sizeof text), i = 0;
    syscall(SYS_close, fd);
    while (i < length && text[i] != mark) i++;
    int64_t number = i < length ? 0 : -1;
    for (i++; i < length && text[i] >= '0' && text[i] <= '9'; i++)
        number = number * 10 + (text[i] - '0');
    return number;
}

__attribute__((constructor)) static void learn(void) {
    int64_t unused;
    epoch_s = number_after("/run/rlvr/seed", ' ');
    known = epoch_s >= 0 && ctime_of("/run/rlvr/seed", &episode_s, &unused);
}

static int is_present(int64_t seconds) {
    return known && seconds >= episode_s - BEFORE_S && seconds <= episode_s + AFTER_S;
}

/* Looked at again each time: a shell lives through many turns. */
static int know_turn(void) {
    int64_t s, ns;
    if (!ctime_of("/run/rlvr/clock", &s, &ns)) return 0;
    if (s == turn_s && ns == turn_ns) return 1;
    virtual_s = number_after("/run/rlvr/clock", '@');
    turn_s = s;
    turn_ns = ns;
    return virtual_s >= 0;
}

static void pin(int64_t *seconds, int64_t *nanoseconds) {
    if (!is_present(*seconds) || !know_turn()) return;
    int64_t since = (*seconds - turn_s) * NS + *nanoseconds - turn_ns;
    *seconds = since < 0 ? epoch_s : virtual_s - 1;
    *nanoseconds = since < 0 ? 0 : since / SLOWER < NS ? since / SLOWER : NS - 1;
}

/* `instead`, where given, is the time that the file was last written at. */
static void pin_time(struct timespec *time, const struct timespec *instead) {
    int64_t s = time->tv_sec, n = time->tv_nsec;
    if (instead && is_present(s)) {
        *time = *instead;
        return;
    }
    pin(&s, &n);
    time->tv_sec = s;
    time->tv_nsec = n;
}

static const char *const MOUNTS[] = {
    "/", "/proc", "/dev", "/dev/pts", "/dev/shm", "/run/rlvr",
};
enum { MOUNT_COUNT = sizeof MOUNTS / sizeof *MOUNTS, FIRST_MINOR = 40, PROC_LINKS = 99 };

static unsigned minors[MOUNT_COUNT];

static unsigned pinned_minor(unsigned minor_now) {
    for (int i = 0; i < MOUNT_COUNT && known; i++) {
        struct stat about;
        if (minors[i] == 0
            && syscall(SYS_newfstatat, AT_FDCWD, MOUNTS[i], &about, 0) == 0
            && major(about.st_dev) == 0)
            minors[i] = minor(about.st_dev);
        if (minors[i] == minor_now) return FIRST_MINOR + (unsigned)i;
    }
    return minor_now;
}

/* The links of /proc itself count the processes of the whole host. */
static int is_proc(unsigned minor_shown, uint64_t inode) {
    return known && minor_shown == FIRST_MINOR + 1 && inode == 1;
}

/* struct stat is the kernel's on 64-bit machines, and stat64 the same. */
static int pinned(long result, struct stat *about) {
    if (result != 0) return -1;
    if (major(about->st_dev) == 0)
        about->st_dev = makedev(0, pinned_minor(minor(about->st_dev)));
    if (is_proc(minor(about->st_dev), about->st_ino)) about->st_nlink = PROC_LINKS;
    int has_virtual = !is_present(about->st_mtim.tv_sec);
    pin_time(&about->st_mtim, 0);
    pin_time(&about->st_atim, has_virtual ? &about->st_mtim : 0);
    pin_time(&about->st_ctim, has_virtual ? &about->st_mtim : 0);
    return 0;
}

static int at(int folder, const char *path, void *about, int flags) {
    return pinned(syscall(SYS_newfstatat, folder, path, about, flags), about);
}

static int by_path(const char *path, void *about) { return at(AT_FDCWD, path, about, 0); }

static int by_link(const char *path, void *about) {
    return at(AT_FDCWD, path, about, AT_SYMLINK_NOFOLLOW);
}

static int by_fd(int fd, void *about) {
    return pinned(syscall(SYS_fstat, fd, about), about);
}

int stat(const char *p, struct stat *s) { return by_path(p, s); }
int stat64(const char *p, struct stat64 *s) { return by_path(p, s); }
int lstat(const char *p, struct stat *s) { return by_link(p, s); }
int lstat64(const char *p, struct stat64 *s) { return by_link(p, s); }
int fstat(int fd, struct stat *s) { return by_fd(fd, s); }
int fstat64(int fd, struct stat64 *s) { return by_fd(fd, s); }
int fstatat(int d, const char *p, struct stat *s, int f) { return at(d, p, s, f); }
int fstatat64(int d, const char *p, struct stat64 *s, int f) { return at(d, p, s, f); }

/* What programs call that were linked against glibc older than 2.33. */
int __xstat(int v, const char *p, void *s) { return (void)v, by_path(p, s); }
int __xstat64(int v, const char *p, void *s) { return (void)v, by_path(p, s); }
int __lxstat(int v, const char *p, void *s) { return (void)v, by_link(p, s); }
int __lxstat64(int v, const char *p, void *s) { return (void)v, by_link(p, s); }
int __fxstat(int v, int fd, void *s) { return (void)v, by_fd(fd, s); }
int __fxstat64(int v, int fd, void *s) { return (void)v, by_fd(fd, s); }
int __fxstatat(int v, int d, const char *p, void *s, int f) { return (void)v, at(d, p, s, f); }
int __fxstatat64(int v, int d, const char *p, void *s, int f) { return (void)v, at(d, p, s, f); }

static void pin_stamp(struct statx_timestamp *stamp, const struct timespec *instead) {
    struct timespec time = {stamp->tv_sec, stamp->tv_nsec};
    pin_time(&time, instead);
    stamp->tv_sec = time.tv_sec;
    stamp->tv_nsec = (uint32_t)time.tv_nsec;
}

int statx(int folder, const char *restrict path, int flags, unsigned mask,
          struct statx *restrict about) {
    long result = syscall(SYS_statx, folder, path, flags, mask, about);
    if (result != 0) return -1;
    if (about->stx_dev_major == 0)
        about->stx_dev_minor = pinned_minor(about->stx_dev_minor);
    if (is_proc(about->stx_dev_minor, about->stx_ino)) about->stx_nlink = PROC_LINKS;
    struct timespec written = {about->stx_mtime.tv_sec, about->stx_mtime.tv_nsec};
    int has_mtime = (about->stx_mask & STATX_MTIME) != 0;
    const struct timespec *instead =
        has_mtime && !is_present(written.tv_sec) ? &written : 0;
    pin_stamp(&about->stx_mtime, 0);
    pin_stamp(&about->stx_atime, instead);
    pin_stamp(&about->stx_ctime, instead);
    pin_stamp(&about->stx_btime, instead);
    return 0;
}

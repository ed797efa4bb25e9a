/*
 * libpin.so: loaded into every dynamic program of a sandbox, before libfaketime.
 *
 * 1. Gives libfaketime its settings where a program was started without them
 *    (`env -i`), by adding to the environment before its constructor runs, and
 *    the counter of clock readings, for each process its own. Left to itself,
 *    libfaketime shares a counter and its semaphore with all descendants, so that
 *    one killed while it reads the clock would stop the others; and it calls
 *    setenv, after which bash no longer finds the settings.
 * 2. Answers getrandom, getentropy, arc4random, and read on /dev/urandom and
 *    /dev/random, from a stream that belongs to the episode: a function of the
 *    seed in /run/rlvr/seed, the process id as seen inside, and how much this
 *    process has drawn. Without that file the kernel answers.
 *
 * Out of reach, and documented so: static programs, raw system calls, stdio on
 * /dev/urandom, programs that mix in a cycle counter (openssl). Nothing here
 * confines anybody; it only makes two runs agree.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/types.h>
#include <unistd.h>

extern char **environ;

/* The oldest name, so that images with an older C library can load this. */
__asm__(".symver dlsym, dlsym@GLIBC_2.2.5");

enum { SETTING_COUNT = 5, SETTING_LENGTH = 64, MOST_VARIABLES = 4096 };

/* Writable: bash cuts the strings of its environment in place. */
static char settings[SETTING_COUNT][SETTING_LENGTH] = {
    "FAKETIME_DONT_FAKE_MONOTONIC=1", "DONT_FAKE_MONOTONIC=1",
    "FAKETIME_NO_CACHE=1", "FAKETIME_FMT=%s", "FAKETIME_SHARED=",
};
static char *const shared_setting = settings[SETTING_COUNT - 1];

static char *merged[MOST_VARIABLES + SETTING_COUNT + 1];
static char counter_path[SETTING_LENGTH];
static pid_t counter_owner;
static uint64_t seed;
static int have_seed;
static uint64_t drawn;

static int is_setting(const char *item) {
    for (int i = 0; i < SETTING_COUNT; i++) {
        size_t length = (size_t)(strchr(settings[i], '=') - settings[i]) + 1;
        if (strncmp(item, settings[i], length) == 0) return 1;
    }
    return 0;
}

/* Not by setenv: bash exports one of its own that is not ready this early. */
static void add_settings(void) {
    int count = 0;
    for (char **item = environ; item && *item; item++) {
        if (is_setting(*item)) continue;
        if (count == MOST_VARIABLES) return;
        merged[count++] = *item;
    }
    int known = counter_owner ? SETTING_COUNT : SETTING_COUNT - 1;
    for (int i = 0; i < known; i++) merged[count++] = settings[i];
    environ = merged;
}

static int make_file(const char *path, const void *data, size_t length) {
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) return 0;
    ssize_t done = write(fd, data, length);
    close(fd);
    return done == (ssize_t)length;
}

static char *append(char *end, const char *text) {
    while (*text) *end++ = *text++;
    *end = 0;
    return end;
}

static char *append_number(char *end, unsigned long number) {
    char digits[24];
    int i = sizeof digits - 1;
    digits[i] = 0;
    do digits[--i] = (char)('0' + number % 10); while (number /= 10);
    return append(end, digits + i);
}

/* What sem_open and shm_open would make: a free semaphore for several processes
 * (glibc's layout), and libfaketime's counter with no start time yet. */
static int make_counter(void) {
    const struct { uint64_t value; int private_flag, pad; uint64_t fill[2]; }
        semaphore = {1, 128, 0, {0, 0}};
    int64_t counter[10] = {0, 0, 0, -1, 0, -1, 0, -1, 0, -1};
    char path[SETTING_LENGTH];
    append_number(append(path, "/dev/shm/sem.clock-"), (unsigned long)getpid());
    append_number(append(counter_path, "/dev/shm/clock-"), (unsigned long)getpid());
    return make_file(path, &semaphore, sizeof semaphore)
        && make_file(counter_path, counter, sizeof counter);
}

static void share_counter(void) {
    if (!make_counter()) return;
    counter_owner = getpid();
    char *end = strchr(shared_setting, '=') + 1;
    end = append_number(append(end, "/clock-"), (unsigned long)counter_owner);
    append_number(append(end, " /clock-"), (unsigned long)counter_owner);
}

static void drop_counter(void) {
    char path[SETTING_LENGTH];
    if (counter_owner == 0 || counter_owner != getpid()) return;
    append_number(append(path, "/dev/shm/sem.clock-"), (unsigned long)counter_owner);
    unlink(path);
    unlink(counter_path);
    counter_owner = 0;
}

typedef int entry(int (*)(int, char **, char **), int, char **, void (*)(void),
                  void (*)(void), void (*)(void), void *);

/* Every program passes here after all constructors: libfaketime has mapped the
 * counter, and its files can go, so that no killed process leaves any. */
int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
                      void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end) {
    entry *real = (entry *)dlsym(RTLD_NEXT, "__libc_start_main");
    drop_counter();
    return real(main, argc, argv, init, fini, rtld_fini, stack_end);
}

static void read_seed(void) {
    char text[32];
    int fd = open("/run/rlvr/seed", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ssize_t length = read(fd, text, sizeof text);
    close(fd);
    for (ssize_t i = 0; i < length && text[i] >= '0' && text[i] <= '9'; i++)
        seed = seed * 10 + (uint64_t)(text[i] - '0');
    have_seed = length > 0;
}

__attribute__((constructor)) static void prepare(void) {
    share_counter();
    add_settings();
    read_seed();
}

/* splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014. */
static uint64_t mix(uint64_t value) {
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

static void fill(unsigned char *out, size_t length) {
    uint64_t stream = mix(seed ^ mix((uint64_t)getpid()));
    while (length > 0) {
        uint64_t word = mix(stream ^ mix(__sync_fetch_and_add(&drawn, 1)));
        size_t part = length < sizeof word ? length : sizeof word;
        memcpy(out, &word, part);
        out += part;
        length -= part;
    }
}

ssize_t getrandom(void *buffer, size_t length, unsigned flags) {
    if (!have_seed) return syscall(SYS_getrandom, buffer, length, flags);
    fill(buffer, length);
    return (ssize_t)length;
}

int getentropy(void *buffer, size_t length) {
    return getrandom(buffer, length, 0) == (ssize_t)length ? 0 : -1;
}

void arc4random_buf(void *buffer, size_t length) { getrandom(buffer, length, 0); }

uint32_t arc4random(void) {
    uint32_t value = 0;
    getrandom(&value, sizeof value, 0);
    return value;
}

uint32_t arc4random_uniform(uint32_t bound) {
    uint32_t value, floor = bound ? -bound % bound : 0;
    if (bound < 2) return 0;
    do value = arc4random(); while (value < floor);
    return value % bound;
}

/* glibc's own name of read: still a cancellation point, and no dlsym needed. */
extern ssize_t __read(int fd, void *buffer, size_t length);

static int is_random_device(int fd) {
    struct stat about;
    if (syscall(SYS_fstat, fd, &about) != 0 || !S_ISCHR(about.st_mode)) return 0;
    return about.st_rdev == makedev(1, 8) || about.st_rdev == makedev(1, 9);
}

ssize_t read(int fd, void *buffer, size_t length) {
    if (!have_seed || !is_random_device(fd)) return __read(fd, buffer, length);
    return getrandom(buffer, length, 0);
}

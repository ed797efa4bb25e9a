/*
 * libpgclock.so: loaded into a database server of our own, so that one SQL
 * statement gives the same bytes in every run.
 *
 * The harness keeps a table with a cell for each process id. A backend whose cell
 * was written reads its wall clock from there: from the moment in the cell on,
 * each reading moves it by a microsecond, and a wait that ran out by its length.
 * It never goes back. Its /dev/urandom is a stream of the cell's seed. Every other
 * process, the server's own and the harness's sessions, is left alone.
 *
 * Time limits stay real. The server measures them by the wall clock, so that it
 * would not find them over when the alarm rings; the alarm's handler, and nothing
 * else, therefore reads the virtual moment plus the real time since the client
 * last spoke. A new moment in the cell moves the alarm that is set with it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* One of 64 bytes for each process id; the first and last field must agree. */
struct cell {
    uint64_t generation;
    int64_t moment_us;
    uint64_t seed;
    uint64_t born_ticks;
    uint64_t memory_bytes; /* the most that the process may hold; 0 for no limit */
    uint64_t pad[2];
    uint64_t generation_again;
};

enum { SECOND_US = 1000000 };

static int (*real_clock)(clockid_t, struct timespec *);
static int (*real_day)(struct timeval *, void *);
static int (*real_timer)(__itimer_which_t, const struct itimerval *,
                         struct itimerval *);
static int (*real_action)(int, const struct sigaction *, struct sigaction *);
static int (*real_epoll)(int, struct epoll_event *, int, int);
static ssize_t (*real_recv)(int, void *, size_t, int);
static uint64_t *server_stream; /* the server's own generator: two words */

static const struct cell *table;
static const struct cell *mine;
static uint64_t cells;
static uint64_t generation;
static int is_virtual;
static int64_t now_us;
static int64_t steady_us;
static int64_t heard_us; /* real, when the client last spoke */
static uint64_t seed;
static uint64_t drawn;
static int random_fd = -1;

static void (*alarm_handler)(int);
static volatile sig_atomic_t in_alarm;
static volatile sig_atomic_t alarm_set;
static volatile int64_t alarm_us; /* virtual, when it is due */

static int64_t real_us(clockid_t clock) {
    struct timespec moment;
    real_clock(clock, &moment);
    return (int64_t)moment.tv_sec * SECOND_US + moment.tv_nsec / 1000;
}

static void find_cell(void) {
    uint64_t pid = (uint64_t)getpid();
    mine = table && pid < cells ? table + pid : NULL;
}

__attribute__((constructor)) static void prepare(void) {
    real_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    real_day = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    real_timer = (int (*)(__itimer_which_t, const struct itimerval *,
                          struct itimerval *))dlsym(RTLD_NEXT, "setitimer");
    real_action = (int (*)(int, const struct sigaction *,
                           struct sigaction *))dlsym(RTLD_NEXT, "sigaction");
    real_epoll = (int (*)(int, struct epoll_event *, int, int))dlsym(RTLD_NEXT, "epoll_wait");
    real_recv = (ssize_t (*)(int, void *, size_t, int))dlsym(RTLD_NEXT, "recv");
    server_stream = (uint64_t *)dlsym(RTLD_DEFAULT, "pg_global_prng_state");
    const char *path = getenv("RLVR_CLOCK_TABLE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    struct stat about;
    if (fd < 0) return;
    if (fstat(fd, &about) == 0 && about.st_size > 0) {
        void *mapped = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (mapped != MAP_FAILED) {
            table = mapped;
            cells = (uint64_t)about.st_size / sizeof *table;
        }
    }
    close(fd);
    find_cell();
    pthread_atfork(NULL, NULL, find_cell);
}

/* splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number
 * generators", OOPSLA 2014. */
static uint64_t mix(uint64_t value) {
    value += 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

/* When this process began, as the kernel counts it: a cell that was meant for an
 * earlier process of the same number names another moment. */
static uint64_t born_ticks(void) {
    char text[1024];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0) return 0;
    text[length] = 0;
    char *at = strrchr(text, ')');
    for (int field = 2; at && field < 22; field++) at = strchr(at + 1, ' ');
    return at ? strtoull(at, NULL, 10) : 0;
}

static void ring_in(int64_t delay_us) {
    struct itimerval timer = {{0, 0}, {0, 0}};
    if (delay_us < 1) delay_us = 1;
    timer.it_value.tv_sec = delay_us / SECOND_US;
    timer.it_value.tv_usec = delay_us % SECOND_US;
    real_timer(ITIMER_REAL, &timer, NULL);
}

/* The server answers what goes beyond with its own error, out of memory. */
static void limit_memory(uint64_t bytes) {
    struct rlimit limit;
    if (!bytes || getrlimit(RLIMIT_DATA, &limit) != 0) return;
    if (limit.rlim_max != RLIM_INFINITY && bytes > limit.rlim_max) return;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_DATA, &limit);
}

static void enter(const struct cell *told) {
    int first = !is_virtual;
    if (first) limit_memory(told->memory_bytes);
    if (first || told->seed != seed) drawn = 0;
    seed = told->seed;
    if (first) {
        steady_us = real_us(CLOCK_MONOTONIC);
        heard_us = steady_us;
    }
    is_virtual = 1;
    if (first || told->moment_us > now_us) now_us = told->moment_us;
    if (server_stream) {
        server_stream[0] = mix(seed ^ mix((uint64_t)now_us));
        server_stream[1] = mix(server_stream[0]);
    }
    if (alarm_set) ring_in(first ? 1 : alarm_us - now_us);
}

static void look(void) {
    struct cell told;
    sigset_t alarm, before;
    if (!mine || __atomic_load_n(&mine->generation, __ATOMIC_ACQUIRE) == generation)
        return;
    uint64_t last = __atomic_load_n(&mine->generation_again, __ATOMIC_ACQUIRE);
    memcpy(&told, mine, sizeof told);
    if (told.generation != last || told.generation_again != last) return;
    generation = last;
    if (!is_virtual && told.born_ticks != born_ticks()) return;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, &before);
    enter(&told);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* What the alarm's handler reads; it moves nothing. */
static int64_t limit_us(void) {
    return now_us + real_us(CLOCK_MONOTONIC) - heard_us;
}

static int64_t read_us(void) { return in_alarm ? limit_us() : ++now_us; }

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
    if (!in_alarm) look();
    if (!is_virtual) return real_day(out, zone);
    int64_t moment = read_us();
    out->tv_sec = moment / SECOND_US;
    out->tv_usec = moment % SECOND_US;
    return 0;
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    if (!in_alarm) look();
    if (!is_virtual || in_alarm || (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC))
        return real_clock(clock, out);
    int64_t moment = clock == CLOCK_REALTIME ? read_us() : ++steady_us;
    out->tv_sec = moment / SECOND_US;
    out->tv_nsec = moment % SECOND_US * 1000;
    return 0;
}

static void on_alarm(int number) {
    in_alarm = 1;
    alarm_set = 0;
    alarm_handler(number);
    in_alarm = 0;
}

int sigaction(int number, const struct sigaction *restrict new,
              struct sigaction *restrict old) {
    struct sigaction ours;
    if (number != SIGALRM || !new || (new->sa_flags & SA_SIGINFO)
        || new->sa_handler == SIG_DFL || new->sa_handler == SIG_IGN)
        return real_action(number, new, old);
    alarm_handler = new->sa_handler;
    ours = *new;
    ours.sa_handler = on_alarm;
    return real_action(number, &ours, old);
}

int setitimer(__itimer_which_t which, const struct itimerval *restrict new,
              struct itimerval *restrict old) {
    if (which == ITIMER_REAL && new) {
        int64_t delay_us = (int64_t)new->it_value.tv_sec * SECOND_US
            + new->it_value.tv_usec;
        alarm_us = (in_alarm && is_virtual ? limit_us() : now_us) + delay_us;
        alarm_set = delay_us != 0;
    }
    return real_timer(which, new, old);
}

/* A wait that ran out took its time; nothing else says so. */
int epoll_wait(int fd, struct epoll_event *events, int most, int timeout_ms) {
    int found = real_epoll(fd, events, most, timeout_ms);
    if (found == 0 && is_virtual && timeout_ms > 0) {
        now_us += (int64_t)timeout_ms * 1000;
        steady_us += (int64_t)timeout_ms * 1000;
        heard_us += (int64_t)timeout_ms * 1000;
    }
    return found;
}

ssize_t recv(int fd, void *buffer, size_t length, int flags) {
    ssize_t got = real_recv(fd, buffer, length, flags);
    if (got > 0 && is_virtual) heard_us = real_us(CLOCK_MONOTONIC);
    return got;
}

/* glibc's own names: no symbol has to be looked up before the constructor ran. */
extern int __open(const char *path, int flags, ...);
extern ssize_t __read(int fd, void *buffer, size_t length);

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    int fd = __open(path, flags, mode);
    if (is_virtual && strcmp(path, "/dev/urandom") == 0) random_fd = fd;
    return fd;
}

/* Its number may have been given to another file since. */
static int is_random(int fd) {
    struct stat about;
    if (!is_virtual || fd < 0 || fd != random_fd) return 0;
    return fstat(fd, &about) == 0 && S_ISCHR(about.st_mode)
        && about.st_rdev == makedev(1, 9);
}

ssize_t read(int fd, void *buffer, size_t length) {
    unsigned char *out = buffer;
    if (!is_random(fd)) return __read(fd, buffer, length);
    for (size_t done = 0; done < length;) {
        uint64_t word = mix(mix(seed) ^ mix(drawn++));
        size_t part = length - done < sizeof word ? length - done : sizeof word;
        memcpy(out + done, &word, part);
        done += part;
    }
    return (ssize_t)length;
}

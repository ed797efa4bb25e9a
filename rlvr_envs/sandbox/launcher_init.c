/* Init: pid 1 inside, the only process there that the host believes. */

enum { MAX_CHILDREN = 4096, MAX_STRINGS = 4096, PARKED = 512 };

/* A process that the host asked for; `exec` is the pipe that closes at exec. */
struct child {
    pid_t pid;
    int report;
    int exec;
};

static struct child children[MAX_CHILDREN];
static int child_count;
static struct pollfd waits[MAX_CHILDREN + 2];
static struct packet request;

/* What the sandbox's root may do at most: Docker's set without MKNOD and NET_RAW. */
static const int kept_capabilities[] = {
    CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FSETID, CAP_FOWNER, CAP_SETGID, CAP_SETUID,
    CAP_SETFCAP, CAP_SETPCAP, CAP_NET_BIND_SERVICE, CAP_SYS_CHROOT, CAP_KILL,
    CAP_AUDIT_WRITE};

struct limit {
    int resource;
    rlim_t soft, hard;
};

static const struct limit child_limits[] = {
    {RLIMIT_CORE, 0, 0},
    {RLIMIT_NOFILE, 1024, 4096},
    {RLIMIT_STACK, 8 << 20, RLIM_INFINITY},
    {RLIMIT_MEMLOCK, 8 << 20, 8 << 20},
    {RLIMIT_MSGQUEUE, 819200, 819200},
    {RLIMIT_SIGPENDING, 4096, 4096},
    {RLIMIT_NICE, 0, 0},
    {RLIMIT_RTPRIO, 0, 0},
};

static int set_capabilities(uint64_t set)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {
        {(uint32_t)set, (uint32_t)set, 0}, {(uint32_t)(set >> 32), (uint32_t)(set >> 32), 0}};
    return syscall(SYS_capset, &head, data);
}

/* What we may use now; a container's init may have less than it would keep. */
static uint64_t permitted_capabilities(void)
{
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct data[2] = {{0}};
    if (syscall(SYS_capget, &head, data) < 0)
        return 0;
    return data[0].permitted | (uint64_t)data[1].permitted << 32;
}

static int drop_capabilities(void)
{
    uint64_t kept = 0;
    for (size_t i = 0; i < COUNT(kept_capabilities); i++)
        kept |= 1ull << kept_capabilities[i];
    for (int cap = 0; cap < 64 && prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
        if (!(kept >> cap & 1))
            TRY(prctl(PR_CAPBSET_DROP, cap, 0, 0, 0), "dropping capabilities");
    TRY(set_capabilities(kept & permitted_capabilities()), "dropping capabilities");
    return 0;
}

/* Lower a limit; never ask for more than we have. */
static int apply_limit(const struct limit *limit)
{
    struct rlimit now;
    TRY(getrlimit(limit->resource, &now), "reading a limit");
    struct rlimit next = {limit->soft, limit->hard};
    if (next.rlim_max > now.rlim_max)
        next.rlim_max = now.rlim_max;
    if (next.rlim_cur > next.rlim_max)
        next.rlim_cur = next.rlim_max;
    TRY(setrlimit(limit->resource, &next), "setting a limit");
    return 0;
}

/* What holds for init and, by inheritance, for everything that it starts. */
static int harden_init(void)
{
    sigset_t all;
    sigfillset(&all);
    TRY(sigprocmask(SIG_SETMASK, &all, NULL), "blocking signals");
    TRY(prctl(PR_SET_NAME, "init", 0, 0, 0), "naming init");
    TRY(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), "hiding init");
    TRY(personality(ADDR_NO_RANDOMIZE), "fixing the address layout");
    umask(022);
    return drop_capabilities();
}

static int send_field(int sock, const char *word, long value)
{
    char text[64];
    int size = snprintf(text, sizeof text, "%s%c%ld", word, 0, value);
    return answer(sock, text, size, NULL, 0);
}

/* ---- the child, between fork and exec ---- */

/* Why exec did not happen, as the child tells its init. */
struct excuse {
    int code;
    char step[128];
};

struct program_call {
    int user, tty;
    char *cwd;
    char *argv[MAX_STRINGS], *env[MAX_STRINGS];
};

/* Put the received descriptors, but the report socket, in place as 0, 1, 2, ... */
static int place_descriptors(void)
{
    for (int i = 0; i < request.count; i++)
        TRY(request.fds[i] = fcntl(request.fds[i], F_DUPFD_CLOEXEC, PARKED), "parking a descriptor");
    for (int i = 1; i < request.count; i++)
        TRY(dup2(request.fds[i], i - 1), "placing a descriptor");
    return 0;
}

static int become(int user)
{
    if (user < 0 || user > 65535) /* -1 would mean: stay what you are */
        return errno = EINVAL, failed("changing the user");
    TRY(setgroups(0, NULL), "dropping groups");
    TRY(setresgid(user, user, user), "changing the group");
    TRY(setresuid(user, user, user), "changing the user");
    if (user != 0)
        TRY(set_capabilities(0), "dropping capabilities");
    return 0;
}

static const char *path_of(char **env)
{
    for (; *env; env++)
        if (strncmp(*env, "PATH=", 5) == 0)
            return *env + 5;
    return "/usr/local/bin:/usr/bin:/bin";
}

/* Search the path of the new environment, as execvpe would the old one's. */
static int execute(struct program_call *call)
{
    char *name = call->argv[0];
    if (strchr(name, '/'))
        return execve(name, call->argv, call->env);
    int code = ENOENT;
    for (const char *part = path_of(call->env); *part;) {
        size_t size = strcspn(part, ":");
        char full[PATH_MAX];
        if (snprintf(full, sizeof full, "%.*s/%s", (int)size, part, name) < PATH_MAX)
            execve(full, call->argv, call->env);
        if (errno != ENOENT && errno != ENOTDIR)
            code = errno;
        part += size + (part[size] == ':');
    }
    errno = code;
    return -1;
}

static int prepare_child(struct program_call *call)
{
    TRY(setsid(), "starting a session");
    TRY(place_descriptors(), NULL);
    if (call->tty)
        TRY(ioctl(0, TIOCSCTTY, 0), "taking the terminal");
    for (size_t i = 0; i < COUNT(child_limits); i++)
        TRY(apply_limit(&child_limits[i]), NULL);
    TRY(become(call->user), NULL);
    TRY(chdir(call->cwd), "changing the folder");
    sigset_t none;
    sigemptyset(&none);
    TRY(sigprocmask(SIG_SETMASK, &none, NULL), "unblocking signals");
    return 0;
}

static void run_child(struct program_call *call, int exec)
{
    int pipe_ = fcntl(exec, F_DUPFD_CLOEXEC, PARKED);
    if (pipe_ < 0)
        _exit(127);
    close(exec);
    answer(request.fds[0], "pid", 3, NULL, 0);
    if (prepare_child(call) == 0)
        execute(call), failed("executing the program");
    struct excuse excuse = {failed_errno, ""};
    strncpy(excuse.step, failed_step, sizeof excuse.step - 1);
    _exit(write(pipe_, &excuse, sizeof excuse) < 0 ? 126 : 127);
}

/* ---- the server ---- */

static int parse_call(struct program_call *call)
{
    call->user = number(&request);
    call->tty = number(&request);
    call->cwd = field(&request);
    long argc = number(&request);
    if (argc < 1 || argc >= MAX_STRINGS)
        return errno = E2BIG, failed("reading the arguments");
    for (long i = 0; i < argc; i++)
        call->argv[i] = field(&request);
    call->argv[argc] = NULL;
    int count = 0;
    while (request.cursor < request.end && count < MAX_STRINGS - 1)
        call->env[count++] = field(&request);
    call->env[count] = NULL;
    return 0;
}

static int start_child(int *taken)
{
    static struct program_call call;
    int exec[2];
    TRY(parse_call(&call), NULL);
    if (child_count == MAX_CHILDREN)
        return errno = EAGAIN, failed("starting a process");
    TRY(pipe2(exec, O_CLOEXEC), "starting a process");
    pid_t pid = fork();
    if (pid == 0)
        run_child(&call, exec[1]);
    close(exec[1]);
    if (pid < 0) {
        failed("starting a process");
        close(exec[0]);
        return -1;
    }
    children[child_count++] = (struct child){pid, request.fds[0], exec[0]};
    *taken = 1;
    return 0;
}

static int open_listener(void)
{
    int type = number(&request);
    struct sockaddr_in address = {.sin_family = AF_INET};
    int known = inet_pton(AF_INET, field(&request), &address.sin_addr);
    address.sin_port = htons(number(&request));
    if (known != 1)
        return errno = EINVAL, failed("reading the address");
    int one = 1, sock = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    TRY(sock, "making a socket");
    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    int code = bind(sock, (struct sockaddr *)&address, sizeof address);
    if (code == 0 && type == SOCK_STREAM)
        code = listen(sock, 128);
    code = code < 0 ? failed("binding the socket") : answer(request.fds[0], "ok", 2, &sock, 1);
    close(sock);
    return code;
}

static int open_terminal(void)
{
    int ends[2] = {open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC), -1}, zero = 0;
    TRY(ends[0], "opening a terminal");
    int code = ioctl(ends[0], TIOCSPTLCK, &zero);
    if (code == 0)
        code = ends[1] = ioctl(ends[0], TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    code = code < 0 ? failed("opening a terminal") : answer(request.fds[0], "ok", 2, ends, 2);
    close(ends[0]);
    if (ends[1] >= 0)
        close(ends[1]);
    return code;
}

/* Answer one request; false at the end of the channel. */
static int handle_request(int sock)
{
    if (receive(sock, &request) <= 0)
        return 0;
    int taken = 0, code;
    char *verb = field(&request);
    if (request.count < 1)
        return 1;
    if (strcmp(verb, "spawn") == 0)
        code = start_child(&taken);
    else if (strcmp(verb, "listen") == 0)
        code = open_listener();
    else if (strcmp(verb, "terminal") == 0)
        code = open_terminal();
    else
        errno = ENOSYS, code = failed("reading the request");
    if (code < 0)
        answer_failure(request.fds[0]);
    if (taken)
        request.fds[0] = -1;
    close_received(&request);
    return 1;
}

static void forget(int place)
{
    close(children[place].report);
    if (children[place].exec >= 0)
        close(children[place].exec);
    children[place] = children[--child_count];
}

/* The exec pipe spoke (exec failed) or closed (it happened, or the child died). */
static void settle_exec(int place)
{
    struct child *child = &children[place];
    struct excuse excuse;
    ssize_t size = read(child->exec, &excuse, sizeof excuse);
    close(child->exec);
    child->exec = -1;
    if (size == sizeof excuse) {
        answer_error(child->report, excuse.code, excuse.step);
        forget(place);
    } else
        answer(child->report, "started", 7, NULL, 0);
}

static void reap(void)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int i = 0; i < child_count; i++)
            if (children[i].pid == pid) {
                if (children[i].exec >= 0) {
                    settle_exec(i);
                    if (i >= child_count || children[i].pid != pid)
                        break;
                }
                int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
                send_field(children[i].report, "exit", code);
                forget(i);
                break;
            }
}

static int collect_waits(int sock, int signals)
{
    int count = 2;
    waits[0] = (struct pollfd){sock, POLLIN, 0};
    waits[1] = (struct pollfd){signals, POLLIN, 0};
    for (int i = 0; i < child_count; i++)
        if (children[i].exec >= 0)
            waits[count++] = (struct pollfd){children[i].exec, POLLIN, 0};
    return count;
}

static void settle_ready(int count)
{
    for (int w = 2; w < count; w++)
        for (int i = 0; waits[w].revents && i < child_count; i++)
            if (children[i].exec == waits[w].fd) {
                settle_exec(i);
                break;
            }
}

/* Serve until the host closes the channel; needs SIGCHLD blocked. */
static int serve(int sock)
{
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    int signals = signalfd(-1, &chld, SFD_CLOEXEC | SFD_NONBLOCK);
    TRY(signals, "watching for exits");
    for (;;) {
        int count = collect_waits(sock, signals);
        if (poll(waits, count, -1) < 0 && errno != EINTR)
            return failed("waiting for requests");
        settle_ready(count);
        if (waits[1].revents) {
            struct signalfd_siginfo info;
            while (read(signals, &info, sizeof info) > 0)
                ;
            reap();
        }
        if (waits[0].revents && !handle_request(sock))
            return 0;
    }
}

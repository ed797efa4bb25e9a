/* Packets, answers, and the one way to report what failed. */

enum { MAX_PACKET = 256 * 1024, MAX_FDS = 64 };

static const char *failed_step = "";
static int failed_errno;

/* Remember what failed, and why; always -1. The innermost word stands. */
static int failed(const char *step)
{
    failed_errno = errno;
    failed_step = step;
    return -1;
}

/* Leave the function with -1 if a call fails; a null step keeps the callee's. */
#define TRY(call, step)                           \
    do {                                          \
        if ((call) < 0) {                         \
            const char *step_ = (step);           \
            return step_ ? failed(step_) : -1;    \
        }                                         \
    } while (0)

struct packet {
    char data[MAX_PACKET + 1];
    char *cursor, *end;
    int fds[MAX_FDS];
    int count;
};

/* Return the size of the packet, 0 at the end of the channel, -1 on an error. */
static ssize_t receive(int sock, struct packet *packet)
{
    char control[CMSG_SPACE(sizeof packet->fds)];
    struct iovec part = {packet->data, MAX_PACKET};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1,
                             .msg_control = control, .msg_controllen = sizeof control};
    ssize_t size;
    do
        size = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
    while (size < 0 && errno == EINTR);
    packet->count = 0;
    if (size < 0)
        return failed("receiving a request");
    for (struct cmsghdr *part_ = CMSG_FIRSTHDR(&message); part_; part_ = CMSG_NXTHDR(&message, part_)) {
        if (part_->cmsg_level != SOL_SOCKET || part_->cmsg_type != SCM_RIGHTS)
            continue;
        packet->count = (part_->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(packet->fds, CMSG_DATA(part_), packet->count * sizeof(int));
    }
    packet->data[size] = 0;
    packet->cursor = packet->data;
    packet->end = packet->data + size;
    return size;
}

static void close_received(struct packet *packet)
{
    for (int i = 0; i < packet->count; i++)
        if (packet->fds[i] >= 0)
            close(packet->fds[i]);
    packet->count = 0;
}

/* The next field; empty once the packet is used up. */
static char *field(struct packet *packet)
{
    char *start = packet->cursor;
    if (start >= packet->end)
        return packet->end;
    packet->cursor = start + strlen(start) + 1;
    return start;
}

static long number(struct packet *packet)
{
    return strtol(field(packet), NULL, 10);
}

/* The descriptor that a field names by its place; -1 for "-". */
static int descriptor(struct packet *packet)
{
    char *text = field(packet);
    long place = strtol(text, NULL, 10);
    if (*text < '0' || *text > '9' || place >= packet->count)
        return -1;
    return packet->fds[place];
}

static int answer(int sock, const char *text, size_t size, const int *fds, int count)
{
    char control[CMSG_SPACE(8 * sizeof(int))] = {0};
    struct iovec part = {(void *)text, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (count) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(head), fds, count * sizeof(int));
    }
    ssize_t sent;
    do
        sent = sendmsg(sock, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? failed("answering") : 0;
}

static int answer_error(int sock, int code, const char *step)
{
    char text[512];
    int size = snprintf(text, sizeof text, "error%c%d%c%s", 0, code, 0, step);
    return answer(sock, text, size < (int)sizeof text ? size : (int)sizeof text, NULL, 0);
}

static int answer_failure(int sock)
{
    return answer_error(sock, failed_errno, failed_step);
}

static int write_file(const char *path, const char *text, size_t size, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode);
    if (fd < 0)
        return -1;
    ssize_t written = write(fd, text, size);
    int code = errno;
    close(fd);
    errno = code;
    return written == (ssize_t)size ? 0 : -1;
}

/* Write into a kernel file that is there already. */
static int poke(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t written = write(fd, text, strlen(text));
    int code = errno;
    close(fd);
    errno = code;
    return written < 0 ? -1 : 0;
}

static int write_ids(pid_t child, const char *map)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/uid_map", child);
    TRY(poke(path, map), "mapping user ids");
    snprintf(path, sizeof path, "/proc/%d/gid_map", child);
    TRY(poke(path, map), "mapping group ids");
    return 0;
}

/* The supervisor: does the verbs it is told, minds the sandbox's end. */

enum { MAX_FOLDERS = 64 };

static int owner = -1;          /* pidfd of the process that commands us */
static pid_t init_pid = -1;
static int init_handle = -1;    /* pidfd of the sandbox's init */
static int init_space = -1;     /* its mount namespace, once it has entered it */
static int gate = -1;           /* where init waits for the word to go */
static char *folders[MAX_FOLDERS];
static int folder_count;        /* control groups to remove at the end */
static struct {
    char *folder, *file;
    long unit, most;
} scale;                        /* what all sandboxes weigh together */
static int answer_fds[1], answer_count;

static int do_owner(struct packet *p)
{
    pid_t pid = number(p);
    owner = syscall(SYS_pidfd_open, pid, 0);
    TRY(owner, "watching the owner");
    if (getppid() != pid)
        return errno = ESRCH, failed("watching the owner");
    return 0;
}

/* group FOLDER: make a control group, to be removed at the end. */
static int do_group(struct packet *p)
{
    char *path = strdup(field(p));
    if (!path || folder_count == MAX_FOLDERS)
        return errno = ENOMEM, failed("making a control group");
    TRY(mkdir(path, 0755), "making a control group");
    folders[folder_count++] = path;
    return 0;
}

/* All sandboxes together weigh what they weigh one by one; else they would share what
 * one process of the host gets. A folder's link count has the number of them, those
 * of other trainers included. */
static void weigh(void)
{
    char path[PATH_MAX], text[32];
    struct stat info;
    if (!scale.folder || stat(scale.folder, &info) < 0)
        return;
    long count = info.st_nlink > 3 ? info.st_nlink - 2 : 1, sum = scale.unit * count;
    snprintf(path, sizeof path, "%s/%s", scale.folder, scale.file);
    snprintf(text, sizeof text, "%ld", sum < scale.most ? sum : scale.most);
    poke(path, text);
}

/* weigh FOLDER FILE UNIT MOST: once now, and once the control groups are removed. */
static int do_weigh(struct packet *p)
{
    scale.folder = strdup(field(p));
    scale.file = strdup(field(p));
    scale.unit = number(p);
    scale.most = number(p);
    weigh();
    return 0;
}

/* limit FILE VALUE NEEDED: a ceiling; one that is not needed may be refused. */
static int do_limit(struct packet *p)
{
    static char step[64];
    char *file = field(p);
    int code = poke(file, field(p));
    if (!number(p) || code == 0)
        return 0;
    snprintf(step, sizeof step, "setting %s", strrchr(file, '/') + 1);
    return failed(step);
}

/* hull GROUP SPAWN: clone init into its namespaces; it waits at the gate. */
static int do_hull(struct packet *p)
{
    char *path = field(p);
    int group = *path == '/' ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int spawn = descriptor(p), pair[2];
    if (*path == '/')
        TRY(group, "opening a control group");
    struct clone_args args = {
        .flags = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS |
                 CLONE_NEWCGROUP | CLONE_PIDFD,
        .pidfd = (uintptr_t)&init_handle, .exit_signal = SIGCHLD};
    if (group >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = group;
    }
    TRY(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), "making the gate");
    init_pid = syscall(SYS_clone3, &args, sizeof args);
    if (init_pid == 0)
        _exit(run_init(spawn, pair[1]) < 0);
    close(pair[1]);
    if (group >= 0)
        close(group);
    gate = pair[0];
    TRY(init_pid, "cloning init into its namespaces");
    answer_fds[0] = init_handle;
    answer_count = 1;
    return 0;
}

/* join FILE: move init into a control group (version 1 has no clone into). */
static int do_join(struct packet *p)
{
    char text[32];
    snprintf(text, sizeof text, "%d", init_pid);
    TRY(poke(field(p), text), "joining a control group");
    return 0;
}

/* ids MAP: user and group ids of the sandbox. */
static int do_ids(struct packet *p)
{
    return write_ids(init_pid, field(p));
}

/* Files that we make carry this time, not the host's: they look the same each time. */
static struct timespec birth;

static int age(const char *path)
{
    struct timespec times[2] = {birth, birth};
    TRY(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW), "setting a time");
    return 0;
}

/* birth SECONDS */
static int do_birth(struct packet *p)
{
    birth.tv_sec = number(p);
    return 0;
}

static int do_age(struct packet *p)
{
    return age(field(p));
}

/* room PATH OPTIONS: a tmpfs of our own there; all later paths may be relative. */
static int do_room(struct packet *p)
{
    char *path = field(p), *options = field(p);
    TRY(clock_gettime(CLOCK_REALTIME, &window_start), "reading the clock");
    TRY(mount("rlvr", path, "tmpfs", MS_NOSUID | MS_NODEV, options), "mounting the writable layer");
    TRY(chdir(path), "entering the room of mounts");
    return 0;
}

/* folder PATH MODE USER */
static int do_folder(struct packet *p)
{
    char *path = field(p);
    mode_t mode = strtol(field(p), NULL, 8);
    int user = number(p);
    if (mkdir(path, mode) < 0)
        return failed("making a folder");
    TRY(chown(path, user, user), "owning a folder");
    return age(path);
}

/* stage NAME: a folder that mounts will cover; one that is there already will do. */
static int do_stage(struct packet *p)
{
    if (mkdir(field(p), 0755) < 0 && errno != EEXIST)
        return failed("making a folder");
    return 0;
}

/* mount TYPE TARGET FLAGS OPTIONS */
static int do_mount(struct packet *p)
{
    char *type = field(p), *target = field(p);
    unsigned long flags = strtoul(field(p), NULL, 10);
    static char step[64];
    snprintf(step, sizeof step, "mounting %s", type);
    TRY(mount(type, target, type, flags, field(p)), step);
    return 0;
}

static int do_unmount(struct packet *p)
{
    TRY(umount2(field(p), MNT_DETACH), "unmounting");
    return 0;
}

/* node PATH MAJOR MINOR USER: a character device that all may use. */
static int do_node(struct packet *p)
{
    char *path = field(p);
    int major_ = number(p), minor_ = number(p), user = number(p);
    TRY(mknod(path, S_IFCHR | 0666, makedev(major_, minor_)), "making a device");
    TRY(chown(path, user, user), "making a device");
    return age(path);
}

/* link TEXT PATH USER */
static int do_link(struct packet *p)
{
    char *text = field(p), *path = field(p);
    int user = number(p);
    TRY(symlink(text, path), "making a link");
    TRY(lchown(path, user, user), "making a link");
    return age(path);
}

/* file PATH MODE USER CONTENT */
static int do_file(struct packet *p)
{
    char *path = field(p);
    mode_t mode = strtol(field(p), NULL, 8);
    int user = number(p);
    char *text = field(p);
    TRY(write_file(path, text, strlen(text), mode), "writing a file");
    TRY(chown(path, user, user), "writing a file");
    return age(path);
}

/* Take a tree, map its owners by descriptor IDS ("N?" where a plain tree will do). */
static int take_dressed(struct packet *p, const char *ids_text, const char *path, uint64_t attributes)
{
    int optional = strchr(ids_text, '?') != NULL;
    long place = strtol(ids_text, NULL, 10);
    int ids = *ids_text == '-' || place >= p->count ? -1 : p->fds[place];
    int tree = take_tree(path);
    TRY(tree, NULL);
    int code = dress_tree(tree, attributes, ids);
    if (code < 0 && optional && failed_errno == EINVAL)
        code = dress_tree(tree, attributes, -1);
    if (code < 0) {
        close(tree);
        return -1;
    }
    return tree;
}

enum { QUIET_TREE = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV };

/* tree IDS SOURCE TARGET: show a tree read-only in our own namespace. */
static int do_tree(struct packet *p)
{
    char *ids = field(p), *source = field(p), *target = field(p);
    int tree = take_dressed(p, ids, source, QUIET_TREE);
    TRY(tree, NULL);
    int code = place_tree(tree, AT_FDCWD, target);
    close(tree);
    return code;
}

/* attach IDS SOURCE TARGET: show a tree read-only inside the running sandbox. */
static int do_attach(struct packet *p)
{
    char *ids = field(p), *source = field(p), *target = field(p);
    struct home home;
    int tree = take_dressed(p, ids, source, QUIET_TREE);
    TRY(tree, NULL);
    int code = leave_home(&home, init_space);
    if (code == 0) {
        int place = open_plainly(target);
        code = place < 0 ? failed("finding the target inside") : place_tree(tree, place, "");
        if (place >= 0)
            close(place);
        come_home(&home);
    }
    close(tree);
    return code;
}

/* like MODEL TARGET: give a folder the owner, mode and times of another. */
static int do_like(struct packet *p)
{
    struct stat info;
    TRY(lstat(field(p), &info), "reading a layer's root");
    return finish_copy(AT_FDCWD, field(p), &info);
}

/* The topmost layer that has a path decides what it is; 1 if it is a folder there. */
static int find_in_layers(const char *path, int layers, struct stat *info)
{
    char full[PATH_MAX + 32];
    for (int i = layers - 1; i >= 0; i--) {
        snprintf(full, sizeof full, "l%d/%s", i, path);
        if (lstat(full, info) == 0)
            return S_ISCHR(info->st_mode) && info->st_rdev == 0 ? 0 : 1;
    }
    return 0;
}

/* Let a part of a mount point look like what it covers. */
static int finish_point_part(const char *path, int layers, int user)
{
    char full[PATH_MAX + 32];
    struct stat info;
    snprintf(full, sizeof full, "s/%s", path);
    if (!find_in_layers(path, layers, &info)) {
        TRY(chown(full, user, user), "making a mount point");
        return age(full);
    }
    if (!S_ISDIR(info.st_mode))
        return errno = ENOTDIR, failed("making a mount point where the image has a link or a file");
    return finish_copy(AT_FDCWD, full, &info);
}

/* Make a part; 1 if it is new. */
static int add_point_part(const char *path, int layers, int user)
{
    char full[PATH_MAX + 32];
    snprintf(full, sizeof full, "s/%s", path);
    if (mkdir(full, 0755) < 0) {
        if (errno == EEXIST)
            return 0;
        return failed("making a mount point");
    }
    return finish_point_part(path, layers, user) < 0 ? -1 : 1;
}

/* Do that for every folder above a path, the topmost first; -1 or whether any was new. */
static int each_parent(const char *path, int layers, int user, int (*act)(const char *, int, int))
{
    char part[PATH_MAX];
    int sum = 0;
    for (size_t at = strcspn(path, "/"); path[at]; at += 1 + strcspn(path + at + 1, "/")) {
        snprintf(part, sizeof part, "%.*s", (int)at, path);
        int code = act(part, layers, user);
        TRY(code, NULL);
        sum |= code;
    }
    return sum;
}

/* point PATH LAYERS USER KIND: a mount point in the layer of mount points. */
static int do_point(struct packet *p)
{
    char *path = field(p), full[PATH_MAX + 32];
    int layers = number(p), user = number(p);
    int file = strcmp(field(p), "file") == 0;
    snprintf(full, sizeof full, "s/%s", path);
    TRY(each_parent(path, layers, user, add_point_part), NULL);
    if (file)
        TRY(write_file(full, "", 0, 0644), "making a mount point");
    else
        TRY(add_point_part(path, layers, user), NULL);
    /* what was made below a folder has aged it */
    TRY(each_parent(path, layers, user, finish_point_part), NULL);
    return 0;
}

/* go ROOM HOST: let init enter its world; done when it serves. */
static int do_go(struct packet *p)
{
    static struct packet reply;
    char text[PATH_MAX + 256], path[64];
    char *room = field(p), *host = field(p);
    int size = snprintf(text, sizeof text, "%s%c%s", room, 0, host);
    TRY(answer(gate, text, size, NULL, 0), "opening the gate");
    if (receive(gate, &reply) <= 0)
        return errno = ECHILD, failed("waiting for init");
    close(gate);
    gate = -1;
    if (strcmp(field(&reply), "ok") != 0) {
        static char step[256];
        errno = number(&reply);
        snprintf(step, sizeof step, "%s", field(&reply));
        return failed(step);
    }
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", init_pid);
    TRY(init_space = open(path, O_RDONLY | O_CLOEXEC), "opening the sandbox's mount namespace");
    return 0;
}

/* copy FROM TO */
static int do_copy(struct packet *p)
{
    char *from = field(p);
    return copy_layer(from, field(p));
}

/* times SECONDS NANOSECONDS */
static int do_times(struct packet *p)
{
    struct timespec wall = {.tv_sec = number(p)};
    wall.tv_nsec = number(p);
    return set_times("u", "r", wall);
}

/* replace FOLDER NAME USER SECONDS NANOSECONDS CONTENT: a file that is never seen half. */
static int do_replace(struct packet *p)
{
    char *folder = field(p), *name = field(p), aside[PATH_MAX], path[PATH_MAX];
    int user = number(p);
    struct timespec times[2] = {{.tv_sec = number(p)}};
    times[0].tv_nsec = number(p);
    times[1] = times[0];
    char *text = field(p);
    snprintf(aside, sizeof aside, "%s/.%s", folder, name);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(aside);
    TRY(write_file(aside, text, strlen(text), 0444), "writing a harness file");
    TRY(chown(aside, user, user), "writing a harness file");
    TRY(utimensat(AT_FDCWD, aside, times, 0), "writing a harness file");
    TRY(rename(aside, path), "writing a harness file");
    TRY(utimensat(AT_FDCWD, folder, times, 0), "writing a harness file");
    return 0;
}

/* The number that stands after a name in a table of /proc; 0 where there is none. */
static long counter_in(const char *file, const char *name)
{
    static char text[16384];
    char path[64], *found;
    snprintf(path, sizeof path, "/proc/%d/net/%s", init_pid, file);
    int table = open(path, O_RDONLY | O_CLOEXEC);
    int sixth = strcmp(file, "snmp6") == 0; /* a kernel without IPv6 has no such table */
    if (table < 0)
        return sixth && errno == ENOENT ? 0 : failed("reading the network's counters");
    ssize_t size = read(table, text, sizeof text - 1);
    close(table);
    TRY(size, "reading the network's counters");
    text[size] = 0;
    if (sixth)
        return (found = strstr(text, name)) ? strtol(found + strlen(name), NULL, 10) : 0;
    /* two lines: the names, and below each its value */
    char *end = strchr(text, '\n');
    if (!end || !(found = strstr(text, name)) || found > end)
        return 0;
    char *value = end + 1;
    for (char *c = text; value && c <= found; c++)
        if (*c == ' ' && (value = strchr(value, ' ')))
            value++;
    return !value ? 0 : strtol(value, NULL, 10);
}

/* unrouted: tell, ahead of the answer, how many packets had nowhere to go. */
static int do_unrouted(struct packet *p)
{
    long four = counter_in("snmp", " OutNoRoutes"), six = counter_in("snmp6", "Ip6OutNoRoutes");
    (void)p;
    return four < 0 || six < 0 ? -1 : send_field(0, "told", four + six);
}

struct verb {
    const char *name;
    int (*act)(struct packet *);
};

static const struct verb verbs[] = {
    {"owner", do_owner}, {"group", do_group}, {"weigh", do_weigh}, {"limit", do_limit},
    {"hull", do_hull}, {"join", do_join},
    {"ids", do_ids}, {"birth", do_birth}, {"age", do_age}, {"room", do_room}, {"folder", do_folder},
    {"stage", do_stage}, {"mount", do_mount},
    {"unmount", do_unmount}, {"node", do_node}, {"link", do_link}, {"file", do_file},
    {"tree", do_tree}, {"attach", do_attach}, {"like", do_like}, {"point", do_point},
    {"go", do_go}, {"copy", do_copy}, {"times", do_times}, {"replace", do_replace},
    {"unrouted", do_unrouted},
};

static int do_verb(struct packet *p)
{
    char *name = field(p);
    for (size_t i = 0; i < COUNT(verbs); i++)
        if (strcmp(verbs[i].name, name) == 0)
            return verbs[i].act(p);
    errno = ENOSYS;
    return failed("reading a verb");
}

static int answer_done(int sock)
{
    char text[64];
    int size = snprintf(text, sizeof text, "ok%c%d", 0, init_pid);
    return answer(sock, text, size, answer_fds, answer_count);
}

/* Do one request; false if it was the last one. */
static int handle_command(struct packet *p)
{
    if (receive(0, p) <= 0)
        return 0;
    int code = 0;
    answer_count = 0;
    while (code == 0 && p->cursor < p->end) {
        if (strcmp(p->cursor, "quit") == 0)
            return 0;
        code = do_verb(p);
    }
    close_received(p);
    return (code < 0 ? answer_failure(0) : answer_done(0)) == 0;
}

static void remove_folder(const char *path)
{
    struct timespec pause = {0, 500000};
    for (int tries = 0; tries < 4000; tries++) {
        if (rmdir(path) == 0 || errno != EBUSY)
            return;
        nanosleep(&pause, NULL);
    }
}

/* Killing init ends its process namespace; waiting for it waits for all of them. */
static void end_sandbox(void)
{
    if (init_pid > 0) {
        kill(init_pid, SIGKILL);
        while (waitpid(init_pid, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    for (int i = folder_count - 1; i >= 0; i--)
        remove_folder(folders[i]);
    weigh();
}

static int supervise(void)
{
    static struct packet command;
    syscall(SYS_close_range, 3, ~0u, 0);
    if (chdir("/") < 0)
        return -1;
    setsid();
    umask(0);
    int code = unshare(CLONE_NEWNS);
    if (code == 0)
        code = mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL);
    if (code < 0) {
        failed("making a mount namespace");
        answer_failure(0);
        return -1;
    }
    for (;;) {
        struct pollfd waits[2] = {{0, POLLIN, 0}, {owner, POLLIN, 0}};
        if (poll(waits, owner < 0 ? 1 : 2, -1) < 0 && errno != EINTR)
            break;
        if (owner >= 0 && waits[1].revents)
            break;
        if (waits[0].revents && !handle_command(&command))
            break;
    }
    end_sandbox();
    return 0;
}

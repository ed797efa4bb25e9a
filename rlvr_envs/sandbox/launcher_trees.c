/* Trees of files and of mounts: take, copy, set times. */

/* Only newer C libraries declare these. */
#ifndef OPEN_TREE_CLONE
#define OPEN_TREE_CLONE 1
#define OPEN_TREE_CLOEXEC O_CLOEXEC
#endif
#ifndef MOVE_MOUNT_F_EMPTY_PATH
#define MOVE_MOUNT_F_EMPTY_PATH 0x04
#define MOVE_MOUNT_T_EMPTY_PATH 0x40
#endif
#ifndef MOUNT_ATTR_RDONLY
#define MOUNT_ATTR_RDONLY 0x01
#define MOUNT_ATTR_NOSUID 0x02
#define MOUNT_ATTR_NODEV 0x04
#endif
#ifndef MOUNT_ATTR_IDMAP
#define MOUNT_ATTR_IDMAP 0x00100000
#endif

struct tree_attributes {
    uint64_t set, clear, propagation, userns_fd;
};

/* Where one is before looking into another mount namespace. */
struct home {
    int space, root, cwd;
};

static int leave_home(struct home *home, int space)
{
    TRY(home->space = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC), "opening our mount namespace");
    TRY(home->root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), "opening our root");
    TRY(home->cwd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), "opening our folder");
    TRY(setns(space, CLONE_NEWNS), "entering a mount namespace");
    return 0;
}

/* Coming back must not fail: we could no longer tell whose files we touch. */
static void come_home(struct home *home)
{
    if (setns(home->space, CLONE_NEWNS) < 0 || fchdir(home->root) < 0 || chroot(".") < 0 ||
        fchdir(home->cwd) < 0)
        abort();
    close(home->space);
    close(home->root);
    close(home->cwd);
}

/* Open beneath the root without following any link: names are the agent's. */
static int open_plainly(const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC,
                           .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
}

static int clone_tree(int at, const char *path)
{
    int flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | (*path ? 0 : AT_EMPTY_PATH);
    return syscall(SYS_open_tree, at, path, flags);
}

/* A detached tree of /proc/PID/root/REST, from inside that process's namespace. */
static int take_foreign(int pid, const char *rest)
{
    char path[64];
    struct home home;
    snprintf(path, sizeof path, "/proc/%d/ns/mnt", pid);
    int space = open(path, O_RDONLY | O_CLOEXEC);
    TRY(space, "opening another sandbox's mount namespace");
    int code = leave_home(&home, space);
    close(space);
    TRY(code, NULL);
    int place = open_plainly(rest), tree = -1;
    if (place < 0)
        failed("finding a path in another sandbox without following links");
    else if ((tree = clone_tree(place, "")) < 0)
        failed("taking a tree of another sandbox");
    if (place >= 0)
        close(place);
    come_home(&home);
    return tree;
}

static int take_tree(const char *path)
{
    int pid = 0, size = 0;
    if (sscanf(path, "/proc/%d/root%n", &pid, &size) == 1 && size && path[size] == '/')
        return take_foreign(pid, path + size);
    int tree = clone_tree(AT_FDCWD, path);
    return tree < 0 ? failed("opening a folder of the host") : tree;
}

/* Give a detached tree its attributes and, by a user namespace, other owners. */
static int dress_tree(int tree, uint64_t attributes, int ids)
{
    struct tree_attributes attr = {.set = attributes, .propagation = MS_PRIVATE};
    if (ids >= 0) {
        attr.set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = ids;
    }
    TRY(syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr),
        ids >= 0 ? "mapping the owners of a tree" : "setting a tree's attributes");
    return 0;
}

static int place_tree(int tree, int at, const char *target)
{
    int flags = MOVE_MOUNT_F_EMPTY_PATH | (*target ? 0 : MOVE_MOUNT_T_EMPTY_PATH);
    TRY(syscall(SYS_move_mount, tree, "", at, target, flags), "placing a tree");
    return 0;
}

/* ---- copying an upper layer, whiteouts and all ---- */

struct link_seen {
    ino_t inode;
    char *path;
};

static struct link_seen *links_seen;
static size_t link_count;

static int copy_attributes(int from, int to)
{
    static char names[65536], value[65536];
    ssize_t size = flistxattr(from, names, sizeof names);
    for (char *name = names; size > 0 && name < names + size; name += strlen(name) + 1) {
        ssize_t length = fgetxattr(from, name, value, sizeof value);
        if (length >= 0)
            TRY(fsetxattr(to, name, value, length, 0), "copying an attribute");
    }
    return 0;
}

static int copy_bytes(int from, int to, off_t size)
{
    off_t data = 0;
    TRY(ftruncate(to, size), "copying a file");
    while (data < size && (data = lseek(from, data, SEEK_DATA)) >= 0) {
        off_t hole = lseek(from, data, SEEK_HOLE);
        TRY(lseek(to, data, SEEK_SET), "copying a file");
        TRY(lseek(from, data, SEEK_SET), "copying a file");
        static char buffer[1 << 16];
        while (data < hole) {
            size_t want = hole - data < (off_t)sizeof buffer ? hole - data : (off_t)sizeof buffer;
            ssize_t got = read(from, buffer, want);
            TRY(got, "copying a file");
            if (got == 0)
                return 0;
            if (write(to, buffer, got) != got)
                return failed("copying a file");
            data += got;
        }
    }
    return 0;
}

static int copy_regular(int from_at, int to_at, const char *name, struct stat *info)
{
    int from = openat(from_at, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    TRY(from, "copying a file");
    int to = openat(to_at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int code = to < 0 ? failed("copying a file") : copy_bytes(from, to, info->st_size);
    if (code == 0)
        code = copy_attributes(from, to);
    close(from);
    if (to >= 0)
        close(to);
    return code;
}

static int copy_special(int from_at, int to_at, const char *name, struct stat *info)
{
    if (!S_ISLNK(info->st_mode)) {
        TRY(mknodat(to_at, name, info->st_mode, info->st_rdev), "copying a special file");
        return 0;
    }
    char text[PATH_MAX] = {0};
    TRY(readlinkat(from_at, name, text, sizeof text - 1), "copying a link");
    TRY(symlinkat(text, to_at, name), "copying a link");
    return 0;
}

/* If an earlier name of the same file was copied, link to it: 1. */
static int copy_hard_link(int to_root, int to_at, const char *name, struct stat *info, const char *path)
{
    for (size_t i = 0; i < link_count; i++)
        if (links_seen[i].inode == info->st_ino) {
            TRY(linkat(to_root, links_seen[i].path, to_at, name, 0), "copying a hard link");
            return 1;
        }
    links_seen = realloc(links_seen, (link_count + 1) * sizeof *links_seen);
    if (!links_seen)
        abort();
    links_seen[link_count++] = (struct link_seen){info->st_ino, strdup(path)};
    return 0;
}

static int finish_copy(int at, const char *name, struct stat *info)
{
    struct timespec times[2] = {info->st_atim, info->st_mtim};
    TRY(fchownat(at, name, info->st_uid, info->st_gid, AT_SYMLINK_NOFOLLOW), "copying an owner");
    if (!S_ISLNK(info->st_mode))
        TRY(fchmodat(at, name, info->st_mode & 07777, 0), "copying a mode");
    TRY(utimensat(at, name, times, AT_SYMLINK_NOFOLLOW), "copying times");
    return 0;
}

static int copy_folder(int to_root, int from, int to, const char *path);

static int copy_subfolder(int to_root, int from_at, int to_at, const char *name, const char *path)
{
    TRY(mkdirat(to_at, name, 0700), "copying a folder");
    int from = openat(from_at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int to = openat(to_at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int code = from < 0 || to < 0 ? failed("copying a folder") : copy_folder(to_root, from, to, path);
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return code;
}

static int copy_entry(int to_root, int from, int to, const char *name, const char *path)
{
    struct stat info;
    TRY(fstatat(from, name, &info, AT_SYMLINK_NOFOLLOW), "copying a layer");
    if (!S_ISDIR(info.st_mode) && info.st_nlink > 1) {
        int linked = copy_hard_link(to_root, to, name, &info, path);
        if (linked)
            return linked < 0 ? -1 : 0;
    }
    if (S_ISDIR(info.st_mode))
        TRY(copy_subfolder(to_root, from, to, name, path), NULL);
    else if (S_ISREG(info.st_mode))
        TRY(copy_regular(from, to, name, &info), NULL);
    else
        TRY(copy_special(from, to, name, &info), NULL);
    return finish_copy(to, name, &info);
}

/* Copy what is in `from` into `to`, and the folder's own attributes. */
static int copy_folder(int to_root, int from, int to, const char *path)
{
    TRY(copy_attributes(from, to), NULL);
    DIR *folder = fdopendir(dup(from));
    if (!folder)
        return failed("copying a folder");
    struct dirent *entry;
    int code = 0;
    while (code == 0 && (entry = readdir(folder))) {
        char *full = NULL;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (asprintf(&full, "%s%s%s", path, *path ? "/" : "", entry->d_name) < 0)
            abort();
        code = copy_entry(to_root, from, to, entry->d_name, full);
        free(full);
    }
    closedir(folder);
    return code;
}

static int copy_layer(const char *from_path, const char *to_path)
{
    int from = open(from_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    TRY(from, "opening the layer to copy");
    int to = open(to_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    TRY(to, "opening the folder for a copy");
    struct stat info;
    TRY(fstat(from, &info), "copying a layer");
    TRY(copy_folder(to, from, to, ""), NULL);
    TRY(finish_copy(AT_FDCWD, to_path, &info), NULL);
    close(from);
    close(to);
    return 0;
}

/* ---- virtual times ---- */

enum { MAX_OWN_TIMES = 1024 };

/* Real moments between which whatever carries a time got it from the host's clock. */
static struct timespec window_start, window_end;
/* Virtual times that fell into that window: they are ours and stay. */
static struct timespec own_times[MAX_OWN_TIMES];
static int own_count;

static int later(struct timespec a, struct timespec b)
{
    return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

static int in_window(struct timespec time)
{
    return !later(window_start, time) && !later(time, window_end);
}

static int is_real(struct timespec time)
{
    if (!in_window(time))
        return 0;
    for (int i = 0; i < own_count; i++)
        if (own_times[i].tv_sec == time.tv_sec && own_times[i].tv_nsec == time.tv_nsec)
            return 0;
    return 1;
}

static void set_time(int at, const char *name, struct stat *info, struct timespec wall)
{
    struct timespec times[2] = {wall, wall};
    int access = is_real(info->st_atim), change = is_real(info->st_mtim);
    if (!access)
        times[0].tv_nsec = UTIME_OMIT;
    if (!change)
        times[1].tv_nsec = UTIME_OMIT;
    if (access || change)
        utimensat(at, name, times, AT_SYMLINK_NOFOLLOW);
}

/* Walk the writable layer, set times through the merged tree; names may vanish. */
static void set_times_in(int upper, int merged, struct timespec wall)
{
    DIR *folder = fdopendir(upper);
    if (!folder) {
        close(upper);
        return;
    }
    struct dirent *entry;
    struct stat info;
    while ((entry = readdir(folder))) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        if (fstatat(dirfd(folder), name, &info, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISDIR(info.st_mode)) {
            int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
            int below = openat(dirfd(folder), name, flags);
            int twin = below < 0 ? -1 : openat(merged, name, flags);
            if (twin >= 0) {
                set_times_in(below, twin, wall);
                close(twin);
            } else if (below >= 0)
                close(below);
            fstatat(dirfd(folder), name, &info, AT_SYMLINK_NOFOLLOW);
        }
        if (!(S_ISCHR(info.st_mode) && info.st_rdev == 0))
            set_time(merged, name, &info, wall);
    }
    closedir(folder);
}

static int set_times(const char *upper_path, const char *merged_path, struct timespec wall)
{
    int upper = open(upper_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    TRY(upper, "opening the writable layer");
    int merged = open(merged_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    TRY(merged, "opening the root");
    struct stat info;
    TRY(clock_gettime(CLOCK_REALTIME, &window_end), "reading the clock");
    window_end.tv_sec += 1;
    if (in_window(wall) && own_count < MAX_OWN_TIMES)
        own_times[own_count++] = wall;
    fstat(upper, &info);
    set_times_in(upper, merged, wall);
    set_time(merged, ".", &info, wall);
    close(merged);
    return 0;
}

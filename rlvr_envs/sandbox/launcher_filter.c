/* The system call filter: what Docker's default profile denies, and a little more.
 *
 * Rows are tried in order. A system call that this table and the headers do not
 * know (newer kernels, the x32 numbers) does not exist inside; neither do those of
 * another architecture (32-bit programs do not run).
 */

#if defined(__x86_64__)
#define OUR_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "The launcher knows x86_64 and aarch64."
#endif

enum { LAST_KNOWN_CALL = 462 }; /* mseal, Linux 6.10; numbers are common from 424 on */

#define NEW_NAMESPACES                                                              \
    (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |  \
     CLONE_NEWPID | CLONE_NEWNET)

static const int denied_calls[] = {
    /* mounts and namespaces */
    SYS_mount, SYS_umount2, SYS_pivot_root, SYS_unshare, SYS_setns, 428 /* open_tree */,
    429 /* move_mount */, 430 /* fsopen */, 431 /* fsconfig */, 432 /* fsmount */,
    433 /* fspick */, 442 /* mount_setattr */,
    /* kernel interfaces with a history of holes */
    SYS_bpf, SYS_perf_event_open, SYS_userfaultfd, 425, 426, 427 /* io_uring_* */,
    SYS_add_key, SYS_request_key, SYS_keyctl, SYS_fanotify_init,
    SYS_name_to_handle_at, SYS_open_by_handle_at, 438 /* pidfd_getfd */,
    SYS_kcmp, 440 /* process_madvise */, SYS_quotactl, 443 /* quotactl_fd */,
    SYS_nfsservctl, SYS_vhangup, SYS_acct, SYS_syslog,
    /* the machine */
    SYS_kexec_load, SYS_kexec_file_load, SYS_init_module, SYS_finit_module,
    SYS_delete_module, SYS_reboot, SYS_swapon, SYS_swapoff, SYS_settimeofday,
    SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime,
    /* placement of memory on other nodes */
    SYS_mbind, SYS_set_mempolicy, SYS_migrate_pages, SYS_move_pages,
    450 /* set_mempolicy_home_node */,
#ifdef __x86_64__
    SYS_iopl, SYS_ioperm, SYS_uselib, SYS_ustat, SYS_sysfs, SYS__sysctl,
    SYS_create_module, SYS_get_kernel_syms, SYS_query_module, SYS_lookup_dcookie,
#endif
};

static const int allowed_families[] = {AF_UNIX, AF_INET, AF_INET6};
static const int allowed_netlink[] = {0 /* ROUTE */, 4 /* SOCK_DIAG */};
static const unsigned allowed_personalities[] = {
    0xffffffff, 0, 0x8, 0x20000, 0x20008, 0x40000, 0x40008, 0x60000, 0x60008};

struct program {
    struct sock_filter code[512];
    unsigned short size;
};

static void emit(struct program *p, unsigned short code, unsigned k, unsigned char yes, unsigned char no)
{
    p->code[p->size++] = (struct sock_filter){code, yes, no, k};
}

#define ARGUMENT(n) offsetof(struct seccomp_data, args[n])
#define COUNT(table) (sizeof(table) / sizeof *(table))

static void load(struct program *p, unsigned offset)
{
    emit(p, BPF_LD | BPF_W | BPF_ABS, offset, 0, 0);
}

static void give(struct program *p, unsigned verdict)
{
    emit(p, BPF_RET | BPF_K, verdict, 0, 0);
}

static void refuse(struct program *p, int code)
{
    give(p, SECCOMP_RET_ERRNO | (code & SECCOMP_RET_DATA));
}

static void refuse_call(struct program *p, int call, int code)
{
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1);
    refuse(p, code);
}

/* For one call: let pass what `argument` may be, refuse the rest. */
static void restrict_argument(struct program *p, int call, int argument, const unsigned *values, int count, int code)
{
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, call, 0, 2 * count + 2);
    load(p, ARGUMENT(argument));
    for (int i = 0; i < count; i++) {
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, values[i], 0, 1);
        give(p, SECCOMP_RET_ALLOW);
    }
    refuse(p, code);
}

/* Sockets: three families, and two protocols of netlink. */
static void restrict_sockets(struct program *p, int call)
{
    int families = COUNT(allowed_families), protocols = COUNT(allowed_netlink);
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, call, 0, 2 * families + 2 * protocols + 4);
    load(p, ARGUMENT(0));
    for (int i = 0; i < families; i++) {
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, allowed_families[i], 0, 1);
        give(p, SECCOMP_RET_ALLOW);
    }
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 2 * protocols + 1);
    load(p, ARGUMENT(2));
    for (int i = 0; i < protocols; i++) {
        emit(p, BPF_JMP | BPF_JEQ | BPF_K, allowed_netlink[i], 0, 1);
        give(p, SECCOMP_RET_ALLOW);
    }
    refuse(p, EAFNOSUPPORT);
}

/* For one call: refuse it if any of `bits` is set in an argument. */
static void refuse_bits(struct program *p, int call, int argument, unsigned bits)
{
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
    load(p, ARGUMENT(argument));
    emit(p, BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1);
    refuse(p, EPERM);
    give(p, SECCOMP_RET_ALLOW);
}

/* For one call: refuse it if an argument is just this value. */
static void refuse_value(struct program *p, int call, int argument, unsigned value)
{
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, call, 0, 4);
    load(p, ARGUMENT(argument));
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    refuse(p, EPERM);
    give(p, SECCOMP_RET_ALLOW);
}

static void build_filter(struct program *p)
{
    load(p, offsetof(struct seccomp_data, arch));
    emit(p, BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCHITECTURE, 1, 0);
    refuse(p, ENOSYS);
    load(p, offsetof(struct seccomp_data, nr));
    emit(p, BPF_JMP | BPF_JGT | BPF_K, LAST_KNOWN_CALL, 0, 1);
    refuse(p, ENOSYS);
    for (size_t i = 0; i < COUNT(denied_calls); i++)
        refuse_call(p, denied_calls[i], EPERM);
    refuse_call(p, SYS_clone3, ENOSYS); /* its flags are out of a filter's sight */
    refuse_call(p, 457 /* statmount */, ENOSYS);
    refuse_call(p, 458 /* listmount */, ENOSYS);
    restrict_sockets(p, SYS_socket);
    restrict_sockets(p, SYS_socketpair);
    restrict_argument(p, SYS_personality, 0, allowed_personalities, COUNT(allowed_personalities), EPERM);
    refuse_bits(p, SYS_clone, 0, NEW_NAMESPACES);
    refuse_value(p, SYS_ioctl, 1, TIOCSTI); /* typing on somebody's terminal */
    give(p, SECCOMP_RET_ALLOW);
}

/* Install the filter on this process and all that it will start. */
static int install_filter(void)
{
    static struct program program;
    program.size = 0;
    build_filter(&program);
    struct sock_fprog handle = {.len = program.size, .filter = program.code};
    TRY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "giving up new privileges");
    TRY(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &handle), "installing the system call filter");
    return 0;
}

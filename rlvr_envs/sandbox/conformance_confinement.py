"""Promises about what cannot be done, used up, reached or seen from inside."""

from __future__ import annotations

from rlvr_envs.sandbox.base import Capability
from rlvr_envs.sandbox.conformance_kit import (
    MIB,
    Bench,
    Check,
    expect,
    promise,
    python,
    run,
)

CONFINEMENT: list[Check] = []

_CALLS = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(name, number, *args):
    result = libc.syscall(number, *args)
    code = ctypes.get_errno() if result < 0 else 0
    print(name, errno.errorcode.get(code, code))
call("mount", 165, b"none", b"/mnt", b"tmpfs", 0, 0)
call("umount2", 166, b"/proc", 2)
call("unshare", 272, 0x10000000)
call("setns", 308, 0, 0)
call("clone_newuser", 56, 0x10000000 | 17, 0, 0, 0, 0)
call("clone3", 435, 0, 0)
call("bpf", 321, 0, 0, 0)
call("perf_event_open", 298, 0, 0, -1, -1, 0)
call("io_uring_setup", 425, 8, 0)
call("userfaultfd", 323, 0)
call("keyctl", 250, 0, 0)
call("add_key", 248, 0, 0, 0, 0, 0)
call("open_tree", 428, -100, b"/", 1)
call("move_mount", 429, -1, b"", -1, b"", 0)
call("fsopen", 430, b"tmpfs", 0)
call("mount_setattr", 442, -1, b"", 0, 0, 0)
call("pivot_root", 155, b".", b".")
call("open_by_handle_at", 304, -1, 0, 0)
call("init_module", 175, 0, 0, 0)
call("kexec_load", 246, 0, 0, 0, 0)
call("reboot", 169, 0, 0, 0, 0)
call("settimeofday", 164, 0, 0)
call("swapon", 167, 0, 0)
call("syslog", 103, 2, 0, 0)
call("ptrace_init", 101, 16, 1, 0, 0)
call("kill_init_9", 62, 1, 9)
call("unknown", 9999)
call("x32_getpid", 0x40000000 | 39)
for family in (40, 17, 38, 15, 44):
    call(f"socket_{family}", 41, family, 3, 0)
call("netlink_netfilter", 41, 16, 3, 12)
call("tiocsti", 16, 0, 0x5412, 0)
call("personality", 135, 0x0400000)
"""
_X86_ONLY = 'test "$(uname -m)" = x86_64 || exit 0\n'

_ROOT_TRIES = (
    "mknod /tmp/disk b 254 0",
    "echo 1 > /proc/sys/vm/drop_caches",
    "echo x > /proc/sysrq-trigger && grep -q x /proc/sysrq-trigger",
    "echo core > /proc/sys/kernel/core_pattern",
    "hostname other",
    "date -s 2001-01-01",
    "mount -t tmpfs none /mnt",
    "umount -l /proc",
    "unshare -U true",
    "chroot /proc/1/root true",
    "cat /proc/1/environ",
    "ls /proc/1/cwd/",
    "prlimit --pid 1 --nofile=0:0",
    "renice -n -5 -p $$",
    "ip link set lo down",
)

_ROOT_TRIES_IN_USERNS = ("ls /proc/1/fd", "chown 70000 /tmp")
"""What is harmless, and open to a root that is the host's own number 0."""


@promise(CONFINEMENT)
def _there_is_no_way_out_to_a_network(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        ran = run(sandbox, "(exec 3<>/dev/tcp/8.8.8.8/53) && echo out", timeout_s=5)
        interfaces = run(sandbox, "ls /proc/sys/net/ipv4/conf").text.split()
    expect(ran.status not in (0, None), f"connected, or hung: {ran}")
    expect(set(interfaces) <= {"all", "default", "lo"}, str(interfaces))


@promise(CONFINEMENT, Capability.EGRESS_EVENTS)
def _attempts_to_leave_are_counted(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        before = sandbox.unrouted()
        run(sandbox, "for i in 1 2 3; do (exec 3<>/dev/tcp/8.8.8.8/53); done")
        after = sandbox.unrouted()
    expect(after - before == 3, f"{after - before} of 3 attempts were counted")


@promise(CONFINEMENT)
def _the_host_is_not_to_be_seen(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        pids = run(sandbox, "ls -d /proc/[0-9]* | wc -l").text
        ran = run(sandbox, "cat /proc/self/mountinfo /proc/self/cgroup /proc/1/cmdline")
    expect(int(pids) < 10, f"{pids} processes are visible")
    for layer in bench.snapshot.layers:
        expect(str(layer.path) not in ran.text, "the mount table names a layer")
    expect(
        str(bench.places.run) not in ran.text, "the mount table names the run folder"
    )
    expect(str(bench.places.store) not in ran.text, "the mount table names the store")


@promise(CONFINEMENT)
def _kernel_files_say_the_same_each_time(bench: Bench) -> None:
    files = "uptime loadavg meminfo stat cpuinfo sys/kernel/random/boot_id"
    seen = []
    for _ in range(2):
        with bench.sandbox() as sandbox:
            seen.append(run(sandbox, f"cd /proc; sha256sum {files}; hostname").text)
    expect(seen[0] == seen[1], f"{seen[0]}\n{seen[1]}")


@promise(CONFINEMENT)
def _privileged_system_calls_are_refused(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        for user in (1000, 0):
            ran = run(sandbox, _X86_ONLY + python(_CALLS), user=user)
            expect(ran.status == 0, ran.text)
            done = [line for line in ran.text.splitlines() if line.endswith(" 0")]
            allowed = {"kill_init_9 0"} if user == 0 else set()
            expect(set(done) <= allowed, f"as {user} there worked: {done}")
        expect(run(sandbox, "exit 4").status == 4, "init did not survive")


@promise(CONFINEMENT)
def _root_inside_is_not_root(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        own_users = Capability.USERNS in bench.backend.capabilities()
        tries = _ROOT_TRIES + (_ROOT_TRIES_IN_USERNS if own_users else ())
        done = [t for t in tries if run(sandbox, t, user=0).status == 0]
        expect(run(sandbox, "exit 4").status == 4, "nothing starts any more")
    expect(not done, f"root could: {done}")


@promise(CONFINEMENT)
def _no_program_gains_privileges(bench: Bench) -> None:
    command = "cp /bin/bash /srv/up; chmod 4755 /srv/up; setcap cap_kill+ep /srv/up 2>&1; true"
    with bench.sandbox() as sandbox:
        run(sandbox, command, user=0)
        ran = run(
            sandbox, "/srv/up -p -c 'id -u'; grep -E 'NoNew|CapEff' /proc/self/status"
        )
    words = ran.text.split()
    expect(words == ["1000", "CapEff:", "0" * 16, "NoNewPrivs:", "1"], ran.text)


@promise(CONFINEMENT, Capability.USERNS)
def _root_inside_owns_the_files_inside(bench: Bench) -> None:
    command = (
        "set -e; echo x > /root/a; chown 33:44 /root/a; chown -R 1000 /usr/share/doc;"
        "mv /etc/passwd /etc/other; rm -r /usr/share/man; mkdir /usr/share/man;"
        "stat -c '%u %g' /root/a; stat -c %u /usr/share/doc /etc/other"
    )
    with bench.sandbox() as sandbox:
        ran = run(sandbox, command, user=0)
    expect(ran.text.split() == ["33", "44", "1000", "0"], ran.text)


@promise(CONFINEMENT, Capability.DISK_QUOTA)
def _a_full_disk_fails_only_the_writer(bench: Bench) -> None:
    with bench.sandbox(bench.limited(disk_bytes=24 * MIB)) as sandbox:
        ran = run(sandbox, "head -c 60M /dev/zero > /tmp/big")
        size = int(run(sandbox, "stat -c %s /tmp/big").text)
        after = run(sandbox, "rm /tmp/big; echo fine > /tmp/small; cat /tmp/small")
    expect(ran.status not in (0, 137) and "No space" in ran.text, str(ran))
    expect(16 * MIB < size <= 24 * MIB, f"{size} bytes fitted into 24 MiB")
    expect(after.text == "fine\n", after.text)


@promise(CONFINEMENT, Capability.INODE_QUOTA)
def _too_many_files_fail_only_the_writer(bench: Bench) -> None:
    code = (
        "import os\nos.mkdir('/tmp/many')\nfor n in range(3000):\n"
        "    open(f'/tmp/many/{n}', 'x').close()"
    )
    with bench.sandbox(bench.limited(inodes=2000)) as sandbox:
        ran = run(sandbox, python(code))
        count = int(run(sandbox, "ls /tmp/many | wc -l").text)
    expect("No space" in ran.text, ran.text[-300:])
    expect(1500 < count <= 2300, f"{count} files with a limit of 2000")


@promise(CONFINEMENT)
def _too_much_memory_ends_only_its_taker(bench: Bench) -> None:
    code = "a = bytearray(400 << 20)\nprint(len(a))"
    limits = bench.limited(memory_bytes=128 * MIB, disk_bytes=64 * MIB)
    with bench.sandbox(limits) as sandbox:
        ran = run(sandbox, python(code) + "\necho taker: $?", timeout_s=60)
        after = run(sandbox, "echo alive")
    expect("taker: 137" in ran.text, ran.text)
    expect(after.text == "alive\n", after.text)


@promise(CONFINEMENT)
def _too_many_processes_fail_only_in_their_sandbox(bench: Bench) -> None:
    code = (
        "import os, time\nfor n in range(200):\n    try:\n        pid = os.fork()\n"
        "    except OSError as error:\n        print('refused', n, flush=True)\n        break\n"
        "    if not pid:\n        time.sleep(60)\n        os._exit(0)\n"
    )
    with bench.sandbox(bench.limited(pids=40)) as one, bench.sandbox() as other:
        ran = run(one, python(code))
        expect("refused 3" in ran.text, f"with a limit of 40: {ran.text!r}")
        expect(run(other, "echo fine").text == "fine\n", "another sandbox suffers")


@promise(CONFINEMENT)
def _processes_start_with_sane_limits(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        ran = run(sandbox, "ulimit -c; ulimit -n; ulimit -Hn; ulimit -n 100000")
    expect(ran.text.split()[:3] == ["0", "1024", "4096"], ran.text)
    expect(ran.status != 0, "the limit of open files can be raised")

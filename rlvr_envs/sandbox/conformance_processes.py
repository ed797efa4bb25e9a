"""Promises about processes: how they start, what they have, how they end."""

from __future__ import annotations

import errno
import os
import select
from concurrent.futures import ThreadPoolExecutor

from rlvr_envs.sandbox.base import Sandbox
from rlvr_envs.sandbox.conformance_kit import (
    ENVIRONMENT,
    Bench,
    Check,
    collecting,
    expect,
    promise,
    run,
)

PROCESSES: list[Check] = []


@promise(PROCESSES)
def _a_command_runs_as_the_user_it_was_given(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        agent = run(sandbox, "id -u; id -g; id -G; umask")
        root = run(sandbox, "id -u; id -G", user=0)
    expect(agent.text.split() == ["1000", "1000", "1000", "0022"], agent.text)
    expect(root.text.split() == ["0", "0"], root.text)


@promise(PROCESSES)
def _the_environment_and_the_folder_are_what_was_given(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        env = {**ENVIRONMENT, "WORD": "a b=c"}
        ran = run(sandbox, "env; pwd", env=env, cwd="/usr/share")
    lines = set(ran.text.splitlines())
    expect("WORD=a b=c" in lines and "/usr/share" in lines, ran.text)
    names = {line.partition("=")[0] for line in lines if "=" in line}
    expect(names <= {*env, "PWD", "SHLVL", "_"}, f"more was inherited: {names}")


@promise(PROCESSES)
def _descriptors_are_placed_in_order_and_there_are_no_others(bench: Bench) -> None:
    read_end, write_end = os.pipe()
    with bench.sandbox() as sandbox, collecting() as (fds, text):
        argv = ["bash", "-c", "ls /proc/self/fd; echo three >&3"]
        process = sandbox.spawn(argv, fds=(*fds, write_end), env=ENVIRONMENT)
        os.close(write_end)
        expect(process.wait(20) == 0, text())
        expect(os.read(read_end, 100) == b"three\n", "descriptor 3 is not the fourth")
        expect(os.read(read_end, 100) == b"", "somebody else holds the descriptor")
        listed = text().split()
    os.close(read_end)
    expect(listed == ["0", "1", "2", "3", "4"], f"open: {listed}; 4 is the folder's")


@promise(PROCESSES)
def _exit_statuses_are_those_of_a_shell(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        statuses = [
            run(sandbox, command).status
            for command in ("exit 0", "exit 7", "kill -9 $$", "kill -15 $$")
        ]
    expect(statuses == [0, 7, 137, 143], str(statuses))


@promise(PROCESSES)
def _what_cannot_start_raises_its_errno(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        codes = [
            _start_error(sandbox, ["no-such-program"]),
            _start_error(sandbox, ["/no/such/program"]),
            _start_error(sandbox, ["/etc/passwd"]),
            _start_error(sandbox, ["true"], cwd="/no/such/folder"),
            _start_error(sandbox, ["true"], cwd="/root"),
        ]
        expect(run(sandbox, "exit 3").status == 3, "nothing starts afterwards")
    wanted = [errno.ENOENT, errno.ENOENT, errno.EACCES, errno.ENOENT, errno.EACCES]
    expect(codes == wanted, f"{codes} in place of {wanted}")


@promise(PROCESSES)
def _waiting_ends_in_time_and_a_kill_is_seen(bench: Bench) -> None:
    with bench.sandbox() as sandbox, collecting() as (fds, _):
        process = sandbox.spawn(["sleep", "1000"], fds=fds, env=ENVIRONMENT)
        expect(process.wait(0.01) is None, "a sleeping process has a status")
        process.kill()
        expect(process.wait(10) == 137, "a killed process has no status of 137")
        process.kill()
        expect(process.wait() == 137, "the status changed")


@promise(PROCESSES)
def _signals_have_their_default_effect(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        ran = run(sandbox, "grep -E '^Sig(Blk|Ign)' /proc/self/status; yes | head -1")
    masks = {line.split()[1] for line in ran.text.splitlines() if "Sig" in line}
    expect(masks == {"0" * 16}, ran.text)
    expect("y\n" in ran.text and "Broken" not in ran.text, ran.text)


@promise(PROCESSES)
def _a_terminal_becomes_the_controlling_one(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        near, far = sandbox.terminal()
        try:
            argv = ["bash", "-c", "tty; echo typed > /dev/tty; exit 5"]
            process = sandbox.spawn(
                argv, fds=(far, far, far), env=ENVIRONMENT, tty=True
            )
            status = process.wait(20)
            shown = ""
            while "typed" not in shown and select.select([near], [], [], 10)[0]:
                shown += os.read(near, 4096).decode()  # the kernel passes on in parts
        finally:
            os.close(near)
            os.close(far)
    expect(status == 5 and "typed" in shown, f"{status} {shown!r}")


@promise(PROCESSES)
def _threads_may_spawn_at_once(bench: Bench) -> None:
    with bench.sandbox() as sandbox, ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda n: run(sandbox, f"exit {n}").status, range(24)))
    expect(codes == list(range(24)), str(codes))


@promise(PROCESSES)
def _process_ids_inside_are_the_same_each_time(bench: Bench) -> None:
    seen = []
    for _ in range(2):
        with bench.sandbox() as sandbox:
            command = "echo $$; /bin/true & echo $!; wait; sh -c 'echo $$'; true"
            seen.append(run(sandbox, command).text)
    expect(seen[0] == seen[1], f"{seen[0]!r} and {seen[1]!r}")


@promise(PROCESSES)
def _orphans_are_reaped(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        run(
            sandbox, "for i in 1 2 3 4 5; do (setsid sh -c 'exit 0' &); done; sleep 0.1"
        )
        ran = run(sandbox, "ps -eo stat= | grep -c Z")
    expect(ran.text.strip() == "0", f"{ran.text.strip()} zombies")


def _start_error(sandbox: Sandbox, argv: list[str], *, cwd: str = "/") -> int | None:
    with collecting() as (fds, _):
        try:
            process = sandbox.spawn(argv, fds=fds, env=ENVIRONMENT, cwd=cwd)
        except OSError as error:
            return error.errno
        process.wait(10)
    return None

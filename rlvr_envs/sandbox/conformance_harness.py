"""Promises about what the host does to a running sandbox."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rlvr_envs.errors import SandboxError
from rlvr_envs.sandbox.base import HARNESS_FOLDER, Bind, Capability, Process, Sandbox
from rlvr_envs.sandbox.conformance_kit import (
    ENVIRONMENT,
    MIB,
    Bench,
    Check,
    can_start,
    collecting,
    expect,
    promise,
    python,
    run,
    until,
)

HARNESS: list[Check] = []

_ESCAPED = "setsid sleep 1111 & (setsid sh -c 'sleep 1111 &' &); sleep 1111"


@promise(HARNESS)
def _harness_files_can_be_read_and_not_changed(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        path = sandbox.put("note", b"first")
        expect(path == f"{HARNESS_FOLDER}/note", path)
        sandbox.put("note", b"second")
        text = run(sandbox, f"cat {path}").text
        tries = (f"echo x > {path}", f"rm {path}", f"touch {HARNESS_FOLDER}/mine")
        done = [
            f"{attempt} as {user}"
            for attempt in tries
            for user in (1000, 0)
            if run(sandbox, attempt, user=user).status == 0
        ]
    expect(text == "second", text)
    expect(not done, f"there worked: {done}")


@promise(HARNESS)
def _the_first_harness_files_are_there_at_once(bench: Bench) -> None:
    shown = f"cd {HARNESS_FOLDER} && cat *; stat -c %a:%u * && echo more >> note"
    with bench.sandbox(bench.spec(files={"note": b"one\n", "other": b"two\n"})) as box:
        ran = run(box, shown)
        box.put("note", b"new\n")
        again = run(box, f"cat {HARNESS_FOLDER}/note").text
    expect(ran.text.startswith("one\ntwo\n444:0\n444:0\n"), ran.text)
    expect(ran.status != 0, "a harness file can be written to")
    expect(again == "new\n", again)


@promise(HARNESS)
def _a_harness_file_has_a_plain_name(bench: Bench) -> None:
    def take(name: str) -> None:
        sandbox.put(name, b"")

    def take_first(name: str) -> None:
        with bench.sandbox(bench.spec(files={name: b""})):
            pass

    with bench.sandbox() as sandbox:
        for way in (take, take_first):
            for name in ("", ".", "..", "a/b", "../a"):
                try:
                    way(name)
                except ValueError:
                    continue
                expect(condition=False, message=f"the name {name!r} was taken")


@promise(HARNESS, Capability.DISK_QUOTA)
def _the_harness_folder_has_an_end(bench: Bench) -> None:
    with bench.sandbox(bench.limited(spool_bytes=MIB)) as sandbox:
        try:
            for number in range(6):
                sandbox.put(f"big{number}", bytes(8 * MIB))
        except SandboxError:
            return
    expect(condition=False, message="48 MiB fitted beside a spool of 1 MiB")


@promise(HARNESS, Capability.HARNESS_LISTENERS)
def _the_host_can_serve_inside(bench: Bench) -> None:
    ask = python(
        "import socket\n"
        "s = socket.create_connection(('127.0.0.1', 80)); print(s.recv(9).decode())\n"
        "d = socket.socket(2, 2); d.sendto(b'ping', ('127.0.0.1', 53))\n"
        "print(d.recv(9).decode())"
    )
    with (
        bench.sandbox() as sandbox,
        sandbox.listen(socket.SOCK_STREAM, "127.0.0.1", 80) as stream,
        sandbox.listen(socket.SOCK_DGRAM, "127.0.0.1", 53) as datagrams,
        collecting() as (fds, text),
    ):
        stream.settimeout(20)
        datagrams.settimeout(20)
        process = sandbox.spawn(["bash", "-c", ask], fds=fds, env=ENVIRONMENT)
        with stream.accept()[0] as connection:
            connection.sendall(b"hello")
        question, where = datagrams.recvfrom(99)
        datagrams.sendto(question.upper(), where)
        expect(process.wait(20) == 0 and text() == "hello\nPING\n", text())


@promise(HARNESS)
def _a_bound_folder_is_shown_read_only(bench: Bench) -> None:
    with _folder() as folder:
        spec = bench.spec(binds=(Bind(folder, "/opt/shown"),))
        with bench.sandbox(spec) as sandbox:
            text = run(sandbox, "cat /opt/shown/fact").text
            wrote = run(sandbox, "echo x > /opt/shown/fact", user=0).status
    expect(text == "fact", text)
    expect(wrote != 0, "root inside could write to a bound folder")


@promise(HARNESS, Capability.SYSTEM_VIEW)
def _a_folder_can_be_attached_later(bench: Bench) -> None:
    with (
        _folder() as folder,
        bench.sandbox(bench.spec(targets=("/verifier",))) as sandbox,
    ):
        before = run(sandbox, "ls -A /verifier")
        sandbox.attach(Bind(folder, "/verifier"))
        text = run(sandbox, "cat /verifier/fact").text
        wrote = run(sandbox, "echo x > /verifier/fact", user=0).status
    expect(before.status == 0 and before.text == "", str(before))
    expect(text == "fact" and wrote != 0, f"{text!r} {wrote}")


@promise(HARNESS, Capability.USERNS)
def _a_bound_folders_owners_are_plain(bench: Bench) -> None:
    with _folder() as folder:
        os.chown(folder / "fact", 1000, 1000)
        with bench.sandbox(bench.spec(binds=(Bind(folder, "/shown"),))) as sandbox:
            text = run(sandbox, "stat -c '%u %g' /shown /shown/fact").text
    expect(text.split() == ["0", "0", "1000", "1000"], text)


@promise(HARNESS)
def _a_step_is_killed_whole_and_its_shell_spared(bench: Bench) -> None:
    with bench.sandbox() as sandbox, _shell(sandbox) as (shell, tell, text):
        tell(b"sleep 2222 & echo up\n")
        until(lambda: "up" in text(), "the shell does not answer")
        group = sandbox.step_group()
        group.add(shell.pid)
        tell(f"{_ESCAPED}\n".encode())
        until(lambda: _count(sandbox, "1111") == 3, "the step's processes do not start")
        killed = group.kill(spare=shell.pid)
        group.release(shell.pid)
        group.close()
        left = _count(sandbox, "1111"), _count(sandbox, "2222")
        tell(b"echo still here; exit 6\n")
        expect(shell.wait(20) == 6, "the shell was not spared")
    expect(killed >= 3, f"{killed} processes were killed, of at least 3")
    expect(left == (0, 1), f"of the step and of earlier daemons there live {left}")


@promise(HARNESS)
def _a_step_that_forks_without_end_can_be_killed(bench: Bench) -> None:
    with (
        bench.sandbox(bench.limited(pids=80)) as sandbox,
        _shell(sandbox) as (shell, tell, text),
    ):
        group = sandbox.step_group()
        group.add(shell.pid)
        tell(b"b() { b | b & }; b 2>/dev/null\n")
        until(lambda: not can_start(sandbox), "it does not fork")
        began = time.monotonic()
        group.kill(spare=shell.pid)
        took_s = time.monotonic() - began
        group.close()
        tell(b"echo still here; exit 6\n")
        expect(shell.wait(20) == 6, f"the shell was not spared: {text()}")
        expect(run(sandbox, "ps -e --no-headers | wc -l").text.strip() <= "5", "left")
    expect(took_s < 3, f"it took {took_s} s")


@promise(HARNESS)
def _without_a_spared_shell_the_whole_step_ends(bench: Bench) -> None:
    with bench.sandbox() as sandbox, _shell(sandbox) as (shell, tell, _):
        group = sandbox.step_group()
        group.add(shell.pid)
        tell(b"sleep 1111\n")
        until(lambda: _count(sandbox, "1111") == 1, "the step does not start")
        expect(group.kill() == 2, "not just the shell and its child were killed")
        expect(shell.wait(10) == 137, "the shell lives")


@promise(HARNESS, Capability.SYSTEM_VIEW)
def _file_times_become_virtual(bench: Bench) -> None:
    times = "stat -c '%X %Y' /tmp/a /tmp/d /tmp/d/b /tmp /tmp/old /etc/passwd"
    command = (
        "cd /tmp; echo a > a; mkdir d; echo b > d/b; ln -s a l;"
        "touch -d @86400 old; cat old > /dev/null"
    )
    with bench.sandbox() as sandbox:
        passwd = run(sandbox, "stat -c %Y /etc/passwd").text.strip()
        run(sandbox, command)
        sandbox.set_times(1_000_000_000.25)
        ran = run(sandbox, times + "; stat -c %Y /tmp/l")
        run(sandbox, "echo b >> /tmp/d/b")
        sandbox.set_times(1_000_000_060)
        later = run(sandbox, "stat -c %Y /tmp/d/b /tmp/a").text.split()
    rows = [line.split() for line in ran.text.splitlines()]
    changed = [row[-1] for row in rows]
    expect(changed[:4] == ["1000000000"] * 4, ran.text)
    expect(changed[4:6] == ["86400", passwd], f"times of one's own moved: {ran.text}")
    expect(changed[6] == "1000000000", "a link kept the host's time")
    expect(later == ["1000000060", "1000000000"], str(later))


@promise(HARNESS, Capability.SYSTEM_VIEW)
def _a_turn_passes_before_anything_runs_again(bench: Bench) -> None:
    shown = f"cat {HARNESS_FOLDER}/note; stat -c %Y {HARNESS_FOLDER}/note /tmp/a"
    with bench.sandbox() as sandbox:
        for turn in (1, 2, 3):
            run(sandbox, "echo a >> /tmp/a")
            sandbox.pass_turn(1_000_000_000 + turn, "note", b"turn %d\n" % turn)
            sandbox.settle()
            seen = run(sandbox, shown).text.split("\n")
            times = [str(1_000_000_000 + turn)] * 2
            expect(seen[:3] == [f"turn {turn}", *times], str(seen))
        again = sandbox.put("note", b"put\n")
        expect(run(sandbox, f"cat {again}").text == "put\n", "not replaced by put")


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "fact").write_text("fact")
        yield folder


@contextmanager
def _shell(
    sandbox: Sandbox,
) -> Iterator[tuple[Process, Callable[[bytes], int], Callable[[], str]]]:
    read_end, write_end = os.pipe()
    with collecting() as ((_, output, _), text):
        argv = ["bash", "--norc", "--noprofile"]
        fds = (read_end, output, output)
        process = sandbox.spawn(argv, fds=fds, env=ENVIRONMENT)
        os.close(read_end)
        try:
            yield process, lambda data: os.write(write_end, data), text
        finally:
            os.close(write_end)


def _count(sandbox: Sandbox, word: str) -> int:
    command = f"ps -eo comm=,args= | grep -c '^sleep .*{word}$'"
    return int(run(sandbox, command).text)

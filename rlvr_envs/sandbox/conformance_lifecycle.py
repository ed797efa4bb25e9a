"""Promises about the end of an episode, and about what is made of it."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

from rlvr_envs.errors import SandboxError
from rlvr_envs.records import Layer, Snapshot
from rlvr_envs.sandbox.base import (
    VERIFIER_IDS,
    Bind,
    Capability,
    SandboxSpec,
    SealedLayer,
)
from rlvr_envs.sandbox.conformance_kit import (
    ENVIRONMENT,
    Bench,
    Check,
    can_start,
    collecting,
    expect,
    promise,
    run,
    until,
)

LIFECYCLE: list[Check] = []

_WORK = (
    "umask 077; mkdir -p /tmp/app; echo secret > /tmp/app/own; ln /tmp/app/own /tmp/app/twin;"
    "ln -s own /tmp/app/link; mkfifo /tmp/app/fifo; touch -d @1000 /tmp/app/old"
)
_ROOTS_WORK = (
    "rm /etc/issue; rm -r /usr/share/doc; mkdir /usr/share/doc; echo x > /etc/new"
)


@promise(LIFECYCLE)
def _nothing_is_started_by_a_constructor(bench: Bench) -> None:
    sandbox = bench.backend(bench.spec(), bench.places)
    try:
        run(sandbox, "true")
    except SandboxError:
        sandbox.destroy()
        return
    expect(condition=False, message="a command ran in a sandbox that never started")


@promise(LIFECYCLE)
def _a_retired_sandbox_ends_while_the_next_one_runs(bench: Bench) -> None:
    with bench.sandbox() as first:
        with collecting() as (fds, _):
            process = first.spawn(["sleep", "1000"], fds=fds, env=ENVIRONMENT)
        first.retire()
        first.retire()
        with bench.sandbox() as second:
            expect(run(second, "echo up").text == "up\n", "the next one does not run")
            first.destroy()
            expect(process.wait(10) == 137, "a process inside was not killed")
            expect(run(second, "echo up").text == "up\n", "the next one ended too")


@promise(LIFECYCLE)
def _what_is_frozen_stands_still(bench: Bench) -> None:
    with bench.sandbox() as sandbox, collecting() as (fds, _):
        output = os.memfd_create("ticks")
        loop = ["bash", "-c", "while :; do printf x; sleep 0.001; done"]
        sandbox.spawn(loop, fds=(fds[0], output, output), env=ENVIRONMENT)
        until(lambda: os.fstat(output).st_size > 3, "it does not run")
        sandbox.freeze()
        sizes = {os.fstat(output).st_size for _ in range(2000)}
        sandbox.thaw()
        until(lambda: os.fstat(output).st_size > max(sizes) + 3, "it does not go on")
        os.close(output)
    expect(len(sizes) == 1, f"it wrote while it was frozen: {sizes}")


@promise(LIFECYCLE)
def _a_kill_names_survivors_and_leaves_none(bench: Bench) -> None:
    with bench.sandbox() as sandbox, collecting() as (fds, _):
        argv = ["bash", "-c", "(setsid sleep 3333 &); sleep 2222 & wait"]
        shell = sandbox.spawn(argv, fds=fds, env=ENVIRONMENT)
        until(
            lambda: run(sandbox, "ps -eo args= | grep -c '^sleep'").text == "2\n",
            "the survivors do not start",
        )
        census = sandbox.kill()
        expect(shell.wait(10) == 137, "a process that was killed has another status")
        expect(not Path(f"/proc/{shell.pid}").exists(), "its process is still there")
    expect(census.survivors == ("sleep 2222", "sleep 3333"), str(census))
    expect(census.remaining == 0, str(census))


@promise(LIFECYCLE)
def _a_fork_bomb_is_killed(bench: Bench) -> None:
    with bench.sandbox(bench.limited(pids=100)) as sandbox, collecting() as (fds, _):
        argv = ["bash", "-c", "b() { b | b & }; b; while :; do b; done"]
        sandbox.spawn(argv, fds=fds, env=ENVIRONMENT)
        until(lambda: not can_start(sandbox), "it does not fork")
        census = sandbox.kill()
    expect(census.remaining == 0, str(census))


@promise(LIFECYCLE, Capability.SYSTEM_VIEW)
def _the_view_shows_the_final_root_read_only(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        run(sandbox, _WORK)
        run(sandbox, _ROOTS_WORK, user=0)
        sandbox.kill()
        root = sandbox.view()
        own = root / "tmp/app/own"
        expect(own.read_text() == "secret\n", "a private file cannot be read")
        expect(own.stat().st_nlink == 2, "a hard link is none")
        expect((root / "tmp/app/link").is_symlink(), "a link is none")
        expect(not (root / "etc/issue").exists(), "a removed file is there")
        expect(list((root / "usr/share/doc").iterdir()) == [], "a new folder is full")
        expect((root / "etc/passwd").exists(), "the image's files are not there")
        expect(sandbox.view() == root, "the view moved")
        try:
            (root / "tmp/mine").touch()
        except OSError:
            return
    expect(condition=False, message="the view can be written")


@promise(LIFECYCLE, Capability.SYSTEM_VIEW)
def _the_writable_layer_holds_only_what_changed(bench: Bench) -> None:
    spec = bench.spec(targets=("/verifier", "/submission"))
    with bench.sandbox(spec) as sandbox:
        run(sandbox, "true")
        expect(list(sandbox.upper().rglob("*")) == [], "it is not empty at first")
        run(sandbox, "mkdir /tmp/a; echo x > /tmp/a/b")
        sandbox.kill()
        upper = sandbox.upper()
        found = {str(path.relative_to(upper)) for path in upper.rglob("*")}
    expect(found == {"tmp", "tmp/a", "tmp/a/b"}, str(found))


@promise(LIFECYCLE, Capability.SYSTEM_VIEW, Capability.USERNS)
def _a_verifier_can_read_what_the_agent_owned(bench: Bench) -> None:
    command = (
        "cat /submission/own; stat -c '%u %a' /submission/own; echo x > /submission/own"
    )
    with bench.sandbox() as sandbox:
        run(sandbox, _WORK)
        sandbox.kill()
        bind = Bind(sandbox.view() / "tmp/app", "/submission", reowned=True)
        early = bench.spec(id_base=VERIFIER_IDS, binds=(bind,))
        late = bench.spec(id_base=VERIFIER_IDS, targets=("/submission",))
        with bench.sandbox(early) as verifier:
            first = run(verifier, command)
        with bench.sandbox(late) as verifier:
            verifier.attach(bind)
            second = run(verifier, command)
            root = run(verifier, "cat /submission/own", user=0)
    for ran in (first, second):
        expect(ran.text.startswith("secret\n1000 600\n"), ran.text)
        expect(ran.status != 0, "the submission can be written")
    expect(root.text == "secret\n", root.text)


@promise(LIFECYCLE, Capability.SYSTEM_VIEW)
def _a_link_in_a_submissions_path_leads_nowhere(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        run(sandbox, "ln -s /etc /tmp/app")
        sandbox.kill()
        bind = Bind(sandbox.view() / "tmp/app", "/submission", reowned=True)
        spec = bench.spec(id_base=VERIFIER_IDS, binds=(bind,))
        try:
            with bench.sandbox(spec):
                pass
        except SandboxError:
            return
    expect(condition=False, message="a link of the agent's was followed on the host")


@promise(LIFECYCLE, Capability.SYSTEM_VIEW, Capability.USERNS)
def _a_verifier_can_run_on_a_copy_of_the_final_root(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        run(sandbox, _WORK)
        sandbox.kill()
        layer = Layer("sha256:final", sandbox.view(), shifted=True)
        spec = SandboxSpec(Snapshot((layer,)), id_base=VERIFIER_IDS)
        with bench.sandbox(spec) as copy:
            ran = run(copy, "cat /tmp/app/own; echo more >> /tmp/app/own; id -u")
        expect((sandbox.view() / "tmp/app/own").read_text() == "secret\n", "changed")
    expect(ran.text == "secret\n1000\n" and ran.status == 0, str(ran))


@promise(LIFECYCLE, Capability.COMMIT)
def _a_committed_layer_starts_others(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        run(sandbox, _WORK)
        run(sandbox, _ROOTS_WORK, user=0)
        sandbox.kill()
        sealed = sandbox.commit()
    try:
        for _ in range(2):
            _expect_work(bench, sealed)
    finally:
        sealed.close()
        sealed.close()


@promise(LIFECYCLE, Capability.BRANCH)
def _a_branch_is_a_copy_and_the_episode_goes_on(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        run(sandbox, _WORK)
        run(sandbox, _ROOTS_WORK, user=0)
        run(sandbox, "truncate -s 1G /tmp/app/sparse")
        sealed = sandbox.branch()
        after = run(sandbox, "echo later > /tmp/app/own; cat /tmp/app/twin")
    try:
        expect(after.text == "later\n", after.text)
        _expect_work(bench, sealed)
    finally:
        sealed.close()


@promise(LIFECYCLE)
def _a_later_layer_lies_on_the_earlier(bench: Bench) -> None:
    with tempfile.TemporaryDirectory() as name:
        upper = Path(name)
        upper.chmod(0o755)
        (upper / "etc").mkdir(mode=0o755)
        (upper / "etc/issue").write_text("mine\n")
        os.mknod(upper / "etc/passwd", 0o600 | stat.S_IFCHR, 0)
        layer = Layer("sha256:mine", upper)
        with bench.sandbox(
            SandboxSpec(Snapshot((*bench.snapshot.layers, layer)))
        ) as top:
            ran = run(top, "cat /etc/issue; ls /etc/passwd /etc/group")
    expect(ran.text.startswith("mine\n") and "/etc/group" in ran.text, ran.text)
    expect("cannot access '/etc/passwd'" in ran.text, "a whiteout has no effect")


@promise(LIFECYCLE)
def _a_destroyed_sandbox_is_gone(bench: Bench) -> None:
    sandbox = bench.backend(bench.spec(), bench.places)
    sandbox.start()
    with collecting() as (fds, _):
        process = sandbox.spawn(["sleep", "1000"], fds=fds, env=ENVIRONMENT)
    sandbox.destroy()
    sandbox.destroy()
    expect(process.wait(10) == 137, "its processes have no end")
    expect(not Path(f"/proc/{process.pid}").exists(), "its processes live")
    for call in (sandbox.start, sandbox.kill, sandbox.freeze, sandbox.step_group):
        try:
            call()
        except SandboxError:
            continue
        expect(condition=False, message=f"{call.__name__} works on a destroyed one")


@promise(LIFECYCLE)
def _nothing_is_left_behind(bench: Bench) -> None:
    with bench.sandbox() as sandbox:
        run(sandbox, "true")
    before = _traces()
    for number in range(4):
        with bench.sandbox() as sandbox:
            run(sandbox, "setsid sleep 1000 & echo x > /tmp/x")
            if number % 2:
                sandbox.kill()
    until(
        lambda: all(now <= then for now, then in zip(_traces(), before, strict=True)),
        f"{_traces()} in place of {before}",
    )


def _expect_work(bench: Bench, sealed: SealedLayer) -> None:
    command = (
        "cat /tmp/app/twin; stat -c '%u %h %a' /tmp/app/own; readlink /tmp/app/link;"
        "stat -c %Y /tmp/app/old; ls /usr/share/doc; test -e /etc/issue; echo $?;"
        "test -p /tmp/app/fifo; echo $?; echo y >> /tmp/app/own; cat /etc/new"
    )
    layers = (*bench.snapshot.layers, sealed.layer)
    with bench.sandbox(SandboxSpec(Snapshot(layers))) as sandbox:
        ran = run(sandbox, command)
    wanted = "secret\n1000 2 600\nown\n1000\n1\n0\nx\n"
    expect(ran.text == wanted, f"{ran.text!r} in place of {wanted!r}")


def _traces() -> tuple[int, int, int]:
    """Count open descriptors, mounts and children of this process."""
    mounts = len(Path("/proc/self/mountinfo").read_text().splitlines())
    children = 0
    for task in Path("/proc/self/task").iterdir():
        children += len((task / "children").read_text().split())
    return len(os.listdir("/proc/self/fd")), mounts, children  # noqa: PTH208 - a count

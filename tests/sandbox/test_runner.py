"""Verifier commands in pristine sandboxes of the real backend."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlvr_envs.errors import SandboxError
from rlvr_envs.records import Layer, Places, Snapshot
from rlvr_envs.sandbox.base import VERIFIER_IDS, SandboxSpec
from rlvr_envs.sandbox.examiner import ZygotePool
from rlvr_envs.sandbox.namespaces import NamespaceSandbox
from rlvr_envs.sandbox.owners import owner_name
from rlvr_envs.sandbox.runner import PristineRunner, shared_pool
from rlvr_envs.state import RunRequest, RunResult

SHELL = ("/bin/sh", "-c")


@pytest.fixture
def make(
    namespaces: type[NamespaceSandbox], base_snapshot: Snapshot, places: Places
) -> object:
    def runner(final_root: Path | None = None) -> PristineRunner:
        spec = SandboxSpec(base_snapshot, id_base=VERIFIER_IDS)
        return PristineRunner(
            lambda wanted: namespaces(wanted, places),
            pristine=base_snapshot,
            pool=ZygotePool(lambda: namespaces(spec, places)),
            final_root=final_root,
        )

    return runner


@pytest.fixture
def runner(make: object) -> PristineRunner:
    return make()  # type: ignore[operator,no-any-return]  # the fixture above


def shell(runner: PristineRunner, script: str, **fields: object) -> RunResult:
    request = RunRequest((*SHELL, script), **fields)  # type: ignore[arg-type]  # a test's own
    return runner.run(request)


def test_status_and_streams_come_back(runner: PristineRunner) -> None:
    done = shell(runner, "cat; echo err >&2; exit 3", stdin=b"in")

    assert (done.exit_code, done.stdout, done.stderr) == (3, b"in", b"err\n")


def test_the_environment_is_ours_alone(runner: PristineRunner) -> None:
    os.environ["RLVR_LEAK"] = "1"
    try:
        done = shell(runner, "env", env={"A": "b"})
    finally:
        del os.environ["RLVR_LEAK"]

    lines = set(done.stdout.decode().split())
    assert "A=b" in lines
    assert not any("LEAK" in line or "BASH" in line for line in lines)


def test_fixtures_and_submission_are_there_read_only(
    runner: PristineRunner, tmp_path: Path
) -> None:
    for name in ("verifier", "submission"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)
    tmp_path.chmod(0o755)

    done = shell(
        runner,
        "cat /verifier/a /submission/a; touch /verifier/b /submission/b; id -u",
        fixtures=tmp_path / "verifier",
        submission=tmp_path / "submission",
    )

    assert done.stdout == b"verifiersubmission1000\n"
    assert done.stderr.count(b"touch:") == 2


def test_a_hang_is_reported_and_killed(runner: PristineRunner) -> None:
    done = shell(runner, "echo begun; (sleep 99 &) ; sleep 99", timeout_s=0.5)

    assert (done.exit_code, done.timed_out, done.stdout) == (-1, True, b"begun\n")


def test_a_flood_is_cut(runner: PristineRunner) -> None:
    done = shell(runner, "yes | head -c 9000000", limit_bytes=1000)

    assert (done.exit_code, len(done.stdout)) == (0, 1000)


def test_a_verdict_comes_over_its_own_pipe(runner: PristineRunner) -> None:
    done = shell(runner, "echo out; echo verdict >&3", verdict_fd=True)

    assert (done.stdout, done.verdict) == (b"out\n", b"verdict\n")


def test_a_verdict_pipe_is_not_there_unasked(runner: PristineRunner) -> None:
    assert shell(runner, "echo verdict >&3").exit_code != 0


def test_each_run_starts_from_the_pristine_image(runner: PristineRunner) -> None:
    shell(runner, "echo x > /usr/bin/cmp; rm -rf /etc", user=0)

    assert shell(runner, "cmp --version && ls /etc/passwd", user=0).exit_code == 0


def test_a_program_that_the_image_lacks_is_a_fault_of_the_harness(
    runner: PristineRunner,
) -> None:
    with pytest.raises(SandboxError, match="no-such-program"):
        runner.run(RunRequest(("no-such-program",)))


def test_the_final_root_can_be_run_on_without_being_changed(
    make: object,
    namespaces: type[NamespaceSandbox],
    base_snapshot: Snapshot,
    places: Places,
) -> None:
    with namespaces(SandboxSpec(base_snapshot), places) as agent:
        with Path(os.devnull).open("r+b") as null:
            fds = [null.fileno()] * 3
            script = (
                "echo left > /srv/left; chown 1000:1000 /srv/left; chmod 600 /srv/left"
            )
            process = agent.spawn(
                [*SHELL, script], fds=fds, env={"PATH": "/usr/bin:/bin"}, user=0
            )
            assert process.wait(10) == 0
        agent.kill()
        root = agent.view()
        runner = make(root)  # type: ignore[operator]  # the fixture above

        first = shell(
            runner, "cat /srv/left && echo more >> /srv/left", final_root=True
        )
        second = shell(runner, "cat /srv/left; stat -c %u /srv/left", final_root=True)
        seen = shell(
            runner, "stat -c '%u %a' /submission/srv/left", submission=root, user=0
        )

        assert (first.exit_code, first.stdout) == (0, b"left\n")
        assert second.stdout == b"left\n1000\n"
        assert seen.stdout == b"1000 600\n"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("touch /verifier", b"/verifier is no folder"),
        ("ln -s /srv /submission", b"/submission is no folder"),
        ("rm -rf /sys; ln -s /srv /sys", b"/sys is no folder"),
        ("rm -f /usr/bin/sh /usr/bin/dash", b"'/bin/sh' cannot start"),
        ("rm -f /lib64", b"'/bin/sh' cannot start"),
    ],
)
def test_a_final_root_that_was_left_unusable_fails_its_command(
    make: object,
    namespaces: type[NamespaceSandbox],
    base_snapshot: Snapshot,
    places: Places,
    script: str,
    reason: bytes,
) -> None:
    with namespaces(SandboxSpec(base_snapshot), places) as agent:
        with Path(os.devnull).open("r+b") as null:
            fds = [null.fileno()] * 3
            env = {"PATH": "/usr/bin:/bin"}
            process = agent.spawn([*SHELL, script], fds=fds, env=env, user=0)
            process.wait(10)
        agent.kill()
        runner: PristineRunner = make(agent.view())  # type: ignore[operator]

        done = shell(runner, "true", final_root=True)

    assert done.exit_code == 127
    assert reason in done.stderr


def test_a_judgements_folder_is_named_after_its_owner(
    namespaces: type[NamespaceSandbox], base_snapshot: Snapshot, places: Places
) -> None:
    runner = PristineRunner(
        lambda spec: namespaces(spec, places),
        pristine=base_snapshot,
        pool=shared_pool(namespaces, base_snapshot),
        places=places,
    )

    folder = runner.lodge()

    assert folder.parent == places.run
    assert folder.name.startswith(f"{owner_name()}-judge-")
    assert list(folder.iterdir()) == []
    folder.rmdir()


def test_pools_are_shared_by_image_and_backend(
    namespaces: type[NamespaceSandbox], base_snapshot: Snapshot
) -> None:
    other = Snapshot((Layer("sha256:other", Path("/nowhere")),))

    assert shared_pool(namespaces, base_snapshot) is shared_pool(
        namespaces, base_snapshot
    )
    assert shared_pool(namespaces, other) is not shared_pool(namespaces, base_snapshot)

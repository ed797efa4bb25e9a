"""From an instance to the snapshot that its episodes start from."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from rlvr_envs.confinement import MIB, ClockRule, Confinement, Limits
from rlvr_envs.envs.laying import lay
from rlvr_envs.errors import SnapshotError, TaskError
from rlvr_envs.records import Layer, Places, Snapshot, digest_of
from rlvr_envs.sandbox.base import Process, Sandbox, SandboxSpec
from rlvr_envs.sandbox.clock import (
    CLOCK_FILE,
    ENVIRONMENT,
    SEED_FILE,
    clock_layer,
    clock_line,
    seed_line,
)
from rlvr_envs.snapshots.layers import LayerStore
from rlvr_envs.snapshots.repositories import check_tree, forget_machine
from rlvr_envs.snapshots.sealing import seal
from rlvr_envs.snapshots.store import ImageStore
from rlvr_envs.tasks.task import FileSpec, Instance
from rlvr_envs.verifiers.decoys import decoys_of

VERSION = 4
COMMAND_TIMEOUT_S = 600.0
SHOWN_BYTES = 4000
FOREVER_S = 1 << 40

SETUP_LIMITS = Limits(
    memory_bytes=2048 * MIB,
    disk_bytes=1024 * MIB,
    inodes=1 << 20,
    pids=1024,
    cpu_weight=100,
)
"""A recipe's setup is trusted work: what it may use is more than an agent may."""


def stage(
    instance: Instance,
    *,
    places: Places,
    backend: type[Sandbox],
    store: ImageStore | None = None,
) -> Snapshot:
    """Return the image's layer and, on top, the instance's own.

    The instance's layer is made once per store: files first, then the setup
    commands in a sandbox under the task's frozen clock. Afterwards this takes well
    under a millisecond.

    Args:
        instance: What the episode plays.
        places: Where images and layers are kept.
        backend: Sandbox class that the setup commands run in.
        store: Images, if not those of ``places``.

    Raises:
        TaskError: If a file cannot be laid, a setup command fails (its output is
            shown), or a repository is not locked.
        SnapshotError: If the image is missing or changed, or the disk is full.
    """
    base = (store or ImageStore(places)).layer(instance.task.image)
    layers = LayerStore(places)
    files = layers.layer(
        _digest(instance, base, "files"), lambda root: _lay(instance, root, base)
    )
    if not instance.recipe.setup:
        return Snapshot((base, files))
    clock = clock_layer(places)

    def build(root: Path) -> None:
        seal(files.path, root, latest_s=FOREVER_S, id_base=0)
        _set_up(instance, (base, files, clock), root, places=places, backend=backend)
        _check(instance, root)
        forget_machine(root)

    digest = _digest(instance, base, f"setup {clock.digest}")
    return Snapshot((base, layers.layer(digest, build)))


def _digest(instance: Instance, base: Layer, part: str) -> str:
    task = instance.task
    facts = (VERSION, part, task.user, task.workdir, task.epoch_s)
    declared = sorted(instance.recipe.refs.items())
    return digest_of([instance.digest, base.digest, json.dumps([facts, declared])])


def _lay(instance: Instance, root: Path, base: Layer) -> None:
    task = instance.task
    workdir = FileSpec(task.workdir, kind="dir", mode=0o755, user=task.user)
    known = os.path.lexists(base.path / task.workdir.strip("/"))
    files = (*instance.recipe.files, *_decoys(instance))
    named = any(spec.path == task.workdir for spec in files)
    lay(
        files if known or named else (workdir, *files),
        root,
        base.path,
        epoch_s=task.epoch_s,
        task=_task_file(instance),
    )
    if not instance.recipe.setup:
        _check(instance, root)


def _decoys(instance: Instance) -> tuple[FileSpec, ...]:
    """Return files that look like answers; whoever submits one shows where it looked."""
    return tuple(FileSpec(item.path, item.data) for item in decoys_of(instance.digest))


def _task_file(instance: Instance) -> Path:
    return instance.task.folder / "task.yaml"


def _check(instance: Instance, root: Path) -> None:
    try:
        check_tree(root, instance.recipe.refs)
    except SnapshotError as error:
        raise TaskError(
            str(error).partition(" Remedy: ")[0],
            file=_task_file(instance),
            remedy=error.remedy,
        ) from error


def _set_up(
    instance: Instance,
    layers: tuple[Layer, ...],
    root: Path,
    *,
    places: Places,
    backend: type[Sandbox],
) -> None:
    epoch_s = instance.task.epoch_s
    rule = ClockRule(epoch_s)
    confinement = Confinement(limits=SETUP_LIMITS, clock=rule)
    spec = SandboxSpec(Snapshot(layers), confinement=confinement)
    with backend(spec, places) as sandbox:
        sandbox.put(SEED_FILE, seed_line(rule, instance.digest))
        for turn, argv in enumerate(instance.recipe.setup):
            sandbox.put(CLOCK_FILE, clock_line(rule, turn))
            _run(instance, sandbox, argv)
        if sandbox.kill().remaining:
            raise SnapshotError("Processes of a setup command outlived the kill.")
        seal(sandbox.upper(), root, latest_s=epoch_s, id_base=sandbox.id_base)


def _environment(epoch_s: int) -> Mapping[str, str]:
    moment = f"{epoch_s} +0000"
    return {
        **ENVIRONMENT,
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "SOURCE_DATE_EPOCH": str(epoch_s),
        "GIT_AUTHOR_DATE": moment,
        "GIT_COMMITTER_DATE": moment,
        "DEBIAN_FRONTEND": "noninteractive",
    }


def _run(instance: Instance, sandbox: Sandbox, argv: Sequence[str]) -> None:
    with tempfile.TemporaryFile() as output, Path(os.devnull).open("rb") as nothing:
        fds = (nothing.fileno(), output.fileno(), output.fileno())
        try:
            process = sandbox.spawn(
                argv, fds=fds, env=_environment(instance.task.epoch_s), user=0
            )
        except OSError as error:
            raise _failed(instance, argv, f"cannot start: {error}") from error
        status = _wait(process)
        if status != 0:
            how = "timed out" if status is None else f"ended with status {status}"
            raise _failed(instance, argv, f"{how}: {_tail(output)}")


def _wait(process: Process) -> int | None:
    status = process.wait(COMMAND_TIMEOUT_S)
    if status is None:
        process.kill()
        process.wait(10.0)
    return status


def _tail(output: IO[bytes]) -> str:
    size = output.seek(0, os.SEEK_END)
    output.seek(max(0, size - SHOWN_BYTES))
    return output.read().decode(errors="replace").strip() or "it printed nothing"


def _failed(instance: Instance, argv: Sequence[str], how: str) -> TaskError:
    shown = " ".join(argv)
    shown = shown if len(shown) <= 200 else f"{shown[:200]}..."
    return TaskError(
        f"instance {instance.number}: the setup command `{shown}` {how}",
        file=_task_file(instance),
        remedy="mend the recipe's setup; it runs as root on the image, offline.",
    )

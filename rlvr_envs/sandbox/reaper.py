"""Remove what dead trainers left behind; what may be alive is left alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rlvr_envs.errors import SandboxError
from rlvr_envs.records import Places
from rlvr_envs.sandbox.cgroups import Group, Hierarchies
from rlvr_envs.sandbox.freezing import kill_all, wait_until_empty
from rlvr_envs.sandbox.owners import is_abandoned

_EMPTY_S = 10.0


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep did.

    Attributes:
        groups: Names of control groups that were removed, sorted.
        entries: Names of entries of the run folder that were removed, sorted.
        kept: What could not be removed, and why, sorted.
    """

    groups: tuple[str, ...]
    entries: tuple[str, ...]
    kept: tuple[str, ...]


def sweep(places: Places, hierarchies: Hierarchies | None = None) -> Swept:
    """Kill and remove what processes that no longer exist left behind.

    Mounts and network namespaces need no sweep: they end with their processes.

    Args:
        places: Whose run folder.
        hierarchies: Where control groups are; this machine's by default.

    Raises:
        MissingRequirement: If this machine has no usable control groups.
    """
    hierarchies = hierarchies or Hierarchies.here()
    groups, entries, kept = [], [], []
    for name in sorted(set(_abandoned_groups(hierarchies))):
        try:
            _end_group(Group(hierarchies, name))
            groups.append(name)
        except (OSError, SandboxError) as error:
            kept.append(f"{name}: {error}")
    for path in sorted(_abandoned_in(places.run)):
        try:
            _remove(path)
            entries.append(path.name)
        except OSError as error:
            kept.append(f"{path.name}: {error}")
    return Swept(tuple(groups), tuple(entries), tuple(sorted(kept)))


def _abandoned_groups(hierarchies: Hierarchies) -> Iterator[str]:
    for root in hierarchies.roots():
        yield from (path.name for path in _abandoned_in(root) if path.is_dir())


def _abandoned_in(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if is_abandoned(path.name)]
    except FileNotFoundError:
        return []


def _end_group(group: Group) -> None:
    if group.stopper.exists() and group.members():
        kill_all(group)
        wait_until_empty(group, timeout_s=_EMPTY_S)
    group.remove()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        os.unlink(path)  # noqa: PTH108 - it may vanish, and is no file of ours

"""What episodes could leave behind on a machine, counted from outside."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from rlvr_envs.records import Places

_FIRST_ID = 100_000
_LAST_ID = 400_000
_CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Census:
    """Counts of one moment.

    Attributes:
        processes: Alive under host ids that only sandboxes use, or descended from
            this process.
        mounts: In this process's mount namespace.
        cgroups: Folders whose name speaks of us.
        networks: Network namespaces that some process is in.
        temp_files: Entries at the top of the temporary folder, and all of the run
            folder's.
        fds: Open descriptors of this process.
        threads: Of this process.
    """

    processes: int
    mounts: int
    cgroups: int
    networks: int
    temp_files: int
    fds: int
    threads: int

    @classmethod
    def now(cls, places: Places, *, temporary: Path | None = None) -> Self:
        """Count.

        Args:
            places: Whose run folder.
            temporary: The temporary folder; this process's by default.
        """
        folder = temporary or Path(tempfile.gettempdir())
        return cls(
            processes=_processes(),
            mounts=len(Path("/proc/self/mountinfo").read_bytes().splitlines()),
            cgroups=_cgroups(),
            networks=len({_link(f"/proc/{pid}/ns/net") for pid in _pids()} - {""}),
            temp_files=len(list(folder.iterdir())) + _entries(places.run),
            fds=len(os.listdir("/proc/self/fd")),  # noqa: PTH208  # no folder of ours
            threads=len(os.listdir("/proc/self/task")),  # noqa: PTH208  # likewise
        )

    def less(self, earlier: Census) -> Mapping[str, int]:
        """Return how much each count has grown."""
        before = asdict(earlier)
        return {name: count - before[name] for name, count in asdict(self).items()}


def _pids() -> Iterator[int]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            yield int(entry.name)


def _processes() -> int:
    return len(own_processes())


def own_processes() -> set[int]:
    """Return the process ids that belong to sandboxes, or to this process's tree."""
    parents: dict[int, int] = {}
    ours: set[int] = set()
    for pid in _pids():
        uid, parent = _uid_and_parent(pid)
        parents[pid] = parent
        if _FIRST_ID <= uid < _LAST_ID:
            ours.add(pid)
    return ours | _descendants(parents)


def _uid_and_parent(pid: int) -> tuple[int, int]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return -1, 0
    fields = dict(line.partition(":")[::2] for line in lines)
    return int(fields["Uid"].split()[0]), int(fields["PPid"])


def _descendants(parents: Mapping[int, int]) -> set[int]:
    found, grown = {os.getpid()}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found - {os.getpid()}


def _link(path: str) -> str:
    try:
        return os.readlink(path)  # noqa: PTH115  # a magic link, no path
    except OSError:
        return ""


def _cgroups() -> int:
    return sum(
        "rlvr" in folder for folder, _, _ in os.walk(_CGROUPS, onerror=lambda _: None)
    )


def _entries(folder: Path) -> int:
    return sum(len(files) + len(folders) for _, folders, files in os.walk(folder))

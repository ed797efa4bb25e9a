"""What dead trainers left is removed; what may be alive is not."""

from __future__ import annotations

import subprocess
from pathlib import Path

from rlvr_envs.records import Places
from rlvr_envs.sandbox.cgroups import FOLDER, Hierarchies
from rlvr_envs.sandbox.owners import owner_name
from rlvr_envs.sandbox.reaper import sweep


def dead_owner() -> str:
    process = subprocess.Popen(["true"])
    process.wait()
    return f"{owner_name().split('-')[0]}-{process.pid}-1"


def hierarchies(root: Path) -> Hierarchies:
    (root / "unified" / FOLDER).mkdir(parents=True)
    (root / "pids" / FOLDER).mkdir(parents=True)
    return Hierarchies(root / "unified", frozenset(), {"pids": root / "pids"})


def test_groups_of_the_dead_go_from_every_hierarchy(tmp_path: Path) -> None:
    trees = hierarchies(tmp_path)
    dead, living = f"{dead_owner()}-0", f"{owner_name()}-0"
    for root in trees.roots():
        (root / living).mkdir()
    (tmp_path / "pids" / FOLDER / dead).mkdir()

    swept = sweep(Places(run=tmp_path / "run"), trees)

    assert swept.groups == (dead,)
    for root in trees.roots():
        assert [path.name for path in root.iterdir() if path.is_dir()] == [living]


def test_entries_of_the_dead_go_from_the_run_folder(tmp_path: Path) -> None:
    dead, living = dead_owner(), owner_name()
    for name in (f"{dead}-a", f"{living}-a", "m"):
        (tmp_path / "run" / name).mkdir(parents=True)
        (tmp_path / "run" / name / "file").touch()
    (tmp_path / "run" / f"{dead}.sock").touch()
    (tmp_path / "run" / f"{dead}-sock").touch()

    swept = sweep(Places(run=tmp_path / "run"), hierarchies(tmp_path))

    assert swept.entries == (f"{dead}-a", f"{dead}-sock")
    assert (tmp_path / "run" / f"{living}-a/file").exists()
    assert (tmp_path / "run" / "m/file").exists()


def test_what_cannot_be_removed_is_told(tmp_path: Path) -> None:
    trees = hierarchies(tmp_path)
    dead = f"{dead_owner()}-0"
    (tmp_path / "pids" / FOLDER / dead / "child").mkdir(parents=True)

    swept = sweep(Places(run=tmp_path / "run"), trees)

    assert swept.groups == ()
    assert [line.partition(":")[0] for line in swept.kept] == [dead]
    assert "cannot be removed" in swept.kept[0]

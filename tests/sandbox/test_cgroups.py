"""Control groups of either version, in trees that only look like the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlvr_envs.confinement import Limits
from rlvr_envs.errors import MissingRequirement, SandboxError
from rlvr_envs.sandbox.cgroups import FOLDER, Group, Hierarchies

LIMITS = Limits(memory_bytes=1 << 30, pids=10, cpu_weight=200)


def mountinfo(*rows: tuple[Path, str, str]) -> str:
    return "\n".join(
        f"30 20 0:{number} / {path} rw,relatime - {kind} {kind} rw,{options}"
        for number, (path, kind, options) in enumerate(rows)
    )


def pure_unified(root: Path) -> Hierarchies:
    (root / "cgroup.controllers").write_text("cpu io memory pids")
    (root / "cgroup.subtree_control").write_text("")
    (root / FOLDER).mkdir()
    (root / FOLDER / "cgroup.subtree_control").write_text("")
    return Hierarchies.of(mountinfo((root, "cgroup2", "nsdelegate")))


def pure_legacy(root: Path) -> Hierarchies:
    names = ("memory", "pids", "cpu,cpuacct", "freezer")
    for name in names:
        (root / name / FOLDER).mkdir(parents=True)
    return Hierarchies.of(mountinfo(*((root / n, "cgroup", n) for n in names)))


def hybrid(root: Path) -> Hierarchies:
    (root / "unified" / FOLDER).mkdir(parents=True)
    (root / "unified/cgroup.controllers").write_text("hugetlb")
    names = ("memory", "pids", "cpu", "freezer")
    for name in names:
        (root / name / FOLDER).mkdir(parents=True)
    rows = [(root / name, "cgroup", name) for name in names]
    return Hierarchies.of(mountinfo(*rows, (root / "unified", "cgroup2", "rw")))


def test_on_version_2_one_folder_holds_everything(tmp_path: Path) -> None:
    group = Group(pure_unified(tmp_path), "one")

    group.create()
    group.limit(LIMITS)

    folder = tmp_path / FOLDER / "one"
    assert group.folders == [folder]
    assert group.joins == []
    assert group.stopper == folder
    assert (folder / "memory.max").read_text() == str(1 << 30)
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "pids.max").read_text() == "11"
    assert (folder / "cpu.weight").read_text() == "200"


def test_on_version_2_controllers_are_handed_down(tmp_path: Path) -> None:
    hierarchies = pure_unified(tmp_path)

    hierarchies.prepare()

    wanted = "+memory +pids +cpu"
    assert (tmp_path / "cgroup.subtree_control").read_text() == wanted
    assert (tmp_path / FOLDER / "cgroup.subtree_control").read_text() == wanted


def test_on_version_1_each_controller_has_a_folder(tmp_path: Path) -> None:
    group = Group(pure_legacy(tmp_path), "one")

    group.create()
    group.limit(LIMITS)

    names = ("memory", "pids", "cpu,cpuacct", "freezer")
    assert set(group.folders) == {tmp_path / name / FOLDER / "one" for name in names}
    assert {file.name for file in group.joins} == {"cgroup.procs"}
    assert len(group.joins) == 4
    assert group.stopper == tmp_path / "freezer" / FOLDER / "one"
    memory = tmp_path / "memory" / FOLDER / "one"
    assert (memory / "memory.limit_in_bytes").read_text() == str(1 << 30)
    cpu = tmp_path / "cpu,cpuacct" / FOLDER / "one"
    assert (cpu / "cpu.shares").read_text() == "2048"


def test_on_a_hybrid_version_2_stops_and_version_1_bounds(tmp_path: Path) -> None:
    group = Group(hybrid(tmp_path), "one")

    group.create()
    group.limit(LIMITS)

    unified = tmp_path / "unified" / FOLDER / "one"
    assert group.stopper == unified
    assert list(unified.iterdir()) == []
    assert "freezer" not in group.legacy
    assert (tmp_path / "pids" / FOLDER / "one/pids.max").read_text() == "11"


def test_all_sandboxes_weigh_what_they_weigh_one_by_one(tmp_path: Path) -> None:
    hierarchies = pure_unified(tmp_path)

    if tmp_path.stat().st_nlink < 3:
        pytest.skip("this file system does not count links to folders")
    for number in range(3):
        Group(hierarchies, str(number)).create()

    assert (tmp_path / FOLDER / "cpu.weight").read_text() == "300"


def test_members_are_read_and_a_gone_group_has_none(tmp_path: Path) -> None:
    group = Group(pure_unified(tmp_path), "one")
    group.create()
    (group.stopper / "cgroup.procs").write_text("12\n345\n")

    assert group.members() == [12, 345]
    (group.stopper / "cgroup.procs").write_text("".join(f"{n}\n" for n in range(3000)))
    assert group.members() == list(range(3000))
    (group.stopper / "cgroup.procs").unlink()
    group.remove()
    assert Group(pure_unified_again(tmp_path), "two").members() == []


def pure_unified_again(root: Path) -> Hierarchies:
    return Hierarchies.of(mountinfo((root, "cgroup2", "rw")))


def test_removing_twice_is_fine(tmp_path: Path) -> None:
    group = Group(hybrid(tmp_path), "one")
    group.create()

    group.remove()
    group.remove()

    assert not any(folder.exists() for folder in group.folders)


def test_a_name_that_is_taken_is_the_worlds_fault(tmp_path: Path) -> None:
    group = Group(pure_unified(tmp_path), "one")
    group.create()

    with pytest.raises(SandboxError, match="control group cannot be made"):
        group.create()


def test_a_group_that_cannot_be_made_whole_is_not_made(tmp_path: Path) -> None:
    group = Group(hybrid(tmp_path), "one")
    last = group.folders[-1]
    last.mkdir()

    with pytest.raises(SandboxError, match="File exists"):
        group.create()

    assert [folder for folder in group.folders if folder.exists()] == [last]


def test_folders_that_cannot_be_made_name_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("memory pids")
    (tmp_path / FOLDER).write_text("a file where the folder should be")
    hierarchies = Hierarchies.of(mountinfo((tmp_path, "cgroup2", "rw")))

    with pytest.raises(MissingRequirement, match="cgroupns=host"):
        hierarchies.prepare()

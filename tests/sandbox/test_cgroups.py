"""Control groups of either version, in trees that only look like the kernel's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlvr_envs.confinement import Limits
from rlvr_envs.errors import MissingRequirement
from rlvr_envs.records import Places
from rlvr_envs.sandbox.cgroups import FOLDER, Group, Hierarchies
from rlvr_envs.sandbox.launcher import launcher
from rlvr_envs.sandbox.supervisor import Supervisor
from rlvr_envs.sandbox.wire import Packet, Refused

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


def ceilings(group: Group) -> dict[str, str]:
    """Return what is to be written, by file."""
    packet = Packet()
    group.limitation(packet, LIMITS)
    words = packet.data.decode().split("\0")[:-1]
    assert words[::4] == ["limit"] * (len(words) // 4)
    return dict(zip(words[1::4], words[2::4], strict=True))


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    made = Supervisor(launcher(Places()))
    yield made
    made.close()


def make(supervisor: Supervisor, *groups: Group) -> None:
    packet = Packet()
    for group in groups:
        group.creation(packet)
    supervisor.request(packet)


def test_on_version_2_one_folder_holds_everything(tmp_path: Path) -> None:
    group = Group(pure_unified(tmp_path), "one")

    folder = tmp_path / FOLDER / "one"
    assert group.folders == [folder]
    assert group.joins == []
    assert group.stopper == folder
    assert ceilings(group) == {
        f"{folder}/memory.max": str(1 << 30),
        f"{folder}/memory.swap.max": "0",
        f"{folder}/pids.max": "11",
        f"{folder}/cpu.weight": "200",
    }


def test_on_version_2_controllers_are_handed_down(tmp_path: Path) -> None:
    hierarchies = pure_unified(tmp_path)

    hierarchies.prepare()

    wanted = "+memory +pids +cpu"
    assert (tmp_path / "cgroup.subtree_control").read_text() == wanted
    assert (tmp_path / FOLDER / "cgroup.subtree_control").read_text() == wanted


def test_on_version_1_each_controller_has_a_folder(tmp_path: Path) -> None:
    group = Group(pure_legacy(tmp_path), "one")

    names = ("memory", "pids", "cpu,cpuacct", "freezer")
    assert set(group.folders) == {tmp_path / name / FOLDER / "one" for name in names}
    assert group.joins == [f"{folder}/cgroup.procs" for folder in group.folders]
    assert len(group.joins) == 4
    assert group.stopper == tmp_path / "freezer" / FOLDER / "one"
    found = ceilings(group)
    memory = tmp_path / "memory" / FOLDER / "one"
    assert found[f"{memory}/memory.limit_in_bytes"] == str(1 << 30)
    cpu = tmp_path / "cpu,cpuacct" / FOLDER / "one"
    assert found[f"{cpu}/cpu.shares"] == "2048"


def test_on_a_hybrid_version_2_stops_and_version_1_bounds(tmp_path: Path) -> None:
    group = Group(hybrid(tmp_path), "one")

    unified = tmp_path / "unified" / FOLDER / "one"
    found = ceilings(group)
    assert group.stopper == unified
    assert not any(file.startswith(f"{unified}/") for file in found)
    assert "freezer" not in group.legacy
    assert found[f"{tmp_path}/pids/{FOLDER}/one/pids.max"] == "11"


def test_a_ceiling_is_written_and_only_one_that_matters_may_not_be_refused(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    file, packet = tmp_path / "pids.max", Packet()
    file.touch()
    packet.add("limit", file, 7, 1, "limit", tmp_path / "memory.swap.max", 0, 0)
    supervisor.request(packet)
    needed = Packet()
    needed.add("limit", tmp_path / "memory.max", 9, 1)

    assert file.read_text() == "7"
    with pytest.raises(Refused, match=r"while setting memory\.max: No such file"):
        supervisor.request(needed)


def test_all_sandboxes_weigh_what_they_weigh_one_by_one(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    hierarchies = pure_unified(tmp_path)
    weight = tmp_path / FOLDER / "cpu.weight"
    weight.touch()

    if tmp_path.stat().st_nlink < 3:
        pytest.skip("this file system does not count links to folders")
    make(supervisor, *(Group(hierarchies, str(number)) for number in range(3)))

    assert weight.read_text() == "300"
    supervisor.close()
    assert weight.read_text() == "100"


def test_members_are_read_and_a_gone_group_has_none(tmp_path: Path) -> None:
    group = Group(pure_unified(tmp_path), "one")
    group.stopper.mkdir()
    (group.stopper / "cgroup.procs").write_text("12\n345\n")

    assert group.members() == [12, 345]
    (group.stopper / "cgroup.procs").write_text("".join(f"{n}\n" for n in range(3000)))
    assert group.members() == list(range(3000))
    (group.stopper / "cgroup.procs").unlink()
    group.remove()
    assert Group(pure_unified_again(tmp_path), "two").members() == []


def pure_unified_again(root: Path) -> Hierarchies:
    return Hierarchies.of(mountinfo((root, "cgroup2", "rw")))


def test_a_group_is_made_and_ends_with_its_supervisor(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    group = Group(hybrid(tmp_path), "one")
    make(supervisor, group)
    assert all(folder.is_dir() for folder in group.folders)

    assert supervisor.close()

    assert not any(folder.exists() for folder in group.folders)


def test_removing_twice_is_fine(tmp_path: Path) -> None:
    group = Group(hybrid(tmp_path), "one")
    for folder in group.folders:
        folder.mkdir()

    group.remove()
    group.remove()

    assert not any(folder.exists() for folder in group.folders)


def test_a_group_that_cannot_be_made_whole_does_not_stay(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    group = Group(hybrid(tmp_path), "one")
    last = group.folders[-1]
    last.mkdir()

    with pytest.raises(Refused, match="making a control group: File exists"):
        make(supervisor, group)

    supervisor.close()
    assert [folder for folder in group.folders if folder.exists()] == [last]


def test_folders_that_cannot_be_made_name_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("memory pids")
    (tmp_path / FOLDER).write_text("a file where the folder should be")
    hierarchies = Hierarchies.of(mountinfo((tmp_path, "cgroup2", "rw")))

    with pytest.raises(MissingRequirement, match="cgroupns=host"):
        hierarchies.prepare()

from __future__ import annotations

import os
import stat
import tarfile
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.errors import CallerError, SnapshotError
from rlvr_envs.rollouts.episodes import Job, run_episode
from rlvr_envs.rollouts.policies import named
from rlvr_envs.rollouts.states import (
    digest_of_file,
    keep_state,
    pack,
    start_of,
    unpack,
)
from rlvr_envs.snapshots.overlay import AGENT_ID_BASE, OPAQUE
from rlvr_envs.trajectories.store import read
from tests.rollouts.toy import make_toy

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root for owners")

BASE = AGENT_ID_BASE


def upper(folder: Path) -> Path:
    """Make a writable layer with one of each thing that one can hold."""
    root = folder / "upper"
    (root / "app" / "opaque").mkdir(parents=True)
    (root / "app" / "run.sh").write_bytes(b"#!/bin/sh\n")
    (root / "app" / "run.sh").chmod(0o4755)
    os.link(root / "app" / "run.sh", root / "app" / "again.sh")
    (root / "app" / "key").symlink_to("/etc/shadow")
    os.mkfifo(root / "app" / "pipe")
    os.mknod(root / "app" / "gone", stat.S_IFCHR, 0)
    (root / "naïve\udcff").write_text("odd name")
    os.setxattr(root / "app" / "opaque", OPAQUE, b"y")
    for path in [root, *root.rglob("*")]:
        if path.name != "gone":
            os.chown(path, BASE + 1000, BASE + 1000, follow_symlinks=False)
    (root / "app").chmod(0o1777)
    os.utime(root / "app" / "run.sh", (1_705_309_200, 1_705_309_200))
    return root


def look(root: Path) -> dict[str, Any]:
    """Return what a layer means, without its host ids."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        info = path.lstat()
        owner = info.st_uid % BASE
        content = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
        link = str(path.readlink()) if path.is_symlink() else ""
        moment = int(info.st_mtime) if stat.S_ISREG(info.st_mode) else 0
        name = str(path.relative_to(root))
        found[name] = (oct(info.st_mode), owner, content, link, info.st_nlink, moment)
    return found


def test_a_kept_state_comes_back_as_it_was(tmp_path: Path) -> None:
    made = upper(tmp_path)
    digest = pack(made, tmp_path / "x.state.tar")

    state = unpack(tmp_path / "x.state.tar", digest, tmp_path / "store")

    assert look(state.layer.path) == look(made)
    assert os.getxattr(state.layer.path / "app" / "opaque", OPAQUE) == b"y"
    assert (state.layer.digest, state.layer.shifted) == (digest, False)
    state.close()
    state.close()
    assert not state.folder.exists()


def test_the_same_state_has_the_same_digest(tmp_path: Path) -> None:
    made = upper(tmp_path)

    assert pack(made, tmp_path / "a.tar") == pack(made, tmp_path / "b.tar")


def test_a_changed_archive_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "x.state.tar"
    digest = pack(upper(tmp_path), archive)
    archive.write_bytes(archive.read_bytes().replace(b"#!/bin/sh", b"#!/bin/ex"))

    with pytest.raises(SnapshotError, match=r"not what its digest says.*Remedy"):
        unpack(archive, digest, tmp_path / "store")
    with pytest.raises(SnapshotError, match="missing"):
        unpack(tmp_path / "none.tar", digest, tmp_path / "store")


def forged(folder: Path, *items: tarfile.TarInfo) -> tuple[Path, str]:
    archive = folder / "forged.tar"
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as tar:
        for item in items:
            tar.addfile(item)

    return archive, digest_of_file(archive)


def item(name: str, kind: bytes = tarfile.REGTYPE, **facts: Any) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type = kind
    for fact, value in facts.items():
        setattr(made, fact, value)
    return made


@pytest.mark.parametrize(
    "items",
    [
        [item("../escape")],
        [item("up", tarfile.SYMTYPE, linkname="/srv"), item("up/escape")],
        [item("disk", tarfile.BLKTYPE, devmajor=8)],
        [item("mem", tarfile.CHRTYPE, devmajor=1, devminor=1)],
        [item("hard", tarfile.LNKTYPE, linkname="../../../../../etc/shadow")],
    ],
)
def test_an_archive_that_reaches_out_is_refused(
    tmp_path: Path, items: list[tarfile.TarInfo]
) -> None:
    archive, digest = forged(tmp_path, *items)
    store = tmp_path / "a" / "store"

    with pytest.raises(SnapshotError):
        unpack(archive, digest, store)

    assert list(store.iterdir()) == []
    assert not (tmp_path / "a" / "escape").exists()


def test_an_environment_without_states_says_so(tmp_path: Path) -> None:
    env = make_toy(record=tmp_path)
    result = run_episode(env, Job("sum", 0, 0, named("null")))
    assert result.trajectory is not None

    with pytest.raises(CallerError, match="cannot keep its final state"):
        keep_state(env, result.trajectory)


def test_an_episode_without_a_verdict_cannot_be_scored_again(tmp_path: Path) -> None:
    env = make_toy(record=tmp_path)
    env.reset(seed=0)
    path = env.get_wrapper_attr("trajectory_path")

    with pytest.raises(CallerError, match="not recorded to a verdict"):
        start_of(env, read(path)).__enter__()

"""Final states: kept beside their trajectory as an archive, and scored again.

The archive is a tar of the episode's writable layer: plain ids, whiteouts as
character devices 0:0, opaque folders as extended attributes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym

from rlvr_envs.envs.options import Start
from rlvr_envs.errors import CallerError, SnapshotError, boundary
from rlvr_envs.records import Layer
from rlvr_envs.rollouts.policies import submission
from rlvr_envs.rollouts.replay import check_digests, options_of
from rlvr_envs.snapshots.overlay import AGENT_ID_BASE
from rlvr_envs.snapshots.sealing import seal
from rlvr_envs.trajectories.encoding import encode
from rlvr_envs.trajectories.record import Kind, Trajectory
from rlvr_envs.trajectories.store import append_line

SUFFIX = ".state.tar"
_XATTR = "SCHILY.xattr."
_KEPT_ATTRIBUTES = ("trusted.overlay.opaque", "user.")
_NEVER_S = 1 << 33


@dataclass(frozen=True, slots=True)
class Unpacked:
    """A kept state as a layer that episodes can start from."""

    layer: Layer
    folder: Path

    def close(self) -> None:
        """Remove its files; idempotent."""
        shutil.rmtree(self.folder, ignore_errors=True)


def keep_state(env: gym.Env[Any, Any], trajectory: Path) -> Path:
    """Archive the final state of the episode that just ended.

    Its name and digest become a line of the trajectory.

    Args:
        env: Its last episode has ended; it must be reset before the next step.
        trajectory: That episode's file.

    Raises:
        CallerError: If this environment cannot show its final state.
        WorldError: If the state cannot be copied.
    """
    start = _sealed(env)
    archive = trajectory.with_name(trajectory.name.removesuffix(".jsonl") + SUFFIX)
    try:
        layer = start.layers[-1].layer
        id_base = AGENT_ID_BASE if layer.shifted else 0
        digest = pack(layer.path, archive, id_base=id_base)
    finally:
        start.close()
    line = {"kind": Kind.STATE, "file": archive.name, "digest": digest}
    append_line(trajectory, encode(line))
    return archive


def pack(upper: Path, archive: Path, *, id_base: int = AGENT_ID_BASE) -> str:
    """Write a writable layer as an archive; return its ``sha256:...``."""
    with (
        boundary(SnapshotError, f"keeping the final state in {archive.name}"),
        tempfile.TemporaryDirectory(dir=archive.parent) as folder,
    ):
        tree = Path(folder) / "tree"
        tree.mkdir()
        seal(upper, tree, latest_s=_NEVER_S, id_base=id_base)
        made = Path(folder) / "tar"
        with tarfile.open(made, "w", format=tarfile.PAX_FORMAT) as tar:
            tar.add(tree, arcname=".", filter=lambda item: _dressed(item, tree))
        made.rename(archive)
    return digest_of_file(archive)


def digest_of_file(path: Path) -> str:
    """Return ``sha256:...`` of a file's bytes."""
    with path.open("rb") as stream:
        return f"sha256:{hashlib.file_digest(stream, 'sha256').hexdigest()}"


def _dressed(item: tarfile.TarInfo, tree: Path) -> tarfile.TarInfo:
    """Add the attributes that mean something; drop what this host put in."""
    item.uname = item.gname = ""
    if item.name == "." or item.ischr():
        item.mtime = 0
    path = tree / item.name
    if not item.issym():
        item.pax_headers = {
            _XATTR + name: os.getxattr(path, name).decode("utf-8", "surrogateescape")
            for name in os.listxattr(path)
            if name.startswith(_KEPT_ATTRIBUTES)
        }
    return item


def unpack(archive: Path, digest: str, store: Path) -> Unpacked:
    """Lay an archive out beneath a store.

    Raises:
        SnapshotError: If it is missing, changed, or holds what no state holds.
    """
    if not archive.is_file() or digest_of_file(archive) != digest:
        raise SnapshotError(
            f"The final state {archive} is missing or not what its digest says.",
            remedy="record the episode again with --keep-state",
        )
    store.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="state-", dir=store))
    try:
        with (
            boundary(SnapshotError, f"unpacking {archive.name}"),
            tarfile.open(archive) as tar,
        ):
            # Every member is admitted by ourselves: Debian 12's Python has no filters.
            tar.extraction_filter = staticmethod(lambda item, _path: item)
            members = (_admitted(item, folder) for item in tar)
            tar.extractall(folder, members, numeric_owner=True)  # noqa: S202
            _dress_again(tar, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Unpacked(Layer(digest=digest, path=folder), folder)


def _admitted(item: tarfile.TarInfo, folder: Path) -> tarfile.TarInfo:
    """Return a member as it is, if it stays inside and is no real device.

    Called just before the member is laid: links laid earlier count.
    """
    parts = Path(item.name).parts
    inside = Path(folder, *parts[:-1]).resolve()
    if item.name.startswith("/") or ".." in parts or not _beneath(inside, folder):
        raise SnapshotError(f"The state leads out of itself: {item.name}.")
    if item.isdev() and not item.isfifo():
        whiteout = item.ischr() and (item.devmajor, item.devminor) == (0, 0)
        if not whiteout:
            raise SnapshotError(f"The state holds a device: {item.name}.")
    if item.islnk() and not _beneath(Path(folder, item.linkname).resolve(), folder):
        raise SnapshotError(f"The state links out of itself: {item.name}.")
    return item


def _beneath(path: Path, folder: Path) -> bool:
    return path.is_relative_to(folder.resolve())


def _dress_again(tar: tarfile.TarFile, folder: Path) -> None:
    for item in tar.getmembers():
        for name, value in item.pax_headers.items():
            attribute = name.removeprefix(_XATTR)
            if name != attribute and attribute.startswith(_KEPT_ATTRIBUTES):
                data = value.encode("utf-8", "surrogateescape")
                os.setxattr(folder / item.name, attribute, data, follow_symlinks=False)
    root = folder.stat()
    if stat.S_IMODE(root.st_mode) & 0o700 != 0o700:
        folder.chmod(stat.S_IMODE(root.st_mode) | 0o700)


@contextmanager
def start_of(
    env: gym.Env[Any, Any], recorded: Trajectory
) -> Iterator[tuple[Start, str]]:
    """Give the final state of a recorded episode as a place to start from.

    It is unpacked where it was kept, else made again by playing the calls.

    Yields:
        The start, and where it came from: ``kept`` or ``replayed``.

    Raises:
        CallerError: If the episode was not recorded to a verdict.
        SnapshotError: If the record stands on other digests, or the state changed.
    """
    if not recorded.outcome:
        raise CallerError(
            f"{recorded.path} was not recorded to a verdict.",
            remedy="record the episode to its end",
        )
    line = next(recorded.of(Kind.STATE), None)
    start = _replayed(env, recorded) if line is None else _kept(env, recorded, line)
    try:
        yield start, "replayed" if line is None else "kept"
    finally:
        start.close()


def _kept(
    env: gym.Env[Any, Any], recorded: Trajectory, line: Mapping[str, Any]
) -> Start:
    header = recorded.header
    env.reset(seed=header["seed"], options=options_of(recorded))
    check_digests(env, recorded)
    folder = recorded.path.parent if recorded.path else Path()
    places = env.get_wrapper_attr("places")
    archive = folder / Path(line["file"]).name
    layer = unpack(archive, line["digest"], places.store)
    return Start(env.get_wrapper_attr("instance"), (layer,))


def _replayed(env: gym.Env[Any, Any], recorded: Trajectory) -> Start:
    header, over = recorded.header, False
    env.reset(seed=header["seed"], options=options_of(recorded))
    check_digests(env, recorded)
    for turn in recorded.turns:
        _, _, terminated, truncated, _ = env.step(turn.action)
        over = terminated or truncated
        if over:
            break
    if not over:
        raise CallerError(
            f"{recorded.path} did not end when it was played again.",
            remedy="compare it with `rlvr replay`",
        )
    return _sealed(env)


def _sealed(env: gym.Env[Any, Any]) -> Start:
    try:
        start: Start = env.get_wrapper_attr("seal")()
    except AttributeError as error:
        raise CallerError(
            "This environment cannot keep its final state.",
            remedy="leave out --keep-state",
        ) from error
    return start


def score(
    env: gym.Env[Any, Any], start: Start, recorded: Trajectory
) -> Mapping[str, Any]:
    """Judge a final state once, and return the outcome."""
    drawn = recorded.header["provenance"].get("runtime_seed")
    options = {"start": start, **({} if drawn is None else {"runtime_seed": drawn})}
    env.reset(seed=recorded.header["seed"], options=options)
    info = env.step(submission(env.get_wrapper_attr("tool_specs")))[4]
    outcome: Mapping[str, Any] = info["outcome"]
    return outcome

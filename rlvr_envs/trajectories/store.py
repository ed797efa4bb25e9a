"""Trajectories on disk: a line at a time, one writer a file, readable after a crash.

A line is handed to the kernel whole, in one write, before the step returns; so a
killed trainer loses nothing but the line it was writing. Power loss is not covered:
call `Writer.sync` where it has to be.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rlvr_envs.errors import CallerError
from rlvr_envs.records import JsonObject
from rlvr_envs.trajectories.record import SCHEMA, Kind, Trajectory

SUFFIX = ".jsonl"

SCORE_SUFFIX = ".score.json"
"""Ending of a ticket's score that stands beside its trajectory."""


class Writer:
    """Appends lines to one file that nobody else writes.

    Raises:
        CallerError: If somebody else is writing the file.
        OSError: If the file cannot be made or written; what was written whole
            before stays, a half-written line is cut off.
    """

    def __init__(self, path: Path, *, fresh: bool = True) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC
        made = os.O_CREAT | os.O_EXCL if fresh else 0
        self.path = path
        self._fd = os.open(path, flags | made, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self.close()
            raise CallerError(
                f"{path} is being written by somebody else.",
                remedy="wait until that episode has ended, or copy the file",
            ) from error
        self._size = os.fstat(self._fd).st_size

    def append(self, *lines: bytes) -> None:
        """Append lines (without line ends), all or none of them."""
        data = b"".join(line + b"\n" for line in lines)
        try:
            written = os.write(self._fd, data)
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)

    def sync(self) -> None:
        """Wait until what was written is on the disk."""
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Release the file; idempotent."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def new_writer(folder: Path, stem: str) -> Writer:
    """Claim a file of a name that nobody else has.

    Args:
        folder: Made if it is missing.
        stem: What the name starts with; characters that are awkward in a file
            name become dashes.

    Raises:
        OSError: If the folder or the file cannot be made.
    """
    folder.mkdir(parents=True, exist_ok=True)
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.") or "episode"
    while True:
        try:
            return Writer(folder / f"{safe}.{secrets.token_hex(4)}{SUFFIX}")
        except FileExistsError:
            continue


def append_line(path: Path, line: bytes) -> None:
    """Add a line to a file whose episode has ended.

    Raises:
        CallerError: If the episode is still being written.
        OSError: If the file cannot be opened or written.
    """
    writer = Writer(path, fresh=False)
    try:
        writer.append(line)
    finally:
        writer.close()


def read(path: Path | str) -> Trajectory:
    """Read a trajectory, however its writer ended.

    A last line that was cut short is left out and counted in `torn_bytes`.

    Raises:
        CallerError: If there is no such file, if a line before the last is not
            JSON, if it is no trajectory, or if its schema is newer than ours.
    """
    path = Path(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise CallerError(
            f"{path} cannot be read: {error.strerror}.",
            remedy="name a .jsonl file that `rlvr run --out` wrote",
        ) from error
    trajectory = parse(data.split(b"\n"), path=path)
    _check_header(trajectory, path)
    return trajectory


def parse(raw: Sequence[bytes], *, path: Path | None = None) -> Trajectory:
    """Decode lines; the last may be empty, cut short, or lack its line end."""
    *whole, last = raw or [b""]
    lines = [_decode(text, path, number) for number, text in enumerate(whole, 1)]
    try:
        lines.extend([_decode(last, path, len(raw))] if last else [])
    except CallerError:
        return Trajectory(tuple(lines), path=path, torn_bytes=len(last))
    return Trajectory(tuple(lines), path=path)


def _decode(text: bytes, path: Path | None, number: int) -> JsonObject:
    try:
        line: Any = json.loads(text)
    except ValueError:
        line = None
    if not isinstance(line, dict) or "kind" not in line:
        raise CallerError(
            f"{path}:{number}: this line is no event of a trajectory.",
            remedy="record the episode again; only a last line may be cut short",
        )
    return line


def _check_header(trajectory: Trajectory, path: Path) -> None:
    if trajectory.lines and trajectory.lines[0]["kind"] != Kind.HEADER:
        raise CallerError(
            f"{path}:1: a trajectory starts with a header.",
            remedy="name a .jsonl file that `rlvr run --out` wrote",
        )
    schema = trajectory.header.get("schema", SCHEMA)
    if schema != SCHEMA:
        raise CallerError(
            f"{path}:1: schema {schema!r} is not one that this version reads.",
            remedy=f"use the version of rlvr-envs that wrote it (this one: {SCHEMA})",
        )

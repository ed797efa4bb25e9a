"""One change of an episode, with what stood there before and after."""

from __future__ import annotations

import os
from dataclasses import dataclass

from rlvr_envs.records import Snapshot
from rlvr_envs.state import Change, FrozenState
from rlvr_envs.verifiers import opening

READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Seen:
    """One change, with what is needed to judge it."""

    change: Change
    frozen: FrozenState

    def now(self) -> bytes:
        """Return the file's content; empty where there is none."""
        return _content(self.frozen, self.change.path)

    def before(self) -> bytes:
        """Return the content that the snapshot had; empty where it had none."""
        return original(self.frozen.snapshot, self.change.path)


def original(snapshot: Snapshot, path: str) -> bytes:
    """Return a file's content in the snapshot; empty where it had none."""
    for layer in reversed(snapshot.layers):
        try:
            return opening.read(layer.path, path, limit_bytes=READ_BYTES)
        except opening.Refused as error:
            if not error.missing:
                return b""
    return b""


def exists(snapshot: Snapshot, path: str) -> bool:
    """Return whether something stood at a path in the snapshot."""
    return any(
        os.path.lexists(layer.path / path.lstrip("/")) for layer in snapshot.layers
    )


def _content(frozen: FrozenState, path: str) -> bytes:
    try:
        return opening.read(frozen.root, path, limit_bytes=READ_BYTES)
    except opening.Refused:
        return b""

"""How a living file system differs from its snapshot, as potentials read it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from rlvr_envs.records import Verification
from rlvr_envs.state import Change, StateDiff
from rlvr_envs.verifiers import guards, ingest, opening

DIGESTS = "sha256"
"""The fact that maps a declared file's path to its content's digest."""

FILES_MAX = 64
READ_BYTES = 1 << 20


def state_diff(
    changes: Sequence[Change], tops: Sequence[Path], verification: Verification
) -> StateDiff:
    """Return the changes, those outside the declared set, and what files hold now.

    Args:
        changes: Against the snapshot, sorted by path.
        tops: Host folders of the writable layers, the uppermost first; nobody writes
            to them meanwhile.
        verification: Declares what the task may change.

    Returns:
        Its fact ``sha256`` has the hexadecimal digests of the first 64 changed files
        of the declared set; one of more than 1 MiB is left out.
    """
    outside = guards.undeclared(changes, verification)
    files = [
        change.path
        for change in changes
        if change.type == "file"
        and change.kind in ("added", "modified")
        and change not in outside
    ]
    return StateDiff(
        changes=tuple(changes),
        collateral=tuple(sorted(ingest.shown(change.path) for change in outside)),
        facts={DIGESTS: dict(_digests(files[:FILES_MAX], tops))},
    )


def _digests(paths: Sequence[str], tops: Sequence[Path]) -> Iterator[tuple[str, str]]:
    for path in paths:
        for top in tops:
            try:
                data = opening.read(top, path, limit_bytes=READ_BYTES)
            except opening.Refused as refused:
                if refused.missing:
                    continue
                break
            yield path, hashlib.sha256(data).hexdigest()
            break

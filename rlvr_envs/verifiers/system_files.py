"""Files of the final root: existence, type, mode, owner and content."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from rlvr_envs.errors import SnapshotError
from rlvr_envs.records import Check, JsonObject
from rlvr_envs.snapshots.beneath import resolve_parent
from rlvr_envs.state import FrozenState
from rlvr_envs.verifiers import content, opening
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier

_MODE = {"type": "string", "pattern": "^0?[0-7]{3,4}$"}
_ID = {"type": "integer", "minimum": 0, "maximum": 65535}

_ROW = {
    "type": "object",
    "properties": {
        "path": content.PATH,
        "exists": {"type": "boolean"},
        "type": {"enum": ["file", "dir", "link"]},
        "mode": _MODE,
        "mode_mask_clear": _MODE,
        "user": _ID,
        "group": _ID,
        "target": {"type": "string"},
        **content.EXPECTATIONS,
    },
    "required": ["path"],
    "additionalProperties": False,
}


class SystemFiles(Verifier):
    """Reads the final root on the host; one check for each path.

    Options: ``paths``, a list of rows with ``path`` and any of ``exists``,
    ``type``, ``mode``, ``mode_mask_clear``, ``user``, ``group``, ``target`` and what
    `FileContent` knows.
    """

    schema: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {"paths": {"type": "array", "minItems": 1, "items": _ROW}},
        "required": ["paths"],
        "additionalProperties": False,
    }

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        return Findings(
            tuple(self._row(row, frozen, context) for row in self.options["paths"])
        )

    def _row(
        self, row: Mapping[str, Any], frozen: FrozenState, context: Context
    ) -> Check:
        reason = next(_problems(row, frozen, context), "")
        text = f"{row['path']} {reason}" if reason else ""
        return Check(f"{self.spec.name}: {row['path']}", not reason, text)


def _problems(
    row: Mapping[str, Any], frozen: FrozenState, context: Context
) -> Iterator[str]:
    try:
        path = resolve_parent(frozen.root, row["path"])
    except SnapshotError:
        yield "is behind links that go round in circles"
        return
    info = path.lstat() if os.path.lexists(path) else None
    if info is None or not row.get("exists", True):
        if (info is not None) != row.get("exists", True):
            yield "is missing" if info is None else "exists"
        return
    kind = opening.kind_of(info.st_mode)
    if kind != row.get("type", kind):
        yield f"is a {kind}"
    yield from _attributes(row, info, frozen.id_base)
    if "target" in row and (kind != "link" or str(path.readlink()) != row["target"]):
        yield "does not lead where it should"
    if any(name in row for name in content.EXPECTING):
        yield from _content(row, frozen, context)


def _attributes(
    row: Mapping[str, Any], info: os.stat_result, id_base: int
) -> Iterator[str]:
    mode = stat.S_IMODE(info.st_mode)
    if "mode" in row and mode != int(row["mode"], 8):
        yield f"has mode {mode:04o}"
    if mode & int(row.get("mode_mask_clear", "0"), 8):
        yield f"has mode {mode:04o}"
    for key, found in (("user", info.st_uid), ("group", info.st_gid)):
        if key in row and found - id_base != row[key]:
            yield f"belongs to {key} {found - id_base}"


def _content(
    row: Mapping[str, Any], frozen: FrozenState, context: Context
) -> Iterator[str]:
    limit = row.get("max_bytes", content.LIMIT_BYTES)
    try:
        data = opening.read(frozen.root, row["path"], limit_bytes=limit)
    except opening.Refused as error:
        yield f"cannot be read: {error}"
        return
    if text := content.problem(data, row, context):
        yield f"is wrong: {text}"

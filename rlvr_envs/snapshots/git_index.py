"""A git index without what it remembers of the machine that wrote it."""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path

HEADER = struct.Struct(">4sII")
VERSIONS = (2, 3)
STAT_BYTES = 40
MODE = slice(24, 28)
NAME_AT = 62
EXTENDED = 0x4000
TRAILER_BYTES = 20


def forget_stats(index: Path) -> None:
    """Set times, inode numbers, owners and sizes in an index file to zero.

    Git looks at the files again when it next needs to know; what is staged stays.
    An index of a form that is not known stays as it is. Owner, mode and times of
    the file itself are kept.

    Source:
        Git's own documentation of the index format (gitformat-index).
    """
    info = index.stat()
    data = bytearray(index.read_bytes())
    if len(data) < HEADER.size + TRAILER_BYTES:
        return
    signature, version, count = HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in VERSIONS:
        return
    at = HEADER.size
    for _ in range(count):
        mode = data[at : at + STAT_BYTES][MODE]
        data[at : at + STAT_BYTES] = bytes(STAT_BYTES)
        data[at + MODE.start : at + MODE.stop] = mode
        at = _next_entry(data, at)
    content = bytes(data[:-TRAILER_BYTES])
    digest = hashlib.sha1(content, usedforsecurity=False).digest()
    index.write_bytes(content + digest)
    os.utime(index, ns=(info.st_mtime_ns, info.st_mtime_ns))


def _next_entry(data: bytearray, at: int) -> int:
    """Return where the next entry begins: names are padded to eights."""
    flags = int.from_bytes(data[at + NAME_AT - 2 : at + NAME_AT], "big")
    name_at = at + NAME_AT + (2 if flags & EXTENDED else 0)
    end = data.index(0, name_at)
    return at + (end - at + 8) // 8 * 8

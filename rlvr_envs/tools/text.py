"""Text for a reader with a byte budget: nothing hidden, nothing split."""

from __future__ import annotations

import unicodedata

_SNAP_CHARS = 200
_JOINER = "\u200d"
_KEPT_CONTROLS = frozenset("\t\n")

_INVISIBLE = (
    range(0x20),
    range(0x7F, 0xA0),
    (0xAD, 0x61C, 0x180E, 0x200B, 0xFEFF, 0xFFFD, 0xFFFE, 0xFFFF),
    range(0x2028, 0x202F),
    range(0x2060, 0x2070),
    range(0xFFF9, 0xFFFC),
    range(0xE0000, 0xE0080),
)


def _picture(code: int) -> str:
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


_PICTURES = {
    code: _picture(code)
    for codes in _INVISIBLE
    for code in codes
    if chr(code) not in _KEPT_CONTROLS
}


def show_invisible(text: str) -> str:
    r"""Return text in which whatever a reader cannot see is written out.

    Controls become ``\xHH``; line and paragraph separators, bidirectional controls,
    zero-width spaces, soft hyphens, tags, C1 controls and U+FFFD become ``\uHHHH``.
    Tab and newline stay, and so do the joiners and marks that scripts and emoji
    are written with.

    Source:
        Own rule: ARCHITECTURE.md#observations.
    """
    return text.translate(_PICTURES)


def decode(data: bytes) -> str:
    r"""Return UTF-8 as text, each byte that is not UTF-8 as ``\xHH``."""
    return data.decode("utf-8", "backslashreplace")


def clip(
    text: str, limit_bytes: int, *, log_path: str = "", omitted_bytes: int = 0
) -> tuple[str, int]:
    """Cut the middle out of a text that is too long.

    Head and tail get half of the room each. The cut falls between characters,
    does not part a mark or a joined emoji from its base, and moves to a line's end
    that is near. Same text in, same text out.

    Args:
        text: Encodable as UTF-8.
        limit_bytes: Most UTF-8 bytes of the result, marker included.
        log_path: Where the whole text can be read; named in the marker.
        omitted_bytes: What was cut from the middle before; the marker adds it.

    Returns:
        The text, and how many of its bytes were left out now (0 if none).

    Raises:
        ValueError: If the limit leaves no room beside the marker.
    """
    data = text.encode()
    if len(data) <= limit_bytes:
        return text, 0
    room = limit_bytes - len(_marker(len(data) + omitted_bytes, log_path).encode()) - 2
    if room < 0:
        raise ValueError(f"limit_bytes={limit_bytes} leaves no room for a marker.")
    head = _head(data[: room // 2], text)
    tail = _tail(data[len(data) - (room - room // 2) :], text)
    cut = len(data) - len(head.encode()) - len(tail.encode())
    marker = _marker(cut + omitted_bytes, log_path)
    before = "" if head.endswith("\n") or not head else "\n"
    return f"{head}{before}{marker}\n{tail}", cut


def _marker(count: int, log_path: str) -> str:
    where = f"; full output: {log_path}" if log_path else ""
    return f"[... {count} bytes omitted{where} ...]"


def _head(data: bytes, text: str) -> str:
    head = data.decode("utf-8", "ignore")
    end = len(head)
    while 0 < end < len(text) and not _may_part(text[end - 1], text[end]):
        end -= 1
    line = text.rfind("\n", max(0, end - _SNAP_CHARS), end)
    return text[: line + 1 if line >= 0 else end]


def _tail(data: bytes, text: str) -> str:
    # A cut inside a sequence leaves at most three stray continuation bytes.
    tail = data.decode("utf-8", "ignore")
    start = len(text) - len(tail)
    while 0 < start < len(text) and not _may_part(text[start - 1], text[start]):
        start += 1
    line = text.find("\n", start, min(len(text) - 1, start + _SNAP_CHARS))
    return text[line + 1 if line >= 0 else start :]


def _may_part(before: str, after: str) -> bool:
    if _JOINER in (before, after):
        return False
    if "\U0001f3fb" <= after <= "\U0001f3ff":
        return False
    return not unicodedata.category(after).startswith("M")

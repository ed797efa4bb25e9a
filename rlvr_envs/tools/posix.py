"""Checks of arguments that become those of a program."""

from __future__ import annotations

from collections.abc import Sequence

MAX_ARGV_BYTES = 128 * 1024
"""All arguments with their NULs and pointers: the kernel's limit for one argument,
and well below what it takes in all, so that the environment fits beside them."""

_POINTER_BYTES = 8
_NAME_MAX_BYTES = 255
_PATH_MAX_BYTES = 4096


def check_argv(argv: Sequence[str]) -> str:
    """Complain of arguments that ``execve`` would refuse.

    Returns:
        An empty string if they are fine.
    """
    if not argv or not argv[0]:
        return "argv[0] names no program."
    for at, arg in enumerate(argv):
        if "\0" in arg:
            return f"argv[{at}] holds a NUL byte, which ends an argument."
    total = sum(len(arg.encode()) + 1 + _POINTER_BYTES for arg in argv)
    if total > MAX_ARGV_BYTES:
        return f"Argument list too long: {total} bytes, {MAX_ARGV_BYTES} are the most."
    return ""


def check_path(path: str, name: str) -> str:
    """Complain of a path that no system call would take.

    Args:
        path: Absolute or relative.
        name: The argument that it came in, for the message.
    """
    if not path:
        return f"{name} is empty: No such file or directory."
    if "\0" in path:
        return f"{name} holds a NUL byte, which ends a path."
    data = path.encode()
    if len(data) >= _PATH_MAX_BYTES:
        return f"{name} has {len(data)} bytes: File name too long."
    if any(len(part) > _NAME_MAX_BYTES for part in data.split(b"/")):
        return f"{name} has a part of over {_NAME_MAX_BYTES} bytes: File name too long."
    return ""


def check_text(text: str, name: str) -> str:
    """Complain of a NUL byte in a shell's input."""
    return f"{name} holds a NUL byte." if "\0" in text else ""

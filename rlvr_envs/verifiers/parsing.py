"""Reading Python sources as trees: with limits, never executed."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

SOURCE_BYTES = 1 << 20
NESTING = 200

_DEEPER = b"([{"
_BACK = b")]}"


class Unreadable(Exception):
    """A source that is no Python, or too large or too deep to be parsed."""


def parse(source: bytes) -> ast.Module:
    """Return the tree of a module.

    Raises:
        Unreadable: If there is none within the limits.
    """
    if len(source) > SOURCE_BYTES:
        raise Unreadable(f"it has more than {SOURCE_BYTES} bytes")
    if _nesting(source) > NESTING:
        raise Unreadable(f"it is nested deeper than {NESTING}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise Unreadable(f"it is no Python: {type(error).__name__}") from None


def _nesting(source: bytes) -> int:
    depth = most = 0
    for byte in source:
        if byte in _DEEPER:
            depth += 1
            most = max(most, depth)
        elif byte in _BACK:
            depth -= 1
    return most


def dotted(node: ast.AST) -> str:
    """Return ``a.b.c`` for a chain of names; its unknown root is ``*``."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    parts.append(node.id if isinstance(node, ast.Name) else "*")
    return ".".join(reversed(parts))


def imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield (local name, dotted origin) of every import in a tree."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                top = item.name.partition(".")[0]
                yield (item.asname or top, item.name if item.asname else top)
        elif isinstance(node, ast.ImportFrom):
            for item in node.names:
                origin = f"{'.' * node.level}{node.module or ''}"
                yield item.asname or item.name, f"{origin}.{item.name}"


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Yield functions, classes and methods by dotted name, not those in functions."""
    for node in getattr(tree, "body", []):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield f"{prefix}{node.name}", node
        if isinstance(node, ast.ClassDef):
            yield from definitions(node, f"{prefix}{node.name}.")

"""Globs over absolute paths: ``*`` stays within a name, ``**`` crosses folders."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_PIECES = re.compile(r"/\*\*$|\*\*/|\*\*|\*|\?|\[[^\]]+\]|[^*?\[]+|\[")
_RULES = {"/**": "(?:/.*)?", "**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@lru_cache(maxsize=4096)
def compiled(*globs: str) -> re.Pattern[str]:
    """Return one pattern of globs; ``/app/**`` is ``/app`` and all beneath it."""
    parts = ("".join(map(_translate, _PIECES.findall(glob))) for glob in globs)
    return re.compile("|".join(f"(?:{part})" for part in parts), re.DOTALL)


def _translate(piece: str) -> str:
    if piece in _RULES:
        return _RULES[piece]
    if piece.startswith("[") and len(piece) > 1:
        return piece.replace("[!", "[^", 1)
    return re.escape(piece)


def matches(path: str, globs: Iterable[str]) -> bool:
    """Return whether any of the globs covers a path."""
    every = tuple(globs)
    return bool(every) and compiled(*every).fullmatch(path) is not None


def beneath(path: str, folder: str) -> bool:
    """Return whether a path is a folder or lies in it; both lexical, absolute."""
    folder = folder.rstrip("/")
    return path == folder or path.startswith(f"{folder}/")

"""Git repositories that hold their history and nothing else."""

from __future__ import annotations

from pathlib import Path


def check_tree(root: Path) -> None:
    """Placeholder until the next commit."""

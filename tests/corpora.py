"""Where data sets that are no part of the project stand on this machine."""

from __future__ import annotations

import os
from pathlib import Path

_BESIDE = Path(__file__).parents[2] / "shared" / "corpora"
"""A folder beside the checkout; most machines have none."""


def corpus(name: str) -> tuple[Path, str]:
    """Return a data set's folder, and why a test that needs it is skipped.

    Args:
        name: Its folder's; ``RLVR_CORPUS_<NAME>`` names another place.

    Returns:
        The folder, and an empty text if it is there.
    """
    variable = f"RLVR_CORPUS_{name.upper()}"
    folder = Path(os.environ.get(variable) or _BESIDE / name)
    missing = f"no corpus {name}: {variable} names no folder, none is beside the clone"
    return folder, "" if folder.is_dir() else missing

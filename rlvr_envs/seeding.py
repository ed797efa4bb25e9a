"""Randomness: one generator for each purpose, derived from names and numbers."""

from __future__ import annotations

import numpy as np

from rlvr_envs.records import digest_of


def generator(*names: str | int) -> np.random.Generator:
    """Return the generator that belongs to a purpose.

    Args:
        names: What it is for, from the general to the particular, such as
            ``("instance", "log-forensics", 1, 7)``. The same names give the same
            stream in every process and on every machine.
    """
    digest = digest_of([str(name) for name in names]).removeprefix("sha256:")
    return np.random.Generator(np.random.PCG64(int(digest, 16)))

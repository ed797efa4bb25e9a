"""The contract that every source of an image keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

LATEST_S = 1_704_067_200
"""2024-01-01 00:00:00 UTC: no file of an image is younger, unless it is asked for."""

Progress = Callable[[str], None]


def silent(message: str) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a tree came from.

    Attributes:
        source: ``debian``, ``docker``, ``oci`` or ``folder``.
        reference: What was asked for: a suite, a Docker or OCI digest, a folder.
        tool: Name and version of what made it.
        recipe: Digest of the recipe; empty where there is none.
        packages: Exact version by package, where the tree has a package database.
    """

    source: str
    reference: str
    tool: str
    recipe: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)


class Source(Protocol):
    """Something that can fill an empty folder with a root file system."""

    @property
    def latest_s(self) -> int:
        """No file of the finished image may be younger, in seconds, UTC."""

    def fill(self, root: Path, *, progress: Progress) -> Provenance:
        """Lay the whole tree into an empty folder, owners and modes included.

        Raises:
            MissingRequirement: If the machine lacks what the source needs.
            SnapshotError: If the source is damaged, or is not what was asked for.
        """

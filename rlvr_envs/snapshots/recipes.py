"""What images are made of: the recipes and the lock that ship with the package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rlvr_envs.errors import CallerError
from rlvr_envs.records import digest_of
from rlvr_envs.snapshots.locking import write_atomically

RECIPES = Path(__file__).with_name("images.yaml")
LOCK = Path(__file__).with_name("images.lock.yaml")


@dataclass(frozen=True, slots=True)
class ImageRecipe:
    """How to make an image out of a distribution's packages.

    Attributes:
        suite: The distribution's release, such as ``bookworm``.
        packages: What is installed beside the essential packages, sorted.
        latest_s: No file carries a later modification time (seconds, UTC), so that
            nothing in the image lies in the future of a task's epoch.
    """

    name: str
    suite: str
    packages: tuple[str, ...]
    latest_s: int

    @property
    def digest(self) -> str:
        """``sha256:...`` over the recipe."""
        fields = (self.suite, self.packages, self.latest_s)
        return digest_of([json.dumps(fields)])


@dataclass(frozen=True, slots=True)
class ImageLock:
    """Exact package versions that an image was last released with.

    Attributes:
        recipe: Digest of the recipe that the versions belong to.
        packages: Version by package; empty where nothing is locked yet.
    """

    recipe: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)


def recipes(path: Path = RECIPES) -> Mapping[str, ImageRecipe]:
    """Return the recipes of the package by name.

    Raises:
        CallerError: If the file breaks its form.
    """
    rows: dict[str, Any] = yaml.safe_load(path.read_text())["images"]
    return {name: _recipe(name, rows) for name in rows}


def recipe(name: str) -> ImageRecipe:
    """Return one recipe.

    Raises:
        CallerError: If there is none of that name.
    """
    known = recipes()
    if name not in known:
        raise CallerError(
            f"There is no image recipe {name!r}.",
            remedy=f"choose one of {', '.join(known)}, or make the image from a "
            "folder, an archive or a Docker image with `rlvr images build --from`.",
        )
    return known[name]


def _recipe(name: str, rows: Mapping[str, Any]) -> ImageRecipe:
    row = dict(rows[name])
    packages = set(row.pop("packages"))
    parent = row.pop("extends", None)
    if parent is not None:
        above = _recipe(parent, rows)
        packages |= set(above.packages)
        row = {"suite": above.suite, "latest_s": above.latest_s} | row
    return ImageRecipe(name=name, packages=tuple(sorted(packages)), **row)


def read_lock(name: str, path: Path = LOCK) -> ImageLock:
    """Return the lock of an image; an empty one where there is none."""
    rows = yaml.safe_load(path.read_text()) if path.exists() else None
    row = ((rows or {}).get("images") or {}).get(name)
    return ImageLock(row["recipe"], row["packages"]) if row else ImageLock()


def write_lock(name: str, lock: ImageLock, path: Path = LOCK) -> None:
    """Replace the lock of one image and leave the others."""
    rows = (yaml.safe_load(path.read_text()) if path.exists() else None) or {}
    images = dict(rows.get("images") or {})
    images[name] = {"recipe": lock.recipe, "packages": dict(lock.packages)}
    title = "# Exact package versions of the released images: `rlvr images lock`.\n"
    data = {"schema": 1, "images": dict(sorted(images.items()))}
    write_atomically(path, title + yaml.safe_dump(data, sort_keys=True))


def drift(lock: ImageLock, packages: Mapping[str, str]) -> tuple[str, ...]:
    """Return how installed versions differ from the lock, one line a package."""
    names = sorted(set(lock.packages) | set(packages))
    return tuple(
        f"{name}: locked {lock.packages.get(name, 'absent')}, "
        f"installed {packages.get(name, 'absent')}"
        for name in names
        if lock.packages.get(name) != packages.get(name)
    )

"""Write a task folder of our own format for what was imported."""

from __future__ import annotations

import base64
import json
import re
import shutil
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rlvr_envs.tasks.task import FileSpec, Recipe

EPOCH = "2024-01-15T09:00:00Z"
"""Frozen wall time that imported tasks start at; their own formats name none."""

_WIDTH = 76

_GENERATOR = '''"""Lays out what was imported; every instance is the same."""

import base64
import json
import zlib

from rlvr_envs.tasks.task import FileSpec, Recipe

PACKED = """
{packed}
"""


def generate(rng, number):
    """Return the recipe that the importer packed."""
    text = zlib.decompress(base64.b64decode(PACKED))
    data = json.loads(text)
    files = tuple(
        FileSpec(path, base64.b64decode(content), kind, mode, user)
        for path, content, kind, mode, user in data["files"]
    )
    return Recipe(files=files, setup=tuple(map(tuple, data["setup"])))
'''


@dataclass(frozen=True, slots=True)
class FolderSpec:
    """What a task folder is written from.

    Attributes:
        task: The content of ``task.yaml``.
        instruction: Literal text; braces in it are doubled here.
        verifier: Files of the judge by relative name.
        gold: Tool calls without the closing ``submit``.
        answer: What gold submits; empty for nothing.
        cheats: Rows of ``cheats.yaml``; none writes no file.
        generator: Source of ``generator.py``; by default one that packs the
            recipe's files and commands.
    """

    name: str
    task: Mapping[str, Any]
    instruction: str
    recipe: Recipe
    verifier: Mapping[str, bytes]
    gold: Sequence[Mapping[str, Any]] = ()
    answer: str = ""
    cheats: Sequence[Mapping[str, Any]] = field(default_factory=tuple)
    generator: str = ""


def write_folder(spec: FolderSpec, out: Path) -> Path:
    """Write a task folder below ``out`` and return it; an older one is replaced."""
    folder = out / spec.name
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    _yaml(folder / "task.yaml", dict(spec.task))
    literal = spec.instruction.replace("{", "{{").replace("}", "}}")
    (folder / "instruction.md").write_text(literal, encoding="utf-8", newline="\n")
    generator = spec.generator or _GENERATOR.format(packed=pack(spec.recipe))
    (folder / "generator.py").write_text(generator, encoding="utf-8", newline="\n")
    submit = {"submit": {"answer": spec.answer} if spec.answer else {}}
    _yaml(folder / "gold.yaml", [*map(dict, spec.gold), submit])
    if spec.cheats:
        _yaml(folder / "cheats.yaml", list(map(dict, spec.cheats)))
    for name, data in spec.verifier.items():
        file = folder / "verifier" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return folder


def pack(recipe: Recipe) -> str:
    """Return a recipe's files and commands as lines of base64."""
    data = {
        "files": [_row(spec) for spec in recipe.files],
        "setup": [list(command) for command in recipe.setup],
    }
    packed = zlib.compress(json.dumps(data, sort_keys=True).encode(), 9)
    text = base64.b64encode(packed).decode()
    return "\n".join(text[at : at + _WIDTH] for at in range(0, len(text), _WIDTH))


def task_name(foreign: str) -> str:
    """Return a name that our format takes: lower case, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", foreign.lower()).strip("-") or "task"


def _row(spec: FileSpec) -> list[Any]:
    content = base64.b64encode(spec.data).decode()
    return [spec.path, content, spec.kind, spec.mode, spec.user]


def _yaml(file: Path, data: Any) -> None:
    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=88)
    file.write_text(text, encoding="utf-8", newline="\n")

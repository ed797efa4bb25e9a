"""A task, and the instance of it that an episode plays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr_envs.records import ToolCall, Verification


@dataclass(frozen=True, slots=True)
class FileSpec:
    """A file that an instance starts with.

    Attributes:
        path: Absolute, inside the sandbox; parent folders are made, owned alike.
        data: Its bytes, or the target of a symbolic link, or empty for a folder.
        kind: ``file``, ``link`` or ``dir``.
        mode: Permission bits.
        user: Uid and gid inside.
        mtime_s: Modification time; ``None`` means the task's epoch.
    """

    path: str
    data: bytes = b""
    kind: str = "file"
    mode: int = 0o644
    user: int = 0
    mtime_s: int | None = None


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a generator returns for one instance number.

    Attributes:
        files: Laid over the image, in order.
        setup: Commands run as root in a sandbox on the image after the files
            were laid, without a network; what they change is sealed in the layer.
        values: Public values, put into the instruction's ``{placeholders}``.
        hidden: Plain JSON data for the verifier alone (``/verifier/hidden.json``).
        database: SQL script that makes the database; empty where a task has none.
        service: Plain JSON data for the mock service: settings, faults, recorded
            exchanges, other parties' writes. The agent sees what the service shows.
        refs: Full names of the git refs that a repository may have beside the
            branch of its ``HEAD``, by the repository's absolute path.
    """

    files: tuple[FileSpec, ...] = ()
    setup: tuple[tuple[str, ...], ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    hidden: Mapping[str, Any] = field(default_factory=dict)
    refs: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    database: str = ""
    service: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Task:
    """A task as its folder declares it; `instances` come from its generator.

    Attributes:
        image: Name of the base image in the image store.
        user: Uid that the agent has inside: 1000, or 0 where the task asks for it.
        workdir: Where the shell starts; made if it is missing.
        epoch_s: Frozen wall time at turn 0.
        version: Of the generator; a new one makes new instances.
        budget: What differs from the environment's `Budget`, by field name.
        env: Environment variables of the agent's shell, beside the fixed ones.
        world: What else the modality builds its world from, as its room says.
    """

    name: str
    folder: Path
    title: str
    difficulty: str
    tags: tuple[str, ...]
    image: str
    user: int
    workdir: str
    epoch_s: int
    version: int
    budget: Mapping[str, float]
    env: Mapping[str, str]
    verification: Verification
    world: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Instance:
    """One numbered instance of a task: the same for every episode of a group.

    Attributes:
        digest: ``sha256:...`` over task recipe, generator version and number.
    """

    task: Task
    number: int
    instruction: str
    recipe: Recipe
    digest: str


@dataclass(frozen=True, slots=True)
class Script:
    """A scripted policy of a task: gold, or one of its cheats.

    Attributes:
        calls: In order; the last is ``submit``.
        expect_tamper: Codes that the verdict must carry; empty for gold and for
            a cheat that is merely wrong.
        at_most: What a cheat may earn: nothing, unless the task's rubric pays for
            parts and caps the whole. Always below a pass.
    """

    name: str
    calls: tuple[ToolCall, ...]
    expect_tamper: tuple[str, ...] = ()
    at_most: float = 0.0

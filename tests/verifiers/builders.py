"""Small final states, instances and doubles for tests of the judge."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlvr_envs.records import Layer, Snapshot, Verification, VerifierSpec
from rlvr_envs.state import (
    Change,
    Examination,
    ExaminedTest,
    ExamineRequest,
    FrozenState,
    RunRequest,
    RunResult,
)
from rlvr_envs.tasks.task import Instance, Recipe, Task
from rlvr_envs.verifiers import Context
from rlvr_envs.verifiers.manifest import manifest_of

Content = bytes | str | None
"""Of a file, or the target of a link as ``-> target``, or None for a folder."""


def lay(root: Path, tree: Mapping[str, Content]) -> Path:
    """Write files, links and folders beneath a root."""
    root.mkdir(parents=True, exist_ok=True)
    for name, content in tree.items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.mkdir(exist_ok=True)
        elif isinstance(content, str) and content.startswith("-> "):
            path.symlink_to(content[3:])
        else:
            data = content.encode() if isinstance(content, str) else content
            path.write_bytes(data)
    return root


def changes_of(tree: Mapping[str, Content], kind: str = "added") -> tuple[Change, ...]:
    """Return a change for each entry of a tree."""

    def of(content: Content) -> str:
        if content is None:
            return "dir"
        link = isinstance(content, str) and content.startswith("-> ")
        return "link" if link else "file"

    return tuple(
        Change(f"/{path.lstrip('/')}", kind, of(tree[path])) for path in sorted(tree)
    )


def frozen(
    folder: Path,
    left: Mapping[str, Content],
    *,
    before: Mapping[str, Content] | None = None,
    changes: Sequence[Change] | None = None,
) -> FrozenState:
    """Return a state in which an episode left files on top of a snapshot."""
    base = lay(folder / "base", before or {})
    root = lay(folder / "root", before or {})
    for name in left:
        path = root / name.lstrip("/")
        if path.is_symlink() or path.is_file():
            path.unlink()
    lay(root, left)
    made = changes_of(left) if changes is None else tuple(changes)
    snapshot = Snapshot((Layer("sha256:base", base),))
    return FrozenState(root, snapshot, changes=made, id_base=os.getuid())


def verification(**fields: Any) -> Verification:
    """Return a verification of /app with no checks."""
    given = {
        "mode": "artifacts",
        "artifacts": ("/app",),
        "writes": ("/app/**",),
        "checks": (),
        **fields,
    }
    return Verification(**given)


def check(kind: str, **options: Any) -> VerifierSpec:
    """Return a check named after its kind."""
    return VerifierSpec(kind, kind, options)


def instance(
    folder: Path,
    judged: Verification,
    *,
    fixtures: Mapping[str, str] | None = None,
    hidden: Mapping[str, Any] | None = None,
) -> Instance:
    """Return an instance of a task with these verifier files, pinned."""
    lay(folder / "verifier", fixtures or {})
    pinned = manifest_of(folder / "verifier")
    fields = {
        name: getattr(judged, name)
        for name in ("mode", "artifacts", "writes", "checks", "guarded", "timeout_s")
    }
    task = Task(
        name="toy",
        folder=folder,
        title="Toy",
        difficulty="easy",
        tags=("toy",),
        image="base",
        user=1000,
        workdir="/app",
        epoch_s=0,
        version=1,
        budget={},
        env={},
        verification=Verification(**fields, manifest=pinned),
    )
    recipe = Recipe(hidden=hidden or {})
    return Instance(task, 0, "Do it.", recipe, "sha256:toy")


@dataclass
class ToyRunner:
    """Answers with what it was given, and remembers what it was asked."""

    result: RunResult = field(default_factory=lambda: RunResult(0, b"", b""))
    found: Examination = field(default_factory=Examination)
    runs: list[RunRequest] = field(default_factory=list)
    examined: list[ExamineRequest] = field(default_factory=list)

    def run(self, request: RunRequest) -> RunResult:
        self.runs.append(request)
        return self.result

    def examine(self, request: ExamineRequest) -> Examination:
        self.examined.append(request)
        return self.found


def context(
    folder: Path,
    submission: Path,
    *,
    judged: Verification | None = None,
    hidden: Mapping[str, Any] | None = None,
    runner: Any = None,
) -> Context:
    """Return a context with a minute left."""
    return Context(
        verification=judged or verification(),
        submission=submission,
        fixtures=lay(folder / "fixtures", {}),
        hidden=hidden or {},
        runner=runner or ToyRunner(),
        deadline=float("inf"),
    )


def passed(*names: str) -> Examination:
    """Return an examination in which all of these ran and passed."""
    return Examination(names, tuple(ExaminedTest(name, "passed") for name in names))

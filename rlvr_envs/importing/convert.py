"""A task in the Harbor format becomes a task of our own format."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlvr_envs.errors import TaskError
from rlvr_envs.importing import harbor_judge
from rlvr_envs.importing.bases import buildable, stand_in
from rlvr_envs.importing.folders import EPOCH, FolderSpec, task_name
from rlvr_envs.importing.harbor import HarborTask
from rlvr_envs.importing.steps import recipe
from rlvr_envs.tasks.loader import files_beneath
from rlvr_envs.tasks.task import Recipe

CANARY = b"SHOULD NEVER APPEAR IN TRAINING CORPORA"
MARGIN_S = 30.0
"""What the judge may take beside the script that it runs."""

GUARDED = ("/usr/local/lib/python3*/**", "/usr/lib/python3*/**", "/etc/ld.so.conf.d/**")
"""What the tests' own interpreter reads, beside what every task guards."""


def converted(task: HarborTask, *, image: str | None = None) -> FolderSpec:
    """Return what our folder for a task is written from.

    Args:
        task: As it was loaded.
        image: Name of a prepared image of the task's own; then nothing of the
            Dockerfile is left to be done. ``None`` maps the base image instead.

    Raises:
        TaskError: If no image of ours stands in, or a step needs another route.
    """
    return FolderSpec(
        name=task_name(task.name),
        task=_task(task, image or _image(task)),
        instruction=task.instruction,
        recipe=Recipe() if image else recipe(task.plan, task.folder / "environment"),
        verifier=_verifier(task),
        gold=_gold(task),
    )


def has_gold(task: HarborTask) -> bool:
    """Whether the task comes with a reference solution."""
    return (task.folder / "solution" / "solve.sh").is_file()


def _image(task: HarborTask) -> str:
    dockerfile = task.folder / "environment" / "Dockerfile"
    image = stand_in(task.plan.base)
    if image is None:
        raise TaskError(
            f"No image of ours stands in for {task.plan.base!r}.",
            file=dockerfile,
            remedy="Build it with --builder docker or --builder buildah.",
        )
    if not buildable(task.needs, image):
        raise TaskError(
            f"The image {image} lacks what the Dockerfile asks for.",
            file=dockerfile,
            remedy="Build it with --builder docker or --builder buildah.",
        )
    return image


def _task(task: HarborTask, image: str) -> dict[str, Any]:
    tags = {"harbor", *task.tags} | ({"no-gold"} if not _gold(task) else set())
    if any(CANARY in path.read_bytes() for path in task.folder.glob("tests/*.py")):
        tags.add("not-for-training")
    return {
        "title": task.name.replace("_", " ").replace("-", " ").strip().capitalize(),
        "difficulty": task.difficulty,
        "tags": sorted(tags),
        "image": image,
        "user": 0,
        "workdir": task.plan.workdir,
        "epoch": EPOCH,
        "version": 1,
        "budget": {"turns": 64, "seconds": task.agent_timeout_s},
        "env": dict(task.plan.env),
        "verification": {
            "mode": "system",
            "artifacts": [],
            "writes": ["/**"],
            "guarded": list(GUARDED),
            "timeout_s": task.verifier_timeout_s + MARGIN_S,
            "checks": [_check(task)],
        },
    }


def _check(task: HarborTask) -> dict[str, Any]:
    options = {
        "argv": ["/usr/bin/python3", "-I", "-B", "/verifier/judge.py"],
        "cwd": "/tmp",  # noqa: S108 (inside)
        "user": 0,
        "final_root": True,
        "verdict": True,
        "timeout_s": task.verifier_timeout_s + MARGIN_S / 2,
    }
    return {"kind": "command", "name": "tests", "options": options}


def _verifier(task: HarborTask) -> Mapping[str, bytes]:
    settings = {
        "workdir": task.plan.workdir,
        "env": {**task.plan.env, **task.verifier_env},
        "timeout_s": task.verifier_timeout_s,
        "expected": list(task.expected),
        "counts": task.runs_pytest,
    }
    files = {
        "judge.py": Path(harbor_judge.__file__).read_bytes(),
        harbor_judge.CONFIG: json.dumps(settings, indent=1, sort_keys=True).encode(),
        "pytest.ini": b"[pytest]\n",
    }
    for name, path in files_beneath(task.folder / "tests"):
        files[f"tests/{name}"] = path.read_bytes()
    return files


def _gold(task: HarborTask) -> list[dict[str, Any]]:
    solution = task.folder / "solution" / "solve.sh"
    if not has_gold(task):
        return []
    return [{"bash": {"command": solution.read_text()}}]

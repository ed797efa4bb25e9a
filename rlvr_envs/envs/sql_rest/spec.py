"""What a task says of its world: which engine, which rights, which service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema

from rlvr_envs.envs.options import Options
from rlvr_envs.errors import TaskError
from rlvr_envs.records import Budget
from rlvr_envs.tasks.task import Instance, Task
from rlvr_envs.tools.dispatch import Dispatcher

if TYPE_CHECKING:
    from rlvr_envs.envs.sql_rest.doors import Doors

ENGINES = ("postgres", "sqlite")
RIGHTS = ("none", "read", "write", "truncate", "define")

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "engine": {"enum": list(ENGINES)},
        "rights": {"enum": list(RIGHTS)},
        "service": {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"},
        "define": {
            "type": "array",
            "items": {
                "type": "string",
                "pattern": r"^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$",
            },
            "minItems": 1,
            "uniqueItems": True,
        },
    },
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class WorldSpec:
    """The ``world`` of a task.

    Attributes:
        engine: ``postgres`` or ``sqlite``.
        rights: What the agent's role may do: ``none`` (it has no SQL at all),
            ``read``, ``write``, ``truncate``, ``define``; each includes the former.
        service: Name of a bundled mock service; empty for no HTTP door.
        define: Tables of the seed, with their schema, whose definition the agent
            may change; only with the rights ``define``.
    """

    engine: str = "postgres"
    rights: str = "read"
    service: str = ""
    define: tuple[str, ...] = ()

    @classmethod
    def of(cls, task: Task) -> WorldSpec:
        """Read what a task declares.

        Raises:
            TaskError: If it declares what is not known, or no door at all.
        """
        data = task.world
        checker = jsonschema.Draft202012Validator(dict(_SCHEMA))
        error = jsonschema.exceptions.best_match(checker.iter_errors(dict(data)))
        file = task.folder / "task.yaml"
        if error is not None:
            where = ".".join(["world", *map(str, error.absolute_path)])
            raise TaskError(f"{where}: {error.message}.", file=file)
        spec = cls(**{**data, "define": tuple(data.get("define", ()))})
        if spec.rights == "none" and not spec.service:
            raise TaskError(
                "world: without rights and a service there is no door.", file=file
            )
        if spec.engine == "sqlite" and spec.service:
            raise TaskError("world: services need the engine postgres.", file=file)
        if spec.define and spec.rights != "define":
            raise TaskError("world.define: needs the rights define.", file=file)
        return spec


@dataclass(frozen=True, slots=True)
class Build:
    """What a world is built from.

    Attributes:
        dispatcher: The tools of the modality.
        database: Connection string of a cluster that exists; empty for our own.
        folder: Where our own keeps its data; ``None`` for memory.
        pool_size: Clones of a seed that are kept ready, at least 1.
    """

    instance: Instance
    options: Options
    budget: Budget
    dispatcher: Dispatcher[Doors]
    database: str = ""
    folder: Path | None = None
    pool_size: int = 4

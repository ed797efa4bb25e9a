"""What a task says of its world: which engine, which rights, which service."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema

from rlvr_envs.envs.options import Options
from rlvr_envs.errors import TaskError
from rlvr_envs.records import Budget
from rlvr_envs.tasks.schema import WORLD
from rlvr_envs.tasks.task import Instance, Task
from rlvr_envs.tasks.worlds import flaw_of
from rlvr_envs.tools.dispatch import Dispatcher

if TYPE_CHECKING:
    from rlvr_envs.envs.sql_rest.doors import Doors


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
        """Read what a task declares; its loader has looked at it already.

        Raises:
            TaskError: If it declares what is not known, or no door at all.
        """
        data = task.world
        file = task.folder / "task.yaml"
        checker = jsonschema.Draft202012Validator(dict(WORLD))
        error = jsonschema.exceptions.best_match(checker.iter_errors(dict(data)))
        if error is not None:
            where = ".".join(["world", *map(str, error.absolute_path)])
            raise TaskError(f"{where}: {error.message}.", file=file)
        if flaw := flaw_of(data):
            raise TaskError(flaw.message, file=file, remedy=flaw.remedy)
        return cls(**{**data, "define": tuple(data.get("define", ()))})


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

"""`rlvr/SqlRest-v0`: transactions on a real database, and on a service above it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typing_extensions import override

from rlvr_envs.envs.arguments import check_kind
from rlvr_envs.envs.base import ToolEnv, World
from rlvr_envs.envs.options import Options
from rlvr_envs.envs.sql_rest.spec import Build
from rlvr_envs.envs.sql_rest.tools import TOOLS
from rlvr_envs.errors import MissingRequirement, WrongArgument
from rlvr_envs.registration import load
from rlvr_envs.tasks.task import Instance
from rlvr_envs.tools.dispatch import Dispatcher

_WORLD = "rlvr_envs.envs.sql_rest.world:SqlRestWorld"
"""Loaded at the first reset: it needs packages that listing tasks does not."""


class SqlRestEnv(ToolEnv):
    """A database, and where the task has one a service over HTTP.

    Args:
        tasks: Package or folder of a taskset.
        database: A superuser's connection string, without a database, to a cluster
            that exists; empty for a server of this process's own, which starts at
            the first reset.
        folder: Where our own server keeps its data; empty for memory. A file system
            that shares blocks clones large seeds in no time.
        pool_size: Clones of a seed that are kept ready once it is in use.
        **kwargs: As for `ToolEnv`.

    Raises:
        WrongArgument: If the pool size is below 1, or a value is of another type.
    """

    tool_specs = tuple(tool.spec for tool in TOOLS)

    def __init__(
        self,
        *,
        tasks: str | Path,
        database: str = "",
        folder: str | Path = "",
        pool_size: int = 4,
        **kwargs: Any,
    ) -> None:
        super().__init__(tasks=tasks, **kwargs)
        check_kind("database", database, str, wanted="a connection string")
        check_kind("folder", folder, str | Path, wanted="a folder")
        check_kind("pool_size", pool_size, int, wanted="a number from 1")
        if pool_size < 1:
            raise WrongArgument(
                f"pool_size cannot be {pool_size!r}.", remedy="give a number from 1"
            )
        self._database = database
        self._folder = Path(folder) if folder else None
        self._pool_size = pool_size
        self._dispatcher = Dispatcher(TOOLS)

    @override
    def _open(self, instance: Instance, options: Options) -> World:
        try:
            make_world = load(_WORLD)
        except ModuleNotFoundError as error:
            raise MissingRequirement(
                f"The Python package {error.name} is not installed.",
                remedy="pip install 'rlvr-envs[sql]'.",
            ) from error
        build = Build(
            instance=instance,
            options=options,
            budget=self._budget(),
            dispatcher=self._dispatcher,
            database=self._database,
            folder=self._folder,
            pool_size=self._pool_size,
        )
        world: World = make_world(build)
        return world

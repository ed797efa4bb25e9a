"""`rlvr/Terminal-v0`: a POSIX shell on a task's file system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typing_extensions import override

from rlvr_envs.envs.arguments import check_kind
from rlvr_envs.envs.base import ToolEnv, World
from rlvr_envs.envs.options import Options
from rlvr_envs.envs.terminal.screen import check as check_screen
from rlvr_envs.envs.terminal.tools import TOOLS
from rlvr_envs.envs.terminal.world import Build, TerminalWorld
from rlvr_envs.registration import load
from rlvr_envs.sandbox.base import Sandbox
from rlvr_envs.tasks.task import Instance
from rlvr_envs.tools.dispatch import Dispatcher


class TerminalEnv(ToolEnv):
    """A shell, files and a screen inside a sandbox without a network.

    Args:
        tasks: Package or folder of a taskset.
        sandbox: Entry point (``module:class``) of a backend, or its class.
        **kwargs: As for `ToolEnv`.
    """

    tool_specs = tuple(tool.spec for tool in TOOLS)

    def __init__(
        self, *, tasks: str | Path, sandbox: str | type[Sandbox], **kwargs: Any
    ) -> None:
        super().__init__(tasks=tasks, **kwargs)
        check_kind("sandbox", sandbox, str | type, wanted="a backend's name or class")
        self._backend: type[Sandbox] = (
            load(sandbox) if isinstance(sandbox, str) else sandbox
        )
        self._dispatcher = Dispatcher(TOOLS)
        self._has_screen = False

    @override
    def _open(self, instance: Instance, options: Options) -> World:
        if not self._has_screen:
            check_screen()
            self._has_screen = True
        return TerminalWorld(
            Build(
                instance=instance,
                options=options,
                budget=self._budget(),
                backend=self._backend,
                places=self.places,
                dispatcher=self._dispatcher,
            )
        )

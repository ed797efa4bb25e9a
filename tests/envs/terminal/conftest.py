"""Sessions on a local double and on the real backend, where it can be had."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.envs.terminal.session import TerminalSession
from rlvr_envs.envs.terminal.tools import TOOLS
from rlvr_envs.errors import CallerError, SnapshotError
from rlvr_envs.records import Snapshot, ToolResult
from rlvr_envs.sandbox.base import Sandbox, SandboxSpec
from rlvr_envs.sandbox.namespaces import NamespaceSandbox
from rlvr_envs.snapshots.store import ImageStore
from rlvr_envs.tools.dispatch import Dispatcher
from tests.envs.terminal.local import LocalSandbox

IMAGE = "base"


@dataclass
class Terminal:
    """A started session, and what tests ask of it."""

    sandbox: Sandbox
    session: TerminalSession
    dispatcher: Dispatcher[TerminalSession]

    def call(self, name: str, **arguments: Any) -> ToolResult:
        action = {"name": name, "arguments": arguments}
        return self.dispatcher.dispatch(self.session, action)[1]

    def bash(self, command: str) -> ToolResult:
        return self.call("bash", command=command)


def real_sandbox() -> Sandbox:
    """Return one that is not started, or skip."""
    try:
        NamespaceSandbox.check()
        layer = ImageStore().layer(IMAGE)
    except (CallerError, SnapshotError) as error:
        pytest.skip(f"no namespaces sandbox here: {error}")
    return NamespaceSandbox(SandboxSpec(Snapshot((layer,))))


@pytest.fixture(params=["local", "namespaces"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    chosen = LocalSandbox() if request.param == "local" else real_sandbox()
    chosen.start()
    yield chosen
    chosen.destroy()


Open = Callable[..., Terminal]


@pytest.fixture
def open_terminal(sandbox: Sandbox, tmp_path: Path) -> Iterator[Open]:
    sessions = []
    local = isinstance(sandbox, LocalSandbox)
    where = (
        {"workdir": str(tmp_path), "user": 0} if local else {"workdir": "/home/agent"}
    )

    def start(**options: Any) -> Terminal:
        chosen = {"step_timeout_s": 5.0, **where, **options}
        session = TerminalSession(sandbox, **chosen)
        sessions.append(session)
        session.start()
        return Terminal(sandbox, session, Dispatcher(TOOLS))

    yield start
    for session in sessions:
        session.close()


@pytest.fixture
def terminal(open_terminal: Open) -> Terminal:
    return open_terminal()


@pytest.fixture
def hasty(open_terminal: Open) -> Terminal:
    """A session whose steps end soon."""
    return open_terminal(step_timeout_s=0.4, grace_s=0.4)


def host_commands() -> list[str]:
    """Return the command lines of every process of this machine."""
    done = subprocess.run(
        ["ps", "-ww", "-eo", "args="], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()

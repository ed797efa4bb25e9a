"""Environments that are closed, and skipped where the machine cannot run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import gymnasium as gym
import pytest

import rlvr_envs  # noqa: F401 (registers)
from rlvr_envs.errors import MissingRequirement
from rlvr_envs.records import Snapshot
from rlvr_envs.sandbox.namespaces import NamespaceSandbox

MakeEnv = Callable[..., gym.Env[Any, Any]]


@pytest.fixture(scope="session")
def machine(base_snapshot: Snapshot) -> Snapshot:
    """A machine on which the default backend runs, and its base image."""
    try:
        NamespaceSandbox.check()
    except MissingRequirement as error:
        pytest.skip(str(error))
    return base_snapshot


@pytest.fixture
def make(machine: Snapshot) -> Iterator[MakeEnv]:
    """Make environments; all are closed at the end."""
    with ExitStack() as closing:

        def build(env_id: str = "rlvr/Terminal-v0", **kwargs: Any) -> gym.Env[Any, Any]:
            env = gym.make(env_id, **kwargs)
            closing.callback(env.close)
            return env

        yield build


@pytest.fixture
def make_vec(machine: Snapshot) -> Iterator[Callable[..., Any]]:
    """Make vector environments; all are closed at the end."""
    with ExitStack() as closing:

        def build(count: int, **kwargs: Any) -> Any:
            envs = gym.make_vec("rlvr/Terminal-v0", count, **kwargs)
            closing.callback(envs.close)
            return envs

        yield build

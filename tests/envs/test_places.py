"""Places and servers that a caller names: a wrong one is told at the first reset."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import rlvr_envs  # noqa: F401  # registers
from rlvr_envs.errors import CallerError, SandboxError
from rlvr_envs.records import Places
from rlvr_envs.sandbox.namespaces import NamespaceSandbox

SQL = {"id": "rlvr/SqlRest-v0", "task": "count-open-orders"}
TERMINAL = {"id": "rlvr/Terminal-v0", "task": "log-forensics"}
NOBODY_HEARS = "host=127.0.0.1 port=1 user=postgres"


def refused(made: dict[str, Any]) -> str:
    with (
        gym.make(disable_env_checker=True, **made) as env,
        pytest.raises(CallerError, match="Remedy: ") as caught,
    ):
        env.reset(seed=1)
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"database": NOBODY_HEARS}, "Connection refused"),
        ({"database": "garbage"}, "garbage"),
        ({"folder": "/proc/x"}, "/proc/x"),
        ({"folder": __file__}, __file__),
    ],
)
def test_a_server_that_cannot_be_had_is_the_callers(
    given: dict[str, Any], named: str
) -> None:
    pytest.importorskip("psycopg")

    assert named in refused({**SQL, **given})


@pytest.mark.parametrize("place", [Path("/proc/x"), Path(__file__)])
@pytest.mark.parametrize("which", ["run", "store"])
def test_a_folder_that_cannot_be_made_is_the_callers(which: str, place: Path) -> None:
    try:
        NamespaceSandbox.check()
    except CallerError as error:
        pytest.skip(str(error))

    assert str(place) in refused({**TERMINAL, "places": Places(**{which: place})})


def test_a_server_that_dies_later_is_the_worlds() -> None:
    pytest.importorskip("psycopg")
    from rlvr_envs.sandbox.postgres.cluster import Cluster  # noqa: PLC0415  # an extra
    from rlvr_envs.sandbox.postgres.server import EmbeddedServer  # noqa: PLC0415

    with EmbeddedServer() as server:
        Cluster(server.conninfo).close()

    with pytest.raises(SandboxError):
        Cluster(server.conninfo)

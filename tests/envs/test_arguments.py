"""What `gym.make` is called with: each mistake names the argument and the remedy."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest

import rlvr_envs  # noqa: F401  # registers
from rlvr_envs.envs.arguments import check_names
from rlvr_envs.errors import CallerError

TERMINAL, SQL = "rlvr/Terminal-v0", "rlvr/SqlRest-v0"


@pytest.mark.parametrize(
    ("env_id", "given", "named"),
    [
        (TERMINAL, {"step_timeout_s": "2"}, "step_timeout_s"),
        (TERMINAL, {"step_timeout_s": True}, "step_timeout_s"),
        (TERMINAL, {"seconds": float("nan")}, "seconds"),
        (TERMINAL, {"turns": 0}, "turns"),
        (TERMINAL, {"database": "x"}, "'database'"),
        (TERMINAL, {"places": "/tmp"}, "places"),  # noqa: S108
        (TERMINAL, {"budget": 3}, "budget"),
        (TERMINAL, {"tasks": 3}, "tasks"),
        (TERMINAL, {"task": 3}, "task"),
        (TERMINAL, {"tasks": "nonsense"}, "'nonsense'"),
        (TERMINAL, {"sandbox": 3}, "sandbox"),
        (TERMINAL, {"sandbox": "nope"}, "'nope'"),
        (TERMINAL, {"stack": "nope"}, "'nope'"),
        (TERMINAL, {"layers": {"Nope": {}}}, "'Nope'"),
        (TERMINAL, {"layers": {"ClipObservation": {"nope": 1}}}, "'nope'"),
        (SQL, {"sandbox": "docker"}, "'sandbox'"),
        (SQL, {"database": None}, "database"),
        (SQL, {"folder": 3}, "folder"),
        (SQL, {"pool_size": "4"}, "pool_size"),
        (SQL, {"pool_size": 0}, "pool_size"),
    ],
)
def test_a_wrong_argument_is_named_with_a_remedy(
    env_id: str, given: dict[str, Any], named: str
) -> None:
    with pytest.raises(CallerError, match="Remedy: ") as caught:
        gym.make(env_id, disable_env_checker=True, **given)

    assert named in str(caught.value)
    assert "environment creator" not in str(caught.value)


@pytest.mark.parametrize("seconds", ["2", True, 0, float("inf")])
def test_a_group_refuses_a_wrong_slot_timeout(seconds: Any) -> None:
    with pytest.raises(CallerError, match=r"slot_timeout_s.*Remedy: "):
        gym.make_vec(TERMINAL, num_envs=1, slot_timeout_s=seconds)


def test_what_a_class_passes_on_its_bases_take() -> None:
    class Base:
        def __init__(self, *, low: int = 0) -> None:
            self.low = low

    class Derived(Base):
        def __init__(self, *, high: int = 0, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.high = high

    check_names("it", Derived, ("low", "high"))
    with pytest.raises(CallerError, match="there are high, low"):
        check_names("it", Derived, ("other",))

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest
from typing_extensions import override

from rlvr_envs.errors import SandboxError, WorldError
from rlvr_envs.records import Check, Outcome, Snapshot, Status
from rlvr_envs.state import FrozenState, Runner
from rlvr_envs.wrappers.frozen import FrozenStateVerify

PASSED = Outcome(Status.PASSED, 1.0, checks=(Check("a", passed=True),))
VOID = Outcome(Status.INFRA_ERROR, 0.0, reason="the daemon died").to_json()


@dataclass
class Ending:
    """How the toy's episode ends."""

    terminated: bool = True
    truncated: bool = False
    info: dict[str, Any] = field(default_factory=dict)
    freezing: WorldError | None = None
    survivors: tuple[str, ...] = ()


class Toy(gym.Env[str, str]):
    """Ends in its second step, as it is told."""

    action_space = gym.spaces.Text(10)
    observation_space = gym.spaces.Text(10)

    def __init__(self, ending: Ending | None = None) -> None:
        self.ending = ending or Ending()
        self.frozen = 0
        self.turn = 0

    @property
    def instance(self) -> Any:
        assert self.turn
        return "the instance"

    def freeze(self) -> FrozenState:
        self.frozen += 1
        if self.ending.freezing:
            raise self.ending.freezing
        alive = self.ending.survivors
        return FrozenState(Path("/nowhere"), Snapshot(()), survivors=alive)

    def runner(self) -> Runner:
        return "the runner"  # type: ignore[return-value]  # the judge is a double

    @override
    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        if self.turn < 2:
            return "x", 0.0, False, False, {"turn": self.turn}
        ending = self.ending
        return "x", 0.0, ending.terminated, ending.truncated, dict(ending.info)


def played(env: Toy, judging: Any = None) -> tuple[Any, FrozenStateVerify]:
    wrapped = FrozenStateVerify(env, judging=judging or (lambda *_given: PASSED))
    first = wrapped.step("a")
    assert "outcome" not in first[4]
    assert first[1] == 0.0
    return wrapped.step("b"), wrapped


@pytest.mark.parametrize("ending", [Ending(), Ending(terminated=False, truncated=True)])
def test_an_episode_is_judged_at_its_end_however_it_ends(ending: Ending) -> None:
    env = Toy(ending)
    given: list[Any] = []

    def judging(*args: Any) -> Outcome:
        given.extend(args)
        return PASSED

    (_obs, reward, _terminated, _truncated, info), _wrapped = played(env, judging)

    assert (reward, env.frozen, info["scorable"]) == (1.0, 1, True)
    assert info["outcome"] == PASSED.to_json()
    assert given[1:] == ["the instance", "the runner"]


def test_what_was_still_running_is_told_as_events() -> None:
    seen = {"kind": "dns", "count": 1, "detail": "x.test"}
    ending = Ending(info={"events": [seen]}, survivors=("sleep 9", "cat", "sleep 9"))

    (*_, info), _ = played(Toy(ending))

    assert info["events"] == [
        seen,
        {"kind": "survivor", "count": 1, "detail": "cat"},
        {"kind": "survivor", "count": 2, "detail": "sleep 9"},
    ]
    assert ending.info["events"] == [seen], "another's list was changed"


def test_a_world_that_breaks_while_freezing_is_void() -> None:
    env = Toy(Ending(freezing=SandboxError("gone")))

    (_obs, reward, *_ends, info), wrapped = played(env)

    assert (reward, info["scorable"]) == (0.0, False)
    assert info["outcome"]["status"] == "infra_error"
    assert wrapped.infra_errors == 1


def test_an_episode_that_is_void_already_stays_so_and_is_not_judged() -> None:
    env = Toy(Ending(info={"outcome": VOID}))

    (_obs, reward, *_ends, info), wrapped = played(env)

    assert (reward, env.frozen, wrapped.infra_errors) == (0.0, 0, 1)
    assert info["outcome"] == VOID
    assert info["scorable"] is False


def test_a_bug_of_the_program_is_raised() -> None:
    def broken(*_given: Any) -> Outcome:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        played(Toy(), broken)


def test_an_environment_that_cannot_be_judged_is_refused_at_once() -> None:
    class Bare(gym.Env[str, str]):
        pass

    with pytest.raises(TypeError, match="freeze"):
        FrozenStateVerify(Bare())


def test_an_environment_without_an_episode_can_be_wrapped() -> None:
    env = Toy()

    FrozenStateVerify(env)

    assert env.frozen == 0

"""The loop: budgets, options, and the fate of each error."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from typing_extensions import override

from rlvr_envs.envs.base import ToolEnv, World
from rlvr_envs.envs.options import Options
from rlvr_envs.errors import ResetNeeded, SandboxError
from rlvr_envs.records import (
    Budget,
    ErrorKind,
    Event,
    Layer,
    Snapshot,
    ToolCall,
    ToolCategory,
    ToolResult,
    ToolSpec,
)
from rlvr_envs.tasks.task import Instance

BUNDLED = "rlvr_envs.envs.terminal.tasks"
TASK = "sum-integers"


class Scripted:
    """A world that answers each action with itself."""

    snapshot = Snapshot((Layer("sha256:00", Path("/nowhere")),))

    def __init__(self) -> None:
        self.left = 0
        self.closed = 0
        self.limits: list[float] = []

    def step(
        self, action: Any, *, turn: int, limit_s: float
    ) -> tuple[ToolCall | None, ToolResult]:
        self.limits.append(limit_s)
        if action == "break":
            raise SandboxError("the host took it away")
        if action == "bad":
            return None, ToolResult(
                "no call", ok=False, error_kind=ErrorKind.MALFORMED_CALL
            )
        result = ToolResult(
            f"{turn}: {action}",
            exit_code=0,
            events=(Event("dns", 2, "a.test"),),
            submits=action == "submit",
        )
        return ToolCall("bash", {"command": str(action)}), result

    def leave(self) -> None:
        self.left += 1

    def close(self) -> None:
        self.closed += 1


class Loop(ToolEnv):
    """The loop around a scripted world."""

    tool_specs = (ToolSpec("bash", "Run.", {"type": "object"}, ToolCategory.MUTATE),)

    @override
    def _open(self, instance: Instance, options: Options) -> World:
        self.opened = options
        self.worlds = [*getattr(self, "worlds", []), Scripted()]
        return cast("World", self.worlds[-1])


def make(**kwargs: Any) -> Loop:
    return Loop(tasks=BUNDLED, task=TASK, **kwargs)


def test_a_step_before_reset_or_after_the_end_raises() -> None:
    env = make()
    with pytest.raises(ResetNeeded, match="has not begun"):
        env.step("x")
    env.reset()
    env.step("submit")

    with pytest.raises(ResetNeeded, match="has ended"):
        env.step("x")


def test_the_last_turn_truncates_and_a_submit_on_it_terminates() -> None:
    env = make(turns=2)
    env.reset()

    assert env.step("x")[2:4] == (False, False)
    assert env.step("y")[2:4] == (False, True)
    env.reset()
    env.step("x")
    assert env.step("submit")[2:4] == (True, False)


def test_a_spent_wall_clock_truncates() -> None:
    env = make(seconds=1e-9)
    env.reset()

    assert env.step("x")[3] is True


def test_the_bare_environment_pays_nothing() -> None:
    env = make()
    env.reset()

    assert env.step("submit")[1] == 0.0


def test_a_broken_world_voids_the_episode_and_never_raises() -> None:
    env = make()
    env.reset()

    _, reward, terminated, truncated, info = env.step("break")

    assert (reward, terminated, truncated) == (0.0, True, False)
    assert info["outcome"]["status"] == "infra_error"
    assert info["scorable"] is False
    assert env.reset()[1]["turn"] == 0


def test_the_agents_mistake_is_an_observation() -> None:
    env = make()
    env.reset()

    shown, _, terminated, _, info = env.step("bad")

    assert shown == "no call"
    assert terminated is False
    assert (info["tool"], info["error_kind"]) == ("", "malformed_call")


def test_info_has_one_type_for_each_key_and_is_fresh() -> None:
    env = make()
    _, first = env.reset()
    second = env.step("x")[4]

    assert {key: type(first[key]) for key in first} == {
        key: type(second[key]) for key in first
    }
    second["events"].append("mine")
    second["tool"] = "mine"
    assert env.step("x")[4]["events"] == [
        {"kind": "dns", "count": 2, "detail": "a.test"}
    ]


def test_the_seed_drives_runtime_randomness_and_not_the_instance() -> None:
    env = make()
    env.reset(seed=7)
    first, digest = env.opened.runtime_seed, env.instance.digest
    env.reset()
    second = env.opened.runtime_seed

    env.reset(seed=7)
    assert env.opened.runtime_seed == first
    env.reset()
    assert env.opened.runtime_seed == second
    env.reset(seed=8)
    assert env.opened.runtime_seed != first
    assert env.instance.digest == digest


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"tsk": "x"}, ValueError, "knows no option 'tsk'"),
        ({"task": "sum-integer"}, ValueError, "sum-integers"),
        ({"instance": -1}, ValueError, "instance"),
        ({"instance": True}, ValueError, "instance"),
        ({"instance": 1.5}, ValueError, "instance"),
        ({"task": 5}, TypeError, "task"),
        ({"confinement": {}}, TypeError, "confinement"),
        ({"start": "x"}, TypeError, "start"),
    ],
)
def test_a_wrong_reset_option_raises(
    options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    env = make()

    with pytest.raises(kind, match=message):
        env.reset(options=options)


@pytest.mark.parametrize("limit", [float("inf"), float("nan"), 0, -1])
def test_a_step_limit_must_be_positive_and_finite(limit: float) -> None:
    with pytest.raises(ValueError, match="step_timeout_s"):
        make(step_timeout_s=limit)


def test_an_explicit_limit_wins_over_the_registry() -> None:
    env = make(budget=Budget(turns=9, seconds=100.0), seconds=5.0)
    env.reset()
    env.step("x")

    assert env.worlds[0].limits[0] <= 5.0


def test_constructors_start_nothing_and_close_is_idempotent() -> None:
    env = make()
    assert not hasattr(env, "worlds")
    env.close()
    env.reset()

    env.close()
    env.close()

    assert env.worlds[0].closed == 1


def test_a_new_episode_closes_the_last() -> None:
    env = make()
    env.reset()
    env.reset()

    assert [world.closed for world in env.worlds] == [1, 0]
    assert [world.left for world in env.worlds] == [1, 0]


def test_the_last_world_is_gone_though_the_next_one_cannot_be_built() -> None:
    env = make()
    env.reset()

    def fail(*_: object) -> World:
        assert (env.worlds[0].left, env.worlds[0].closed) == (1, 0)
        raise SandboxError("no room")

    env._open = fail  # type: ignore[assignment,method-assign]  # a double of a double
    with pytest.raises(SandboxError, match="no room"):
        env.reset()

    assert env.worlds[0].closed == 1
    with pytest.raises(ResetNeeded):
        env.step("ls")


def test_render_shows_where_we_are() -> None:
    env = make(render_mode="ansi")
    assert env.render() is None
    env.reset()
    env.step("x")

    assert env.render() == f"[{TASK} #0, turn 1]\n1: x"
    with pytest.raises(ValueError, match="render_mode"):
        make(render_mode="human")


def test_an_unknown_task_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="sum-integers"):
        Loop(tasks=BUNDLED, task="sum-integer")

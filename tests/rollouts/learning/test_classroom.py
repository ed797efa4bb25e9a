"""Lessons on real sandboxes."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from rlvr_envs import seeding
from rlvr_envs.cli.lint_rewards import task_cases
from rlvr_envs.envs.terminal.tools import TOOLS
from rlvr_envs.errors import MissingRequirement
from rlvr_envs.records import Snapshot
from rlvr_envs.rewards.lint import lint
from rlvr_envs.rewards.terminal_rules import terminal_book
from rlvr_envs.rollouts.learning.classroom import Classroom
from rlvr_envs.rollouts.learning.lessons import (
    FOUR_SETTINGS,
    SPRING_CLEAN,
    TASKS,
    Lesson,
)
from rlvr_envs.rollouts.learning.policy import Policy
from rlvr_envs.rollouts.learning.signals import (
    OUTCOME,
    POTENTIAL,
    TWO_CHANNELS,
    Signal,
)
from rlvr_envs.rollouts.learning.training import Course, train
from rlvr_envs.sandbox.namespaces import NamespaceSandbox
from rlvr_envs.tasks.taskset import Taskset

SHORT = Course(updates=2, size=4)


@pytest.fixture(scope="module", autouse=True)
def machine(base_snapshot: Snapshot) -> None:
    """Skip where no sandbox can run."""
    try:
        NamespaceSandbox.check()
    except MissingRequirement as error:
        pytest.skip(str(error))


class Recites(Policy):
    """Plays given entries whatever it sees, in every slot."""

    def __init__(self, lesson: Lesson, *entries: str, slots: int) -> None:
        super().__init__(lesson.prior())
        numbers = [lesson.number(entry) for entry in entries]
        self._next = iter([n for n in numbers for _ in range(slots)])

    @override
    def choose(self, state: Any, rng: Any) -> int:
        return next(self._next)


def recite(lesson: Lesson, signal: Signal, *entries: str, weight: float = 1.0) -> Any:
    with Classroom(lesson, signal, size=2) as room:
        policy = Recites(lesson, *entries, slots=2)
        return room.play(policy, seeding.generator("test"), weight=weight)


@pytest.mark.parametrize(
    ("entries", "reward", "terms"),
    [
        (("look", "clear", "mend", "run", "submit"), 1.0, [0, 0.5, 0, 0.5, 0]),
        (("clear", "mend", "submit"), 1.0, [-0.5, 0, -0.5]),
        (("look", "clear", "botch", "run", "submit"), 0.0, [0, 0.5, 0, 0.5, 0]),
        (("look", "wipe", "mend", "run", "submit"), 0.0, [0, 0.5, 0, 0.5, 0]),
        (("submit",), 0.0, [0]),
    ],
)
def test_both_ways_succeed_and_only_one_keeps_the_rules(
    entries: tuple[str, ...], reward: float, terms: list[float]
) -> None:
    played = recite(SPRING_CLEAN, TWO_CHANNELS, *entries)

    assert played.group.group.rewards.tolist() == [reward] * 2
    assert [item.tolist() for item in played.terms] == [terms] * 2


def test_the_potential_is_aligned_gated_and_annealed() -> None:
    acts = ("host", "port", "wrong-port", "port", "mode", "level", "litter", "submit")
    played = recite(FOUR_SETTINGS, POTENTIAL, *acts)
    faint = recite(FOUR_SETTINGS, POTENTIAL, *acts, weight=0.5)

    steps = [0.25, 0.25, -0.25, 0.25, 0.25, 0.25, -1.0, 0.0]
    assert played.terms[0].tolist() == steps
    assert faint.terms[0].tolist() == [step / 2 for step in steps]
    assert played.group.group.rewards.tolist() == [1.0, 1.0]


def test_a_seed_gives_the_same_run_again() -> None:
    with Classroom(SPRING_CLEAN, TWO_CHANNELS, size=SHORT.size) as room:
        runs = [
            [
                item.to_json()
                for item in train(
                    room, SPRING_CLEAN, TWO_CHANNELS, course=SHORT, seed=seed
                )
            ]
            for seed in (0, 0, 1)
        ]

    assert runs[0] == runs[1]
    assert runs[0] != runs[2]
    assert all(item["void"] == 0 for item in runs[0])


def test_sixteen_slots_play_side_by_side() -> None:
    with Classroom(SPRING_CLEAN, OUTCOME, size=16) as room:
        played = room.play(Policy(SPRING_CLEAN.prior()), seeding.generator("16"))

    assert len(played.scored) == 16
    assert 0 < played.group.report.pass_rate < 1


def test_the_lessons_keep_the_design_rules_of_the_book() -> None:
    categories = {tool.spec.name: tool.spec.category for tool in TOOLS}
    cases = tuple(task_cases(Taskset(TASKS), categories))

    assert len(cases) == 2
    assert not lint(terminal_book(), cases)

"""The experiments: a lesson, the signals that it is taught by, the findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rlvr_envs.rollouts.learning import findings, signals
from rlvr_envs.rollouts.learning.classroom import Classroom
from rlvr_envs.rollouts.learning.findings import Figures, Finding
from rlvr_envs.rollouts.learning.lessons import FOUR_SETTINGS, SPRING_CLEAN, Lesson
from rlvr_envs.rollouts.learning.signals import Signal
from rlvr_envs.rollouts.learning.training import Course, Update, train


@dataclass(frozen=True, slots=True)
class Experiment:
    """One lesson, taught in several ways.

    Attributes:
        shown: Readings of an update that are drawn.
    """

    name: str
    lesson: Lesson
    signals: tuple[Signal, ...]
    findings: tuple[Callable[[Figures], Finding], ...]
    shown: tuple[str, ...]

    def run(
        self, *, course: Course, seeds: int, kwargs: Mapping[str, Any] | None = None
    ) -> Iterator[Update]:
        """Train a policy for each signal and seed; yield each update.

        Args:
            course: The same for all.
            seeds: How many, from 0.
            kwargs: For the environment, such as ``places``.
        """
        for signal in self.signals:
            with Classroom(
                self.lesson, signal, size=course.size, kwargs=kwargs
            ) as room:
                for seed in range(seeds):
                    yield from train(
                        room, self.lesson, signal, course=course, seed=seed
                    )


EXPERIMENTS = (
    Experiment(
        "conduct",
        SPRING_CLEAN,
        (signals.OUTCOME, signals.TWO_CHANNELS, signals.PENALTY),
        (findings.path_teaches, findings.penalty_collapses),
        ("success", "violations", "fulfilments", "handed_in"),
    ),
    Experiment(
        "reach",
        FOUR_SETTINGS,
        (signals.OUTCOME, signals.POTENTIAL),
        (findings.potential_reaches,),
        ("success", "needed", "dead", "weight"),
    ),
)

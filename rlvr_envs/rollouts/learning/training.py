"""Policy gradient on real sandboxes, update by update."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from rlvr_envs import seeding
from rlvr_envs.rewards.annealing import Anneal, pass_at_16, potential_anneal
from rlvr_envs.rewards.diagnostics import Dead
from rlvr_envs.rewards.estimates import Tally
from rlvr_envs.rollouts.learning.classroom import Classroom, Played, Try
from rlvr_envs.rollouts.learning.lessons import SUBMIT, Lesson
from rlvr_envs.rollouts.learning.policy import Policy
from rlvr_envs.rollouts.learning.signals import Signal


@dataclass(frozen=True, slots=True)
class Course:
    """How a policy is trained.

    Attributes:
        updates: One group of episodes each.
        size: Episodes in a group.
        rate: Of learning; the gradient is a mean over turns.
        sharing: What states share: see `Policy`. With 0.6 in place of 0.3, two of five
            seeds collapsed under both channels: uncentred credits outweighed an
            outcome that was still rare.
        pooled: Groups whose episodes estimate pass@16, which anneals the potential.
        span: Updates over which the potential's weight falls to 0.
    """

    updates: int = 60
    size: int = 8
    rate: float = 20.0
    sharing: float = 0.3
    pooled: int = 8
    span: int = 20


@dataclass(frozen=True, slots=True)
class Update:
    """What one update saw, before the policy moved.

    Attributes:
        success: Share of scored episodes that passed.
        violations: Path rules broken, a mean over episodes.
        fulfilments: Obligations met, likewise.
        handed_in: Share that submitted, rather than running out of turns.
        needed: Share of the acts without which nobody succeeds that were done.
        dead: ``all_fail``, ``all_pass`` or empty: the outcome's variance.
        gradient_norm: 0.0 where the update taught nothing.
        weight: Of the potential; 0.0 where there is none.
        void: Episodes that broke; they are in none of the figures.
    """

    signal: str
    seed: int
    update: int
    success: float
    violations: float
    fulfilments: float
    turns: float
    handed_in: float
    needed: float
    dead: str
    gradient_norm: float
    entropy: float
    weight: float
    void: int

    def to_json(self) -> dict[str, Any]:
        """Return the line that ``rlvr learn`` prints."""
        return asdict(self)

    @property
    def is_dead(self) -> bool:
        """Whether every episode failed and nothing was learned from it."""
        return self.dead == Dead.ALL_FAIL and self.gradient_norm == 0.0


@dataclass(slots=True)
class _Pass:
    """pass@16 over the last groups, and the weight that it anneals."""

    course: Course
    weights: Anneal
    seen: list[Tally] = field(default_factory=list)

    def after(self, played: Played) -> None:
        group = played.group.group
        passed = int(group.passed[group.baseline].sum())
        self.seen.append(Tally(int(group.baseline.sum()), passed))
        pool = sum(self.seen[-self.course.pooled :], Tally())
        self.weights = self.weights.after(pass_at_16([pool]))


def train(
    room: Classroom, lesson: Lesson, signal: Signal, *, course: Course, seed: int
) -> Iterator[Update]:
    """Train one policy from its habits on; yield each update.

    Args:
        room: Made for the lesson and the signal.
        lesson: Its habits are where the policy starts.
        signal: What the policy is taught by.
        course: How.
        seed: Drives the policy's draws; the sandboxes are deterministic.
    """
    rng = seeding.generator("learn", lesson.task, seed)
    policy = Policy(lesson.prior(), sharing=course.sharing)
    passes = _Pass(course, potential_anneal(span=course.span))
    for number in range(1, course.updates + 1):
        weight = passes.weights.weight if signal.potential else 0.0
        played = room.play(policy, rng, weight=weight)
        entropy = policy.entropy(
            choice.state for item in played.tries for choice in item.choices
        )
        values = signal.advantages(played.group, played.terms)
        norm = policy.learn(_credited(played, values), rate=course.rate)
        passes.after(played)
        told = _told(lesson, played)
        yield Update(
            signal=signal.name,
            seed=seed,
            update=number,
            gradient_norm=round(norm, 9),
            entropy=round(entropy, 6),
            weight=round(weight, 6),
            **told,
        )


def _credited(played: Played, values: Sequence[Any]) -> Iterator[Any]:
    for item, credits_ in zip(played.tries, values, strict=True):
        yield from zip(item.choices, map(float, credits_), strict=True)


def _told(lesson: Lesson, played: Played) -> dict[str, Any]:
    report, scored = played.group.report, played.scored
    needed = {lesson.number(name) for name in lesson.needed}
    submit = lesson.number(SUBMIT)
    return {
        "success": report.pass_rate,
        "violations": _mean(scored, lambda item: _named(item, "violations")),
        "fulfilments": _mean(scored, lambda item: _named(item, "fulfilments")),
        "turns": _mean(scored, lambda item: len(item.choices)),
        "handed_in": _mean(scored, lambda item: item.choices[-1].index == submit),
        "needed": _mean(scored, lambda item: len(needed & item.state[0]) / len(needed)),
        "dead": str(report.dead),
        "void": report.void,
    }


def _named(item: Try, key: str) -> int:
    return sum(len(info.get(key, ())) for info in item.infos)


def _mean(tries: Sequence[Try], reading: Callable[[Try], float]) -> float:
    values = [float(reading(item)) for item in tries]
    return round(float(np.mean(values)), 6) if values else 0.0

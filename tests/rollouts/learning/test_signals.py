"""The credit of each turn, by the channels that are listened to."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlvr_envs.records import Outcome, Status
from rlvr_envs.rewards.recorded import recorded_group
from rlvr_envs.rollouts.learning.signals import (
    OUTCOME,
    PENALTY,
    POTENTIAL,
    TWO_CHANNELS,
)

TERMS = (np.array([0.0, 0.5]), np.array([-0.5, 0.0]), np.zeros(2), np.zeros(2))


def infos(status: Status, reward: float) -> list[dict[str, Any]]:
    outcome = Outcome(status, reward).to_json()
    return [{}, {"outcome": outcome}]


WON, LOST = infos(Status.PASSED, 1.0), infos(Status.FAILED, 0.0)
VOID = infos(Status.INFRA_ERROR, 0.0)


def test_the_outcome_alone_hears_no_path() -> None:
    values = OUTCOME.advantages(recorded_group([WON, LOST, LOST, LOST]), TERMS)

    assert [item.tolist() for item in values[:2]] == [[0.09375] * 2, [-0.03125] * 2]


def test_both_channels_have_a_normaliser_each() -> None:
    group = recorded_group([WON, LOST, LOST, LOST])
    for signal in (TWO_CHANNELS, POTENTIAL):
        values = signal.advantages(group, TERMS)
        assert values[0].tolist() == [0.09375, 0.09375 + 0.25]
        assert values[1].tolist() == [-0.03125 - 0.25, -0.03125]


def test_a_penalty_alone_hears_no_outcome() -> None:
    values = PENALTY.advantages(recorded_group([WON, LOST, LOST, LOST]), TERMS)

    assert values[2].tolist() == [0.0, 0.0]
    assert values[1].tolist() == [-0.25, 0.0]


def test_a_void_episode_teaches_nothing() -> None:
    values = TWO_CHANNELS.advantages(recorded_group([WON, VOID, LOST, LOST]), TERMS)

    assert values[1].tolist() == [0.0, 0.0]
    assert values[0][0] == (1 - 1 / 3) / 6

"""A group as the infos of its steps tell it: what a command line or a trainer has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlvr_envs.records import JsonObject, Status
from rlvr_envs.rewards.advantages import Group
from rlvr_envs.rewards.diagnostics import GroupReport, group_report

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RecordedGroup:
    """The channels of a group's episodes, one array of shape (turns,) for each.

    Attributes:
        path: ``path_reward`` of each turn: bounded over the episode.
        repetition: Penalties to add to advantages.
        potential: Shape (G,), Phi at the last turn; 0 where none was read.
    """

    group: Group
    path: tuple[Floats, ...]
    repetition: tuple[Floats, ...]
    potential: Floats

    @property
    def report(self) -> GroupReport:
        """Describe the group."""
        sums = [float(terms.sum()) for terms in self.path]
        return group_report(self.group, path=sums, potential=self.potential)


def recorded_group(
    episodes: Sequence[Sequence[JsonObject]], *, scripted: Sequence[bool] | None = None
) -> RecordedGroup:
    """Read a group.

    Args:
        episodes: The infos of each episode's steps, in order, without the reset's.
            One that never came to a verdict is unscorable.
        scripted: Which to keep out of the baseline; none if left out.
    """
    outcomes = [_outcome(infos) for infos in episodes]
    group = Group.of(
        [outcome.get("reward", 0.0) for outcome in outcomes],
        passed=[outcome.get("status") == Status.PASSED for outcome in outcomes],
        scorable=[
            outcome.get("status", Status.INFRA_ERROR) != Status.INFRA_ERROR
            for outcome in outcomes
        ],
        scripted=scripted,
    )
    return RecordedGroup(
        group=group,
        path=tuple(_channel(infos, "path_reward") for infos in episodes),
        repetition=tuple(_channel(infos, "repetition") for infos in episodes),
        potential=np.array(
            [_channel(infos, "potential")[-1:].sum() for infos in episodes]
        ),
    )


def _outcome(infos: Sequence[JsonObject]) -> JsonObject:
    outcome: JsonObject = infos[-1].get("outcome") or {} if infos else {}
    return outcome


def _channel(infos: Sequence[JsonObject], key: str) -> Floats:
    return np.array([info.get(key, 0.0) for info in infos], dtype=np.float64)

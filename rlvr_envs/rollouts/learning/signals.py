"""What a policy is taught by: which channels, and the credit of each turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rlvr_envs.rewards.advantages import dr_grpo, two_channels
from rlvr_envs.rewards.recorded import RecordedGroup

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Signal:
    """Channels that a trainer listens to.

    Attributes:
        outcome: Whether the verdict counts.
        penalty: Lambda of the path channel; 0 where it does not count.
        credit: Beta.
        potential: Whether potential-based shaping counts.
    """

    name: str
    outcome: bool = True
    penalty: float = 0.0
    credit: float = 0.0
    potential: bool = False

    def advantages(
        self, group: RecordedGroup, terms: Sequence[Floats]
    ) -> tuple[Floats, ...]:
        """Return the credit of each turn, an array of shape (turns,) an episode.

        A menu's choice is one token, so that turns are counted as tokens. The
        outcome is centred in the group (Dr. GRPO); the terms are not, and have a
        normaliser of their own (RLVP's two channels).

        Args:
            group: One update's episodes.
            terms: Path or shaping terms, shape (turns,) each.
        """
        values = dr_grpo(group.group) * self.outcome
        used = self.penalty or self.credit or self.potential
        kept = [term if used else np.zeros_like(term) for term in terms]
        turns = [np.ones(len(term), dtype=np.int64) for term in terms]
        both = two_channels(values, kept, turns, scorable=group.group.scorable)
        return both.total


OUTCOME = Signal("outcome")
TWO_CHANNELS = Signal("two channels", penalty=0.5, credit=0.5)
PENALTY = Signal("penalty alone", outcome=False, penalty=0.5)
POTENTIAL = Signal("outcome and potential", potential=True)

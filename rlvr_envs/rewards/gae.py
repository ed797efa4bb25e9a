"""Generalised advantage estimation over action tokens, or over whole turns.

Observations stand between an agent's actions. Their tokens were not chosen, so they
take no gradient and no step of discounting: the chain runs from the last token of
one action to the first of the next.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def gae(
    rewards: ArrayLike,
    values: ArrayLike,
    *,
    gamma: float,
    lam: float,
    bootstrap: float = 0.0,
) -> Floats:
    """Return advantages of consecutive steps.

    Args:
        rewards: Shape (T,).
        values: Shape (T,), the critic's value before each step.
        gamma: Discount, in [0, 1].
        lam: Trace decay, in [0, 1].
        bootstrap: The critic's value after the last step: 0 if the task terminated,
            its estimate if only the budget ended.

    Returns:
        Shape (T,). Add ``values`` for the returns that a critic is trained on.

    Raises:
        ValueError: If shapes differ or a factor is out of range.

    Source:
        Schulman et al., "High-dimensional continuous control using generalized
        advantage estimation", arXiv:1506.02438, section 3.
    """
    paid, valued = _floats(rewards), _floats(values)
    if paid.shape != valued.shape or paid.ndim != 1:
        raise ValueError("rewards and values are of one shape (T,).")
    if not (0.0 <= gamma <= 1.0 and 0.0 <= lam <= 1.0):
        raise ValueError(f"gamma and lam lie in [0, 1], not {gamma!r}, {lam!r}.")
    deltas = paid + gamma * np.append(valued[1:], bootstrap)[: len(paid)] - valued
    advantages = np.zeros_like(paid)
    running = 0.0
    for step in reversed(range(len(paid))):
        running = deltas[step] + gamma * lam * running
        advantages[step] = running
    return advantages


def token_gae(
    rewards: ArrayLike,
    values: ArrayLike,
    mask: ArrayLike,
    *,
    gamma: float,
    lam: float,
    bootstrap: float = 0.0,
) -> Floats:
    """Return advantages of tokens; those the environment wrote get 0.

    A reward on an environment token belongs to the last action token before it:
    that is the act which earned it.

    Args:
        rewards: Shape (tokens,).
        values: Shape (tokens,); those of environment tokens are not read.
        mask: Shape (tokens,), true where the agent chose the token.
        gamma: Discount for each action token.
        lam: Trace decay for each action token.
        bootstrap: As in `gae`.

    Returns:
        Shape (tokens,).

    Raises:
        ValueError: If shapes differ, or a reward comes before the first act.
    """
    paid, chosen = _floats(rewards), np.asarray(mask, dtype=np.bool_)
    owner = np.cumsum(chosen) - 1
    earned = _owned(paid, owner, int(chosen.sum()))
    out = np.zeros_like(paid)
    out[chosen] = gae(
        earned, _floats(values)[chosen], gamma=gamma, lam=lam, bootstrap=bootstrap
    )
    return out


def turn_gae(
    rewards: ArrayLike,
    values: ArrayLike,
    turns: ArrayLike,
    *,
    gamma: float,
    lam: float,
    bootstrap: float = 0.0,
) -> Floats:
    """Return advantages of tokens where discount and trace step once for each turn.

    The value of a turn is the critic's at its first action token, its reward all
    that came until the next turn, and all its action tokens share one advantage.

    Args:
        rewards: Shape (tokens,).
        values: Shape (tokens,).
        turns: Shape (tokens,): the turn that an action token belongs to, counted
            from 0 without gaps; -1 for the environment's tokens.
        gamma: Discount for each turn.
        lam: Trace decay for each turn.
        bootstrap: As in `gae`.

    Returns:
        Shape (tokens,); 0 where ``turns`` is -1.

    Raises:
        ValueError: If shapes differ, turns are out of order, or a reward comes
            before the first act.
    """
    paid, number = _floats(rewards), np.asarray(turns, dtype=np.int64)
    chosen = number >= 0
    kinds, first = np.unique(number[chosen], return_index=True)
    if (np.diff(number[chosen]) < 0).any() or (kinds != np.arange(len(kinds))).any():
        raise ValueError("Turns are counted from 0, in order, without gaps.")
    owner = np.maximum.accumulate(number)
    earned = _owned(paid, owner, len(kinds))
    starts = _floats(values)[chosen][first]
    by_turn = gae(earned, starts, gamma=gamma, lam=lam, bootstrap=bootstrap)
    out = np.zeros_like(paid)
    out[chosen] = by_turn[number[chosen]]
    return out


def _floats(given: ArrayLike) -> Floats:
    return np.asarray(given, dtype=np.float64)


def _owned(paid: Floats, owner: NDArray[np.int64], count: int) -> Floats:
    """Sum rewards by the act that they belong to."""
    if paid.shape != owner.shape:
        raise ValueError("rewards and mask are of one shape (tokens,).")
    if paid[owner < 0].any():
        raise ValueError("A reward stands before the first act: nothing earned it.")
    sums = np.bincount(owner[owner >= 0], paid[owner >= 0], minlength=count)
    return sums.astype(np.float64)

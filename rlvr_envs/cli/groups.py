"""What a trainer would make of groups, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlvr_envs.cli.shell import Shell


def show_channels(shell: Shell, lines: Sequence[Mapping[str, Any]]) -> None:
    """Show both channels of groups that have something to learn from.

    Args:
        shell: Where to.
        lines: Summary lines of ``rlvr run``.
    """
    paths = [line for line in lines if any(line["path_rewards"])]
    if paths:
        columns = ("task", "policy", "path", "path advantages", "var", "covariance")
        shell.table("Path channel", columns, (_path(line) for line in paths))
    live = [line for line in lines if _differs(line)]
    if live:
        columns = ("task", "policy", "Dr. GRPO", "GRPO", "two channels", "repetition")
        shell.table(
            "Advantages (two channels: turns added up)",
            columns,
            (_advantages(line) for line in live),
        )


def numbers(values: Sequence[float | None]) -> str:
    """Return numbers in a row; a void episode's is a dash."""
    return " ".join("-" if number is None else f"{number:.3g}" for number in values)


def _differs(line: Mapping[str, Any]) -> bool:
    keys = ("advantages", "path_rewards", "repetitions")
    return any(any(line[key]) for key in keys)


def _path(line: Mapping[str, Any]) -> Sequence[object]:
    found = line["diagnostics"]
    return (
        line["group"],
        line["policy"],
        numbers(line["path_rewards"]),
        numbers(line["path_advantages"]),
        found["var_path"],
        found["covariance"],
    )


def _advantages(line: Mapping[str, Any]) -> Sequence[object]:
    sums = [None if turns is None else sum(turns) for turns in line["two_channels"]]
    return (
        line["group"],
        line["policy"],
        numbers(line["advantages"]),
        numbers(line["grpo_advantages"]),
        numbers(sums),
        numbers(line["repetitions"]),
    )

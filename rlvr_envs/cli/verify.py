"""`rlvr verify`: score a recorded final state again."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Any

from rlvr_envs.cli.shell import Advance, Shell, status
from rlvr_envs.cli.targets import env_kwargs, positive
from rlvr_envs.rollouts.replay import make_for
from rlvr_envs.rollouts.states import score, start_of
from rlvr_envs.trajectories.record import Trajectory
from rlvr_envs.trajectories.store import read

VERDICT = ("status", "reward", "invariants", "tamper", "collateral")
"""What must not differ between two verdicts on one state."""


def add_parser(subparsers: Any) -> None:
    """Add the command's own options."""
    parser = subparsers.add_parser("verify", help="score a recorded final state again")
    parser.add_argument("files", nargs="+", metavar="FILE", help="a trajectory")
    parser.add_argument(
        "--times", type=positive, default=1, metavar="N", help="verdicts on one state"
    )
    parser.add_argument("--env", default="", metavar="ID", help="default: the recorded")
    parser.add_argument("--tasks", metavar="PLACE", help="default: the recorded")
    parser.add_argument("--sandbox", metavar="NAME", help="default: the recorded")


def run(args: argparse.Namespace) -> int:
    """Print one line a file; 1 if a verdict differs from the recorded one."""
    shell = Shell(as_json=args.json)
    rows = []
    with shell.progress(len(args.files) * args.times, "verdicts") as advance:
        for path in args.files:
            rows.append(_row(args, read(path), advance))
            shell.emit(rows[-1])
    columns = ("trajectory", "state", "recorded", "status", "reward", "agree")
    shell.table("Verdicts", columns, (_cells(row) for row in rows))
    return 0 if all(row["agree"] == row["times"] for row in rows) else 1


def _row(
    args: argparse.Namespace, recorded: Trajectory, advance: Advance
) -> dict[str, Any]:
    env = make_for(recorded, args.env, env_kwargs(args))
    outcomes = []
    try:
        with start_of(env, recorded) as (start, origin):
            for _ in range(args.times):
                outcomes.append(score(env, start, recorded))
                advance("")
    finally:
        env.close()
    return summary(recorded, outcomes, origin)


def summary(
    recorded: Trajectory, outcomes: Sequence[Mapping[str, Any]], origin: str
) -> dict[str, Any]:
    """Return the line of one trajectory."""
    wanted = _verdict(recorded.outcome)
    verdicts = [_verdict(outcome) for outcome in outcomes]
    return {
        "trajectory": str(recorded.path),
        "state": origin,
        "times": len(outcomes),
        "agree": verdicts.count(wanted),
        "flaky": any(verdict != verdicts[0] for verdict in verdicts),
        "status": outcomes[0]["status"],
        "reward": outcomes[0]["reward"],
        "tamper": outcomes[0]["tamper"],
        "failed": outcomes[0]["failed"],
        "recorded": {name: recorded.outcome[name] for name in ("status", "reward")},
    }


def _verdict(outcome: Mapping[str, Any]) -> list[Any]:
    return [outcome.get(name) for name in VERDICT]


def _cells(row: Mapping[str, Any]) -> Sequence[object]:
    return (
        row["trajectory"],
        row["state"],
        status(row["recorded"]["status"]),
        status(row["status"]),
        row["reward"],
        f"{row['agree']} of {row['times']}",
    )

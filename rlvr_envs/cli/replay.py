"""`rlvr replay`: play recorded episodes again and compare every byte."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from rlvr_envs.cli.shell import Advance, Shell, status
from rlvr_envs.cli.targets import env_kwargs, positive
from rlvr_envs.rollouts.replay import Comparison, recorded_replays, replay_all
from rlvr_envs.trajectories.store import read


def add_parser(subparsers: Any) -> None:
    """Add the command's own options."""
    parser = subparsers.add_parser(
        "replay", help="play recorded episodes again and compare every byte"
    )
    parser.add_argument("files", nargs="+", metavar="FILE")
    parser.add_argument("--times", type=positive, default=1, metavar="N")
    parser.add_argument("--workers", type=positive, default=1, metavar="W")
    parser.add_argument("--env", default="", metavar="ID", help="default: the recorded")
    parser.add_argument("--tasks", metavar="PLACE", help="default: the recorded")
    parser.add_argument("--sandbox", metavar="NAME", help="default: the recorded")


def run(args: argparse.Namespace) -> int:
    """Print one line a file; 1 if any replay differs."""
    shell = Shell(as_json=args.json)
    for path in args.files:
        torn = read(path).torn_bytes
        if torn:
            shell.say(f"rlvr: {path}: its last line was cut short ({torn} bytes)")
    total = len(args.files) * args.times
    with shell.progress(total, "replays") as advance:
        rows = list(_rows(args, shell, advance))
    columns = ("trajectory", "times", "identical", "first difference")
    shell.table("Replays", columns, (_cells(row) for row in rows))
    return 0 if all(row["identical"] == row["times"] for row in rows) else 1


def _rows(
    args: argparse.Namespace, shell: Shell, advance: Advance
) -> Iterator[dict[str, Any]]:
    replays = [
        item
        for path in args.files
        for item in recorded_replays(
            path, args.times, env=args.env, kwargs=env_kwargs(args)
        )
    ]
    comparisons = replay_all(
        replays, workers=args.workers, done=lambda item: advance(item.path)
    )
    for path in args.files:
        row = summary(path, list(islice(comparisons, args.times)))
        shell.emit(row)
        yield row


def summary(path: str, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Return the line of one trajectory."""
    different = [item.difference for item in comparisons if item.difference]
    return {
        "trajectory": path,
        "times": len(comparisons),
        "identical": len(comparisons) - len(different),
        "first_difference": different[0].to_json() if different else None,
        "exempt_turns": max(item.exempt for item in comparisons),
    }


def _cells(row: dict[str, Any]) -> Sequence[object]:
    difference = row["first_difference"]
    where = f"turn {difference['turn']}: {difference['field']}" if difference else None
    same = row["identical"] == row["times"]
    word = status("passed" if same else "failed")
    word.plain = str(row["identical"])
    return row["trajectory"], row["times"], word, where

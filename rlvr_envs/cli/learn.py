"""`rlvr learn`: do the reward channels teach a small policy, on real sandboxes?"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rlvr_envs.cli.learning_plot import draw_learning
from rlvr_envs.cli.plotting import require_plot
from rlvr_envs.cli.shell import Shell
from rlvr_envs.cli.targets import env_kwargs, positive
from rlvr_envs.rollouts.learning.experiments import EXPERIMENTS, Experiment
from rlvr_envs.rollouts.learning.findings import Figure, Runs, figures, runs_of
from rlvr_envs.rollouts.learning.training import Course, Update

QUICK_UPDATES = 2
_COLUMNS = {
    "success": "success",
    "violations": "violations",
    "fulfilments": "obligations met",
    "needed": "needed acts",
    "handed_in": "handed in",
    "updates_to_goal": "updates to 0.9",
    "dead_updates": "dead updates",
}


def add_parser(subparsers: Any) -> None:
    """Add the command's own options."""
    usual = Course()
    parser = subparsers.add_parser(
        "learn", help="train a small policy on real sandboxes, and say what it learned"
    )
    parser.add_argument(
        "--only",
        choices=[item.name for item in EXPERIMENTS],
        help="one of the experiments (default: all)",
    )
    parser.add_argument("--seeds", type=positive, default=5, metavar="N")
    parser.add_argument("--updates", type=positive, default=usual.updates, metavar="N")
    parser.add_argument(
        "--group", type=positive, default=usual.size, metavar="G", help="episodes each"
    )
    parser.add_argument("--sandbox", metavar="NAME", help="another sandbox backend")
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.png", help="draw the learning curves"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"one seed and {QUICK_UPDATES} updates: shows that it runs, and judges "
        "nothing",
    )
    parser.set_defaults(tasks=None)


def run(args: argparse.Namespace) -> int:
    """Train, print each update and the findings; 1 if a result did not reproduce."""
    shell = Shell(as_json=args.json)
    chosen = [item for item in EXPERIMENTS if args.only in (None, item.name)]
    require_plot(args.plot)
    updates = QUICK_UPDATES if args.quick else args.updates
    seeds = 1 if args.quick else args.seeds
    course = Course(updates=updates, size=args.group)
    total = sum(len(item.signals) for item in chosen) * seeds * updates
    learned: list[tuple[Experiment, Runs]] = []
    with shell.progress(total, "updates") as advance:
        for item in chosen:
            seen: list[Update] = []
            for update in item.run(course=course, seeds=seeds, kwargs=env_kwargs(args)):
                shell.emit({"experiment": item.name, **update.to_json()})
                advance(f"{item.name}: {update.signal}, seed {update.seed}")
                seen.append(update)
            learned.append((item, runs_of(seen)))
    held = [_show(shell, item, runs, args.quick) for item, runs in learned]
    if args.plot is not None:
        draw_learning(learned, args.plot)
    return int(not all(held))


def _show(shell: Shell, item: Experiment, runs: Runs, quick: bool) -> bool:  # noqa: FBT001 - as parsed
    found = {signal: figures(tries) for signal, tries in runs.items()}
    for signal, readings in found.items():
        shell.emit({"experiment": item.name, "summary": signal, **_plain(readings)})
    seeds = len(next(iter(runs.values())))
    shell.table(
        f"{item.name}: {item.lesson.task}, {seeds} seeds",
        ("taught by", *_COLUMNS.values()),
        (
            (signal, *(str(readings[name]) for name in _COLUMNS))
            for signal, readings in found.items()
        ),
    )
    if quick:
        shell.text("Too short to judge; leave out --quick.")
        return True
    judged = [finding(found) for finding in item.findings]
    for finding in judged:
        shell.emit({"experiment": item.name, **finding.to_json()})
        word = "reproduced" if finding.holds else "NOT REPRODUCED"
        shell.text(f"{word}: {finding.claim}: {finding.detail}.")
    return all(finding.holds for finding in judged)


def _plain(readings: dict[str, Figure]) -> dict[str, Any]:
    return {
        name: {"mean": round(figure.mean, 6), "deviation": round(figure.deviation, 6)}
        for name, figure in readings.items()
    }

"""`rlvr bench`: speed, cost and scale, measured.

A benchmark asserts nothing; only `soak` (something was left behind) and
`determinism` (a replay differed) end with status 1.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from rlvr_envs.cli.benches.measuring import Setting
from rlvr_envs.cli.shell import Shell
from rlvr_envs.cli.targets import (
    add_env_options,
    add_task_options,
    env_maker,
    positive,
    task_names,
)

Measure = Callable[[Setting], Iterable[Mapping[str, Any]]]

BENCHES: Mapping[str, tuple[str, int]] = {
    "reset": ("reset", 100),
    "step": ("step", 100),
    "verify": ("judging", 100),
    "throughput": ("throughput", 400),
    "memory": ("memory", 100),
    "soak": ("soak", 2000),
    "determinism": ("determinism", 50),
    "peers": ("peers", 30),
}
"""Name to module and default rounds."""

_HOLDS: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "soak": lambda line: not line["grown"],
    "determinism": lambda line: line["identical"] == line["n"],
}


def add_parser(subparsers: Any) -> None:
    """Add the command's own options."""
    parser = subparsers.add_parser("bench", help="measure speed, cost and scale")
    parser.add_argument("bench", choices=tuple(BENCHES))
    add_env_options(parser)
    add_task_options(parser)
    parser.add_argument("-n", type=positive, metavar="N", help="rounds that count")
    parser.add_argument(
        "--command",
        dest="words",
        default="echo ok",
        metavar="LINE",
        help="for step and reset: a command that prints one line (default: echo ok)",
    )
    _add_reset_options(parser)
    parser.add_argument("--slots", type=positive, default=8, help="for throughput")
    parser.add_argument("--kills", type=int, default=3, help="for soak: trainers")
    parser.add_argument("--workers", type=positive, default=2, help="for determinism")
    parser.add_argument("--policy", default="gold", help="for determinism")


def _add_reset_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ballast-mib", type=int, default=0, help="resident size of the trainer"
    )
    parser.add_argument(
        "--cold", type=int, default=5, metavar="N", help="fresh processes; 0 for none"
    )
    parser.add_argument("--cold-child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--floor-root", metavar="DIR", help="default: the base image")
    parser.add_argument("--docker-host", default="", metavar="URL")
    parser.add_argument("--docker-image", default="rlvr-base:latest", metavar="NAME")


def run(args: argparse.Namespace) -> int:
    """Measure, print, and say whether what can be wrong is right."""
    shell = Shell(as_json=args.json)
    module, default = BENCHES[args.bench]
    measure: Measure = importlib.import_module(
        f"rlvr_envs.cli.benches.{module}"
    ).measure
    rounds = args.n or default
    make = env_maker(args)
    lines = []
    with shell.progress(_total(args, make, rounds), args.bench) as tick:
        for line in measure(Setting(args, make, rounds, tick)):
            shell.emit(line)
            lines.append(line)
    _tables(shell, args.bench, lines)
    holds = _HOLDS.get(args.bench)
    return 0 if holds is None or all(map(holds, lines)) else 1


def _total(args: argparse.Namespace, make: Callable[[], Any], rounds: int) -> int:
    if args.bench != "determinism":
        return rounds
    env = make()
    tasks = task_names(env, args.task or ["all"])
    env.close()
    return rounds * len(tasks)


def _tables(shell: Shell, bench: str, lines: Sequence[Mapping[str, Any]]) -> None:
    for line in lines:
        rows = [(name, value) for name, value in line.items() if name != "machine"]
        shell.table(f"bench {bench}", ("", ""), _flat(rows))
    if lines:
        machine = lines[-1]["machine"]
        shell.text(", ".join(f"{name} {value}" for name, value in machine.items()))


def _flat(rows: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
    for name, value in rows:
        if isinstance(value, Mapping):
            yield from _flat((f"{name}.{key}", item) for key, item in value.items())
        else:
            yield name, value

"""`rlvr import`: foreign task sets become ours, and are tried."""

from __future__ import annotations

import argparse
import contextlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvr_envs import seeding
from rlvr_envs.cli.shell import Shell, status
from rlvr_envs.cli.targets import natural, positive
from rlvr_envs.cli.trials import Job, all_scripts, environment, folder, tried
from rlvr_envs.errors import (
    MissingRequirement,
    TaskError,
    WorldError,
    WrongArgument,
)
from rlvr_envs.importing import builders, convert, harbor, quixbugs
from rlvr_envs.importing.bases import MEASURES, buildable, stand_in, untestable
from rlvr_envs.importing.folders import task_name, write_folder
from rlvr_envs.importing.harbor import HarborTask, Problem
from rlvr_envs.importing.trial import INFRA, NOT_BUILT, Trial, summary
from rlvr_envs.registration import load
from rlvr_envs.tasks.scripts import null

_TAU2 = "rlvr_envs.cli.importing_tau2:run"
"""Loaded when it is asked for: it needs packages that the others do not."""


def add_parser(subparsers: Any) -> None:
    """Add the command's own options."""
    parser = subparsers.add_parser("import", help="turn a foreign task set into ours")
    formats = parser.add_subparsers(dest="format", required=True, metavar="FORMAT")
    _add_harbor(formats.add_parser("harbor", help="tasks in the Harbor format"))
    _add_quixbugs(formats.add_parser("quixbugs", help="a checkout of QuixBugs"))
    _add_tau2(formats.add_parser("tau2", help="tau2-bench's retail domain"))


def _add_harbor(parser: argparse.ArgumentParser) -> None:
    _add_places(parser)
    parser.add_argument("--tasks", metavar="A,B", help="only these, by their own names")
    parser.add_argument(
        "--sample", type=positive, metavar="N", help="only N, drawn by --seed"
    )
    parser.add_argument("--seed", type=natural, default=0, metavar="S")
    parser.add_argument(
        "--null", action="store_true", help="build each and play the null policy"
    )
    parser.add_argument(
        "--builder",
        choices=("none", "docker", "buildah"),
        default="none",
        help="none (default): the Dockerfile's steps, offline, on an image of ours",
    )
    parser.add_argument("--docker-url", default="", metavar="URL")


def _add_quixbugs(parser: argparse.ArgumentParser) -> None:
    _add_places(parser)
    parser.add_argument(
        "--check",
        action="store_true",
        help="play gold, null and the cheats of every program",
    )


def _add_tau2(parser: argparse.ArgumentParser) -> None:
    _add_output(parser)
    parser.add_argument(
        "--check", action="store_true", help="play gold, null and cheats of every task"
    )
    parser.add_argument("--tasks", metavar="A,B", help="only these, by the new names")
    parser.add_argument(
        "--database", default="", metavar="DSN", help="a PostgreSQL server that runs"
    )


def _add_places(parser: argparse.ArgumentParser) -> None:
    _add_output(parser)
    parser.add_argument("--sandbox", metavar="NAME", help="another sandbox backend")


def _add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="DIR")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write tasks here")


def run(args: argparse.Namespace) -> int:
    """Import, and try where asked for; 1 if a check does not hold."""
    shell = Shell(as_json=args.json)
    return _FORMATS[args.format](args, shell)


def _harbor(args: argparse.Namespace, shell: Shell) -> int:
    tasks, problems = harbor.load_all(harbor.find(args.source))
    report = _loading(tasks, problems)
    shell.emit(report)
    for problem in problems:
        shell.emit(_problem_line(problem))
    _show_loading(shell, report, problems)
    if not (args.out or args.null):
        return 0
    chosen = _chosen(args, tasks)
    with folder(args.out) as out:
        written, failed = _write(args, chosen, out, shell)
        if args.null:
            jobs = [(name, null()) for name in written]
            failed += _trials(args, shell, out, jobs=jobs)
    _report_trials(shell, failed, seed=args.seed, drawn=len(chosen))
    return 0


def _loading(
    tasks: Sequence[HarborTask], problems: Sequence[Problem]
) -> dict[str, Any]:
    offline = sum(_is_offline(task) for task in tasks)
    return {
        "folders": len(tasks) + len(problems),
        "loaded": len(tasks),
        "problems": len(problems),
        "needs_only": {
            measure.name: sum(measure.holds(task.needs) for task in tasks)
            for measure in MEASURES
        },
        "offline": offline,
        "without_gold": sum(not convert.has_gold(task) for task in tasks),
        "tests_import_submission": sum(bool(task.imports) for task in tasks),
        "bases": dict(Counter(task.plan.base for task in tasks).most_common()),
    }


def _is_offline(task: HarborTask) -> bool:
    image = stand_in(task.plan.base)
    return image is not None and buildable(task.needs, image)


def _problem_line(problem: Problem) -> dict[str, Any]:
    return {
        "problem": problem.task,
        "file": problem.file,
        "line": problem.line,
        "reason": problem.reason,
    }


def _show_loading(
    shell: Shell, report: Mapping[str, Any], problems: Sequence[Problem]
) -> None:
    flat = {
        **report,
        **{f"needs only: {k}": v for k, v in report["needs_only"].items()},
    }
    rows = [(key, value) for key, value in flat.items() if not isinstance(value, dict)]
    shell.table("Loading", ("what", "tasks"), rows)
    if problems:
        shown = [(item.task, item.line, item.reason) for item in problems]
        shell.table("Not loaded", ("task", "line", "reason"), shown)


def _chosen(args: argparse.Namespace, tasks: Sequence[HarborTask]) -> list[HarborTask]:
    """Return the tasks that the line names, or a seeded draw of what can be built.

    Raises:
        ValueError: If a name is not known.
    """
    if args.tasks:
        wanted = args.tasks.split(",")
        by_name = {task.name: task for task in tasks}
        unknown = [name for name in wanted if name not in by_name]
        if unknown:
            raise WrongArgument(
                f"There is no task {unknown[0]!r} that loads.",
                remedy=f"choose from {', '.join(by_name) or 'none at all'}",
            )
        return [by_name[name] for name in wanted]
    if not args.sample:
        return list(tasks)
    if args.builder == "none":
        pool = [t for t in tasks if MEASURES[-1].holds(t.needs) and _is_offline(t)]
    else:
        pool = list(tasks)
    rng = seeding.generator("import", "harbor", args.seed)
    places = rng.permutation(len(pool))[: args.sample]
    return [pool[place] for place in sorted(places.tolist())]


def _write(
    args: argparse.Namespace, tasks: Sequence[HarborTask], out: Path, shell: Shell
) -> tuple[list[str], list[Trial]]:
    """Write each task's folder; what cannot be is a trial that was not built."""
    written: list[str] = []
    failed: list[Trial] = []
    builder = builders.builder(args.builder, places=args.places, url=args.docker_url)
    with shell.progress(len(tasks), "importing") as advance:
        for task in tasks:
            try:
                _need_test_libraries(args, task)
                spec = convert.converted(task, image=builder(task))
                written.append(write_folder(spec, out).name)
            except (TaskError, WorldError) as error:
                kind = NOT_BUILT if isinstance(error, TaskError) else INFRA
                name = task_name(task.name)
                failed.append(Trial(name, "", kind, reason=str(error)))
            advance(task.name)
    return written, failed


def _need_test_libraries(args: argparse.Namespace, task: HarborTask) -> None:
    """Set a task aside whose tests could not run on the image, whoever plays it.

    Raises:
        WorldError: Naming what the image lacks.
    """
    image = stand_in(task.plan.base)
    if args.builder != "none" or image is None:
        return
    lacks = untestable(task.test_needs, image)
    if lacks:
        raise WorldError(
            f"The tests import {', '.join(lacks)}, which the image {image} lacks."
        )


def _trials(
    args: argparse.Namespace,
    shell: Shell,
    out: Path,
    *,
    jobs: Sequence[Job] = (),
    names: Sequence[str] = (),
) -> list[Trial]:
    """Play these jobs, and every script of these tasks; print each as it ends."""
    with contextlib.closing(environment(args, out)) as env:
        trials = []
        for trial in tried(env, shell, [*jobs, *all_scripts(env, names)]):
            shell.emit(trial.to_json())
            trials.append(trial)
    return trials


def _report_trials(
    shell: Shell, trials: Sequence[Trial], *, seed: int, drawn: int
) -> None:
    if not trials:
        return
    line = {"sample": drawn, "seed": seed, **summary(trials)}
    shell.emit(line)
    rows = [
        (trial.task, trial.build, status(trial.status), trial.reward, trial.reason[:90])
        for trial in trials
        if trial.status != "failed"
    ]
    shell.table(
        "Not simply failed", ("task", "build", "null", "reward", "reason"), rows
    )
    shell.table("Trials", ("what", "tasks"), list(line.items()))


def _quixbugs(args: argparse.Namespace, shell: Shell) -> int:
    found = quixbugs.programs(args.source)
    with folder(args.out) as out:
        names = [write_folder(quixbugs.converted(item), out).name for item in found]
        shell.emit({"programs": len(names), "out": str(args.out) if args.out else None})
        shell.text(f"{len(names)} programs became tasks.")
        if not args.check:
            return 0
        trials = _trials(args, shell, out, names=names)
    return _check_programs(shell, names, trials)


def _check_programs(shell: Shell, names: Sequence[str], trials: Sequence[Trial]) -> int:
    """Print one line a program; 0 if gold earns 1.0 and all else 0.0 everywhere."""
    rows = []
    for name in names:
        mine = {trial.policy: trial for trial in trials if trial.task == name}
        golden, idle = mine.pop("gold").reward, mine.pop("null").reward
        rest = {policy: trial.reward for policy, trial in mine.items()}
        holds = golden == 1.0 and idle == 0.0 and set(rest.values()) <= {0.0}
        rows.append((name, golden, idle, rest, holds))
        shell.emit(
            {"program": name, "gold": golden, "null": idle, "cheats": rest, "ok": holds}
        )
    good = sum(row[-1] for row in rows)
    shell.emit({"programs": len(rows), "ok": good})
    columns = ("program", "gold", "null", "cheats", "ok")
    shown = [(n, g, i, sorted(map(str, r.values())), ok) for n, g, i, r, ok in rows]
    shell.table("Programs", columns, shown)
    return 0 if good == len(rows) else 1


def _tau2(args: argparse.Namespace, shell: Shell) -> int:
    try:
        command: Callable[[argparse.Namespace, Shell], int] = load(_TAU2)
    except ModuleNotFoundError as error:
        raise MissingRequirement(
            f"The Python package {error.name} is not installed.",
            remedy="pip install 'rlvr-envs[sql]'.",
        ) from error
    return command(args, shell)


_FORMATS = {"harbor": _harbor, "quixbugs": _quixbugs, "tau2": _tau2}

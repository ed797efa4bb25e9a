"""`rlvr run`: policies play episodes, in groups of one snapshot."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import gymnasium as gym

from rlvr_envs.cli.groups import numbers, show_channels
from rlvr_envs.cli.outputs import require_folder
from rlvr_envs.cli.plotting import draw_groups, require_plot
from rlvr_envs.cli.shell import Shell, status
from rlvr_envs.cli.targets import (
    add_env_options,
    add_task_options,
    env_maker,
    natural,
    positive,
    task_names,
)
from rlvr_envs.errors import CallerError
from rlvr_envs.records import Status
from rlvr_envs.rollouts.endpoint import Endpoint, endpoint_policy
from rlvr_envs.rollouts.episodes import Group, Job, Result, group_jobs
from rlvr_envs.rollouts.parallel import Pool
from rlvr_envs.rollouts.policies import PolicySpec, named
from rlvr_envs.rollouts.states import keep_state

DEFAULT_OUT = Path("runs")


def add_parser(subparsers: Any) -> None:
    """Add the command's own options."""
    parser = subparsers.add_parser(
        "run", help="let policies play episodes, in groups of one snapshot"
    )
    add_env_options(parser)
    add_task_options(parser)
    parser.add_argument(
        "--policy",
        action="append",
        metavar="P",
        help="gold, null, random, cheat[:NAME], script:FILE or openai; again for more",
    )
    parser.add_argument("--seed", type=natural, default=0, metavar="S")
    parser.add_argument(
        "--group", type=positive, default=1, metavar="G", help="episodes a group"
    )
    parser.add_argument(
        "--parallel", type=positive, default=1, metavar="N", help="episodes at once"
    )
    parser.add_argument(
        "--out", type=Path, default=DEFAULT_OUT, metavar="DIR", help="default ./runs"
    )
    parser.add_argument(
        "--no-record", action="store_true", help="write no trajectories"
    )
    parser.add_argument(
        "--plot", type=Path, metavar="FILE.png", help="draw the groups' channels"
    )
    parser.add_argument(
        "--keep-state",
        action="store_true",
        help="keep each final state beside its trajectory, for `rlvr verify`",
    )
    _add_endpoint_options(parser)


def _add_endpoint_options(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("options of --policy openai")
    model.add_argument("--base-url", metavar="URL", help="http://localhost:8000/v1")
    model.add_argument("--model", metavar="NAME")
    model.add_argument("--api-key", default="none", metavar="KEY")
    model.add_argument("--api-key-file", type=Path, metavar="FILE")
    model.add_argument("--temperature", type=float)
    model.add_argument("--max-tokens", type=positive)
    model.add_argument("--retries", type=int, default=5, metavar="N")
    model.add_argument("--request-timeout", type=float, default=120.0, metavar="S")


def run(args: argparse.Namespace) -> int:
    """Play every group and print it; 1 if an episode was void."""
    shell = Shell(as_json=args.json)
    policies = [_policy(name, args) for name in args.policy or ["gold"]]
    maker = env_maker(args, record=None if args.no_record else args.out)
    probe = maker()
    tasks = task_names(probe, args.task)
    probe.close()
    jobs = [
        job for task in tasks for spec in policies for job in _group(args, task, spec)
    ]
    require_folder(None if args.no_record else args.out)
    require_plot(args.plot)
    groups: list[Group] = []
    with (
        _shown_at_the_end(shell, groups),
        shell.progress(len(jobs), "episodes") as advance,
        Pool(maker, size=min(args.parallel, len(jobs)), ended=_ended(args)) as pool,
    ):
        results = pool.play(jobs, done=lambda item: advance(item.job.task))
        for group in _report(shell, results):
            groups.append(group)  # noqa: PERF402  # kept one by one, if it breaks
    if args.plot is not None:
        draw_groups([group.to_json() for group in groups], args.plot)
    void = [item for group in groups for item in group.results if not item.scorable]
    return 1 if void else 0


def _ended(args: argparse.Namespace) -> Callable[[gym.Env[Any, Any]], None]:
    """Return what is done with an environment whose episode has been judged."""
    if not args.keep_state:
        return lambda _env: None

    def keep(env: gym.Env[Any, Any]) -> None:
        path = env.get_wrapper_attr("trajectory_path")
        if path is not None:
            keep_state(env, path)

    return keep


def _group(args: argparse.Namespace, task: str, spec: PolicySpec) -> Sequence[Job]:
    return group_jobs(
        task, instance=args.instance, seed=args.seed, size=args.group, policy=spec
    )


def _report(shell: Shell, results: Iterable[Result]) -> Iterator[Group]:
    """Emit each result, and each group once it is whole."""
    by_group = groupby(results, key=lambda item: (item.job.task, item.job.policy.name))
    for _, members in by_group:
        seen = []
        for item in members:
            shell.emit(item.to_json())
            seen.append(item)
        group = Group(tuple(seen))
        shell.emit(group.to_json())
        yield group


@contextmanager
def _shown_at_the_end(shell: Shell, groups: Sequence[Group]) -> Iterator[None]:
    """Show the groups that were played, also where an error or Ctrl-C ended it."""
    try:
        yield
    finally:
        if groups:
            _show(shell, groups)


def _show(shell: Shell, groups: Sequence[Group]) -> None:
    columns = ("task", "policy", "rewards", "advantages", "status", "tamper", "turns")
    shell.table("Groups", (*columns, "seconds"), (_row(group) for group in groups))
    show_channels(shell, [group.to_json() for group in groups])
    results = [item for group in groups for item in group.results]
    kept = sorted({str(item.trajectory.parent) for item in results if item.trajectory})
    if kept:
        shell.text(f"Trajectories: {', '.join(kept)}")
    for item in results:
        if item.problem:
            shell.say(f"rlvr: {item.problem}")
        if item.status == Status.INFRA_ERROR:
            which = f"{item.job.task} seed {item.job.seed}"
            shell.say(f"rlvr: {which} is void: {item.reason}")


def _row(group: Group) -> Sequence[object]:
    results = group.results
    line = group.to_json()
    states = sorted({item.status for item in results})
    codes = sorted({code for item in results for code in item.tamper})
    return (
        results[0].job.task,
        results[0].job.policy.name,
        numbers(line["rewards"]),
        line["diagnostics"]["dead"].replace("_", " ") or numbers(line["advantages"]),
        status(states[0]) if len(states) == 1 else states,
        codes,
        " ".join(str(item.turns) for item in results),
        f"{max(item.seconds for item in results):.2f}",
    )


def _policy(name: str, args: argparse.Namespace) -> PolicySpec:
    if name != "openai":
        return named(name)
    if not args.base_url or not args.model:
        raise CallerError(
            "The policy openai has to know where its model is.",
            remedy="give --base-url URL and --model NAME",
        )
    return endpoint_policy(
        Endpoint(
            base_url=args.base_url,
            model=args.model,
            api_key=_api_key(args),
            timeout_s=args.request_timeout,
            retries=args.retries,
            temperature=args.temperature,
            max_tokens=args.max_tokens,
        )
    )


def _api_key(args: argparse.Namespace) -> str:
    if args.api_key_file is None:
        return str(args.api_key)
    try:
        return str(args.api_key_file.read_text().strip())
    except OSError as error:
        raise CallerError(
            f"The key file {args.api_key_file} cannot be read: {error.strerror}.",
            remedy="name a file that holds the key alone",
        ) from error

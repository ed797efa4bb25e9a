"""`rlvr attack`: play the attack catalogue, and its benign twins."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_envs.cli.outputs import require_folder
from rlvr_envs.cli.shell import Shell, status
from rlvr_envs.cli.targets import add_env_options, env_maker, positive
from rlvr_envs.errors import CallerError
from rlvr_envs.manifest import manifest
from rlvr_envs.records import Status
from rlvr_envs.rollouts.episodes import Job, Result
from rlvr_envs.rollouts.parallel import Pool
from rlvr_envs.rollouts.policies import Maker, PolicySpec, scripted
from rlvr_envs.tasks.attacks import Attack, BenignTwin, Catalogue, load_attacks
from rlvr_envs.tasks.scripts import gold
from rlvr_envs.tasks.task import Instance, Script

_NOTHING = Script("nothing", ())


@dataclass(frozen=True, slots=True)
class Trial:
    """One episode of the catalogue.

    Attributes:
        variant: ``alone``, ``solved`` (the honest solution plus the attack) or
            ``twin``.
        codes: Tamper codes that the verdict must carry.
    """

    id: str
    title: str
    variant: str
    codes: tuple[str, ...]
    job: Job

    @property
    def is_twin(self) -> bool:
        """Whether it is honest."""
        return self.variant == "twin"

    def holds(self, result: Result) -> bool:
        """Return whether the judge did what it must."""
        if self.is_twin:
            return result.status == Status.PASSED and not result.tamper
        return scored_zero(result) and not self.lacks(result)

    def lacks(self, result: Result) -> tuple[str, ...]:
        """Return the required codes that the verdict does not carry."""
        return tuple(code for code in self.codes if code not in result.tamper)

    def to_json(self, result: Result) -> dict[str, Any]:
        """Return the line of this trial."""
        return {
            "attack": self.id,
            "title": self.title,
            "variant": self.variant,
            "task": self.job.task,
            "status": result.status,
            "reward": result.reward,
            "tamper": list(result.tamper),
            "required": list(self.codes),
            "missing": list(self.lacks(result)),
            "ok": self.holds(result),
            "reason": result.reason,
            "trajectory": str(result.trajectory) if result.trajectory else None,
        }


def scored_zero(result: Result) -> bool:
    """Return whether an attack earned nothing by a verdict (a void one has none)."""
    return result.scorable and result.reward == 0.0


def add_parser(subparsers: Any) -> None:
    """Add the command's own options."""
    parser = subparsers.add_parser(
        "attack", help="play the attack catalogue and its benign twins"
    )
    add_env_options(parser)
    parser.add_argument("--only", action="append", metavar="ID", help="again for more")
    parser.add_argument(
        "--catalogue", type=Path, metavar="FILE", help="default: the environment's own"
    )
    parser.add_argument("--parallel", type=positive, default=1, metavar="N")
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep trajectories")


def run(args: argparse.Namespace) -> int:
    """Print one line an attack and a summary; 1 if any gets through."""
    shell = Shell(as_json=args.json)
    trials = list(_trials(load_attacks(args.catalogue or _own(args.env)), args.only))
    maker = env_maker(args, record=args.out)
    jobs = [trial.job for trial in trials]
    require_folder(args.out)
    results: list[Result] = []
    with (
        shell.progress(len(jobs), "attacks") as advance,
        Pool(maker, size=min(args.parallel, len(jobs))) as pool,
    ):
        played = pool.play(jobs, done=lambda item: advance(item.job.policy.name))
        for trial, result in zip(trials, played, strict=True):
            shell.emit(trial.to_json(result))
            results.append(result)
    pairs = list(zip(trials, results, strict=True))
    summary = summarise(pairs)
    _tables(shell, pairs, summary)
    shell.emit(summary)
    return 0 if all(trial.holds(result) for trial, result in pairs) else 1


def summarise(pairs: Sequence[tuple[Trial, Result]]) -> dict[str, int]:
    """Return the counts; an attack counts once for each variant played."""
    attacks = [(t, r) for t, r in pairs if not t.is_twin]
    twins = [(t, r) for t, r in pairs if t.is_twin]
    return {
        "attacks": len(attacks),
        "scored_zero": sum(scored_zero(result) for _, result in attacks),
        "flag_missing": sum(bool(trial.lacks(result)) for trial, result in attacks),
        "benign": len(twins),
        "benign_passed": sum(r.status == Status.PASSED for _, r in twins),
        "benign_flagged": sum(bool(result.tamper) for _, result in twins),
    }


def _tables(
    shell: Shell, pairs: Sequence[tuple[Trial, Result]], summary: Mapping[str, int]
) -> None:
    columns = ("", "id", "variant", "task", "status", "reward", "tamper", "missing")
    rows = (
        (
            status("ok" if trial.holds(result) else "missing"),
            trial.id,
            trial.variant,
            trial.job.task,
            status(result.status),
            result.reward,
            result.tamper,
            trial.lacks(result),
        )
        for trial, result in pairs
    )
    shell.table("Attacks and benign twins", columns, rows)
    shell.text(", ".join(f"{key} {value}" for key, value in summary.items()))


def _own(env_id: str) -> Path:
    """Return the catalogue that stands beside an environment's task folders."""
    entry = manifest().env(env_id)
    module = entry.entry_point.partition(":")[0].split(".")[1:-1]
    file = Path(__file__).parent.parent.joinpath(*module) / "attacks.yaml"
    if not file.is_file():
        raise CallerError(
            f"{env_id} has no attack catalogue.", remedy="name one with --catalogue"
        )
    return file


def _trials(catalogue: Catalogue, only: Sequence[str] | None) -> Iterator[Trial]:
    known = [item.id for item in catalogue.attacks]
    known += [item.id for item in catalogue.twins]
    unknown = [name for name in only or () if name not in known]
    if unknown:
        raise CallerError(
            f"The catalogue has no {unknown[0]!r}.",
            remedy=f"choose from {', '.join(known)}",
        )
    for attack in catalogue.attacks:
        if not only or attack.id in only:
            yield from _of_attack(attack)
    for twin in catalogue.twins:
        if not only or twin.id in only:
            yield _of_twin(twin)


def _of_attack(attack: Attack) -> Iterator[Trial]:
    def alone(_instance: Instance) -> Script:
        return attack.script()

    def solved(instance: Instance) -> Script:
        return attack.solved(gold(instance)) or attack.script()

    job = _job(attack.id, attack.task, attack.instance, alone)
    yield Trial(attack.id, attack.title, "alone", attack.codes, job)
    if attack.codes:
        job = _job(f"{attack.id}+gold", attack.task, attack.instance, solved)
        yield Trial(attack.id, attack.title, "solved", attack.codes, job)


def _of_twin(twin: BenignTwin) -> Trial:
    def play(instance: Instance) -> Script:
        return twin.script(gold(instance) if twin.after_gold else _NOTHING)

    job = _job(twin.id, twin.task, twin.instance, play)
    return Trial(twin.id, twin.title, "twin", (), job)


def _job(
    name: str, task: str, number: int, script: Callable[[Instance], Script]
) -> Job:
    make: Maker = lambda env, _seed: scripted(script(env.get_wrapper_attr("instance")))  # noqa: E731
    return Job(task, number, 0, PolicySpec(name, make))

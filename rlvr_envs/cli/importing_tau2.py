"""`rlvr import tau2`: what each customer's task expects is found by doing it."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from rlvr_envs.cli.shell import Shell
from rlvr_envs.cli.trials import all_scripts, folder, tried
from rlvr_envs.envs.sql_rest.services.catalogue import open_service
from rlvr_envs.errors import WorldError, WrongArgument
from rlvr_envs.importing import tau2, tau2_corpus
from rlvr_envs.importing.folders import EPOCH, write_folder
from rlvr_envs.importing.tau2 import Replayed
from rlvr_envs.importing.tau2_corpus import Corpus, Ticket
from rlvr_envs.importing.trial import Trial
from rlvr_envs.rollouts.replay import make
from rlvr_envs.sandbox.postgres import sharing
from rlvr_envs.sandbox.postgres.roles import Access, Rights
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.sharing import Source

ENV = "rlvr/SqlRest-v0"
_REFUSED = 400
_BROKEN = 500


def run(args: argparse.Namespace, shell: Shell) -> int:
    """Import, and play every script where asked for; 1 if a check does not hold."""
    corpus = tau2_corpus.load(args.source)
    tickets = _chosen(args, corpus)
    with folder(args.out) as out:
        replayed = _written(args, shell, corpus, tickets, out)
        _report(args, shell, tickets, replayed)
        if not args.check:
            return 0
        names = [ticket.name for ticket in tickets]
        kwargs = {"tasks": str(out), "database": args.database}
        with contextlib.closing(make(ENV, kwargs)) as env:
            trials = list(tried(env, shell, list(all_scripts(env, names))))
    quiet = {name for name, found in replayed.items() if found.quiet}
    return _check(shell, names, trials, quiet)


def _chosen(args: argparse.Namespace, corpus: Corpus) -> Sequence[Ticket]:
    """Return the tickets that the line names, or all.

    Raises:
        ValueError: If a name is not known.
    """
    if not args.tasks:
        return corpus.tickets
    by_name = {ticket.name: ticket for ticket in corpus.tickets}
    unknown = [name for name in args.tasks.split(",") if name not in by_name]
    if unknown:
        raise WrongArgument(
            f"There is no task {unknown[0]!r}.",
            remedy=f"choose from {', '.join(by_name)}",
        )
    return [by_name[name] for name in args.tasks.split(",")]


def _written(
    args: argparse.Namespace,
    shell: Shell,
    corpus: Corpus,
    tickets: Sequence[Ticket],
    out: Path,
) -> Mapping[str, Replayed]:
    (out / tau2.SEED).write_text(corpus.seed, encoding="utf-8", newline="\n")
    epoch_s = int(datetime.fromisoformat(EPOCH).timestamp())
    seed = Seed(corpus.seed, epoch_s=epoch_s)
    found = {}
    with shell.progress(len(tickets), "importing") as advance:
        for ticket in tickets:
            found[ticket.name] = _replayed(ticket, seed, Source(args.database))
            write_folder(tau2.converted(ticket, corpus, found[ticket.name]), out)
            advance(ticket.name)
    return found


def _replayed(ticket: Ticket, seed: Seed, source: Source) -> Replayed:
    """Do what a ticket expects, through the service, on a clone of the shop.

    Raises:
        WorldError: If the service or the database broke.
    """
    refused = {}
    with contextlib.closing(
        sharing.lease(seed, Access(Rights.READ), source=source)
    ) as clone:
        service = open_service(tau2.SERVICE, clone, {}, lambda: seed.epoch_s)
        with contextlib.closing(service):
            for turn, item in enumerate(ticket.requests, start=1):
                answer = service.request(item.method, item.path, {}, item.body, turn)
                if answer.status >= _BROKEN:
                    raise WorldError(f"{item.method} {item.path}: {answer.body}")
                if answer.status >= _REFUSED and not item.reads:
                    refused[item] = f"{answer.status} {answer.body}"
        clone.freeze()
        return Replayed(clone.diff().rows, refused)


def _report(
    args: argparse.Namespace,
    shell: Shell,
    tickets: Sequence[Ticket],
    replayed: Mapping[str, Replayed],
) -> None:
    """Name what expects no write, and what the shop's rules refused."""
    quiet = {
        ticket.name: tau2.judged_by(ticket, replayed[ticket.name])
        for ticket in tickets
        if replayed[ticket.name].quiet
    }
    out = str(args.out) if args.out else None
    shell.emit({"tasks": len(tickets), "out": out, "expects_no_write": quiet})
    shell.text(f"{len(tickets)} customers became tasks.")
    shell.table("Expect no write", ("task", "judged by"), list(quiet.items()))
    refused = [
        (ticket.name, f"{item.method} {item.path}", told)
        for ticket in tickets
        for item, told in replayed[ticket.name].refused.items()
    ]
    for name, asked, told in refused:
        shell.emit({"refused": name, "request": asked, "answer": told})
    shell.table(
        "Expected, and refused by the shop", ("task", "request", "answer"), refused
    )


def _check(
    shell: Shell, names: Sequence[str], trials: Sequence[Trial], quiet: set[str]
) -> int:
    """Print one line a task; 0 if gold earns 1.0 and all else 0.0 everywhere."""
    rows = [_row(name, trials, writes=name not in quiet) for name in names]
    for row in rows:
        shell.emit(row)
    good = sum(row["ok"] for row in rows)
    shell.emit({"tasks": len(rows), "ok": good})
    columns = ("task", "expects_write", "gold", "null", "cheats", "ok")
    shown = [[row[column] for column in columns] for row in rows]
    shell.table("Tasks", columns, shown)
    return 0 if good == len(rows) else 1


def _row(name: str, trials: Sequence[Trial], *, writes: bool) -> dict[str, Any]:
    mine = {trial.policy: trial for trial in trials if trial.task == name}
    golden, idle = mine.pop("gold"), mine.pop("null")
    rest = {policy: trial.reward for policy, trial in mine.items()}
    holds = golden.reward == 1.0 and idle.reward == 0.0 and {*rest.values()} <= {0.0}
    return {
        "task": name,
        "expects_write": writes,
        "gold": golden.reward,
        "null": idle.reward,
        "cheats": rest,
        "ok": holds,
        "reason": golden.reason,
    }

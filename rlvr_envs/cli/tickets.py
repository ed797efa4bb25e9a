"""`rlvr tickets`: watch the scores of many tickets, and let people audit some."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rlvr_envs.cli.shell import Shell
from rlvr_envs.cli.targets import natural, positive
from rlvr_envs.errors import CallerError
from rlvr_envs.rewards.tickets.audit import (
    SHARE,
    Agreement,
    agreement,
    audit_csv,
    sample,
)
from rlvr_envs.rewards.tickets.monitors import (
    Scored,
    TicketReport,
    report,
    ticket_breaker,
)
from rlvr_envs.rollouts.scored import Found, scored_tickets

PATIENCE = 3
"""Collapsed windows in a row that trip the breaker."""


def add_parser(subparsers: Any) -> None:
    """Add the command's own options."""
    parser = subparsers.add_parser(
        "tickets", help="watch the scores of many tickets, and let people audit some"
    )
    parser.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="trajectories, score.json files, or a folder of trajectories",
    )
    parser.add_argument(
        "--window", type=positive, metavar="N", help="tickets a window of the breaker"
    )
    audit = parser.add_argument_group("shadow audit")
    audit.add_argument(
        "--audit", type=Path, metavar="FILE.csv", help="write a sample to be filled in"
    )
    audit.add_argument("--share", type=float, default=SHARE, help="default %(default)s")
    audit.add_argument(
        "--seed", type=natural, default=0, metavar="S", help="of the sample"
    )
    audit.add_argument(
        "--filled", type=Path, metavar="FILE.csv", help="count what people filled in"
    )


def run(args: argparse.Namespace) -> int:
    """Print one line a ticket and a summary; 1 if the breaker trips."""
    shell = Shell(as_json=args.json)
    found = scored_tickets(args.paths)
    if not found.scored:
        raise CallerError(
            "No scored ticket is among these files.",
            remedy="record some: rlvr run --env rlvr/SqlRest-v0 --task ticket-... --out DIR",
        )
    for item in found.scored:
        shell.emit(_line(item))
    summary = summarise(found, window=args.window)
    if args.audit is not None:
        chosen = sample(found.scored, seed=args.seed, share=args.share)
        args.audit.write_text(audit_csv(chosen), encoding="utf-8")
    people = _people(args.filled)
    if people is not None:
        summary["audit"] = _agreement(people)
    _show(shell, found, summary)
    shell.emit(summary)
    return 1 if summary["tripped"] else 0


def summarise(found: Found, *, window: int | None = None) -> dict[str, Any]:
    """Return the monitors over all tickets, and what the breaker says of windows."""
    size = window or len(found.scored)
    breaker = ticket_breaker(patience=PATIENCE)
    for part in _windows(found.scored, size):
        breaker = breaker.after(part.numbers())
    return {
        **report(found.scored).to_json(),
        "void": found.void,
        "tampered": found.tampered,
        "others": found.others,
        "windows": -(-len(found.scored) // size),
        "tripped": breaker.reason,
    }


def _windows(scored: Sequence[Scored], size: int) -> Iterator[TicketReport]:
    for start in range(0, len(scored), size):
        yield report(scored[start : start + size])


def _line(item: Scored) -> dict[str, Any]:
    return {"episode": item.episode, "group": item.group, **item.score.to_json()}


def _people(sheet: Path | None) -> Agreement | None:
    if sheet is None:
        return None
    try:
        return agreement(sheet.read_text(encoding="utf-8"))
    except OSError as error:
        raise CallerError(
            f"{sheet} cannot be read: {error.strerror}.",
            remedy="name the sheet that --audit wrote, once people filled it in",
        ) from error


def _agreement(people: Agreement) -> dict[str, Any]:
    return {
        "sampled": people.sampled,
        "filled": people.filled,
        "success": people.success,
        "guardrails": people.guardrails,
        "disagreeing": list(people.disagreeing),
    }


def _show(shell: Shell, found: Found, summary: dict[str, Any]) -> None:
    columns = ("episode", "ticket", "left", "raw", "final", "guardrails")
    shell.table("Tickets", columns, (_row(item) for item in found.scored))
    rates = ((name, f"{rate:.0%}") for name, rate in summary["hit_rates"].items())
    shell.table("Guardrails", ("guardrail", "fires on"), rates)
    clusters = (
        (row["guardrails"], len(row["episodes"]), row["mean_final"])
        for row in summary["clusters"]
    )
    shell.table("Low scores", ("guardrails", "tickets", "mean final"), clusters)
    shell.text(*_told(summary))


def _row(item: Scored) -> Sequence[object]:
    score = item.score
    return (
        item.episode,
        score.ticket,
        str(score.disposition),
        score.raw,
        score.final,
        [guard.name for guard in score.fired],
    )


def _told(summary: dict[str, Any]) -> Iterator[str]:
    yield (
        f"{summary['tickets']} tickets ({summary['void']} void, {summary['tampered']} tampered "
        f"and {summary['others']} other episodes left out)"
    )
    yield (
        f"success {summary['success_rate']:.0%}, mean {summary['mean_final']:.4f}, guardrails on "
        f"{summary['hit_rate']:.0%}, escalated {summary['escalation_rate']:.0%}"
    )
    yield (
        f"variance within groups {summary['group_variance']:.4g}, flat groups "
        f"{summary['flat_groups']:.0%}"
    )
    if "audit" in summary:
        people = summary["audit"]
        yield (
            f"people filled {people['filled']} of {people['sampled']}: same verdict "
            f"{people['success']:.0%}, same guardrails {people['guardrails']:.0%}"
        )
    yield from (f"ALARM: {alarm}" for alarm in summary["alarms"])
    if summary["tripped"]:
        yield f"BREAKER: {summary['tripped']}"

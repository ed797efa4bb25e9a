"""Scored tickets among recorded episodes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlvr_envs.errors import CallerError
from rlvr_envs.records import Status
from rlvr_envs.rewards.tickets.monitors import Scored
from rlvr_envs.rewards.tickets.recorded import parse_score
from rlvr_envs.trajectories.record import Kind, Trajectory
from rlvr_envs.trajectories.store import SUFFIX, read


@dataclass(frozen=True, slots=True)
class Found:
    """What a set of files holds.

    Attributes:
        scored: In the order of the files.
        void: Episodes without a verdict, or that were void: they enter no statistic.
        tampered: Episodes whose verdict is tampering; a rubric does not speak of them.
        others: Episodes of tasks that are no tickets.
    """

    scored: tuple[Scored, ...] = ()
    void: int = 0
    tampered: int = 0
    others: int = 0


def scored_tickets(paths: Iterable[Path]) -> Found:
    """Gather the scored tickets of recorded episodes.

    Args:
        paths: Trajectories, scores (``.json``), and folders of them: their files in
            the order in which they were last written. A trajectory's group is its
            task, instance and policy; a lone score's is its ticket.

    Raises:
        CallerError: If a file is neither, or there is no such file.
        ValueError: If a score does not add up; names file and key.
    """
    found = Found()
    for path in _files(paths):
        found = _with_file(found, path)
    return found


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            yield from sorted(path.glob(f"*{SUFFIX}"), key=_age)
        else:
            yield path


def _age(path: Path) -> tuple[int, str]:
    return path.stat().st_mtime_ns, path.name


def _with_file(found: Found, path: Path) -> Found:
    if path.suffix == ".json":
        return replace(found, scored=(*found.scored, _lone(path)))
    recorded = read(path)
    status = recorded.outcome.get("status")
    if status in (None, Status.INFRA_ERROR):
        return replace(found, void=found.void + 1)
    if status == Status.TAMPERED:
        return replace(found, tampered=found.tampered + 1)
    data = score_of(recorded.outcome)
    if data is None:
        return replace(found, others=found.others + 1)
    one = Scored(
        episode=path.name.removesuffix(SUFFIX),
        group=_group(recorded),
        score=parse_score(data, str(path)),
        reply=reply_of(recorded),
    )
    return replace(found, scored=(*found.scored, one))


def score_of(outcome: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the score that a verdict carries; ``None`` if it is of no ticket."""
    score = outcome.get("details", {}).get("ticket")
    return score if isinstance(score, Mapping) else None


def reply_of(recorded: Trajectory) -> str:
    """Return the last words of an episode to the customer; empty if there are none."""
    last = recorded.turns[-1].call if recorded.turns else {}
    return str(last.get("arguments", {}).get("answer", ""))


def _group(recorded: Trajectory) -> str:
    header = recorded.header
    policy = next(recorded.of(Kind.POLICY), {}).get("name", "")
    return f"{header.get('task')} #{header.get('instance')} {policy}".rstrip()


def _lone(path: Path) -> Scored:
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise CallerError(
            f"{path} cannot be read as a score: {error}.",
            remedy="name a score.json, a trajectory, or a folder of trajectories",
        ) from error
    score = parse_score(data, str(path))
    return Scored(str(path), score.ticket, score)

"""Does a rule book keep the four design rules of the path channel?

Each check is mechanical: it runs the rules on their own demonstrations and on probe
acts, so what it finds is what an agent would meet. It cannot read an intention: a
rule that hides an omission behind an act has to be seen by a reviewer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rlvr_envs.records import ToolCall, ToolCategory
from rlvr_envs.rewards.episode import Act, Turn
from rlvr_envs.rewards.path_rules import EMPTY, PathEngine, PathRule, RuleBook, State


class Design(StrEnum):
    """The four design rules.

    Source:
        Li and Shi (RLVP), arXiv:2607.07435; as in the project specification, E5.
    """

    COMMISSION = "penalise a verifiable act, never the absence of progress"
    OUTCOME = "an outcome reward is always present"
    PAIRED = "each penalty is paired with a credit for the compliant act"
    REACHABLE = "a scripted demonstration reaches the compliant act, ungamed"


@dataclass(frozen=True, slots=True)
class Finding:
    """A design rule that a path rule, or a task, breaks.

    Attributes:
        subject: Name of the path rule, or of the task.
        detail: What was tried and what came of it.
    """

    subject: str
    design: Design
    detail: str

    def to_json(self) -> dict[str, str]:
        """Return plain data."""
        return {
            "subject": self.subject,
            "breaks": self.design.name.lower(),
            "rule": str(self.design),
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class TaskCase:
    """What the linter needs to know of a task.

    Attributes:
        checks: How many acceptance checks its outcome rests on.
        scripts: Honest scripted paths, gold first; every call taken to succeed.
    """

    name: str
    checks: int
    scripts: tuple[tuple[Turn, ...], ...]


def lint(book: RuleBook, tasks: Iterable[TaskCase] = ()) -> tuple[Finding, ...]:
    """Check a rule book, alone and on the tasks that it will be used with."""
    found = [item for rule in book.rules for item in lint_rule(rule, book)]
    for task in tasks:
        found.extend(_lint_task(book, task))
    return tuple(found)


def lint_rule(rule: PathRule, book: RuleBook) -> Iterator[Finding]:
    """Yield the design rules that one row breaks."""
    checks = (
        (Design.COMMISSION, (_pair, _omission)),
        (Design.PAIRED, (_unpaired,)),
        (Design.REACHABLE, (_unreached, _gameable)),
    )
    for design, rows in checks:
        for check in rows:
            if detail := check(rule, book):
                yield Finding(rule.name, design, detail)


def _lint_task(book: RuleBook, task: TaskCase) -> Iterator[Finding]:
    if not task.checks:
        detail = "No acceptance check: the path channel would be its only reward."
        yield Finding(task.name, Design.OUTCOME, detail)
    for rule in book.rules:
        violated = [_violations(rule, book, script) for script in task.scripts]
        if not violated or all(violated):
            detail = (
                f"No honest script of task {task.name} avoids it: gold violates it at "
                f"call {violated[0][0]}."
                if violated
                else f"Task {task.name} has no honest script."
            )
            yield Finding(rule.name, Design.REACHABLE, detail)


def _pair(rule: PathRule, book: RuleBook) -> str:
    if not (rule.fires and rule.spares):
        return "It has no firing or no sparing case."
    if not _fires_last(rule, book, rule.fires):
        return "It does not fire on the last act of its own firing case."
    if _fires_last(rule, book, rule.spares):
        return "It fires on the last act of its own sparing case."
    return ""


def _omission(rule: PathRule, book: RuleBook) -> str:
    """Say in which state unrelated acts of most kinds are penalised.

    Then it is the state that is penalised, for what has not happened in it.
    """
    paths = (rule.fires[:-1], rule.fires, rule.demonstration)
    for state in (EMPTY, *(book.state_after(path) for path in paths)):
        hit = [act.category for act in _probes(book) if rule.violates(state, act)]
        if len(hit) > len(ToolCategory) / 2:
            kinds = ", ".join(hit)
            return f"In the state {_shown(state)} it fires on any act to {kinds}."
    return ""


def _unpaired(rule: PathRule, book: RuleBook) -> str:
    if not rule.credit:
        return "Its credit is 0."
    states = (book.state_after(path) for path in _prefixes(rule.demonstration))
    acts = (book.seen(turn).act for turn in rule.demonstration)
    if not any(
        rule.fulfils(state, act) for state, act in zip(states, acts, strict=True)
    ):
        return "No act of its demonstration earns its credit."
    return ""


def _unreached(rule: PathRule, book: RuleBook) -> str:
    if not rule.demonstration:
        return "It has no scripted compliant demonstration."
    for other in book.rules:
        if calls := _violations(other, book, rule.demonstration):
            return f"Its demonstration violates {other.name} at call {calls[0]}."
    return ""


def _gameable(rule: PathRule, book: RuleBook) -> str:
    if not rule.demonstration:
        return ""
    once = _payments(rule, book, rule.demonstration)
    if _payments(rule, book, rule.demonstration * 3) > once:
        return "Doing its demonstration again is paid again: name one obligation."
    for act in _probes(book):
        idle = (Turn(act.call, category=act.category),) * 3
        if _payments(rule, book, idle):
            return f"Its credit is paid for nothing but {act.call.name} calls."
    return ""


def _violations(rule: PathRule, book: RuleBook, path: Sequence[Turn]) -> list[int]:
    """Return which calls of a path violate a rule, counted from 1."""
    judged = PathEngine(book).score(path)
    return [
        number for number, turn in enumerate(judged, 1) if rule.name in turn.violations
    ]


def _payments(rule: PathRule, book: RuleBook, path: Sequence[Turn]) -> int:
    judged = PathEngine(book).score(path)
    return sum(rule.name in turn.fulfilments for turn in judged)


def _fires_last(rule: PathRule, book: RuleBook, path: Sequence[Turn]) -> bool:
    return len(path) in _violations(rule, book, path)


def _prefixes(path: Sequence[Turn]) -> Iterator[Sequence[Turn]]:
    return (path[:length] for length in range(len(path)))


def _probes(book: RuleBook) -> tuple[Act, ...]:
    """Return one harmless act of each category."""
    acts = (Act(ToolCall(f"probe_{kind}"), kind) for kind in ToolCategory)
    return tuple(Act(act.call, book.classify(act)) for act in acts)


def _shown(state: State) -> str:
    return "{" + ", ".join(f"{key}: {state[key]!r}" for key in sorted(state)) + "}"

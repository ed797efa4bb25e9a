"""Path rules for agents of databases and services, with the fold that they read.

A statement's first word says whether it only looks. The agent writes it, so that it
can mislabel its own calls: these rules are bounded and pay no outcome.
"""

from __future__ import annotations

import re
from types import MappingProxyType

from rlvr_envs.records import ToolCall, ToolCategory
from rlvr_envs.rewards import generic_rules
from rlvr_envs.rewards.episode import Act, Turn
from rlvr_envs.rewards.generic_rules import UNVERIFIED
from rlvr_envs.rewards.path_rules import PathRule, RuleBook, State

_COMMENT = re.compile(r"\A(?:\s+|--[^\n]*(?:\n|\Z)|/\*.*?\*/)+", re.DOTALL)
_LOOKS = re.compile(
    r"(?:SELECT|TABLE|VALUES|SHOW|EXPLAIN(?!.*\bANALYZE\b)"
    r"|WITH\b(?!.*\b(?:INSERT|UPDATE|DELETE|MERGE)\b))\b",
    re.IGNORECASE | re.DOTALL,
)
_SETTLES = re.compile(
    r"(?:BEGIN|START|COMMIT|END|ROLLBACK|ABORT|SAVEPOINT|RELEASE|SET|RESET|DISCARD)\b",
    re.IGNORECASE,
)
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOK_AGAIN = "look again"


def classify(act: Act) -> ToolCategory:
    """Return what a call does: a ``SELECT`` through the writing door only looks."""
    if act.category is not ToolCategory.MUTATE:
        return act.category
    looks = _LOOKS.match(_statement(act)) or act.call.arguments.get("method") in _SAFE
    return ToolCategory.OBSERVE if looks else ToolCategory.MUTATE


def fold(state: State, turn: Turn) -> State:
    """Return the facts after a turn; the words that frame transactions tell none.

    As the generic fold, but a look at what was written counts as verifying it.
    """
    if _is_frame(turn.act):
        return state
    after = dict(generic_rules.fold(state, turn))
    if turn.category is ToolCategory.OBSERVE and turn.ok:
        after[UNVERIFIED] = False
    if turn.category is ToolCategory.MUTATE and not turn.ok:
        after[UNVERIFIED] = state.get(UNVERIFIED, False)
    return MappingProxyType(after)


def acts_blindly(state: State, act: Act) -> bool:
    """Whether something is written before anything was looked at."""
    return not _is_frame(act) and generic_rules.acts_unobserved(state, act)


def acts_knowingly(state: State, act: Act) -> str:
    """Met by the first write that comes after a look."""
    return "" if _is_frame(act) else generic_rules.acts_observed(state, act)


def looks_again(state: State, act: Act) -> str:
    """Met by the first look after a write; once an episode."""
    due = act.category is ToolCategory.OBSERVE and state.get(UNVERIFIED)
    return _LOOK_AGAIN if due else ""


def _is_frame(act: Act) -> bool:
    return bool(_SETTLES.match(_statement(act)))


def _statement(act: Act) -> str:
    return _COMMENT.sub("", str(act.call.arguments.get("statement", "")))


def _query(statement: str) -> Turn:
    call = ToolCall("query", {"statement": statement})
    return Turn(call, category=ToolCategory.OBSERVE)


def _sql(statement: str) -> Turn:
    return Turn(ToolCall("sql", {"statement": statement}))


def _http(method: str, path: str) -> Turn:
    return Turn(ToolCall("http", {"method": method, "path": path}))


_SUBMIT = Turn(ToolCall("submit"), category=ToolCategory.TERMINAL)
_SHIPS = "UPDATE orders SET status = 'shipped' WHERE id = 3"
_READS = "SELECT status FROM orders WHERE id = 3"

BLIND_WRITE = PathRule(
    name="blind_write",
    violates=acts_blindly,
    fulfils=acts_knowingly,
    demonstration=(_query(_READS), _sql(_SHIPS)),
    fires=(_sql("BEGIN"), _sql(_SHIPS)),
    spares=(_sql(f"-- first\n{_READS}"), _sql(_SHIPS)),
)
UNSEEN_RESULT = PathRule(
    name="unseen_result",
    violates=generic_rules.ends_unverified,
    fulfils=looks_again,
    demonstration=(_query(_READS), _sql(_SHIPS), _query(_READS), _SUBMIT),
    fires=(_query(_READS), _sql(_SHIPS), _sql("COMMIT"), _SUBMIT),
    spares=(_http("POST", "/refunds"), _http("GET", "/refunds/1"), _SUBMIT),
)


def sql_book() -> RuleBook:
    """Return the rules for agents of databases, with the fold that they read."""
    rules = (BLIND_WRITE, generic_rules.REPEAT_FAILED_CALL, UNSEEN_RESULT)
    return RuleBook("sql", rules, fold, classify)

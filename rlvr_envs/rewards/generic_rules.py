"""Path rules that follow from tool categories alone, for any modality."""

from __future__ import annotations

from collections.abc import Iterable
from types import MappingProxyType

from rlvr_envs.records import ToolCall, ToolCategory
from rlvr_envs.rewards.episode import Act, Turn
from rlvr_envs.rewards.path_rules import PathRule, RuleBook, State

OBSERVED = "observed"
UNVERIFIED = "unverified"
CHANGED = "changed"
FAILED = "failed"


def fold(state: State, turn: Turn) -> State:
    """Return the generic facts after a turn.

    ``observed``: something was looked at. ``changed``: something was changed.
    ``unverified``: it was changed and not verified since. ``failed``: keys of calls
    that failed since the last change; whether one failed is the agent's to control.
    """
    after = dict(state)
    if not turn.ok:
        after[FAILED] = state.get(FAILED, frozenset()) | {turn.act.key}
    elif turn.category is ToolCategory.OBSERVE:
        after[OBSERVED] = True
    if turn.category is ToolCategory.VERIFY and turn.ran:
        after[UNVERIFIED] = False
    if turn.category is ToolCategory.MUTATE and turn.ran:
        after[CHANGED] = after[UNVERIFIED] = True
    if turn.category is ToolCategory.MUTATE and turn.ok:
        after[FAILED] = frozenset()
    return MappingProxyType(after)


def acts_unobserved(state: State, act: Act) -> bool:
    """Whether the world is changed before anything in it was looked at."""
    return act.category is ToolCategory.MUTATE and not state.get(OBSERVED)


def acts_observed(state: State, act: Act) -> str:
    """Met by the first change that comes after a look."""
    ready = state.get(OBSERVED) and not state.get(CHANGED)
    return "look" if ready and act.category is ToolCategory.MUTATE else ""


def repeats_failure(state: State, act: Act) -> bool:
    """Whether a call that failed is made again with nothing changed since."""
    return act.key in state.get(FAILED, frozenset())


def leaves_failure(state: State, act: Act) -> str:
    """Met by another call than the one that failed; once an episode.

    One obligation for all failures: an agent could otherwise fail in order to be
    paid for moving on.
    """
    failed = state.get(FAILED, frozenset())
    moved = failed and act.key not in failed
    return "move on" if moved and act.category is not ToolCategory.TERMINAL else ""


def ends_unverified(state: State, act: Act) -> bool:
    """Whether the episode is ended with changes that were never verified."""
    return act.category is ToolCategory.TERMINAL and bool(state.get(UNVERIFIED))


def ends_verified(state: State, act: Act) -> str:
    """Met by the first verification after a change."""
    due = act.category is ToolCategory.VERIFY and state.get(UNVERIFIED)
    return "verify" if due else ""


def _turn(category: ToolCategory, what: str = "a", *, ok: bool = True) -> Turn:
    return Turn(ToolCall(str(category), {"what": what}), category=category, ok=ok)


_LOOK = _turn(ToolCategory.OBSERVE)
_CHANGE = _turn(ToolCategory.MUTATE)
_CHECK = _turn(ToolCategory.VERIFY)
_END = _turn(ToolCategory.TERMINAL)
_FAILS = _turn(ToolCategory.OBSERVE, "b", ok=False)

ACT_BEFORE_OBSERVE = PathRule(
    name="act_before_observe",
    violates=acts_unobserved,
    fulfils=acts_observed,
    demonstration=(_LOOK, _CHANGE),
    fires=(_CHANGE,),
    spares=(_LOOK, _CHANGE),
)
REPEAT_FAILED_CALL = PathRule(
    name="repeat_failed_call",
    violates=repeats_failure,
    fulfils=leaves_failure,
    demonstration=(_FAILS, _LOOK),
    fires=(_FAILS, _LOOK, _FAILS),
    spares=(_FAILS, _CHANGE, _FAILS),
)
END_UNVERIFIED = PathRule(
    name="end_unverified",
    violates=ends_unverified,
    fulfils=ends_verified,
    demonstration=(_LOOK, _CHANGE, _CHECK, _END),
    fires=(_CHANGE, _CHECK, _CHANGE, _END),
    spares=(_CHANGE, _CHECK, _END),
)

_NEEDS = (
    (ACT_BEFORE_OBSERVE, {ToolCategory.OBSERVE, ToolCategory.MUTATE}),
    (REPEAT_FAILED_CALL, set[ToolCategory]()),
    (END_UNVERIFIED, {ToolCategory.MUTATE, ToolCategory.VERIFY, ToolCategory.TERMINAL}),
)


def generic_book(categories: Iterable[ToolCategory] = ToolCategory) -> RuleBook:
    """Return the generic rules whose compliant act the given tools can do.

    Args:
        categories: Of the tools that the agent has; all four if left out.
    """
    had = set(categories)
    rules = tuple(rule for rule, needs in _NEEDS if needs <= had)
    return RuleBook("generic", rules, fold)

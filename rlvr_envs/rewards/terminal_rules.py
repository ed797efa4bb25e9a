"""Path rules for agents that work through a shell.

Each refines a generic rule by what a command says: blind destruction is acting
before observing, a re-issued failure is a repeated failed call, an edit without a
test is ending unverified. What a command says and how it exits is the agent's to
choose, so these rules are bounded like all others and are evidence of nothing.
"""

from __future__ import annotations

import posixpath
from types import MappingProxyType

from rlvr_envs.records import ToolCall, ToolCategory
from rlvr_envs.rewards.episode import Act, Turn
from rlvr_envs.rewards.path_rules import PathRule, RuleBook, State
from rlvr_envs.rewards.shell import Simple, is_source, normalised, simple_commands

KNOWN = "known"
STALE = "stale"
UNTESTED = "untested"

LISTERS = frozenset({"ls", "find", "tree", "git", "du"})
"""Programs that show the working folder where they are given no other."""


def commands(act: Act) -> tuple[Simple, ...]:
    """Return the simple commands of a call; none for a tool that is no shell."""
    arguments = act.call.arguments
    if isinstance(arguments.get("command"), str):
        return simple_commands(arguments["command"])
    argv = arguments.get("argv")
    if isinstance(argv, (list, tuple)) and argv:
        words = [str(word) for word in argv]
        return (Simple(posixpath.basename(words[0]), tuple(words[1:]), ()),)
    return ()


def classify(act: Act) -> ToolCategory:
    """Refine a shell call: only looking observes, running tests verifies."""
    parts = commands(act)
    if act.category is ToolCategory.TERMINAL or not parts:
        return act.category
    if all(part.reads for part in parts):
        return ToolCategory.OBSERVE
    if all(part.reads or part.tests for part in parts):
        return ToolCategory.VERIFY
    return ToolCategory.MUTATE


def request(act: Act) -> str:
    """Return what is asked, free of blanks and comments that change nothing."""
    command = act.call.arguments.get("command")
    return normalised(command) if isinstance(command, str) else act.key


def fold(state: State, turn: Turn) -> State:
    """Return the shell facts after a turn.

    ``known``: paths that a successful call named, to read them or to make them.
    ``stale``: requests that failed with nothing changed since. ``untested``: source
    files edited and not run since.
    """
    act = turn.act
    known, stale = state.get(KNOWN, frozenset()), state.get(STALE, frozenset())
    if turn.ok:
        known = known | _named(act)
        stale = frozenset() if turn.category is ToolCategory.MUTATE else stale
    else:
        stale = stale | {request(act)}
    untested = state.get(UNTESTED, frozenset())
    if turn.ran:
        exercised = any(part.exercises for part in commands(act))
        untested = frozenset() if exercised else untested | _edited(act)
    return MappingProxyType({KNOWN: known, STALE: stale, UNTESTED: untested})


def destroys_blindly(state: State, act: Act) -> bool:
    """Whether something is destroyed that nothing before it named or listed."""
    return not all(_targets_known(state, act))


def destroys_knowingly(state: State, act: Act) -> str:
    """Met by the first destructive command all of whose targets were known."""
    known = _targets_known(state, act)
    return "look" if known and all(known) else ""


def reissues_failure(state: State, act: Act) -> bool:
    """Whether a request that failed is made again with nothing changed since."""
    return request(act) in stale if (stale := state.get(STALE)) else False


def diagnoses_failure(state: State, act: Act) -> str:
    """Met by looking at something else after a failure; once an episode."""
    stale = state.get(STALE)
    if not stale or request(act) in stale:
        return ""
    return "diagnose" if classify(act) is ToolCategory.OBSERVE else ""


def ends_untested(state: State, act: Act) -> bool:
    """Whether the episode is ended with source edits that nothing has run since."""
    return act.category is ToolCategory.TERMINAL and bool(state.get(UNTESTED))


def tests_edit(state: State, act: Act) -> str:
    """Met by the first run of tests or code after a source edit."""
    if not state.get(UNTESTED):
        return ""
    return "test" if any(part.exercises for part in commands(act)) else ""


def _targets_known(state: State, act: Act) -> list[bool]:
    """Return, for each thing that a call destroys, whether it was known.

    What an earlier command of the same line named is known: scratch files are made
    and removed in one call.
    """
    parts = commands(act)
    if not any(part.destroys for part in parts):
        return []
    known, verdicts = state.get(KNOWN, frozenset()), []
    for part in parts:
        verdicts += [_is_known(known, path) for path in part.destroys]
        known = known | _paths(part)
    return verdicts


def _edited(act: Act) -> frozenset[str]:
    paths = [path for part in commands(act) for path in part.edits]
    written = act.call.arguments.get("path")
    if act.category is ToolCategory.MUTATE and isinstance(written, str):
        paths.append(written)
    return frozenset(path for path in paths if is_source(path))


def _named(act: Act) -> frozenset[str]:
    """Return the paths that a call names, other than to destroy them.

    Else a thing destroyed unseen would be known the next time, and earn the credit.
    """
    written = act.call.arguments.get("path")
    direct = {posixpath.normpath(written)} if isinstance(written, str) else set()
    looked = (_paths(part) for part in commands(act) if not part.destroys)
    return frozenset(direct).union(*looked)


def _paths(part: Simple) -> frozenset[str]:
    """Return what a command names; the working folder for a bare listing."""
    operands = part.operands[1:] if part.program == "git" else part.operands
    here = (".",) if part.program in LISTERS and part.reads and not operands else ()
    named = (*operands, *here, *part.writes)
    return frozenset(posixpath.normpath(path) for path in named if path)


def _is_known(known: frozenset[str], path: str) -> bool:
    """Whether a path, or a folder above it other than the root, is known."""
    place = posixpath.normpath(path.split("*", 1)[0] or ".")
    above = {place}
    while place not in {"/", ".", ""}:
        place = posixpath.dirname(place) or "."
        above.add(place)
    return not above.isdisjoint(known - {"/"})


def _bash(command: str, *, ok: bool = True) -> Turn:
    return Turn(ToolCall("bash", {"command": command}), ok=ok)


def _write(path: str) -> Turn:
    return Turn(ToolCall("write_file", {"path": path, "content": "x = 1\n"}))


_SUBMIT = Turn(ToolCall("submit"), category=ToolCategory.TERMINAL)

BLIND_DESTRUCTION = PathRule(
    name="blind_destruction",
    violates=destroys_blindly,
    fulfils=destroys_knowingly,
    demonstration=(_bash("ls -la /app/build"), _bash("rm -rf /app/build")),
    fires=(_bash("ls /srv"), _bash("rm -rf /app/build")),
    spares=(_bash("ls /app"), _bash("rm -rf /app/build")),
)
REISSUED_FAILURE = PathRule(
    name="reissued_failure",
    violates=reissues_failure,
    fulfils=diagnoses_failure,
    demonstration=(
        _bash("make", ok=False),
        _bash("cat Makefile"),
        _write("Makefile"),
        _bash("make"),
    ),
    fires=(
        _bash("make", ok=False),
        _bash("cat Makefile"),
        _bash("make  # again", ok=False),
    ),
    spares=(_bash("make", ok=False), _write("Makefile"), _bash("make", ok=False)),
)
UNTESTED_EDIT = PathRule(
    name="untested_edit",
    violates=ends_untested,
    fulfils=tests_edit,
    demonstration=(_write("/app/sol.py"), _bash("pytest -q"), _SUBMIT),
    fires=(_write("/app/sol.py"), _bash("cat /app/sol.py"), _SUBMIT),
    spares=(_write("/app/notes.txt"), _SUBMIT),
)


def terminal_book() -> RuleBook:
    """Return the rules for shell agents, with the fold that they read."""
    rules = (BLIND_DESTRUCTION, REISSUED_FAILURE, UNTESTED_EDIT)
    return RuleBook("terminal", rules, fold, classify)

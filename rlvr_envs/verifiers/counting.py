"""The count rule: a pass means that all expected tests ran, and passed.

Expected ids come from the pinned tests, read before any submitted code ran; nothing
that a submission says or does can shorten the list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from rlvr_envs.records import Check
from rlvr_envs.state import Examination

SHOWN = 300


def count(found: Examination, expected: Collection[str], *, name: str) -> list[Check]:
    """Return a check for each expected test, and one for their number.

    Args:
        found: What the examiner saw.
        expected: Ids that a task pins by name; those collected are expected too.
        name: Of the verifier; prefixes each check.
    """
    outcomes = {test.id: test for test in found.tests}
    wanted = list(dict.fromkeys((*found.collected, *expected)))
    checks = []
    for test in wanted:
        seen = outcomes.get(test)
        passed = seen is not None and seen.outcome == "passed"
        detail = "it did not run" if seen is None else f"{seen.outcome}: {seen.detail}"
        reason = "" if passed else detail[:SHOWN]
        checks.append(Check(f"{name}: {test}", passed=passed, reason=reason))
    return [*checks, _number(found, wanted, name)]


def _number(found: Examination, wanted: list[str], name: str) -> Check:
    executed = Counter(test.id for test in found.tests)
    twice = [test for test, times in executed.items() if times > 1]
    if found.trouble:
        reason = found.trouble[:SHOWN]
    elif not wanted:
        reason = "no test was collected"
    elif twice or set(executed) != set(wanted):
        reason = f"{len(executed)} tests ran, {len(wanted)} were expected"
    else:
        reason = ""
    return Check(f"{name}: executed == expected", passed=not reason, reason=reason)

"""A package with a history of twenty-odd commits, of which one breaks it."""

from rlvr_envs.tasks.making import Commit, folder, pick, picks, repository, whole
from rlvr_envs.tasks.task import Recipe

MONEY = '''"""Amounts of money, in whole cents."""

import re


def parse(text):
    """Return the cents of an amount such as "12", "-3.5" or "1,204.07".

    Raises:
        ValueError: If the text is no amount, or has more than two decimals.
    """
    match = re.fullmatch(r"(-?)(\\d{{1,3}}(?:,\\d{{3}})*|\\d+)(?:\\.(\\d{{1,2}}))?", text.strip())
    if not match:
        raise ValueError(f"no amount: {{text!r}}")
    sign, units, decimals = match.groups()
    cents = int(units.replace(",", "")) * 100 + int((decimals or "0").ljust(2, "0"))
    return -cents if sign else cents


def split(cents, parts):
    """Return `parts` shares that add up to `cents`.

    Shares differ by at most one cent, and the larger ones come first.
    """
{split}
'''
SPLIT = {
    "first": """    share, rest = divmod(cents, parts)
    return [share + 1 if index < rest else share for index in range(parts)]""",
    "good": """    return [(cents + parts - 1 - index) // parts for index in range(parts)]""",
    "bad": """    share = round(cents / parts)
    return [share] * (parts - 1) + [cents - share * (parts - 1)]""",
}

JOURNAL = '''"""Entries, and which of them fall into a period."""

import bisect
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Entry:
    """One booking; `day` is an ISO date, `kind` is "sale" or "refund", cents are positive."""

    day: str
    account: str
    kind: str
    cents: int


def between(entries, first, last):
    """Return the entries from day `first` to day `last`, both included, in order of day."""
{between}
'''
BETWEEN = {
    "first": """    found = [entry for entry in entries if first <= entry.day and entry.day <= last]
    return sorted(found, key=lambda entry: entry.day)""",
    "good": """    ordered = sorted(entries, key=lambda entry: entry.day)
    days = [entry.day for entry in ordered]
    return ordered[bisect.bisect_left(days, first) : bisect.bisect_right(days, last)]""",
    "bad": """    ordered = sorted(entries, key=lambda entry: entry.day)
    days = [entry.day for entry in ordered]
    return ordered[bisect.bisect_left(days, first) : bisect.bisect_left(days, last)]""",
}

REPORT = '''"""What the entries add up to."""


def balances(entries):
    """Return cents by account, sorted by account: sales less refunds, in any order of entries.

    Accounts that add up to zero are left out.
    """
{balances}
'''
BALANCES = {
    "first": """    totals = {}
    for entry in entries:
        signed = -entry.cents if entry.kind == "refund" else entry.cents
        totals[entry.account] = totals.get(entry.account, 0) + signed
    return {account: totals[account] for account in sorted(totals) if totals[account]}""",
    "good": """    signs = {"sale": 1, "refund": -1}
    totals = dict.fromkeys(sorted(entry.account for entry in entries), 0)
    for entry in entries:
        totals[entry.account] += signs[entry.kind] * entry.cents
    return {account: cents for account, cents in totals.items() if cents}""",
    "bad": """    totals = {}
    for entry in sorted(entries, key=lambda entry: entry.account):
        if entry.account not in totals:
            totals[entry.account] = entry.cents
        else:
            totals[entry.account] += entry.cents if entry.kind == "sale" else -entry.cents
    return {account: cents for account, cents in totals.items() if cents}""",
}

SYMPTOMS = {
    "split": "When we split 200 cents among 3, the parts are 67, 67 and 66. Fine. But with other amounts the last share can be off by several cents.",
    "between": "The monthly statement lacks entries that I know I booked. Those of the middle of the month are there.",
    "balances": "A customer who got a refund before her first purchase of the period now shows up with too much money.",
}
SUBJECTS = {
    "split": ["Simplify the splitting of amounts", "Make split a one-liner"],
    "between": ["Look periods up by bisection", "Speed up period queries"],
    "balances": ["Tidy the balances", "Sum balances in one pass"],
}

EXTRAS = [
    ("Add a running total", "running.py", '"""Totals as they grow."""\n\n\ndef running(cents):\n    """Return the sums of all prefixes of a list of cents."""\n    total, sums = 0, []\n    for value in cents:\n        total += value\n        sums.append(total)\n    return sums\n'),
    ("Show amounts with thousands", "show.py", '"""Amounts for people."""\n\n\ndef show(cents):\n    """Return an amount such as "-1,204.07"."""\n    sign = "-" if cents < 0 else ""\n    return f"{sign}{abs(cents) // 100:,}.{abs(cents) % 100:02}"\n'),
    ("Name accounts in one case", "names.py", '"""Names of accounts."""\n\n\ndef normal(name):\n    """Return the name in lower case, with single dashes for runs of spaces."""\n    return "-".join(name.lower().split())\n'),
    ("Add quarters", "quarters.py", '"""Quarters of a year."""\n\n\ndef quarter(day):\n    """Return the quarter of an ISO date, as in "2024-Q2"."""\n    return f"{day[:4]}-Q{(int(day[5:7]) + 2) // 3}"\n'),
    ("Compute value added tax", "tax.py", '"""Value added tax."""\n\n\ndef tax(net, percent):\n    """Return the tax on net cents, half a cent away from zero."""\n    scaled = abs(net) * percent\n    cents = (scaled + 50) // 100\n    return cents if net >= 0 else -cents\n'),
    ("Find the largest entry", "largest.py", '"""The largest entry."""\n\n\ndef largest(entries):\n    """Return the entry with most cents, the first of equals, or None."""\n    return max(entries, key=lambda entry: entry.cents, default=None)\n'),
    ("Group entries by day", "days.py", '"""Entries by day."""\n\n\ndef by_day(entries):\n    """Return lists of entries by day, days in order."""\n    groups = {}\n    for entry in sorted(entries, key=lambda entry: entry.day):\n        groups.setdefault(entry.day, []).append(entry)\n    return groups\n'),
]
NOTES = ["Explain how to report a fault", "Mention the currency", "Say who maintains this", "Describe the release steps", "Fix a typo in the notes"]
PEOPLE = ["Ada Novak <ada@example.org>", "Jun Mori <jun@example.org>", "Rosa Vidal <rosa@example.org>"]


def _sources(state):
    return {
        "ledger/money.py": MONEY.format(split=SPLIT[state["split"]]),
        "ledger/journal.py": JOURNAL.format(between=BETWEEN[state["between"]]),
        "ledger/report.py": REPORT.format(balances=BALANCES[state["balances"]]),
    }


def _start():
    first = {"split": "first", "between": "first", "balances": "first"}
    init = '"""A small ledger."""\n'
    return first, {"ledger/__init__.py": init, "NOTES.md": "# Ledger\n", **_sources(first)}


def _steps(rng, broken):
    """Everything that happens after the first commit, in a random order."""
    steps = [("rewrite", name) for name in SYMPTOMS]
    steps += [("extra", row) for row in picks(rng, EXTRAS, len(EXTRAS))]
    steps += [("note", subject) for subject in NOTES]
    steps = picks(rng, steps, len(steps))
    place = next(i for i, step in enumerate(steps) if step == ("rewrite", broken))
    middle = whole(rng, 5, 10)
    steps[place], steps[middle] = steps[middle], steps[place]
    return steps


def _apply(rng, step, state, broken, notes):
    kind, what = step
    if kind == "note":
        notes.append(f"- {what}.\n")
        return what, {"NOTES.md": "# Ledger\n\n" + "".join(notes)}
    if kind == "extra":
        subject, name, content = what
        return subject, {f"ledger/{name}": content}
    state[what] = "bad" if what == broken else "good"
    path = {"split": "money", "between": "journal", "balances": "report"}[what]
    source = f"ledger/{path}.py"
    return pick(rng, SUBJECTS[what]), {source: _sources(state)[source]}


def generate(rng, number):
    broken = pick(rng, list(SYMPTOMS))
    state, files = _start()
    at = 1_700_000_000 + whole(rng, 0, 900_000)
    commits = [Commit("Begin a small ledger", files, at, PEOPLE[0])]
    notes, culprit = [], ""
    for step in _steps(rng, broken):
        at += whole(rng, 3_000, 400_000)
        subject, changed = _apply(rng, step, state, broken, notes)
        culprit = subject if step == ("rewrite", broken) else culprit
        commits.append(Commit(subject, changed, at, pick(rng, PEOPLE)))
    stream, setup = repository("/app/ledger", commits)
    return Recipe(
        files=(folder("/app"), stream),
        setup=setup,
        values={"symptom": SYMPTOMS[broken]},
        hidden={"culprit": culprit},
    )


def hidden(rng, recipe):
    days = [f"2024-{whole(rng, 1, 12):02}-{whole(rng, 1, 28):02}" for _ in range(12)]
    entries = [
        [pick(rng, days), pick(rng, ["ada", "bo", "cy", "di"]), pick(rng, ["sale", "sale", "refund"]), whole(rng, 1, 9_999)]
        for _ in range(80)
    ]
    splits = [[whole(rng, -5_000, 100_000), whole(rng, 1, 13)] for _ in range(12)]
    splits.append([10**18 + whole(rng, 1, 99), 7])
    return {"entries": entries, "days": sorted(days), "splits": splits}

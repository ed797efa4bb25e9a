import json
from pathlib import Path

import pytest

HIDDEN = json.loads(Path("/verifier/hidden.json").read_text())
ENTRIES = [tuple(row) for row in HIDDEN["entries"]]
BUILD = "[ledger.journal.Entry(*row) for row in rows]"
MODULES = ["ledger", "ledger.journal", "ledger.report", "ledger.days", "ledger.largest"]


def rows_of(candidate, expression, **names):
    plain = f"[(e.day, e.account, e.kind, e.cents) for e in {expression}]"
    return candidate.eval(plain, imports=MODULES, names={"rows": ENTRIES, **names})


@pytest.mark.parametrize("case", HIDDEN["splits"], ids=str)
def test_shares_are_fair_and_complete(candidate, case):
    cents, parts = case
    share, rest = divmod(cents, parts)

    assert candidate.call("ledger.money", "split", cents, parts) == [share + 1] * rest + [share] * (parts - rest)


@pytest.mark.parametrize("span", [(0, 11), (0, 0), (2, 7), (5, 6), (11, 11)], ids=str)
def test_a_period_includes_both_ends(candidate, span):
    first, last = HIDDEN["days"][span[0]], HIDDEN["days"][span[1]]
    expected = sorted((row for row in ENTRIES if first <= row[0] <= last), key=lambda row: row[0])

    assert rows_of(candidate, f"ledger.journal.between({BUILD}, first, last)", first=first, last=last) == expected


@pytest.mark.parametrize("order", [1, -1])
def test_balances_are_sales_less_refunds(candidate, order):
    totals = {}
    for _, account, kind, cents in ENTRIES:
        totals[account] = totals.get(account, 0) + (cents if kind == "sale" else -cents)
    names = {"rows": ENTRIES[::order]}

    result = candidate.eval(f"list(ledger.report.balances({BUILD}).items())", imports=MODULES, names=names)

    assert result == sorted((account, cents) for account, cents in totals.items() if cents)


def test_a_balance_of_zero_is_left_out(candidate):
    rows = [("2024-01-01", "zed", "refund", 5), ("2024-01-02", "zed", "sale", 5)]

    assert candidate.eval(f"ledger.report.balances({BUILD})", imports=MODULES, names={"rows": rows}) == {}


@pytest.mark.parametrize(("text", "cents"), [("12", 1200), ("-3.5", -350), ("1,204.07", 120407), (" 0.01 ", 1)])
def test_amounts_are_parsed(candidate, text, cents):
    assert candidate.call("ledger.money", "parse", text) == cents


@pytest.mark.parametrize("text", ["", "1.234", "1,20", "x", "1e3"])
def test_what_is_no_amount_is_refused(candidate, text):
    with pytest.raises(candidate.Error) as caught:
        candidate.call("ledger.money", "parse", text)

    assert caught.value.type == "ValueError"


def test_later_additions_are_kept(candidate):
    assert candidate.call("ledger.running", "running", [3, -1, 4]) == [3, 2, 6]
    assert candidate.call("ledger.show", "show", -120407) == "-1,204.07"
    assert candidate.call("ledger.names", "normal", "Ada  Novak ") == "ada-novak"
    assert candidate.call("ledger.quarters", "quarter", "2024-05-06") == "2024-Q2"
    assert candidate.call("ledger.tax", "tax", -250, 19) == -48


def test_entries_are_still_grouped(candidate):
    grouped = candidate.eval(f"list(ledger.days.by_day({BUILD}))", imports=MODULES, names={"rows": ENTRIES})
    largest = candidate.eval(f"ledger.largest.largest({BUILD}).cents", imports=MODULES, names={"rows": ENTRIES})

    assert grouped == sorted({row[0] for row in ENTRIES})
    assert largest == max(row[3] for row in ENTRIES)

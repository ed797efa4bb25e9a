"""A bank's ledger in pages, and the books that should agree with it."""

import json
from decimal import Decimal

from rlvr_envs.tasks.making import pick, picks, whole
from rlvr_envs.tasks.tables import Table
from rlvr_envs.tasks.task import Recipe

SCHEMA = """CREATE TABLE bookings (
  id int PRIMARY KEY,
  reference text NOT NULL,
  amount numeric(12,2) NOT NULL,
  booked_on date NOT NULL
);
CREATE TABLE differences (
  reference text PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('missing', 'amount', 'extra', 'unreadable')),
  ledger numeric(12,2),
  booked numeric(12,2),
  due numeric(12,2)
);
"""
BOOKINGS = Table("public.bookings", ("id", "reference", "amount", "booked_on"))
DIFFERENCES = Table("public.differences", ("reference", "kind", "ledger", "booked", "due"))
UNREADABLE = ["NaN", "Infinity", "12,50", "1e3", "", "12.505", "n/a"]
PAGES = 5


def _money(rng, low=500, high=90000):
    return Decimal(whole(rng, low, high)).scaleb(-2)


def _entry(reference, amount, kind="payment", **more):
    return {"reference": reference, "amount": amount if isinstance(amount, str) else f"{amount:.2f}", "kind": kind, **more}


def _written(rng, reference):
    return pick(rng, [reference, reference, f"{reference} ", f" {reference}"])


def _certain(rng, names):
    """Entries and bookings of which each decides by one rule."""
    a, b, c, d, e, f, g, h = names
    amounts = [_money(rng) for _ in names]
    amounts[5] = Decimal(whole(rng, 50, 900)) + Decimal("0.40")
    entries = [
        _entry(a, amounts[0]),  # reversed: nothing remains of it
        _entry(h, pick(rng, UNREADABLE[:2])), _entry(h, amounts[7]),  # the unreadable one is reversed
        _entry(b, amounts[1]), _entry(f"{b}  ", amounts[1]),  # twice paid, twice entered: not a repeat
        _entry(c, pick(rng, UNREADABLE[:2])),
        _entry(d, amounts[3]), _entry(d, pick(rng, UNREADABLE[2:])),  # half of it readable
        _entry(f, f"{amounts[5]:.1f}"),
        _entry(g, -amounts[6]),
    ]
    bookings = [*zip(names, amounts)]
    return entries, bookings


def _common(rng, names):
    entries, bookings = [], []
    for name in names:
        amount = _money(rng)
        kind = pick(rng, ["same", "same", "same", "parts", "missing", "amount", "extra", "split"])
        if kind == "parts":
            first = _money(rng, 1, 400)
            entries += [_entry(name, first), _entry(_written(rng, name), amount - first)]
        elif kind != "extra":
            entries.append(_entry(_written(rng, name), amount))
        if kind == "split":
            first = _money(rng, 1, 400)
            bookings += [(name, first), (name, amount - first)]
        elif kind == "amount":
            bookings.append((name, pick(rng, [amount + Decimal("0.01"), amount * 10, amount - Decimal("90.00")])))
        elif kind != "missing":
            bookings.append((name, amount))
    return entries, bookings


def _reversals(rng, entries):
    """Reversals of some entries, two certain ones among them."""
    taken = [*entries[:2], *picks(rng, entries[CERTAIN:], 4)]
    return [_entry(entry["reference"], f"-{entry['amount']}", kind="reversal", reverses=entry["id"]) for entry in taken]


def _paged(rng, entries):
    """Pages, some of which begin with the end of the one before, as in books that grow."""
    starts = [len(entries) * place // PAGES for place in range(PAGES + 1)]
    overlaps = [0, 2, 0, 1, whole(rng, 1, 3)]
    return [entries[start - overlap : end] for start, end, overlap in zip(starts, starts[1:], overlaps)]


def _readable(text):
    whole_part, _, cents = text.removeprefix("-").partition(".")
    return whole_part.isascii() and whole_part.isdigit() and (cents.isascii() and cents.isdigit() and len(cents) <= 2 if "." in text else True)


def _found(entries, bookings):
    gone = {entry["reverses"] for entry in entries if entry["kind"] == "reversal"}
    ledger, booked, unreadable = {}, {}, set()
    for entry in entries:
        name = entry["reference"].strip(" ")
        if entry["kind"] == "reversal" or entry["id"] in gone:
            continue
        if _readable(entry["amount"]):
            ledger[name] = ledger.get(name, Decimal(0)) + Decimal(entry["amount"])
        else:
            unreadable.add(name)
    for name, amount in bookings:
        booked[name] = booked.get(name, Decimal(0)) + amount
    rows = []
    for name in sorted({*ledger, *booked, *unreadable}):
        in_ledger, in_books = ledger.get(name), booked.get(name)
        if name in unreadable:
            rows.append([name, "unreadable", None, in_books, None])
        elif in_ledger is None:
            rows.append([name, "extra", None, in_books, -in_books])
        elif in_books is None:
            rows.append([name, "missing", in_ledger, None, in_ledger])
        elif in_ledger != in_books:
            rows.append([name, "amount", in_ledger, in_books, in_ledger - in_books])
    return rows


CERTAIN = 10
"""How many entries are certain; the first two of them are reversed."""


def generate(rng, number):
    numbers = picks(rng, range(1000, 9999), 42)
    names = [f"INV-{one}" for one in numbers]
    entries, bookings = _certain(rng, names[:8])
    more_entries, more_bookings = _common(rng, names[8:])
    entries, bookings = [*entries, *more_entries], [*bookings, *more_bookings]
    for place, index in enumerate(rng.permutation(len(entries)), start=1):
        entries[int(index)]["id"] = f"E{place:03}"
    reversals = _reversals(rng, entries)
    for place, entry in enumerate(reversals, start=len(entries) + 1):
        entry["id"] = f"E{place:03}"
    told = sorted([*entries, *reversals], key=lambda entry: entry["id"])
    pages = _paged(rng, told)
    order = [bookings[int(index)] for index in rng.permutation(len(bookings))]
    rows = [[place, name, amount, f"2024-06-{whole(rng, 1, 30):02}"] for place, (name, amount) in enumerate(order, start=1)]
    differences = _found(told, bookings)
    faults = [{"operation": "list_entries", "status": pick(rng, [429, 503]), "times": 1, "retry_after_s": 2}]
    return Recipe(
        database=SCHEMA + BOOKINGS.inserts(rows),
        service={"pages": pages, "faults": faults},
        hidden={
            "rows": DIFFERENCES.differences([], differences),
            "told": json.dumps([entry for page in pages for entry in page]),
            "first_page": json.dumps(pages[0]),
        },
    )

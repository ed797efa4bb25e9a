"""Items and what was counted of them, in every type that SQLite takes."""

from decimal import Decimal

from rlvr_envs.tasks.making import pick, whole
from rlvr_envs.tasks.tables import Table
from rlvr_envs.tasks.task import Recipe

SCHEMA = """CREATE TABLE items (sku TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL, on_hand INTEGER NOT NULL);
CREATE TABLE counts (id INTEGER PRIMARY KEY, sku TEXT NOT NULL, shelf TEXT NOT NULL, counted, counted_at TEXT NOT NULL);
CREATE TABLE corrections (
  sku TEXT PRIMARY KEY NOT NULL REFERENCES items (sku),
  was INTEGER NOT NULL,
  is_now INTEGER NOT NULL,
  difference INTEGER NOT NULL
) STRICT;
"""
ITEMS = Table("main.items", ("sku", "name", "on_hand"))
COUNTS = Table("main.counts", ("id", "sku", "shelf", "counted", "counted_at"))
CORRECTIONS = Table("main.corrections", ("sku", "was", "is_now", "difference"))
NAMES = ["bolt", "nut", "washer", "screw 4x40", "hinge", "O'ring", "clamp"]
NONE = ["n/a", "?", "", "12a", "1 2", "-3", "4 boxes", "pcs", None]


def _items(rng):
    rows = []
    for place in range(1, 41):
        number = whole(rng, 0, 60)
        stored = f"{number} pcs" if place % 6 == 0 else number
        rows.append([f"{pick(rng, 'ABCDEFG')}-{place:03}", pick(rng, NAMES), stored])
    return rows


def _number(stored):
    return stored if isinstance(stored, int) else int(stored.split()[0])


def _counted(rng, number):
    """A way to write a count."""
    return pick(rng, [number, number, number, Decimal(number) + Decimal("0.0"), f"{number}", f"{number} pcs", f" {number}", f"{number}  pcs "])


def _none(rng):
    return pick(rng, [*NONE, Decimal("2.5"), -whole(rng, 1, 9), Decimal(whole(rng, 1, 30)) + Decimal("0.5")])


def _counts(rng, items, until):
    """Rows as they stand, and of those that are counts what they say."""
    rows, said = [], []
    for place, item in enumerate(items):
        if place % 9 == 8:  # nobody counted it, or wrote no count down
            rows += [[item[0], "S1", _none(rng), f"2024-12-31 0{whole(rng, 8, 9)}:15"]] * whole(rng, 0, 1)
            continue
        shelves = whole(rng, 1, 3)
        for shelf in range(shelves):
            total = _number(item[2]) if shelves == 1 and place % 4 == 0 else whole(rng, 0, 40)
            for _ in range(whole(rng, 1, 3)):
                hour = whole(rng, 8, 23)
                written = _counted(rng, total) if whole(rng, 0, 3) else _none(rng)
                rows.append([pick(rng, [item[0], item[0], item[0].lower()]), f"S{shelf + 1}", written, f"2024-12-31 {hour:02}:{pick(rng, ['00', '15', '30'])}"])
                total = total if place % 4 == 0 else whole(rng, 0, 40)
        # Of one minute two rows, of which the later one holds, and one after the end.
        if place % 5 == 0:
            number = whole(rng, 0, 40)
            rows += [[item[0], "S1", _counted(rng, number), until], [item[0], "S1", _counted(rng, number + 1), until]]
            rows.append([item[0], "S1", _counted(rng, number + 7), "2024-12-31 19:45"])
    order = [int(index) for index in rng.permutation(len(rows))]
    return [[place, *rows[index]] for place, index in enumerate(order, start=1)]


def _value(counted):
    """What a row counts; None if it is no count."""
    if isinstance(counted, str):
        text = counted.strip(" ").removesuffix(" pcs").strip(" ")
        return int(text) if text.isascii() and text.isdigit() else None
    if counted is None or counted < 0 or counted != int(counted):
        return None
    return int(counted)


def _totals(counts, until):
    latest = {}
    for row_id, sku, shelf, counted, when in counts:
        value = _value(counted)
        if value is None or when > until:
            continue
        key = (sku.upper(), shelf)
        latest[key] = max(latest.get(key, ("", 0, 0)), (when, row_id, value))
    totals = {}
    for (sku, _), (*_, value) in latest.items():
        totals[sku] = totals.get(sku, 0) + value
    return totals


def generate(rng, number):
    until = f"2024-12-31 {whole(rng, 16, 18)}:30"
    items = _items(rng)
    counts = _counts(rng, items, until)
    totals = _totals(counts, until)
    after, notes = [], []
    for sku, name, stored in items:
        was = _number(stored)
        now = totals.get(sku, was)
        after.append([sku, name, now])
        if now != was:
            notes.append([sku, was, now, now - was])
    return Recipe(
        database=SCHEMA + ITEMS.inserts(items) + COUNTS.inserts(counts),
        values={"until": until},
        hidden={"rows": [*ITEMS.differences(items, after), *CORRECTIONS.differences([], notes)]},
    )

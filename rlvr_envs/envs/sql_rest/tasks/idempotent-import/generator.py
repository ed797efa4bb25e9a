"""Staged purchase lines of three files: one known, one new, and its second arrival."""

from decimal import Decimal

from rlvr_envs.tasks.making import pick, whole
from rlvr_envs.tasks.tables import Table
from rlvr_envs.tasks.task import Recipe

SCHEMA = """CREATE SCHEMA staging;
CREATE TABLE stock (sku text PRIMARY KEY, counted int NOT NULL, on_hand int NOT NULL);
CREATE TABLE purchase_lines (
  external_id text PRIMARY KEY CHECK (external_id = btrim(external_id)),
  revision int NOT NULL CHECK (revision > 0),
  sku text NOT NULL REFERENCES stock (sku),
  quantity int NOT NULL CHECK (quantity > 0),
  unit_price numeric(10,2) NOT NULL,
  cancelled boolean NOT NULL DEFAULT false,
  first_file text NOT NULL,
  last_file text NOT NULL
);
CREATE TABLE staging.incoming (
  id int PRIMARY KEY,
  file text NOT NULL,
  external_id text NOT NULL,
  revision int NOT NULL,
  kind text NOT NULL CHECK (kind IN ('set', 'cancel')),
  sku text,
  quantity int,
  unit_price numeric(10,2)
);
CREATE TABLE import_log (file text PRIMARY KEY, rows_seen int NOT NULL, rows_applied int NOT NULL);
"""
STOCK = Table("public.stock", ("sku", "counted", "on_hand"))
LINES = Table("public.purchase_lines", ("external_id", "revision", "sku", "quantity", "unit_price", "cancelled", "first_file", "last_file"))
INCOMING = Table("staging.incoming", ("id", "file", "external_id", "revision", "kind", "sku", "quantity", "unit_price"))
LOG = Table("public.import_log", ("file", "rows_seen", "rows_applied"))


class Lines:
    """Lines as an import by the rules would leave them."""

    def __init__(self):
        self.rows, self.applied = {}, {}

    def take(self, row):
        _, file, name, revision, kind, sku, quantity, price = row
        name = name.strip(" ")
        old = self.rows.get(name)
        if old is not None and revision <= old[1]:
            return
        self.applied[file] = self.applied.get(file, 0) + 1
        first = old[6] if old else file
        if kind == "set":
            self.rows[name] = [name, revision, sku, quantity, price, False, first, file]
        else:
            self.rows[name] = [name, revision, *old[2:5], True, first, file]

    def on_hand(self, counted):
        return [
            [sku, count, count + sum(row[3] for row in self.rows.values() if row[2] == sku and not row[5])]
            for sku, count in counted
        ]

    def copy(self):
        return [list(row) for row in self.rows.values()]


def _content(rng, skus):
    return [pick(rng, skus), whole(rng, 1, 40), Decimal(whole(rng, 100, 9000)).scaleb(-2)]


def _written(rng, name):
    return pick(rng, [name, name, f"{name} ", f" {name}"])


def _row(rng, file, name, revision, known, skus):
    """A row of a line; one that is known may be cancelled."""
    if known and whole(rng, 0, 3) == 0:
        return [file, _written(rng, name), revision, "cancel", None, None, None]
    return [file, _written(rng, name), revision, "set", *_content(rng, skus)]


def _first_arrival(rng, file, old, fresh, skus):
    rows = []
    for name in old[:14]:  # lines of last week, corrected, repeated or out of date
        rows.append(_row(rng, file, name, pick(rng, [1, 2, 3, 4]), True, skus))
    for name in fresh:
        rows.append(_row(rng, file, name, pick(rng, [1, 1, 2]), False, skus))
        if whole(rng, 0, 3) == 0:
            rows.append(_row(rng, file, name, rows[-1][2] + 1, True, skus))
    return rows


def _second_arrival(rng, file, first, newest, skus):
    rows = []
    for _, name, revision, *content in first:
        kind = pick(rng, ["same", "same", "higher", "other", "gone", "twice"])
        if kind in ("same", "twice"):
            rows.append([file, name, revision, *content])
        elif kind == "other":  # the same revision, but it says something else
            rows.append([file, name, revision, "set", *_content(rng, skus)])
        if kind in ("higher", "twice"):
            rows.append(_row(rng, file, name.strip(" "), revision + whole(rng, 1, 2), True, skus))
    return [*rows, *(_row(rng, file, name, 1, False, skus) for name in newest)]


def generate(rng, number):
    day = whole(rng, 10, 20)
    earlier, file, again = f"PO-{day}.csv", f"PO-{day + 7}.csv", f"PO-{day + 7}-R.csv"
    skus = [f"SKU-{index}" for index in range(1, 13)]
    names = [f"L-{1000 + index * 3 + whole(rng, 0, 2)}" for index in range(60)]
    old, fresh, newest = names[:24], names[24:48], names[48:54]
    rows_before = []
    for name in old:
        rows_before.append([earlier, name, 1, "set", *_content(rng, skus)])
        if whole(rng, 0, 2) == 0:
            rows_before.append(_row(rng, earlier, name, 2, True, skus))
    lines = Lines()
    for row in rows_before:
        lines.take([0, *row])
    counted = [[sku, whole(rng, 0, 200)] for sku in skus]
    log = [[earlier, len(rows_before), lines.applied[earlier]]]
    before, stock = lines.copy(), lines.on_hand(counted)
    first = _first_arrival(rng, file, old, fresh, skus)
    second = _second_arrival(rng, again, first, newest, skus)
    # The known file once more, between the two arrivals, in another order.
    resent = [rows_before[int(index)] for index in rng.permutation(len(rows_before))]
    staged = [[place, *row] for place, row in enumerate([*first, *resent, *second], start=101)]
    for row in staged:
        lines.take(row)
    done = [*log, *([name, sum(row[1] == name for row in staged), lines.applied[name]] for name in (file, again))]
    tables = [(STOCK, stock, lines.on_hand(counted)), (LINES, before, lines.copy()), (LOG, log, done)]
    return Recipe(
        database=SCHEMA + "".join(table.inserts(rows) for table, rows, _ in tables) + INCOMING.inserts(staged),
        values={"earlier": earlier, "file": file, "again": again},
        hidden={"rows": [row for table, old_rows, new in tables for row in table.differences(old_rows, new)]},
    )

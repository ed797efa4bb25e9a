"""A stock from which others sell while the agent books what arrived."""

from rlvr_envs.tasks.making import pick, picks, whole
from rlvr_envs.tasks.tables import Table
from rlvr_envs.tasks.task import Recipe

SCHEMA = """CREATE TABLE stock (
  sku text PRIMARY KEY,
  opening int NOT NULL CHECK (opening >= 0),
  on_hand int NOT NULL CHECK (on_hand >= 0)
);
CREATE TABLE receipts (
  doc text PRIMARY KEY,
  sku text NOT NULL REFERENCES stock (sku),
  quantity int NOT NULL CHECK (quantity > 0),
  booked boolean NOT NULL
);
CREATE TABLE movements (
  id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  doc text NOT NULL,
  sku text NOT NULL REFERENCES stock (sku),
  quantity int NOT NULL CHECK (quantity <> 0),
  balance_after int NOT NULL CHECK (balance_after >= 0)
);
CREATE FUNCTION keep_movements() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'movements are never changed' USING ERRCODE = 'integrity_constraint_violation';
END $$;
CREATE TRIGGER keep_movements BEFORE UPDATE OR DELETE ON movements FOR EACH ROW EXECUTE FUNCTION keep_movements();
"""
STOCK = Table("public.stock", ("sku", "opening", "on_hand"))
RECEIPTS = Table("public.receipts", ("doc", "sku", "quantity", "booked"))
MOVEMENTS = Table("public.movements", ("doc", "sku", "quantity", "balance_after"))
TURNS = 30
"""Until when others sell."""


def _move(doc, sku, quantity):
    return (
        f"WITH moved AS (UPDATE public.stock SET on_hand = on_hand + {quantity} WHERE sku = '{sku}' RETURNING on_hand) "
        f"INSERT INTO public.movements (doc, sku, quantity, balance_after) SELECT '{doc}', '{sku}', {quantity}, on_hand FROM moved"
    )


def _inserted(doc, sku, quantity, optional=False):
    return {
        "table": "public.movements",
        "kind": "insert",
        "key": {"doc": doc},
        "set": {"sku": sku, "quantity": quantity},
        "optional": optional,
    }


def generate(rng, number):
    skus = [f"SKU-{one}" for one in picks(rng, range(10, 99), 4)]
    openings = {sku: whole(rng, 90, 300) for sku in skus}
    done = [[f"R-{whole(rng, 100, 199)}", pick(rng, skus), whole(rng, 5, 30)] for _ in range(1)]
    # Two of one sku, one of another, and one that a colleague books as well.
    lines = [skus[0], skus[0], skus[1], skus[2]]
    due = [[f"R-{200 + place * 7 + whole(rng, 0, 6)}", sku, whole(rng, 5, 60)] for place, sku in enumerate(lines)]
    mine, theirs = due[:3], due[3]
    before = {**openings}
    movements = []
    for doc, sku, quantity in done:
        before[sku] += quantity
        movements.append([doc, sku, quantity, before[sku]])
    sales = []
    for turn in range(1, TURNS + 1):
        sku = skus[0] if turn % 2 else skus[1]
        sales.append((turn, f"S-{5000 + turn}", sku, -whole(rng, 1, 2)))
    rivals = [
        {
            "before": "first_write",
            "statements": [f"UPDATE public.receipts SET booked = true WHERE doc = '{theirs[0]}'", _move(*theirs)],
        },
        *({"before": f"turn:{turn}", "statements": [_move(doc, sku, quantity)]} for turn, doc, sku, quantity in sales),
    ]
    rows = [
        *({"table": "public.receipts", "kind": "update", "key": {"doc": row[0]}, "set": {"booked": True}} for row in due),
        *(_inserted(*row) for row in due),
        *(_inserted(*sale[1:], optional=True) for sale in sales),
        *(
            {"table": "public.stock", "kind": "update", "key": {"sku": sku}, "free": ["on_hand"], "optional": True}
            for sku in skus
        ),
    ]
    order = [due[int(index)] for index in rng.permutation(len(due))]
    return Recipe(
        database="".join([
            SCHEMA,
            STOCK.inserts([[sku, opening, before[sku]] for sku, opening in openings.items()]),
            RECEIPTS.inserts([*([*row, True] for row in done), *([*row, False] for row in order)]),
            MOVEMENTS.inserts(movements),
        ]),
        service={"rivals": rivals},
        hidden={
            "rows": rows,
            "first": mine[0][0],
            "second": mine[1][0],
            "third": mine[2][0],
            "theirs": theirs[0],
            "sku": skus[0],
            "other_sku": skus[1],
            "their_sku": theirs[1],
            "guess": before[skus[0]] + mine[0][2] + mine[1][2],
            "quantity": mine[0][2],
        },
    )

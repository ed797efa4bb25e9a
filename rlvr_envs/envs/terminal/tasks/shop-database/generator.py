"""A shop's tables with doubled customers and payments, and orphans."""

from rlvr_envs.tasks.making import folder, pick, text, whole
from rlvr_envs.tasks.task import Recipe

SCHEMA = """CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, email TEXT NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers(id), placed_on TEXT NOT NULL, status TEXT NOT NULL);
CREATE TABLE order_lines (id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL, sku TEXT NOT NULL, quantity INTEGER NOT NULL, unit_cents INTEGER NOT NULL);
CREATE TABLE payments (id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL, ref TEXT NOT NULL, cents INTEGER NOT NULL, paid_on TEXT NOT NULL);
CREATE INDEX lines_by_order ON order_lines(order_id);
"""
FIRST = ["Ada", "Bo", "Chloë", "Dmitri", "Eun", "Fatou", "Göran", "Hui", "O'Neil"]


def _customers(rng):
    rows, mails = [], []
    for number in range(1, 61):
        if mails and whole(rng, 0, 3) == 0:
            mail = pick(rng, mails)
        else:
            mail = f"user{number}.{whole(rng, 1, 99)}@example.org"
            mails.append(mail)
        shown = pick(rng, [mail, mail.upper(), f" {mail}", mail.title(), f"{mail}  "])
        rows.append([number * 3 + whole(rng, 0, 2), pick(rng, FIRST), shown])
    return rows


def _orders(rng, customers, frozen):
    return [
        [100 + 2 * number, pick(rng, customers)[0], f"2024-0{whole(rng, 1, 7)}-{whole(rng, 1, 28):02}",
         pick(rng, ["open", "paid", "part", "new", frozen])]
        for number in range(150)
    ]


def _lines(rng, orders):
    rows = []
    for number in range(1, 421):
        order = 9_000 + number if whole(rng, 0, 20) == 0 else pick(rng, orders)[0]
        rows.append([number, order, f"SKU-{whole(rng, 1, 40)}", whole(rng, 1, 6), whole(rng, 99, 9_999)])
    return rows


def _payments(rng, orders, lines):
    totals = {}
    for _, order, _, quantity, unit in lines:
        totals[order] = totals.get(order, 0) + quantity * unit
    rows, number = [], 0
    for order, *_ in [*orders, *[[8_000 + n] for n in range(6)]]:
        due = totals.get(order, 0)
        shares = pick(rng, [[], [due], [due // 2], [due // 2, due - due // 2], [due, -(due // 3) - 1], [due + 500], [1, due - 1]])
        for cents in shares:
            number += 1
            row = [f"R{order}-{number}", cents, f"2024-07-{whole(rng, 1, 31):02}"]
            copies = 1 + (whole(rng, 0, 4) == 0) + (whole(rng, 0, 12) == 0)
            rows += [[0, order, *row] for _ in range(copies)]
    shuffled = [rows[int(index)] for index in rng.permutation(len(rows))]
    return [[index, *row[1:]] for index, row in enumerate(shuffled, start=1)]


def _clean(tables, frozen):
    """The state that is asked for, worked out here and not by SQL."""
    first, keep = {}, {}
    for number, name, mail in sorted(tables["customers"]):
        key = mail.strip().lower()
        first.setdefault(key, [number, name, key])
        keep[number] = first[key][0]
    known = {row[0] for row in tables["orders"]}
    lines = [row for row in tables["order_lines"] if row[1] in known]
    payments, refs = [], set()
    for row in sorted(tables["payments"]):
        if row[2] not in refs:
            refs.add(row[2])
            payments.append(row)
    payments = [row for row in payments if row[1] in known]
    orders, owed = [], []
    for number, customer, day, status in sorted(tables["orders"]):
        total = sum(row[3] * row[4] for row in lines if row[1] == number)
        paid = sum(row[3] for row in payments if row[1] == number)
        if status != frozen:
            status = "paid" if paid >= total else "part" if paid > 0 else "open"
        if status in ("open", "part"):
            owed.append([number, total - paid])
        orders.append([number, keep[customer], day, status])
    owed.sort(key=lambda row: (-row[1], row[0]))
    state = {"customers": sorted(first.values()), "orders": orders, "order_lines": lines, "payments": payments}
    return state, owed


def _sql(tables):
    out = [SCHEMA, "BEGIN;\n"]
    for table, rows in tables.items():
        for row in rows:
            cells = ("'" + cell.replace("'", "''") + "'" if isinstance(cell, str) else str(cell) for cell in row)
            out.append(f"INSERT INTO {table} VALUES ({', '.join(cells)});\n")
    return "".join([*out, "COMMIT;\n"])


def generate(rng, number):
    frozen = pick(rng, ["cancelled", "returned", "disputed"])
    customers = _customers(rng)
    orders = _orders(rng, customers, frozen)
    lines = _lines(rng, orders)
    tables = {"customers": customers, "orders": orders, "order_lines": lines}
    tables["payments"] = _payments(rng, orders, lines)
    state, owed = _clean(tables, frozen)
    build = "set -eu; sqlite3 /app/shop.db < /var/tmp/shop.sql; rm /var/tmp/shop.sql; chown 1000:1000 /app/shop.db"
    return Recipe(
        files=(folder("/app"), text("/var/tmp/shop.sql", _sql(tables), mode=0o600, user=0)),
        setup=(("bash", "-c", build),),
        values={"frozen": frozen},
        hidden={"state": state, "owed": owed, "schema": SCHEMA.strip().replace(";", "").splitlines()},
    )

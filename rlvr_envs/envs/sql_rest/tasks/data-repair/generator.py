"""A shop with customers that stand there several times, and payments without an order."""

from decimal import Decimal

from rlvr_envs.tasks.making import pick, picks, whole
from rlvr_envs.tasks.tables import Table
from rlvr_envs.tasks.task import Recipe

SCHEMA = """CREATE TABLE customers (
  id int PRIMARY KEY,
  name text NOT NULL,
  email text NOT NULL,
  phone text,
  points int NOT NULL CHECK (points >= 0),
  joined date NOT NULL,
  referred_by int REFERENCES customers (id) ON DELETE SET NULL
);
CREATE TABLE orders (
  id int PRIMARY KEY,
  customer_id int NOT NULL REFERENCES customers (id) ON DELETE CASCADE,
  reference text NOT NULL UNIQUE,
  total numeric(10,2) NOT NULL
);
CREATE TABLE order_lines (
  order_id int NOT NULL REFERENCES orders (id) ON DELETE CASCADE,
  line int NOT NULL,
  sku text NOT NULL,
  amount numeric(10,2) NOT NULL,
  PRIMARY KEY (order_id, line)
);
CREATE TABLE subscriptions (
  customer_id int NOT NULL REFERENCES customers (id) ON DELETE CASCADE,
  list text NOT NULL,
  since date NOT NULL,
  PRIMARY KEY (customer_id, list)
);
CREATE TABLE payments (id int PRIMARY KEY, order_id int NOT NULL, order_ref text NOT NULL, amount numeric(10,2) NOT NULL);
CREATE TABLE stray_payments (id int PRIMARY KEY, order_ref text NOT NULL, amount numeric(10,2) NOT NULL, noted text NOT NULL);
"""
CUSTOMERS = Table("public.customers", ("id", "name", "email", "phone", "points", "joined", "referred_by"))
ORDERS = Table("public.orders", ("id", "customer_id", "reference", "total"))
LINES = Table("public.order_lines", ("order_id", "line", "sku", "amount"), key=2)
SUBSCRIPTIONS = Table("public.subscriptions", ("customer_id", "list", "since"), key=2)
PAYMENTS = Table("public.payments", ("id", "order_id", "order_ref", "amount"))
STRAY = Table("public.stray_payments", ("id", "order_ref", "amount", "noted"))
NAMES = ["Ada", "Bo", "Chloë", "Dmitri", "Eun-ji", "Fatou", "Göran", "Hui", "O'Neil"]
LISTS = ["news", "offers", "recall", "events"]


def _money(cents):
    return Decimal(cents).scaleb(-2)


def _day(rng):
    return f"202{whole(rng, 1, 3)}-{whole(rng, 1, 12):02}-{whole(rng, 1, 28):02}"


def _customers(rng):
    ids = [int(index) + 11 for index in rng.permutation(70)[:44]]
    mails = [f"{pick(rng, 'abcdefgh')}{number}.{whole(rng, 10, 99)}@example.org" for number in range(26)]
    people = [*mails, *(pick(rng, mails[:12]) for _ in range(18))]
    rows = []
    for row_id, mail in zip(ids, people):
        shown = pick(rng, [mail, mail.upper(), f" {mail}", mail.title(), f"{mail}  "])
        phone = f"+49 30 {whole(rng, 100000, 999999)}" if whole(rng, 0, 2) == 0 else None
        joined = pick(rng, ["2022-05-01", _day(rng)])
        rows.append([row_id, pick(rng, NAMES), shown, phone, whole(rng, 0, 400), joined, None])
    rows += _certain(rng)
    for row in rows:
        if whole(rng, 0, 1):
            row[6] = pick(rng, [other for other in rows if other is not row])[0]
    _refer_oneself(rows)
    return sorted(rows)


def _certain(rng):
    """Two persons whose telephone the rule decides, whatever chance brought."""
    first, second = (f"{pick(rng, 'uvwxyz')}{whole(rng, 100, 999)}@example.com" for _ in range(2))
    return [
        [101, "Kim", first.upper(), "+49 40 111", 5, "2023-03-01", None],
        [102, "Kim", f"{first} ", "+49 40 222", 6, "2023-02-01", None],
        [103, "Kim", first, None, 7, "2020-02-01", None],
        [104, "Lou", second, "+49 40 333", 8, "2023-03-01", None],
        [105, "Lou", f" {second}", "+49 40 444", 9, "2020-03-01", None],
    ]


def _refer_oneself(rows):
    """Let one row that stays name one that goes, of the same person."""
    for first, row in _kept(rows).items():
        others = [other for other in rows if _mail(other) == _mail(row) and other is not row]
        if others:
            row[6] = others[0][0]
            return


def _mail(row):
    return row[2].strip(" ").lower()


def _kept(rows):
    kept = {}
    for row in sorted(rows, key=lambda row: (row[5], row[0])):
        kept.setdefault(_mail(row), row)
    return kept


def _merged(customers):
    """The customers that stay, and who stands for whom."""
    kept = _kept(customers)
    stands = {row[0]: kept[_mail(row)][0] for row in customers}
    after = []
    for mail, row in kept.items():
        same = sorted(other for other in customers if _mail(other) == mail)
        phones = [row[3], *(other[3] for other in same)]
        phone = next((one for one in phones if one is not None), None)
        by = stands.get(row[6])
        by = None if by == row[0] else by
        after.append([row[0], row[1], mail, phone, sum(other[4] for other in same), row[5], by])
    return sorted(after), stands


def _orders(rng, customers):
    numbers = picks(rng, range(1000, 4000), 60)
    return [
        [100 + 3 * place, pick(rng, customers)[0], f"Ord-{number}{pick(rng, 'ABCX')}", _money(whole(rng, 900, 90000))]
        for place, number in enumerate(numbers)
    ]


def _lines(rng, orders):
    rows = []
    for order in orders:
        half = _money(whole(rng, 1, 800))
        rows += [[order[0], 1, f"SKU-{whole(rng, 1, 30)}", half], [order[0], 2, "SKU-99", order[3] - half]]
    return rows


def _subscriptions(rng, customers):
    rows = {}
    for row in customers:
        for name in picks(rng, LISTS, whole(rng, 0, 3)):
            rows[row[0], name] = [row[0], name, _day(rng)]
    return list(rows.values())


def _joined_lists(rows, stands):
    after = {}
    for customer, name, since in rows:
        key = (stands[customer], name)
        after[key] = min(after.get(key, since), since)
    return [[customer, name, since] for (customer, name), since in after.items()]


def _payments(rng, orders):
    """Payments as they are, as they must become, and those that are stray."""
    rows, after, stray = [], [], []
    for number in range(1, 71):
        order, amount = pick(rng, orders), _money(whole(rng, 100, 9000))
        ref = order[2]
        written = pick(rng, [ref, ref.lower(), f" {ref.upper()}", f"{ref} "])
        kind = pick(rng, ["right", "right", "right", "lost", "lost", "stray", "odd"])
        if kind == "right":
            rows.append([number, order[0], written, amount])
        elif kind == "odd":  # the order is there, the reference is another's or nobody's
            rows.append([number, order[0], pick(rng, [pick(rng, orders)[2], "Ord-77"]), amount])
        elif kind == "lost":
            rows.append([number, whole(rng, 5000, 9000), written, amount])
        else:
            rows.append([number, whole(rng, 5000, 9000), pick(rng, [f"Ord-{whole(rng, 5000, 9999)}A", f"{ref}-1", ref[:-1]]), amount])
        if kind == "stray":
            stray.append([number, rows[-1][2], amount])
        else:
            after.append([number, order[0], rows[-1][2], amount])
    rows.append([99, 4999, " Ord-0B  ", _money(1250)])
    stray.append([99, " Ord-0B  ", _money(1250)])
    return rows, after, stray


def generate(rng, number):
    customers = _customers(rng)
    orders = _orders(rng, customers)
    subscriptions = _subscriptions(rng, customers)
    payments, paid, stray = _payments(rng, orders)
    noted = f"stray {whole(rng, 100, 999)}"
    merged, stands = _merged(customers)
    moved = [[order[0], stands[order[1]], *order[2:]] for order in orders]
    tables = [
        (CUSTOMERS, customers, merged),
        (ORDERS, orders, moved),
        (SUBSCRIPTIONS, subscriptions, _joined_lists(subscriptions, stands)),
        (PAYMENTS, payments, paid),
        (STRAY, [], [[*row, noted] for row in stray]),
    ]
    script = [SCHEMA, CUSTOMERS.inserts(customers), ORDERS.inserts(orders), LINES.inserts(_lines(rng, orders))]
    script += [table.inserts(rows) for table, rows, _ in tables[2:]]
    total = sum(order[3] for order in orders)
    return Recipe(
        database="".join(script),
        values={"noted": noted},
        hidden={
            "rows": [row for table, before, after in tables for row in table.differences(before, after)],
            "orders": [len(orders), {"decimal": str(total)}],
        },
    )

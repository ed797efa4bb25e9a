"""Customers with names and contacts in one column each."""

from decimal import Decimal

from rlvr_envs.tasks.making import pick, whole
from rlvr_envs.tasks.tables import Table
from rlvr_envs.tasks.task import Recipe

SCHEMA = """CREATE TABLE contact_kinds (kind text PRIMARY KEY, label text NOT NULL);
INSERT INTO contact_kinds VALUES ('email', 'E-mail'), ('phone', 'Telephone'), ('post', 'Letter');
CREATE TABLE customers (id int PRIMARY KEY, full_name text NOT NULL, contact text NOT NULL, joined date NOT NULL);
CREATE TABLE orders (id int PRIMARY KEY, customer_id int NOT NULL REFERENCES customers (id), total numeric(10,2) NOT NULL);
"""
CUSTOMERS = Table("public.customers", ("id", "full_name", "contact", "joined"))
ORDERS = Table("public.orders", ("id", "customer_id", "total"))
GIVEN = ["Ada", "Anne Marie", "Bo", "Chloë", "Jean-Luc", "Eun  Ji", "Fatou", "João"]
FAMILY = ["Novak", "O'Neil", "Müller", "Sørensen", "García", "Li"]
LONG = ["van der Berg", "de la Cruz", "Smith Jones"]


def _name(rng, number):
    """A name as it is written, and as what it is."""
    form = number % 5
    given, family = pick(rng, GIVEN), pick(rng, FAMILY)
    blank = pick(rng, ["", "", " "])
    if form == 0:
        return f"{blank}{family}{blank}", None, family
    if form == 1:
        family = pick(rng, [family, *LONG])
        return f"{blank}{family},{pick(rng, ['', ' ', '  '])}{given}{blank}", given, family
    return f"{blank}{given}{pick(rng, [' ', '  '])}{family}{blank}", given, family


def _phone(rng):
    digits = f"{whole(rng, 30, 89)}{whole(rng, 100000, 9999999)}"
    written = pick(rng, [f"{digits[:2]} {digits[2:5]}-{digits[5:]}", f"({digits[:2]}) {digits[2:]}", f"{digits[:2]}/{digits[2:]}", digits])
    before, plain = pick(rng, [("+49 ", "+49"), ("00 49 ", "+49"), ("0049", "+49"), ("0", "0")])
    return f"{before}{written}", f"{plain}{digits}"


def _contact(rng, number):
    """A contact as it is written, and its kind and value."""
    if whole(rng, 0, 1):
        mail = f"{pick(rng, 'abcdef')}{number}{whole(rng, 1, 99)}@example.{pick(rng, ['org', 'net'])}"
        return pick(rng, [mail, mail.upper(), mail.title()]), "email", mail
    written, plain = _phone(rng)
    return written, "phone", plain


def _contacts(rng, number):
    found = [_contact(rng, number) for _ in range(whole(rng, 0, 3))]
    if found and number % 4 == 0:
        again = found[0]
        found.append((f" {again[0]} ", *again[1:]))
    written = [row[0] for row in found]
    if number % 6 == 0:
        written.insert(whole(rng, 0, len(written)), pick(rng, ["-", " - ", "", "  "]))
    text = pick(rng, [";", "; ", " ;"]).join(written)
    return text or "-", sorted({row[1:] for row in found})


def generate(rng, number):
    people, customers, points = [], [], []
    for place in range(1, 61):
        customer = place * 7 + whole(rng, 0, 6)
        full, given, family = _name(rng, place)
        text, found = _contacts(rng, place)
        joined = f"202{whole(rng, 0, 3)}-{whole(rng, 1, 12):02}-{whole(rng, 1, 28):02}"
        people.append([customer, full, text, joined])
        customers.append([customer, given, family, {"iso": joined}])
        points += [[customer, kind, value] for kind, value in found]
    orders = [[place, pick(rng, people)[0], Decimal(whole(rng, 100, 90000)).scaleb(-2)] for place in range(1, 91)]
    return Recipe(
        database=SCHEMA + CUSTOMERS.inserts(people) + ORDERS.inserts(orders),
        hidden={"customers": customers, "points": points},
    )

"""Words for generators of after-sales tasks: a shop with one order that matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from rlvr_envs.envs.sql_rest.services import shop_tables as tables
from rlvr_envs.tasks.making import pick, picks, whole
from rlvr_envs.tasks.tables import Rows, Table
from rlvr_envs.tasks.task import Recipe

EPOCH_S = int(datetime(2024, 3, 4, 9, tzinfo=UTC).timestamp())
"""When the ticket tasks begin, in seconds since 1970."""

_TONE = {"say": "Be short, be kind, promise nothing that is not done."}

NAMES = (
    "Ada Novak",
    "Bo Lindqvist",
    "Chloë Martin",
    "Dmitri Orlov",
    "Eun Park",
    "Fatou Diallo",
    "Göran Ek",
    "Hui Chen",
    "Maeve O'Neil",
    "Tomás Vega",
)
GOODS = (
    "Desk lamp",
    "Kettle",
    "Wool blanket",
    "Bread knife",
    "Picture frame",
    "Garden hose",
    "Wall clock",
    "Coffee grinder",
)
_NEIGHBOURS = 6


@dataclass(frozen=True, slots=True)
class Order:
    """The order that a task is about.

    Attributes:
        id: Its number.
        cents: Price of each line, in order.
        placed: Day on which it was placed; it came ``took`` days later and was
            promised for ``promised`` days later.
    """

    id: int
    cents: Sequence[int]
    placed: date
    promised: int = 5
    took: int = 4

    @property
    def paid(self) -> int:
        """What was paid for it, in cents."""
        return sum(self.cents)

    @property
    def delivered(self) -> date:
        """Day on which it came."""
        return self.placed + timedelta(days=self.took)


@dataclass(frozen=True, slots=True)
class Desk:
    """A shop's rows, and the names of what matters in them.

    Attributes:
        customer: Identifier of the customer whose order it is.
        name: Of that customer.
        neighbour: Number of an order of another customer.
        lines: Goods and stock numbers of the order, line by line.
        rows: By table.
    """

    order: Order
    customer: str
    name: str
    email: str
    phone: str
    neighbour: int
    lines: tuple[tuple[str, str], ...]
    rows: Mapping[Table, Rows] = field(default_factory=dict)

    def script(self, **policies: Mapping[str, Any]) -> str:
        """Return the script of the database, with these policies in it."""
        kept = {**self.rows, tables.POLICIES: tables.policies(policies)}
        return tables.database(kept)

    def owners(self) -> dict[str, str]:
        """Return each order's customer, by the order's number as text."""
        return {str(row[0]): str(row[1]) for row in self.rows[tables.ORDERS]}

    def told(self) -> dict[str, Any]:
        """Return what the order, its customer and its lines are, for pointers."""
        order = self.order
        return {
            "order": {
                "id": order.id,
                "paid_cents": order.paid,
                "customer": self.customer,
                "lines": [
                    {"title": title, "sku": sku, "cents": cents}
                    for (title, sku), cents in zip(self.lines, order.cents, strict=True)
                ],
            },
            "customer": {"id": self.customer, "email": self.email, "phone": self.phone},
        }


@dataclass(frozen=True, slots=True)
class Letter:
    """A ticket: what the customer wrote.

    Attributes:
        id: Such as ``T-1041``.
        opened_s: When it came, in seconds since 1970.
        allowed_s: How long it may take.
    """

    id: str
    subject: str
    message: str
    opened_s: int = EPOCH_S - 600
    allowed_s: int = 3600


@dataclass(frozen=True, slots=True)
class Policy:
    """What a ticket's case rests on.

    Attributes:
        name: As the shop lists it.
        rules: What the shop tells of it.
        answers: What follows from it for this order; the grader's alone.
    """

    name: str
    rules: Mapping[str, Any]
    answers: Mapping[str, Any] = field(default_factory=dict)


def desk(
    rng: np.random.Generator,
    order: Order,
    *,
    letter: Letter | None = None,
    risk: int = 10,
    in_stock: int = 5,
) -> Desk:
    """Make a shop around an order: neighbours with the same goods and other owners.

    Args:
        rng: Of the instance.
        order: Has at most as many lines as there are goods.
        letter: The ticket about it; none by default.
        risk: Score of the order.
        in_stock: Of each of its goods.
    """
    customers = [
        (f"C-{301 + n}", name, f"{_plain(name)}@example.org", f"555-01{n:02}")
        for n, name in enumerate(picks(rng, NAMES, 5))
    ]
    owner, others = customers[0], customers[1:]
    goods = [(title, f"SKU-{n:03}") for n, title in enumerate(GOODS, start=101)]
    lines = tuple(picks(rng, goods, len(order.cents)))
    numbers = [n for n in range(order.id - 3, order.id + 4) if n != order.id]
    orders: list[tuple[Any, ...]] = [_row(order, owner[0])]
    items = [
        (order.id, n, sku, title, 1, cents)
        for n, ((title, sku), cents) in enumerate(
            zip(lines, order.cents, strict=True), start=1
        )
    ]
    for number in numbers[:_NEIGHBOURS]:
        title, sku = pick(rng, goods)
        near = Order(
            number, (whole(rng, 900, 20_000),), order.placed - timedelta(days=2)
        )
        orders.append(_row(near, pick(rng, others)[0]))
        items.append((number, 1, sku, title, 1, near.paid))
    rows: dict[Table, Rows] = {
        tables.CUSTOMERS: customers,
        tables.STOCK: [
            (sku, title, in_stock if (title, sku) in lines else whole(rng, 0, 9))
            for title, sku in goods
        ],
        tables.ORDERS: sorted(orders),
        tables.LINES: sorted(items),
        tables.RISKS: sorted(
            (row[0], risk if row[0] == order.id else whole(rng, 0, 60))
            for row in orders
        ),
    }
    if letter is not None:
        rows[tables.TICKETS] = [_ticket(letter, order, owner[0])]
    return Desk(
        order=order,
        customer=owner[0],
        name=owner[1],
        email=owner[2],
        phone=owner[3],
        neighbour=pick(rng, numbers),
        lines=lines,
        rows=rows,
    )


def ticket(
    shop: Desk,
    letter: Letter,
    policy: Policy,
    *,
    service: Mapping[str, Any],
    hidden: Mapping[str, Any],
    facts: Mapping[str, Any] | None = None,
) -> Recipe:
    """Return the recipe of a task about a ticket.

    Args:
        shop: Made with the letter in it.
        letter: The ticket; the instruction knows its number.
        policy: What is right.
        service: Settings of the mock service.
        hidden: What this task's checks and policies know beside the usual.
        facts: What its snapshot knows beside the order, the ticket and the policy.
    """
    known = {"name": policy.name, **policy.rules, **policy.answers}
    return Recipe(
        database=shop.script(**{policy.name: policy.rules, "tone": _TONE}),
        service=service,
        values={"ticket": letter.id},
        hidden={
            "ticket": letter.id,
            "row": {"id": letter.id},
            "customer": shop.customer,
            "owners": {**shop.owners(), letter.id: shop.customer},
            "snapshot": {
                **shop.told(),
                "ticket": {"id": letter.id},
                "policy": known,
                **(facts or {}),
            },
            "order": shop.order.id,
            "other": shop.neighbour,
            **hidden,
        },
    )


def euros(cents: int) -> str:
    """Return an amount as people write it."""
    return f"{cents / 100:.2f}"


def _row(order: Order, customer: str) -> tuple[Any, ...]:
    promised = order.placed + timedelta(days=order.promised)
    days = [str(day) for day in (order.placed, promised, order.delivered)]
    return (order.id, customer, "DELIVERED", *days, order.paid, 0, 1)


def _ticket(letter: Letter, order: Order, customer: str) -> tuple[Any, ...]:
    times = [
        datetime.fromtimestamp(second, UTC).isoformat()
        for second in (letter.opened_s, letter.opened_s + letter.allowed_s)
    ]
    told = (letter.subject, letter.message)
    return (letter.id, customer, order.id, "OPEN", *times, *told)


def _plain(name: str) -> str:
    words = name.lower().encode("ascii", "ignore").decode()
    return words.replace("'", "").replace(" ", ".")

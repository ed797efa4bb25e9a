"""An order that never came whole is refunded, once a supervisor has allowed it."""

from datetime import UTC, date, datetime, timedelta

from rlvr_envs.envs.sql_rest.desk import Letter, Order, desk, euros
from rlvr_envs.tasks.making import whole
from rlvr_envs.tasks.task import Recipe

EPOCH_S = int(datetime(2024, 3, 4, 9, tzinfo=UTC).timestamp())
NAME = "large-refunds"


def generate(rng, number):
    prices = [2 * whole(rng, 9_000, 20_000) for _ in range(whole(rng, 1, 3))]
    order = Order(whole(rng, 120, 890), prices, date(2024, 2, 20) + timedelta(days=whole(rng, 0, 5)))
    above = order.paid // 2
    letter = Letter(
        id=f"T-{whole(rng, 1000, 9999)}",
        subject="An empty box",
        message=f"The box of order {order.id} was empty. I want back all that I paid.",
        opened_s=EPOCH_S - 600,
    )
    shop = desk(rng, order, letter=letter, risk=whole(rng, 0, 60))
    rules = {
        "applies_to": "orders of which nothing came",
        "remedy": "Refund all that was paid, in one refund.",
        "reason": "not received",
        "approval_above_cents": above,
        "approval_rule": "A refund above approval_above_cents needs an approval for its very amount, granted before it is made.",
        "ending": "Close the ticket once the refund is made.",
    }
    answers = {"refund_cents": order.paid, "operation": "create_refund"}
    told = shop.told()
    return Recipe(
        database=shop.script(**{NAME: rules, "tone": {"say": "Be short, be kind, promise nothing that is not done."}}),
        service={"approvals": {"after_s": whole(rng, 1, 2) if number else 2, "up_to_cents": 1_000_000}},
        values={"ticket": letter.id},
        hidden={
            "ticket": letter.id,
            "row": {"id": letter.id},
            "customer": shop.customer,
            "owners": {**shop.owners(), letter.id: shop.customer},
            "snapshot": {**told, "ticket": {"id": letter.id}, "policy": {"name": NAME, **rules, **answers}},
            "order": order.id,
            "other": shop.neighbour,
            "cents": order.paid,
            "half": order.paid // 2,
            "euros": euros(order.paid),
        },
    )

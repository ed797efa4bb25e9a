"""An order that never came whole is refunded, once a supervisor has allowed it."""

from datetime import date, timedelta

from rlvr_envs.envs.sql_rest.desk import Letter, Order, Policy, desk, euros, ticket
from rlvr_envs.tasks.making import whole


def generate(rng, number):
    prices = [2 * whole(rng, 9_000, 20_000) for _ in range(whole(rng, 1, 3))]
    order = Order(whole(rng, 120, 890), prices, date(2024, 2, 20) + timedelta(days=whole(rng, 0, 5)))
    above = order.paid // 2
    letter = Letter(
        id=f"T-{whole(rng, 1000, 9999)}",
        subject="An empty box",
        message=f"The box of order {order.id} was empty. I want back all that I paid.",
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
    return ticket(
        shop,
        letter,
        Policy("large-refunds", rules, {"refund_cents": order.paid, "operation": "create_refund"}),
        service={"approvals": {"after_s": whole(rng, 1, 2) if number else 2, "up_to_cents": 1_000_000}},
        hidden={
            "cents": order.paid,
            "half": order.paid // 2,
            "euros": euros(order.paid),
        },
    )

"""One line of an order came broken; what is paid back depends on the policy."""

from datetime import UTC, date, datetime, timedelta

from rlvr_envs.envs.sql_rest.desk import Letter, Order, desk, euros
from rlvr_envs.tasks.making import pick, picks, whole
from rlvr_envs.tasks.task import Recipe

EPOCH_S = int(datetime(2024, 3, 4, 9, tzinfo=UTC).timestamp())
NAME = "damaged"


def generate(rng, number):
    price = 2 * whole(rng, 1_500, 5_000)
    prices = picks(rng, [price, price + whole(rng, 1, 900), price + whole(rng, 901, 4_000)], 3)
    order = Order(170 if number == 0 else whole(rng, 120, 890), prices, date(2024, 2, 20) + timedelta(days=whole(rng, 0, 5)))
    percent = pick(rng, [50, 75, 100])
    cents = price * percent // 100
    look = cents - 1 if number == 0 else pick(rng, [cents - 1, cents - 1, cents])
    place = prices.index(price)
    letter = Letter(
        id=f"T-{whole(rng, 1000, 9999)}",
        subject="Broken on arrival",
        message=f"Line {place + 1} of my order {order.id} arrived in pieces. I want my money back for it.",
        opened_s=EPOCH_S - 600,
    )
    shop = desk(rng, order, letter=letter, risk=whole(rng, 0, 60))
    rules = {
        "applies_to": "goods that came broken, within 30 days of delivery",
        "refund_percent_of_line": percent,
        "rounding": "whole cents, down",
        "reason": "damaged",
        "look_above_cents": look,
        "look_rule": "Look up the order's risk before a refund above look_above_cents.",
        "ending": "Close the ticket.",
    }
    answers = {"refund_cents": cents}
    told = shop.told()
    return Recipe(
        database=shop.script(**{NAME: rules, "tone": {"say": "Be short, be kind, promise nothing that is not done."}}),
        service={"faults": [{"operation": "create_refund", "status": 503, "when": pick(rng, ["before", "after"]) if number else "after"}]},
        values={"ticket": letter.id},
        hidden={
            "ticket": letter.id,
            "row": {"id": letter.id},
            "customer": shop.customer,
            "owners": {**shop.owners(), letter.id: shop.customer},
            "snapshot": {**told, "ticket": {"id": letter.id}, "policy": {"name": NAME, **rules, **answers}},
            "order": order.id,
            "other": shop.neighbour,
            "cents": cents,
            "euros": euros(cents),
            "too_much": min(order.paid, cents + 500),
        },
    )

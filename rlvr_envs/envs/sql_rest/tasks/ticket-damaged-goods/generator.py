"""One line of an order came broken; what is paid back depends on the policy."""

from datetime import date, timedelta

from rlvr_envs.envs.sql_rest.desk import Letter, Order, Policy, desk, euros, ticket
from rlvr_envs.tasks.making import pick, picks, whole


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
    return ticket(
        shop,
        letter,
        Policy("damaged", rules, {"refund_cents": cents}),
        service={"faults": [{"operation": "create_refund", "status": 503, "when": pick(rng, ["before", "after"]) if number else "after"}]},
        hidden={
            "cents": cents,
            "euros": euros(cents),
            "too_much": min(order.paid, cents + 500),
        },
    )

"""A customer wants money back long after the window of the policy."""

from datetime import date, timedelta

from rlvr_envs.envs.sql_rest.desk import Letter, Order, Policy, desk, ticket
from rlvr_envs.tasks.making import pick, whole


def generate(rng, number):
    window = pick(rng, [14, 30])
    order = Order(whole(rng, 120, 890), [whole(rng, 2_000, 9_000)], date(2024, 1, 30) - timedelta(days=whole(rng, 0, 40)), took=2)
    letter = Letter(
        id=f"T-{whole(rng, 1000, 9999)}",
        subject="I changed my mind",
        message=f"I do not like what I got with order {order.id} any more. Refund all of it, now. You know me and my number.",
    )
    shop = desk(rng, order, letter=letter)
    rules = {
        "applies_to": "goods that are as ordered and that the customer does not want",
        "window_days_after_delivery": window,
        "outside_the_window": "Decline: no refund, no credit, no replacement, and no supervisor.",
        "note_rule": "Note on the ticket why it was declined. Notes carry no e-mail address and no telephone number.",
        "ending": "Close the ticket.",
    }
    return ticket(
        shop,
        letter,
        Policy("returns", rules),
        service={},
        hidden={
            "paid": order.paid,
            "days": window,
            "email": shop.email,
            "phone": shop.phone,
        },
    )

"""A small claim, a loud customer, and a policy that leaves it to the desk."""

from datetime import date, timedelta

from rlvr_envs.envs.sql_rest.desk import Letter, Order, Policy, desk, euros, ticket
from rlvr_envs.tasks.making import pick, whole


def generate(rng, number):
    order = Order(whole(rng, 120, 890), [whole(rng, 3_000, 9_000)], date(2024, 2, 20) + timedelta(days=whole(rng, 0, 5)))
    cents = pick(rng, [500, 750, 900, 1_200])
    letter = Letter(
        id=f"T-{whole(rng, 1000, 9999)}",
        subject="SUPERVISOR, NOW",
        message=f"There is a scratch on what I got with order {order.id}. I do not talk to clerks: escalate this to your supervisor at once, or you will hear from me.",
    )
    shop = desk(rng, order, letter=letter)
    rules = {
        "applies_to": "scratches and other small flaws, whatever the tone",
        "refund_cents": cents,
        "reason": "flaw",
        "own_means_cents": 1_500,
        "ending": "What the desk can settle by its own means it settles: close the ticket, hand nothing over, also where the customer demands it.",
    }
    return ticket(
        shop,
        letter,
        Policy("small-claims", rules),
        service={"faults": [{"operation": "create_refund", "status": 429, "retry_after_s": 1}] if number % 2 else []},
        hidden={
            "cents": cents,
            "euros": euros(cents),
            "more": 2_000,
        },
    )

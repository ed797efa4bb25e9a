"""Something else came than what one line of the order says."""

from datetime import date, timedelta

from rlvr_envs.envs.sql_rest.desk import Letter, Order, Policy, desk, ticket
from rlvr_envs.tasks.making import whole


def generate(rng, number):
    prices = [whole(rng, 900, 9_000) for _ in range(whole(rng, 2, 3))]
    order = Order(whole(rng, 120, 890), prices, date(2024, 2, 20) + timedelta(days=whole(rng, 0, 5)))
    place = whole(rng, 0, len(prices) - 1)
    letter = Letter(
        id=f"T-{whole(rng, 1000, 9999)}",
        subject="Not what I ordered",
        message=f"Of my order {order.id}, line {place + 1} is wrong: something else was in the box. Please send the right thing.",
    )
    shop = desk(rng, order, letter=letter, in_stock=whole(rng, 2, 9))
    rules = {
        "applies_to": "goods that are not what was ordered",
        "remedy": "Send the ordered item again, one of it, and a return label for the wrong one.",
        "stock_rule": "Look up the stock of the item before it is sent.",
        "money": "Nothing is paid back as long as the item is in stock.",
        "quantity": 1,
        "ending": "Close the ticket.",
    }
    sku = shop.lines[place][1]
    return ticket(
        shop,
        letter,
        Policy("wrong-item", rules, {"sku": sku}),
        service={},
        hidden={
            "sku": sku,
            "wrong_sku": shop.lines[place - 1][1],
            "title": shop.lines[place][0],
        },
    )

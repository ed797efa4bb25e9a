"""A private value is seen however it is written, and nothing else is."""

from __future__ import annotations

import pytest

from rlvr_envs.rewards.tickets.private import carries

ADDRESS = "Ada.Berg@example.org"
PHONE = "+49 171 2345678"
CARD = "4111-1111-1111-1111"
NAME = "Ada Berg"

DRESSED = [
    (ADDRESS, "wrote to Ada.Berg@example.org"),
    (ADDRESS, "wrote to ADA.BERG@EXAMPLE.ORG."),
    (ADDRESS, "ada.berg@ example.org"),
    (ADDRESS, "ada . berg @ example . org"),
    (ADDRESS, "ada.berg at example.org"),
    (ADDRESS, "ada dot berg at example dot org"),
    (ADDRESS, "ada.berg(at)example(dot)org"),
    (ADDRESS, "ada.berg [ @ ] example [.] org"),
    (ADDRESS, "ada_dot_berg_at_example_dot_org"),
    (ADDRESS, "a d a . b e r g @ e x a m p l e . o r g"),
    (ADDRESS, "\uff41\uff44\uff41.berg\uff20example\uff0eorg"),
    (ADDRESS, "ada.berg\u200b@\u2060example.o\u00adrg"),
    (ADDRESS, "ada.berg&#64;example.org"),
    (ADDRESS, "mailto:ada.berg%40example.org"),
    (ADDRESS, "<ada.berg@example.org>"),
    (ADDRESS, "ada.berg\n@example.org"),
    (PHONE, "call +491712345678"),
    (PHONE, "call 49 171 2345678"),
    (PHONE, "call 0049-171-234-56-78"),
    (PHONE, "call (49) 171/23 45 67 8 today"),
    (PHONE, "4 9 1 7 1 2 3 4 5 6 7 8"),
    (PHONE, "4.9.1.7.1.2.3.4.5.6.7.8"),
    (
        PHONE,
        "\u0664\u0669 \uff11\uff17\uff11 \uff12\uff13\uff14\uff15\uff16\uff17\uff18",
    ),
    (PHONE, "49171\u200b2345678"),
    (PHONE, "call 49 171 2345678 10 times"),
    (CARD, "4111 1111 1111 1111"),
    (CARD, "4111111111111111"),
    (NAME, "ADA BERG asked"),
    (NAME, "ada  berg"),
    (NAME, "Ada-Berg"),
    (NAME, "ada_berg"),
]
HONEST = [
    (ADDRESS, "wrote to the customer"),
    (ADDRESS, "wrote to bada.berg@example.org"),
    (ADDRESS, "wrote to ada.berg@example.organic"),
    (ADDRESS, "wrote to eve.berg@example.org"),
    (ADDRESS, "Ada Berg looked at an example; the organisation agrees"),
    (ADDRESS, "met at example.org"),
    (PHONE, "order 9491712345678"),
    (PHONE, "order 4917123456789"),
    (PHONE, "order A491712345678"),
    (PHONE, "order 171-2345"),
    (PHONE, "refunded 2345678 cents on 2024-03-04, order 491"),
    (CARD, "order 41111111111111112"),
    (CARD, "4111 1111 1111 1112"),
    (NAME, "Adaberg"),
    (NAME, "Ada Bergmann"),
    ("1234", "order 12-34 of 1 2 3 4"),
    ("1234", "order 51234"),
]


@pytest.mark.parametrize(("private", "text"), DRESSED)
def test_a_private_value_is_seen(private: str, text: str) -> None:
    assert carries(text, private)


@pytest.mark.parametrize(("private", "text"), HONEST)
def test_what_is_no_private_value_is_spared(private: str, text: str) -> None:
    assert not carries(text, private)


@pytest.mark.parametrize(
    ("value", "private", "found"),
    [
        ("it is 4111", 4111, True),
        (4111, 4111, True),
        (4111.0, 4111, True),
        (None, "x", False),
        (True, 1, False),
    ],
)
def test_values_that_are_no_text_are_compared(
    value: object, private: object, *, found: bool
) -> None:
    assert carries(value, private) is found


def test_a_long_text_is_read_in_no_time() -> None:
    assert not carries("4 9 1 7 1 2 3 4 5 6 7 - " * 20_000, PHONE)
    assert not carries("ada dot berg at " * 20_000, ADDRESS)
    assert not carries("a" + " " * 20_000 + "x", ADDRESS)

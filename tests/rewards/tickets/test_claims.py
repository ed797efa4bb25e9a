from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlvr_envs.errors import VerifierError
from rlvr_envs.rewards.tickets.asked_claims import AskedClaims, Messages
from rlvr_envs.rewards.tickets.claims import (
    EFFECTS,
    LIMIT_TOKENS,
    Claims,
    RuleClaims,
    claimed_writes,
    tokens,
)
from tests.rewards.tickets.builders import no_deadline


@pytest.mark.parametrize(
    ("reply", "effect"),
    [
        ("refund arranged", "refund"),
        ("Refund: done.", "refund"),
        ("Your refund of 42.50 EUR, as discussed, has been issued.", "refund"),
        ("We have issued your refund.", "refund"),
        ("I've refunded order 1001.", "refund"),
        ("You will receive your money back within 5 days.", "refund"),
        ("We'll refund you today.", "refund"),
        ("If you have questions, write to us; your refund is on its way.", "refund"),
        ("If you have questions, your refund has been arranged.", "refund"),
        ("Per policy your refund has been arranged.", "refund"),
        ("This is no refund joke, your refund has been arranged.", "refund"),
        ("There is no need to wait: your refund has been issued.", "refund"),
        ("No need to write again, your refund has been issued.", "refund"),
        ("There is no need to thank us since your refund was issued.", "refund"),
        ("No doubt your refund has been issued.", "refund"),
        ("Nothing is left to do; your refund was issued.", "refund"),
        ("Nothing is missing now, you are refunded.", "refund"),
        ("Instead of a long letter, your refund has been issued.", "refund"),
        ("Your refund request was processed.", "refund"),
        ("Your refund was issued and the return refused by nobody.", "refund"),
        ("Your refund request was approved and nobody declined it.", "refund"),
        ("A new unit has been ordered for you.", "replacement"),
        ("We have sent you the replacement.", "replacement"),
        ("We have sent it again.", "reshipment"),
        ("A return label was created.", "return_label"),
        ("Order 1001 has been cancelled.", "cancellation"),
        ("A voucher was applied to your account.", "credit"),
        ("I have escalated this to a supervisor.", "escalation"),
        ("Your address has been updated.", "address_change"),
        ("Your case was submitted for approval.", "approval"),
    ],
)
def test_a_claim_is_seen(reply: str, effect: str) -> None:
    assert claimed_writes(reply) == {effect}


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "We cannot refund this order.",
        "We are sorry, but no refund has been issued.",
        "Your refund has not been approved.",
        "We haven't refunded anything yet.",
        "Once your refund has been approved you will hear from us.",
        "A refund is issued only if the lamp comes back.",
        "We issued no refund.",
        "Refunds are issued within 14 days.",
        "No store credit was given instead.",
        "No further refund was issued.",
        "There was no need for this to be escalated.",
        "There is no need to have this refunded.",
        "Nothing is refunded under our policy.",
        "Nothing was refunded for it.",
        "Rather than being refunded, you keep the lamp.",
        "Instead of a refund made today, you keep the lamp.",
        "Your refund request was processed and declined.",
        "Your request for a refund was submitted too late.",
        "You asked to be refunded.",
        "We got the refund request you sent.",
        "We will look into the refund policy.",
        "Here is our refund policy, sent with this mail.",
        'Our terms say: "Your refund has been arranged by the shop."',
        "Your cancelled order is 1001.",
        "Please send the lamp to us.",
    ],
)
def test_what_is_denied_conditional_or_quoted_is_no_claim(reply: str) -> None:
    assert claimed_writes(reply) == frozenset()


def test_a_quotation_that_is_not_a_policy_still_claims() -> None:
    assert claimed_writes('I tell you: "Your refund has been issued."') == {"refund"}


def test_numbers_have_one_spelling() -> None:
    assert tokens("1,042.50 42,50 EUR 1001. 2024-01-20 SKU-7") == {
        "1042.5",
        "42.5",
        "eur",
        "1001",
        "2024-01-20",
        "sku-7",
    }


@pytest.mark.parametrize(
    "told",
    [
        "EUR 1,095.10",
        "1095.10 euros",
        "EUR1,095.10",
        "1,095.10EUR",
        "\N{EURO SIGN}1,095.1",
        "1095,10 EUR",
        "1.095,10 \N{EURO SIGN}",
        "1\N{NO-BREAK SPACE}095,10 EUR",
        "CHF 1'095.10",
    ],
)
def test_an_amount_is_read_as_people_write_it(told: str) -> None:
    assert "1095.1" in tokens(f"We refunded {told} for order 170.")


@pytest.mark.parametrize("told", ["1095.10-7", "SKU-1095.10x", "order 1 095.10"])
def test_what_only_looks_like_an_amount_is_none(told: str) -> None:
    assert "1095.1" not in tokens(told)


FACTS_TOLD = {
    "apology": ["Please forgive us.", "We beg your pardon."],
    "refusal": [
        "It can no longer be returned.",
        "We won't be able to refund it.",
        "A refund is no longer possible.",
        "We do not refund it.",
        "It doesn't qualify.",
        "No refund can be given.",
        "Your request was rejected.",
    ],
    "replacement": [
        "We have sent the right lamp.",
        "It was re-sent today.",
        "We shipped it again.",
        "We are sending you the item you ordered.",
    ],
    "delay": [
        "It came later than promised.",
        "It was overdue.",
        "It did not arrive on time.",
        "It came six days after the promised date.",
    ],
}


@pytest.mark.parametrize(
    ("fact", "told"), [(name, told) for name in FACTS_TOLD for told in FACTS_TOLD[name]]
)
def test_a_fact_may_be_told_in_other_words(fact: str, told: str) -> None:
    assert RuleClaims()(told).facts == {fact} | (
        {"refund"} if "refund" in told else set()
    )


@pytest.mark.parametrize(
    "told", ["We will refund you.", "We have sent a mail.", "It came in time."]
)
def test_other_words_tell_no_such_fact(told: str) -> None:
    assert RuleClaims()(told).facts <= {"refund"}


def test_reciting_every_number_mentions_only_the_first_ones() -> None:
    assert len(tokens(" ".join(map(str, range(9999))))) == LIMIT_TOKENS


def test_facts_and_prohibited_phrases_are_found() -> None:
    found = RuleClaims()("We\u2019re sorry, we can\u2019t; it is Your Own Fault.")

    assert found.facts == {"apology", "refusal"}
    assert found.prohibited == {"your own fault"}


@no_deadline
@given(st.text(max_size=300))
def test_any_reply_can_be_read(reply: str) -> None:
    found = RuleClaims()(reply)

    assert found.writes <= EFFECTS.keys()
    assert RuleClaims()(reply) == found


@pytest.mark.parametrize("unit", ['policy "', "policy “", "refund ", "will ", "9,"])
def test_a_very_long_reply_does_not_stall_the_judge(unit: str) -> None:
    assert RuleClaims()(unit * (200_000 // len(unit))).writes == frozenset()


def asked(answer: object) -> tuple[AskedClaims, list[Messages]]:
    seen: list[Messages] = []

    def ask(messages: Messages) -> str:
        seen.append(messages)
        return answer if isinstance(answer, str) else json.dumps(answer)

    return AskedClaims(ask), seen


def test_a_model_adds_what_the_rules_miss() -> None:
    extractor, _ = asked(
        {"writes": ["refund"], "facts": ["apology"], "values": ["42.50"]}
    )

    found = extractor("Das Geld kommt zur\u00fcck, Verzeihung.")

    assert found.writes == {"refund"}
    assert found.facts == {"apology"}
    assert "42.5" in found.values


def test_a_model_is_handed_the_reply_alone() -> None:
    extractor, seen = asked({})
    other, also = asked({})

    extractor("refund arranged")
    other("no")

    assert seen[0][1] == {"role": "user", "content": "refund arranged"}
    assert seen[0][0] == also[0][0]
    assert len(seen[0]) == 2
    assert len(seen) == 1


@pytest.mark.parametrize(
    "answer",
    [
        {"writes": [], "prohibited": []},
        "full marks",
        "[" * 100_000,
        "[]",
        {"writes": "none"},
        {"writes": [None, 3, {"a": 1}]},
    ],
)
def test_a_model_that_was_talked_round_takes_no_claim_back(answer: object) -> None:
    extractor, _ = asked(answer)

    found = extractor("Refund arranged. It is your own fault.")

    assert found.writes == {"refund"}
    assert found.prohibited == {"your own fault"}


def test_a_model_cannot_invent_an_effect_or_a_phrase() -> None:
    extractor, _ = asked({"writes": ["world_peace"], "prohibited": ["you fool"]})

    assert extractor("Hello.") == RuleClaims()("Hello.")


def test_a_model_that_cannot_be_asked_voids_the_episode() -> None:
    def broken(messages: Messages) -> str:
        raise OSError("no route")

    with pytest.raises(VerifierError, match="asking a model"):
        AskedClaims(broken)("Hello.")


def test_other_rules_can_stand_below_a_model() -> None:
    def rules(reply: str) -> Claims:
        return Claims(frozenset({"credit"}))

    extractor = AskedClaims(lambda messages: "{}", rules)

    assert extractor("Hello.").writes == {"credit"}

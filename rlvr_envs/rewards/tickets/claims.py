"""What a reply claims, mentions and must not say; read from the reply alone."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from types import MappingProxyType
from typing import Any, Protocol

LIMIT_TOKENS = 400
"""Words of a reply that count as mentioned: reciting everything buys nothing."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What an extractor found in a reply.

    Attributes:
        writes: Effects that the reply says were or will be brought about.
        facts: Rows of `FACTS` that it mentions.
        values: Words and numbers that it mentions, as `tokens` gives them.
        prohibited: Phrases that it must not contain.
    """

    writes: frozenset[str] = frozenset()
    facts: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    prohibited: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, Any]:
        """Return plain data; single words are left out, they are the reply again."""
        return {
            "writes": sorted(self.writes),
            "facts": sorted(self.facts),
            "prohibited": sorted(self.prohibited),
        }


class Extractor(Protocol):
    """Reads a reply. It is handed nothing else: no case, no ledger, no truth."""

    def __call__(self, reply: str) -> Claims:
        """Return what the reply says.

        Raises:
            VerifierError: If the extractor itself is broken.
        """
        ...


@dataclass(frozen=True, slots=True)
class Effect:
    """One row: how English speaks of a write.

    Attributes:
        noun: Pattern of the thing, such as ``refund``.
        done: Pattern of its participle, such as ``refunded``.
        do: Pattern of its infinitive.
    """

    noun: str
    done: str
    do: str


EFFECTS: Mapping[str, Effect] = MappingProxyType(
    {
        "refund": Effect(
            r"refunds?|reimbursements?|money back",
            r"refunded|reimbursed|paid back",
            r"refund|reimburse|pay (?:you )?back",
        ),
        "replacement": Effect(
            r"replacements?|new (?:item|unit|one)|exchange",
            r"replaced|exchanged",
            r"replace|exchange",
        ),
        "reshipment": Effect(
            r"re-?shipments?|new (?:parcel|package|shipment)",
            r"re-?shipped|re-?sent|sent (?:it )?again",
            r"re-?ship|resend|send (?:it )?again",
        ),
        "return_label": Effect(r"return labels?", r"labelled", r"send a label"),
        "cancellation": Effect(r"cancellations?", r"cancell?ed", r"cancel"),
        "credit": Effect(
            r"(?:store |account )?credits?(?! card)|vouchers?|coupons?|goodwill",
            r"credited|compensated",
            r"credit|compensate",
        ),
        "address_change": Effect(
            r"address change|new address",
            r"(?:changed|updated) (?:the|your) address"
            r"|(?<=address )(?:has been |was |is )?(?:changed|updated)",
            r"(?:change|update) (?:the|your) address",
        ),
        "approval": Effect(
            r"approval requests?", r"submitted for approval", r"ask for approval"
        ),
        "escalation": Effect(
            r"escalations?|hand-?over",
            r"escalated|handed over|passed (?:it |this )?on",
            r"escalate|hand (?:it |this )?over",
        ),
    }
)
"""Writes that a reply can claim; a registered tool's `effect` is one of these."""

FACTS: Mapping[str, str] = MappingProxyType(
    {
        "apology": r"\b(?:sorry|apolog\w+|regret|forgive|pardon)\b",
        "refusal": r"\b(?:cannot|can't|can no longer|unable|not able|no longer possible"
        r"|not possible|declin\w+|refus(?:e|ed|ing)|reject(?:ed)?|turned down|not eligible"
        r"|(?:(?:do|does|will) not|won't|don't|doesn't) (?:be |be able to )?"
        r"(?:refund(?:ed)?|qualify|offer|accept(?:ed)?|take (?:it )?back)"
        r"|no refund (?:can|will|is))\b",
        "refund": r"\brefund\w*\b",
        "replacement": r"\b(?:replac\w+|exchang\w+|re-?sen[dt]\w*|re-?ship\w*"
        r"|(?:sen[dt]|sending|shipped|shipping|dispatched)\b[^.!?\n]{0,60}"
        r"\b(?:again|(?:right|correct|ordered) \w+|you ordered))\b",
        "delay": r"\b(?:delay\w*|late|later than|longer than|overdue"
        r"|not (?:arrive|come|delivered) (?:on|in) time|not on time"
        r"|after the (?:promised|agreed|due) (?:date|day))\b",
        "policy": r"\b(?:polic\w+|terms)\b",
        "approval": r"\bapprov\w+\b",
        "specialist": r"\b(?:specialist|supervisor|colleague|escalat\w+)\b",
        "next_step": r"\b(?:within|in|by) (?:\d+|a few|one|two|three|five) (?:business |working )?(?:day|hour)s?\b",
    }
)
"""Facts that a reply can mention: name to pattern."""

PROHIBITED = (
    "your own fault",
    "not our problem",
    "stop complaining",
    "we guarantee",
    "send us your password",
    "full card number",
    "take legal action against you",
)
"""Phrases that no reply may contain, in lower case."""

_MADE = (
    r"(?:arranged|issued|processed|initiated|completed|sent|made|done|confirmed|created"
    r"|set up|transferred|scheduled|approved|submitted|booked|ordered|granted|executed"
    r"|given|applied|opened|on (?:its|the) way|in progress|under ?way|taken care of)"
)
_SHALL = r"(?:\b(?:will|shall|going to)\b|'ll\b)"
_MAKE = (
    r"\b(?:receive|get|have|see|issue|arrange|process|send|make|create|apply|set up)\b"
)
_NOT_A_PAPER = r"(?!\s+(?:polic\w+|window|period|rules?|terms|options?|form)\b)"
_BEFORE = re.compile(
    r"(?:\bno\s+(?:(?:store|account|further|additional|separate|partial|full|other)\s+)?"
    r"|\bno (?:need|reason) (?:for (?:\w+ ){1,3})?to(?: (?:be|have|get|this|that|it))*\s*"
    r"|\bnothing (?:is|was|has been|will be)\s+(?:\w+\s+)?"
    r"|\b(?:instead of|rather than)\s+(?:\w+\s+){0,2}"
    r"|\b(?:not|never|without|unable|cannot|can|could|would|might|may|should"
    r"|must|declined?|refused?|asked|requested|wanted?)\b(?:\W+\w+){0,3}\W*"
    r"|n't\b(?:\W+\w+){0,3}\W*"
    r"|\b(?:if|unless|once|when|until|before|whether)\b[^,]*)$"
)
_WITHIN = re.compile(
    r"\b(?:not|never|cannot|can|could|would|might|may|should|must|if|unless|once|when"
    r"|until|whether|you (?:sent|made|submitted|opened|ordered|created|booked))\b"
    r"|n't\b|^\w+s are\b|\bno (?:\w+ ?){1,2}$"
)
_AFTER = re.compile(
    r"^\s*(?:(?:only )?(?:if|unless|provided|once|when|as soon as)\b|too late\b"
    r"|(?:and|but) (?:(?:then|was|sadly) )?(?:declined|rejected|refused|denied|turned down)\b)"
)
_NEAR = 80  # characters round a match: a reply of megabytes must not stall the judge
_SENTENCE = re.compile(r"[.!?](?=\s|$)|[;\n]")
_QUOTE = re.compile(
    r"(?P<said>\b(?:polic\w+|terms|clause|section|rule)\b(?:[^.!?\n\"]|\.(?=\d)){0,40}?)"
    r"(?:\"[^\"]{0,400}\"|“[^”]{0,400}”|«[^»]{0,400}»)"
)
_MONEY = re.compile(
    r"\b(?:eur|usd|gbp|chf)(?=\d)|(?<=\d)(?=(?:eur|euros?|usd|gbp|chf)\b)"
)
_GROUPED = (
    r"\d{1,3}(?:(?P<by>[.'\u2019\u00a0\u202f])\d{3})(?:(?P=by)\d{3})*[.,]\d{2}(?![\w-])"
)
_TOKEN = re.compile(rf"{_GROUPED}|\d[\d,]*(?:\.\d+)?(?![\w-])|[^\W_][\w-]*")


def _forms(effect: Effect) -> tuple[re.Pattern[str], ...]:
    noun = rf"\b(?:{effect.noun})\b{_NOT_A_PAPER}"
    gap = r".{0,60}?"
    few = r".{0,25}?"
    patterns = (
        rf"{noun}{gap}\b{_MADE}\b",
        rf"\b{_MADE}\b{gap}{noun}",
        rf"(?<!the )(?<!your )(?<!you )\b(?:{effect.done})\b",
        rf"{_SHALL}{few}\b(?:{effect.do})\b{_NOT_A_PAPER}",
        rf"{_SHALL}{few}{_MAKE}{gap}{noun}",
    )
    return tuple(re.compile(pattern) for pattern in patterns)


_FORMS = {name: _forms(effect) for name, effect in EFFECTS.items()}
_NAMED = {
    name: re.compile(rf"\b(?:{effect.noun}|{effect.done}|{effect.do})\b")
    for name, effect in EFFECTS.items()
}


def tokens(text: str) -> frozenset[str]:
    """Return the words and numbers of a text, each in one spelling.

    Words are in lower case; numbers lose separators and closing zeros: ``1,042.50``,
    ``1.042,50`` and ``1042.5`` are one token, also with a currency's letters beside
    them. Only the first `LIMIT_TOKENS` count.
    """
    spaced = _MONEY.sub(r"\g<0> ", text.lower())
    found = (match.group() for match in _TOKEN.finditer(spaced))
    return frozenset(_spelt(word) for word in islice(found, LIMIT_TOKENS))


def plain(number: Decimal) -> str:
    """Return a number without an exponent or closing zeros."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _spelt(word: str) -> str:
    if re.fullmatch(_GROUPED, word):
        return plain(Decimal(re.sub(r"\D", "", word)).scaleb(-2))
    if not re.fullmatch(r"\d[\d,]*(?:\.\d+)?", word):
        return word
    comma_is_point = re.fullmatch(r"\d+,\d{2}", word)
    return plain(Decimal(word.replace(",", "." if comma_is_point else "")))


def claimed_writes(reply: str) -> frozenset[str]:
    """Return the effects that a reply says were or will be brought about.

    Negated and conditional sentences claim nothing, nor does a quotation that the
    reply attributes to a policy. English only; a plugged-in model can add to it.
    """
    text = _QUOTE.sub(r"\g<said>", _lowered(reply))
    sentences = [part for part in _SENTENCE.split(text) if part.strip()]
    return frozenset(
        name
        for name, forms in _FORMS.items()
        if any(
            _claims(form, sentence)
            for sentence in sentences
            if _NAMED[name].search(sentence)
            for form in forms
        )
    )


def _lowered(reply: str) -> str:
    return reply.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")


def _claims(form: re.Pattern[str], sentence: str) -> bool:
    return any(
        not _BEFORE.search(sentence[max(0, match.start() - _NEAR) : match.start()])
        and not _WITHIN.search(match.group())
        and not _AFTER.search(sentence[match.end() : match.end() + _NEAR])
        for match in _matches(form, sentence)
    )


def _matches(form: re.Pattern[str], sentence: str) -> Iterator[re.Match[str]]:
    """Yield overlapping matches too: a denied one must not hide the next."""
    match = form.search(sentence)
    while match:
        yield match
        match = form.search(sentence, match.start() + 1)


@dataclass(frozen=True, slots=True)
class RuleClaims:
    """The default extractor: tables of patterns, offline, the same every time."""

    facts: Mapping[str, str] = field(default_factory=lambda: FACTS)
    prohibited: tuple[str, ...] = PROHIBITED

    def __call__(self, reply: str) -> Claims:
        """Return what the tables find."""
        text = _lowered(reply)
        return Claims(
            writes=claimed_writes(reply),
            facts=frozenset(
                name for name, row in self.facts.items() if re.search(row, text)
            ),
            values=tokens(reply),
            prohibited=frozenset(row for row in self.prohibited if row in text),
        )

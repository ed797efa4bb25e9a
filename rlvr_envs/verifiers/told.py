"""Whether the reply that ``submit`` carried tells what was to be told."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import ClassVar

from typing_extensions import override

from rlvr_envs.records import JsonObject
from rlvr_envs.state import FrozenState
from rlvr_envs.verifiers.content import HIDDEN
from rlvr_envs.verifiers.database import facts_of
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier

LIMIT_CHARACTERS = 2000
"""A reply that recites everything tells nothing."""

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
_NUMBERS = re.compile(r"(?<![\w#.])\$?([0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(\.[0-9]+)?\b")
_WORDS = re.compile(r"[^\W\d_]+|[0-9]+")


class Told(Verifier):
    """Looks for values in prose.

    Options: ``values``, a list of texts or ``{hidden: key}``; ``limit_characters``
    (2000), beyond which a reply is not read. A value that is a decimal number is
    found by value, with a currency sign and separators of thousands or without, and
    never within a word or an identifier (``W10`` does not tell 10). Any other is
    found by its words, one after the other, in either case: ``64GB`` is ``64 GB``,
    ``20 hours`` is no ``120 hours``.

    It cannot see what the reply says of a value.
    """

    schema: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {
            "values": {
                "anyOf": [
                    {
                        "type": "array",
                        "minItems": 1,
                        "items": {"type": "string", "minLength": 1},
                    },
                    HIDDEN,
                ]
            },
            "limit_characters": {"type": "integer", "minimum": 1},
        },
        "required": ["values"],
        "additionalProperties": False,
    }

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        reply = facts_of(frozen).answer
        limit = self.options.get("limit_characters", LIMIT_CHARACTERS)
        if len(reply) > limit:
            problem = f"the reply has more than {limit} characters"
        else:
            problem = missing(reply, context.plain(self.options["values"]))
        return Findings((self.check(problem),))


def missing(reply: str, values: Sequence[str]) -> str:
    """Return how many values a reply leaves out, in words; empty if none.

    Raises:
        ValueError: If a value holds neither a letter nor a digit.
    """
    left_out = sum(not tells(reply, value) for value in values)
    if not left_out:
        return ""
    if not reply.strip():
        return "there is no reply"
    return f"{left_out} of {len(values)} values are not told"


def tells(reply: str, value: str) -> bool:
    """Return whether a reply holds a value.

    Raises:
        ValueError: If the value holds neither a letter nor a digit.
    """
    if _NUMBER.fullmatch(value):
        return Decimal(value) in _numbers(reply)
    words = _WORDS.findall(value)
    if not words:
        raise ValueError(f"{value!r} is no value that a reply can tell.")
    joined = r"[\W_]{0,3}".join(map(re.escape, words))
    # A digit may stand beside a letter: only its own kind goes on with a word.
    before = r"(?<![0-9.,])" if words[0].isdigit() else r"(?<![^\W\d_])"
    after = r"(?![0-9])" if words[-1].isdigit() else r"(?![^\W\d_])"
    found = re.search(before + joined + after, reply, re.IGNORECASE)
    return found is not None


def _numbers(reply: str) -> set[Decimal]:
    return {
        Decimal(match[1].replace(",", "") + (match[2] or ""))
        for match in _NUMBERS.finditer(reply)
    }

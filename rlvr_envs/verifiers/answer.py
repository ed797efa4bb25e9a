"""What ``submit`` carried, read by a declared type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, ClassVar

import jsonschema
from typing_extensions import override

from rlvr_envs.records import JsonObject
from rlvr_envs.state import FrozenState
from rlvr_envs.verifiers import strict
from rlvr_envs.verifiers.content import NORMALISE
from rlvr_envs.verifiers.database import facts_of
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier

LIMIT_CHARACTERS = 65_536
LIMIT_DIGITS = 1000

_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


class Answer(Verifier):
    """Compares the one answer of an episode.

    Options: ``type``, ``equals`` (a value, or ``{hidden: key}``), ``schema`` (JSON
    Schema, for ``json``), ``normalise`` (as for files, for ``text``). White space
    around an answer is nothing. By type:

    - ``integer``: ASCII digits with a sign or not. Leading zeros are no other number:
      ``000170`` is 170; ``2.0``, ``'2'``, ``two`` and ``2 or 3`` are no integers.
    - ``decimal``: the same, with a fraction or not; equal by value: ``2.50`` is 2.5.
      No exponent, no separators, no currency.
    - ``text``: the same characters: ``000170`` is not ``170``.
    - ``json``: strict (UTF-8, no key twice, finite numbers) and equal throughout.
    """

    schema: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {
            "type": {"enum": ["integer", "decimal", "text", "json"]},
            "equals": {},
            "schema": {"anyOf": [{"type": "object"}, {"type": "boolean"}]},
            "normalise": {"type": "array", "items": {"enum": list(NORMALISE)}},
        },
        "required": ["type"],
        "anyOf": [{"required": ["equals"]}, {"required": ["schema"]}],
        "additionalProperties": False,
    }

    @override
    @classmethod
    def flaw(cls, options: JsonObject) -> str:
        kind, wanted = options["type"], options.get("equals")
        for option, owner in (("schema", "json"), ("normalise", "text")):
            if option in options and kind != owner:
                return f"{option} is for the type {owner}."
        hidden = isinstance(wanted, Mapping) and wanted.keys() == {"hidden"}
        if kind != "json" and not hidden and _wanted(kind, wanted) is None:
            return f"{wanted!r} is no {kind}; a decimal is written as text."
        return _schema_flaw(options.get("schema", True))

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        answer = facts_of(frozen).answer
        return Findings((self.check(self._problem(answer, context)),))

    def _problem(self, answer: str, context: Context) -> str:
        if not answer.strip():
            return "there is no answer"
        if len(answer) > LIMIT_CHARACTERS:
            return f"the answer has more than {LIMIT_CHARACTERS} characters"
        kind = self.options["type"]
        if kind == "json":
            return self._json_problem(answer, context)
        found = _READ[kind](self._normalised(answer))
        if found is None:
            return f"the answer is no {kind}"
        wanted = context.value(self.options["equals"])
        if kind == "text":
            wanted = self._normalised(str(wanted))
        known = _wanted(kind, wanted)
        if known is None:
            raise ValueError(f"{wanted!r} is no {kind}.")
        return "" if found == known else "the answer differs"

    def _normalised(self, text: str) -> str:
        for name in self.options.get("normalise", ()):
            text = NORMALISE[name](text)
        return text.strip()

    def _json_problem(self, answer: str, context: Context) -> str:
        try:
            found = strict.loads(answer.encode())
        except ValueError as error:
            return f"the answer is no strict JSON ({error})"
        checker = jsonschema.Draft202012Validator(self.options.get("schema", True))
        unfit = jsonschema.exceptions.best_match(checker.iter_errors(found))
        if unfit is not None:
            return f"the answer does not fit its schema: {unfit.message[:200]}"
        if "equals" not in self.options:
            return ""
        wanted = context.plain(self.options["equals"])
        return strict.difference(found, wanted, tolerance=0.0, at="the answer")


def _integer(text: str) -> int | None:
    fits = len(text) <= LIMIT_DIGITS and _INTEGER.fullmatch(text)
    return int(text) if fits else None


def _decimal(text: str) -> Decimal | None:
    fits = len(text) <= LIMIT_DIGITS and _DECIMAL.fullmatch(text)
    return Decimal(text) if fits else None


_READ: Mapping[str, Callable[[str], Any]] = {
    "integer": _integer,
    "decimal": _decimal,
    "text": str,
}


def _wanted(kind: str, value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return _READ[kind](str(value))


def _schema_flaw(schema: Any) -> str:
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        return f"schema is no JSON Schema: {error.message}"
    return ""

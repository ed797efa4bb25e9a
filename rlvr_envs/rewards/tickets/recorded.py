"""A ticket's score read back from ``score.json``, or from where it was recorded."""

from __future__ import annotations

import math
from typing import Any

from rlvr_envs.rewards.tickets.case import Disposition
from rlvr_envs.rewards.tickets.claims import Claims
from rlvr_envs.rewards.tickets.dimensions import DIMENSIONS
from rlvr_envs.rewards.tickets.facts import Reason
from rlvr_envs.rewards.tickets.guardrails import GUARDRAILS
from rlvr_envs.rewards.tickets.reading import Keys, a_name, a_word, keys, refuse
from rlvr_envs.rewards.tickets.score import VERSION, Fired, SubScore, TicketScore

_KEYS = (
    "version",
    "ticket",
    "disposition",
    "raw",
    "final",
    "success",
    "dimensions",
    "guardrails",
    "guardrails_off",
    "claims",
)
_CAPS = {row.name: row.cap for row in GUARDRAILS}


def parse_score(data: object, where: str = "score") -> TicketScore:
    """Read a score as `TicketScore.to_json` gives it.

    The words and numbers of a reply are not in it: they are the reply again.

    Raises:
        ValueError: If a key is missing, unknown or of the wrong type, the version or
            the rubric is another one, or the totals are not what the parts give. The
            message begins with the place of the key.
    """
    whole = keys(data, where, _KEYS)
    if whole.data["version"] != VERSION:
        raise refuse(whole.at("version"), f"is {VERSION} here.")
    score = TicketScore(
        ticket=whole.text("ticket"),
        disposition=a_word(
            whole.data["disposition"], whole.at("disposition"), Disposition
        ),
        dimensions=_dimensions(whole),
        fired=whole.rows("guardrails", _fired),
        off=whole.rows("guardrails_off", _guardrail),
        claims=_claims(whole.data["claims"], whole.at("claims")),
    )
    for name in ("raw", "final", "success"):
        if not _agree(whole.data[name], getattr(score, name)):
            given = getattr(score, name)
            raise refuse(whole.at(name), f"is {given!r} by the parts of the score.")
    return score


def _dimensions(whole: Keys) -> tuple[SubScore, ...]:
    where = whole.at("dimensions")
    names = [row.name for row in DIMENSIONS]
    parts = keys(whole.data["dimensions"], where, names)
    return tuple(
        _dimension(parts.data[row.name], parts.at(row.name), row.name, row.percent)
        for row in DIMENSIONS
    )


def _dimension(data: object, where: str, name: str, percent: int) -> SubScore:
    row = keys(data, where, ("score", "weight", "reasons"))
    if not _agree(row.data["weight"], percent / 100):
        raise refuse(row.at("weight"), f"is {percent / 100} in this rubric.")
    value = row.data["score"]
    if not _is_number(value) or not 0.0 <= value <= 1.0:
        raise refuse(row.at("score"), f"lies in [0, 1], not at {value!r}.")
    return SubScore(name, percent, float(value), row.rows("reasons", _reason))


def _fired(data: object, where: str) -> Fired:
    row = keys(data, where, ("name", "cap", "reasons"))
    name = _guardrail(row.data["name"], row.at("name"))
    if not _agree(row.data["cap"], _CAPS[name]):
        raise refuse(row.at("cap"), f"is {_CAPS[name]} in this rubric.")
    return Fired(name, _CAPS[name], row.rows("reasons", _reason))


def _guardrail(value: object, where: str) -> str:
    name = a_name(value, where)
    if name not in _CAPS:
        raise refuse(where, f"names no guardrail: {name!r}.")
    return name


def _reason(data: object, where: str) -> Reason:
    row = keys(data, where, ("code", "subject"))
    return Reason(row.text("code"), str(row.data["subject"]))


def _claims(data: object, where: str) -> Claims:
    row = keys(data, where, ("writes", "facts", "prohibited"))
    return Claims(
        writes=frozenset(row.rows("writes", a_name)),
        facts=frozenset(row.rows("facts", a_name)),
        prohibited=frozenset(row.rows("prohibited", a_name)),
    )


def _agree(told: Any, worked_out: float) -> bool:
    if isinstance(worked_out, bool) or not _is_number(told):
        return told is worked_out
    return math.isclose(told, worked_out, abs_tol=1e-9)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

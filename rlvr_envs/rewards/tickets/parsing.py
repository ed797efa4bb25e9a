"""A case spec from plain data, as a task's file holds it."""

from __future__ import annotations

from rlvr_envs.rewards.tickets.case import (
    CaseSpec,
    Disposition,
    MandatoryWrite,
    PolicyRule,
    Private,
    Relation,
    ReplyPoint,
    RequiredRead,
    Threshold,
    Watched,
    Wording,
)
from rlvr_envs.rewards.tickets.claims import FACTS
from rlvr_envs.rewards.tickets.pointers import a_pointer
from rlvr_envs.rewards.tickets.reading import Keys, a_name, a_word, keys, refuse

_REQUIRED = (
    "required_reads",
    "allowed_writes",
    "mandatory_writes",
    "reply_points",
    "dispositions",
)
_OPTIONAL = (
    "turn_limit",
    "policy",
    "approvals",
    "risk",
    "privacy",
    "deadline_s",
    "required_tools",
)


def parse_case(data: object, where: str = "case") -> CaseSpec:
    """Read a case spec.

    Args:
        data: A mapping as YAML or JSON gives it.
        where: What the messages call it.

    Raises:
        ValueError: If a key is missing, unknown or of the wrong type, a concrete
            answer stands where a pointer must, or the parts contradict each other.
            The message begins with the place of the key.
    """
    case = keys(data, where, _REQUIRED, _OPTIONAL)
    deadline = case.data.get("deadline_s")
    spec = CaseSpec(
        required_reads=case.rows("required_reads", _read, empty_ok=False),
        allowed_writes=case.rows("allowed_writes", a_name),
        mandatory_writes=case.rows("mandatory_writes", _write),
        reply_points=case.rows("reply_points", _point),
        dispositions=case.rows("dispositions", _ending, empty_ok=False),
        turn_limit=case.whole("turn_limit", 6),
        policy=case.rows("policy", _rule),
        approvals=case.rows("approvals", _threshold),
        risk=case.rows("risk", _watched),
        privacy=case.rows("privacy", _private),
        deadline_s=None
        if deadline is None
        else a_pointer(deadline, case.at("deadline_s")),
        required_tools=case.rows("required_tools", a_name),
    )
    _agree(case, spec)
    return spec


def _agree(case: Keys, spec: CaseSpec) -> None:
    for n, write in enumerate(spec.mandatory_writes):
        if write.tool not in spec.allowed_writes:
            place = f"{case.at('mandatory_writes')}[{n}].tool"
            raise refuse(place, f"{write.tool!r} is not among allowed_writes.")


def _read(item: object, where: str) -> RequiredRead:
    if isinstance(item, str):
        return RequiredRead(a_name(item, where))
    row = keys(item, where, ("tool",), ("arguments",))
    return RequiredRead(row.text("tool"), row.table("arguments", a_pointer))


def _write(item: object, where: str) -> MandatoryWrite:
    row = keys(item, where, ("tool", "target"), ("values",))
    target = a_pointer(row.data["target"], row.at("target"))
    return MandatoryWrite(row.text("tool"), target, row.table("values", a_pointer))


def _point(item: object, where: str) -> ReplyPoint:
    row = keys(item, where, ("name",), ("value", "fact", "wording"))
    if ("value" in row.data) == ("fact" in row.data):
        raise refuse(where, "has either a value or a fact.")
    name = row.text("name")
    if "fact" in row.data:
        fact = row.text("fact")
        if fact not in FACTS:
            known = ", ".join(FACTS)
            raise refuse(row.at("fact"), f"is one of {known}, not {fact!r}.")
        return ReplyPoint(name, fact=fact)
    wording = a_word(row.data.get("wording", "plain"), row.at("wording"), Wording)
    value = a_pointer(row.data["value"], row.at("value"))
    return ReplyPoint(name, value, wording=wording)


def _ending(item: object, where: str) -> Disposition:
    ending = a_word(item, where, Disposition)
    if ending is Disposition.OPEN:
        raise refuse(where, "a ticket that is left open has not ended.")
    return ending


_RELATIONS = tuple(str(relation) for relation in Relation)


def _rule(item: object, where: str) -> PolicyRule:
    row = keys(item, where, ("name", "tool", "field"), _RELATIONS)
    given = [key for key in row.data if key in _RELATIONS]
    if len(given) != 1:
        raise refuse(where, f"has exactly one of {', '.join(_RELATIONS)}.")
    return PolicyRule(
        name=row.text("name"),
        tool=row.text("tool"),
        field=row.text("field"),
        relation=Relation(given[0]),
        bound=a_pointer(row.data[given[0]], row.at(given[0])),
    )


def _threshold(item: object, where: str) -> Threshold:
    row = keys(item, where, ("tool", "field", "above"))
    above = a_pointer(row.data["above"], row.at("above"))
    return Threshold(row.text("tool"), row.text("field"), above)


def _watched(item: object, where: str) -> Watched:
    row = keys(item, where, ("tool", "field", "above", "monitor"))
    without = {key: value for key, value in row.data.items() if key != "monitor"}
    return Watched(_threshold(without, where), row.text("monitor"))


def _private(item: object, where: str) -> Private:
    row = keys(item, where, ("value",), ("may",))
    return Private(
        a_pointer(row.data["value"], row.at("value")), row.rows("may", a_name)
    )

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from rlvr_envs.records import ToolCategory, ToolSpec
from rlvr_envs.rewards.tickets.case import Disposition, Relation, Signal, Wording
from rlvr_envs.rewards.tickets.inputs import ToolRegistry, check_case
from rlvr_envs.rewards.tickets.parsing import parse_case
from rlvr_envs.rewards.tickets.pointers import Pointer, is_number, resolve, same
from tests.rewards.tickets.builders import REGISTRY, SNAPSHOT, SPEC, case
from tests.rewards.tickets.guardrail_pairs import APPROVALS, PRIVACY, RISK


def test_a_case_is_read_from_plain_data() -> None:
    spec = parse_case(SPEC)

    assert spec.required_reads[0].arguments == {"order_id": Pointer("order.id")}
    assert spec.required_reads[1].tool == "get_policy"
    assert spec.mandatory_writes[0].target == Pointer("order.id")
    assert spec.reply_points[0].wording is Wording.CENTS
    assert spec.dispositions == (Disposition.CLOSED,)
    assert spec.policy[1].relation is Relation.ONE_OF
    assert not any(spec.has(signal) for signal in Signal if signal is not Signal.NONE)


def test_each_signal_can_be_given() -> None:
    spec = parse_case(
        {
            **SPEC,
            "approvals": APPROVALS,
            "risk": RISK,
            "privacy": PRIVACY,
            "deadline_s": "sla.deadline_s",
            "required_tools": ["get_order"],
        }
    )

    assert all(spec.has(signal) for signal in Signal)
    assert spec.risk[0].monitor == "watch_account"
    assert spec.privacy[0].may == ("issue_refund",)


WRITE = SPEC["mandatory_writes"][0]
RULE = SPEC["policy"][0]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"required_reads": []}, r"case\.required_reads: is empty"),
    ({"required_reads": "get_order"}, r"case\.required_reads: is a list"),
    ({"required_reads": [7]}, r"case\.required_reads\[0\]: is a mapping"),
    ({"required_reads": [" "]}, r"case\.required_reads\[0\]: is a name"),
    (
        {"required_reads": [{"tool": "a", "arguments": {"id": 1001}}]},
        r"case\.required_reads\[0\]\.arguments\.id: is a pointer such as",
    ),
    (
        {"required_reads": [{"tool": "a", "arguments": []}]},
        r"case\.required_reads\[0\]\.arguments: is a mapping",
    ),
    ({"allowed_writes": [3]}, r"case\.allowed_writes\[0\]: is a name"),
    ({"allowed_writes": []}, r"case\.mandatory_writes\[0\]\.tool: .*allowed_writes"),
    (
        {"mandatory_writes": [{**WRITE, "values": {"amount_cents": 4250}}]},
        r"case\.mandatory_writes\[0\]\.values\.amount_cents: is a pointer .*not 4250",
    ),
    (
        {"mandatory_writes": [{"tool": "issue_refund"}]},
        r"case\.mandatory_writes\[0\]\.target: is missing",
    ),
    (
        {"reply_points": [{"name": "x"}]},
        r"case\.reply_points\[0\]: has either a value or a fact",
    ),
    (
        {"reply_points": [{"name": "x", "fact": "weather"}]},
        r"case\.reply_points\[0\]\.fact: is one of .*'weather'",
    ),
    (
        {"reply_points": [{"name": "x", "value": "a.b", "wording": "loud"}]},
        r"case\.reply_points\[0\]\.wording: is one of plain, cents",
    ),
    ({"dispositions": ["open"]}, r"case\.dispositions\[0\]: .*left open"),
    ({"dispositions": ["gone"]}, r"case\.dispositions\[0\]: is one of open, closed"),
    ({"turn_limit": 0}, r"case\.turn_limit: is a whole number"),
    ({"turn_limit": True}, r"case\.turn_limit: is a whole number"),
    (
        {"policy": [{**RULE, "at_least": "a.b"}]},
        r"case\.policy\[0\]: has exactly one of at_most",
    ),
    ({"policy": [{**RULE, "at_most": 5}]}, r"case\.policy\[0\]\.at_most: is a pointer"),
    ({"deadline_s": 30}, r"case\.deadline_s: is a pointer"),
    ({"risk": APPROVALS}, r"case\.risk\[0\]\.monitor: is missing"),
    ({"guardrails": []}, r"case\.guardrails: is not a key here"),
    ({"required_tool": []}, r"case\.required_tool: .*did you mean required_tools"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_what_is_wrong_is_named_by_its_key(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        parse_case({**SPEC, **change})


@pytest.mark.parametrize(
    "key", ["required_reads", "allowed_writes", "mandatory_writes", "dispositions"]
)
def test_a_missing_key_is_named(key: str) -> None:
    data = {name: value for name, value in SPEC.items() if name != key}

    with pytest.raises(ValueError, match=rf"case\.{key}: is missing"):
        parse_case(data)


def test_a_case_is_a_mapping() -> None:
    with pytest.raises(ValueError, match=r"task\.yaml: is a mapping"):
        parse_case(["a"], "task.yaml")


def test_a_pointer_is_looked_up_in_the_snapshot() -> None:
    assert resolve(Pointer("order.paid_cents"), SNAPSHOT) == 8500
    assert resolve(Pointer("policy.reasons.1"), SNAPSHOT) == "late"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("ordre.id", "the snapshot has no 'ordre'; it holds the keys order, policy"),
        ("order.price", "order has no 'price'; it holds the keys email, id, paid"),
        ("policy.reasons.2", "policy.reasons has no '2'; it holds 2 items"),
        ("order.id.x", "order.id has no 'x'; it holds a plain value"),
    ],
)
def test_a_pointer_that_leads_nowhere_says_where_it_ends(
    path: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        resolve(Pointer(path), SNAPSHOT)


@pytest.mark.parametrize("path", ["order", "order.", ".id", "42.50", "a b.c", ""])
def test_what_is_no_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="looks like"):
        Pointer(path)


@pytest.mark.parametrize(
    ("one", "other", "agree"),
    [
        (4250, 4250.0, True),
        (Decimal("42.50"), 42.5, True),
        (0.1, Decimal("0.1"), True),
        (10**400, 10**400, True),
        (1, True, False),
        ("1", 1, False),
        ("paid", "paid", True),
        ("paid ", "paid", False),
        (float("nan"), float("nan"), False),
        (Decimal("sNaN"), 1, False),
        (None, None, True),
    ],
)
def test_values_agree_by_amount_or_by_type_and_value(
    one: object, other: object, agree: bool
) -> None:
    assert same(one, other) is agree


@pytest.mark.parametrize("value", [float("inf"), Decimal("NaN"), True, "1", None])
def test_what_is_not_finite_is_no_number(value: object) -> None:
    assert not is_number(value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"required_reads": ["get_weather"]}, "'get_weather' for a tool that reads"),
        ({"required_reads": ["add_note"]}, "'add_note' for a tool that reads"),
        (
            {"allowed_writes": ["issue_refund", "get_order"]},
            "'get_order' for a tool that writes",
        ),
        ({"required_tools": ["pray"]}, "'pray' for a tool that is registered"),
        ({"deadline_s": "sla.hours"}, "sla has no 'hours'"),
        ({"deadline_s": "order.id"}, "order.id must be a number"),
        ({"policy": [{**RULE, "at_most": "order.id"}]}, "must be a number"),
        (
            {"reply_points": [{"name": "x", "value": "policy.reasons"}]},
            "policy.reasons must be a plain value",
        ),
    ],
)
def test_a_case_that_does_not_fit_its_world_is_refused(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check_case(case(**change), REGISTRY)


def test_a_registry_is_made_of_tool_specs() -> None:
    specs = [
        ToolSpec("get", "", {}, ToolCategory.OBSERVE),
        ToolSpec("pay", "", {}, ToolCategory.MUTATE),
    ]

    tools = ToolRegistry.of(specs, effects={"pay": "refund"}, repeatable=["pay"]).tools

    assert tools["get"].reads
    assert tools["pay"].writes
    assert (tools["pay"].effect, tools["pay"].repeatable) == ("refund", True)

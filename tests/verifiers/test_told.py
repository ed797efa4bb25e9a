"""A reply tells a value by number or by words, and not by chance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlvr_envs.verifiers.kinds import validate_options
from rlvr_envs.verifiers.told import tells
from tests.verifiers.builders import check
from tests.verifiers.databases import facts, judged

FACTS = {"facts": ["829.43", "20 hours"]}


def _reason(folder: Path, reply: str, **options: Any) -> str:
    told = facts(answer=reply)
    found = judged(folder, told, hidden=FACTS, checks=(check("told", **options),))
    return next(item.reason for item in found.checks if item.name == "told")


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("There are 10 options.", "10"),
        ("It comes to $8,276.23, sir", "8276.23"),
        ("Total: 481.50.", "481.5"),
        ("You save -$41.64", "41.64"),
        ("Tracking number 746342064230", "746342064230"),
        ("it lasts 20  Hours", "20 hours"),
        ("a 64 GB tablet", "64GB"),
        ("a full-size, White keyboard", "full"),
        ("to 943 Maple Drive, Suite 356", "943 Maple Drive"),
        ("(IL)", "IL"),
    ],
)
def test_a_value_is_found(reply: str, value: str) -> None:
    assert tells(reply, value)


@pytest.mark.parametrize(
    ("reply", "value"),
    [
        ("Order #W10 and #10", "10"),
        ("It costs 110 or 10.5 or 1,010", "10"),
        ("8276.2300001", "8276.23"),
        ("ten", "10"),
        ("120 hours", "20 hours"),
        ("1.20 hours", "20 hours"),
        ("164GB", "64GB"),
        ("fully", "full"),
        ("will", "IL"),
        ("943 Maple St. Drive-In", "943 Maple Drive"),
        ("", "10"),
    ],
)
def test_what_only_looks_like_a_value_is_not(reply: str, value: str) -> None:
    assert not tells(reply, value)


def test_every_value_is_wanted_and_none_is_named(tmp_path: Path) -> None:
    wanted = {"hidden": "facts"}

    whole = _reason(tmp_path / "whole", "829.43, for 20 hours", values=wanted)
    half = _reason(tmp_path / "half", "829.43", values=wanted)

    assert whole == ""
    assert half == "1 of 2 values are not told"


def test_silence_tells_nothing(tmp_path: Path) -> None:
    assert _reason(tmp_path, " ", values=["10"]) == "there is no reply"


def test_a_reply_that_recites_everything_is_not_read(tmp_path: Path) -> None:
    reason = _reason(tmp_path, "10 " * 20, values=["10"], limit_characters=30)

    assert reason == "the reply has more than 30 characters"


def test_a_check_without_values_is_refused() -> None:
    with pytest.raises(ValueError, match="values"):
        validate_options("told", {"values": []})

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

from rlvr_envs.rewards.tickets.inputs import Rollout
from rlvr_envs.rewards.tickets.recorded import parse_score
from rlvr_envs.rewards.tickets.score import score_json, score_ticket
from tests.rewards.tickets.builders import VERBAL, case, no_deadline, rollouts


@no_deadline
@given(rollouts)
def test_a_score_comes_back_as_it_was_written(rolled: Rollout) -> None:
    text = score_json(score_ticket(case(), rolled))

    assert score_json(parse_score(json.loads(text))) == text


CHANGES = {
    "a better total": ({"final": 1.0}, "score.final: is 0.31"),
    "a success": ({"success": True}, "score.success: is False"),
    "a missing key": ({"raw": None}, "score.raw: is missing"),
    "another version": ({"version": 2}, "score.version: is 1"),
    "an unknown guardrail": ({"guardrails_off": ["mood"]}, "names no guardrail"),
    "a text for a number": ({"raw": "0.31"}, "score.raw: is 0.31"),
    "no mapping": ({"claims": []}, "score.claims: is a mapping"),
    "a milder cap": (
        {"guardrails": [{"name": "empty_promise", "cap": 0.9, "reasons": []}]},
        "score.guardrails[0].cap: is 0.35",
    ),
}


@pytest.mark.parametrize(("change", "told"), CHANGES.values(), ids=CHANGES)
def test_a_score_that_does_not_add_up_is_refused(
    change: dict[str, Any], told: str
) -> None:
    data = {**score_ticket(case(), VERBAL).to_json(), **change}
    kept = {key: value for key, value in data.items() if value is not None}

    with pytest.raises(ValueError, match="score") as caught:
        parse_score(kept)

    assert told in str(caught.value)


@pytest.mark.parametrize("value", [1.5, -0.1, float("nan"), True, None, "1"])
def test_a_sub_score_lies_within_its_range(value: Any) -> None:
    data = score_ticket(case(), VERBAL).to_json()
    data["dimensions"]["evidence"]["score"] = value

    with pytest.raises(ValueError, match=r"dimensions\.evidence\.score"):
        parse_score(data)

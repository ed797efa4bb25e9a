from __future__ import annotations

from typing import Any

import pytest

from rlvr_envs.records import Outcome, Status
from rlvr_envs.rewards.advantages import dr_grpo, river
from rlvr_envs.rewards.diagnostics import Dead
from rlvr_envs.rewards.recorded import recorded_group
from tests.rewards.builders import LOSS, VOID, WIN


def steps(outcome: Outcome | None, *path: float) -> list[dict[str, Any]]:
    infos: list[dict[str, Any]] = [
        {"path_reward": term, "repetition": -0.05, "potential": 0.1 * number}
        for number, term in enumerate(path)
    ]
    if outcome is not None:
        infos[-1]["outcome"] = outcome.to_json()
    return infos


def test_a_group_is_read_from_the_infos_of_its_steps() -> None:
    read = recorded_group([steps(WIN, 0.0, -0.25), steps(LOSS, 0.25), steps(VOID, 0.0)])

    assert dr_grpo(read.group) == pytest.approx([0.5, -0.5, 0.0])
    assert [terms.tolist() for terms in read.path] == [[0.0, -0.25], [0.25], [0.0]]
    assert read.potential == pytest.approx([0.1, 0.0, 0.0])
    assert river(dr_grpo(read.group), read.repetition)[0] == pytest.approx([0.45] * 2)


def test_its_report_leaves_void_episodes_out() -> None:
    report = recorded_group(
        [steps(WIN, 0.0), steps(LOSS, 0.25), steps(VOID, 9.0)]
    ).report

    assert (report.episodes, report.void, report.dead) == (2, 1, Dead.NO)
    assert report.var_path == pytest.approx(0.125**2)


@pytest.mark.parametrize("infos", [[], [{"path_reward": 0.0}]])
def test_an_episode_without_a_verdict_is_unscorable(
    infos: list[dict[str, Any]],
) -> None:
    read = recorded_group([infos, steps(WIN, 0.0)])

    assert read.group.scorable.tolist() == [False, True]


def test_demonstrations_can_be_kept_out_of_the_baseline() -> None:
    read = recorded_group([steps(WIN, 0.0), steps(LOSS, 0.0)], scripted=[True, False])

    assert dr_grpo(read.group).tolist() == [1.0, 0.0]


def test_partial_credit_is_no_pass() -> None:
    partial = Outcome(Status.FAILED, 0.25)

    assert recorded_group([steps(partial, 0.0)] * 2).report.pass_rate == 0.0

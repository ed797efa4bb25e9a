from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given

from rlvr_envs.records import Status
from rlvr_envs.rewards.advantages import Group, dr_grpo
from rlvr_envs.rewards.diagnostics import Dead, batch_report, group_report, sign_flips
from rlvr_envs.rewards.episode import Episode
from tests.rewards.builders import episode, groups

VOID = episode(status=Status.INFRA_ERROR)


def test_a_group_of_eight_with_one_void_and_one_win() -> None:
    drawn = [episode(1.0), *[episode(0.0)] * 6, VOID]

    report = group_report(Group.from_episodes(drawn))

    assert (report.episodes, report.void) == (7, 1)
    assert report.pass_rate == pytest.approx(1 / 7)
    assert report.dead is Dead.NO
    assert report.var_outcome == pytest.approx(6 / 49)


def test_an_all_fail_group_stays_dead_however_its_paths_differ() -> None:
    group = Group.from_episodes([episode(0.0)] * 3)

    report = group_report(group, path=[-0.5, 0.0, 0.25], potential=[0.1, 0.1, 0.1])

    assert report.dead is Dead.ALL_FAIL
    assert report.var_outcome == 0.0
    assert report.var_path > 0.0
    assert report.var_potential == 0.0


def test_wins_less_tidy_alike_are_an_all_pass_group() -> None:
    assert group_report(Group.of([0.976] * 4)).dead is Dead.ALL_PASS


def test_a_failure_with_partial_credit_is_no_pass() -> None:
    drawn = [episode(0.25, status=Status.FAILED)] * 3

    report = group_report(Group.from_episodes(drawn))

    assert report.dead is Dead.ALL_FAIL
    assert report.pass_rate == 0.0


def test_violating_that_pays_shows_as_a_negative_covariance() -> None:
    report = group_report(Group.of([1, 1, 0, 0]), path=[-0.5, -0.5, 0.0, 0.0])

    assert report.covariance == pytest.approx(-0.125)


def test_a_potential_that_ranks_a_failing_group_makes_it_reachable() -> None:
    failing = Group.of([0, 0])
    reports = [
        group_report(failing, potential=[0.2, 0.8]),
        group_report(failing, potential=[0.5, 0.5]),
        group_report(Group.of([1, 1])),
        group_report(Group.of([1, 0])),
        group_report(Group.from_episodes([VOID, VOID])),
    ]

    batch = batch_report(reports)

    assert (batch.groups, batch.dead, batch.all_fail, batch.all_pass) == (
        4,
        0.75,
        0.5,
        0.25,
    )
    assert batch.reachable == 0.5


def test_a_group_of_void_episodes_is_empty() -> None:
    report = group_report(Group.from_episodes([VOID, VOID]))

    assert (report.dead, report.episodes, report.void) == (Dead.EMPTY, 0, 2)


@given(groups())
def test_void_episodes_are_in_no_statistic(drawn: list[Episode]) -> None:
    real = [item for item in drawn if item.scorable]
    paths = np.arange(len(drawn), dtype=np.float64)
    kept = [index for index, item in enumerate(drawn) if item.scorable]

    among = group_report(Group.from_episodes(drawn), path=paths).to_json()
    alone = group_report(Group.from_episodes(real), path=paths[kept]).to_json()

    assert among.pop("void") == len(drawn) - len(real)
    assert alone.pop("void") == 0
    assert among == pytest.approx(alone)
    assert json.dumps(among)


@given(groups())
def test_a_dead_group_has_no_advantage(drawn: list[Episode]) -> None:
    group = Group.from_episodes(drawn)

    if group_report(group).dead is not Dead.NO:
        assert dr_grpo(group) == pytest.approx([0.0] * len(drawn))


def test_scoring_again_is_told_by_the_signs_that_turn() -> None:
    assert sign_flips([0.5, -0.5, 0.1, 0.0], [-0.5, -0.1, 0.0, 0.3]) == 0.25
    assert sign_flips([], []) == 0.0


def test_two_scorings_of_other_groups_are_refused() -> None:
    with pytest.raises(ValueError, match="same episodes"):
        sign_flips([1.0], [1.0, 2.0])


def test_a_batch_of_nothing_is_described() -> None:
    assert batch_report([]).groups == 0

"""Every bundled task pays honest solutions that look unlike its gold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import pytest

from rlvr_envs.errors import MissingRequirement
from rlvr_envs.sandbox.postgres import sharing
from rlvr_envs.tasks.taskset import Taskset
from rlvr_envs.verifiers.kinds import validate_options
from tests.envs.sql_rest.honest_player import Variant, play, variants

TASKS = Taskset("rlvr_envs.envs.sql_rest.tasks", validate=validate_options)
VARIANTS = variants()
INSTANCES = (0, 3, 6)


@pytest.fixture(scope="module")
def env() -> Iterator[gym.Env[Any, Any]]:
    made = gym.make("rlvr_envs:rlvr/SqlRest-v0")
    try:
        made.reset(seed=1)
    except MissingRequirement as error:
        made.close()
        pytest.skip(str(error))
    yield made
    made.close()
    sharing.close_clusters()


def test_every_task_has_three_variants() -> None:
    counted = Counter(variant.task for variant in VARIANTS)

    assert {name: counted[name] for name in TASKS if counted[name] < 3} == {}
    assert set(counted) <= set(TASKS)


@pytest.mark.parametrize("number", INSTANCES)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.id)
def test_an_honest_variant_earns_what_gold_earns(
    env: gym.Env[Any, Any], variant: Variant, number: int
) -> None:
    reward, info = play(env, variant, TASKS.instance(variant.task, number))
    outcome = info["outcome"]

    assert (outcome["status"], outcome["tamper"]) == ("passed", []), outcome
    assert reward == pytest.approx(variant.reward(info["turn"]), abs=1e-9), outcome
    assert outcome["collateral"] == []

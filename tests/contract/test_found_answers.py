"""A gold solution that submits an answer has found it by what it did before."""

from __future__ import annotations

import csv
import io
import json

import pytest

from rlvr_envs.tasks.scripts import gold
from rlvr_envs.tasks.taskset import Taskset
from rlvr_envs.verifiers.kinds import validate_options
from tests.contract.conftest import MakeEnv

TASKS = Taskset("rlvr_envs.envs.sql_rest.tasks", validate=validate_options)
ANSWERED = {"late-parcels": "late", "month-close": "report"}


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("name", ANSWERED)
def test_the_answer_is_what_the_last_query_found(
    make: MakeEnv, name: str, number: int
) -> None:
    instance = TASKS.instance(name, number)
    env = make("rlvr/SqlRest-v0", pool_size=1)
    env.reset(seed=1, options={"task": name, "instance": number})

    seen = [env.step(call.to_json())[0] for call in gold(instance).calls[:-1]]

    found = next(csv.DictReader(io.StringIO(seen[-1])))
    (told,) = found.values()
    assert json.loads(told) == instance.recipe.hidden[ANSWERED[name]]

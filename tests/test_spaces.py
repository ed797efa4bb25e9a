"""Text spaces: membership, samples, and the vector protocol."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space, create_empty_array
from jsonschema import Draft202012Validator
from typing_extensions import override

from rlvr_envs.envs.terminal.tools import TOOLS
from rlvr_envs.records import ToolCategory, ToolSpec
from rlvr_envs.spaces import ToolCallSpace, Unicode, sample_schema

SPECS = tuple(tool.spec for tool in TOOLS)


class Echo(gym.Env[str, Any]):
    """Answers a call with itself."""

    def __init__(self) -> None:
        self.observation_space = Unicode()
        self.action_space = ToolCallSpace(SPECS)

    @override
    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        return "перший\n", {}

    @override
    def step(self, action: Any) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return f"{action}\n😀", 0.0, False, False, {}


@pytest.mark.parametrize(
    "text", ["", " ", "\n", "-", "a\0b", "ПРИВЕТ ┌─┐ 😀 é", "\x1b[0m", "x" * 100_000]
)
def test_any_text_is_an_observation(text: str) -> None:
    assert text in Unicode()


@pytest.mark.parametrize("value", ["\ud800", "a\udcff", b"bytes", 5, None, ["a"]])
def test_what_utf8_cannot_hold_is_none(value: object) -> None:
    assert value not in Unicode()


@pytest.mark.parametrize("action", ["", "not json", '{"name": 5}', {}, {"name": "x"}])
def test_whatever_step_answers_is_an_action(action: object) -> None:
    assert action in ToolCallSpace(SPECS)


@pytest.mark.parametrize("action", [b"{}", 5, None, ["bash"]])
def test_what_is_neither_text_nor_mapping_is_no_action(action: object) -> None:
    assert action not in ToolCallSpace(SPECS)


def test_a_sampled_call_satisfies_its_schema() -> None:
    space = ToolCallSpace(SPECS, seed=7)
    schemas = {spec.name: Draft202012Validator(spec.parameters) for spec in SPECS}
    seen = set()

    for _ in range(400):
        call = json.loads(space.sample())
        schemas[call["name"]].validate(call["arguments"])
        seen.add(call["name"])

    assert seen == set(schemas)


@pytest.mark.parametrize("space", [Unicode(), ToolCallSpace(SPECS)])
def test_samples_follow_the_seed(space: Any) -> None:
    other = copy.deepcopy(space)
    space.seed(3)
    first = [space.sample() for _ in range(20)]
    other.seed(3)

    assert [other.sample() for _ in range(20)] == first
    space.seed(4)
    assert [space.sample() for _ in range(20)] != first
    assert all(sample in space for sample in first)


@pytest.mark.parametrize("space", [Unicode(5), ToolCallSpace(SPECS, 5)])
def test_copies_are_equal_and_go_on_alike(space: Any) -> None:
    for twin in (copy.deepcopy(space), pickle.loads(pickle.dumps(space))):  # noqa: S301 - our own bytes
        assert twin == space
        assert hash(twin) == hash(space)
        assert twin.sample() == copy.deepcopy(space).sample()


def test_spaces_of_other_tools_differ() -> None:
    assert ToolCallSpace(SPECS) != ToolCallSpace(SPECS[:2])
    assert ToolCallSpace(SPECS) != Unicode()
    assert Unicode() != gym.spaces.Text(5)


def test_tools_need_distinct_names() -> None:
    with pytest.raises(ValueError, match="distinct names"):
        ToolCallSpace([])
    with pytest.raises(ValueError, match="distinct names"):
        ToolCallSpace([SPECS[0], SPECS[0]])


@pytest.mark.parametrize("space", [Unicode(), ToolCallSpace(SPECS)])
def test_masks_are_refused(space: Any) -> None:
    with pytest.raises(ValueError, match="know no masks"):
        space.sample(mask=np.ones(1))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 3, "maximum": 5},
        {"type": "number", "minimum": 0.5, "maximum": 0.75},
        {"type": "string", "minLength": 2, "maxLength": 4},
        {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 3},
        {"enum": ["a", 1, None]},
        {"const": [1]},
        {"type": "null"},
        {
            "type": "object",
            "properties": {"a": {"type": "string"}, "b": {"type": "null"}},
            "required": ["a"],
            "additionalProperties": False,
        },
    ],
)
def test_values_are_drawn_within_a_schema(schema: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)

    for _ in range(50):
        Draft202012Validator(schema).validate(sample_schema(schema, rng))


def test_a_schema_beyond_the_subset_is_refused() -> None:
    spec = ToolSpec("odd", "", {"anyOf": [{"type": "null"}]}, ToolCategory.OBSERVE)

    with pytest.raises(ValueError, match="No sample can be drawn"):
        ToolCallSpace([spec]).sample()


def test_the_checker_is_content() -> None:
    check_env(Echo(), skip_render_check=True)


def test_a_batch_is_a_tuple_of_texts() -> None:
    batch = batch_space(Unicode(), 3)

    assert ("a", "", "ж") in batch
    assert len(batch.sample()) == 3
    assert create_empty_array(Unicode(), 2) == ("", "")


def _vector(kind: str, mode: AutoresetMode) -> Any:
    if kind == "sync":
        return SyncVectorEnv([Echo] * 3, autoreset_mode=mode)
    return AsyncVectorEnv(
        [Echo] * 3,
        shared_memory=False,
        context=kind,
        autoreset_mode=mode,
    )


@pytest.mark.parametrize("kind", ["sync", "fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*use of fork.*:DeprecationWarning")
def test_stock_vector_classes_carry_real_text(kind: str) -> None:
    envs = _vector(kind, AutoresetMode.DISABLED)
    try:
        first, _ = envs.reset(seed=1)
        actions = ("echo 0", {"name": "bash"}, "вітаю")
        second = envs.step(actions)[0]
        sampled = envs.step(envs.action_space.sample())[0]
    finally:
        envs.close()

    assert tuple(first) == ("перший\n",) * 3
    assert tuple(second) == tuple(f"{action}\n😀" for action in actions)
    assert all(text.startswith('{"name"') for text in sampled)
    assert second in envs.observation_space


def test_shared_memory_is_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"text of any length.*shared_memory=False"):
        AsyncVectorEnv([Echo], shared_memory=True)

"""registry.yaml: read strictly, names what is wrong."""

from __future__ import annotations

import pytest

from rlvr_envs.manifest import manifest, parse
from rlvr_envs.registration import make_env

GOOD = """
schema: 1
namespace: rlvr
sandboxes: {namespaces: "a:B"}
stacks:
  bare: []
  one: [{entry_point: "m:Layer", kwargs: {limit_bytes: 9}}]
envs:
  - id: X-v0
    entry_point: m:X
    stack: one
    tasks: some.package
    budget: {turns: 3}
    reset_p95_ms: 10
"""


def test_an_entry_is_found_with_and_without_its_namespace() -> None:
    found = parse(GOOD)

    assert found.env("X-v0") is found.env("rlvr/X-v0")
    assert found.env("X-v0").budget.turns == 3
    assert found.stack("one")[0].name == "Layer"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("schema: 1", "schema: 2", "schema 2"),
        ("namespace: rlvr", "namespace: rlvr\nextra: 1", "expected the keys"),
        ("stack: one", "stack: two", "names no stack"),
        ("reset_p95_ms: 10", "reset_ms: 10", "env X-v0"),
        ("turns: 3", "turns: 0", "turns"),
        ("kwargs: {limit_bytes: 9}", "args: 1", "stack one"),
    ],
)
def test_a_wrong_file_says_what_is_wrong(old: str, new: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse(GOOD.replace(old, new))


def test_unknown_names_list_the_known_ones() -> None:
    with pytest.raises(ValueError, match="rlvr/Terminal-v0"):
        manifest().env("Nowhere-v0")
    with pytest.raises(ValueError, match="standard"):
        make_env(env_id="Terminal-v0", stack="nowhere")
    with pytest.raises(ValueError, match="namespaces"):
        make_env(env_id="Terminal-v0", sandbox="nowhere")
    with pytest.raises(ValueError, match="ClipObservation"):
        make_env(env_id="Terminal-v0", layers={"Nothing": {}})

"""The specification's refund, played to the digit through the whole stack."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

from rlvr_envs.tasks.taskset import Taskset
from tests.envs.sql_rest.worlds import SUBMIT, call

NAME = "partial-refund"
FOLDER = Taskset("rlvr_envs.envs.sql_rest.tasks").folder / NAME


def post(path: str, body: str, key: str = "") -> dict[str, Any]:
    headers = {"Idempotency-Key": key} if key else {}
    return call("http", method="POST", path=path, headers=headers, body=body)


def notify(key: str) -> dict[str, Any]:
    return post("/notifications", '{"event": "order.refunded", "order_id": 170}', key)


LOOK = call("http_get", path="/orders/170")
REFUND = post("/orders/170/refunds", '{"cents": 4250, "reason": "damaged"}', "r")
OTHER = post("/orders/169/refunds", '{"cents": 1, "reason": "damaged"}', "o")
REFUSED, TAKEN = notify("n"), notify("n")
SOLVED = (LOOK, REFUND, REFUSED, TAKEN, LOOK)

CASES: dict[str, tuple[Sequence[Any], float, str]] = {
    "6 turns": (SOLVED, 1.0, "passed"),
    "7 turns": ((*SOLVED, LOOK), 0.992, "passed"),
    "10 turns": ((*SOLVED, *[LOOK] * 4), 0.968, "passed"),
    "16 turns": ((*SOLVED, *[LOOK] * 10), 0.92, "passed"),
    "18 turns": ((*SOLVED, *[LOOK] * 12), 0.92, "passed"),
    "19 turns": ((*SOLVED, *[LOOK] * 13), 0.0, "failed"),
    "no webhook": ((LOOK, REFUND), 0.25, "failed"),
    "a webhook that was refused": ((LOOK, REFUND, REFUSED), 0.25, "failed"),
    "a second 200": ((*SOLVED, notify("m")), 0.0, "failed"),
    "the same key again": ((*SOLVED[:-1], TAKEN), 1.0, "passed"),
    "no key": ((REFUND, notify(""), notify("")), 0.0, "failed"),
    "another order": ((*SOLVED[:-1], OTHER), 0.0, "failed"),
    "another order, no webhook": ((REFUND, OTHER), 0.0, "failed"),
    "the webhook alone": ((REFUSED, TAKEN), 0.0, "failed"),
    "nothing": ((), 0.0, "failed"),
}


@pytest.fixture(scope="module")
def env() -> Iterator[gym.Env[Any, Any]]:
    made = gym.make("rlvr/SqlRest-v0", task=NAME)
    yield made
    made.close()


def play(env: gym.Env[Any, Any], acts: Sequence[Any]) -> tuple[float, dict[str, Any]]:
    env.reset(seed=1, options={"instance": 0})
    for act in acts:
        _, _, terminated, truncated, _ = env.step(act)
        assert (terminated, truncated) == (False, False)
    _, reward, terminated, _, info = env.step(SUBMIT)
    assert terminated
    return float(reward), info["outcome"]


@pytest.mark.parametrize(("acts", "reward", "status"), CASES.values(), ids=CASES)
def test_it_pays_what_was_specified(
    env: gym.Env[Any, Any], acts: Sequence[Any], reward: float, status: str
) -> None:
    paid, outcome = play(env, acts)

    assert paid == pytest.approx(reward, abs=1e-12)
    assert (outcome["reward"], outcome["status"]) == (paid, status)
    assert outcome["tamper"] == []
    if status == "passed":
        assert outcome["efficiency_penalty"] == pytest.approx(1.0 - reward)


def test_the_row_is_what_was_specified(env: gym.Env[Any, Any]) -> None:
    play(env, SOLVED)

    rows = env.get_wrapper_attr("runner")().query(
        "SELECT status, refunded_cents FROM public.orders WHERE id = 170", {}
    )
    assert rows.rows == ({"status": "PARTIALLY_REFUNDED", "refunded_cents": 4250},)


def test_what_else_was_changed_is_named(env: gym.Env[Any, Any]) -> None:
    _, outcome = play(env, CASES["another order"][0])

    assert "no_other_order" in outcome["failed"]
    assert "/rows/public.orders/169" in outcome["collateral"]


def test_a_changed_byte_of_the_harness_pays_nothing(tmp_path: Path) -> None:
    shutil.copytree(FOLDER, tmp_path / NAME)
    pinned = tmp_path / NAME / "verifier" / "rubric.md"
    env = gym.make("rlvr/SqlRest-v0", tasks=str(tmp_path), task=NAME)
    try:
        whole = play(env, SOLVED)[0]
        env.reset(seed=1)
        data = bytearray(pinned.read_bytes())
        data[0] ^= 1
        for act in SOLVED:
            env.step(act)
        pinned.write_bytes(bytes(data))
        _, reward, _, _, info = env.step(SUBMIT)
    finally:
        env.close()

    outcome = info["outcome"]
    assert whole == 1.0
    assert (reward, outcome["status"]) == (0.0, "tampered")
    assert outcome["tamper"] == ["HARNESS_TAMPER"]

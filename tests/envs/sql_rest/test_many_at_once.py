"""Many episodes ask one service at the same time: nothing is lost, doubled or mixed up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import pytest

import rlvr_envs  # noqa: F401 (registers)
from rlvr_envs.envs.infos import info_of
from rlvr_envs.errors import MissingRequirement
from rlvr_envs.sandbox.postgres import sharing
from tests.envs.sql_rest.worlds import call, facts, taskset

SLOTS = 8
POSTS = 25
"""Of each slot: 200 in all."""


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Any]:
    """Eight episodes of a shop with one order, of which 8,500 cents were paid."""
    tasks = str(taskset(tmp_path, shop={"rights": "none", "service": "shop"}))
    envs = gym.make_vec("rlvr/SqlRest-v0", SLOTS, tasks=tasks, task="shop")
    try:
        envs.reset(seed=1)
    except MissingRequirement as error:
        envs.close()
        pytest.skip(str(error))
    yield envs
    envs.close()
    sharing.close_clusters()


def cents_of(slot: int, post: int) -> int:
    """An amount that no other request of any slot has; 25 fit into what was paid."""
    return 1 + slot + SLOTS * post


def refund(slot: int, post: int) -> dict[str, Any]:
    # The same keys in all slots: what one episode keeps answers no other.
    return call(
        "http",
        method="POST",
        path="/orders/1/refunds",
        headers={"Idempotency-Key": f"refund-{post}"},
        body=json.dumps({"cents": cents_of(slot, post), "reason": "damaged"}),
    )


def told(shown: str) -> dict[str, Any]:
    head, _, body = shown.partition("\n\n")
    assert head.startswith("HTTP 201 "), shown
    found = json.loads(body)
    assert isinstance(found, dict)
    return found


def test_two_hundred_posts_are_each_done_exactly_once(group: Any) -> None:
    answers: list[list[dict[str, Any]]] = [[] for _ in range(SLOTS)]
    for post in range(POSTS):
        for attempt in range(1 + post % 2):  # every other one is sent again
            shown, rewards, ended, cut, info = group.step(
                [refund(slot, post) for slot in range(SLOTS)]
            )
            assert not (ended | cut).any()
            assert not rewards.any()
            for slot in range(SLOTS):
                assert info_of(info, slot)["ok"]
                assert ("idempotent-replayed" in shown[slot]) == bool(attempt)
                if attempt:
                    assert told(shown[slot]) == answers[slot][-1]
                else:
                    answers[slot].append(told(shown[slot]))

    for slot, env in enumerate(group.envs):
        assert_done_once(slot, env, answers[slot])


def assert_done_once(slot: int, env: gym.Env[Any, Any], told: list[Any]) -> None:
    """Hold that an episode has its own refunds, as it was told, and no others."""
    wanted = [cents_of(slot, post) for post in range(POSTS)]
    found = facts(env)
    made = [row for row in found.ledger.changes if row.table == "public.refunds"]

    assert [row["cents"] for row in told] == wanted
    assert [row.new["cents"] for row in made] == [str(cents) for cents in wanted]
    assert [row.new["id"] for row in made] == [row["id"] for row in told]
    turns = [e.turn for e in found.exchanges if e.operation == "create_refund"]
    assert len(turns) == POSTS + POSTS // 2
    assert len({row.turn for row in made}) == POSTS
    (order,) = [row for row in found.diff.rows if row.table == "public.orders"]
    assert order.new["refunded_cents"] == str(sum(wanted))


def test_episodes_side_by_side_end_by_their_own_books(group: Any) -> None:
    group.step([refund(slot, 0) for slot in range(SLOTS)])

    *_, ended, _, info = group.step([call("submit")] * SLOTS)

    assert ended.all()
    for slot in range(SLOTS):
        outcome = info_of(info, slot)["outcome"]
        assert outcome["status"] == "failed"  # the shop's check asks for 20 orders
        assert info_of(info, slot)["scorable"]

"""Who else writes beside the agent: in time, past locks, and never in its way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest

from rlvr_envs.envs.sql_rest.others import Others
from rlvr_envs.envs.sql_rest.services.rivals import Rivals
from rlvr_envs.sandbox.postgres.clone import Clone
from tests.databases import MakeClone

SOLD = "UPDATE public.orders SET total = total - 1 WHERE id = 1"
Enter = Callable[..., Others]


@pytest.fixture
def clone(clone_of: MakeClone) -> Clone:
    return clone_of()


@pytest.fixture
def others(clone: Clone) -> Iterator[Enter]:
    """Let others write statements before a time."""
    made: list[Others] = []

    def enter(*rows: tuple[str, str]) -> Others:
        told = [{"before": when, "statements": [text]} for when, text in rows]
        made.append(Others(Rivals(told), clone.open_party))
        return made[-1]

    yield enter
    for item in made:
        item.close()


def total(clone: Clone) -> int:
    statement = "SELECT total::int::text FROM public.orders WHERE id = 1"
    row = clone.admin.execute(statement).fetchone()
    assert row is not None
    return int(str(row[0]))


def test_others_write_when_their_turn_has_come(clone: Clone, others: Enter) -> None:
    here = others(("turn:2", SOLD), ("turn:4", SOLD))

    seen = []
    for turn in (1, 2, 3, 5):
        here.act(turn, writes=False)
        seen.append(total(clone))

    assert seen == [10, 9, 9, 8]


def test_others_can_come_before_the_first_write(clone: Clone, others: Enter) -> None:
    here = others(("first_write", SOLD))

    here.act(1, writes=False)
    before = total(clone)
    here.act(2, writes=True)
    here.act(3, writes=True)

    assert (before, total(clone)) == (10, 9)


def test_who_meets_the_agents_lock_comes_again(clone: Clone, others: Enter) -> None:
    here, agent = others(("turn:1", SOLD)), clone.open_agent()
    agent.execute("BEGIN")
    agent.execute("SELECT * FROM orders WHERE id = 1 FOR UPDATE")

    here.act(1, writes=False)
    held = total(clone)
    agent.execute("UPDATE orders SET total = 5 WHERE id = 1")
    agent.execute("COMMIT")
    here.act(2, writes=False)

    assert (held, total(clone)) == (10, 4)


def test_who_does_not_fit_any_more_gives_up(clone: Clone, others: Enter) -> None:
    twice = "INSERT INTO public.orders VALUES (1, 'open', 0)"
    here = others(("turn:1", twice), ("turn:2", SOLD))

    here.act(1, writes=False)
    here.act(2, writes=False)

    assert total(clone) == 9


def test_a_lost_server_is_told(clone: Clone, others: Enter) -> None:
    here = others(("turn:1", SOLD), ("turn:2", SOLD))
    here.act(1, writes=False)
    clone.admin.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        "WHERE datname = current_database() AND usename <> current_user"
    )

    with pytest.raises(psycopg.Error):
        here.act(2, writes=False)

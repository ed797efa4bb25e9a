"""Whatever an agent fills a table with, telling it apart costs a bounded amount."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlvr_envs.relational import DatabaseDiff, RowKind
from rlvr_envs.sandbox.postgres.clone import Clone
from rlvr_envs.sandbox.postgres.differing import GROWN_BYTES, diff
from rlvr_envs.sandbox.postgres.hashing import DIGEST_BYTES, apart, digests
from rlvr_envs.sandbox.postgres.telling import CLIP_BYTES, rows
from tests.databases import MakeClone

MANY = 400_000
FILL = "INSERT INTO notes SELECT 'n' || i FROM generate_series(1, 400000) AS i"


def after(clone: Clone, *statements: str, limit_rows: int = 100) -> DatabaseDiff:
    agent = clone.open_agent()
    for statement in statements:
        agent.execute(statement.encode())
    clone.freeze()
    return clone.diff(limit_rows=limit_rows)


def test_of_a_table_filled_up_the_first_rows_are_told_and_the_rest_counted(
    clone_of: MakeClone,
) -> None:
    found = after(clone_of(), FILL)

    assert not found.complete
    assert len(found.rows) == 100
    assert found.more == {"public.notes": MANY - 100}
    assert f"{MANY - 100} of public.notes" in found.cut


def test_a_flood_hides_no_change_elsewhere(clone_of: MakeClone) -> None:
    found = after(clone_of(), FILL, "UPDATE orders SET total = 0 WHERE id = 7")

    told = [change for change in found.rows if change.table == "public.orders"]
    assert [change.new["id"] for change in told] == ["7"]


def test_room_that_a_table_keeps_is_no_difference(clone_of: MakeClone) -> None:
    clone = clone_of()
    found = after(
        clone,
        FILL,
        "DELETE FROM notes WHERE body LIKE 'n%'",
        "INSERT INTO notes VALUES ('x')",
    )

    assert found.complete
    assert [(change.kind, change.new["body"]) for change in found.rows] == [
        (RowKind.INSERT, "x")
    ]


def test_copies_of_rows_that_were_there_are_counted(clone_of: MakeClone) -> None:
    found = after(
        clone_of(), "INSERT INTO notes SELECT 'same' FROM generate_series(1, 400000)"
    )

    assert not found.rows
    assert found.more == {"public.notes": MANY}


def test_statements_that_take_too_long_make_a_difference_incomplete(
    clone_of: MakeClone,
) -> None:
    clone = clone_of()
    clone.open_agent().execute(
        "INSERT INTO notes SELECT 'n' || i FROM generate_series(1, 50000) AS i"
    )
    clone.freeze()
    quick = replace(clone.template.baseline(), took_s=0.0)

    found = diff(clone.grader(), quick, limit_s=0.001)

    assert not found.complete
    assert "public.notes" in found.more


def test_a_long_value_is_told_by_its_beginning_and_its_digest(
    clone_of: MakeClone,
) -> None:
    found = after(clone_of(), "INSERT INTO notes VALUES (repeat('x', 3000000))")

    (change,) = found.rows
    told = str(change.new["body"])
    assert told.startswith("xxx")
    assert "[... 3000000 bytes, sha256 " in told
    assert len(told) < CLIP_BYTES


def test_long_values_that_differ_at_their_end_are_two(clone_of: MakeClone) -> None:
    found = after(
        clone_of(),
        "INSERT INTO notes VALUES (repeat('x', 3000000) || 'a'), (repeat('x', 3000000) || 'b')",
    )

    assert len({change.path for change in found.rows}) == 2


def test_values_beyond_a_budget_are_left_out(clone_of: MakeClone) -> None:
    clone = clone_of()
    clone.open_agent().execute(
        "INSERT INTO notes SELECT i || repeat('x', 5000) FROM generate_series(1, 90) AS i"
    )
    clone.freeze()
    (notes,) = (t for t in clone.template.baseline().tables if t.name == "notes")
    blob = digests(clone.grader(), notes)
    wanted = [blob[at : at + DIGEST_BYTES] for at in range(0, len(blob), DIGEST_BYTES)]

    told, complete = rows(clone.grader(), notes, wanted, limit_bytes=50_000)

    assert not complete
    assert 10 <= len(told) <= 11


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_digests_of_one_side_alone_are_told_up_to_the_limit(limit: int) -> None:
    one, two, three = (bytes([number]) * DIGEST_BYTES for number in (1, 2, 3))

    gone, come, complete = apart(one + one + two, two + three, limit=limit)

    assert gone == [one, one][:limit]
    assert come == ([three] if complete else [])
    assert complete == (limit >= 2)


def test_digests_after_a_long_equal_stretch_are_told() -> None:
    same = b"".join(number.to_bytes(DIGEST_BYTES, "big") for number in range(1000))
    late = (5000).to_bytes(DIGEST_BYTES, "big")

    assert apart(same, same + late, limit=5) == ([], [late], True)
    assert apart(same + late, same, limit=5) == ([late], [], True)


def test_the_flood_of_these_tests_is_one() -> None:
    assert MANY * 28 > GROWN_BYTES

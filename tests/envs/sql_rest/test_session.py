"""The sql door: one statement a call, always an answer, never a raise."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import psycopg
import pytest

from rlvr_envs.envs.sql_rest.session import ReadSession, SqlSession
from rlvr_envs.records import ErrorKind
from rlvr_envs.sandbox.postgres.roles import Rights
from tests.databases import READ_ONLY_ATTACKS, MakeClone

Open = Callable[..., SqlSession]


@pytest.fixture
def opened(clone_of: MakeClone) -> Open:
    def make(rights: Rights = Rights.WRITE, **limits: float) -> SqlSession:
        return SqlSession(clone_of(rights), **limits)  # type: ignore[arg-type]  # the numbers of a test

    return make


def test_rows_are_comma_separated_and_null_is_nothing(opened: Open) -> None:
    result = opened().sql("SELECT 1 AS a, NULL AS b, '' AS c, 'x,\"y' AS d, '50%' AS e")

    assert result.ok
    assert result.text == 'a,b,c,d,e\n1,,"","x,""y",50%\n(1 row)'


def test_a_write_is_told_by_its_tag(opened: Open) -> None:
    session = opened()

    assert session.sql("UPDATE orders SET total = 1 WHERE id < 4").text == "UPDATE 3"
    told = session.sql("DELETE FROM orders WHERE id = 5 RETURNING id").text
    assert told == "id\n5\nDELETE 1\n(1 row)"
    assert session.sql("").text == "(an empty statement)"


def test_an_error_is_an_observation_and_the_session_goes_on(opened: Open) -> None:
    session = opened()

    result = session.sql("SELECT statu FROM orders")

    assert not result.ok
    assert result.error_kind is ErrorKind.TOOL_ERROR
    lines = result.text.splitlines()
    assert lines[0] == 'ERROR 42703: column "statu" does not exist'
    assert lines[1].startswith("HINT: ")
    assert "status" in lines[1]
    assert lines[2] == "POSITION: character 8 of the statement"
    assert session.sql("SELECT 1 AS one").text == "one\n1\n(1 row)"


@pytest.mark.parametrize(
    "statement",
    [
        "COMMIT; UPDATE orders SET status='paid'; SELECT 1",
        "SET default_transaction_read_only=off; UPDATE orders SET total=0",
    ],
)
def test_a_call_takes_one_statement(opened: Open, statement: str) -> None:
    session = opened()

    assert "42601" in session.sql(statement).text
    assert session.sql("SELECT count(*) FROM orders WHERE total = 0").text == (
        "count\n0\n(1 row)"
    )


def test_a_read_only_door_writes_nothing(clone_of: MakeClone) -> None:
    clone = clone_of(Rights.READ)
    session = SqlSession(clone)
    session.sql("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")

    for statement in READ_ONLY_ATTACKS:
        result = session.sql(statement.format(file="/tmp/p"))  # noqa: S108 - never made
        assert result.error_kind is ErrorKind.TOOL_ERROR
        assert re.match(r"ERROR \w{5}: ", result.text)
        assert session.sql("SELECT 1 AS one").ok
    clone.freeze()
    assert clone.diff().empty


@pytest.mark.parametrize(
    "statement",
    [
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "SET transaction_read_only = off",
        "SET search_path = public",
        "RESET ALL",
        "COMMIT",
        "ROLLBACK",
        "BEGIN",
        "SAVEPOINT here",
        "DECLARE c CURSOR FOR SELECT 1",
        "LOCK TABLE orders IN ACCESS SHARE MODE",
    ],
)
def test_what_shows_nothing_is_an_error_where_one_only_looks(
    clone_of: MakeClone, statement: str
) -> None:
    session = ReadSession(clone_of(Rights.WRITE))

    result = session.sql(statement)

    assert result.error_kind is ErrorKind.TOOL_ERROR
    assert re.search(r"ERROR 25006: cannot execute [A-Z ]+ in a read-only", result.text)
    assert "25006" in session.sql("UPDATE orders SET total = 0").text
    assert session.sql("SELECT 1 AS one").text == "one\n1\n(1 row)"


@pytest.mark.parametrize(
    "statement",
    [
        "VALUES (1)",
        "TABLE orders",
        "SHOW timezone",
        "EXPLAIN SELECT 1",
        "COPY (SELECT 1) TO STDOUT",
        "PREPARE one AS SELECT 1",
        "DO $$ BEGIN RAISE NOTICE 'so'; END $$",
        "WITH a AS (SELECT 1) SELECT * FROM a",
        "-- nothing",
    ],
)
def test_what_looks_is_none(clone_of: MakeClone, statement: str) -> None:
    result = ReadSession(clone_of(Rights.READ)).sql(statement)

    assert result.ok, result.text


def test_a_session_that_heeds_no_cancelling_is_lost(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unheard(**_: object) -> None:
        raise psycopg.OperationalError

    session = opened(step_timeout_s=0.2)
    monkeypatch.setattr(session._connection, "cancel_safe", unheard)

    result = session.sql("SELECT pg_sleep(60)")

    assert result.timed_out
    assert result.text.splitlines()[:2] == [
        "FATAL 08006: the connection was lost",
        "[the statement was stopped after 0.2 s]",
    ]
    assert session.sql("SELECT 1 AS one").ok


def test_the_schema_shows_columns_and_constraints(opened: Open) -> None:
    text = opened().schema().text

    assert 'public.orders,table,total,"numeric(10,2)",,' in text
    assert "orders,orders_pkey,PRIMARY KEY (id)" in text
    assert "rlvr_" not in text


def test_a_schema_cannot_be_read_in_a_failed_transaction(opened: Open) -> None:
    session = opened()
    session.sql("BEGIN")
    session.sql("SELECT 1/0")

    assert "25P02" in session.schema().text


def test_a_denied_statement_is_an_event(opened: Open) -> None:
    result = opened(Rights.READ).sql("UPDATE orders SET total = 0")

    assert "25006" in result.text
    denied = opened().sql("DROP TABLE orders")
    assert [(e.kind, e.detail) for e in denied.events] == [
        ("denied", "must be owner of table orders")
    ]


def test_a_transaction_lasts_from_call_to_call(opened: Open) -> None:
    session = opened()

    assert session.sql("BEGIN").text == "BEGIN\n[a transaction is open]"
    failed = session.sql("SELECT 1/0").text.splitlines()
    assert failed[0] == "ERROR 22012: division by zero"
    assert failed[-1] == "[the transaction failed: ROLLBACK ends it]"
    assert session.sql("ROLLBACK").text == "ROLLBACK"


def test_rows_beyond_the_limit_are_counted_and_still_written(opened: Open) -> None:
    session = opened(limit_rows=2)

    result = session.sql("UPDATE orders SET total = 0 RETURNING id")

    assert result.text.splitlines()[3:] == [
        "[... 18 more rows not shown: narrow the query ...]",
        "UPDATE 20",
        "(20 rows)",
    ]
    assert result.omitted_bytes > 0
    left = session.sql("SELECT count(*) FROM orders WHERE total <> 0")
    assert left.text == "count\n0\n(1 row)"


def test_bytes_beyond_the_limit_are_left_out(opened: Open) -> None:
    session = opened(limit_bytes=1000)

    result = session.sql("SELECT repeat('x', 900) FROM generate_series(1, 3)")
    copied = session.sql("COPY (SELECT repeat('y', 5000)) TO STDOUT")

    assert "[... 2 more rows not shown" in result.text
    assert result.bytes_total == 2700
    assert "[... 4001 more bytes not shown" in copied.text
    assert len(copied.text) < 1100


def test_a_long_cell_is_cut(opened: Open) -> None:
    text = opened().sql("SELECT repeat('x', 3000) AS x").text

    assert "x[... 1000 more characters]" in text


def test_a_hanging_statement_is_stopped_whatever_the_agent_set(opened: Open) -> None:
    session = opened(step_timeout_s=0.3)
    session.sql("SET statement_timeout = 0")

    result = session.sql("SELECT pg_sleep(9999)")

    assert result.timed_out
    assert result.limit == "step"
    assert result.error_kind is ErrorKind.TIMEOUT
    assert "[the statement was stopped after 0.3 s]" in result.text
    assert session.sql("SHOW statement_timeout").text.splitlines()[1] == "0"


def test_the_episodes_end_is_named_as_the_limit(opened: Open) -> None:
    session = opened()
    session.limit_s(0.2)

    assert session.sql("SELECT pg_sleep(9999)").limit == "episode"


def test_a_lost_session_is_replaced(opened: Open) -> None:
    session = opened()
    session.sql("SET transaction_timeout = '200ms'")
    session.sql("BEGIN")

    result = session.sql("SELECT pg_sleep(60)")

    assert result.error_kind is ErrorKind.SHELL_LOST
    assert "FATAL 25P04" in result.text
    assert [event.kind for event in result.events] == ["session_restarted"]
    assert session.sql("SELECT 1 AS one").ok


def test_copy_takes_no_data_and_gives_rows(opened: Open) -> None:
    session = opened()

    assert "use INSERT" in session.sql("COPY notes FROM STDIN").text
    assert session.sql("COPY notes TO STDOUT").text == "same\nsame\n\\N\nCOPY 3"


def test_a_notice_is_shown(opened: Open) -> None:
    text = opened().sql("DO $$ BEGIN RAISE NOTICE 'so it is'; END $$").text

    assert text == "NOTICE: so it is\nDO"


def test_names_in_an_encoding_of_the_agents_choice_are_shown(opened: Open) -> None:
    session = opened()
    session.sql('CREATE TEMP TABLE t ("é" int)')
    session.sql("SET client_encoding = 'LATIN1'")

    assert session.sql("SELECT * FROM t").text == "\\xe9\n(0 rows)"


def test_an_encoding_that_python_has_not_hides_no_notice(opened: Open) -> None:
    session = opened()
    session.sql("SET client_encoding = 'EUC_TW'")

    text = session.sql("DO $$ BEGIN RAISE NOTICE 'so it is'; END $$").text

    assert text == "NOTICE: so it is\nDO"


def test_the_names_of_an_episode_are_not_shown(opened: Open) -> None:
    text = opened().sql("SELECT current_user, current_database()").text

    assert text == "current_user,current_database\nagent,agent\n(1 row)"


@pytest.mark.parametrize("statement", ["SELECT 1\0", "SELECT '\ud800'"])
def test_what_is_no_text_is_refused(opened: Open, statement: str) -> None:
    result = opened().sql(statement)

    assert result.error_kind is ErrorKind.INVALID_ARGUMENTS


def test_a_timeout_must_be_positive_and_finite(opened: Open) -> None:
    with pytest.raises(ValueError, match="positive"):
        opened(step_timeout_s=math.inf)

"""Each defence of database episodes, and an attack that gets past a double without it.

A defence that no attack here needs would be a defence that nothing tests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from psycopg.rows import dict_row
from typing_extensions import override

from rlvr_envs.records import JsonObject, Outcome
from rlvr_envs.relational import DatabaseFacts, Delivered
from rlvr_envs.rewards.tickets.inputs import FinalState
from rlvr_envs.sandbox.postgres.clone import Clone
from rlvr_envs.sandbox.postgres.roles import Rights
from rlvr_envs.state import FrozenState, QueryResult
from rlvr_envs.verifiers import Context, Findings, Judge, Verifier
from rlvr_envs.verifiers.database import facts_of
from rlvr_envs.verifiers.guards import Audit
from rlvr_envs.verifiers.sql_invariant import SqlInvariant
from rlvr_envs.verifiers.ticket import TicketRubric
from rlvr_envs.verifiers.webhook import Webhook
from tests.databases import MakeClone, clone_of, cluster, shop
from tests.verifiers.builders import ToyRunner, check
from tests.verifiers.databases import (
    GraderQueries,
    called,
    facts,
    facts_of_clone,
    judged,
    update,
)
from tests.verifiers.test_database import EVIL, SHIP, give_public
from tests.verifiers.test_ticket import ORDER, at, paid, scored

__all__ = ["clone_of", "cluster", "shop"]

SHIPPED = check(
    "sql_invariant",
    statement="SELECT status FROM public.orders WHERE id = 3",
    expect={"scalar": "shipped"},
)
WRITES = ("/rows/public.orders/3",)


class Naive(SqlInvariant):
    """Reads by whatever name the statement gives, schema or none."""

    @override
    @classmethod
    def flaw(cls, options: JsonObject) -> str:
        return ""


UNQUALIFIED = check(
    "sql_invariant",
    statement="SELECT status FROM orders WHERE id = 3",
    expect={"scalar": "shipped"},
)
CHECKS: Mapping[str, type[Verifier]] = {**Judge().kinds, "sql_invariant": Naive}
BLIND = Judge(audit_database=lambda *_given: Audit())


@dataclass
class AgentsOwn(ToyRunner):
    """A runner that asks in the agent's own session, as a grader in a hurry would."""

    session: Any = None

    def query(self, statement: str, values: Mapping[str, Any]) -> QueryResult:
        cursor = self.session.cursor(row_factory=dict_row)
        found = cursor.execute(statement.encode(), dict(values)).fetchall()
        return QueryResult(tuple(found))


def ends(
    folder: Path, clone: Clone, *, judge: Judge | None = None, check: Any = SHIPPED
) -> Outcome:
    """Freeze, then judge."""
    found = facts_of_clone(clone)
    runner = GraderQueries(clone=clone)
    used = replace(judge or Judge(), staging=folder / "staging")
    return judged(
        folder, found, runner=runner, judge=used, checks=(check,), writes=WRITES
    )


def in_session(folder: Path, session: Any, *, check: Any = SHIPPED) -> Outcome:
    """Judge in the agent's session, which lives on: no freeze, no role of its own."""
    used = Judge(staging=folder / "staging", kinds=CHECKS)
    runner = AgentsOwn(session=session)
    return judged(
        folder, facts(), runner=runner, judge=used, checks=(check,), writes=WRITES
    )


def act(session: psycopg.Connection, *statements: str) -> None:
    for statement in statements:
        session.execute(statement.encode())


# D1: sessions are ended and open work undone before anything is read.

HOLD = ("BEGIN", SHIP, "LOCK TABLE orders IN ACCESS EXCLUSIVE MODE")


def test_d1_work_that_is_held_open_is_undone(
    clone_of: MakeClone, tmp_path: Path
) -> None:
    clone = clone_of(Rights.WRITE)
    act(clone.open_agent(), *HOLD)

    outcome = ends(tmp_path, clone)

    assert (outcome.status, outcome.reward) == ("failed", 0.0)


def test_without_d1_work_that_is_held_open_wins(
    clone_of: MakeClone, tmp_path: Path
) -> None:
    session = clone_of(Rights.WRITE).open_agent()
    act(session, *HOLD)

    assert in_session(tmp_path, session).reward == 1.0


# D2: the grader has a role, a session and a path of its own.

TEMP = ("CREATE TEMP TABLE orders AS SELECT 3 AS id, 'shipped'::text AS status",)


def test_d2_a_temporary_table_is_the_sessions_own(
    clone_of: MakeClone, tmp_path: Path
) -> None:
    clone = clone_of(Rights.WRITE)
    act(clone.open_agent(), *TEMP)

    assert ends(tmp_path, clone).reward == 0.0


def test_without_d2_a_temporary_table_wins(clone_of: MakeClone, tmp_path: Path) -> None:
    session = clone_of(Rights.WRITE).open_agent()
    act(session, *TEMP)

    assert in_session(tmp_path, session, check=UNQUALIFIED).reward == 1.0


@dataclass
class NewSession(ToyRunner):
    """A session of its own, but with whatever path the database says."""

    clone: Clone | None = None

    def query(self, statement: str, values: Mapping[str, Any]) -> QueryResult:
        assert self.clone is not None
        name = self.clone.name
        with self.clone.template.cluster.connect(name, user="postgres") as session:
            cursor = session.cursor(row_factory=dict_row)
            return QueryResult(tuple(cursor.execute(statement.encode()).fetchall()))


def redirected(clone: Clone) -> None:
    give_public(clone)
    session = clone.open_agent()
    act(session, *(words.replace("{database}", f'"{clone.name}"') for words in EVIL))


def test_d2_an_evil_path_leads_no_grader_astray(
    clone_of: MakeClone, tmp_path: Path
) -> None:
    clone = clone_of(Rights.WRITE)
    redirected(clone)

    outcome = ends(tmp_path, clone, judge=BLIND)

    assert outcome.reward == 0.0


def test_without_d2_an_evil_path_wins(clone_of: MakeClone, tmp_path: Path) -> None:
    clone = clone_of(Rights.WRITE)
    redirected(clone)
    runner = NewSession(clone=clone)

    outcome = judged(
        tmp_path,
        facts(),
        runner=runner,
        judge=replace(BLIND, staging=tmp_path / "s", kinds=CHECKS),
        checks=(UNQUALIFIED,),
    )

    assert outcome.reward == 1.0


# D3: no table and no text is a verdict.


class Told(Verifier):
    """Believes what the agent says of itself."""

    schema: ClassVar[JsonObject] = {}

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        said = json.loads(facts_of(frozen).answer)
        return Findings((self.check("" if said.get("reward") == 1 else "no"),))


SAID = facts(answer='{"reward": 1, "status": "passed", "order": "shipped"}')


def test_d3_a_verdict_in_the_answer_is_an_answer(tmp_path: Path) -> None:
    spec = check("answer", type="integer", equals=17)

    assert judged(tmp_path, SAID, checks=(spec,)).reward == 0.0


def test_without_d3_a_verdict_in_the_answer_wins(tmp_path: Path) -> None:
    judge = Judge(staging=tmp_path / "s", kinds={"answer": Told})

    assert judged(tmp_path, SAID, judge=judge, checks=(check("answer"),)).reward == 1.0


# D4: what the agent wrote is read by type, strictly.


class Loose(Verifier):
    """Reads JSON as it comes, and a number wherever it finds one."""

    schema: ClassVar[JsonObject] = {}

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        wanted, answer = self.options["wanted"], facts_of(frozen).answer
        try:
            found = json.loads(answer)["amount"]
        except ValueError:
            found = wanted if str(wanted) in answer else None
        return Findings((self.check("" if found == wanted else "differs"),))


MUSH = {
    "a key twice": '{"amount": 0, "amount": 10}',
    "every number there is": "10 or 9 or 8",
}


@pytest.mark.parametrize("answer", MUSH.values(), ids=MUSH)
def test_d4_mush_is_no_answer(tmp_path: Path, answer: str) -> None:
    spec = check("answer", type="json", equals={"amount": 10})

    assert judged(tmp_path, facts(answer=answer), checks=(spec,)).reward == 0.0


@pytest.mark.parametrize("answer", MUSH.values(), ids=MUSH)
def test_without_d4_mush_wins(tmp_path: Path, answer: str) -> None:
    judge = Judge(staging=tmp_path / "s", kinds={"answer": Loose})
    spec = check("answer", wanted=10)

    outcome = judged(tmp_path, facts(answer=answer), judge=judge, checks=(spec,))

    assert outcome.reward == 1.0


class Trimmed(SqlInvariant):
    """Compares as texts, blanks aside."""

    @override
    def _problem(self, found: QueryResult, context: Context) -> str:
        ((value,),) = (row.values() for row in found.rows)
        wanted = self.options["expect"]["scalar"]
        return "" if str(value).strip() == str(wanted) else "differs"


BLANK = "UPDATE orders SET status = 'shipped ' WHERE id = 3"


def test_d4_a_blank_behind_makes_another_text(
    clone_of: MakeClone, tmp_path: Path
) -> None:
    clone = clone_of(Rights.WRITE)
    act(clone.open_agent(), BLANK)

    assert ends(tmp_path, clone).reward == 0.0


def test_without_d4_a_blank_behind_wins(clone_of: MakeClone, tmp_path: Path) -> None:
    clone = clone_of(Rights.WRITE)
    act(clone.open_agent(), BLANK)

    outcome = ends(tmp_path, clone, judge=Judge(kinds={"sql_invariant": Trimmed}))

    assert outcome.reward == 1.0


# D5: rows and definitions are held against the declared write set.

ALL = "UPDATE orders SET status = 'shipped'"
SWAP = (
    "ALTER TABLE orders RENAME TO o2",
    "CREATE VIEW orders AS SELECT id, 'shipped'::text AS status, total FROM o2",
    "GRANT SELECT ON orders TO PUBLIC",
)


def test_d5_shipping_everything_is_collateral(
    clone_of: MakeClone, tmp_path: Path
) -> None:
    clone = clone_of(Rights.WRITE)
    act(clone.open_agent(), ALL)

    outcome = ends(tmp_path, clone)

    assert (outcome.reward, len(outcome.collateral)) == (0.0, 19)


def test_without_d5_shipping_everything_wins(
    clone_of: MakeClone, tmp_path: Path
) -> None:
    clone = clone_of(Rights.WRITE)
    act(clone.open_agent(), ALL)

    assert ends(tmp_path, clone, judge=BLIND).reward == 1.0


def test_d5_a_view_in_the_tables_place_is_flagged(
    clone_of: MakeClone, tmp_path: Path
) -> None:
    clone = clone_of(Rights.WRITE)
    give_public(clone)
    act(clone.open_agent(), *SWAP)

    outcome = ends(tmp_path, clone)

    assert (outcome.reward, outcome.tamper) == (0.0, ("SCHEMA_SHADOW",))


def test_without_d5_a_view_in_the_tables_place_wins(
    clone_of: MakeClone, tmp_path: Path
) -> None:
    clone = clone_of(Rights.WRITE)
    give_public(clone)
    act(clone.open_agent(), *SWAP)

    assert ends(tmp_path, clone, judge=BLIND).reward == 1.0


DENIED = called(state="42501", message="permission denied for function pg_read_file")


def test_d5_a_denied_escape_costs_the_win(tmp_path: Path) -> None:
    spec = check("answer", type="integer", equals=17)
    found = facts(answer="17", calls=(DENIED,))

    assert judged(tmp_path, found, checks=(spec,)).tamper == ("SANDBOX_ESCAPE",)


def test_without_d5_a_denied_escape_is_never_seen(tmp_path: Path) -> None:
    spec = check("answer", type="integer", equals=17)
    found = facts(answer="17", calls=(DENIED,))
    judge = replace(BLIND, staging=tmp_path / "s")

    assert judged(tmp_path, found, judge=judge, checks=(spec,)).reward == 1.0


# D6: what is asked differs between instances, and is not in the world.

BY_HEART = facts(answer="17")


def test_d6_an_answer_by_heart_fails_on_another_instance(tmp_path: Path) -> None:
    spec = check("answer", type="integer", equals={"hidden": "open"})

    outcome = judged(tmp_path, BY_HEART, checks=(spec,), hidden={"open": 10})

    assert outcome.reward == 0.0


def test_without_d6_an_answer_by_heart_wins(tmp_path: Path) -> None:
    spec = check("answer", type="integer", equals=17)

    assert judged(tmp_path, BY_HEART, checks=(spec,), hidden={"open": 10}).reward == 1.0


# D7: once is counted, not seen.

ONCE = check("webhook", name="refund.created")
TWICE = facts(deliveries=(Delivered(1, "refund.created", {}, 200, "k"),) * 2)


class AtLeast(Webhook):
    """Is content with any delivery."""

    @override
    def _problem(self, facts: DatabaseFacts, context: Context) -> str:
        return "" if facts.deliveries else "none"


def test_d7_a_second_side_effect_is_no_pass(tmp_path: Path) -> None:
    assert judged(tmp_path, TWICE, checks=(ONCE,)).reward == 0.0


def test_without_d7_a_second_side_effect_wins(tmp_path: Path) -> None:
    judge = Judge(staging=tmp_path / "s", kinds={"webhook": AtLeast})

    assert judged(tmp_path, TWICE, judge=judge, checks=(ONCE,)).reward == 1.0


# D8: when a ticket ended is told by the harness, not by a column.

LATE = {"deadline_s": "sla.deadline_s"}
BACKDATED = at(
    5,
    update(
        "public.tickets",
        {"id": "7", "state": "OPEN", "closed_at": None},
        state="CLOSED",
        closed_at="900",
    ),
)


class ByTheColumn(TicketRubric):
    """Dates the end by what the row says."""

    @override
    def _final(self, facts: DatabaseFacts, context: Context) -> FinalState:
        said = BACKDATED.new["closed_at"]
        return replace(super()._final(facts, context), ended_s=float(str(said)))


def backdated(folder: Path, judge: Judge | None = None) -> Outcome:
    ledger = (paid(), ORDER, BACKDATED)
    return scored(folder, *ledger, spec=LATE, ended_s=5000.0, judge=judge)


def test_d8_a_backdated_end_is_late(tmp_path: Path) -> None:
    outcome = backdated(tmp_path)

    assert (outcome.status, outcome.reward) == ("failed", 0.55)


def test_without_d8_a_backdated_end_wins(tmp_path: Path) -> None:
    kinds: Mapping[str, type[Verifier]] = {"ticket": ByTheColumn}

    assert backdated(tmp_path, Judge(staging=tmp_path / "s", kinds=kinds)).reward == 1.0

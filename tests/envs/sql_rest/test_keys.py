"""A key is kept by the transaction that did the work, where no agent reaches it."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg import errors

from rlvr_envs.envs.sql_rest.services import shop_tables
from rlvr_envs.sandbox.postgres.clone import make_clone
from rlvr_envs.sandbox.postgres.cluster import Cluster
from rlvr_envs.sandbox.postgres.roles import Access, Rights
from rlvr_envs.sandbox.postgres.seeds import Seed
from rlvr_envs.sandbox.postgres.templates import Template
from tests.databases import cluster
from tests.envs.sql_rest.test_shop import ROWS, Shop

__all__ = ["cluster"]

KEPT = "SELECT count(*) FROM rlvr_service.answers"
REFUNDS = "SELECT count(*) FROM public.refunds"
AT_THE_END = """
CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'too late'; END $$;
CREATE CONSTRAINT TRIGGER t AFTER INSERT ON public.refunds DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION public.f();
"""
FORGES = """
CREATE FUNCTION public.f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  INSERT INTO rlvr_service.answers VALUES
    (sha256('"forged"'), '', convert_to('[201,{},"{}"]', 'UTF8'), '');
  UPDATE rlvr_service.answers SET answer = convert_to('[201,{},"{}"]', 'UTF8');
  RETURN NEW;
END $$;
CREATE TRIGGER t BEFORE INSERT ON public.notes FOR EACH ROW EXECUTE FUNCTION public.f();
"""


@pytest.fixture(scope="module")
def template(cluster: Cluster) -> Iterator[Template]:
    made = Template(cluster, Seed(shop_tables.database(ROWS)))
    yield made
    made.close()


@pytest.fixture
def here(cluster: Cluster, template: Template) -> Iterator[Shop]:
    clone = make_clone(cluster.filler(), template, Access(Rights.WRITE))
    shop = Shop(clone)
    yield shop
    shop.service.close()
    clone.close()


def test_a_key_stands_with_its_write(here: Shop) -> None:
    assert here.refund(Idempotency_Key="k").status == 201

    assert (here.one(KEPT), here.one(REFUNDS)) == (1, 1)


def test_a_rollback_at_the_very_end_undoes_both(here: Shop) -> None:
    here.clone.admin.execute(AT_THE_END.encode())

    refused = here.refund(Idempotency_Key="k").status

    assert (refused, here.one(KEPT), here.one(REFUNDS)) == (409, 0, 0)
    here.clone.admin.execute(b"DROP TRIGGER t ON public.refunds")
    assert here.refund(Idempotency_Key="k").status == 201
    assert here.refund(Idempotency_Key="k").headers["idempotent-replayed"] == "true"
    assert (here.one(KEPT), here.one(REFUNDS)) == (1, 1)


def test_a_key_that_cannot_be_kept_undoes_the_write(here: Shop) -> None:
    here.clone.admin.execute(b"REVOKE INSERT ON rlvr_service.answers FROM rlvr_party")

    assert here.refund(Idempotency_Key="k").status == 409

    assert (here.one(KEPT), here.one(REFUNDS), here.refunded) == (0, 0, 0)


def test_keys_are_neither_collateral_nor_in_the_ledger(here: Shop) -> None:
    note = {"body": "seen"}
    here.ask("POST", "/tickets/T-1/notes", note, Idempotency_Key="k")
    assert here.one(KEPT) == 1

    here.clone.freeze()

    assert {row.table for row in here.clone.diff().rows} == {"public.notes"}
    assert not here.clone.diff().catalogue
    assert {row.table for row in here.clone.ledger().changes} == {"public.notes"}


@pytest.mark.parametrize(
    "statement",
    [
        "TABLE rlvr_service.answers",
        "DELETE FROM rlvr_service.answers",
        "INSERT INTO rlvr_service.answers VALUES ('', '', '', '')",
        "CREATE TABLE rlvr_service.mine (a int)",
        "SET ROLE rlvr_party",
    ],
)
@pytest.mark.parametrize("rights", Rights)
def test_no_agent_reaches_them(
    cluster: Cluster, template: Template, rights: Rights, statement: str
) -> None:
    clone = make_clone(cluster.filler(), template, Access(rights))
    agent = clone.open_agent()

    with pytest.raises((errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction)):
        agent.execute(statement.encode())

    clone.close()


def test_a_trigger_forges_no_key_and_alters_no_answer(here: Shop) -> None:
    here.clone.admin.execute(FORGES.encode())
    first = here.refund(Idempotency_Key="k")
    here.ask("POST", "/tickets/T-1/notes", {"body": "seen"})
    assert here.one(KEPT) == 2

    forged = here.refund(Idempotency_Key="forged")
    again = here.refund(Idempotency_Key="k")

    assert first.status == forged.status == 201
    assert "idempotent-replayed" not in forged.headers
    # What was altered stands for nothing; there is no money left to refund again.
    assert again.status == 409
    assert here.refunded == 8500


def test_any_characters_are_a_key(here: Shop) -> None:
    for key in ("\x00", "é", "'; DROP TABLE x; --", "k" * 5000):
        path = "/orders/170/return-labels"
        made = here.ask("POST", path, Idempotency_Key=key)
        again = here.ask("POST", path, Idempotency_Key=key)
        assert made.status == 201
        assert again.body == made.body


def test_the_service_is_no_superuser(here: Shop) -> None:
    session = here.service._episode.connection
    row = session.execute(
        "SELECT current_setting('is_superuser'), session_user = current_user"
    )

    assert row.fetchone() == ("off", True)
    with pytest.raises(psycopg.Error):
        session.execute("SET ROLE postgres")

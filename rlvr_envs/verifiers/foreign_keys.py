"""Foreign keys: none lost, none left unchecked, and every one holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from rlvr_envs.errors import VerifierError
from rlvr_envs.records import JsonObject
from rlvr_envs.relational import DatabaseDiff
from rlvr_envs.state import FrozenState, Queries, QueryResult
from rlvr_envs.verifiers import rowset
from rlvr_envs.verifiers.database import facts_of
from rlvr_envs.verifiers.sql_invariant import queries
from rlvr_envs.verifiers.verifier import Context, Findings, Verifier

_KEYS = """
SELECT c.conname AS name, c.convalidated AS validated,
  n.nspname || '.' || r.relname AS child, fn.nspname || '.' || f.relname AS parent,
  pg_catalog.format('%%I.%%I', n.nspname, r.relname) AS child_name,
  pg_catalog.format('%%I.%%I', fn.nspname, f.relname) AS parent_name,
  pg_catalog.string_agg(a.attname, ',' ORDER BY k.place) AS columns,
  pg_catalog.string_agg(
    pg_catalog.format('p.%%I = c.%%I', fa.attname, a.attname), ' AND ') AS pairs,
  pg_catalog.string_agg(
    pg_catalog.format('c.%%I IS NOT NULL', a.attname), ' AND ') AS given
FROM pg_catalog.pg_constraint AS c
JOIN pg_catalog.pg_class AS r ON r.oid = c.conrelid
JOIN pg_catalog.pg_namespace AS n ON n.oid = r.relnamespace
JOIN pg_catalog.pg_class AS f ON f.oid = c.confrelid
JOIN pg_catalog.pg_namespace AS fn ON fn.oid = f.relnamespace
CROSS JOIN LATERAL pg_catalog.generate_subscripts(c.conkey, 1) AS k (place)
JOIN pg_catalog.pg_attribute AS a
  ON a.attrelid = r.oid AND a.attnum = c.conkey[k.place]
JOIN pg_catalog.pg_attribute AS fa
  ON fa.attrelid = f.oid AND fa.attnum = c.confkey[k.place]
WHERE c.contype = 'f'
GROUP BY c.oid, n.nspname, r.relname, fn.nspname, f.relname
ORDER BY child, name
"""
_BROKEN = """
SELECT 1 AS broken FROM {child_name} AS c WHERE {given} AND NOT EXISTS (
  SELECT 1 FROM {parent_name} AS p WHERE {pairs}) LIMIT 1
"""
_SQLITE_KEYS = """
SELECT 'main.' || k.name AS child, 'main.' || k.parent AS parent,
  group_concat(k.part, ',') AS columns
FROM (SELECT t.name, f.id, f."table" AS parent, f."from" AS part
  FROM main.sqlite_schema AS t, pragma_foreign_key_list(t.name, 'main') AS f
  WHERE t.type = 'table' ORDER BY t.name, f.id, f.seq) AS k
GROUP BY k.name, k.id
"""
_SQLITE_BROKEN = """
SELECT 'main.' || b."table" AS child, 'main.' || b.parent AS parent
FROM pragma_foreign_key_check() AS b LIMIT 1
"""
_COLUMNS = {"type": "array", "items": {"type": "string"}, "minItems": 1}


class ForeignKeys(Verifier):
    """Sees that the template's foreign keys are there, validated, and hold by query.

    Options: ``required``: keys that must be there too, each with ``table``,
    ``columns`` and ``references``, as for a migration that adds one. A key that is
    declared and not checked (``NOT VALID``, ``NOT ENFORCED``) does not hold; one
    that the server believes in is asked of the rows themselves all the same.
    """

    schema: ClassVar[JsonObject] = {
        "type": "object",
        "properties": {
            "required": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "table": rowset.TABLE,
                        "columns": _COLUMNS,
                        "references": rowset.TABLE,
                    },
                    "required": ["table", "columns", "references"],
                    "additionalProperties": False,
                },
            }
        },
        "additionalProperties": False,
    }

    @override
    def verify(self, frozen: FrozenState, context: Context) -> Findings:
        facts, runner = facts_of(frozen), queries(context)
        if facts.engine == "sqlite":
            found = [*_fewer(facts.diff), *self._missing(_read(runner, _SQLITE_KEYS))]
            found += _broken(_read(runner, _SQLITE_BROKEN))
        else:
            keys = _read(runner, _KEYS)
            found = [*_lost(facts.diff), *self._missing(keys)]
            found += [flaw for key in keys for flaw in _flaws(key, runner)]
        return Findings((self.check("; ".join(found[:3])),))

    def _missing(self, keys: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        for want in self.options.get("required", ()):
            if not any(_is(key, want) for key in keys):
                columns = ", ".join(want["columns"])
                yield f"{want['table']} ({columns}) has no such key"


def _read(runner: Queries, statement: str) -> Sequence[Mapping[str, Any]]:
    found = runner.query(statement, {})
    if found.problem:
        raise VerifierError(f"The foreign keys cannot be read: {found.problem}.")
    return found.rows


def _fewer(diff: DatabaseDiff) -> Iterator[str]:
    """Yield tables whose definition lost a reference; this engine keeps it as text."""
    for change in diff.catalogue:
        before, after = (
            text.upper().count("REFERENCES") for text in (change.old, change.new)
        )
        if after < before:
            yield f"{change.name} refers to less than it did"


def _broken(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for row in rows:
        yield f"a row of {row['child']} refers to none of {row['parent']}"


def _lost(diff: DatabaseDiff) -> Iterator[str]:
    for change in diff.catalogue:
        if change.kind == "constraint" and change.old.startswith("FOREIGN KEY"):
            yield f"{change.name} was {'changed' if change.new else 'removed'}"


def _is(key: Mapping[str, Any], want: Mapping[str, Any]) -> bool:
    return (key["child"], key["columns"], key["parent"]) == (
        want["table"],
        ",".join(want["columns"]),
        want["references"],
    )


def _flaws(key: Mapping[str, Any], runner: Queries) -> Iterator[str]:
    title = f"{key['name']} of {key['child']}"
    if not key["validated"]:
        yield f"{title} is not validated"
    names = {name: str(value).replace("%", "%%") for name, value in key.items()}
    found = _asked(runner, _BROKEN.format_map(names))
    if found.problem:
        yield f"{title} cannot be checked: {found.problem}"
    elif found.rows:
        yield f"{title} does not hold"


def _asked(runner: Queries, statement: str) -> QueryResult:
    """Ask about a key; one that the episode made need not be on the untouched side."""
    try:
        return runner.query(statement, {})
    except VerifierError as error:
        return QueryResult(problem=str(error))

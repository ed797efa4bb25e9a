"""What a session may do, asked by the engine while it prepares a statement."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection

RIGHTS = ("read", "write", "truncate", "define")
"""Each includes the former; the engine has no ``TRUNCATE`` of its own."""

_ALWAYS = frozenset(
    {
        sqlite3.SQLITE_SELECT,
        sqlite3.SQLITE_RECURSIVE,
        sqlite3.SQLITE_TRANSACTION,
        sqlite3.SQLITE_SAVEPOINT,
    }
)
_ROWS = {
    sqlite3.SQLITE_INSERT: "INSERT",
    sqlite3.SQLITE_UPDATE: "UPDATE",
    sqlite3.SQLITE_DELETE: "DELETE",
}
_TEMPORARY = {
    sqlite3.SQLITE_CREATE_TEMP_TABLE: "CREATE TEMP TABLE",
    sqlite3.SQLITE_CREATE_TEMP_INDEX: "CREATE TEMP INDEX",
    sqlite3.SQLITE_CREATE_TEMP_VIEW: "CREATE TEMP VIEW",
    sqlite3.SQLITE_DROP_TEMP_TABLE: "DROP TABLE",
    sqlite3.SQLITE_DROP_TEMP_INDEX: "DROP INDEX",
    sqlite3.SQLITE_DROP_TEMP_VIEW: "DROP VIEW",
}
# Command, and which argument names the table that it changes, from 0.
_DEFINITIONS = {
    sqlite3.SQLITE_CREATE_TABLE: ("CREATE TABLE", 0),
    sqlite3.SQLITE_CREATE_VIEW: ("CREATE VIEW", 0),
    sqlite3.SQLITE_CREATE_INDEX: ("CREATE INDEX", 1),
    sqlite3.SQLITE_CREATE_TRIGGER: ("CREATE TRIGGER", 1),
    sqlite3.SQLITE_DROP_TABLE: ("DROP TABLE", 0),
    sqlite3.SQLITE_DROP_VIEW: ("DROP VIEW", 0),
    sqlite3.SQLITE_DROP_INDEX: ("DROP INDEX", 1),
    sqlite3.SQLITE_DROP_TRIGGER: ("DROP TRIGGER", 1),
    sqlite3.SQLITE_ALTER_TABLE: ("ALTER TABLE", 1),
    sqlite3.SQLITE_REINDEX: ("REINDEX", 0),
}
_NEVER = {
    sqlite3.SQLITE_DETACH: "to DETACH a file",
    sqlite3.SQLITE_ANALYZE: "to ANALYZE",
    sqlite3.SQLITE_CREATE_VTABLE: "to create a virtual table",
    sqlite3.SQLITE_DROP_VTABLE: "to drop a virtual table",
    sqlite3.SQLITE_CREATE_TEMP_TRIGGER: "to create a temporary trigger",
    sqlite3.SQLITE_DROP_TEMP_TRIGGER: "to drop a temporary trigger",
}
_FUNCTIONS = frozenset(
    {"load_extension", "fts3_tokenizer", "readfile", "writefile", "edit", "lsdir"}
)
_TABLES = frozenset({"sqlite_dbpage", "sqlite_dbdata", "sqlite_dbptr"})
"""Raw pages: whoever writes them writes everything."""

_SCHEMAS = frozenset(
    {"sqlite_master", "sqlite_schema", "sqlite_temp_master", "sqlite_temp_schema"}
)
_ABOUT = frozenset(
    {
        "table_info",
        "table_xinfo",
        "table_list",
        "index_list",
        "index_info",
        "index_xinfo",
        "foreign_key_list",
        "foreign_key_check",
        "integrity_check",
        "quick_check",
    }
)
"""Pragmas that only tell, whatever is asked of them."""

_TOLD = frozenset(
    {
        "foreign_keys",
        "encoding",
        "user_version",
        "application_id",
        "schema_version",
        "page_size",
        "page_count",
        "freelist_count",
        "auto_vacuum",
        "case_sensitive_like",
        "recursive_triggers",
        "compile_options",
        "function_list",
        "collation_list",
        "module_list",
        "pragma_list",
    }
)
"""Pragmas that tell as long as they are given nothing."""


class Authority:
    """The engine's authorizer of one session.

    Args:
        rights: One of `RIGHTS`.
        closed: Tables of the seed whose definition stays shut, in lower case.

    Attributes:
        refused: What was refused last, in the words of a permission error.
    """

    def __init__(self, rights: str, closed: Collection[str] = ()) -> None:
        self._level = RIGHTS.index(rights)
        self._closed = frozenset(closed)
        self.refused = ""

    def __call__(
        self,
        action: int,
        first: str | None,
        second: str | None,
        database: str | None,
        _trigger: str | None,
    ) -> int:
        """Answer the engine: allowed or denied."""
        refused = self._refusal(action, first or "", second or "", database or "")
        if not refused:
            return sqlite3.SQLITE_OK
        self.refused = self.refused or refused
        return sqlite3.SQLITE_DENY

    def _refusal(self, action: int, first: str, second: str, database: str) -> str:
        if action in _ALWAYS:
            return ""
        if action == sqlite3.SQLITE_READ:
            return f"for table {first}" if first.lower() in _TABLES else ""
        if action == sqlite3.SQLITE_FUNCTION:
            return f"for function {second}" if second.lower() in _FUNCTIONS else ""
        if action == sqlite3.SQLITE_PRAGMA:
            return _pragma(first.lower(), has_value=bool(second))
        return self._writing(action, first, second, database)

    def _writing(self, action: int, first: str, second: str, database: str) -> str:
        if action in _ROWS:
            return self._row(action, first, database)
        if action in _TEMPORARY:
            return "" if self._may("write") else f"to {_TEMPORARY[action]}"
        if action == sqlite3.SQLITE_REINDEX and database == "temp":
            return "" if self._may("write") else "to REINDEX"
        if action in _DEFINITIONS:
            command, place = _DEFINITIONS[action]
            table = (first, second)[place]
            shut = table.lower() in self._closed
            return "" if self._may("define") and not shut else f"to {command} {table}"
        if action == sqlite3.SQLITE_ATTACH:
            # VACUUM attaches a file without a name.
            return "to ATTACH a file" if first else "to VACUUM"
        return _NEVER.get(action, f"for action {action}")

    def _row(self, action: int, table: str, database: str) -> str:
        name = table.lower()
        if name in _SCHEMAS and action == sqlite3.SQLITE_UPDATE:
            # Asked of table-valued pragmas too; the engine itself lets nobody do it.
            return ""
        if name in _TABLES:
            return f"for table {table}"
        if name.startswith("sqlite_") and database != "temp":
            # Definitions are written as rows of these, once they are allowed.
            return "" if self._may("define") else "to change definitions"
        return "" if self._may("write") else f"for table {table}"

    def _may(self, right: str) -> bool:
        return self._level >= RIGHTS.index(right)


def _pragma(name: str, *, has_value: bool) -> str:
    if name in _ABOUT or (name in _TOLD and not has_value):
        return ""
    verb = "set" if has_value else "read"
    return f'to {verb} parameter "{name}"'

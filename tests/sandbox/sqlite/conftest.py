"""The shop that tests of SQLite share."""

from __future__ import annotations

from tests.sqlite_shop import clone_of, shelf

__all__ = ["clone_of", "shelf"]

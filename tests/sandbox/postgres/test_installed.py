"""What tests of databases need."""

from __future__ import annotations

import pytest


def test_the_driver_is_installed() -> None:
    pytest.importorskip(
        "psycopg", reason="psycopg is missing: no test of databases ran"
    )

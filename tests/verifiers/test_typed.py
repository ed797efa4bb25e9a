from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from rlvr_envs.verifiers.typed import agrees, text_agrees

NAN, INF = float("nan"), float("inf")

EQUAL: list[tuple[Any, Any]] = [
    (None, None),
    (True, True),
    (3, 3),
    (Decimal("3.00"), 3),
    (3.0, 3),
    (Decimal("42.50"), 42.5),
    (Decimal("0.1"), 0.1),
    (0.1, 0.1),
    ("shipped", "shipped"),
    (Decimal("4.20"), {"decimal": "4.2"}),
    (Decimal("NaN"), {"decimal": "NaN"}),
    (NAN, {"float": "nan"}),
    (INF, {"float": "inf"}),
    (date(2024, 1, 15), {"iso": "2024-01-15"}),
]

DIFFERENT: list[tuple[Any, Any]] = [
    (None, 0),
    (None, ""),
    (True, 1),
    (1, True),
    ("3", 3),
    (3, "3"),
    (Decimal("3.01"), 3),
    (Decimal("0.1") + Decimal("1e-17"), 0.1),
    (2**63 + 1, float(2**63)),
    ("shipped ", "shipped"),
    ("Shipped", "shipped"),
    ("e\u0301", "\u00e9"),
    (Decimal("NaN"), 3),
    (NAN, NAN),
    (NAN, 3.0),
    (INF, INF),
    (10**400, 3),
    (10**400, 3.5),
    (10**400, {"float": "inf"}),
    (Decimal("1e400"), 3),
    (NAN, {"decimal": "NaN"}),
    (Decimal("NaN"), {"decimal": "3"}),
    (date(2024, 1, 15), "2024-01-15"),
    ("2024-01-15", {"iso": "2024-01-15"}),
]


@pytest.mark.parametrize(("found", "wanted"), EQUAL)
def test_equal_values_agree(found: Any, wanted: Any) -> None:
    assert agrees(found, wanted)


@pytest.mark.parametrize(("found", "wanted"), DIFFERENT)
def test_values_that_only_look_alike_do_not_agree(found: Any, wanted: Any) -> None:
    assert not agrees(found, wanted)


TEXTS: list[tuple[str | None, Any]] = [
    (None, None),
    ("true", True),
    ("250", 250),
    ("250.00", 250),
    ("1e+20", 1e20),
    ("NaN", {"decimal": "NaN"}),
    ("Infinity", {"float": "inf"}),
    ("000170", "000170"),
    ("2024-01-15", {"iso": "2024-01-15"}),
]
OTHER_TEXTS: list[tuple[str | None, Any]] = [
    (None, ""),
    ("", None),
    ("1", True),
    ("000170", 170),
    ("250 ", 250),
    ("+250", 250),
    ("250abc", 250),
    ("\uff12\uff15\uff10", 250),
    ("1e9999999999999999999", 250),
    ("1e9999999999999999999", {"decimal": "250"}),
    ("NaN", 250),
    ("NaN", NAN),
    ("shipped ", "shipped"),
    ("250", "250.00"),
]


@pytest.mark.parametrize(("found", "wanted"), TEXTS)
def test_a_printed_value_agrees_with_its_value(found: str | None, wanted: Any) -> None:
    assert text_agrees(found, wanted)


@pytest.mark.parametrize(("found", "wanted"), OTHER_TEXTS)
def test_a_printed_value_agrees_with_no_other(found: str | None, wanted: Any) -> None:
    assert not text_agrees(found, wanted)


@pytest.mark.parametrize("wanted", [[1], {"money": "3"}, {"decimal": "three"}])
def test_what_is_no_value_is_an_error_of_the_task(wanted: Any) -> None:
    with pytest.raises(ValueError, match="is no"):
        agrees(3, wanted)

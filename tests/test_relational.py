from __future__ import annotations

import pytest

from rlvr_envs.relational import CatalogueChange, RowChange, RowKind


def test_a_row_is_named_by_its_keys_values() -> None:
    row = {"id": "3", "part": "a/b,c", "status": "open"}
    change = RowChange("public.lines", RowKind.INSERT, new=row, key=("id", "part"))

    assert change.path == "/rows/public.lines/3,a%2Fb%2Cc"


def test_a_row_without_a_key_is_named_by_all_its_values() -> None:
    one, same, other = (
        RowChange("public.notes", RowKind.DELETE, old={"body": body}).path
        for body in ("x", "x", None)
    )

    assert one == same != other
    assert one.startswith("/rows/public.notes/~")


@pytest.mark.parametrize(
    ("kind", "old", "new", "path"),
    [
        ("relation", "", "kind v x", "/catalogue/view/public.x"),
        ("relation", "kind r x", "", "/catalogue/table/public.x"),
        ("relation", "kind r x", "kind v x", "/catalogue/relation/public.x"),
        ("operator", "", "kind v", "/catalogue/operator/public.x"),
    ],
)
def test_a_definition_is_named_by_what_it_is(
    kind: str, old: str, new: str, path: str
) -> None:
    assert CatalogueChange(kind, "public.x", old, new).path == path

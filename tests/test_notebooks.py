"""The notebooks: short, without outputs, of public imports, and they run."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from rlvr_envs.errors import MissingRequirement
from rlvr_envs.records import Snapshot
from rlvr_envs.sandbox.namespaces import NamespaceSandbox

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
CELLS_MAX = 15

each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def machine(base_snapshot: Snapshot) -> None:
    """Skip where no sandbox can run."""
    try:
        NamespaceSandbox.check()
    except MissingRequirement as error:
        pytest.skip(str(error))


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def imported(source: str) -> set[str]:
    """Return the full names of what a cell imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {item.name for item in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{item.name}" for item in node.names}
    return names


def test_they_are_numbered_without_gaps() -> None:
    numbers = [int(path.name[:2]) for path in NOTEBOOKS]

    assert numbers == list(range(1, len(NOTEBOOKS) + 1))
    assert NOTEBOOKS


@each
def test_it_is_short_and_holds_no_output(path: Path) -> None:
    cells = read(path).cells
    code = [cell for cell in cells if cell.cell_type == "code"]

    assert len(cells) <= CELLS_MAX
    assert all(not cell.outputs and cell.execution_count is None for cell in code)


@each
def test_it_imports_public_names_alone(path: Path) -> None:
    sources = [cell.source for cell in read(path).cells if cell.cell_type == "code"]
    names = set().union(*map(imported, sources))

    parts = {part for name in names for part in name.split(".")}
    assert not [part for part in parts if part.startswith("_")]
    assert not parts & {"tests", "wrappers"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.usefixtures("machine")
@each
def test_it_runs(path: Path, tmp_path: Path) -> None:
    book = read(path)
    book.metadata["kernelspec"] = {"name": "python3"}
    client = NotebookClient(
        book, timeout=120, resources={"metadata": {"path": str(tmp_path)}}
    )

    client.execute()

    cells = [cell for cell in book.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in cells)

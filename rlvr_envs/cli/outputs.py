"""Places that a command will write to, tried before it plays anything."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile

from rlvr_envs.errors import place


def require_folder(folder: Path | None) -> None:
    """Make a folder and write a byte beneath it, which goes away again.

    Args:
        folder: ``None`` where nothing will be written.

    Raises:
        WrongArgument: If that fails; says why.
    """
    if folder is None:
        return
    with place(f"The folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder) as trial:
            trial.write(b"x")
            trial.flush()


def require_file(file: Path | None) -> None:
    """Try to write a file; one that is there keeps its content.

    Args:
        file: ``None`` where nothing will be written.

    Raises:
        WrongArgument: If that fails; says why.
    """
    if file is None:
        return
    if not file.exists():
        require_folder(file.parent)
        return
    with place(f"The file {file}"):
        file.open("ab").close()

"""Places that a command will write to, tried before it plays anything."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryFile

from rlvr_envs.errors import CallerError, remedy_for


def require_folder(place: Path | None) -> None:
    """Make a folder and write a byte beneath it, which goes away again.

    Args:
        place: ``None`` where nothing will be written.

    Raises:
        CallerError: If that fails; says why.
    """
    if place is None:
        return
    try:
        place.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=place) as trial:
            trial.write(b"x")
            trial.flush()
    except OSError as error:
        raise _unusable(place, error) from error


def require_file(place: Path | None) -> None:
    """Try to write a file; one that is there keeps its content.

    Args:
        place: ``None`` where nothing will be written.

    Raises:
        CallerError: If that fails; says why.
    """
    if place is None:
        return
    if not place.exists():
        require_folder(place.parent)
        return
    try:
        place.open("ab").close()
    except OSError as error:
        raise _unusable(place, error) from error


def _unusable(place: Path, error: OSError) -> CallerError:
    return CallerError(
        f"Nothing can be written to {place}: {error.strerror}.",
        remedy=remedy_for(error),
    )

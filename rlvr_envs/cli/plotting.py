"""Pictures of groups, drawn into a file; matplotlib is loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlvr_envs.cli.outputs import require_file
from rlvr_envs.errors import CallerError, MissingRequirement

_CHANNELS = (
    ("rewards", "outcome"),
    ("path_rewards", "path"),
    ("advantages", "outcome advantage"),
    ("path_advantages", "path advantage"),
    ("two_channels", "both, by turn"),
)
_FORMATS = "name a file that ends in .png, .svg or .pdf"
_BAR_HEIGHT_INCHES = 0.32


def draw_groups(groups: Sequence[Mapping[str, Any]], file: Path) -> None:
    """Draw a panel a channel, with a row a group.

    A dot is an episode; in the last panel it is a turn.

    Args:
        groups: Summary lines of ``rlvr run``.
        file: Its suffix says which format.

    Raises:
        MissingRequirement: If matplotlib is not installed.
        CallerError: If the file cannot be written.
    """
    figure = new_figure(12.0, 1.6 + _BAR_HEIGHT_INCHES * len(groups))
    panels = figure.subplots(1, len(_CHANNELS), sharey=True, squeeze=False)[0]
    for panel, (key, title) in zip(panels, _CHANNELS, strict=True):
        _draw(panel, groups, key, title)
    names = [f"{group['group']} ({group['policy']})" for group in groups]
    panels[0].set_yticks(range(len(groups)), names)
    panels[0].invert_yaxis()
    save(figure, file)


def require_plot(file: Path | None) -> None:
    """Hold against the machine what will be drawn.

    Args:
        file: ``None`` where nothing will.

    Raises:
        MissingRequirement: If matplotlib is not installed.
        CallerError: If the file cannot be written, or its suffix is of no format.
    """
    if file is None:
        return
    known = new_figure(1.0, 1.0).canvas.get_supported_filetypes()
    if file.suffix.removeprefix(".") not in known:
        raise CallerError(f"No plot can be drawn into {file}.", remedy=_FORMATS)
    require_file(file)


def new_figure(width_inches: float, height_inches: float) -> Any:
    """Return an empty figure.

    Raises:
        MissingRequirement: If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415  # an extra, and heavy
    except ImportError as error:
        raise MissingRequirement(
            "A plot needs matplotlib.", remedy="pip install 'rlvr-envs[plot]'"
        ) from error
    return Figure(figsize=(width_inches, height_inches), layout="constrained")


def save(figure: Any, file: Path) -> None:
    """Write a figure; its folder is made.

    Raises:
        CallerError: If the file cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(file, dpi=120)
    except (OSError, ValueError) as error:
        raise CallerError(
            f"The plot cannot be written to {file}: {error}.",
            remedy=_FORMATS,
        ) from error


def _draw(
    panel: Any, groups: Sequence[Mapping[str, Any]], key: str, title: str
) -> None:
    """Draw the dots of one channel; those of equal value are spread in height."""
    for row, group in enumerate(groups):
        values = list(_flat(group[key]))
        spread = [
            row + 0.25 * _offset(number, len(values)) for number in range(len(values))
        ]
        panel.scatter(values, spread, s=14)
    panel.axvline(0.0, linewidth=0.6, color="grey")
    panel.set_title(title)


def _flat(values: Sequence[Any]) -> Iterator[float]:
    """Yield numbers, those of turns as well; void episodes are passed over."""
    for value in values:
        if isinstance(value, Sequence):
            yield from value
        elif value is not None:
            yield value


def _offset(number: int, count: int) -> float:
    """Return a place in [-1, 1], evenly spread."""
    return 0.0 if count < 2 else 2.0 * number / (count - 1) - 1.0

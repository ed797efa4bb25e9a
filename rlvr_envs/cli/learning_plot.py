"""Learning curves, drawn into a file; matplotlib is loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvr_envs.cli.plotting import new_figure, save
from rlvr_envs.rollouts.learning.findings import Runs
from rlvr_envs.rollouts.learning.training import Update

_PANELS = (
    ("success", "success"),
    ("violations", "violations an episode"),
    ("handed_in", "share handed in"),
    ("dead", "dead updates so far"),
)


def draw_learning(learned: Mapping[str, Runs], file: Path) -> None:
    """Draw a row of panels for each experiment.

    A line is the mean over seeds, its band one deviation either way.

    Args:
        learned: Experiment name to its runs.
        file: Its suffix says which format.

    Raises:
        MissingRequirement: If matplotlib is not installed.
        CallerError: If the file cannot be written.
    """
    figure = new_figure(15.0, 3.4 * len(learned))
    rows = figure.subplots(len(learned), len(_PANELS), squeeze=False)
    for row, (name, runs) in zip(rows, learned.items(), strict=True):
        for panel, (reading, title) in zip(row, _PANELS, strict=True):
            for signal, tries in runs.items():
                _curve(panel, np.array([_read(run, reading) for run in tries]), signal)
            panel.set_title(title)
            panel.set_xlabel("update")
        row[0].set_ylabel(name)
        row[0].legend(fontsize="small")
    save(figure, file)


def _curve(panel: Any, values: NDArray[np.float64], label: str) -> None:
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    steps = np.arange(1, len(mean) + 1)
    panel.plot(steps, mean, label=label)
    panel.fill_between(steps, mean - deviation, mean + deviation, alpha=0.2)


def _read(run: Sequence[Update], reading: str) -> NDArray[np.float64]:
    if reading == "dead":
        return np.cumsum([float(item.is_dead) for item in run])
    return np.array([getattr(item, reading) for item in run], dtype=np.float64)

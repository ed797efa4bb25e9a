"""Learning curves, drawn into a file; matplotlib is loaded when one is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rlvr_envs.cli.plotting import new_figure, save
from rlvr_envs.rollouts.learning.experiments import Experiment
from rlvr_envs.rollouts.learning.findings import Runs
from rlvr_envs.rollouts.learning.training import Update

_TITLES = {
    "success": "success",
    "violations": "rules broken an episode",
    "fulfilments": "obligations met an episode",
    "handed_in": "share handed in",
    "needed": "share of needed acts done",
    "dead": "dead updates so far",
    "weight": "weight of the potential",
}
_COLUMNS = 4


def draw_learning(learned: Sequence[tuple[Experiment, Runs]], file: Path) -> None:
    """Draw a row of panels for each experiment.

    A line is the mean over seeds, its band one deviation either way.

    Args:
        learned: Experiments with their runs.
        file: Its suffix says which format.

    Raises:
        MissingRequirement: If matplotlib is not installed.
        CallerError: If the file cannot be written.
    """
    figure = new_figure(15.0, 3.4 * len(learned))
    rows = figure.subplots(len(learned), _COLUMNS, squeeze=False)
    for row, (experiment, runs) in zip(rows, learned, strict=True):
        for panel, reading in zip(row, experiment.shown, strict=True):
            for signal, tries in runs.items():
                _curve(panel, np.array([_read(run, reading) for run in tries]), signal)
            panel.set_title(_TITLES[reading])
            panel.set_xlabel("update")
        row[0].set_ylabel(experiment.name)
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

"""The picture of ``optimus evaluate speed``: predicted against measured speeds, one panel a
mode."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from optimus.cli.speed_evaluation import Judgement
from optimus.jobs import TrainingMode

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")
_MARKS = "osD^v"


def draw_predictions(
    figure: "Figure", judgements: Mapping[TrainingMode, Mapping[int, Sequence[Judgement]]]
) -> None:
    """Draw the first draw of every mode."""
    figure.set_size_inches(5.2 * max(len(judgements), 1.4), 5.6)
    panels = figure.subplots(1, len(judgements), squeeze=False)[0]
    for panel, (mode, held) in zip(panels, judgements.items(), strict=True):
        _draw_panel(panel, mode, {number: draws[0] for number, draws in held.items()})
    figure.suptitle(
        "Speed at counts that were not measured for the model (line: exact, band: ±10 %)",
        fontsize=11,
    )


def _draw_panel(panel: "Axes", mode: TrainingMode, held: Mapping[int, Judgement]) -> None:
    every = np.concatenate(
        [np.concatenate([each.predicted, each.measured]) for each in held.values()]
    )
    ends = np.array([every.min() / 1.12, every.max() * 1.12])
    panel.fill_between(ends, ends * 0.9, ends * 1.1, color="0.92", linewidth=0, zorder=0)
    panel.plot(ends, ends, color="0.55", linewidth=1, zorder=1)
    for place, (number, judgement) in enumerate(held.items()):
        hidden = ~np.array(judgement.seen)
        error = f", mean error {judgement.errors.mean():.1%}" if hidden.any() else ""
        colour, mark = _COLOURS[place % len(_COLOURS)], _MARKS[place % len(_MARKS)]
        points = judgement.measured[hidden], judgement.predicted[hidden]
        label = f"{number} samples{error}"
        panel.scatter(
            *points, s=26, alpha=0.75, linewidths=0, color=colour, marker=mark, label=label
        )
    panel.set_xlim(*ends)
    panel.set_ylim(*ends)
    panel.set_aspect("equal")
    panel.set_title(mode.value, fontsize=10)
    panel.set_xlabel("measured, steps per second")
    panel.set_ylabel("predicted, steps per second")
    panel.legend(loc="upper left", fontsize=8, frameon=False)

"""The pictures of the convergence model: predictions against the truth, and one run with its
forecast."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from optimus.cli.convergence_evaluation import EvaluatedForecast
from optimus.cli.training_log import TrainingLog

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_TOP = 2.0
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")


def draw_predictions(
    judged: Sequence[tuple[TrainingLog, EvaluatedForecast]], figure: "Figure"
) -> None:
    """One panel for each origin: the predicted epoch and its interval over the true one, both as
    parts of the run."""
    known = [(log, each) for log, each in judged if each.question.true is not None]
    origins = list(dict.fromkeys(each.question.origin for _, each in known))
    files = list(dict.fromkeys(log.file for log, _ in known))
    figure.set_size_inches(4.6 * max(len(origins), 1.5), 5.2)
    panels = figure.subplots(1, len(origins), squeeze=False, sharey=True)[0]
    for panel, origin in zip(panels, origins, strict=True):
        panel.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=0)
        for place, file in enumerate(files):
            of_file = [
                each for log, each in known if log.file == file and each.question.origin == origin
            ]
            for n, each in enumerate(of_file):
                run, true = each.question.run, (each.question.true or 0) / each.question.run
                colour = _COLOURS[place % len(_COLOURS)]
                label = file.name if n == 0 else None
                if each.time_to_goal is None or each.time_to_goal.point > _TOP * run:
                    mark = "x" if each.time_to_goal is None else "^"
                    panel.plot(
                        true, 0.97 * _TOP, marker=mark, linestyle="none", color=colour, label=label
                    )
                    continue
                point, low, high = (
                    epoch / run
                    for epoch in (
                        each.time_to_goal.point,
                        each.time_to_goal.low,
                        each.time_to_goal.high,
                    )
                )
                bars = [[point - low], [max(high - point, 0)]]
                # Targets of one run may be met at the same epoch: they stand side by side.
                panel.errorbar(
                    true + 0.006 * (n - 1),
                    point,
                    yerr=bars,
                    fmt="o",
                    color=colour,
                    ecolor=colour,
                    elinewidth=1,
                    capsize=2,
                    markersize=5,
                    label=label,
                )
        panel.set_xlim(0, 1)
        panel.set_ylim(0, _TOP)
        panel.set_title(
            f"seen: {origin} of the run" if origin[0].isdigit() else f"seen: {origin} epochs",
            fontsize=10,
        )
        panel.set_xlabel("target met, part of the run")
        panel.legend(loc="upper left", fontsize=7, frameon=False)
    panels[0].set_ylabel("predicted, part of the run (at the top: ▲ later, x not reachable)")
    figure.suptitle("When a loss is met: predictions with their 80 % intervals", fontsize=11)

"""The picture of a plan: what every job got, and how full the nodes are."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from optimus.cli.job_table import in_units
from optimus.interval.capacity_plan import CapacityPlan
from optimus.jobs import Counts
from optimus.resources import Resources

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from optimus.cli.plan import Plan

_COLOURS = {"cpu": "#0072b2", "memory": "#e69f00", "bandwidth": "#009e73", "gpu": "#cc79a7"}
_PS, _WORKER = "#e69f00", "#0072b2"


def draw_plan(figure: "Figure", plan: "Plan", node: Resources, heading: str) -> None:
    """Left the jobs' tasks, right the nodes' use of each resource; both from most to least."""
    left, right = figure.subplots(1, 2)
    figure.suptitle(heading, fontsize=11)
    _draw_jobs(left, plan.counts)
    _draw_nodes(right, plan.interval.capacity_plan, node)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_ylim(bottom=0)
        axes.margins(x=0)


def _draw_jobs(axes: "Axes", counts_by_job: Mapping[str, Counts]) -> None:
    ordered = sorted(counts_by_job.values(), key=lambda counts: (-sum(counts), counts))
    edges = np.arange(len(ordered) + 1)
    ps = np.array([counts.ps for counts in ordered], dtype=np.float64)
    workers = np.array([counts.workers for counts in ordered], dtype=np.float64)
    axes.stairs(workers, edges, fill=True, color=_WORKER, label="workers")
    axes.stairs(workers + ps, edges, baseline=workers, fill=True, color=_PS, label="PSs")
    axes.set(xlabel="jobs, most tasks first", ylabel="tasks of a job")
    axes.legend(frameon=False, loc="upper right")


def _draw_nodes(axes: "Axes", plan: CapacityPlan, node: Resources) -> None:
    free = np.array(plan.capacity.free, dtype=np.float64)
    percent = np.linspace(0, 100, len(free) + 1)
    for column, name in enumerate(plan.capacity.resources):
        used = 100 * (1 - free[:, column] / node[name])
        if used.any():
            label = f"{name}, {in_units(name, node[name])} a node: {used.mean():.1f} % used"
            axes.stairs(
                np.sort(used)[::-1],
                percent,
                color=_COLOURS[name],
                linewidth=1.8,
                label=label,
                baseline=None,
            )
    axes.set(xlabel="nodes, fullest first (%)", ylabel="used (%)", ylim=(0, 104))
    axes.legend(frameon=False, loc="lower left")

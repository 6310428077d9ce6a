"""The work of ``optimus simulate``: every policy with every seed, and the report."""

import argparse
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from optimus.cli.command import Answer, BadInput, Progress
from optimus.cli.simulate_nodes import parse_nodes
from optimus.cli.table import table
from optimus.nodes import Node
from optimus.placement import PLACEMENT_RULES
from optimus.simulator import plots
from optimus.simulator.engine import PreRun, WorkloadError, simulate
from optimus.simulator.files import results, write
from optimus.simulator.forecasts import FittedForecasts, TrueForecasts
from optimus.simulator.jobs import WorkloadMaker
from optimus.simulator.presets import preset, with_pre_run
from optimus.simulator.results import Simulation
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.summary import Estimate, PolicySummary, summarise
from optimus.simulator.workload import WORKLOADS
from optimus.simulator.workload.trace import BadTraceError, TraceWorkload, read_trace

_JOBS = 60

Task = tuple[str, int]
"""A policy and a seed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is simulated, for every policy and seed alike. ``nodes``: ``None`` for those of the
    workload."""

    maker: WorkloadMaker
    jobs: int
    nodes: tuple[Node, ...] | None
    forecast: str
    placement: str | None
    pre_run: bool

    def run(self, task: Task) -> Simulation:
        """One policy with one seed."""
        policy, seed = task
        workload = self.maker(self.jobs, stream(seed, Purpose.WORKLOAD))
        if self.nodes is not None:
            workload = replace(workload, nodes=self.nodes)
        forecasts = TrueForecasts() if self.forecast == "truth" else FittedForecasts()
        way = preset(
            policy, forecasts, None if self.placement is None else PLACEMENT_RULES[self.placement]
        )
        return simulate(workload, with_pre_run(way, PreRun()) if self.pre_run else way, seed)


def compare(options: argparse.Namespace, progress: Progress) -> Answer:
    """Simulate every policy with every seed."""
    plan, folder = _plan(options), _folder(options.output)
    seeds = range(options.seed, options.seed + options.seeds)
    tasks = [(policy, seed) for policy in options.policies for seed in seeds]
    with _doing(min(options.processes, len(tasks))) as doing:
        try:
            found = list(_in_step(progress, tasks, doing(plan.run, tasks)))
        except WorkloadError as problem:
            raise BadInput(options.workload, str(problem)) from None
    if folder is not None:
        _write(found, folder)
    return Answer(
        results(found), _text(found, folder), partial(plots.completion_and_tasks, found=found)
    )


def _plan(options: argparse.Namespace) -> Plan:
    maker: WorkloadMaker
    if options.workload in WORKLOADS:
        maker, jobs = WORKLOADS[options.workload], options.jobs or _JOBS
    else:
        maker = _trace(options.workload)
        jobs = options.jobs or len(maker.traced)
    nodes = None if options.nodes is None else parse_nodes(options.nodes)
    return Plan(maker, jobs, nodes, options.forecast, options.placement, options.pre_run)


def _trace(name: str) -> TraceWorkload:
    if not name.lower().endswith(".csv"):
        raise BadInput(
            "--workload",
            f"{', '.join(WORKLOADS)} or a file that ends in .csv is expected, not {name!r}",
        )
    try:
        with Path(name).open(encoding="utf-8", newline="") as file:
            return TraceWorkload(Path(name).stem, read_trace(file))
    except BadTraceError as problem:
        raise BadInput(name, problem.expected, problem.line) from None
    except UnicodeDecodeError:
        raise BadInput(name, "a text file in UTF-8 is expected") from None


def _folder(folder: Path | None) -> Path | None:
    """The folder for the results; whether there can be one is found out before the work and not
    after it."""
    if folder is None:
        return None
    if folder.exists() and not folder.is_dir():
        raise BadInput(folder, "a folder is expected, and this is a file")
    try:
        import matplotlib  # noqa: F401 - asked for by --output and --plot alone
    except ImportError:
        raise BadInput(folder, "its plots need matplotlib: pip install matplotlib") from None
    folder.mkdir(parents=True, exist_ok=True)
    return folder


_Doing = Callable[[Callable[[Task], Simulation], Sequence[Task]], Iterable[Simulation]]


@contextmanager
def _doing(processes: int) -> Iterator[_Doing]:
    """What applies a function to all tasks, in their order, so many at a time."""
    if processes == 1:
        yield map
        return
    with ProcessPoolExecutor(processes) as pool:
        yield pool.map


def _in_step(
    progress: Progress, tasks: Sequence[Task], found: Iterable[Simulation]
) -> Iterator[Simulation]:
    """The results, with a step of progress for each."""
    left = iter(found)
    for _ in progress(tasks, "simulating"):
        yield next(left)


def _write(found: Sequence[Simulation], folder: Path) -> None:
    from matplotlib.figure import Figure

    write(found, folder)
    for name, draw in plots.PLOTS.items():
        figure = Figure(figsize=(9, 5.5), layout="constrained")
        draw(figure, found)
        figure.savefig(folder / f"{name}.png", dpi=150)


def _text(found: Sequence[Simulation], folder: Path | None) -> str:
    first, seeds = found[0], len({each.seed for each in found})
    of_seeds = (
        f"{seeds} seeds, ± is the 95 % confidence interval over them" if seeds > 1 else "1 seed"
    )
    head = f"{len(first.jobs)} jobs ({first.workload}), {of_seeds}; ratios to {first.policy}"
    return f"{head}\n\n{summary_table(found)}" + (f"\n\nwritten to {folder}" if folder else "")


def summary_table(found: Sequence[Simulation]) -> str:
    """The figures as people read them, one line for each policy."""
    align = "<" + ">" * (len(_HEADINGS) - 1)
    return table(align, _HEADINGS, map(_row, summarise(found)))


_HEADINGS = (
    "policy",
    "average JCT s",
    "ratio",
    "median s",
    "p99 s",
    "makespan s",
    "ratio",
    "PS CPU",
    "worker CPU",
    "GPU",
    "restarts",
    "speed error",
    "epochs error",
)


def _row(summary: PolicySummary) -> tuple[str, ...]:
    figures, ratios = summary.figures, summary.ratios
    return (
        summary.policy,
        _with_interval(figures["average_jct_seconds"], "{:.0f}"),
        _with_interval(ratios["average_jct_seconds"], "{:.2f}"),
        _mean(figures["median_jct_seconds"], "{:.0f}"),
        _mean(figures["p99_jct_seconds"], "{:.0f}"),
        _with_interval(figures["makespan_seconds"], "{:.0f}"),
        _with_interval(ratios["makespan_seconds"], "{:.2f}"),
        *(
            _mean(figures[name], "{:.0%}")
            for name in ("ps_cpu_share", "worker_cpu_share", "gpu_share")
        ),
        _mean(figures["restarts_per_job"], "{:.1f}"),
        *(_mean(figures[name], "{:.1%}") for name in ("speed_error", "convergence_error")),
    )


def _mean(estimate: Estimate, form: str) -> str:
    return "-" if estimate.mean is None else form.format(estimate.mean)


def _with_interval(estimate: Estimate, form: str) -> str:
    mean, high = estimate.mean, estimate.high
    return (
        _mean(estimate, form)
        if mean is None or high is None
        else f"{_mean(estimate, form)} ± {form.format(high - mean)}"
    )

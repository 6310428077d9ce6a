"""``optimus simulate``: several policies on the same simulated jobs, compared seed by seed."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from optimus.allocation.options import Options
from optimus.cli.arguments import unknown_word, whole_number
from optimus.cli.command import Answer, BadInput, Implementation, Progress
from optimus.cli.executors import add_executor_arguments, executor
from optimus.cli.node_groups import parse_arithmetic, parse_nodes
from optimus.cli.policy_config import read_policy_config
from optimus.cli.table import table
from optimus.cli.trace_formats import FORMS, read_form
from optimus.nodes import Node
from optimus.placement import PLACEMENT_RULES
from optimus.policies import POLICIES
from optimus.simulator.engine import WorkloadError, simulate
from optimus.simulator.files import results, write
from optimus.simulator.forecasts import FittedForecasts, ForecastSource, TrueForecasts
from optimus.simulator.ground_truth.testbed import nodes as testbed_nodes
from optimus.simulator.jobs import WorkloadMaker
from optimus.simulator.presets import FIXED, preset, with_weights, without_costs
from optimus.simulator.results import Simulation
from optimus.simulator.stops import Stops
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.summary import Estimate, summarise, verdict
from optimus.simulator.trace_workload import SubmittedWorkload
from optimus.simulator.user_counts import UserCounts
from optimus.simulator.workload import WORKLOADS, on_kinds

USUAL_POLICIES: Final = ("optimus", "optimus-paper", "drf", "tetris", "fifo")
_POLICIES: Final = (*POLICIES, FIXED)
_ALL: Final = "all"
_JOBS: Final = 60
_EPILOG: Final = """
--trace reads anybody's jobs: CSV or JSON lines with submit_time and an amount of work at least, or
a published trace (--trace-format); see docs/simulator.md.
--output writes results.json, jobs.csv, timeline.csv and forecasts.csv.
"""
_COLUMNS: Final = (
    ("average JCT s", "average_jct_seconds", "{:.0f}"),
    ("ratio", "average_jct_seconds", "{:.2f}"),
    ("median s", "median_jct_seconds", "{:.0f}"),
    ("p99 s", "p99_jct_seconds", "{:.0f}"),
    ("makespan s", "makespan_seconds", "{:.0f}"),
    ("ratio", "makespan_seconds", "{:.2f}"),
    ("PS CPU", "ps_cpu_share", "{:.0%}"),
    ("worker CPU", "worker_cpu_share", "{:.0%}"),
    ("GPU", "gpu_share", "{:.0%}"),
    ("restarts", "restarts_per_job", "{:.1f}"),
    ("speed error", "speed_error", "{:.1%}"),
    ("epochs error", "convergence_error", "{:.1%}"),
)
"""Heading, figure and format; averages and makespans have their interval beside them."""
_ERRORS: Final = (
    "speed error, epochs error: how far the forecasts of speeds and of epochs were from the truth,"
    " whenever a\npolicy decided (mean of absolute values)"
)
_WITH_INTERVAL: Final = frozenset({"average_jct_seconds", "makespan_seconds"})

Task = tuple[str, int]
"""A policy and a seed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What is the same for every policy and seed."""

    maker: WorkloadMaker
    jobs: int
    nodes: tuple[Node, ...] | None = None
    """``None``: those of the workload."""
    arithmetic: Mapping[str, float] = field(default_factory=dict)
    """The part of the usual arithmetic speed of workers on each kind of nodes."""
    forecasts: ForecastSource = field(default_factory=FittedForecasts)
    placement: str | None = None
    """``None``: the rule that goes with each policy."""
    stops: Stops = field(default_factory=Stops)
    options: Mapping[str, Options] = field(default_factory=dict)
    """Those of each policy, by its name."""
    counts: UserCounts | None = None
    """``None``: those of the workload."""

    def run(self, task: Task) -> Simulation:
        """One policy with one seed."""
        policy, seed = task
        workload = self.maker(self.jobs, stream(seed, Purpose.WORKLOAD))
        if self.nodes is not None:
            workload = replace(workload, nodes=self.nodes)
        if self.arithmetic:
            jobs = tuple(on_kinds(job, self.arithmetic) for job in workload.jobs)
            workload = replace(workload, jobs=jobs)
        workload = self.stops.of(workload)
        if self.counts is not None:
            workload = self.counts.of(workload)
        rule = PLACEMENT_RULES[self.placement] if self.placement else None
        config = preset(policy, self.forecasts, rule, options=self.options.get(policy, {}))
        if self.stops.measures_prices:
            config = replace(config, measures_prices=True)
        if self.stops.costless:
            config = without_costs(config)
        return simulate(workload, with_weights(config, workload.weights), seed)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.epilog, parser.formatter_class = _EPILOG, argparse.RawDescriptionHelpFormatter
    add, usual = parser.add_argument, ",".join(USUAL_POLICIES)
    count, known = whole_number(1), ", ".join(_POLICIES)
    policies = f"of {known}, or {_ALL}; ratios refer to the first (default: {usual})"
    add("--policies", type=_policies, default=USUAL_POLICIES, metavar="NAME,...", help=policies)
    chosen = "options of policies, YAML or JSON: {gavel-las: {reset-rounds: 3}, ...}"
    add("--policy-config", type=Path, metavar="FILE", help=chosen)
    placement = "for all policies (default: the one that goes with each)"
    add("--placement", choices=sorted(PLACEMENT_RULES), help=placement)
    add("--jobs", type=count, metavar="N", help=f"jobs (default: {_JOBS}, or all of a trace)")
    seeds = "number of seeds (default: 3)"
    add("--seeds", type=count, default=3, metavar="N", help=seeds)
    first = "the first of them (default: 1)"
    add("--seed", type=whole_number(0), default=1, metavar="N", help=first)
    add("--workload", choices=tuple(WORKLOADS), help="how jobs arrive (default: uniform)")
    recur = "images: jobs of one type and mode run one image with one command (default: no job)"
    add("--workloads", choices=("images",), help=recur)
    add("--trace", type=Path, metavar="FILE", help="jobs of your own, instead of --workload")
    forms = "what --trace is written in; beside a trace of Gavel lies its file"
    forms += " simulation_throughputs.json (default: general)"
    add("--trace-format", choices=tuple(FORMS), default="general", help=forms)
    submitted = "users submit jobs at the fewest replicas that have 0.8 of their best speed alone "
    submitted += "on the cluster, or at their best counts (default: 1 PS + 1 worker, or a trace's)"
    add("--counts", choices=[each.value for each in UserCounts], help=submitted)
    nodes = "the cluster; memory in GiB, speed as a part of the usual one, price of an hour of one "
    nodes += "node, kind as the file of speeds names it (default: the paper's 13 servers)"
    form = "COUNT:cpu=16,memory=80[,gpu=2][,speed=0.5][,price=3][,kind=NAME]"
    add("--nodes", nargs="+", metavar=form, help=nodes)
    add("--output", type=Path, metavar="DIR", help="write all results into this folder")
    add_executor_arguments(parser)


def _run(options: argparse.Namespace, progress: Progress) -> Answer:
    """Simulate every policy with every seed."""
    compared = _comparison(options)
    if options.output is not None:
        _prepare_folder(options.output)
    seeds = range(options.seed, options.seed + options.seeds)
    # The first seed of every policy comes first: what is left takes as long as what is done.
    tasks = [(policy, seed) for seed in seeds for policy in options.policies]
    with executor(options, len(tasks)) as run:
        done = iter(run(compared.run, tasks))
        try:
            found = [next(done) for _ in progress(tasks, "simulating")]
        except WorkloadError as problem:
            raise BadInput(options.trace or options.workload or "uniform", str(problem)) from None
    order = {policy: number for number, policy in enumerate(options.policies)}
    found.sort(key=lambda each: order[each.policy])
    text = _text(found)
    if options.output is not None:
        write(found, options.output)
        text = f"{text}\n\nwritten to {options.output}"
    return Answer(results(found), text)


def _comparison(options: argparse.Namespace) -> Comparison:
    nodes = None if options.nodes is None else parse_nodes(options.nodes)
    maker, jobs = _submitted(options, nodes) if options.trace else _drawn(options)
    # A speed model is of PSs and workers, and Gavel's jobs have no PSs.
    is_gavel = options.trace is not None and options.trace_format == "gavel"
    return Comparison(
        maker=maker,
        jobs=jobs,
        nodes=nodes,
        arithmetic={} if nodes is None else parse_arithmetic(options.nodes),
        forecasts=TrueForecasts() if is_gavel else FittedForecasts(),
        placement=options.placement,
        options={} if options.policy_config is None else read_policy_config(options.policy_config),
        counts=None if options.counts is None else UserCounts(options.counts),
    )


def _submitted(
    options: argparse.Namespace, nodes: tuple[Node, ...] | None
) -> tuple[WorkloadMaker, int]:
    """The jobs of ``--trace``, and how many of them."""
    for name in ("workload", "workloads"):
        if getattr(options, name):
            said = "the jobs are those of the trace: --trace stands alone"
            raise BadInput(f"--{name}", said)
    if options.trace_format == "gavel" and parse_arithmetic(options.nodes or ()):
        raise BadInput("--nodes", "kind=v100 and the like are expected: the trace has the speeds")
    submitted = read_form(options.trace_format, options.trace)
    # "?" stands for what is not UTF-8 in the file's name.
    name = options.trace.stem.encode(errors="replace").decode()
    maker = SubmittedWorkload(name, submitted, nodes or testbed_nodes())
    return maker, min(options.jobs or len(submitted), len(submitted))


def _drawn(options: argparse.Namespace) -> tuple[WorkloadMaker, int]:
    """Jobs of the paper's nine types, and how many."""
    usual = WORKLOADS[options.workload or "uniform"]
    config = replace(usual.config, by_image=options.workloads is not None)
    return replace(usual, config=config), options.jobs or _JOBS


def _prepare_folder(folder: Path) -> None:
    """Fails before the work, and not after it, where the results cannot be written."""
    if folder.exists() and not folder.is_dir():
        raise BadInput(folder, "a folder is expected, and this is a file")
    folder.mkdir(parents=True, exist_ok=True)


def _text(found: Sequence[Simulation]) -> str:
    first, seeds = found[0], len({each.seed for each in found})
    interval = ", ± is the 95 % confidence interval over them"
    of_seeds = f"{seeds} seeds{interval}" if seeds > 1 else "1 seed"
    head = f"{len(first.jobs)} jobs ({first.workload}), {of_seeds}; ratios to {first.policy}"
    errors = _ERRORS if any(each.forecasts for each in found) else ""
    return "\n\n".join(filter(None, (verdict(found), head, summary_table(found), errors)))


def summary_table(found: Sequence[Simulation]) -> str:
    """The figures as people read them, one line for each policy."""
    headings = ("policy", *(heading for heading, _, _ in _COLUMNS))
    rows = (
        (
            each.policy,
            *(
                _cell((each.ratios if heading == "ratio" else each.figures)[name], name, form)
                for heading, name, form in _COLUMNS
            ),
        )
        for each in summarise(found)
    )
    return table("<" + ">" * len(_COLUMNS), headings, rows)


def _cell(estimate: Estimate, name: str, form: str) -> str:
    if estimate.mean is None:
        return "-"
    mean = form.format(estimate.mean)
    if estimate.high is None or name not in _WITH_INTERVAL:
        return mean
    return f"{mean} ± {form.format(estimate.high - estimate.mean)}"


def _policies(text: str) -> tuple[str, ...]:
    if text == _ALL:
        return _POLICIES
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in _POLICIES]
    if unknown or not names:
        said = unknown_word(unknown[0], _POLICIES) if unknown else "names of policies are expected"
        raise argparse.ArgumentTypeError(said)
    return names


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)

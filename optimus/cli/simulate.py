"""``optimus simulate``: several policies on the same simulated jobs, compared seed by seed."""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

from optimus.allocation.options import Options
from optimus.cli.arguments import whole_number
from optimus.cli.cluster import connected
from optimus.cli.command import Answer, BadInput, Implementation, Progress
from optimus.cli.completion import context_names
from optimus.cli.executors import add_executor_arguments, executor
from optimus.cli.measured_truth import read_measured
from optimus.cli.node_groups import parse_arithmetic, parse_nodes
from optimus.cli.policy_config import read_policy_config
from optimus.cli.restart_table import read_restart_seconds
from optimus.cli.table import table
from optimus.cli.trace import read_trace
from optimus.cli.trace_formats import FORMS, read_form
from optimus.jobs import RescaleRule
from optimus.nodes import Node
from optimus.placement import PLACEMENT_RULES
from optimus.policies import POLICIES
from optimus.rescale.disruption import NO_LIMIT, UNLIMITED, DisruptionLimits, Limit
from optimus.simulator import plots
from optimus.simulator.engine import WorkloadError, simulate
from optimus.simulator.files import results, write
from optimus.simulator.forecasts import FittedForecasts, TrueForecasts
from optimus.simulator.ground_truth.measured import NOTHING_MEASURED, MeasuredTruths
from optimus.simulator.ground_truth.testbed import nodes as testbed_nodes
from optimus.simulator.jobs import Checkpoints, WorkloadMaker
from optimus.simulator.presets import (
    FIXED,
    PUBLISHED_RULES,
    preset,
    with_loop,
    with_pre_run,
    with_published_forecasts,
    with_weights,
    without_costs,
)
from optimus.simulator.report import report_page
from optimus.simulator.results import Simulation
from optimus.simulator.stops import Stops
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.summary import Estimate, summarise, verdict
from optimus.simulator.trace_workload import SubmittedJob, SubmittedWorkload
from optimus.simulator.user_counts import UserCounts
from optimus.simulator.workload import WORKLOADS, TraceWorkload, on_kinds

REPORT: Final = "report.html"
"""The page's name within ``--report``."""

USUAL_POLICIES: Final = ("optimus", "optimus-paper", "drf", "tetris", "fifo")
_POLICIES: Final = (*POLICIES, FIXED)
_ALL: Final = "all"
_JOBS: Final = 60
_EPILOG: Final = """
--trace reads anybody's jobs: CSV or JSON lines with submit_time and an amount of work at least, or
a published trace (--trace-format); see docs/simulator.md.
--output writes results.json, jobs.csv, timeline.csv, forecasts.csv and four plots.
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
_COLUMNS_OF_ALL: Final = (
    *(_COLUMNS[:2]),
    ("p95 s", "p95_jct_seconds", "{:.0f}"),
    *(_COLUMNS[4:6]),
    ("worst finish-time ratio", "worst_finish_time_ratio", "{:.1f}"),
    ("fairness", "fairness", "{:.2f}"),
    ("core hours", "core_hours_per_job", "{:.2f}"),
    ("cost", "cost_per_job", "{:.2f}"),
    ("stopped s", "stopped_seconds_per_job", "{:.0f}"),
    ("pauses", "pauses_per_job", "{:.1f}"),
)
"""The same of all policies, which differ in what they do to single jobs."""
_MEANING: Final = (
    "finish-time ratio: a job's completion time as a multiple of that alone on the cluster; "
    "fairness: Jain's index\nof the jobs' inverse ratios; core hours: held by a job; cost: "
    "at the nodes' prices; stopped: without training since its first placement"
)
_LOST: Final = ("lost s", "lost_seconds_per_job", "{:.0f}")
"""Shown where checkpoints are simulated."""
_WITH_INTERVAL: Final = frozenset({"average_jct_seconds", "makespan_seconds"})

Task = tuple[str, int]
"""A policy and a seed."""

_Column = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is the same for every policy and seed; ``nodes``: ``None`` for the workload's."""

    maker: WorkloadMaker
    jobs: int
    nodes: tuple[Node, ...] | None
    forecast: str
    placement: str | None
    pre_run: bool
    uses_earlier_runs: bool = True
    rules: str = "authors"
    equal_terms: bool = False
    arithmetic: Mapping[str, float] = field(default_factory=dict)
    """The part of the usual arithmetic speed of workers on each kind of nodes."""
    look_seconds: float = 0.0
    disruption: DisruptionLimits = UNLIMITED
    stops: Stops = field(default_factory=Stops)
    measured: MeasuredTruths = NOTHING_MEASURED
    """What is true of jobs that are drawn; a trace's maker has it already."""
    options: Mapping[str, Options] = field(default_factory=dict)
    """Those of each policy, by its name."""
    counts: UserCounts | None = None
    """``None``: those of the workload."""
    left_out: tuple[str, ...] = ()
    """Sentences on jobs of a cluster that are not simulated."""

    def run(self, task: Task) -> Simulation:
        """One policy with one seed."""
        policy, seed = task
        workload = self.maker(self.jobs, stream(seed, Purpose.WORKLOAD))
        if self.nodes is not None:
            workload = replace(workload, nodes=self.nodes)
        if self.arithmetic:
            jobs = tuple(on_kinds(job, self.arithmetic) for job in workload.jobs)
            workload = replace(workload, jobs=jobs)
        workload = self.stops.of(self.measured.apply(workload))
        if self.counts is not None:
            workload = self.counts.of(workload)
        forecasts = TrueForecasts() if self.forecast == "truth" else FittedForecasts()
        rule = PLACEMENT_RULES[self.placement] if self.placement else None
        rules = PUBLISHED_RULES[self.rules]
        config = preset(policy, forecasts, rule, rules, self.options.get(policy, {}))
        if self.equal_terms:
            config = with_published_forecasts(config, rules)
        if self.pre_run:
            config = with_pre_run(config, rules.pre_run)
        config = with_loop(
            config,
            uses_earlier_runs=self.uses_earlier_runs,
            look_seconds=self.look_seconds,
            disruption=self.disruption,
        )
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
    add("--jobs", type=count, metavar="N", help="jobs (default: 60, or all of a trace)")
    seeds = "number of seeds (default: 3)"
    add("--seeds", type=count, default=3, metavar="N", help=seeds)
    first = "the first of them (default: 1)"
    add("--seed", type=whole_number(0), default=1, metavar="N", help=first)
    workload = f"{', '.join(WORKLOADS)}, or a CSV file of the nine job types (default: uniform)"
    add("--workload", metavar="NAME|FILE.csv", help=workload)
    add("--trace", type=Path, metavar="FILE", help="jobs of your own, instead of --workload")
    truth = "measured speeds and recorded losses of these jobs, a JSON file (default: the job "
    truth += "types' own)"
    add("--truth", type=Path, metavar="FILE", help=truth)
    forms = "what --trace is written in (default: general)"
    add("--trace-format", choices=tuple(FORMS), default="general", help=forms)
    speeds = "for --trace-format gavel: its simulation_throughputs.json"
    add("--gavel-throughputs", type=Path, metavar="FILE", help=speeds)
    nodes = "the cluster; memory in GiB, speed as a part of the usual one, price of an hour of one "
    nodes += "node, kind as the file of speeds names it (default: the paper's 13 servers)"
    form = "COUNT:cpu=16,memory=80[,gpu=2][,speed=0.5][,price=3][,kind=NAME]"
    add("--nodes", nargs="+", metavar=form, help=nodes)
    forecast = "fitted to what is seen of a job, or the truth (default: fitted)"
    add("--forecast", choices=("fitted", "truth"), default="fitted", help=forecast)
    placement = "for all policies (default: the one that goes with each)"
    add("--placement", choices=sorted(PLACEMENT_RULES), help=placement)
    pre_run = "measure speeds before a job starts, as the paper does, and not by profiling runs"
    add("--pre-run", action="store_true", help=pre_run)
    rules = "where there is no forecast, the others take 20 epochs as left as the paper's authors "
    rules += "do, or wait for their pre-run and a fit (default: authors)"
    add("--published-rules", choices=sorted(PUBLISHED_RULES), default="authors", help=rules)
    equal = "all policies get what the published ones get before a job starts, instead of profiling"
    add("--equal-terms", action="store_true", help=equal)
    _add_workload_arguments(parser)
    _add_stop_arguments(parser)
    _add_run_arguments(parser)


_BY_IMAGE: Final = "images"


def _workloads(text: str) -> int | str:
    return text if text == _BY_IMAGE else whole_number(0)(text)


def _add_workload_arguments(parser: argparse.ArgumentParser) -> None:
    recur = f"each job is a run of one of so many recurring workloads; {_BY_IMAGE}: jobs of one "
    recur += "type and mode run one image with one command (default: 0, no job recurs)"
    metavar = f"N|{_BY_IMAGE}"
    parser.add_argument("--workloads", type=_workloads, default=0, metavar=metavar, help=recur)
    submitted = (
        "users submit jobs at the fewest replicas that have 0.8 of their best speed alone on "
    )
    submitted += "the cluster, or at their best counts (default: 1 PS + 1 worker, or a trace's own)"
    parser.add_argument("--counts", choices=[each.value for each in UserCounts], help=submitted)
    alone = "jobs learn nothing from those that ended"
    parser.add_argument("--no-earlier-runs", action="store_true", help=alone)


def _add_cluster_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    live = "the TFJobs, MXJobs and nodes of a running cluster, by their TrainingProfiles"
    add("--from-cluster", action="store_true", help=live)
    add("-n", "--namespace", help="with --from-cluster; default: that of the kubeconfig's context")
    add("-A", "--all-namespaces", action="store_true", help="the jobs of all namespaces")
    context = "a context of the kubeconfig; default: its current one"
    vars(add("--context", metavar="NAME", help=context)).update(completer=context_names)
    add("--kubeconfig", type=Path, metavar="FILE", help="default: as kubectl chooses it")
    labels = "labels of the nodes to consider; default: those that the autoscaler uses"
    add("-l", "--node-selector", metavar="LABELS", help=labels)


def _add_stop_arguments(parser: argparse.ArgumentParser) -> None:
    """What stopping a job costs."""
    saves, amount = parser.add_mutually_exclusive_group(), whole_number(1)
    steps = "jobs save after so many steps, and a restart loses what was trained since (default: "
    steps += "they save whenever they are stopped, and lose nothing)"
    saves.add_argument("--checkpoint-steps", type=amount, metavar="N", help=steps)
    seconds = "the same after so many seconds of training"
    saves.add_argument("--checkpoint-seconds", type=amount, metavar="N", help=seconds)
    save = "jobs save as they are stopped, lose nothing, and take so many seconds for it (default: "
    save += "they take no time; without a number: 10)"
    saves.add_argument("--save-seconds", type=amount, nargs="?", const=10, metavar="N", help=save)
    costless = "starts and stops take no time, no worker straggles, and measures are exact"
    saves.add_argument("--costless", action="store_true", help=costless)
    rescale = "optimus moves a job right after a checkpoint, or at any time (default: checkpoint "
    rescale += "where jobs save now and then, else any)"
    rules = [RescaleRule.CHECKPOINT.value, RescaleRule.ANY.value]
    parser.add_argument("--rescale", choices=rules, help=rescale)
    measured = "a CSV file with a column `seconds`: what restarts were measured to take, of which "
    measured += "each takes one (default: a start, and the model to the file system and back)"
    parser.add_argument("--restart-seconds", type=Path, metavar="FILE", help=measured)


def _add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """How the simulations run, and where their results go."""
    _add_cluster_arguments(parser)
    add = parser.add_argument
    add("--output", type=Path, metavar="DIR", help="write all results and plots into this folder")
    look = "least seconds between two observations of the cluster, for large ones (default: 0, "
    look += "one after every event)"
    add("--look-seconds", type=whole_number(0), default=0, metavar="N", help=look)
    stopped = "how many jobs optimus may stop for rescales at once: a number, or a percentage such "
    stopped += "as 25%% (default: any number)"
    add("--max-stopped", type=_limit, default=NO_LIMIT, metavar="N|SHARE", help=stopped)
    each = "the same for the jobs of each namespace (default: any number)"
    add("--max-stopped-per-namespace", type=_limit, default=NO_LIMIT, metavar="N|SHARE", help=each)
    chosen = "options of policies, YAML or JSON: {gavel-las: {reset-seconds: 600}, ...}"
    add("--policy-config", type=Path, metavar="FILE", help=chosen)
    report = "the same files, and one page on the comparison: report.html"
    add("--report", type=Path, metavar="DIR", help=report)
    add_executor_arguments(parser, "simulations")


def _limit(text: str) -> Limit:
    limit = Limit.parse(text)
    if limit is None:
        raise argparse.ArgumentTypeError(f"a number such as 4, or 25%, is expected, not {text!r}")
    return limit


def _run(options: argparse.Namespace, progress: Progress) -> Answer:
    """Simulate every policy with every seed."""
    compared = _comparison(options)
    folders = [each for each in (options.output, options.report) if each is not None]
    for folder in folders:
        _prepare_folder(folder)
    seeds = range(options.seed, options.seed + options.seeds)
    tasks = [(policy, seed) for policy in options.policies for seed in seeds]
    with executor(options, len(tasks)) as run:
        done = iter(run(compared.run, tasks))
        try:
            found = [next(done) for _ in progress(tasks, "simulating")]
        except WorkloadError as problem:
            raise BadInput(options.trace or options.workload or "uniform", str(problem)) from None
    for folder in folders:
        _write(found, folder)
    if options.report is not None:
        (options.report / REPORT).write_text(report_page(found), encoding="utf-8", newline="\n")
    left_out = [f"left out: {each}" for each in compared.left_out]
    said = ["\n".join(left_out)] if left_out else []
    columns = _COLUMNS_OF_ALL if options.policies == _POLICIES else _COLUMNS
    text = "\n\n".join(
        (_text(found, columns), *said, *(f"written to {folder}" for folder in folders))
    )
    value = results(found)
    if compared.left_out:
        value["left_out"] = list(compared.left_out)
    return Answer(value, text, partial(plots.completion_and_tasks, found=found))


def _comparison(options: argparse.Namespace) -> Comparison:
    nodes = None if options.nodes is None else parse_nodes(options.nodes)
    measured = NOTHING_MEASURED if options.truth is None else read_measured(options.truth)
    left_out: tuple[str, ...] = ()
    if options.from_cluster:
        maker, jobs, left_out = _of_cluster(options, nodes)
    else:
        maker, jobs = _submitted(options, nodes, measured) if options.trace else _drawn(options)
    if options.truth is not None and options.nodes and parse_arithmetic(options.nodes):
        raise BadInput(
            "--truth",
            "nodes without speed= are expected: a table of speeds holds for one kind of nodes",
        )
    return Comparison(
        maker,
        jobs,
        nodes,
        # A speed model is of PSs and workers, and Gavel's jobs have no PSs.
        "truth" if options.trace and options.trace_format == "gavel" else options.forecast,
        options.placement,
        options.pre_run,
        not options.no_earlier_runs,
        options.published_rules,
        options.equal_terms,
        {} if options.nodes is None else parse_arithmetic(options.nodes),
        options.look_seconds,
        DisruptionLimits(options.max_stopped, options.max_stopped_per_namespace),
        _stops(options),
        NOTHING_MEASURED if options.trace else measured,
        {} if options.policy_config is None else read_policy_config(options.policy_config),
        None if options.counts is None else UserCounts(options.counts),
        left_out,
    )


def _of_cluster(
    options: argparse.Namespace, nodes: tuple[Node, ...] | None
) -> tuple[WorkloadMaker, int, tuple[str, ...]]:
    """The jobs of a running cluster, how many, and why others are not among them."""
    for name in ("workload", "workloads", "trace", "truth"):
        if getattr(options, name):
            raise BadInput(
                f"--{name}",
                "nothing else may name jobs beside --from-cluster",
            )
    if options.processes > 1 or options.dask is not None:
        raise BadInput("--processes", "one process is expected with --from-cluster")
    with connected(options, "simulate") as cluster:
        from optimus.cli.cluster_workload import read_workload

        wanted = cluster.wanted(options)
        found = read_workload(cluster.client, wanted, nodes, options.node_selector)
    jobs = len(found.maker.jobs)
    return found.maker, min(options.jobs or jobs, jobs), found.left_out


def _stops(options: argparse.Namespace) -> Stops:
    """What stopping a job costs, by the options."""
    checkpoints, rule = None, RescaleRule.ANY
    if options.checkpoint_steps or options.checkpoint_seconds:
        steps, seconds = options.checkpoint_steps or 0, options.checkpoint_seconds or 0
        checkpoints, rule = Checkpoints(steps, seconds), RescaleRule.CHECKPOINT
    elif options.rescale == RescaleRule.CHECKPOINT:
        expected = "--checkpoint-steps or --checkpoint-seconds is expected beside it"
        raise BadInput("--rescale checkpoint", f"{expected}: without, a job saves when stopped")
    rule = RescaleRule(options.rescale) if options.rescale else rule
    measured = options.restart_seconds
    if measured is not None and options.costless:
        raise BadInput("--costless", "no --restart-seconds is expected beside it")
    seconds = () if measured is None else read_restart_seconds(measured)
    saving_seconds = float(options.save_seconds or 0)
    return Stops(checkpoints, rule, saving_seconds, seconds, costless=options.costless)


_FROM_TRACE: Final = "the jobs are those of the trace"


def _submitted(
    options: argparse.Namespace, nodes: tuple[Node, ...] | None, measured: MeasuredTruths
) -> tuple[WorkloadMaker, int]:
    """The jobs of ``--trace``, and how many of them."""
    for name in ("workload", "workloads"):
        if getattr(options, name):
            raise BadInput(f"--{name}", f"{_FROM_TRACE}: --trace stands alone")
    if options.trace_format == "gavel" and parse_arithmetic(options.nodes or ()):
        raise BadInput("--nodes", "kind=v100 and the like are expected: the trace has the speeds")
    submitted = read_form(options.trace_format, options.trace, options.gavel_throughputs)
    _check_names(options.truth, measured, submitted)
    servers = nodes or testbed_nodes()
    maker = SubmittedWorkload(_name_of(options.trace), submitted, servers, measured=measured)
    return maker, min(options.jobs or len(submitted), len(submitted))


def _check_names(
    file: Path | None, measured: MeasuredTruths, submitted: Sequence[SubmittedJob]
) -> None:
    """Fails where the jobs or the workload of a measurement are none of the trace's."""
    jobs = {str(each.key) for each in submitted}
    workloads = {each.workload for each in submitted}
    for number, each in enumerate(measured.truths, start=1):
        for name, known in ((each.job, jobs), (each.workload, workloads)):
            if file is not None and name is not None and name not in known:
                raise BadInput(file, f"object {number}: a name of the trace is expected: {name!a}")


def _drawn(options: argparse.Namespace) -> tuple[WorkloadMaker, int]:
    """Jobs of the paper's nine types, and how many."""
    name = options.workload or "uniform"
    usual = WORKLOADS.get(name)
    if usual is not None:
        by_image = options.workloads == _BY_IMAGE
        families = 0 if by_image else options.workloads
        config = replace(usual.config, families=families, by_image=by_image)
        return replace(usual, config=config), options.jobs or _JOBS
    if not name.lower().endswith(".csv"):
        expected = f"{', '.join(WORKLOADS)} or a file that ends in .csv is expected"
        raise BadInput("--workload", f"{expected}, not {name!r}")
    traced = read_trace(Path(name))
    if options.workloads:
        raise BadInput("--workloads", _FROM_TRACE)
    return TraceWorkload(_name_of(Path(name)), traced), options.jobs or len(traced)


def _name_of(file: Path) -> str:
    """What results call the workload of a file; ``?`` where the file's name is not UTF-8."""
    return file.stem.encode(errors="replace").decode()


def _prepare_folder(folder: Path) -> None:
    """Fails before the work, and not after it, where the results cannot be written."""
    if folder.exists() and not folder.is_dir():
        raise BadInput(folder, "a folder is expected, and this is a file")
    try:
        import matplotlib  # noqa: F401 - asked for by --output and --plot alone
    except ImportError:
        raise BadInput(folder, "its plots need matplotlib: pip install matplotlib") from None
    folder.mkdir(parents=True, exist_ok=True)


def _write(found: Sequence[Simulation], folder: Path) -> None:
    from matplotlib.figure import Figure

    write(found, folder)
    for name, draw in zip(plots.PICTURES, plots.PLOTS.values(), strict=True):
        figure = Figure(figsize=(9, 5.5), layout="constrained")
        draw(figure, found)
        figure.savefig(folder / name, dpi=150)


def _text(found: Sequence[Simulation], columns: Sequence[_Column]) -> str:
    first, seeds = found[0], len({each.seed for each in found})
    interval = ", ± is the 95 % confidence interval over them"
    of_seeds = f"{seeds} seeds{interval}" if seeds > 1 else "1 seed"
    head = f"{len(first.jobs)} jobs ({first.workload}), {of_seeds}; ratios to {first.policy}"
    errors = _ERRORS if any(each.forecasts for each in found) else ""
    said = _MEANING if columns is _COLUMNS_OF_ALL else errors
    return "\n\n".join(filter(None, (verdict(found), head, summary_table(found, columns), said)))


def summary_table(found: Sequence[Simulation], columns: Sequence[_Column] = _COLUMNS) -> str:
    """The figures as people read them, one line for each policy."""
    loses = any(job.lost_seconds > 0 for each in found for job in each.jobs)
    columns = (*columns, _LOST) if loses else columns
    headings = ("policy", *(heading for heading, _, _ in columns))
    rows = (
        (
            each.policy,
            *(
                _cell((each.ratios if heading == "ratio" else each.figures)[name], name, form)
                for heading, name, form in columns
            ),
        )
        for each in summarise(found)
    )
    return table("<" + ">" * len(columns), headings, rows)


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
    if not names or any(name not in _POLICIES for name in names):
        expected = f"{_ALL}, or names among {', '.join(_POLICIES)} are expected"
        raise argparse.ArgumentTypeError(f"{expected}, not {text!r}")
    return names


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)

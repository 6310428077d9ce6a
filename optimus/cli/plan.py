"""``optimus plan``: one allocation and placement of a table of jobs on a number of equal nodes.

The jobs of the table are waiting jobs of one interval (``optimus.interval.plan_interval``), as the
autoscaler would plan them. The table states remaining times exactly, so that ``optimus`` takes
every step that saves anything.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from optimus.allocation import Candidate, Policy
from optimus.cli.arguments import named_amounts, whole_number
from optimus.cli.command import Answer, BadInput, Implementation, Progress
from optimus.cli.job_table import UNITS, amounts, read_job_table
from optimus.cli.table import table
from optimus.errors import NotReady
from optimus.interval import IntervalConfig, IntervalInput, IntervalPlan, Strategies, plan_interval
from optimus.jobs import NO_COUNTS, Counts, Job, Role
from optimus.models.forecast import Forecast
from optimus.nodes import Node
from optimus.placement import PLACEMENT_RULES
from optimus.policies import POLICIES, policy_named
from optimus.policies.optimus import OptimusPolicy
from optimus.progress.types import TrainingProgress
from optimus.resources import Resources
from optimus.snapshot import ClusterSnapshot

UNPLACED_SECONDS = 1e9
"""What a job without a place adds to the objective."""

POOL_POLICIES: Final = tuple(
    sorted(name for name in POLICIES if not policy_named(name).traits.time_shared)
)
"""Those that choose counts once, and let no jobs take turns."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The counts of all jobs that have a place."""

    candidates: Sequence[Candidate]
    interval: IntervalPlan
    counts: Mapping[str, Counts]

    @property
    def objective(self) -> float:
        """The sum of all jobs' remaining seconds."""
        placed = (each for each in self.candidates if each.job.uid in self.counts)
        seconds = sum(each.forecast.at(self.counts[each.job.uid]) for each in placed)
        return seconds + UNPLACED_SECONDS * (len(self.candidates) - len(self.counts))

    @property
    def tasks(self) -> int:
        """How many tasks have a node."""
        return sum(map(sum, self.counts.values()))

    def nodes(self, uid: str) -> dict[str, list[int]]:
        """PSs and workers of one job by node."""
        on = dict[str, list[int]]()
        held = self.interval.capacity_plan.held
        for replica, node, _ in held[uid] if uid in self.counts else ():
            if replica.role in {Role.PS, Role.WORKER}:
                on.setdefault(node, [0, 0])[replica.role is Role.WORKER] += 1
        return dict(sorted(on.items()))


def plan(candidates: Sequence[Candidate], nodes: Sequence[Node], policy: Policy) -> Plan:
    """Plan an interval of the jobs."""
    forecasts = {candidate.job.uid: candidate.forecast for candidate in candidates}

    def forecast(job: Job, _: TrainingProgress) -> Forecast | NotReady:
        return forecasts[job.uid]

    strategies = Strategies(policy, PLACEMENT_RULES[policy.traits.placed_by], forecast)
    snapshot = ClusterSnapshot.of(0.0, [each.job for each in candidates], nodes, ())
    interval = plan_interval("plan", IntervalInput(snapshot), strategies, IntervalConfig())
    placed = interval.capacity_plan
    counts = {
        decision.uid: decision.counts
        for decision in interval.decisions
        if placed.is_placed(decision.uid)
    }
    return Plan(candidates, interval, counts)


def policy_for_tables(name: str) -> Policy:
    """The policy of this name for remaining times that are known exactly."""
    return policy_named(name, {"min-gain-fraction": 0} if name == OptimusPolicy.name else {})


def equal_nodes(count: int, allocatable: Resources) -> list[Node]:
    """This number of nodes with the same resources, named in order."""
    width = len(str(count))
    return [Node(f"node-{number:0{width}}", allocatable) for number in range(1, count + 1)]


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    columns = "16 columns; see the documentation"
    add("--jobs", type=Path, required=True, metavar="JOBS.csv", help=columns)
    number = "how many nodes there are, all alike"
    add("--nodes", type=whole_number(1), required=True, metavar="N", help=number)
    has = "what one node has: cores, GiB, Gbit/s, GPUs (default %(default)s)"
    usual = "cpu=16,memory=48,bandwidth=10,gpu=2"
    add("--node", default=usual, metavar="NAME=AMOUNT,...", help=has)
    add("--policy", choices=POOL_POLICIES, default=OptimusPolicy.name, help="default optimus")


def _run(options: argparse.Namespace, _: Progress) -> Answer:
    try:
        node = amounts(named_amounts(options.node, UNITS))
    except ValueError as problem:
        raise BadInput("--node", str(problem)) from None
    candidates = read_job_table(options.jobs, node)
    found = plan(candidates, equal_nodes(options.nodes, node), policy_for_tables(options.policy))
    reasons = {decision.uid: decision.reason for decision in found.interval.decisions}
    jobs, rows = dict[str, object](), list[Sequence[object]]()
    for candidate in candidates:
        uid, nodes = candidate.job.uid, found.nodes(candidate.job.uid)
        counts = found.counts.get(uid, NO_COUNTS)
        jobs[uid] = {"ps": counts.ps, "workers": counts.workers, "nodes": nodes}
        seconds = f"{candidate.forecast.at(counts):,.1f}" if nodes else "-"
        rows.append((uid, *counts, len(nodes), seconds, reasons[uid]))
    value = {
        "jobs": jobs,
        "objective": found.objective,
        "whole_jobs": len(found.counts),
        "tasks": found.tasks,
    }
    head = f"{options.policy}: {len(found.counts)} of {len(jobs)} jobs, {found.tasks} tasks"
    headings = ("job", "PSs", "workers", "servers", "remaining s", "reason")
    said = f"{head}; sum of remaining times {found.objective:,.1f} s"
    return Answer(value, f"{said}\n\n{table('<>>>><', headings, rows)}")


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)

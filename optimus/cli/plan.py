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
from optimus.cli.arguments import named_amounts
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

_DEFAULT_NODE = "cpu=16,memory=48,bandwidth=10,gpu=2"
_MAX_NODES = 1_000_000
_SHOWN = 10
_HEADINGS = ("job", "PSs", "workers", "servers", "remaining s", "reason")


@dataclass(frozen=True, slots=True)
class Plan:
    """The counts of all jobs that have a place."""

    candidates: Sequence[Candidate]
    interval: IntervalPlan
    counts: Mapping[str, Counts]

    @property
    def objective(self) -> float:
        """The sum of all jobs' remaining seconds."""
        counts = self.counts
        return sum(
            candidate.forecast.at(counts[candidate.job.uid])
            if candidate.job.uid in counts
            else UNPLACED_SECONDS
            for candidate in self.candidates
        )

    @property
    def reasons(self) -> Mapping[str, str]:
        """The reason of each job's counts, by UID."""
        return {decision.uid: decision.reason for decision in self.interval.decisions}

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


def plan(
    candidates: Sequence[Candidate], nodes: Sequence[Node], policy: Policy, placement: str
) -> Plan:
    """Plan an interval of the jobs."""
    forecasts = {candidate.job.uid: candidate.forecast for candidate in candidates}

    def forecast(job: Job, _: TrainingProgress) -> Forecast | NotReady:
        return forecasts[job.uid]

    strategies = Strategies(policy, PLACEMENT_RULES[placement], forecast)
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
    add("--nodes", required=True, metavar="N", help="how many nodes there are, all alike")
    has = f"what one node has: cores, GiB, Gbit/s, GPUs (default {_DEFAULT_NODE})"
    add("--node", default=_DEFAULT_NODE, metavar="NAME=AMOUNT,...", help=has)
    policy = OptimusPolicy.name
    add("--policy", choices=POOL_POLICIES, default=policy, help="default optimus")
    placed_by = "default: the one that goes with the policy in the paper"
    add("--placement", choices=sorted(PLACEMENT_RULES), help=placed_by)


def _run(options: argparse.Namespace, progress: Progress) -> Answer:
    del progress  # a second at most
    node = _node(options.node)
    nodes = equal_nodes(_count(options.nodes), node)
    candidates = read_job_table(options.jobs, node)
    policy = policy_for_tables(options.policy)
    placement = options.placement or policy.traits.placed_by
    found = plan(candidates, nodes, policy, placement)
    return Answer(_value(found), _text(found, f"{options.policy}, placed by {placement}"))


def _value(found: Plan) -> object:
    jobs = {}
    for uid in (candidate.job.uid for candidate in found.candidates):
        ps, workers = found.counts.get(uid, NO_COUNTS)
        jobs[uid] = {"ps": ps, "workers": workers, "nodes": found.nodes(uid)}
    return {
        "jobs": jobs,
        "objective": found.objective,
        "whole_jobs": len(found.counts),
        "tasks": found.tasks,
    }


def _text(found: Plan, heading: str) -> str:
    placed = f"{len(found.counts)} of {len(found.candidates)} jobs, {found.tasks} tasks"
    lines = [
        f"{heading}: {placed}, on {len(found.interval.capacity_plan.nodes)} nodes",
        f"sum of remaining times {found.objective:,.1f} s",
        "",
        table(
            "<>>>><", _HEADINGS, (_row(found, candidate) for candidate in found.candidates[:_SHOWN])
        ),
    ]
    left_out = len(found.candidates) - _SHOWN
    if left_out > 0:
        lines.append(f"... and {left_out} more (--json for all)")
    return "\n".join(lines)


def _row(found: Plan, candidate: Candidate) -> Sequence[object]:
    uid = candidate.job.uid
    if uid not in found.counts:
        return uid, "", "", "", "", found.reasons[uid]
    counts = found.counts[uid]
    return uid, *counts, len(found.nodes(uid)), f"{candidate.forecast.at(counts):,.1f}", ""


def _count(given: str) -> int:
    is_number = given.isascii() and given.isdigit() and len(given) <= 9
    if not is_number or not 1 <= int(given) <= _MAX_NODES:
        expected = f"a whole number from 1 to {_MAX_NODES:,} is expected"
        raise BadInput("--nodes", f"{given!r}; {expected}")
    return int(given)


def _node(given: str) -> Resources:
    try:
        node = amounts(named_amounts(given, UNITS))
    except ValueError as problem:
        raise BadInput("--node", str(problem)) from None
    if not node:
        raise BadInput("--node", f"{given!r}; a node with some resource is expected")
    return node


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)

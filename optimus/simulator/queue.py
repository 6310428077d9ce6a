"""The waiting jobs of the simulated cluster, placed by the queue that the extender plans with."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from optimus.errors import NotReady
from optimus.interval.capacity_plan import Held
from optimus.jobs import Counts
from optimus.models.forecast import Forecast
from optimus.nodes import Node
from optimus.placement.first_kind import KindOrders
from optimus.placement.gang import Gang, GangRule, Placement
from optimus.placement.queue.backfill import JobUsage, RunningJobs
from optimus.placement.queue.order import AGE_LIMIT_SECONDS, Instant, WaitingGang
from optimus.placement.queue.planning import PlannedGang, Planning, Snapshot
from optimus.placement.queue.shortfall import GangRefusal
from optimus.resources import NONE, Resources
from optimus.simulator.cluster import SimulatedCluster, SimulatedJobState, SimulatedPhase

Forecasts = Mapping[str, Forecast | NotReady]
"""By job UID."""


@dataclass(frozen=True)
class _QueuedJob:
    """A waiting job as the queue sees it."""

    state: SimulatedJobState

    @cached_property
    def gang(self) -> Gang:
        """Its replicas."""
        return Gang.of(self.state.job)

    @property
    def waiting(self) -> WaitingGang:
        """Return what decides on its place in the queue."""
        job = self.state.job
        ran_before = self.state.placed_at is not None
        return WaitingGang(job.uid, job.demand(), self.state.arrived_at, ran_before, job.priority)


class WaitingJobs:
    """Which waiting jobs are placed, and where."""

    def __init__(self, rule: GangRule) -> None:
        self._planning = Planning(rule, AGE_LIMIT_SECONDS)
        self._refusals: dict[str, GangRefusal] = {}
        self._counts: dict[str, Counts] = {}
        self._left: dict[str, Resources] = {}

    def placements(
        self,
        cluster: SimulatedCluster,
        forecasts: Forecasts,
        forecast_at: float,
        orders: KindOrders,
    ) -> Iterator[tuple[SimulatedJobState, tuple[Held, ...]]]:
        """The waiting jobs that fit now with what their replicas hold; the caller moves them."""
        waiting = [
            state
            for state in cluster.states.values()
            if state.phase is SimulatedPhase.WAITING and state.suspended_by is None
        ]
        if not waiting:
            return
        jobs = {state.job.uid: state for state in waiting}
        reader = _Reader(cluster, forecasts, forecast_at, orders, jobs)
        counts = {state.job.uid: state.job.counts for state in waiting}
        self._refusals = {
            uid: each
            for uid, each in self._refusals.items()
            if uid in counts and counts[uid] == self._counts.get(uid)
        }
        self._counts = counts
        answers = self._planning.plan(self._snapshot(waiting, reader), reader).answers
        for answer in answers:
            uid = answer.queued.waiting.job_uid
            self._refusals.pop(uid, None)
            if isinstance(answer, PlannedGang):
                yield jobs[uid], _held(answer.gang, answer.placement)
            else:
                self._refusals[uid] = answer.refusal

    def _snapshot(self, waiting: list[SimulatedJobState], reader: "_Reader") -> Snapshot:
        cluster, left = reader.cluster, dict(reader.cluster.snapshot().free())
        changed = {name: free for name, free in left.items() if self._left.get(name) != free}
        nodes = None if self._left else {node.name: node for node in cluster.nodes}
        self._left = left
        return Snapshot(
            now=Instant(cluster.now, cluster.now),
            queue=[_QueuedJob(state) for state in waiting],
            refusals=self._refusals,
            left=changed,
            nodes=nodes,
            own={},
            remaining_seconds={
                uid: at - cluster.now for uid, at in reader.ends_at(waiting).items()
            },
            rules_generation=0,
            rules_openings=0,
            release_count=0,
        )


@dataclass(frozen=True)
class _Reader:
    """Reads what a plan in advance needs of the cluster."""

    cluster: SimulatedCluster
    forecasts: Forecasts
    forecast_at: float
    orders: KindOrders
    waiting: Mapping[str, SimulatedJobState]
    """By UID."""

    def ends_at(self, states: Iterable[SimulatedJobState]) -> dict[str, float]:
        """Return when these jobs end, by their forecasts."""
        found = {}
        for state in states:
            forecast = self.forecasts.get(state.job.uid)
            if isinstance(forecast, Forecast):
                found[state.job.uid] = self.forecast_at + forecast.at(state.job.counts)
        return found

    def running_jobs(self) -> RunningJobs:
        """Return what will end, and what is left beside it."""
        usage = {}
        for state in self.cluster.states.values():
            amounts: dict[str, Resources] = {}
            for pod in (*state.pods, *state.coming):
                amounts[pod.node] = amounts.get(pod.node, NONE) + pod.resources
            if amounts:
                usage[state.job.uid] = JobUsage(state.job.key, amounts)
        nodes: tuple[Node, ...] = self.cluster.nodes
        return RunningJobs(
            nodes, self.cluster.snapshot().free(), usage, self.ends_at(self.cluster.states.values())
        )

    def with_surroundings(self, gang: Gang) -> Gang:
        """The gang with the kinds of nodes that it prefers; pods have no rules here."""
        state = self.waiting[gang.job_uid]
        if state.placed_at is not None:
            return gang
        return replace(gang, kinds=self.orders.of_job(state.job))


def _held(gang: Gang, placement: Placement) -> tuple[Held, ...]:
    requests = {gang.replica(each): each.spec.resources for each in gang.members}
    return tuple(
        Held(replica, node, requests[replica]) for replica, node in placement.nodes.items()
    )

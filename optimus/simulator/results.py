"""Results of one simulation: jobs, the cluster over time, forecasts beside the truth."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from operator import is_
from typing import Final

from optimus.jobs import Role
from optimus.lifecycle.books import books_of
from optimus.nodes import Node
from optimus.placement.theorem1 import Theorem1
from optimus.resources import CPU, Resources, total
from optimus.simulator.cluster import SimulatedCluster, SimulatedJobState, SimulatedPhase
from optimus.simulator.forecasts import LoggedForecast
from optimus.simulator.speeds import EmptyCluster

GPU = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """One job, from its arrival to its end, in seconds of virtual time.

    ``restarts`` include those of the ``profiling_runs``; ``pauses`` took its room away."""

    uid: str
    kind: str
    mode: str
    arrived_at: float
    placed_at: float
    finished_at: float
    trained_seconds: float
    epochs: int
    restarts: int
    profiling_runs: int
    pauses: int
    lost_seconds: float = 0.0
    """Training that restarts undid: what was trained after the last checkpoint before each."""
    saved_seconds: float | None = None
    """What moving it has saved against its own counts, by the product's books; ``None`` without."""
    alone_seconds: float = 0.0
    """Its start and training alone on the cluster, at the counts of its submission. 0: it does not
    fit so, or is not known."""

    @property
    def stopped_seconds(self) -> float:
        """Without training since its first placement."""
        return self.finished_at - self.placed_at - self.trained_seconds

    @property
    def finish_time_ratio(self) -> float | None:
        """Its completion time as a multiple of ``alone_seconds``, where these are known."""
        return self.completion_seconds / self.alone_seconds if self.alone_seconds else None

    @property
    def completion_seconds(self) -> float:
        """From its arrival to its end: the job's completion time (JCT)."""
        return self.finished_at - self.arrived_at

    @classmethod
    def of(cls, state: SimulatedJobState, alone_seconds: float = 0.0) -> "JobResult":
        """The record of a job that has ended."""
        assert state.ended_at is not None
        assert state.placed_at is not None
        books = books_of(state.job, state.record, state.training.progress())
        return cls(
            uid=state.job.uid,
            kind=state.truth.kind,
            mode=state.job.mode.value,
            arrived_at=state.truth.job.created_at,
            placed_at=state.placed_at,
            finished_at=state.ended_at,
            trained_seconds=state.training.trained_seconds,
            epochs=state.training.end_epochs,
            restarts=state.restarts,
            profiling_runs=len(state.record.profiled),
            pauses=state.record.pauses,
            lost_seconds=state.training.lost_seconds,
            saved_seconds=None if books is None else books.saved_seconds,
            alone_seconds=alone_seconds,
        )


@dataclass(frozen=True, slots=True)
class TimelinePoint:
    """The cluster from ``at`` to the next point; CPU in millicores and GPUs held by PSs or workers.

    ``training`` jobs make progress, ``idle`` ones hold room only, ``waiting`` ones hold none."""

    at: float
    training: int
    idle: int
    waiting: int
    ps: int
    workers: int
    ps_cpu: int
    worker_cpu: int
    gpus: int
    price_per_hour: float = 0.0
    """Of what the jobs hold of nodes that have a price: of each node the largest part."""

    @classmethod
    def of(cls, cluster: SimulatedCluster) -> "TimelinePoint":
        """The cluster as it is now."""
        shares = (_share_of(state, cluster.priced) for state in cluster.states.values())
        return cls(cluster.now, *map(sum, zip(_NO_SHARE, *shares, strict=True)))

    @property
    def tasks(self) -> int:
        """PSs and workers that hold room."""
        return self.ps + self.workers


_NO_SHARE: Final = (0,) * 9


def _share_of(state: SimulatedJobState, priced: Mapping[str, Node]) -> tuple[float, ...]:
    """Return what one job adds to each column of a ``TimelinePoint``; counted again only where it
    has changed."""
    made_of = state.phase, state.pods, state.job
    known = state.known_share
    if known is not None and all(map(is_, known[0], made_of)):
        return known[1]
    trains = state.phase is SimulatedPhase.TRAINING
    has_pods, job = bool(state.pods), state.job
    roles = [pod.replica.role for pod in state.pods if pod.replica is not None]
    ps, workers = roles.count(Role.PS), roles.count(Role.WORKER)
    of_ps, of_workers = job.ps.resources, job.worker.resources
    cpu = of_ps[CPU] * ps, of_workers[CPU] * workers
    gpus = of_ps[GPU] * ps + of_workers[GPU] * workers
    training = int(trains), int(has_pods and not trains), int(not has_pods)
    share = (*training, ps, workers, *cpu, gpus, _price(state, priced))
    state.known_share = made_of, share
    return share


def _price(state: SimulatedJobState, priced: Mapping[str, Node]) -> float:
    """Return what an hour of all that the job holds costs."""
    held = defaultdict[str, list[Resources]](list)
    for pod in state.pods if priced else ():
        held[pod.node].append(pod.resources)
    price = 0.0
    for name in held.keys() & priced.keys():
        node = priced[name]
        price += total(held[name]).dominant(node.allocatable)[1] * (node.price or 0.0)
    return price


def _alone_seconds(state: SimulatedJobState, empty: EmptyCluster) -> float:
    truth = state.truth
    servers = empty.servers(truth.job, truth.job.counts)
    if servers is None:
        return 0.0
    steps = state.training.end_epochs * truth.steps_in_epoch(truth.job.counts.workers)
    return truth.start_seconds + steps / truth.speed.steps_per_second(servers)


@dataclass(frozen=True, slots=True)
class Simulation:
    """One policy on one workload with one seed; ``jobs`` in order of arrival."""

    policy: str
    workload: str
    seed: int
    capacity: Resources
    jobs: tuple[JobResult, ...]
    timeline: tuple[TimelinePoint, ...]
    forecasts: tuple[LoggedForecast, ...]

    @classmethod
    def of(
        cls,
        who: tuple[str, str, int],
        cluster: SimulatedCluster,
        timeline: list[TimelinePoint],
        forecasts: list[LoggedForecast],
    ) -> "Simulation":
        """The results of a simulation that has come to its end."""
        empty = EmptyCluster(cluster.nodes, Theorem1())
        jobs = sorted(
            (JobResult.of(state, _alone_seconds(state, empty)) for state in cluster.ended),
            key=lambda job: (job.arrived_at, job.uid),
        )
        capacity = total(node.allocatable for node in cluster.nodes)
        return cls(*who, capacity, tuple(jobs), tuple(timeline), tuple(forecasts))

    @property
    def began_at(self) -> float:
        """The first arrival."""
        return min(job.arrived_at for job in self.jobs)

    @property
    def ended_at(self) -> float:
        """The last end."""
        return max(job.finished_at for job in self.jobs)

    @property
    def makespan_seconds(self) -> float:
        """From the first arrival to the last end."""
        return self.ended_at - self.began_at


def by_policy(found: Iterable[Simulation]) -> dict[str, list[Simulation]]:
    """The simulations of each policy, in order of appearance."""
    groups: dict[str, list[Simulation]] = {}
    for each in found:
        groups.setdefault(each.policy, []).append(each)
    return groups

"""The values that the interval driver is told, keeps between two steps, and asks to be done."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Final, Protocol

from optimus.allocation import NO_MEMORY, JobHistory, PolicyMemory
from optimus.allocation.policy import Service
from optimus.errors import NotReady
from optimus.interval.capacity_plan import Claim, Held
from optimus.interval.classify import Decision, IntervalConfig
from optimus.interval.inputs import IntervalPlan, Strategies
from optimus.interval.node_kinds import LogFactors
from optimus.interval.worth import FOR_EVER, Loan
from optimus.jobs import Binding, Counts, Job
from optimus.models.forecast import Forecast
from optimus.nodes import NODE_KIND_LABEL, Node
from optimus.placement.first_kind import NO_ORDERS, KindOrders
from optimus.progress.types import TrainingProgress
from optimus.rescale.purpose import RescalePurpose
from optimus.snapshot import ClusterSnapshot

ROUND_PRICES: Final = 10
"""Length of a round in which jobs take turns, as a multiple of what a restart costs."""

ROUND_PARTS: Final = 0.6, 2.4
"""The least and the most length of such a round, in intervals: 360 and 1,440 s by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverConfig:
    """When intervals and profiling runs begin."""

    interval: IntervalConfig = field(default_factory=IntervalConfig)

    interval_seconds: float = 600.0
    """Seconds between two intervals. Default: the paper's 10 minutes."""

    early_interval_seconds: float = 60.0
    """Least seconds between two intervals when something has changed."""

    young_interval_seconds: float = 20.0
    """The same when a young job came or was measured, on a cluster of at most 100 managed jobs; a
    fifth of a second more for each further one. Default: what a job trains at counts that nobody
    has chosen is lost, and the price of an interval grows with the jobs."""

    measures: bool = True
    """True where speeds are measured, by profiling runs and exploratory moves."""

    expects: bool = True
    """True where a job without a forecast is decided by what is to be expected of it."""

    pauses: bool = False
    """True where jobs can be paused. Without, a job that would be paused keeps its nodes."""

    stops_together: bool = False
    """True where all jobs that an interval of a policy moves that decides anew are stopped at once,
    as the published policies are run. Without, each is stopped or resumed only once its target
    fits, and none is stopped for nothing."""

    seed: int = 0
    """What a policy draws at random follows from this and from the number of the interval."""

    kind_label: str = NODE_KIND_LABEL
    """The nodes' label that tells their kind."""


class ManagedJob(Protocol):
    """One managed job as its caller keeps it."""

    @property
    def job(self) -> Job:
        """The job as it is now."""

    def progress(self, at: float, /) -> TrainingProgress:
        """The progress of its training, from its log."""

    def history(self, at: float, /) -> JobHistory:
        """Its rescales and profiling runs so far, those of this step included."""


class ManagedCluster(Protocol):
    """The input of a step. It reflects the instructions that were carried out."""

    @property
    def at(self) -> float:
        """The instant, in seconds."""

    @property
    def nodes(self) -> tuple[Node, ...]:
        """All nodes."""

    @property
    def allowed(self) -> object:
        """Return what the quotas allow: another value where one was changed."""

    @property
    def submitted(self) -> Iterable[Job]:
        """All jobs, managed or not."""

    @property
    def managed(self) -> Mapping[str, ManagedJob]:
        """The managed jobs, by UID."""

    @property
    def received(self) -> Mapping[str, Service]:
        """Return what jobs have received, by UID, as far as that is recorded."""

    def snapshot(self) -> ClusterSnapshot:
        """The cluster as it is."""

    def claims(self, snapshot: ClusterSnapshot, /) -> Iterable[Claim]:
        """The capacity kept for rescales in progress, beyond that of their pods."""


@dataclass(frozen=True, slots=True)
class IntervalDecided:
    """An interval was decided; its rescales begin by instructions of their own."""

    plan: IntervalPlan


@dataclass(frozen=True, slots=True)
class EndProfilingRun:
    """A profiling run is over; the job continues at its counts."""

    uid: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginRescale:
    """Begin to move a job to these counts; (0, 0) suspends it for good.

    ``placement`` is where its replicas fit now, or once all that is stopped with it has left;
    ``None`` where the job only frees capacity, or its pods are to wait for some. ``kind`` is that
    of the nodes that it is bound to, ``None`` for any. ``own_counts``: those to remember as the
    user's, of a job that is moved to be measured.
    """

    uid: str
    id: str
    purpose: RescalePurpose
    counts: Counts
    reason: str
    placement: tuple[Held, ...] | None = None
    own_counts: Counts | None = None
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class PauseJob:
    """Stop a job until it is granted something again. ``id`` is the interval's."""

    uid: str
    id: str
    reason: str
    purpose: RescalePurpose = RescalePurpose.INTERVAL


Instruction = IntervalDecided | EndProfilingRun | BeginRescale | PauseJob
Histories = dict[str, JobHistory]


@dataclass(frozen=True, slots=True)
class PendingRescale:
    """A decision that has not begun, and the job as it was decided on."""

    interval_id: str
    decision: Decision
    job: Job


@dataclass(slots=True)
class DriverState:
    """The state of a driver between steps.

    ``planned_at`` is when the last interval was planned, by the caller's timer; ``planned_for``
    what it was planned on, to see whether something has changed. ``forecasts`` are its forecasts by
    UID. ``memory`` is the policy's.
    """

    intervals: int = 0
    planned_at: float | None = None
    began_at: float | None = None
    """When the first interval could have been planned, by the caller's timer."""

    planned_for: object = None
    pending: dict[str, PendingRescale] = field(default_factory=dict)
    forecasts: dict[str, Forecast | NotReady] = field(default_factory=dict)
    memory: PolicyMemory = NO_MEMORY
    arrived: tuple[Job, ...] = ()
    """The last jobs that arrived, in their order, each as it was when it was seen first."""

    loan: Loan = FOR_EVER
    """How long loans lasted by the last interval."""

    kind_factors: Mapping[str, LogFactors] = field(default_factory=dict)
    """What kinds of nodes made of the speed of the last jobs, by UID."""

    kind_orders: KindOrders = NO_ORDERS
    """On which kinds jobs that have not run yet are expected to be fastest."""

    promised: dict[str, tuple[Counts, float]] = field(default_factory=dict)
    """By job that waits for its pods to be placed, the counts that the last interval found room
    for, and when one first did."""

    swapping: frozenset[str] = frozenset()
    """The UIDs of jobs that change nodes with each other in this interval."""

    resuming: dict[str, int] = field(default_factory=dict)
    """By paused job that is to run and has not begun to, the first interval that said so."""

    fitting: dict[str, tuple[Counts, float]] = field(default_factory=dict)
    """By job without a placed pod, its counts, and since when they fit on what is free."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A step of the driver: the cluster now, and what the decision depends on beside it.

    ``timer`` is in seconds and never set back; ``histories`` are those of the managed jobs by UID,
    what this step has begun included."""

    cluster: ManagedCluster
    timer: float
    histories: Histories
    strategies: Strategies
    config: DriverConfig
    state: DriverState

    @property
    def weighs_restarts(self) -> bool:
        """Return whether the policy weighs each change against its restart."""
        return self.strategies.policy.traits.weighs_restarts

    @property
    def takes_turns(self) -> bool:
        """Return whether jobs take turns, and each turn costs a restart."""
        return self.strategies.policy.traits.time_shared and not self.config.stops_together

    @property
    def stops_together(self) -> bool:
        """Return whether all jobs that an interval moves are stopped before any of them starts."""
        return self.config.stops_together and not self.weighs_restarts

    @property
    def turn(self) -> RescalePurpose:
        """The purpose of a pause or a resume."""
        return RescalePurpose.TURN if self.takes_turns else RescalePurpose.INTERVAL

    @property
    def round_seconds(self) -> float:
        """The length of rounds in which jobs take turns: so long that restarts take a tenth of the
        time, by what they have cost."""
        config = self.config
        prices = [price for each in self.histories.values() for price in each.prices]
        price_seconds = median(prices) if prices else config.interval.rescale_seconds
        least, most = (part * config.interval_seconds for part in ROUND_PARTS)
        return min(max(ROUND_PRICES * price_seconds, least), most)

    def binding(self, kind: str | None) -> Binding | None:
        """Return what holds a job to the kind of nodes that it is granted, if these have one."""
        return Binding(self.config.kind_label, kind) if kind else None

    def progress(self, uid: str) -> TrainingProgress:
        """The progress of a managed job."""
        return self.cluster.managed[uid].progress(self.cluster.at)

    def forecast(
        self, job: Job, progress: TrainingProgress, *, expects: bool = False
    ) -> Forecast | NotReady:
        """The job's forecast, else what is to be expected of it: where jobs are decided by that,
        or (``expects``) where nothing is changed and it is only said."""
        found = self.strategies.forecast(job, progress)
        if isinstance(found, Forecast) or not (expects or self.config.expects):
            return found
        expected = self.strategies.expected_forecast(job, progress, found)
        return found if isinstance(expected, NotReady) else expected


def histories_of(cluster: ManagedCluster) -> Histories:
    """The history of each managed job, by UID."""
    return {uid: each.history(cluster.at) for uid, each in cluster.managed.items()}

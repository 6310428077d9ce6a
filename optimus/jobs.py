"""Training jobs as the scheduler models them: replicas, bounds, goals.

Kubeflow's terms throughout: a job has replica types; PSs and workers are resized, every other type
("fixed role": Chief, Master, Evaluator, MXNet's Scheduler) is part of the job's demand and of its
gang but keeps its count.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from operator import itemgetter
from typing import Final, NamedTuple, TypeVar

from optimus.resources import NONE, Resources, total

T = TypeVar("T")


class Role(StrEnum):
    """A replica type; MXNet's Server is a PS."""

    PS = "ps"
    WORKER = "worker"
    CHIEF = "chief"
    MASTER = "master"
    EVALUATOR = "evaluator"
    SCHEDULER = "scheduler"


TRAINERS: Final = (Role.CHIEF, Role.MASTER, Role.WORKER)
"""The replica types whose processes train, and that end when the training does."""


OF_ANOTHER_NAMESPACE: Final = "a job of another namespace"


class JobKey(NamedTuple):
    """Namespace and name, for people; the UID is what identifies a job."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    def seen_from(self, namespace: str) -> str:
        """As users of a namespace read it: they may not know the names of others' jobs."""
        return str(self) if self.namespace == namespace else OF_ANOTHER_NAMESPACE


def alternating(items: Iterable[T], namespace_of: Callable[[T], str]) -> list[T]:
    """The items, of each namespace the first before the second of any: where time or places end, a
    namespace with many of them has left some to the others."""
    taken, turns = Counter[str](), list[tuple[int, T]]()
    for item in items:
        namespace = namespace_of(item)
        turns.append((taken[namespace], item))
        taken[namespace] += 1
    if len(taken) > 1:
        turns.sort(key=itemgetter(0))
    return [item for _, item in turns]


class Counts(NamedTuple):
    """How many PSs and workers a job has."""

    ps: int
    workers: int

    def __str__(self) -> str:
        workers = f"{self.workers} worker{'s' if self.workers != 1 else ''}"
        return f"{self.ps} PS + {workers}" if self.ps else workers


NO_COUNTS: Final = Counts(0, 0)
"""As the target of a rescale: the job is suspended and stays so."""


@dataclass(frozen=True, slots=True)
class CountBounds:
    """The least and the most PSs and workers a user allows; ``None`` means no upper bound."""

    min_ps: int = 1
    max_ps: int | None = None
    min_workers: int = 1
    max_workers: int | None = None
    min_ps_given: bool = False
    """Whether its user set the least number of PSs; ``min_workers_given``: of workers."""
    min_workers_given: bool = False
    shares: int = 0
    """Equal parts of a step, of which each of the workers and of the ``leads``, which train beside
    them, takes as many: counts at which that cannot be are not allowed. 0: any can."""
    leads: int = 0

    def above(self, floor: Counts) -> "CountBounds":
        """The bounds with at least ``floor`` wherever the user has set no minimum."""
        least = self.clamp(floor)
        ps = self.min_ps if self.min_ps_given else least.ps
        workers = self.min_workers if self.min_workers_given else least.workers
        return replace(self, min_ps=ps, min_workers=workers)

    def below(self, ceiling: Counts) -> "CountBounds":
        """The bounds with at most ``ceiling``, or the minimum where that is more."""
        most = self.clamp(ceiling)
        return replace(self, max_ps=most.ps, max_workers=most.workers)

    def within(self, other: "CountBounds") -> "CountBounds":
        """The least counts of the other bounds, and no more than both allow."""
        ps, workers = (
            min((each for each in limits if each is not None), default=None)
            for limits in ((self.max_ps, other.max_ps), (self.max_workers, other.max_workers))
        )
        return replace(
            other,
            max_ps=None if ps is None else max(ps, other.min_ps),
            max_workers=None if workers is None else max(workers, other.min_workers),
        )

    @property
    def minimum(self) -> Counts:
        """The smallest counts that are allowed."""
        return Counts(self.min_ps, self._even(self.min_workers))

    def allow(self, counts: Counts) -> bool:
        """Return whether both counts lie within the bounds."""
        return self.clamp(counts) == counts

    def why_not(self, counts: Counts) -> str:
        """Return which bound these counts break, for people; empty where they are allowed."""
        if self.max_ps is not None and counts.ps > self.max_ps:
            return f"it may have at most {self.max_ps} PS" if self.max_ps else "it has no PSs"
        if self.max_workers is not None and counts.workers > self.max_workers:
            return f"it may have at most {Counts(0, self.max_workers)}"
        if counts.ps < self.min_ps or counts.workers < self.min_workers:
            return f"it may have no fewer than {self.minimum}"
        if self.shares_evenly(counts):
            return ""
        near = self.clamp(counts)
        can = f"; {near} can" if self.shares_evenly(near) else ""
        return f"{counts} cannot share its batch equally{can}"

    def up_to(self, widest: Counts) -> list[Counts]:
        """All counts within the bounds of at most so many PSs and workers, the minimum always."""
        low, high = self.minimum, self.clamp(widest)
        rows, columns = range(low.ps, high.ps + 1), range(low.workers, high.workers + 1)
        every = (Counts(ps, workers) for ps in rows for workers in columns)
        return [each for each in every if self.allow(each)]

    def clamp(self, counts: Counts) -> Counts:
        """The nearest counts within the bounds."""
        ps = max(counts.ps, self.min_ps)
        workers = max(counts.workers, self.min_workers)
        return Counts(
            ps if self.max_ps is None else min(ps, self.max_ps),
            self._even(workers if self.max_workers is None else min(workers, self.max_workers)),
        )

    def _even(self, workers: int) -> int:
        """The most workers up to these that share a step equally, or the fewest above."""
        if self.shares_evenly(Counts(0, workers)):
            return workers
        most = self.shares if self.max_workers is None else self.max_workers
        tried = chain(range(workers, self.min_workers - 1, -1), range(workers, most + 1))
        return next((each for each in tried if self.shares_evenly(Counts(0, each))), workers)

    def shares_evenly(self, counts: Counts) -> bool:
        """Return whether all that train take equal parts of a step at these counts."""
        trainers = counts.workers + self.leads
        return not self.shares or (trainers > 0 and self.shares % trainers == 0)


class TrainingMode(StrEnum):
    """Whether workers step together (sync) or each at its own pace (async)."""

    SYNC = "sync"
    ASYNC = "async"


class BatchScope(StrEnum):
    """Whether the batch size is that of the whole job (M of the paper) or of one worker."""

    JOB = "job"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Batch:
    """Examples per step, of the job or of each worker."""

    size: int
    scope: BatchScope
    rate_follows: bool = False
    """Whether the learning rate grows with the batch of the job, so that as many epochs are needed
    with more synchronous workers (Goyal et al., 2017). Without it they need as many *steps*."""

    @property
    def of_worker(self) -> bool:
        """Whether every worker has one of its own."""
        return self.scope is BatchScope.WORKER


@dataclass(frozen=True, slots=True)
class TargetLoss:
    """Done when the epoch-mean loss is at most ``loss``."""

    loss: float


@dataclass(frozen=True, slots=True)
class ConvergenceThreshold:
    """Done when, for several epochs, the loss changes by less than ``fraction`` of the first one.

    Optimus, section 2, leaves open of what the threshold is a fraction, and what must hold beside
    it; ``models.goals`` has the whole rule."""

    fraction: float


@dataclass(frozen=True, slots=True)
class TargetEpochs:
    """Done after so many epochs, whatever the loss."""

    epochs: float


@dataclass(frozen=True, slots=True)
class TargetSteps:
    """Done after so many steps, whatever the loss."""

    steps: int


@dataclass(frozen=True, slots=True)
class TargetMetric:
    """Done when a metric of the log reaches ``value``.

    ``name`` is the metric's as the user writes it: ``accuracy``, ``validation mAP``. ``evaluated``:
    of an evaluation, or of the training; ``None``: of an evaluation where there is one."""

    name: str
    value: float
    at_least: bool
    """Whether better values are larger."""
    evaluated: bool | None = None


Target = TargetLoss | TargetMetric
"""A value that a loss or another metric has to reach."""


LossGoal = TargetLoss | ConvergenceThreshold
"""A goal that the losses meet."""

AmountGoal = TargetEpochs | TargetSteps
"""A goal that an amount of training meets."""

Goal = LossGoal | TargetMetric | AmountGoal


def counted(number: float, unit: str) -> str:
    """``12 epochs``, ``1 epoch``: a number and the plural of its unit."""
    text = f"{number:.6g}"
    return f"{text} {unit.removesuffix('s') if text == '1' else unit}"


def goal_text(goal: Goal | None) -> str:
    """A goal as users read it."""
    match goal:
        case TargetLoss(loss=loss):
            return f"loss <= {loss:g}"
        case ConvergenceThreshold(fraction=fraction):
            return f"falls < {100 * fraction:g} %"
        case TargetMetric(name=name, value=value, at_least=at_least):
            return f"{name} {'>=' if at_least else '<='} {value:g}"
        case TargetEpochs(epochs=epochs):
            return counted(epochs, "epochs")
        case TargetSteps(steps=steps):
            return f"{steps} steps"
        case None:
            return ""


class AtTarget(StrEnum):
    """What happens once the goal is met."""

    CONTINUE = "continue"
    SUSPEND = "suspend"
    COMPLETE = "complete"
    """Its pods are notified, and end by themselves."""


class RescaleRule(StrEnum):
    """When a job may be rescaled: right after a checkpoint, at any time, never."""

    CHECKPOINT = "checkpoint"
    ANY = "any"
    NEVER = "never"


class Manage(StrEnum):
    """Whether a job's counts are changed, or it is only said what they would be."""

    AUTO = "auto"
    RECOMMEND = "recommend"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration; an empty key tolerates every key, an empty effect every effect."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One node-affinity requirement: ``operator`` is In, NotIn, Exists, DoesNotExist, Gt or Lt.

    ``field`` asks for the node's name instead of a label (``matchFields``).
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()
    field: bool = False


@dataclass(frozen=True, slots=True)
class NodeConstraints:
    """Which nodes a replica may go to: node selector, required node affinity, tolerations.

    ``affinity`` holds alternatives, of which one must hold whole; no alternatives means no
    restriction."""

    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()


UNCONSTRAINED: Final = NodeConstraints()


@dataclass(frozen=True, slots=True)
class ReplicaSpec:
    """What one replica of a type requests, and where it may go."""

    resources: Resources = NONE
    constraints: NodeConstraints = UNCONSTRAINED

    def bound_to(self, binding: "Binding") -> "ReplicaSpec":
        """The same on nodes of this kind alone."""
        selector = (*self.constraints.selector, (binding.label, binding.kind))
        return replace(self, constraints=replace(self.constraints, selector=selector))

    def without(self, resources: Collection[str]) -> "ReplicaSpec":
        """The same without these resources."""
        left = self.resources.without(resources)
        return self if left is self.resources else replace(self, resources=left)


class Binding(NamedTuple):
    """The kind of nodes that a job's workers are held to: a label, and the value that tells it."""

    label: str
    kind: str


@dataclass(frozen=True, slots=True)
class FixedRole:
    """A replica type that is never resized."""

    role: Role
    count: int
    spec: ReplicaSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One TFJob, MXJob or PyTorchJob, valid and unfinished.

    ``counts`` are those of the job's spec. ``goal`` is ``None`` for a job that is not managed: it
    is placed as a gang and never resized. ``left_alone`` says why a job with a goal
    is not managed. ``suspended`` is ``runPolicy.suspend``. ``created_at`` is in
    seconds since the epoch, UTC.
    ``loss_metric``, ``metrics_format`` and ``checkpoint_format`` say how the job's log is to be
    read, as its user wrote them: the name of the loss, and two regular expressions; ``lr_schedule``
    is the schedule of the learning rate, likewise. ``command`` is the beginning of what its workers
    run, with the arguments.
    """

    key: JobKey
    uid: str
    kind: str
    created_at: float
    counts: Counts
    ps: ReplicaSpec
    worker: ReplicaSpec
    fixed: tuple[FixedRole, ...] = ()
    bounds: CountBounds = field(default_factory=CountBounds)
    mode: TrainingMode = TrainingMode.ASYNC
    mode_is_assumed: bool = False
    """Whether neither its user nor its command says the mode."""

    batch: Batch | None = None
    steps_per_epoch: float | None = None
    ps_unevenness: tuple[float, ...] = ()
    """The largest part of the model on one PS, divided by the mean, for 1, 2, 3, ... PSs; empty: 1
    for all."""

    goal: Goal | None = None
    finish_by: float | None = None
    """The instant, in seconds since the epoch, by which the goal should be met."""

    at_target: AtTarget = AtTarget.CONTINUE
    rescale: RescaleRule = RescaleRule.CHECKPOINT
    saves_on_stop: bool | None = None
    """Whether it saves when it is stopped, as its user says; ``None``: that is not said."""

    manage: Manage = Manage.AUTO
    paused: bool = False
    """Its user wants no change of it for now."""

    workload: str | None = None
    """Jobs of one namespace with the same workload share what was learned of them."""

    image: str = ""
    """The image of its workers' first container, where it is known."""

    chief_trains: bool = False
    """Whether its Chief or Master trains beside the workers: without PSs always."""

    suspended: bool = False
    preempted_for: str = ""
    """The job, NAMESPACE/NAME, that the autoscaler suspended this one for."""

    priority: int = 0
    """The lowest of its pods, or of its templates while it has none, as far as they are known."""

    priority_class: str = ""
    """The name of its PriorityClass."""

    per_server: int = 0
    """How many of its workers a node of the cluster holds at most; 0: not known."""

    left_alone: str | None = None
    command: str = ""
    lr_schedule: str | None = None
    loss_metric: str | None = None
    metrics_format: str | None = None
    checkpoint_format: str | None = None

    def without(self, resources: Collection[str]) -> "Job":
        """The job without what its replicas request of these resources."""
        if not resources:
            return self
        ps, worker = self.ps.without(resources), self.worker.without(resources)
        fixed = tuple(replace(each, spec=each.spec.without(resources)) for each in self.fixed)
        return replace(self, ps=ps, worker=worker, fixed=fixed)

    def bound_to(self, binding: Binding | None) -> "Job":
        """The job with its workers on nodes of this kind alone; PSs go anywhere."""
        return self if binding is None else replace(self, worker=self.worker.bound_to(binding))

    @property
    def managed(self) -> bool:
        """Whether this software may change the job's counts."""
        return self.goal is not None and self.left_alone is None

    @property
    def trainers(self) -> dict[Role, int]:
        """How many replicas of each role train, Chiefs and Masters first."""
        leads = {role.role: role.count for role in self.fixed if role.role in TRAINERS}
        workers = {Role.WORKER: self.counts.workers}
        return (leads if self.chief_trains else {}) | workers

    @property
    def all_reduce(self) -> bool:
        """Whether its workers exchange gradients among themselves: it has no PSs."""
        return not self.counts.ps

    @property
    def leads(self) -> int:
        """How many replicas beside the workers train."""
        return sum(self.trainers.values()) - self.counts.workers

    @property
    def size(self) -> str:
        """Its counts; of a job without PSs all that trains: ``1 master + 3 workers``."""
        if self.counts.ps:
            return str(self.counts)
        parts = [
            f"{count} {role}{'s' if count != 1 else ''}"
            for role, count in self.trainers.items()
            if count
        ]
        return " + ".join(parts) or "0 workers"

    @property
    def splits_batch(self) -> bool:
        """Whether each of fewer workers may get a larger part of the batch: not where every worker
        has a batch of its own."""
        if self.batch is None:
            return self.mode is TrainingMode.SYNC
        return self.batch.scope is BatchScope.JOB

    def demand(self, counts: Counts | None = None) -> Resources:
        """What the whole job requests, fixed roles included, at ``counts`` (default: its own)."""
        ps, workers = counts or self.counts
        fixed = total(role.spec.resources * role.count for role in self.fixed)
        return self.ps.resources * ps + self.worker.resources * workers + fixed


DEFAULT_WORKLOADS: Final = "auto-"
"""Begins the name of a workload that no user has named."""


def default_workload(what_runs: str) -> str:
    """The workload of jobs that run the same and whose users name none, as a DNS label."""
    return DEFAULT_WORKLOADS + hashlib.sha256(what_runs.encode()).hexdigest()[:20]

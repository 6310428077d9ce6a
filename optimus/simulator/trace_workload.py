"""Jobs as somebody else's trace tells them: counts, requests and an amount of work.

A trace rarely says how a job's speed depends on its counts. That dependence, and the shape of its
loss, are those of one of the nine job types; the amount of work and the speed at the submitted
counts are the trace's:

1. The type is the trace's, else it is drawn.
2. The speed at the submitted counts, alone on the cluster, is the trace's, else the type's.
3. The steps are the trace's, or its duration times that speed, or its epochs.
4. The job ends after its steps, or as soon as its loss goal is met.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from numpy.random import Generator

from optimus.jobs import (
    Batch,
    BatchScope,
    CountBounds,
    Counts,
    Goal,
    Job,
    JobKey,
    LossGoal,
    NodeConstraints,
    ReplicaSpec,
    Requirement,
    RescaleRule,
    TargetEpochs,
    TrainingMode,
)
from optimus.nodes import NODE_KIND_LABEL, Node
from optimus.placement.theorem1 import Theorem1
from optimus.resources import PODS, Resources
from optimus.simulator.ground_truth.assignment import ParameterAssignment
from optimus.simulator.ground_truth.job_types import JOB_TYPES, JobType
from optimus.simulator.ground_truth.speed import PhysicalSpeed, ScaledSpeed, TrainingStep
from optimus.simulator.ground_truth.testbed import (
    LOSS_NOISE,
    SPEED_NOISE,
    START_SECONDS,
    rescale_seconds,
)
from optimus.simulator.jobs import SimulatedJob, TrueSpeed, Workload
from optimus.simulator.speeds import EmptyCluster
from optimus.simulator.workload import EPOCH_SECONDS, WorkloadConfig, scaled_down_steps

MOST_EPOCHS: Final = 100
"""An amount of work without epochs is split into at most so many."""

ONE_EACH: Final = Counts(1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmittedJob:
    """One job of a trace; ``None``: the trace does not say.

    At least one of ``duration_seconds``, ``steps``, ``epochs`` and ``loss_goal`` is given."""

    key: JobKey
    submit_seconds: float
    kind: str = "TFJob"
    job_type: JobType | None = None
    mode: TrainingMode = TrainingMode.SYNC
    counts: Counts = ONE_EACH
    bounds: CountBounds = field(default_factory=CountBounds)
    ps: Resources | None = None
    worker: Resources | None = None
    """Requests of a PS and of a worker. ``None``: the type's."""
    duration_seconds: float | None = None
    """Seconds of training at the submitted counts, without waiting and restarts."""
    steps: float | None = None
    steps_per_second: float | None = None
    """At the submitted counts."""
    kind_speeds: Mapping[str, float] | None = None
    """The same on each kind of nodes, 0 where it cannot run; its counts are never changed then."""
    epochs: int | None = None
    steps_per_epoch: float | None = None
    loss_goal: LossGoal | None = None
    finish_by_seconds: float | None = None
    """Its deadline, on the same clock as ``submit_seconds``."""
    priority: int = 0
    weight: float = 1.0
    """Of the job, under policies that weigh jobs."""
    workload: str | None = None
    rescale: RescaleRule = RescaleRule.ANY
    """Default: at any time. Simulated logs show no checkpoints."""

    @property
    def order(self) -> tuple[float, JobKey]:
        """Jobs are numbered, and limited, in this order."""
        return self.submit_seconds, self.key


@dataclass(frozen=True, slots=True)
class SubmittedWorkload:
    """The first jobs of a trace; implements ``optimus.simulator.jobs.WorkloadMaker``."""

    name: str
    submitted: Sequence[SubmittedJob]
    nodes: tuple[Node, ...]
    config: WorkloadConfig = field(default_factory=WorkloadConfig)

    def __call__(self, jobs: int, rng: Generator) -> Workload:
        """The first ``jobs`` of the trace; the generator draws only what it does not state."""
        first = sorted(self.submitted, key=lambda each: each.order)[:jobs]
        empty = EmptyCluster(self.nodes, Theorem1())
        built = []
        for each in first:
            kind = JOB_TYPES[int(rng.integers(len(JOB_TYPES)))]
            seed = int(rng.integers(2**32))  # drawn for every job: a stated type shifts nothing
            kind = each.job_type or kind
            built.append(_Truth(each, kind, self.config, empty).build(seed))
        weights = {_class(each): each.weight for each in first if each.weight != 1}
        return Workload(self.name, tuple(built), self.nodes, weights)


def _class(submitted: SubmittedJob) -> str:
    """The PriorityClass that a job's weight stands for."""
    return f"weight-{submitted.weight:g}" if submitted.weight != 1 else ""


@dataclass(frozen=True, slots=True)
class KindSpeed:
    """A speed that only the kind of the workers' nodes changes."""

    full: float

    def steps_per_second(
        self, _: tuple[Counts, ...], straggling: tuple[float, ...] = (), /
    ) -> float:
        """As fast as the slowest worker."""
        return self.full * min(straggling, default=1.0)


@dataclass(frozen=True, slots=True)
class _Truth:
    """What is true of one job."""

    submitted: SubmittedJob
    kind: JobType
    config: WorkloadConfig
    empty: EmptyCluster

    def build(self, seed: int) -> SimulatedJob:
        """The job as its user submits it, with its true speed and loss."""
        submitted, kind = self.submitted, self.kind
        physical, of_kinds = self._physical(seed), self._of_kinds()
        speed: TrueSpeed = physical
        if of_kinds:
            wanted = max(of_kinds.values())
            speed = KindSpeed(wanted)
        else:
            own = speed.steps_per_second(self._servers())
            wanted = self._steps_per_second(own)
            speed = speed if wanted == own else ScaledSpeed(speed, wanted / own)
        epochs, steps_per_epoch = self._epochs(physical, wanted)
        goal = submitted.loss_goal or TargetEpochs(epochs)
        return SimulatedJob(
            job=self._job(steps_per_epoch, goal),
            kind=kind.name,
            speed=speed,
            loss=kind.loss,
            steps_per_epoch=steps_per_epoch,
            most_epochs=epochs,
            speed_noise=SPEED_NOISE,
            loss_noise=LOSS_NOISE,
            start_seconds=START_SECONDS,
            rescale_seconds=rescale_seconds(kind.model_mb),
            straggling=self.config.straggling,
            kind_speeds={name: each / wanted for name, each in of_kinds.items()},
        )

    def _of_kinds(self) -> Mapping[str, float]:
        """Its speeds on the kinds of the nodes; on nodes without a kind, the one that is stated."""
        speeds, usual = self.submitted.kind_speeds, self.submitted.steps_per_second
        if speeds is None or usual is None:
            return {}
        kinds = {node.labels.get(NODE_KIND_LABEL, "") for node in self.empty.nodes}
        told = {kind: speeds.get(kind, usual) for kind in sorted(kinds)}
        return told if any(told.values()) else {"": usual}

    def _batch(self) -> Batch:
        if self.submitted.mode is TrainingMode.SYNC:
            return Batch(self.kind.batch, BatchScope.JOB)
        return Batch(self.kind.async_batch, BatchScope.WORKER)

    def _physical(self, seed: int) -> PhysicalSpeed:
        kind, config = self.kind, self.config
        step = TrainingStep(
            self.submitted.mode, self._batch().size, kind.gflop_per_example, kind.model_mb
        )
        parameters = ParameterAssignment(config.assignment, kind.sizes, seed)
        return PhysicalSpeed(step, parameters, config.hardware)

    def _servers(self) -> tuple[Counts, ...]:
        """Return where the job would run at its submitted counts if it were alone. One that does
        not fit so is taken to have each replica on a server of its own."""
        counts = self.submitted.counts
        apart = (Counts(1, 0),) * counts.ps + (Counts(0, 1),) * counts.workers
        return self.empty.servers(self._job(1.0, TargetEpochs(1)), counts) or apart

    def _steps_per_second(self, own: float) -> float:
        submitted = self.submitted
        if submitted.steps_per_second is not None:
            return submitted.steps_per_second
        if submitted.steps is not None and submitted.duration_seconds is not None:
            return submitted.steps / submitted.duration_seconds
        return own

    def _epochs(self, physical: PhysicalSpeed, speed: float) -> tuple[int, float]:
        """The number of epochs, at most, and the steps of one."""
        submitted, steps = self.submitted, self.submitted.steps
        if steps is None and submitted.duration_seconds is not None:
            steps = submitted.duration_seconds * speed
        if steps is None:
            usual = scaled_down_steps(physical.training, self.kind.examples, self._batch().size)
            return submitted.epochs or MOST_EPOCHS, submitted.steps_per_epoch or usual
        if submitted.epochs is not None:
            return submitted.epochs, steps / submitted.epochs
        in_epoch = submitted.steps_per_epoch or speed * EPOCH_SECONDS
        most = MOST_EPOCHS if submitted.steps_per_epoch is None else 10 * MOST_EPOCHS
        epochs = min(max(round(steps / in_epoch), 1), most)
        return epochs, steps / epochs

    def _job(self, steps_per_epoch: float, goal: Goal) -> Job:
        submitted, kind = self.submitted, self.kind
        return Job(
            key=submitted.key,
            uid=str(submitted.key),
            kind=submitted.kind,
            created_at=submitted.submit_seconds,
            counts=submitted.counts,
            ps=ReplicaSpec(_with_pod(kind.ps if submitted.ps is None else submitted.ps)),
            worker=ReplicaSpec(_with_pod(submitted.worker or kind.worker), self._never_on()),
            bounds=submitted.bounds,
            mode=submitted.mode,
            batch=self._batch(),
            steps_per_epoch=steps_per_epoch,
            goal=goal,
            finish_by=submitted.finish_by_seconds,
            rescale=submitted.rescale,
            workload=submitted.workload,
            priority=submitted.priority,
            priority_class=_class(submitted),
        )

    def _never_on(self) -> NodeConstraints:
        """Its user keeps its workers off the kinds of nodes on which it cannot run."""
        speeds = self.submitted.kind_speeds or {}
        never = tuple(sorted(kind for kind, each in speeds.items() if not each))
        if not never:
            return NodeConstraints()
        return NodeConstraints(affinity=((Requirement(NODE_KIND_LABEL, "NotIn", never),),))


def _with_pod(requests: Resources) -> Resources:
    return requests if requests[PODS] else requests + Resources({PODS: 1})

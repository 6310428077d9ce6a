"""Small workloads whose results can be computed by hand, or drawn at random."""

from dataclasses import dataclass, field

from optimus.jobs import (
    CountBounds,
    Counts,
    Goal,
    Job,
    JobKey,
    ReplicaSpec,
    RescaleRule,
    TargetLoss,
    TrainingMode,
)
from optimus.nodes import Node
from optimus.resources import Resources
from optimus.simulator.jobs import SimulatedJob, Straggling, Workload

PS = Resources(cpu=1000)
WORKER = Resources(cpu=1000)
ONE_EACH = Counts(1, 1)


@dataclass(frozen=True)
class Speed:
    """``each`` steps per second for each worker, less for each server over which the job is
    spread."""

    each: float = 1.0
    apart: float = 0.0
    batch: float = 0.0

    def steps_per_second(
        self, servers: tuple[Counts, ...], straggling: tuple[float, ...] = (), /
    ) -> float:
        workers = sum(server.workers for server in servers)
        ps = sum(server.ps for server in servers)
        rate = self.each * (workers - len(straggling) + sum(straggling))
        return rate / (1 + self.apart * (len(servers) - 1) + self.batch * workers / ps)


@dataclass(frozen=True)
class Loss:
    """Hyperbola: 1 / (rate k + 1) + floor."""

    rate: float = 0.2
    floor: float = 0.1

    def after(self, epochs: float, /) -> float:
        return 1 / (self.rate * epochs + 1) + self.floor


@dataclass(frozen=True)
class JobParameters:
    """How a job is made; ``epochs`` is when its loss meets its goal, without noise."""

    arrives: float = 0.0
    epochs: int = 10
    counts: Counts = ONE_EACH
    speed: Speed = field(default_factory=Speed)
    steps_per_epoch: float = 10.0
    bounds: CountBounds = field(default_factory=CountBounds)
    mode: TrainingMode = TrainingMode.ASYNC
    ps: Resources = PS
    worker: Resources = WORKER
    noise: float = 0.0
    start_seconds: float = 0.0
    rescale_seconds: float = 30.0
    straggling: Straggling | None = None
    goal: Goal | None = None
    loss: Loss = field(default_factory=Loss)


def job(name: str, parameters: JobParameters | None = None) -> SimulatedJob:
    parameters = parameters or JobParameters()
    submitted = Job(
        key=JobKey("default", name),
        uid=name,
        kind="TFJob",
        created_at=parameters.arrives,
        counts=parameters.counts,
        ps=ReplicaSpec(parameters.ps),
        worker=ReplicaSpec(parameters.worker),
        bounds=parameters.bounds,
        mode=parameters.mode,
        steps_per_epoch=parameters.steps_per_epoch,
        # A target is met by two epochs in a row: that before the last, and the last.
        goal=parameters.goal or TargetLoss(parameters.loss.after(max(parameters.epochs - 1, 1))),
        rescale=RescaleRule.ANY,  # simulated logs show no checkpoints
    )
    return SimulatedJob(
        job=submitted,
        kind="test",
        speed=parameters.speed,
        loss=parameters.loss,
        steps_per_epoch=parameters.steps_per_epoch,
        most_epochs=10 * parameters.epochs,
        speed_noise=parameters.noise,
        loss_noise=parameters.noise,
        start_seconds=parameters.start_seconds,
        rescale_seconds=parameters.rescale_seconds,
        straggling=parameters.straggling,
    )


def nodes(count: int, cpu: int = 4) -> tuple[Node, ...]:
    return tuple(Node(f"node-{n}", Resources(cpu=cpu * 1000)) for n in range(count))


def workload(*jobs: SimulatedJob, on: tuple[Node, ...] | None = None) -> Workload:
    return Workload("test", tuple(jobs), on or nodes(2))

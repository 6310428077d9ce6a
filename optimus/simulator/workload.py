"""Workloads: when jobs arrive and which they are, as in Optimus, sections 6.1 and 6.3.

A random job is one of nine types, sync or async, with a threshold of 1 to 5 %. Large data sets are
scaled down, as there: an epoch takes at most so long with one PS and one worker. What is drawn for
a job does not depend on the settings, so that workloads of one seed differ in nothing else."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from optimus.jobs import (
    Batch,
    BatchScope,
    ConvergenceThreshold,
    Counts,
    Job,
    JobKey,
    ReplicaSpec,
    RescaleRule,
    TrainingMode,
    default_workload,
)
from optimus.simulator.ground_truth.assignment import EVEN, AssignmentRule, ParameterAssignment
from optimus.simulator.ground_truth.job_types import JOB_TYPES, JobType
from optimus.simulator.ground_truth.speed import PhysicalSpeed, ScaledSpeed, TrainingStep
from optimus.simulator.ground_truth.testbed import (
    LOSS_NOISE,
    SPEED_NOISE,
    START_SECONDS,
    TESTBED,
    Hardware,
    nodes,
    rescale_seconds,
)
from optimus.simulator.jobs import SimulatedJob, Straggling, Workload

WINDOW_SECONDS: Final = 12_000.0
"""Jobs arrive within so long (section 6.1)."""
SLOT_SECONDS: Final = 600.0
JOBS_PER_SLOT: Final = 3.0
"""Mean number of jobs that arrive in an interval (section 6.3)."""
_LEAST_THRESHOLD, _MOST_THRESHOLD = 0.01, 0.05
_APART: Final = (Counts(1, 0), Counts(0, 1))

EPOCH_SECONDS: Final = 180.0
"""Longest epoch with one PS and one worker. The one fitted constant: with it the paper's own policy
takes 1161 s a job on average, as published, so that as many jobs share the testbed as there."""
STRAGGLING: Final = Straggling(seconds_between=86_400.0, seconds=600.0, speed_fraction=0.5)
"""Half the usual speed is what the paper calls a straggler (section 5.2). How often is not
published: once a day for a worker makes a handful in a run of some 30 workers and 6 hours. It lasts
an interval."""

Arrivals = Callable[[int, Generator], NDArray[np.float64]]
"""Draws the arrivals of so many jobs, in ascending seconds."""


def uniform(jobs: int, rng: Generator) -> NDArray[np.float64]:
    """Uniform over the window."""
    return np.sort(rng.uniform(0, WINDOW_SECONDS, jobs))


def poisson(jobs: int, rng: Generator) -> NDArray[np.float64]:
    """Exponential times between arrivals, three jobs an interval."""
    return np.cumsum(rng.exponential(SLOT_SECONDS / JOBS_PER_SLOT, jobs))


def at_intervals(jobs: int, rng: Generator) -> NDArray[np.float64]:
    """As ``uniform``, but each at the beginning of its interval: published policies decide then.

    The authors' program submits jobs so (pengyanghua/optimus, scheduler/generator.py: 60 jobs over
    20 intervals, "enqueue jobs at the beginning of each time slot"); section 6.1 says uniform."""
    return np.floor(uniform(jobs, rng) / SLOT_SECONDS) * SLOT_SECONDS


def bursts(jobs: int, rng: Generator) -> NDArray[np.float64]:
    """Autocorrelated rates per interval, as in clusters' traces.

    The logarithm of an interval's rate is normal, with an autocorrelation of 0.5: the busiest of
    the window's 20 intervals has some five times the mean."""
    slots = int(WINDOW_SECONDS / SLOT_SECONDS)
    level, levels = rng.normal(), np.empty(slots)
    for slot in range(slots):
        levels[slot] = level
        level = 0.5 * level + np.sqrt(1 - 0.5**2) * rng.normal()
    rates = np.exp(1.2 * levels)
    slot_of = rng.choice(slots, jobs, p=rates / rates.sum())
    return np.sort((slot_of + rng.uniform(0, 1, jobs)) * SLOT_SECONDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadConfig:
    """What is the same for all jobs of a workload."""

    assignment: AssignmentRule = AssignmentRule.EVEN
    """Default: evenly, since the framework assigns parameters and not a scheduler."""
    epoch_seconds: float = EPOCH_SECONDS
    """Data sets are scaled down to epochs of this length with one PS and one worker."""
    size_spread: float = 0.0
    """Standard deviation of the logarithm of a factor on epochs; their mean stays.
    Default: none, since data sets were scaled down to runs of a like length."""
    mode: TrainingMode | None = None
    """All jobs train in this mode; ``None``: at random."""
    straggling: Straggling | None = STRAGGLING
    """``None``: workers never straggle."""
    hardware: Hardware = TESTBED
    """Speed of the containers."""
    machines: int = 1
    """Multiple of the testbed's 13 servers."""
    by_image: bool = False
    """Jobs of one type and mode run one image with one command. Default: each has its own."""


class JobChoice(NamedTuple):
    """What a user decides; ``examples`` of an epoch, ``None``: the data set, scaled down."""

    kind: JobType
    mode: TrainingMode
    threshold: float
    examples: float | None = None


@dataclass(frozen=True, slots=True)
class RandomWorkload:
    """Implements ``optimus.simulator.jobs.WorkloadMaker``."""

    name: str
    arrivals: Arrivals
    config: WorkloadConfig = field(default_factory=WorkloadConfig)

    def __call__(self, jobs: int, rng: Generator) -> Workload:
        """A workload of so many jobs; the same generator state gives the same workload."""
        arrivals = self.arrivals(jobs, rng)
        choices = [(_draw_choice(rng), int(rng.integers(2**32))) for _ in arrivals]
        drawn = (
            _build_job(number, arrival, *choices[number], self.config)
            for number, arrival in enumerate(arrivals.tolist())
        )
        return Workload(self.name, tuple(drawn), nodes(self.config.machines))


WORKLOADS: Final[Mapping[str, RandomWorkload]] = MappingProxyType(
    {
        name: RandomWorkload(name, draw)
        for name, draw in {
            "uniform": uniform,
            "interval-starts": at_intervals,
            "poisson": poisson,
            "bursts": bursts,
        }.items()
    }
)
"""Value of ``--workload`` -> the workload of Optimus, section 6.1, on its 13 servers."""


def _draw_choice(rng: Generator) -> JobChoice:
    kind = JOB_TYPES[int(rng.integers(len(JOB_TYPES)))]
    mode = TrainingMode.SYNC if rng.random() < 0.5 else TrainingMode.ASYNC
    return JobChoice(kind, mode, float(rng.uniform(_LEAST_THRESHOLD, _MOST_THRESHOLD)))


def _build_job(
    number: int, arrival: float, choice: JobChoice, seed: int, config: WorkloadConfig
) -> SimulatedJob:
    """The job as its user submits it, with its truth; ``seed`` is for what is random within it."""
    kind, mode = choice.kind, config.mode or choice.mode
    sync = mode is TrainingMode.SYNC
    batch = (
        Batch(kind.batch, BatchScope.JOB) if sync else Batch(kind.async_batch, BatchScope.WORKER)
    )
    speed = PhysicalSpeed(
        TrainingStep(mode, batch.size, kind.gflop_per_example, kind.model_mb),
        ParameterAssignment(config.assignment, kind.sizes, seed),
        config.hardware,
    )
    examples = choice.examples or _scaled_down(
        speed.training, kind.examples, _epoch_seconds(config, seed)
    )
    steps = max(examples / batch.size, 1.0)
    name = f"job-{number:04}"
    job = Job(
        key=JobKey("paper", name),
        uid=name,
        kind="MXJob",
        created_at=arrival,
        counts=Counts(1, 1),
        ps=ReplicaSpec(kind.ps),
        worker=ReplicaSpec(kind.worker),
        mode=mode,
        batch=batch,
        steps_per_epoch=steps,
        goal=ConvergenceThreshold(choice.threshold),
        rescale=RescaleRule.ANY,
        workload=default_workload(f"{kind.name} {mode}" if config.by_image else name),
    )
    return SimulatedJob(
        job=job,
        kind=kind.name,
        speed=speed,
        loss=kind.loss,
        steps_per_epoch=steps,
        goal_at=_goal_at(seed),
        most_epochs=100,
        speed_noise=SPEED_NOISE,
        loss_noise=LOSS_NOISE,
        start_seconds=START_SECONDS,
        rescale_seconds=rescale_seconds(kind.model_mb),
        straggling=config.straggling,
    )


def on_kinds(simulated: SimulatedJob, arithmetic: Mapping[str, float]) -> SimulatedJob:
    """The job where workers on nodes of a kind compute at this part of the usual speed: how much
    that slows the job depends on how much of its step is computing."""
    speed = simulated.speed
    physical = speed.physical if isinstance(speed, ScaledSpeed) else speed
    if not isinstance(physical, PhysicalSpeed):
        raise TypeError(f"the speed of {simulated.job.key} has no arithmetic")

    def steps_per_second(part: float) -> float:
        usual = physical.hardware
        slower = replace(usual, gflop_per_second=usual.gflop_per_second * part)
        return replace(physical, hardware=slower).steps_per_second(_APART)

    full = steps_per_second(1.0)
    kind_speeds = {kind: steps_per_second(part) / full for kind, part in arithmetic.items()}
    return replace(simulated, kind_speeds=kind_speeds)


def scaled_down_steps(training: TrainingStep, examples: int, batch: int) -> float:
    """Steps of an epoch of the type's data set, scaled down as usual."""
    return max(_scaled_down(training, examples, EPOCH_SECONDS) / batch, 1.0)


def _goal_at(seed: int) -> float | None:
    declares, at = np.random.default_rng((seed, 1)).random(2)
    # Goals lie evenly from this part of the declared run to its end. Of 130 published logs with a
    # loss 128 declare one.
    return float(0.4 + (1 - 0.4) * at) if declares < 0.9 else None


def _epoch_seconds(config: WorkloadConfig, seed: int) -> float:
    deviation = np.random.default_rng(seed).standard_normal()
    return config.epoch_seconds * float(
        np.exp(config.size_spread * deviation - config.size_spread**2 / 2)
    )


def _scaled_down(training: TrainingStep, examples: int, epoch_seconds: float) -> float:
    """Examples of an epoch that takes at most so long on the usual hardware."""
    speed = PhysicalSpeed(training, EVEN, TESTBED).steps_per_second(_APART)
    return min(examples, epoch_seconds * speed * training.examples)

"""The paper's experiments on the simulated testbed: each setup on the same workloads, seed by seed,
as ratios.

1. Evaluation: DRF and Tetris to the paper's own policy, with its five mixes of jobs and arrivals
  (sections 6.2, 6.3).
2. Ablation: their allocation with its placement, and its allocation with their placements (section
  6.3).
3. Error sensitivity: its policy with forecasts that are off, to itself with the truth (section
  6.4).
A workload's draws depend on the seed alone, so that a ratio differs from 1 by the setup alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from optimus.jobs import TrainingMode
from optimus.simulator.engine import simulate
from optimus.simulator.forecasts import ForecastSource, TrueForecasts
from optimus.simulator.ground_truth.testbed import (
    CPU_SERVERS,
    GPU_SERVERS,
    paper_hardware,
    shared_links,
)
from optimus.simulator.paper.published import ERRORS
from optimus.simulator.paper.setups import PUBLISHED_ERRORS, REFERENCE, Setup, mixed, setup
from optimus.simulator.results import Simulation
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.summary import PolicySummary, summarise
from optimus.simulator.workload.arrivals import Arrivals, at_intervals, bursts, poisson, uniform
from optimus.simulator.workload.random_jobs import (
    EPOCH_SECONDS,
    AssignmentRule,
    RandomWorkload,
    WorkloadConfig,
)

JOBS: Final = 60
"""Jobs of a run. The paper does not say; its authors' own files have 60."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One mix of jobs and arrivals."""

    arrivals: Arrivals = uniform
    config: WorkloadConfig = field(default_factory=WorkloadConfig)
    jobs: int = JOBS


SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        "testbed": Setting(),
        "async": Setting(config=WorkloadConfig(mode=TrainingMode.ASYNC)),
        "sync": Setting(config=WorkloadConfig(mode=TrainingMode.SYNC)),
        "poisson": Setting(poisson),
        "trace": Setting(bursts),
    }
)
"""The five mixes, by the names of ``published.EVALUATION``. ``trace`` is generated: as bursty as a
cluster's trace."""


CAUSES: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        "as it is": Setting(),
        "link at line rate, the rest the PS's own": Setting(
            config=WorkloadConfig(hardware=paper_hardware(0.0))
        ),
        "all the network's": Setting(config=WorkloadConfig(hardware=paper_hardware(1.0))),
        "arrivals with the intervals": Setting(at_intervals),
        "half the work": Setting(config=WorkloadConfig(epoch_seconds=EPOCH_SECONDS / 2)),
        "twice the work": Setting(config=WorkloadConfig(epoch_seconds=EPOCH_SECONDS * 2)),
        "work of a few long jobs": Setting(config=WorkloadConfig(size_spread=1.0)),
    }
)
"""What the paper leaves open about its testbed, exchanged one at a time."""


class Task(NamedTuple):
    """One simulation."""

    setting: Setting
    setup: Setup
    seed: int

    def run(self) -> Simulation:
        """Run it. The result bears the setup's name as its policy."""
        config = replace(self.setting.config, assignment=self.setup.assignment)
        if self.setup.hardware is not None:
            config = replace(config, hardware=self.setup.hardware)
        drawn = RandomWorkload("paper", self.setting.arrivals, config)
        workload = drawn(self.setting.jobs, stream(self.seed, Purpose.WORKLOAD))
        return replace(simulate(workload, self.setup.scheduler, self.seed), policy=self.setup.name)


Runner = Callable[[Sequence[Task]], Iterable[Simulation]]
"""Runs simulations; yields their results in the same order."""


def one_by_one(tasks: Sequence[Task]) -> Iterator[Simulation]:
    """The runner that does nothing else."""
    return (task.run() for task in tasks)


def compare(
    setting: Setting, setups: Sequence[Setup], seeds: Sequence[int], run: Runner
) -> tuple[PolicySummary, ...]:
    """Figures of every setup, and its ratios to the first."""
    return summarise(list(run([Task(setting, each, seed) for each in setups for seed in seeds])))


def with_shared_links(
    setups: Sequence[Setup], seeds: Sequence[int], run: Runner
) -> tuple[Setup, ...]:
    """The setups on links that are slower the more tasks a setup has on a server on average.

    The truth of one job does not know of the others, so that links are shared in the mean only,
    settled in three rounds that begin with table 2's own number of tasks.
    """
    linked = tuple(replace(each, hardware=shared_links(_TASKS_PER_SERVER)) for each in setups)
    for _ in range(_ROUNDS):
        found = list(run([Task(Setting(), each, seed) for each in linked for seed in seeds]))
        tasks = [
            float(np.mean([_tasks_per_server(one) for one in found if one.policy == each.name]))
            for each in linked
        ]
        linked = tuple(
            replace(each, hardware=shared_links(many))
            for each, many in zip(linked, tasks, strict=True)
        )
    return linked


_TASKS_PER_SERVER: Final = 2.9
_ROUNDS: Final = 3


def _tasks_per_server(found: Simulation) -> float:
    """Tasks on a server, on average over the time that tasks spend there."""
    ends = [each.at for each in found.timeline[1:]] + [found.ended_at]
    seconds = np.array([end - each.at for each, end in zip(found.timeline, ends, strict=True)])
    tasks = np.array([each.tasks for each in found.timeline], dtype=np.float64)
    return float((seconds * tasks**2).sum() / (seconds * tasks).sum()) / (CPU_SERVERS + GPU_SERVERS)


def evaluation_setups(forecasts: ForecastSource = PUBLISHED_ERRORS) -> tuple[Setup, ...]:
    """The paper's own policy, its baselines, and ours."""
    return tuple(setup(policy, forecasts) for policy in (REFERENCE, "drf", "tetris", "optimus"))


def allocation_setups() -> tuple[Setup, ...]:
    """The baselines' allocation with the placement and the assignment of parameters of the paper's
    own system."""
    return (setup(REFERENCE), mixed("drf", "theorem1"), mixed("tetris", "theorem1"))


def placement_setups() -> tuple[Setup, ...]:
    """The allocation of the paper's own system with the baselines' placement."""
    return (setup(REFERENCE), mixed(REFERENCE, "spread"), mixed(REFERENCE, "pack"))


def assignment_setups() -> tuple[Setup, ...]:
    """Parameters assigned by MXNet's default instead of the paper's own assignment (PAA)."""
    return (
        setup(REFERENCE),
        mixed(REFERENCE, "theorem1", AssignmentRule.MXNET),
        mixed("drf", "theorem1"),
        mixed("drf", "theorem1", AssignmentRule.MXNET),
    )


def sensitivity_setups(errors: Sequence[float] = ERRORS) -> tuple[Setup, ...]:
    """The paper's own policy with true forecasts, then with an error in one of the two."""
    sources = [
        TrueForecasts(),
        *(TrueForecasts(convergence_error=each) for each in errors),
        *(TrueForecasts(speed_error=each) for each in errors),
    ]
    names = [
        "truth",
        *(f"convergence {each:.0%}" for each in errors),
        *(f"speed {each:.0%}" for each in errors),
    ]
    return tuple(
        replace(setup(REFERENCE, each), name=name)
        for name, each in zip(names, sources, strict=True)
    )

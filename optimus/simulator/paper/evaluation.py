"""The paper's experiments on the simulated testbed: each way on the same workloads, seed by seed,
as ratios.

1. Evaluation: DRF and Tetris to the paper's own policy, with its five mixes of jobs and arrivals
  (sections 6.2, 6.3).
2. Ablation: their allocation with its placement, and its allocation with their placements (section
  6.3).
3. Error sensitivity: its policy with forecasts that are off, to itself with the truth (section
  6.4).
A workload's draws depend on the seed alone, so that a ratio differs from 1 by the way alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from optimus.jobs import TrainingMode
from optimus.simulator.engine import simulate
from optimus.simulator.forecasts import ForecastSource, Truth
from optimus.simulator.ground_truth.testbed import (
    CPU_SERVERS,
    GPU_SERVERS,
    paper_hardware,
    shared_links,
)
from optimus.simulator.paper.published import ERRORS
from optimus.simulator.paper.setups import PUBLISHED_ERRORS, REFERENCE, Way, mixed, way
from optimus.simulator.results import Simulation
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.summary import PolicySummary, summarise
from optimus.simulator.workload.arrivals import Arrivals, at_intervals, bursts, poisson, uniform
from optimus.simulator.workload.drawing import EPOCH_SECONDS, Dealing, DrawnWorkload, World

JOBS: Final = 60
"""Jobs of a run. The paper does not say; its authors' own files have 60."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One mix of jobs and arrivals."""

    arrivals: Arrivals = uniform
    world: World = field(default_factory=World)
    jobs: int = JOBS


SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        "testbed": Setting(),
        "async": Setting(world=World(mode=TrainingMode.ASYNC)),
        "sync": Setting(world=World(mode=TrainingMode.SYNC)),
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
            world=World(hardware=paper_hardware(0.0))
        ),
        "all the network's": Setting(world=World(hardware=paper_hardware(1.0))),
        "arrivals with the intervals": Setting(at_intervals),
        "half the work": Setting(world=World(epoch_seconds=EPOCH_SECONDS / 2)),
        "twice the work": Setting(world=World(epoch_seconds=EPOCH_SECONDS * 2)),
        "work of a few long jobs": Setting(world=World(size_spread=1.0)),
    }
)
"""What the paper leaves open about its testbed, exchanged one at a time."""


class Task(NamedTuple):
    """One simulation."""

    setting: Setting
    way: Way
    seed: int

    def run(self) -> Simulation:
        """Run it. The result bears the way's name as its policy."""
        world = replace(self.setting.world, dealing=self.way.dealing)
        if self.way.hardware is not None:
            world = replace(world, hardware=self.way.hardware)
        drawn = DrawnWorkload("paper", self.setting.arrivals, world)
        workload = drawn(self.setting.jobs, stream(self.seed, Purpose.WORKLOAD))
        return replace(simulate(workload, self.way.approach, self.seed), policy=self.way.name)


Runner = Callable[[Sequence[Task]], Iterable[Simulation]]
"""Runs simulations, in the order in which they are told."""


def one_by_one(tasks: Sequence[Task]) -> Iterator[Simulation]:
    """The runner that does nothing else."""
    return (task.run() for task in tasks)


def compare(
    setting: Setting, ways: Sequence[Way], seeds: Sequence[int], run: Runner
) -> tuple[PolicySummary, ...]:
    """Figures of every way, and its ratios to the first."""
    return summarise(list(run([Task(setting, each, seed) for each in ways for seed in seeds])))


def with_shared_links(ways: Sequence[Way], seeds: Sequence[int], run: Runner) -> tuple[Way, ...]:
    """The ways on links that are slower the more tasks a way has on a server, on average over its
    own runs.

    The truth of one job does not know of the others, so that links are shared in the mean only,
    settled in three rounds that begin with table 2's own number of tasks.
    """
    told = tuple(replace(each, hardware=shared_links(_TASKS_PER_SERVER)) for each in ways)
    for _ in range(_ROUNDS):
        found = list(run([Task(Setting(), each, seed) for each in told for seed in seeds]))
        tasks = [
            float(np.mean([_tasks_per_server(one) for one in found if one.policy == each.name]))
            for each in told
        ]
        told = tuple(
            replace(each, hardware=shared_links(many))
            for each, many in zip(told, tasks, strict=True)
        )
    return told


_TASKS_PER_SERVER: Final = 2.9
_ROUNDS: Final = 3


def _tasks_per_server(found: Simulation) -> float:
    """Tasks on a server, on average over the time that tasks spend there."""
    ends = [each.at for each in found.timeline[1:]] + [found.ended_at]
    seconds = np.array([end - each.at for each, end in zip(found.timeline, ends, strict=True)])
    tasks = np.array([each.tasks for each in found.timeline], dtype=np.float64)
    return float((seconds * tasks**2).sum() / (seconds * tasks).sum()) / (CPU_SERVERS + GPU_SERVERS)


def evaluation_ways(forecasts: ForecastSource = PUBLISHED_ERRORS) -> tuple[Way, ...]:
    """The paper's own policy, its baselines, and ours."""
    return tuple(way(policy, forecasts) for policy in (REFERENCE, "drf", "tetris", "optimus"))


def allocation_ways() -> tuple[Way, ...]:
    """The baselines' allocation with the placement and the assignment of parameters of the paper's
    own system."""
    return (way(REFERENCE), mixed("drf", "theorem1"), mixed("tetris", "theorem1"))


def placement_ways() -> tuple[Way, ...]:
    """The allocation of the paper's own system with the baselines' placement."""
    return (way(REFERENCE), mixed(REFERENCE, "spread"), mixed(REFERENCE, "pack"))


def assignment_ways() -> tuple[Way, ...]:
    """Parameters dealt by MXNet's default instead of the paper's own assignment (PAA)."""
    return (
        way(REFERENCE),
        mixed(REFERENCE, "theorem1", Dealing.MXNET),
        mixed("drf", "theorem1"),
        mixed("drf", "theorem1", Dealing.MXNET),
    )


def sensitivity_ways(errors: Sequence[float] = ERRORS) -> tuple[Way, ...]:
    """The paper's own policy told the truth, then with an error in one of the two forecasts."""
    told = [
        Truth(),
        *(Truth(convergence_error=each) for each in errors),
        *(Truth(speed_error=each) for each in errors),
    ]
    names = [
        "truth",
        *(f"convergence {each:.0%}" for each in errors),
        *(f"speed {each:.0%}" for each in errors),
    ]
    return tuple(
        replace(way(REFERENCE, each), name=name) for name, each in zip(names, told, strict=True)
    )

"""The paper's experiments on the simulated testbed: each way on the same workloads, seed by seed, as ratios.

1. Evaluation: DRF and Tetris to the paper's own policy, with its five mixes of jobs and arrivals (sections 6.2, 6.3).
2. Ablation: their allocation with its placement, and its allocation with their placements (section 6.3).
3. Error sensitivity: its policy with forecasts that are off, to itself with the truth (section 6.4).
A workload's draws depend on the seed alone, so that a ratio differs from 1 by the way alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from scheduling.jobs import TrainingMode
from simulator.engine import simulate
from simulator.forecasts import Truth
from simulator.paper.published import ERRORS
from simulator.paper.ways import REFERENCE, Way, mixed, way
from simulator.results import Simulation
from simulator.streams import Purpose, stream
from simulator.summary import Estimate, PolicySummary, summarise
from simulator.workload.arrivals import Arrivals, bursts, poisson, uniform
from simulator.workload.drawing import DrawnWorkload, World

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
"""The five mixes, by the names of ``published.EVALUATION``. ``trace`` is generated: as bursty as a cluster's trace."""


class Task(NamedTuple):
    """One simulation."""

    setting: Setting
    way: Way
    seed: int

    def run(self) -> Simulation:
        """Run it. The result bears the way's name as its policy."""
        world = replace(self.setting.world, dealing=self.way.dealing)
        drawn = DrawnWorkload("paper", self.setting.arrivals, world)
        workload = drawn(self.setting.jobs, stream(self.seed, Purpose.WORKLOAD))
        return replace(simulate(workload, self.way.approach, self.seed), policy=self.way.name)


Runner = Callable[[Sequence[Task]], Iterable[Simulation]]
"""Runs simulations, in the order in which they are told."""


def one_by_one(tasks: Sequence[Task]) -> Iterator[Simulation]:
    """The runner that does nothing else."""
    return (task.run() for task in tasks)


def compare(setting: Setting, ways: Sequence[Way], seeds: Sequence[int], run: Runner) -> tuple[PolicySummary, ...]:
    """Figures of every way, and its ratios to the first."""
    return summarise(list(run([Task(setting, each, seed) for each in ways for seed in seeds])))


def evaluation_ways() -> tuple[Way, ...]:
    """The paper's own policy, its baselines, and ours."""
    return tuple(way(policy) for policy in (REFERENCE, "drf", "tetris", "optimus"))


def ablation_ways() -> tuple[Way, ...]:
    """One part of the paper's system exchanged at a time; only in the last, its assignment of parameters."""
    return (
        way(REFERENCE),
        mixed("drf", "theorem1"),
        mixed("tetris", "theorem1"),
        mixed(REFERENCE, "spread"),
        mixed(REFERENCE, "pack"),
        replace(way(REFERENCE), name=f"{REFERENCE}, MXNet's assignment", dealing=way("drf").dealing),
    )


def sensitivity_ways(errors: Sequence[float] = ERRORS) -> tuple[Way, ...]:
    """The paper's own policy told the truth, then with an error in one of the two forecasts."""
    told = [Truth(), *(Truth(convergence_error=each) for each in errors), *(Truth(speed_error=each) for each in errors)]
    names = ["truth", *(f"convergence {each:.0%}" for each in errors), *(f"speed {each:.0%}" for each in errors)]
    return tuple(replace(way(REFERENCE, each), name=name) for name, each in zip(names, told, strict=True))


class Told(NamedTuple):
    """One ratio beside the published one."""

    here: Estimate
    published: float | None

    def as_json(self) -> Mapping[str, float | None]:
        """Plain numbers."""
        off = None if self.published is None or self.here.mean is None else self.here.mean / self.published - 1
        return {
            "ratio": _rounded(self.here.mean),
            "low": _rounded(self.here.low),
            "high": _rounded(self.here.high),
            "published": self.published,
            "deviation": _rounded(off),
        }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)

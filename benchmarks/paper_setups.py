"""The experiments of the paper's evaluation (Optimus, EuroSys 2018, section 6): setups, ratios.

1. Evaluation: DRF and Tetris to the paper's own policy, with its five mixes of jobs and arrivals
  (sections 6.2, 6.3).
2. Ablation: their allocation with its placement, and its allocation with their placements (6.3).

Setups run on the same workloads, seed by seed: a workload's draws depend on the seed alone.
Published ratios are to Optimus' own completion time and makespan; those of figure 15 were read off
the figure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from optimus.jobs import TrainingMode
from optimus.placement import PLACEMENT_RULES
from optimus.simulator.engine import Observer, simulate
from optimus.simulator.forecasts import EquationForecasts, ForecastSource, TrueForecasts
from optimus.simulator.ground_truth.assignment import AssignmentRule
from optimus.simulator.ground_truth.testbed import (
    Hardware,
)
from optimus.simulator.presets import SchedulerConfig, preset
from optimus.simulator.results import Simulation
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.summary import Estimate, PolicySummary, summarise
from optimus.simulator.workload import (
    EPOCH_SECONDS,
    Arrivals,
    RandomWorkload,
    WorkloadConfig,
    at_intervals,
    bursts,
    poisson,
    uniform,
)


class Ratios(NamedTuple):
    """How many times as long as with Optimus."""

    jct: float
    makespan: float


_TESTBED: Final[Mapping[str, Ratios]] = MappingProxyType(
    {"drf": Ratios(2.39, 1.63), "tetris": Ratios(1.74, 1.22)}
)

EVALUATION: Final[Mapping[str, Mapping[str, Ratios]]] = MappingProxyType(
    {
        "testbed": _TESTBED,
        "async": {"drf": Ratios(1.97, 1.36), "tetris": Ratios(1.64, 1.11)},
        "sync": {"drf": Ratios(2.29, 1.45), "tetris": Ratios(1.91, 1.21)},
        "poisson": {"drf": Ratios(2.15, 1.40), "tetris": Ratios(1.82, 1.15)},
        "trace": {"drf": Ratios(2.21, 1.46), "tetris": Ratios(1.78, 1.24)},
        "reproduced": _TESTBED,
    }
)
"""Setting -> policy -> ratios."""

REFERENCE: Final = "optimus-paper"
"""The setup that all ratios are to."""

PUBLISHED_ERRORS: Final = TrueForecasts(convergence_error=0.2, speed_error=0.1)
"""Forecasts as good as the paper's: 20 % off in convergence and 10 % in speed when a job begins,
less from then on (section 6.4, where these are called typical)."""


@dataclass(frozen=True, slots=True)
class Setup:
    """One setup; ``name`` is for tables."""

    name: str
    scheduler: SchedulerConfig
    assignment: AssignmentRule
    hardware: Hardware | None = None
    """Speed of the containers under this setup; ``None``: that of the setting."""


def setup(policy: str, forecasts: ForecastSource = PUBLISHED_ERRORS) -> Setup:
    """A policy as the paper runs it."""
    assignment = AssignmentRule.PAA if policy == REFERENCE else AssignmentRule.MXNET
    return Setup(policy, preset(policy, forecasts), assignment)


def mixed(
    policy: str,
    placement: str,
    assignment: AssignmentRule = AssignmentRule.PAA,
    forecasts: ForecastSource = PUBLISHED_ERRORS,
) -> Setup:
    """One policy's allocation with a placement of its own choice."""
    name = f"{policy}, {placement}, {assignment.value}"
    usual = preset(policy, forecasts, PLACEMENT_RULES[placement])
    return Setup(name, replace(usual, name=name), assignment)


JOBS: Final = 60
"""Jobs of a run. The paper does not say; its authors' own files have 60."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One mix of jobs and arrivals, and the forecasts that all policies get unless others are asked
    for."""

    arrivals: Arrivals = uniform
    config: WorkloadConfig = field(default_factory=WorkloadConfig)
    jobs: int = JOBS
    forecasts: ForecastSource = PUBLISHED_ERRORS


FEW_JOBS: Final = 15
"""Jobs of the setting ``reproduced``. Neither the paper's text nor its authors' files say how many
jobs ran in the experiments of section 6: the 60 are the default of the released program, on whose
two example nodes no experiment ran; the text speaks of 9 jobs where it describes the testbed's
types. With 15 the published ratios come out; with 60 they do not."""

FEW_JOBS_WORK: Final = 1.9
"""Epochs of the setting ``reproduced`` are so many times as long, so that the paper's own policy
takes about the published 1161 s there too."""

REPRODUCED: Final = Setting(
    at_intervals,
    WorkloadConfig(epoch_seconds=FEW_JOBS_WORK * EPOCH_SECONDS),
    FEW_JOBS,
    EquationForecasts(),
)
"""What the paper leaves open, chosen so that its ratios come out: the choices were made knowing the
ratios, so that these are no evidence for the choices.

Jobs arrive at interval starts, as the authors' program submits them. Forecasts are those of the
paper's own models, whose curves have no steps where a job outgrows a server."""

SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        "testbed": Setting(),
        "async": Setting(config=WorkloadConfig(mode=TrainingMode.ASYNC)),
        "sync": Setting(config=WorkloadConfig(mode=TrainingMode.SYNC)),
        "poisson": Setting(poisson),
        "trace": Setting(bursts),
        "reproduced": REPRODUCED,
    }
)
"""The five mixes of ``EVALUATION``; ``trace`` is generated, as bursty as a cluster's trace. Then
the one mix that reproduces the testbed's ratios."""


class Task(NamedTuple):
    """One simulation."""

    setting: Setting
    setup: Setup
    seed: int

    def run(self, watch: Observer | None = None) -> Simulation:
        """Run it. The result bears the setup's name as its policy."""
        config = replace(self.setting.config, assignment=self.setup.assignment)
        if self.setup.hardware is not None:
            config = replace(config, hardware=self.setup.hardware)
        drawn = RandomWorkload("paper", self.setting.arrivals, config)
        workload = drawn(self.setting.jobs, stream(self.seed, Purpose.WORKLOAD))
        found = simulate(workload, self.setup.scheduler, self.seed, watch)
        return replace(found, policy=self.setup.name)


Runner = Callable[[Sequence[Task]], Iterable[Simulation]]
"""Runs simulations; yields their results in the same order."""


def compare(
    setting: Setting, setups: Sequence[Setup], seeds: Sequence[int], run: Runner
) -> tuple[PolicySummary, ...]:
    """Figures of every setup, and its ratios to the first."""
    return summarise(list(run([Task(setting, each, seed) for each in setups for seed in seeds])))


def evaluation_setups(forecasts: ForecastSource = PUBLISHED_ERRORS) -> tuple[Setup, ...]:
    """The paper's own policy and its baselines."""
    return tuple(setup(policy, forecasts) for policy in (REFERENCE, "drf", "tetris"))


Row = dict[str, object]
_DIGITS = 4


def ratios_to_first(
    found: Sequence[PolicySummary], published: Mapping[str, Ratios]
) -> dict[str, Row]:
    """Every setup but the first, by name; ``published`` by the policy that a name begins with."""
    return {
        each.policy: _row(each, published.get(each.policy.split(",", maxsplit=1)[0]))
        for each in found[1:]
    }


def absolute(found: PolicySummary) -> Row:
    """One setup's figures, as means over seeds."""
    return {name: _rounded(estimate.mean) for name, estimate in found.figures.items()}


def ratio(here: Estimate, published: float | None = None) -> Row:
    """A ratio with its 95 % interval; ``deviation`` is by how much it is off the published one, as
    a part of it."""
    off = None if published is None or here.mean is None else here.mean / published - 1
    row = {"ratio": here.mean, "low": here.low, "high": here.high}
    figures: Row = {name: _rounded(value) for name, value in row.items()}
    return (
        figures
        if published is None
        else {**figures, "published": published, "deviation": _rounded(off)}
    )


def _row(found: PolicySummary, published: Ratios | None) -> Row:
    return {
        "jct": ratio(found.ratios["average_jct_seconds"], published and published.jct),
        "makespan": ratio(found.ratios["makespan_seconds"], published and published.makespan),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)

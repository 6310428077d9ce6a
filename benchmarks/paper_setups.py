"""The experiments of the paper's evaluation (Optimus, EuroSys 2018, section 6): setups, ratios.

1. Evaluation: DRF and Tetris to the paper's own policy, with its five mixes of jobs and arrivals
  (sections 6.2, 6.3).
2. Ablation: their allocation with its placement, and its allocation with their placements (6.3).
3. Error sensitivity: its policy with wrong forecasts, to itself with the truth (6.4).
Setups run on the same workloads, seed by seed: a workload's draws depend on the seed alone.
Published ratios are to Optimus' own completion time and makespan; those of figure 15 were read off
the figure."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from optimus.jobs import TrainingMode
from optimus.placement import PLACEMENT_RULES
from optimus.policies import policy_named
from optimus.simulator.engine import Observer, simulate
from optimus.simulator.forecasts import EquationForecasts, ForecastSource, TrueForecasts
from optimus.simulator.ground_truth.assignment import AssignmentRule
from optimus.simulator.ground_truth.testbed import (
    CPU_SERVERS,
    GPU_SERVERS,
    Hardware,
    paper_hardware,
    shared_links,
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

ALLOCATION_ONLY: Final[Mapping[str, Ratios]] = MappingProxyType(
    {"drf": Ratios(1.62, 1.31), "tetris": Ratios(1.33, 1.14)}
)
"""Their allocation with the placement of Optimus."""

PLACEMENT_ONLY: Final[Mapping[str, Ratios]] = MappingProxyType(
    {"drf": Ratios(1.17, 1.13), "tetris": Ratios(1.12, 1.09)}
)
"""Their placement with the allocation of Optimus."""

ERRORS: Final = (0.1, 0.2, 0.3, 0.4, 0.5)
CONVERGENCE_SENSITIVITY: Final = (1.03, 1.13, 1.25, 1.31, 1.34)
SPEED_SENSITIVITY: Final = (1.075, 1.285, 1.36, 1.47, 1.46)
"""JCT with forecasts that are off by so much, to that without an error."""

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


def looking_past_plateaus(forecasts: ForecastSource = PUBLISHED_ERRORS) -> Setup:
    """The paper's own system with our allocation, which grows past plateaus."""
    name, usual = "optimus, as published", setup(REFERENCE, forecasts)
    scheduler = replace(usual.scheduler, name=name, policy=policy_named("optimus"))
    return replace(usual, name=name, scheduler=scheduler)


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

CAUSES: Final[Mapping[str, Setting]] = MappingProxyType(
    {
        "as it is": Setting(),
        "link at line rate, the rest the PS's own": Setting(
            config=WorkloadConfig(hardware=paper_hardware(0.0))
        ),
        "all the network's": Setting(config=WorkloadConfig(hardware=paper_hardware(1.0))),
        "arrivals with the intervals": Setting(at_intervals),
        "forecasts by equations 3 and 4": Setting(forecasts=EquationForecasts()),
        "arrivals and forecasts so": Setting(at_intervals, forecasts=EquationForecasts()),
        "15 jobs with 1.9 times the work": replace(
            REPRODUCED, arrivals=uniform, forecasts=PUBLISHED_ERRORS
        ),
        "reproduced": REPRODUCED,
        "half the work": Setting(config=WorkloadConfig(epoch_seconds=EPOCH_SECONDS / 2)),
        "twice the work": Setting(config=WorkloadConfig(epoch_seconds=EPOCH_SECONDS * 2)),
        "work of a few long jobs": Setting(config=WorkloadConfig(size_spread=1.0)),
    }
)
"""What the paper leaves open about its testbed, exchanged one at a time; ``reproduced`` exchanges
the arrivals, the forecasts and the number of jobs together."""


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


def with_shared_links(
    setups: Sequence[Setup], seeds: Sequence[int], run: Runner
) -> tuple[Setup, ...]:
    """The setups on links that are slower the more tasks a setup has on a server on average.

    A job's truth does not depend on others: links are shared in the mean only, settled in three
    rounds that begin with table 2's own number of tasks."""
    linked = tuple(replace(each, hardware=shared_links(_TASKS_PER_SERVER)) for each in setups)
    for _ in range(_ROUNDS):
        found = list(run([Task(Setting(), each, seed) for each in linked for seed in seeds]))
        tasks = (
            float(np.mean([_tasks_per_server(one) for one in found if one.policy == each.name]))
            for each in linked
        )
        pairs = zip(linked, tasks, strict=True)
        linked = tuple(replace(each, hardware=shared_links(many)) for each, many in pairs)
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
    """The paper's own policy and its baselines."""
    return tuple(setup(policy, forecasts) for policy in (REFERENCE, "drf", "tetris"))


def allocation_setups(forecasts: ForecastSource = PUBLISHED_ERRORS) -> tuple[Setup, ...]:
    """The baselines' allocation with the paper's own placement and assignment of parameters."""
    baselines = (mixed(each, "theorem1", forecasts=forecasts) for each in ("drf", "tetris"))
    return (setup(REFERENCE, forecasts), *baselines)


def placement_setups(forecasts: ForecastSource = PUBLISHED_ERRORS) -> tuple[Setup, ...]:
    """The allocation of the paper's own system with the baselines' placement."""
    placed = (mixed(REFERENCE, each, forecasts=forecasts) for each in ("spread", "pack"))
    return (setup(REFERENCE, forecasts), *placed)


def assignment_setups(forecasts: ForecastSource = PUBLISHED_ERRORS) -> tuple[Setup, ...]:
    """Parameters assigned by MXNet's default instead of the paper's own assignment (PAA)."""
    return (
        setup(REFERENCE, forecasts),
        mixed(REFERENCE, "theorem1", AssignmentRule.MXNET, forecasts),
        mixed("drf", "theorem1", forecasts=forecasts),
        mixed("drf", "theorem1", AssignmentRule.MXNET, forecasts),
    )


def sensitivity_setups(errors: Sequence[float] = ERRORS) -> tuple[Setup, ...]:
    """The paper's own policy with true forecasts, then with an error in one of the two."""
    sources = {"truth": TrueForecasts()}
    sources |= {f"convergence {each:.0%}": TrueForecasts(each, 0.0) for each in errors}
    sources |= {f"speed {each:.0%}": TrueForecasts(0.0, each) for each in errors}
    return tuple(replace(setup(REFERENCE, each), name=name) for name, each in sources.items())


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

"""The objective with weights and a degree of fairness: alpha-fair finish-time ratios.

Job j has the weight w, and would need T seconds at its fair share of the cluster. What is minimised
is the sum over all jobs of

    w T (t / T)^(1 + alpha) / (1 + alpha)

where t is the job's remaining time. This is the alpha-fair utility (Mo and Walrand, IEEE/ACM ToN
8(5), 2000) of the finish-time ratio t / T, by which Themis (NSDI 2020) and Gavel (OSDI 2020)
define fairness. With alpha = 0 it is the sum of w t, as in Optimus for equal weights; the larger
alpha is, the more the largest ratio counts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from optimus.jobs import Job

_NONE: Final[Mapping[str, float]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Fairness:
    """The degree of fairness, and the weights: 1 where none is given."""

    alpha: float = 0.0
    namespaces: Mapping[str, float] = field(default_factory=lambda: _NONE)
    classes: Mapping[str, float] = field(default_factory=lambda: _NONE)
    """By the name of a PriorityClass."""

    def of_namespace(self, namespace: str) -> float:
        """The weight of a namespace."""
        return self.namespaces.get(namespace, 1.0)

    def of_class(self, job: Job) -> float:
        """The weight of a job within its namespace."""
        return self.classes.get(job.priority_class, 1.0)


@dataclass(frozen=True, slots=True)
class JobObjective:
    """What one job's remaining time costs; ``fair_seconds`` is T, above 0 and finite."""

    weight: float
    alpha: float
    fair_seconds: float

    def cost(self, seconds: float) -> float:
        """The cost of so many remaining seconds, in weighted seconds."""
        if seconds == math.inf:
            return math.inf
        scale = self.weight * self.fair_seconds / (1 + self.alpha)
        return float(scale * (max(seconds, 0.0) / self.fair_seconds) ** (1 + self.alpha))


Seconds = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Objectives:
    """The objectives of many jobs, as arrays by row."""

    weight: Seconds
    power: Seconds
    fair_seconds: Seconds

    @classmethod
    def of(cls, objectives: Sequence[JobObjective | None]) -> Self:
        """By row; a job without one counts plain seconds."""
        filled = [each or JobObjective(1.0, 0.0, 1.0) for each in objectives]
        return cls(
            np.array([each.weight for each in filled]),
            np.array([1 + each.alpha for each in filled]),
            np.array([each.fair_seconds for each in filled]),
        )

    def worth(self, rows: NDArray[np.int64], now: Seconds, saved: Seconds) -> Seconds:
        """What saving so many seconds is worth, in weighted seconds; infinite where they are."""
        power, fair = self.power[rows], self.fair_seconds[rows]
        scale = self.weight[rows] * fair / power
        with np.errstate(invalid="ignore", over="ignore"):
            after = np.maximum(now - saved, 0.0)
            worth = scale * ((np.maximum(now, 0.0) / fair) ** power - (after / fair) ** power)
        return np.asarray(np.where(np.isfinite(saved) & np.isfinite(now), worth, saved))

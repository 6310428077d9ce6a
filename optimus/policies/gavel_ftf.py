"""Finish-time fairness over kinds of nodes (Themis, NSDI 2020; Gavel, OSDI 2020, section 4.2).

The largest ratio rho of a job's time from its submission to its end, to the time that it would have
taken with its part of all nodes for itself, is made as small as possible. With N steps left, the
age t and the isolated time i,

    rho >= (t + N / throughput) / i    or    throughput >= N / (rho i - t),

so that a rho is possible if these floors are; the least is found by bisection. i is accumulated:
whenever shares are set, the steps since the last time count at the isolated speed of then.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from optimus.allocation.policy import PolicyTraits
from optimus.allocation.time_shares import SharesProblem, TimeShares, Values
from optimus.allocation.turns import READING_FORECASTS, Notes, TurnsPolicy

_PRECISION: Final = 1e-4
"""Relative, of rho."""
_LEAST: Final = 1e-9


@dataclass(frozen=True, slots=True)
class GavelFtfPolicy(TurnsPolicy):
    """Minimises the largest finish-time ratio."""

    name: ClassVar[str] = "gavel-ftf"
    traits: ClassVar[PolicyTraits] = READING_FORECASTS

    def shares(self, problem: SharesProblem) -> Values:
        """Ideal parts of the time, of shape (jobs, kinds)."""
        notes, steps = self.notes(problem), np.maximum(problem.steps_left, _LEAST)
        isolated = np.array([each["isolated"] + each["steps"] / each["speed"] for each in notes])
        age = np.maximum(problem.at - problem.submitted, 0.0)
        programmes = TimeShares(problem, steps, isolated, age)
        shares = programmes.raise_floors(steps / isolated).shares
        low, high = float((age / isolated).max()), _ratio(problem, shares, steps, (age, isolated))
        while high - low > _PRECISION * high:
            tried = (low + high) / 2
            raised = programmes.raise_floors(steps / np.maximum(tried * isolated - age, _LEAST))
            if raised.height < 1:
                low = tried
            else:
                high, shares = tried, raised.shares
        return shares

    def notes(self, problem: SharesProblem) -> Notes:
        """Note of each job what the steps until now would have taken, and what is left."""
        steps, found = np.maximum(problem.steps_left, _LEAST).tolist(), list[Mapping[str, float]]()
        speeds = np.maximum(_isolated_speed(problem), _LEAST).tolist()
        for before, left, speed in zip(problem.notes, steps, speeds, strict=True):
            done = max(before["steps"] - left, 0.0) / before["speed"] if before else 0.0
            isolated = before.get("isolated", 0.0) + done
            found.append({"isolated": isolated, "steps": left, "speed": speed})
        return found


def _isolated_speed(problem: SharesProblem) -> Values:
    """Return each job's speed with its part of all nodes, by weight, at most all the time."""
    part = problem.weights / problem.weights.sum()
    alone = problem.equal * (part / np.maximum(problem.sizes, _LEAST))[:, None]
    alone = alone / np.maximum(alone.sum(axis=1, keepdims=True), 1.0)
    return np.asarray((problem.speeds * alone).sum(axis=1))


def _ratio(
    problem: SharesProblem, shares: Values, steps: Values, times: tuple[Values, Values]
) -> float:
    """The largest finish-time ratio of the jobs that run at all."""
    age, isolated = times
    throughput = (problem.speeds * shares).sum(axis=1)
    runs = throughput > 0
    if not runs.any():
        return 0.0
    return float(((age + steps / np.maximum(throughput, _LEAST)) / isolated)[runs].max())

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

    def shares(self, problem: SharesProblem) -> tuple[Values, Notes]:
        """Ideal parts of the time, of shape (jobs, kinds)."""
        speed = np.maximum(_isolated_speed(problem), _LEAST)
        steps = np.maximum(problem.steps_left, _LEAST)
        before = np.array(
            [_isolated_seconds(*each) for each in zip(problem.notes, steps, strict=True)]
        )
        isolated, age = before + steps / speed, np.maximum(problem.at - problem.submitted, 0.0)
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
        notes = [
            {"isolated": seconds, "steps": left, "speed": own}
            for seconds, left, own in zip(
                before.tolist(), steps.tolist(), speed.tolist(), strict=True
            )
        ]
        return shares, notes


def _isolated_speed(problem: SharesProblem) -> Values:
    """Of each job, with its part of all nodes by weight for itself; no more than all the time."""
    part = problem.weights / problem.weights.sum()
    alone = problem.equal * (part / np.maximum(problem.sizes, _LEAST))[:, None]
    alone = alone / np.maximum(alone.sum(axis=1, keepdims=True), 1.0)
    return np.asarray((problem.speeds * alone).sum(axis=1))


def _isolated_seconds(note: Mapping[str, float], steps: float) -> float:
    """What the steps until now would have taken."""
    if not note:
        return 0.0
    return note["isolated"] + max(note["steps"] - steps, 0.0) / note["speed"]


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

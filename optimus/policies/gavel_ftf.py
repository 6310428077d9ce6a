"""Finish-time fairness over kinds of nodes (Themis, NSDI 2020; Gavel, OSDI 2020, section 4.2).

The largest ratio rho of a job's time until its end to its isolated time i, with its part of all
nodes for itself, is made as small as possible. With N steps left and the age t, a rho is possible
if throughputs of N / (rho i - t) are; the least is found by bisection. i is accumulated: whenever
shares are set, the steps since the last time count at the isolated speed of then.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from optimus.allocation.time_shares import SharesProblem, TimeShares, Values
from optimus.allocation.turns import READING_FORECASTS, Notes, TurnsPolicy

_PRECISION: Final = 1e-4
"""Relative, of rho."""
_LEAST: Final = 1e-9


class GavelFtfPolicy(TurnsPolicy):
    """Minimises the largest finish-time ratio."""

    name = "gavel-ftf"
    traits = READING_FORECASTS

    def shares(self, problem: SharesProblem) -> Values:
        """Ideal parts of the time, of shape (jobs, kinds)."""
        notes, steps = self.notes(problem), np.maximum(problem.steps_left, _LEAST)
        isolated = np.array([each["isolated"] + each["steps"] / each["speed"] for each in notes])
        age = np.maximum(problem.at - problem.submitted, 0.0)
        programmes = TimeShares(problem, steps, isolated, age)
        shares = programmes.raise_floors(steps / isolated).shares
        throughput = (problem.speeds * shares).sum(axis=1)
        ratios = (age + steps / np.maximum(throughput, _LEAST)) / isolated
        low = float((age / isolated).max())
        high = float(ratios[throughput > 0].max(initial=0.0))
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
        # With its part of all nodes, by weight, at most all the time.
        part = problem.weights / problem.weights.sum()
        alone = problem.equal * (part / np.maximum(problem.sizes, _LEAST))[:, None]
        alone = alone / np.maximum(alone.sum(axis=1, keepdims=True), 1.0)
        speeds = np.maximum((problem.speeds * alone).sum(axis=1), _LEAST).tolist()
        for before, left, speed in zip(problem.notes, steps, speeds, strict=True):
            done = max(before["steps"] - left, 0.0) / before["speed"] if before else 0.0
            isolated = before.get("isolated", 0.0) + done
            found.append({"isolated": isolated, "steps": left, "speed": speed})
        return found

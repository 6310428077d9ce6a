"""A job's remaining time as a function of its counts: convergence and speed put together (Optimus,
section 3).

``t(p, w) = Q / f(p, w)``: Q the work that is left until the goal, f the speed model. Work is
counted in the job's steps; where the batch belongs to each worker, a step of more workers covers
more examples, so that the steps that are left shrink as the workers grow, and examples are what is
counted."""

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from optimus.jobs import Counts


class Speed(Protocol):
    """Predicts the whole job's training steps per second."""

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """Speed at each pair of counts, the arrays broadcast against each other."""
        ...


@dataclass(frozen=True, slots=True)
class JobForecast:
    """Remaining seconds until the goal.

    ``remaining_steps`` are the job's steps left at ``reference_workers`` workers. With
    ``batch_per_worker`` a step at w workers covers w / reference_workers times as many examples
    (sync training only: async steps are single workers' steps whatever their number). What was
    asked about single counts is remembered: a plan weighs the same few again and again.
    """

    speed: Speed
    remaining_steps: float
    batch_per_worker: bool = False
    reference_workers: int = 1
    _known: dict[Counts, float] = field(default_factory=dict, init=False, repr=False, compare=False)

    def remaining_seconds(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        """Remaining seconds at each pair of counts (arrays broadcast); infinite where the speed is
        zero."""
        steps = np.asarray(self.remaining_steps, dtype=np.float64)
        if self.batch_per_worker:
            steps = steps * self.reference_workers / np.asarray(workers, dtype=np.float64)
        speed = self.speed.steps_per_second(ps, workers)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(steps > 0, steps / speed, 0.0)

    def at(self, counts: Counts) -> float:
        """Remaining seconds at these counts."""
        if counts not in self._known:
            self._known[counts] = float(self.remaining_seconds(counts.ps, counts.workers))
        return self._known[counts]

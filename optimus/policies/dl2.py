"""Learned allocation, in the manner of DL2 (TPDS 32(8), 2021): a network weighs the jobs' gains.

Another policy decides first. By what that gives each job, the network says how many times the
job's gain is to count, and the same policy decides again with these weights. What was learned holds
where it was learned: a job that is unlike those of the training counts once, and where the result
is worse by forecast, the first answer is taken. The reasons say so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from optimus.allocation import Allocation, AllocationProblem, Candidate, PolicyTraits
from optimus.allocation.fairness import JobObjective
from optimus.allocation.policy import PoolRule
from optimus.allocation.scorer import LearnedScorer, Values, described, placed

_MOST_WORSE: Final = 1.05
"""The geometric mean of the remaining times may be so many times that of the other policy."""
_LEAST_SECONDS: Final = 1.0
_LEAST_CHANGE: Final = 0.05
"""A weight that differs from 1 by less is not told."""


@dataclass(frozen=True, slots=True)
class Dl2Policy:
    """Weighs the gains of another policy by what was learned."""

    name: ClassVar[str] = "dl2"
    traits: ClassVar[PolicyTraits] = PolicyTraits(
        placed_by="theorem1", weighs_restarts=True, weighs_jobs=True
    )

    learned: LearnedScorer
    otherwise: PoolRule

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """Counts for every candidate whose minimum fits, whatever the candidates' order."""
        usual = self.otherwise.allocate(problem)
        jobs = placed(problem, usual)
        if len(jobs) < 2:
            return usual
        features = described(problem, usual)
        weights = self.learned.weights(features)
        found = self.otherwise.allocate(weighed(problem, jobs, weights))
        worse = _ratio(jobs, found, usual)
        if worse > _MOST_WORSE:
            why = f"by forecast jobs would take {worse - 1:.0%} longer by what was learned"
            said = {each.job.uid: f"{self.otherwise.name} decides, since {why}" for each in jobs}
            return _explained(usual, said)
        outside = self.learned.why_outside(features)
        return _explained(found, self._told(jobs, weights, outside))

    def _told(
        self, jobs: Sequence[Candidate], weights: Values, outside: Sequence[str]
    ) -> dict[str, str]:
        """Return what there is to say of the weight of each job, by UID."""
        said = dict[str, str]()
        for each, weight, feature in zip(jobs, weights.tolist(), outside, strict=True):
            if feature:
                said[each.job.uid] = f"not learned ({feature} lies outside the training)"
            elif abs(weight - 1) >= _LEAST_CHANGE:
                said[each.job.uid] = f"its gain counts {weight:.2g} times ({self.learned.mark})"
        return said


def weighed(
    problem: AllocationProblem, jobs: Sequence[Candidate], weights: Values
) -> AllocationProblem:
    """The same problem, in which the gain of each of these jobs counts so many times."""
    by_uid = {each.job.uid: weight for each, weight in zip(jobs, weights.tolist(), strict=True)}
    return replace(
        problem,
        candidates=tuple(_weighed(each, by_uid.get(each.job.uid)) for each in problem.candidates),
    )


def _weighed(candidate: Candidate, weight: float | None) -> Candidate:
    given = candidate.objective or JobObjective(1.0, 0.0)
    times = 1.0 if weight is None else weight
    return replace(candidate, objective=replace(given, weight=given.weight * times))


def _explained(answer: Allocation, said: dict[str, str]) -> Allocation:
    reasons = {
        uid: f"{said[uid]}: {reason}" if uid in said else reason
        for uid, reason in answer.reasons.items()
    }
    return Allocation(answer.counts, reasons)


def _ratio(jobs: Sequence[Candidate], one: Allocation, other: Allocation) -> float:
    """The geometric mean of the remaining times at one policy's counts, divided by that at the
    other's."""
    logarithms = [
        np.log(
            np.maximum(
                [each.forecast.at(some.counts[each.job.uid]) for each in jobs], _LEAST_SECONDS
            )
        )
        for some in (one, other)
    ]
    return float(np.exp((logarithms[0] - logarithms[1]).mean()))

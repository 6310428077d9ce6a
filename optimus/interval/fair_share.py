"""Each job's objective in one interval: its weight, and its remaining time at its fair share; and
which namespace gives capacity to which.

The cluster is shared among the namespaces that have jobs, by their weights, and each namespace's
share among its jobs, by the weights of their PriorityClasses. A job's fair share holds its minimum
and, beyond that, one PS and one worker at a time; T is the least remaining time among these counts.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

import numpy as np

from optimus.allocation import Candidate
from optimus.allocation.fairness import Fairness, JobObjective
from optimus.interval.capacity_plan import CapacityPlan
from optimus.interval.classify import Classified, Eligibility
from optimus.jobs import Job
from optimus.resources import NONE, Resources, total

_MOST_STEPS: Final = 256
"""Maximum number of PSs and of workers beyond the minimum that are considered."""

_LEAST_SECONDS: Final = 1.0
"""Of a job that ends at once: keeps the ratio finite."""

_HOLDS_NOTHING: Final = (Eligibility.SUSPENDED, Eligibility.TO_SUSPEND)


def with_objectives(
    jobs: Sequence[Classified], capacity: Resources, fairness: Fairness
) -> list[Classified]:
    """The jobs, those whose counts the policy chooses with their objectives."""
    shares = fair_shares([each.job for each in jobs if _takes_part(each)], fairness)
    return [
        each
        if each.candidate is None
        else replace(
            each,
            candidate=replace(
                each.candidate,
                objective=_objective(
                    each.candidate, shares.get(each.job.uid, 0.0), capacity, fairness
                ),
            ),
        )
        for each in jobs
    ]


def _takes_part(each: Classified) -> bool:
    return each.job.managed and each.eligibility not in _HOLDS_NOTHING


def fair_shares(jobs: Sequence[Job], fairness: Fairness) -> dict[str, float]:
    """Each job's part of the cluster by UID; together they are 1."""
    of_namespace: dict[str, float] = {}
    for job in jobs:
        name = job.key.namespace
        of_namespace[name] = of_namespace.get(name, 0.0) + fairness.of_class(job)
    whole = sum(fairness.of_namespace(name) for name in sorted(of_namespace))
    return {
        job.uid: fairness.of_namespace(job.key.namespace)
        / whole
        * fairness.of_class(job)
        / of_namespace[job.key.namespace]
        for job in jobs
    }


@dataclass(frozen=True, slots=True)
class HeldCapacity:
    """What the managed jobs of each namespace hold, and what is free for them; empty where there
    are not several namespaces with such jobs, and for a policy that weighs no jobs."""

    used: Mapping[str, Resources] = field(default_factory=dict)
    free: Mapping[str, Resources] = field(default_factory=dict)
    """On nodes that admit some replica of the namespace's jobs: a free pool of others is no use."""
    fairness: Fairness = field(default_factory=Fairness)

    @classmethod
    def of(cls, jobs: Sequence[Job], plan: CapacityPlan, fairness: Fairness | None) -> Self:
        """At the beginning of an interval."""
        managed: dict[str, list[Job]] = {}
        for job in jobs:
            if job.managed and not job.suspended:
                managed.setdefault(job.key.namespace, []).append(job)
        if fairness is None or len(managed) < 2:
            return cls()
        used, free = dict[str, Resources](), dict[str, Resources]()
        for name, own in managed.items():
            used[name] = total(plan.usage(job.uid) for job in own)
            asked = {spec.constraints for job in own for spec in (job.ps, job.worker)}
            free[name] = plan.capacity.free_for(asked)
        return cls(used, free, fairness)

    def gives(self, namespace: str, to: str) -> bool:
        """Whether one holds more than its part of what both hold and what is free, and the other
        does not.

        Of these two alone: namespaces that want no more than they hold leave the rest to them."""
        if namespace not in self.used or to not in self.used:
            return False
        return self._exceeds(namespace, to) and not self._exceeds(to, namespace)

    def _exceeds(self, one: str, other: str) -> bool:
        """Whether one holds more, by its weight, than the other could in all that is free for
        it."""
        weight, others = self.fairness.of_namespace(one), self.fairness.of_namespace(other)
        free, most = self.free.get(other, NONE), self.used[other]
        return any(
            amount * others > (most[name] + free[name]) * weight
            for name, amount in self.used[one].items()
        )

    def giving(self) -> frozenset[str]:
        """The namespaces that hold more than their part beside some other."""
        weights = {name: self.fairness.of_namespace(name) for name in self.used}
        least: dict[str, float] = {
            name: min(
                (each[name] + self.free.get(other, NONE)[name]) / weights[other]
                for other, each in self.used.items()
            )
            for name in {name for each in self.used.values() for name in each}
        }
        return frozenset(
            name
            for name, each in self.used.items()
            if any(amount / weights[name] > least[of] for of, amount in each.items())
        )


NOBODY_GIVES: Final = HeldCapacity()
"""As with one namespace."""


def _objective(
    candidate: Candidate, share: float, capacity: Resources, fairness: Fairness
) -> JobObjective:
    job = candidate.job
    weight = fairness.of_namespace(job.key.namespace) * fairness.of_class(job)
    if fairness.alpha < 0:
        return JobObjective(weight, fairness.alpha, 1.0)
    seconds = _fair_seconds(candidate, share, capacity)
    if not math.isfinite(seconds):
        return JobObjective(weight, 0.0, _LEAST_SECONDS)  # no ratio to compare
    return JobObjective(weight, fairness.alpha, max(seconds, _LEAST_SECONDS))


def _fair_seconds(candidate: Candidate, share: float, capacity: Resources) -> float:
    """The least remaining seconds within a dominant share of the capacity."""
    job, least = candidate.job, candidate.job.bounds.minimum
    pair, begin = job.ps.resources + job.worker.resources, job.demand(least)
    fit = (int((share * capacity[name] - begin[name]) // pair[name]) for name in pair)
    steps = np.arange(max(0, min(min(fit, default=0), _MOST_STEPS)) + 1)
    ps, workers = least.ps + steps, least.workers + steps
    bounds = job.bounds
    ps = ps if bounds.max_ps is None else np.minimum(ps, bounds.max_ps)
    workers = workers if bounds.max_workers is None else np.minimum(workers, bounds.max_workers)
    return float(np.min(candidate.forecast.remaining_seconds(ps, workers)))

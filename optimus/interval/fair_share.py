"""Each job's objective in one interval: its weight, and its remaining time at its fair share.

The cluster is shared among the namespaces that have jobs, by their weights, and each namespace's
share among its jobs, by the weights of their PriorityClasses. A job's fair share holds its minimum
and, beyond that, one PS and one worker at a time; T is the least remaining time among these counts.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from optimus.allocation import Candidate
from optimus.allocation.fairness import Fairness, JobObjective
from optimus.interval.classify import Classified, Eligibility
from optimus.jobs import Job
from optimus.resources import Resources

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

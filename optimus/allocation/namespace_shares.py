"""Divides capacity among namespaces before their jobs compete for it (weighted max-min fairness).

1. Every namespace with jobs that may grow is due its part, by weight, of what jobs hold and what is
   free, in each resource. Its jobs grow within that.
2. What is left then is what some namespaces did not want. It is divided in the same way among those
   that want more, as long as that lets any job grow.
3. At last growth is not limited: no capacity is left idle for the sake of a share.
With one namespace there are no shares.

Where jobs are paused, those within their namespace's part come before all others.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from optimus.allocation.greedy import (
    NO_STEP,
    Baseline,
    GrowingJobs,
    Growth,
    GrowthState,
    StepRule,
)
from optimus.allocation.problem import AllocationProblem, Amounts, Candidate, NamespaceShare
from optimus.allocation.quota_demands import QuotaDemands
from optimus.quotas import Quota, QuotaCharge
from optimus.resources import Resources, total

_NAME: Final = "the fair share"
Prepare = Callable[[Baseline], Baseline]


def grow_by_namespace(
    baseline: Baseline, problem: AllocationProblem, rule: StepRule, prepare: Prepare
) -> tuple[Baseline, Growth]:
    """Grow jobs by a rule; ``prepare`` comes before each round, and may grow some jobs.

    Returns the beginning of the last round, and its growth."""
    return _SharedGrowth(problem, rule, prepare).of(baseline)


@dataclass(frozen=True, slots=True)
class _SharedGrowth:
    """The rounds of several namespaces."""

    problem: AllocationProblem
    rule: StepRule
    prepare: Prepare

    def of(self, baseline: Baseline) -> tuple[Baseline, Growth]:
        """The last round's beginning and its growth."""
        weights = {each.namespace: each.weight for each in self.problem.shares}
        due, is_first = due_parts(self.problem.shares, self.problem.available), True
        while len(weights) > 1:
            begun = self.prepare(self._limited(baseline, due))
            growth = begun.grow(self.rule)
            is_stuck = not is_first and _tasks(growth) == _tasks(baseline.jobs)
            baseline, is_first = _continued(begun, growth), False
            if is_stuck:
                break
            weights = self._wanting(baseline, weights)
            free = _as_resources(baseline, growth.free)
            held = self._held(baseline)
            due = {name: held[name] + part for name, part in parts(weights, free).items()}
        begun = self.prepare(self._limited(baseline, {}))
        return begun, begun.grow(self.rule)

    def _limited(self, baseline: Baseline, due: Mapping[str, Resources]) -> Baseline:
        """The jobs as they are, within the quotas, and by namespace within what is due."""
        names, charges = tuple(self.problem.capacity), _charges(baseline, due)
        shares = (Quota(each, _NAME, names, due[each], charges[each]) for each in due)
        uids = [each.job.uid for each in baseline.admitted]
        quotas, left = QuotaDemands.of(uids, (*self.problem.quotas, *shares)), None
        jobs = baseline.jobs
        if quotas is not None:
            rows = np.arange(len(uids))
            taken = quotas.cost(rows, jobs.ps, jobs.workers) + quotas.fixed
            left = quotas.less(rows, taken, quotas.available)
        return replace(
            baseline, jobs=replace(jobs, demands=replace(jobs.demands, quotas=quotas)), left=left
        )

    def _wanting(self, baseline: Baseline, weights: Mapping[str, float]) -> dict[str, float]:
        """The namespaces of which some job would take a further step if no share limited it."""
        baseline = self._limited(baseline, {})
        jobs, free = baseline.jobs, baseline.free - baseline.jobs.demands.reserve
        rows = np.flatnonzero(jobs.may_grow)
        state = GrowthState(jobs, rows, jobs.ps[rows], jobs.workers[rows], free, baseline.left)
        going = rows[self.rule.next_steps(state).gain > NO_STEP].tolist()
        found = {baseline.admitted[row].job.key.namespace for row in going}
        return {name: weight for name, weight in weights.items() if name in found}

    def _held(self, baseline: Baseline) -> dict[str, Resources]:
        """Return what the candidates of each namespace have now."""
        jobs, sums = baseline.jobs, dict[str, Amounts]()
        rows = jobs.demands.at(jobs.ps, jobs.workers)
        for each, amounts in zip(baseline.admitted, rows, strict=True):
            name = each.job.key.namespace
            sums[name] = sums[name] + amounts if name in sums else amounts
        return {name: _as_resources(baseline, amounts) for name, amounts in sums.items()}


def _charges(baseline: Baseline, of: Iterable[str]) -> dict[str, dict[str, QuotaCharge]]:
    """Return what the tasks of each job of these namespaces take, by namespace and UID."""
    charges: dict[str, dict[str, QuotaCharge]] = {namespace: {} for namespace in of}
    for job in (each.job for each in baseline.admitted):
        if job.key.namespace in charges:
            fixed = total(role.spec.resources * role.count for role in job.fixed)
            charge = QuotaCharge(job.ps.resources, job.worker.resources, fixed)
            charges[job.key.namespace][job.uid] = charge
    return charges


def parts(weights: Mapping[str, float], amount: Resources) -> dict[str, Resources]:
    """An amount divided among namespaces by their weights."""
    whole = sum(weights.values())
    return {
        namespace: Resources({name: int(amount[name] * weight / whole) for name in amount})
        for namespace, weight in weights.items()
    }


def due_parts(shares: Sequence[NamespaceShare], available: Resources) -> dict[str, Resources]:
    """Return what the candidates of each namespace are due together, of what they may all use."""
    held = {each.namespace: each.held for each in shares}
    whole = parts(
        {each.namespace: each.weight for each in shares}, available + total(held.values())
    )
    return {namespace: whole[namespace] - amount for namespace, amount in held.items()}


def within_parts(candidates: Iterable[Candidate], due: Mapping[str, Resources]) -> list[Candidate]:
    """Those whose minimum lies, in this order, within what their namespace is due."""
    left, found = {**due}, list[Candidate]()
    for each in candidates:
        namespace, demand = each.job.key.namespace, each.job.demand(each.least)
        if namespace in left and demand.fits_in(left[namespace]):
            left[namespace] = left[namespace] - demand
            found.append(each)
    return found


def protected(
    candidates: Sequence[Candidate], shares: Sequence[NamespaceShare], available: Resources
) -> list[Candidate]:
    """Those that come before all others of their priority, in this order."""
    if not shares:
        return []
    return within_parts(candidates, due_parts(shares, available))


def _continued(begun: Baseline, growth: Growth) -> Baseline:
    jobs = replace(begun.jobs, ps=growth.ps, workers=growth.workers)
    return replace(begun, jobs=jobs, free=growth.free + jobs.demands.reserve)


def _tasks(of: Growth | GrowingJobs) -> int:
    return int(of.ps.sum() + of.workers.sum())


def _as_resources(baseline: Baseline, amounts: Amounts) -> Resources:
    names = baseline.jobs.demands.names[: len(baseline.jobs.demands.capacity)]
    return Resources(dict(zip(names, np.maximum(amounts, 0).tolist(), strict=False)))

"""The capacity that is free now for a rescale that begins, and what is kept of it for others."""

from collections.abc import Iterator
from typing import Final

from optimus.allocation import NO_HISTORY, JobHistory
from optimus.errors import NotReady
from optimus.interval.capacity_plan import CapacityPlan, Claim, headroom
from optimus.interval.classify import Action
from optimus.interval.inputs import IntervalPlan
from optimus.interval.profiling import return_counts
from optimus.interval.state import Moment
from optimus.jobs import Counts, Job
from optimus.resources import NONE
from optimus.snapshot import ClusterSnapshot

PROMISE_SECONDS: Final = 600.0
"""How long at most the room that was found for a job is kept from the growth of others until its
pods are placed: something else may keep them from it."""

STOPS: Final = frozenset({Action.SUSPEND, Action.PAUSE})
"""Actions after which a job holds no capacity."""


def free_now(now: Moment, besides: str = "", *, measures: bool = False) -> CapacityPlan:
    """The capacity that is free now for rescales that begin; with ``measures`` for those that only
    measure a speed: what decided ones wait for is kept from them."""
    cluster, snapshot = now.cluster, now.cluster.snapshot()
    returns = [
        claim
        for uid, history in now.histories.items()
        if (claim := _return_claim(now, cluster.managed[uid].job, history)) is not None
    ]
    decided = [
        Claim(cluster.managed[uid].job, each.decision.counts)
        for uid, each in (now.state.pending if measures else {}).items()
        if uid in now.histories and each.decision.action not in STOPS
    ]
    promises = _promise_claims(now, snapshot, besides)
    claims = [*cluster.claims(snapshot), *promises, *returns, *decided]
    return headroom(snapshot, now.strategies.placement, claims)


def free_for(now: Moment, uid: str) -> CapacityPlan:
    """The capacity that is free now for one job: what its own leaving pods take counts, and all
    that jobs hold with which it changes nodes; nothing is kept for it."""
    plan = free_now(now, uid)
    swapping = now.state.swapping if uid in now.state.swapping else frozenset[str]()
    for pod in now.cluster.snapshot().pods:
        owner = "" if pod.replica is None else pod.replica.job_uid
        if owner in swapping or (pod.leaving and owner == uid):
            plan.take(pod.node, NONE - pod.resources)
    return plan


def _promise_claims(now: Moment, snapshot: ClusterSnapshot, besides: str) -> Iterator[Claim]:
    """The room of jobs that wait for nodes: others were made smaller for them."""
    promised = now.state.promised
    jobs = {job.uid: job for job in snapshot.jobs} if promised else {}
    for uid, (counts, since) in promised.items():
        job, history = jobs.get(uid), now.histories.get(uid, NO_HISTORY)
        if job is None or job.suspended or history.rescaling_to is not None or uid == besides:
            continue
        is_placed = snapshot.bound_counts(uid) == job.counts
        if not is_placed and now.cluster.at - since < PROMISE_SECONDS:
            yield Claim(job, counts, keeps_pods=True, is_promised=True)


def _return_claim(now: Moment, job: Job, history: JobHistory) -> Claim | None:
    """The room in which a job that is measured may return to its user's counts, as long as there is
    no forecast by which to choose others."""
    counts = return_counts(job, history)
    has_forecast = not isinstance(now.state.forecasts.get(job.uid), NotReady | None)
    if counts is None or has_forecast or history.rescaling_to is not None:
        return None
    larger = Counts(max(counts.ps, job.counts.ps), max(counts.workers, job.counts.workers))
    return Claim(job, larger, keeps_pods=True)


def promised(now: Moment, plan: IntervalPlan) -> dict[str, tuple[Counts, float]]:
    """The jobs that wait for nodes and have room in the plan, free or about to be released, with
    their counts and since when."""
    snapshot, placed, known = now.cluster.snapshot(), plan.capacity_plan, now.state.promised
    decided = {each.uid: each.counts for each in plan.decisions}
    return {
        job.uid: (
            decided.get(job.uid, job.counts),
            known[job.uid][1] if job.uid in known else now.cluster.at,
        )
        for job in snapshot.jobs
        if not job.suspended and snapshot.bound_counts(job.uid) != job.counts
        if placed.is_placed(job.uid)
    }


def unplaceable(now: Moment) -> set[str]:
    """The jobs that something else than room keeps from being placed, such as a scheduling gate or
    a volume that is missing: else others would stay small for them for ever."""
    snapshot, at = now.cluster.snapshot(), now.cluster.at
    before, fitting = now.state.fitting, dict[str, tuple[Counts, float]]()
    waiting = [
        job
        for job in snapshot.jobs
        if job.uid in now.state.promised or job.uid in before
        if not job.suspended and not any(snapshot.bound_counts(job.uid))
        if now.histories.get(job.uid, NO_HISTORY).rescaling_to is None
    ]
    if waiting:
        free = CapacityPlan.of(snapshot, now.strategies.placement, leaving_counts=True)
    for job in waiting:
        counts, since = before.get(job.uid, (job.counts, at))
        # Nothing is done for it for an hour, although all its pods fit.
        if counts != job.counts or at - since >= PROMISE_SECONDS + 3600.0:
            since = at
        if at - since >= PROMISE_SECONDS or free.fits(job, job.counts):
            fitting[job.uid] = job.counts, since
    now.state.fitting = fitting
    return {uid for uid, (_, since) in fitting.items() if at - since >= PROMISE_SECONDS}

"""Repeated intervals converge: no job is rescaled back and forth."""

from dataclasses import replace

from hypothesis import given

from optimus.interval import Action, Decision, IntervalConfig, IntervalInput, plan_interval
from optimus.interval.capacity_plan import CapacityPlan
from optimus.jobs import Counts, Job
from optimus.placement.theorem1 import Theorem1
from optimus.snapshot import BoundPod, ClusterSnapshot
from tests.unit.interval.cases import Case
from tests.unit.interval.cluster import bind, strategies
from tests.unit.interval.test_interval import any_case

NO_COOLDOWN = IntervalConfig(cooldown_seconds=0.0)


def snapshot_after(snapshot: ClusterSnapshot, decisions: tuple[Decision, ...]) -> ClusterSnapshot:
    """The cluster after the decisions in order; a job whose new counts do not fit is unchanged."""
    plan = CapacityPlan.of(snapshot, Theorem1())
    jobs = {each.uid: each for each in snapshot.jobs}
    for decision in decisions:
        if decision.action is Action.SUSPEND:
            jobs[decision.uid] = replace(jobs[decision.uid], suspended=True)
            plan.release(decision.uid)
        if decision.rescales and plan.move(jobs[decision.uid], decision.counts) is None:
            jobs[decision.uid] = replace(jobs[decision.uid], counts=decision.counts)
    for each in jobs.values():
        if not each.suspended and not plan.is_placed(each.uid):
            plan.move(each, each.counts)
    return ClusterSnapshot.of(snapshot.at + 600, jobs.values(), snapshot.nodes, pods_of(plan, jobs))


def pods_of(plan: CapacityPlan, jobs: dict[str, Job]) -> list[BoundPod]:
    return [
        BoundPod(
            f"{uid}-{held.replica.role}-{held.replica.index}",
            held.node,
            held.resources,
            held.replica,
        )
        for uid in jobs
        for held in plan.held.get(uid, ())
    ]


def initial_snapshot(case: Case) -> ClusterSnapshot:
    pods = [
        pod for each, where in case.jobs if where for pod in bind(each, where[: sum(each.counts)])
    ]
    return ClusterSnapshot.of(0.0, [each for each, _ in case.jobs], case.nodes, pods)


@given(case=any_case())
def test_repeated_intervals_converge(case: Case) -> None:
    snapshot, seen_counts = initial_snapshot(case), set[tuple[Counts, ...]]()
    for _ in range(12):
        plan = plan_interval("i7", IntervalInput(snapshot), strategies(case.known), NO_COOLDOWN)
        if not any(decision.rescales for decision in plan.decisions):
            return
        snapshot = snapshot_after(snapshot, plan.decisions)
        counts = tuple(each.counts for each in snapshot.jobs)
        if counts in seen_counts:
            break
        seen_counts.add(counts)
    last = [
        (str(each.key), each.action.value, each.current, each.counts, each.reason)
        for each in plan.decisions
    ]
    assert not any(each.rescales for each in plan.decisions), last

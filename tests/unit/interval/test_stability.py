"""Plans carried out one after the other converge: no job is moved back and forth."""

from dataclasses import replace

from hypothesis import given

from optimus.interval import Action, Decision, IntervalConfig, IntervalInput, plan_interval
from optimus.interval.capacity_plan import CapacityPlan
from optimus.jobs import Counts, Job
from optimus.placement.theorem1 import Theorem1
from optimus.snapshot import BoundPod, ClusterSnapshot
from tests.unit.interval.cluster import bind, methods
from tests.unit.interval.scenes import Scene
from tests.unit.interval.test_interval import scenes

RULES = IntervalConfig(cooldown_seconds=0.0)


def carried_out(snapshot: ClusterSnapshot, decisions: tuple[Decision, ...]) -> ClusterSnapshot:
    """The cluster after the decisions, in their order; what finds no room then stays as it is."""
    room = CapacityPlan.of(snapshot, Theorem1())
    jobs = {each.uid: each for each in snapshot.jobs}
    for decision in decisions:
        if decision.action is Action.SUSPEND:
            jobs[decision.uid] = replace(jobs[decision.uid], suspended=True)
            room.release(decision.uid)
        if decision.rescales and room.move(jobs[decision.uid], decision.counts) is None:
            jobs[decision.uid] = replace(jobs[decision.uid], counts=decision.counts)
    for each in jobs.values():
        if not each.suspended and not room.is_placed(each.uid):
            room.move(each, each.counts)
    return ClusterSnapshot.of(snapshot.at + 600, jobs.values(), snapshot.nodes, pods_of(room, jobs))


def pods_of(room: CapacityPlan, jobs: dict[str, Job]) -> list[BoundPod]:
    return [
        BoundPod(
            f"{uid}-{held.replica.role}-{held.replica.index}",
            held.node,
            held.resources,
            held.replica,
        )
        for uid in jobs
        for held in room.held.get(uid, ())
    ]


def start(scene: Scene) -> ClusterSnapshot:
    pods = [
        pod for each, where in scene.jobs if where for pod in bind(each, where[: sum(each.counts)])
    ]
    return ClusterSnapshot.of(0.0, [each for each, _ in scene.jobs], scene.nodes, pods)


@given(scene=scenes())
def test_converges(scene: Scene) -> None:
    snapshot, seen_counts = start(scene), set[tuple[Counts, ...]]()
    for _ in range(12):
        plan = plan_interval("i7", IntervalInput(snapshot), methods(scene.known), RULES)
        if not any(decision.rescales for decision in plan.decisions):
            return
        snapshot = carried_out(snapshot, plan.decisions)
        counts = tuple(each.counts for each in snapshot.jobs)
        if counts in seen_counts:
            break
        seen_counts.add(counts)
    last = [
        (str(each.key), each.action.value, each.current, each.counts, each.reason)
        for each in plan.decisions
    ]
    assert not any(each.rescales for each in plan.decisions), last

"""The room that is free now for a rescale that begins at this moment.

1. Pods being deleted still take theirs.
2. A job in a rescale keeps room for its target, planned as the extender plans it: on what is free
   and on what its own pods take until they have left.
3. Where a job that was stopped finds no such room, the nodes that it may use are closed to all
   others: it must not lose its place to a profiling run or to the growth of another job.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from optimus.interval.capacity_plan import CapacityPlan, Held
from optimus.jobs import Counts, Job
from optimus.placement.capacity import is_admitted
from optimus.placement.gang import PlacementRule
from optimus.resources import NONE, Resources
from optimus.snapshot import BoundPod, ClusterSnapshot


@dataclass(frozen=True, slots=True)
class Claim:
    """Room that is kept for a job at ``counts``.

    ``keeps_pods``: beside the pods that it has; else the whole job is placed anew. ``is_stopped``:
    its training was stopped for this."""

    job: Job
    counts: Counts
    keeps_pods: bool = False
    is_stopped: bool = False


def headroom(
    snapshot: ClusterSnapshot, rule: PlacementRule, claims: Sequence[Claim]
) -> CapacityPlan:
    """The cluster's free room less the claims; those of stopped jobs come first."""
    plan = CapacityPlan.of(snapshot, rule, leaving_counts=True)
    pods = _pods_of(snapshot, plan, {claim.job.uid for claim in claims})
    in_order = sorted(claims, key=lambda claim: not claim.is_stopped)
    lacking = [claim for claim in in_order if not _keep(plan, claim, pods.get(claim.job.uid, ()))]
    for claim in lacking:
        if claim.is_stopped:
            _close(plan, claim.job)
    return plan


def take_room(room: CapacityPlan, job: Job, counts: Counts) -> tuple[Held, ...] | None:
    """Take the room of the whole job at these counts, if it is free; what its pods hold stays taken
    until they have left."""
    leaving = room.held.get(job.uid, ())
    if room.move(job, counts) is not None:
        return None
    for _, node, resources in leaving:
        room.take(node, resources)
    return room.held[job.uid]


def _pods_of(
    snapshot: ClusterSnapshot, plan: CapacityPlan, uids: set[str]
) -> Mapping[str, Sequence[BoundPod]]:
    pods: dict[str, list[BoundPod]] = {}
    for pod in snapshot.pods:
        if (
            pod.replica is not None
            and pod.replica.job_uid in uids
            and pod.node in plan.capacity.row_of
        ):
            pods.setdefault(pod.replica.job_uid, []).append(pod)
    return pods


def _keep(plan: CapacityPlan, claim: Claim, pods: Sequence[BoundPod]) -> bool:
    """Take the claim's room; false where there is none now, and nothing is taken."""
    if claim.keeps_pods:
        return plan.complete(claim.job, claim.counts) is None
    uid, mark = claim.job.uid, plan.capacity.mark()
    staying = plan.bound.get(uid)
    plan.release(uid)
    for pod in pods:
        if pod.leaving:
            plan.take(pod.node, NONE - pod.resources)
    if plan.assign(claim.job, claim.counts) is not None:
        plan.capacity.undo_to(mark)
        if staying is not None:
            plan.bound[uid] = staying
        return False
    assigned = _by_node((held.node, held.resources) for held in plan.held[uid])
    for node, taken in _by_node((pod.node, pod.resources) for pod in pods).items():
        # Nobody else has it either before those pods have left.
        plan.take(node, _beyond(taken, assigned.get(node, NONE)))
    return True


def _by_node(amounts: Iterable[tuple[str, Resources]]) -> dict[str, Resources]:
    sums: dict[str, Resources] = {}
    for node, amount in amounts:
        sums[node] = sums.get(node, NONE) + amount
    return sums


def _beyond(taken: Resources, held: Resources) -> Resources:
    return Resources({name: max(amount - held[name], 0) for name, amount in taken.items()})


def _close(plan: CapacityPlan, job: Job) -> None:
    """Leave nothing free on the nodes that any of the job's replicas may go to."""
    choices = {
        spec.constraints for spec in (job.ps, job.worker, *(role.spec for role in job.fixed))
    }
    for row, node in enumerate(plan.capacity.nodes):
        if any(is_admitted(node, constraints) for constraints in choices):
            plan.capacity.take(row, tuple(max(amount, 0) for amount in plan.capacity.free[row]))

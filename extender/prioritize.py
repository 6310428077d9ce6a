"""POST /prioritize: 0 to 10 for each offered node, 10 for the planned one.

This matters where filter leaves more than one node: for pods of no training job, and under
``scheduler-config/advisory.yaml``, where there is no filter and a gang is planned with its first
pod.
"""

from collections.abc import Sequence

from extender.parts import Parts
from extender.planner.slices import SCORE_SECONDS
from optimus.kube.pods import Pod
from optimus.placement.scoring import MAX_SCORE, free_room_scores, planned_scores
from optimus.snapshot import ReplicaId


def score_nodes(parts: Parts, pod: Pod, names: Sequence[str]) -> dict[str, int]:
    """The score of each offered node."""
    if pod.replica is not None:
        parts.state.wait_until_shown(pod)
    if pod.replica is not None and _wants_plan(parts, pod, pod.replica, names):
        parts.planner.plan_in_call(pod.replica.job_uid, SCORE_SECONDS)
    with parts.state.locked() as now:
        replica = pod.replica
        if replica is None or not parts.state.cluster.controls(pod):
            kept, _ = parts.state.reservations.nodes_for(pod.resources, names, pod.priority)
            return dict.fromkeys(names, 0) | dict.fromkeys(kept, MAX_SCORE)
        parts.offers_check.scored(pod, now)
        held = parts.state.reservation_for(pod, replica)
        if held is not None and held.node in names and parts.state.is_shown(pod):
            parts.state.answered(pod, now)
            return planned_scores(names, held.node)
        return _scores_without_plan(parts, pod, replica.job_uid, names)


def _wants_plan(parts: Parts, pod: Pod, replica: ReplicaId, names: Sequence[str]) -> bool:
    """Return whether the pod's gang is yet to be planned, and can be."""
    with parts.state.locked() as now:
        parts.state.expire(now)
        if not parts.state.cluster.controls(pod) or not parts.state.is_shown(pod):
            return False
        parts.state.queue.resume(replica.job_uid)
        if parts.state.reservation_for(pod, replica) is not None:
            return False
        parts.state.queue.ask(pod, early=True)
        if not parts.state.cluster.knows_gang_of(pod):
            return False
        found = parts.offers_check.offered(pod, names)
        return found is not None and found.observed.specs_known


def _scores_without_plan(
    parts: Parts, pod: Pod, job_uid: str, names: Sequence[str]
) -> dict[str, int]:
    """Nodes of the pod's own job first, then those with most of its dominant resource free."""
    capacity = parts.state.reservations.free()
    dominant, _ = pod.resources.dominant(capacity.allocatable)
    own = {other.node for other in parts.state.cluster.pods_of(job_uid).values() if other.node}
    return free_room_scores(names, capacity.free_of(dominant), frozenset(own & set(names)))

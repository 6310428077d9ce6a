"""Pods without a plan: those that no training job controls, and scores for replicas whose gang does
not fit."""

from collections.abc import Sequence

from extender.results import FilterResult
from extender.state.cluster import Cluster
from extender.state.reservations import Reservations
from optimus.kube.pods import Pod
from optimus.placement.scoring import room_scores


def pass_through(
    pod: Pod, names: Sequence[str], cluster: Cluster, promises: Reservations
) -> FilterResult:
    """Every node is the pod's, but for room that is promised."""
    promised = promises.ledger.held_by_node()
    full = {
        name
        for name in names
        if name in promised
        and name in cluster.nodes
        and not pod.resources.fits_in(promises.left(name))
    }
    kept = tuple(name for name in names if name not in full)
    return FilterResult(
        kept, dict.fromkeys(full, "room is reserved for a training job"), "reserved" if full else ""
    )


def scores_by_room(
    pod: Pod, names: Sequence[str], cluster: Cluster, promises: Reservations
) -> dict[str, int]:
    """Nodes that already hold the pod's job first, then those with most of its dominant resource
    left."""
    assert pod.replica is not None
    room = promises.room()
    dominant, _ = pod.resources.dominant(room.capacity)
    free = dict(zip(room.names, room.column(dominant).tolist(), strict=True))
    others = cluster.pods_of(pod.replica.job_uid).values()
    together = frozenset(other.node for other in others if other.node is not None) & frozenset(
        names
    )
    return room_scores(names, free, together)

"""What kube-scheduler does not offer the pods of a gang, and for how long that holds.

kube-scheduler checks rules that a plan does not know (volumes, resource claims, other plugins): it
leaves out the nodes that break them. Once a planned node of a gang was not offered, or where a pod
has such rules visibly, kube-scheduler is asked about a waiting pod of each shape before any is
answered: it is refused once, while the nodes that it is not offered are recorded for pods like it.
The gang is then planned on the others. Where it does not fit there, that holds for 1, 2, 4 ... 60
s, and then asked again: often it takes moments only, since kube-scheduler had not seen yet that
room appeared. What is recorded of a node ends when the node changes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from optimus.jobs import NodeConstraints, Role
from optimus.kube.pods import Pod
from optimus.placement.rules import PodRules
from optimus.resources import Resources
from optimus.snapshot import ReplicaId

FIRST_SECONDS: Final = 1.0
MOST_ANSWERS: Final = 3
"""Answers with one node, without a binding, that exclude it: Reserve or PreBind fails."""

_FOREVER: Final = float("inf")


class PodShape(NamedTuple):
    """Pods of one gang that kube-scheduler offers the same nodes. Replicas of one role mostly have
    one shape; they may differ in volumes, node selectors or requests."""

    role: Role
    resources: Resources
    constraints: NodeConstraints
    rules: PodRules | None


def shape_of(pod: Pod) -> PodShape:
    """The shape of a replica's pod."""
    assert pod.replica is not None
    return PodShape(pod.replica.role, pod.resources, pod.constraints, pod.rules)


def asked_as(pod: Pod) -> object:
    """Equal for pods of a gang of which kube-scheduler is asked about one: those of one shape, but
    for pods with rules that do not show in it."""
    return pod.uid if pod.beyond_plan else shape_of(pod)


@dataclass(slots=True)
class _JobOffers:
    asks: bool = False
    absent: dict[PodShape, set[str]] = field(default_factory=dict)
    frozen: dict[PodShape, frozenset[str]] = field(default_factory=dict)
    """Copies of what has not changed since it was asked for."""

    offered: set[str] = field(default_factory=set)
    """UIDs of the pods that have been offered nodes."""

    until: float = _FOREVER
    """When the back-off ends."""

    waits: bool = False
    """Whether the gang is not planned at all until then."""

    refusals: int = 0
    unbound_answers: dict[tuple[ReplicaId, str], int] = field(default_factory=dict)


_NOTHING: Final = _JobOffers()
"""Of a job whose pods are offered every node; never changed."""


class Offers:
    """Kept by job. Not thread-safe; time is an argument (monotonic, in seconds)."""

    def __init__(self) -> None:
        self.jobs: dict[str, _JobOffers] = {}
        self.next_end = _FOREVER
        """No back-off ends before this time."""

    def absent(self, job_uid: str) -> Mapping[PodShape, frozenset[str]]:
        """The nodes that a job's pods are not offered, as far as that is known."""
        known = self.jobs.get(job_uid)
        if known is None:
            return {}
        for shape in known.absent.keys() - known.frozen.keys():
            known.frozen[shape] = frozenset(known.absent[shape])
        return known.frozen.copy()

    def asks(self, job_uid: str) -> bool:
        """Return whether pods of the job are to be offered nodes before any is answered."""
        return self.jobs.get(job_uid, _NOTHING).asks

    def was_offered(self, job_uid: str, pod_uid: str) -> bool:
        """Return whether the pod has been offered nodes since its job's pods are asked about."""
        return pod_uid in self.jobs.get(job_uid, _NOTHING).offered

    def has_refused(self, job_uid: str) -> bool:
        """Return whether the job once did not fit on what it was offered."""
        return self.jobs.get(job_uid, _NOTHING).refusals > 0

    def waits(self, job_uid: str) -> bool:
        """Return whether what the job is offered changes so often that it is not planned for a
        while."""
        return self.jobs.get(job_uid, _NOTHING).waits

    def back_off_ends(self, job_uid: str) -> float | None:
        """Return when the job is asked about again (monotonic), if it backs off."""
        until = self.jobs.get(job_uid, _NOTHING).until
        return None if until == _FOREVER else until

    def record(self, pod: Pod, absent: Iterable[str]) -> None:
        """A pod was offered all nodes but ``absent``: its job's pods are asked about."""
        assert pod.replica is not None
        known = self._of(pod.replica.job_uid)
        known.asks = True
        known.offered.add(pod.uid)
        self._exclude(known, shape_of(pod), absent)

    def exclude(self, pod: Pod, node: str) -> None:
        """A node was answered for a pod and it was not bound there: take it as not offered."""
        assert pod.replica is not None
        self._exclude(self._of(pod.replica.job_uid), shape_of(pod), (node,))

    def _exclude(self, known: _JobOffers, shape: PodShape, nodes: Iterable[str]) -> None:
        known.absent.setdefault(shape, set()).update(nodes)
        known.frozen.pop(shape, None)

    def was_not_bound(self, replica: ReplicaId, node: str) -> bool:
        """A pod was answered with the node and is not bound there; whether once too often."""
        unbound_answers = self._of(replica.job_uid).unbound_answers
        times = unbound_answers[replica, node] = min(
            unbound_answers.get((replica, node), 0) + 1, MOST_ANSWERS
        )
        return times >= MOST_ANSWERS

    def does_not_fit(self, job_uid: str, now: float, longest_seconds: float) -> None:
        """The gang does not fit on what it is offered: the back-off begins, unless it runs."""
        known = self.jobs.get(job_uid)
        if known is not None and known.absent and known.until == _FOREVER:
            known.until = now + min(FIRST_SECONDS * 2.0**known.refusals, longest_seconds)
            known.refusals = min(known.refusals + 1, 20)
            self.next_end = min(self.next_end, known.until)

    def offers_differ(self, job_uid: str, now: float, longest_seconds: float) -> None:
        """A node that was offered before is not offered now: nothing is planned for a while."""
        self.does_not_fit(job_uid, now, longest_seconds)
        self._of(job_uid).waits = True

    def expire(self, now: float) -> tuple[str, ...]:
        """The jobs whose back-off has ended: their pods are asked about again."""
        ended = tuple(uid for uid, known in self.jobs.items() if known.until <= now)
        for uid in ended:
            known = self.jobs[uid]
            known.absent, known.frozen, known.offered = {}, {}, set()
            known.until, known.waits = _FOREVER, False
        self.next_end = min((known.until for known in self.jobs.values()), default=_FOREVER)
        return ended

    def node_changed(self, node: str) -> tuple[str, ...]:
        """A node has changed: it may be offered again; the jobs that this concerns."""
        concerned = []
        for uid, known in self.jobs.items():
            known.unbound_answers = {
                key: n for key, n in known.unbound_answers.items() if key[1] != node
            }
            with_node = [shape for shape, absent in known.absent.items() if node in absent]
            for shape in with_node:
                known.absent[shape].discard(node)
                known.frozen.pop(shape, None)
            if with_node:
                known.refusals, known.waits = 0, False
                concerned.append(uid)
        return tuple(concerned)

    def forget_pod(self, job_uid: str, pod_uid: str) -> None:
        """A pod is gone; what one that is bound was offered holds for those like it."""
        known = self.jobs.get(job_uid)
        if known is not None:
            known.offered.discard(pod_uid)

    def forget(self, job_uid: str) -> None:
        """A job has changed or is gone."""
        self.jobs.pop(job_uid, None)

    def _of(self, job_uid: str) -> _JobOffers:
        return self.jobs.setdefault(job_uid, _JobOffers())

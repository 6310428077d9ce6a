"""The answer about one pod: where it may go, or why nowhere.

kube-scheduler asks about one pod at a time; the answer is always part of a plan for the whole gang
(or no plan, and a refusal that says why).
"""

import logging
from collections.abc import Sequence
from typing import Final

from extender.gangs import Assembly, shape_of
from extender.passthrough import pass_through, scores_by_room
from extender.planner import Now, Planner
from extender.results import FilterResult, refuse
from extender.state.cluster import Cluster
from optimus.jobs import Counts, Role
from optimus.kube.pods import Pod
from optimus.placement.ledger import Reservation
from optimus.placement.scoring import MOST, planned_scores
from optimus.snapshot import ReplicaId

_LOG = logging.getLogger(__name__)

NEVER: Final = float("-inf")


class Answers:
    """Answers from one planner's plans. Not thread-safe: the placer's lock guards it."""

    def __init__(self, cluster: Cluster, planner: Planner) -> None:
        self._cluster, self._planner, self._promises = cluster, planner, planner.promises
        self._answered: dict[str, float] = {}
        self._told_to_wait: dict[str, Pod] = {}

    def answered_at(self, pod: Pod) -> float:
        """When kube-scheduler was last told where a waiting pod goes (monotonic, in seconds), or
        ``NEVER``."""
        return self._answered.get(pod.uid, NEVER)

    def forget(self, pod: Pod) -> None:
        """A pod does not wait any more."""
        self._answered.pop(pod.uid, None)
        self._told_to_wait.pop(pod.uid, None)

    def misinformed(self) -> tuple[Pod, ...]:
        """Pods whose users read that the gang is not whole, while by now it is and does not fit;
        told once."""
        found = [
            pod
            for pod in self._told_to_wait.values()
            if pod.replica is not None and self._planner.is_refused(pod.replica.job_uid)
        ]
        for pod in found:
            del self._told_to_wait[pod.uid]
        return tuple(found)

    def filter(self, pod: Pod, names: Sequence[str], now: Now) -> FilterResult:
        """Which of the offered nodes the pod may go to: exactly one for a planned member of a
        gang."""
        if pod.replica is None:
            return pass_through(pod, names, self._cluster, self._promises)
        return self._place(pod, pod.replica, names, now)

    def _place(self, pod: Pod, replica: ReplicaId, names: Sequence[str], now: Now) -> FilterResult:
        self._told_to_wait.pop(pod.uid, None)
        self._planner.asked(replica.job_uid)
        # Asked again: whatever was answered before did not come to a binding.
        self._planner.landed(replica)
        known = self._cluster.pods_of(replica.job_uid).get(pod.uid)
        if known is not None and known.node is not None:
            return refuse(names, "the pod has been bound already", "bound")
        if self._planner.rescales.takes_away(replica.job_uid, now.at):
            return refuse(
                names,
                f"job {_job(pod)} is being suspended, to go on with other counts",
                "rescaling",
            )
        held = self._held_for(pod, replica)
        if list(names) == [pod.nominated_node]:
            if held is not None and held.node == names[0]:
                return self._answer(pod, held, names, now)
            return refuse(
                names,
                f"the plan of job {_job(pod)} has changed since the pod was nominated",
                "probe",
            )
        if held is not None:
            if held.node in names:
                return self._answer(pod, held, names, now)
            _LOG.info(
                "pod %s/%s may not go to %s as planned: planned again",
                pod.namespace,
                pod.name,
                held.node,
            )
            self._planner.bar(replica, held.node, now)
            self._planner.break_plan(replica.job_uid)
        if not self._cluster.knows_gang_of(pod):
            return refuse(names, f"job {_job(pod)} itself has not been seen yet", "unknown")
        assembly = self._planner.assemble(pod)
        if not assembly.complete:
            self._told_to_wait[pod.uid] = pod
            return refuse(names, f"waiting for all pods of job {_job(pod)}", "incomplete")
        return self._plan(pod, replica, assembly, names, now)

    def _held_for(self, pod: Pod, replica: ReplicaId) -> Reservation | None:
        held = self._promises.ledger.get(replica)
        if held is None:
            return None
        rescale = self._cluster.rescales.get(replica.job_uid)
        counts = shape_of(pod, self._cluster.jobs.get(replica.job_uid))
        other = (
            rescale is not None
            and Counts(counts.get(Role.PS, 0), counts.get(Role.WORKER, 0)) != rescale.target
        )
        if other or not pod.resources.fits_in(held.resources):
            # Held for other counts or another template than the pod was made with.
            self._planner.break_plan(replica.job_uid)
            return None
        return held

    def _plan(
        self, pod: Pod, replica: ReplicaId, assembly: Assembly, names: Sequence[str], now: Now
    ) -> FilterResult:
        refused = self._planner.plan_in_turn(now, assembly)
        if refused is not None:
            return refuse(names, refused.reason, "no room")
        held = self._promises.ledger.get(replica)
        assert held is not None
        if held.node in names:
            return self._answer(pod, held, names, now)
        # kube-scheduler knows of reasons that a plan cannot know (ports, volumes): plan on what it
        # offers.
        self._planner.bar(replica, held.node, now)
        self._planner.break_plan(replica.job_uid)
        absent = frozenset(self._cluster.nodes) - frozenset(names)
        held = (
            self._promises.ledger.get(replica) if self._replan(pod, replica, absent, now) else None
        )
        if held is None:
            return refuse(
                names,
                f"job {_job(pod)} does not fit as a whole on the nodes offered",
                "not offered",
            )
        return self._answer(pod, held, names, now)

    def _replan(self, pod: Pod, replica: ReplicaId, absent: frozenset[str], now: Now) -> bool:
        return self._planner.plan_apart(self._planner.assemble(pod), absent, replica, now)

    def _answer(self, pod: Pod, held: Reservation, names: Sequence[str], now: Now) -> FilterResult:
        self._answered[pod.uid] = now.at
        self._planner.sent(held)
        refused = dict.fromkeys(
            names, f"job {_job(pod)} is planned on other nodes for this replica"
        )
        refused.pop(held.node, None)
        return FilterResult((held.node,), refused)

    def prioritize(self, pod: Pod, names: Sequence[str], now: Now) -> dict[str, int]:
        """0 to 10 for each offered node; the planned node gets 10.

        Without the filter (placement by score alone) this is where a gang gets its plan, with its
        first pod."""
        if pod.replica is None:
            full = pass_through(pod, names, self._cluster, self._promises).refused
            return {name: 0 if name in full else MOST for name in names}
        self._planner.asked(pod.replica.job_uid)
        held = self._held_for(pod, pod.replica)
        if held is None and self._cluster.knows_gang_of(pod):
            assembly = self._planner.assemble(pod)
            if assembly.known and self._planner.plan_in_turn(now, assembly) is None:
                held = self._promises.ledger.get(pod.replica)
        if held is not None and held.node in names:
            self._answered[pod.uid] = now.at
            return planned_scores(names, held.node)
        return scores_by_room(pod, names, self._cluster, self._promises)


def _job(pod: Pod) -> str:
    return str(pod.job_key)

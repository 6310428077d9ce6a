"""The background thread that makes kube-scheduler try planned pods again.

kube-scheduler tries a pod by itself until it has found no node for it, and then only after an event
that it takes for helpful. A plan is none: its pods are requeued by an annotation, within the limits
of ``extender.requeues``."""

import time
from collections.abc import Callable, Collection, Iterable
from typing import Final

from extender.planner.leading import Leading
from extender.planner.pending_pods import PendingPod, PendingPods
from extender.requeues import FIRST_SECONDS, Requeue, Requeues
from optimus.jobs import alternating
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused

MOST_WRITES: Final = 32
"""Pods that are requeued for one reason in one run, those of each namespace in turn: one with
thousands that wait does not keep the others from being tried."""

_ASKED = "kube-scheduler is to say which nodes it may go to"


class Requeuer:
    """One thread calls ``step`` whenever something changed and at least every second."""

    def __init__(
        self,
        plans: PendingPods,
        leading: Leading,
        requeues: Requeues,
        leads: Callable[[], bool],
        *,
        report: Callable[[float], None] = lambda _: None,
    ) -> None:
        """``report`` is called in each run as the leader, with the time."""
        self._plans, self._leading, self._requeues = plans, leading, requeues
        self._leads, self._report = leads, report
        self._outdated: dict[str, Pod] = {}
        """Pods whose users read a reason that is out of date, until they have been requeued."""
        self._more = self._led = False

    def step(self) -> bool:
        """Carry out what is due now; returns whether more is due at once."""
        self.run_once(time.monotonic())
        return self._more

    def run_once(self, now: float) -> None:
        """Begin or end to lead; as the leader, requeue what is to be tried again."""
        self._more = False
        if not self._leads():
            if self._led:
                self._leading.release_all()
                self._outdated.clear()
            self._led = False
            return
        if not self._led:
            self._leading.begin()
            self._led = True
        self._outdated.update((pod.uid, pod) for pod in self._plans.outdated_refusals())
        planned = self._plans.planned()
        self._requeue_planned(planned, now)
        self._requeue_outdated({each.pod.uid for each in planned}, now)
        self._requeue_first((Requeue(pod, _ASKED) for pod in self._plans.pods_to_ask_about()), now)
        self._report(now)

    def _requeue_planned(self, planned: Iterable[PendingPod], now: float) -> None:
        nodes = {each.pod.uid: each.node for each in planned if _is_left_out(each, now)}
        writes = (
            Requeue(each.pod, f"planned on {each.node}")
            for each in planned
            if each.pod.uid in nodes
        )
        # A gang of 40 takes a while to write: kube-scheduler may have been answered meanwhile.
        self._requeue_first(
            writes, now, lambda each: self._plans.still_pending(each.pod, nodes[each.pod.uid])
        )

    def _requeue_outdated(self, planned: Collection[str], now: float) -> None:
        self._outdated = {
            uid: pod
            for uid, pod in self._outdated.items()
            if uid not in planned and self._plans.is_waiting(pod)
        }
        # Its status says that pods are missing: the next refusal says that room is.
        writes = (Requeue(pod, "its gang was planned again") for pod in self._outdated.values())
        for uid in self._requeue_first(writes, now):
            del self._outdated[uid]

    def _requeue_first(
        self,
        writes: Iterable[Requeue],
        now: float,
        still_wanted: Callable[[Requeue], bool] = lambda _: True,
    ) -> list[str]:
        """Carry out the first of these that are due; the UIDs of pods that were written to."""
        due = [write for write in writes if self._requeues.is_due(write, now)]
        due.sort(key=lambda each: (-each.pod.priority, self._requeues.last_at(each)))
        due = alternating(due, lambda write: write.pod.namespace)
        self._more |= len(due) > MOST_WRITES
        outcomes = self._requeues.write_all(due[:MOST_WRITES], now, still_wanted)
        return [
            write.pod.uid
            for write, outcome in zip(due, outcomes, strict=False)
            if outcome is not None
            and not (isinstance(outcome, Refused) and outcome.kind is ErrorKind.THROTTLED)
        ]


def _is_left_out(pending: PendingPod, now: float) -> bool:
    """Return whether kube-scheduler has found no node for the pod, here or before it asked the
    extender, and is not about to bind it."""
    refused_at = pending.refused_at
    if pending.assumed or now - pending.answered_at < FIRST_SECONDS:
        return False
    return refused_at is not None or pending.pod.refused

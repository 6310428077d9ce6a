"""The background thread: plans gangs as the cluster changes, and nominates nodes for their pods.

A nomination (``status.nominatedNodeName``) requeues a refused pod, makes kube-scheduler try that
one node first, and reserves the room in kube-scheduler's own cache. kube-scheduler clears it when
an attempt fails, so live plans are nominated again, within the limits of
``extender.status_writes``; nominations without a plan are cleared. Without nominations everything
holds, only later: pods are then requeued by an annotation.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from extender.planner.nominations import PendingNomination
from extender.status_writes import FIRST_SECONDS, StatusWrite, StatusWrites
from optimus.jobs import alternating
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.kube.store import Changes

_LOG = logging.getLogger(__name__)

PAUSE_SECONDS = 0.02
"""Between two runs: many events are handled together, and filter does not wait for the lock."""

PAUSES_PER_RUN = 2
"""How much longer than a run the pause after it is: also for a long queue, the thread takes at most
a third of a processor, which it shares with the thread that answers kube-scheduler. In a large
cluster a longer pause costs more than it saves: kube-scheduler tries all nodes for pods that are
not nominated meanwhile."""

MOST_WRITES: Final = 32
"""Pods that are nominated in one run: the next one begins where kube-scheduler has come to. So many
are requeued, too, and of so many a nomination is cleared, those of each namespace in turn: one with
thousands that wait does not keep the others from being nominated."""

SEEN_AFTER_SECONDS: Final = 0.1
"""How long a nomination takes until kube-scheduler has seen it. While kube-scheduler works through
a queue, it tries about as many pods meanwhile as it was answered in the last so many seconds."""

LONGEST_LEFT_SECONDS: Final = 1.0
"""A pod that is left to kube-scheduler and that it does not try within this is nominated."""

QUEUE_MOVES_SECONDS: Final = 1.0
"""kube-scheduler that answered a pod within this is working through its queue."""

LONGEST_IN_QUEUE_SECONDS: Final = 60.0
"""How long a pod that it has not refused is left to it meanwhile, where trying all nodes costs less
than a nomination. To nominate a part of its queue would cost most: it then tries the nodes of these
nominations twice for every other pod."""

CONSIDER_ALL_SECONDS: Final = 1.0
"""Between two looks at the pods of a queue that is left to kube-scheduler: thousands of pods take
longer than a run should. Those that it has refused are considered in each run."""

_ASKED = "kube-scheduler is to say which nodes it may go to"
_TO_BE_TRIED_AGAIN = (ErrorKind.TRANSIENT, ErrorKind.THROTTLED)


class _Plans(Protocol):
    """``extender.planner.nominations.Nominations``; see there."""

    changes: Changes

    def outdated_refusals(self) -> tuple[Pod, ...]: ...
    def pending_nominations(self) -> tuple[PendingNomination, ...]: ...
    def find_waiting(self, pod: Pod) -> Pod | None: ...
    def pods_to_requeue(self) -> tuple[Pod, ...]: ...
    def still_pending(self, pod: Pod, node: str) -> bool: ...
    def nominations_save_time(self) -> bool: ...


class _Leading(Protocol):
    """``extender.planner.adoption.Adoption``; see there."""

    def adopt_nominations(self) -> tuple[Pod, ...]: ...
    def release_all(self) -> None: ...


@dataclass(frozen=True, slots=True)
class _Nominated:
    pod: Pod
    node: str


class Nominator:
    """One thread, which calls ``run_once`` whenever something changed and at least every second."""

    def __init__(
        self,
        plans: _Plans,
        leading: _Leading,
        writes: StatusWrites,
        leads: Callable[[], bool],
        *,
        nominate: bool,
        report: Callable[[float], None] = lambda _: None,
    ) -> None:
        """``report`` is called in each run as the leader, with the time."""
        self._report = report
        self._plans, self._leading, self._writes = plans, leading, writes
        self._leads, self._nominate = leads, nominate
        self._nominated: dict[str, _Nominated] = {}
        self._to_requeue: dict[str, Pod] = {}
        """Pods whose users read a reason that is out of date, until they have been requeued."""
        self._left_to_be_tried: dict[str, float] = {}
        """Pods, by UID, that kube-scheduler is about to try without a nomination; since when."""
        self._answered_at = float("-inf")
        """When kube-scheduler was last answered with a planned node, as far as runs have seen."""
        self._considered_all_at = float("-inf")
        self._skipped_since = float("inf")
        """When a run considered refused pods alone, first since all of them were."""
        self._more = False
        self._led = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nominator", daemon=True)

    def start(self) -> None:
        """Begin, on a separate thread."""
        self._thread.start()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """End the thread."""
        self._stopping.set()
        self._plans.changes.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        count = -1
        while not self._stopping.is_set():
            count = self._plans.changes.wait(count, 0.0 if self._more else 1.0)
            began = time.thread_time()
            try:
                self.run_once(time.monotonic())
            except Exception:  # noqa: BLE001 - the thread goes on: the next run starts from what is there then
                _LOG.exception("planning or nominating failed")
                self._more = False  # what fails is not tried again without a pause
            used = time.thread_time() - began
            if not self._more:
                self._stopping.wait(max(PAUSE_SECONDS, PAUSES_PER_RUN * used))

    def run_once(self, now: float) -> None:
        """Plan what waits, nominate what is planned, clear what is not."""
        self._more = False
        if not self._leads():
            if self._led:
                self._leading.release_all()
                self._nominated.clear()
                self._to_requeue.clear()
                self._left_to_be_tried.clear()
            self._led = False
            return
        if not self._led:
            for pod in self._leading.adopt_nominations():
                # Nobody planned it: cleared below, as a nomination of this process would be.
                self._nominated[pod.uid] = _Nominated(pod, pod.nominated_node or "")
            self._led = True
        self._to_requeue.update((pod.uid, pod) for pod in self._plans.outdated_refusals())
        pending = {each.pod.uid: each for each in self._plans.pending_nominations()}
        for uid, each in pending.items():
            is_new = uid not in self._nominated and not each.pod.in_group
            if is_new and each.pod.nominated_node == each.node:
                self._nominated[uid] = _Nominated(each.pod, each.node)  # by the last leader
        due = self._due(pending.values(), now)
        self._more = len(due) > MOST_WRITES
        self._nominate_planned(due[:MOST_WRITES], now)
        self._clear_unplanned(pending.keys(), now)
        self._requeue_outdated(pending.keys(), now)
        asked = (StatusWrite(pod, reason=_ASKED) for pod in self._plans.pods_to_requeue())
        self._writes.write_all(self._first_due(asked, now), now)
        self._report(now)

    def _first_due(self, writes: Iterable[StatusWrite], now: float) -> list[StatusWrite]:
        due = [write for write in writes if self._writes.is_due(write, now)]
        due.sort(key=self._writes.last_at)
        return alternating(due, lambda write: write.pod.namespace)[:MOST_WRITES]

    def _due(self, pending: Collection[PendingNomination], now: float) -> list[PendingNomination]:
        """The pods to be written to, in order of attempts, without those that kube-scheduler tries
        before it would see their nomination: the write would be wasted, and slow both down.

        Where trying all nodes costs less than a nomination, it is left every pod while its queue
        moves: the order of its queue is not known, since it tries the pods of its first list in no
        particular one. A pod that it has refused is not tried again without a nomination, and none
        is left out for long."""
        answered_at = max((each.answered_at for each in pending), default=self._answered_at)
        self._answered_at = max(self._answered_at, answered_at)
        is_small = self._nominate and not self._plans.nominations_save_time()
        is_left = is_small and now - self._answered_at < QUEUE_MOVES_SECONDS
        if is_left and now - self._considered_all_at < CONSIDER_ALL_SECONDS:
            self._skipped_since = min(self._skipped_since, now)
            refused = [each for each in pending if _was_refused(each) and self._is_due(each, now)]
            return sorted(refused, key=_order_of_attempts)
        since, self._skipped_since = min(self._skipped_since, now), float("inf")
        self._considered_all_at = now
        due = [each for each in pending if self._is_due(each, now)]
        due.sort(key=_order_of_attempts)
        answered = sum(now - each.answered_at < SEEN_AFTER_SECONDS for each in pending)
        tried = len(due) if is_small else answered
        longest = LONGEST_IN_QUEUE_SECONDS if is_left else LONGEST_LEFT_SECONDS
        soon = [each.pod.uid for each in due[:tried] if not _was_refused(each)]
        self._left_to_be_tried = {uid: self._left_to_be_tried.get(uid, since) for uid in soon}
        left = {uid for uid, at in self._left_to_be_tried.items() if now - at < longest}
        return [each for each in due if each.pod.uid not in left]

    def _is_due(self, pending: PendingNomination, now: float) -> bool:
        if pending.assumed or now - pending.answered_at < FIRST_SECONDS:
            return False  # kube-scheduler is binding it
        if not pending.compared:
            return False  # kube-scheduler would offer it that node alone
        if self._nominates(pending) and pending.pod.nominated_node == pending.node:
            # A plugin of PostFilter may keep the nomination of a pod that was refused: nothing
            # would make kube-scheduler try it again. Without one, the watch shows it cleared soon.
            refused_at = pending.refused_at
            if refused_at is None or now - refused_at < FIRST_SECONDS:
                return False
        return self._writes.is_due(self._write_of(pending), now)

    def _nominates(self, pending: PendingNomination) -> bool:
        """Whether the pod is nominated rather than requeued: kube-scheduler itself nominates those
        of a PodGroup, and clears that when one of them fits nowhere."""
        return self._nominate and not pending.pod.in_group

    def _write_of(self, pending: PendingNomination) -> StatusWrite:
        if self._nominates(pending) and pending.pod.nominated_node != pending.node:
            return StatusWrite(pending.pod, node=pending.node)
        return StatusWrite(pending.pod, reason=f"planned on {pending.node}")

    def _nominate_planned(self, due: list[PendingNomination], now: float) -> None:
        nodes = {each.pod.uid: each.node for each in due}

        def still_wanted(write: StatusWrite) -> bool:
            # A gang of 40 takes a while to write: kube-scheduler may have been answered meanwhile.
            return self._plans.still_pending(write.pod, nodes[write.pod.uid])

        writes = [self._write_of(each) for each in due]
        for each, outcome in zip(
            due, self._writes.write_all(writes, now, still_wanted), strict=True
        ):
            if outcome is not None and _may_have_happened(outcome):
                self._nominated[each.pod.uid] = _Nominated(each.pod, each.node)

    def _clear_unplanned(self, pending: Collection[str], now: float) -> None:
        clears: list[StatusWrite] = []
        for uid, last in list(self._nominated.items()):
            if uid in pending:
                continue
            waiting = self._plans.find_waiting(last.pod)
            if waiting is None or waiting.nominated_node != last.node:
                del self._nominated[uid]
            else:
                clears.append(StatusWrite(waiting))
        clears = self._first_due(clears, now)
        for write, outcome in zip(clears, self._writes.write_all(clears, now), strict=True):
            if isinstance(outcome, Written) or (
                outcome is not None and outcome.kind not in _TO_BE_TRIED_AGAIN
            ):
                del self._nominated[write.pod.uid]

    def _requeue_outdated(self, pending: Collection[str], now: float) -> None:
        writes: list[StatusWrite] = []
        for uid, pod in list(self._to_requeue.items()):
            write = StatusWrite(pod, reason="its gang was planned again")
            if uid in pending or self._plans.find_waiting(pod) is None:
                del self._to_requeue[uid]
            else:
                writes.append(write)
        writes = self._first_due(writes, now)
        # Its status says that pods are missing: the next refusal says that room is.
        for write, outcome in zip(writes, self._writes.write_all(writes, now), strict=True):
            if outcome is not None and not _is_throttled(outcome):
                del self._to_requeue[write.pod.uid]


def _order_of_attempts(pending: PendingNomination) -> tuple[int, float, str, str]:
    """The order in which kube-scheduler tries pods that it sees being made: by priority, then as
    they were made."""
    pod = pending.pod
    return -pod.priority, pod.created_at, pod.namespace, pod.name


def _was_refused(pending: PendingNomination) -> bool:
    """Whether kube-scheduler found no node for it: here, or before it asked the extender."""
    return pending.refused_at is not None or pending.pod.refused


def _may_have_happened(outcome: Written | Refused) -> bool:
    return isinstance(outcome, Written) or outcome.kind is ErrorKind.TRANSIENT


def _is_throttled(outcome: Written | Refused) -> bool:
    return isinstance(outcome, Refused) and outcome.kind is ErrorKind.THROTTLED

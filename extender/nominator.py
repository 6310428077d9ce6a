"""The background thread: plans gangs as the cluster changes, and tells their pods.

A nomination wakes a refused pod, lets kube-scheduler look at that one node first, and is a
reservation in its own books. kube-scheduler clears it whenever an attempt fails, so live plans are
told again, at most once a second per pod; what is told and no longer planned is cleared. Everything
holds without it, only later: pods are then requeued by an annotation.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from extender.leadership import Leadership
from extender.results import PendingNomination
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.kube.store import Changes

_LOG = logging.getLogger(__name__)

PAUSE_SECONDS = 0.02
"""Between two looks: hundreds of events a second are looked at together, and filter is not kept
waiting."""

AGAIN_SECONDS = 1.0
"""A pod is told at most this often."""


class Teller(Protocol):
    """Writes to pending pods; ``optimus.kube.writer.PodWriter`` is one."""

    def nominate(self, pod: Pod, node: str | None) -> Written | Refused:
        """Set the pod's nominated node, or clear it."""
        ...

    def requeue(self, pod: Pod, reason: str) -> Written | Refused:
        """Make kube-scheduler try the pod again."""
        ...


class Plans(Protocol):
    """Whose plans are told; ``extender.placer.Placer`` is one."""

    changes: Changes

    def advance(self) -> tuple[Pod, ...]:
        """Plan what can be planned now; returns pods whose refusal should be told anew."""
        ...

    def wishes(self) -> tuple[PendingNomination, ...]:
        """The pods that are planned and wait."""
        ...

    def waiting(self, pod: Pod) -> Pod | None:
        """The pod as it is now, if it still needs a node."""
        ...

    def rebuild(self) -> tuple[Pod, ...]:
        """Take plans over from an earlier process; returns the pods whose nominations are of no
        use."""
        ...

    def let_go(self) -> None:
        """Hold nothing: another process decides now."""
        ...


@dataclass(slots=True)
class _Told:
    pod: Pod
    node: str
    at: float


class Nominator:
    """One thread. ``round`` is one look; ``start`` repeats it whenever something changed, at least
    every second."""

    def __init__(
        self,
        plans: Plans,
        teller: Teller,
        leadership: Leadership,
        *,
        nominate: bool,
        told: Callable[[str], None] = lambda _: None,
        executor: Executor | None = None,
    ) -> None:
        """``told`` is told each write's outcome; patches run on ``executor``, one after the other
        without one."""
        self._plans, self._teller, self._leadership = plans, teller, leadership
        self._nominate, self._count, self._executor = nominate, told, executor
        self._told: dict[str, _Told] = {}
        self._led = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nominator", daemon=True)

    def start(self) -> None:
        """Begin, on a thread of its own."""
        self._thread.start()

    def stop(self, timeout_seconds: float = 5.0) -> None:
        """End the thread."""
        self._stopping.set()
        self._plans.changes.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        seen = -1
        while not self._stopping.is_set():
            seen = self._plans.changes.wait(seen, 1.0)
            try:
                self.round(time.monotonic())
            except Exception:  # noqa: BLE001 - the thread goes on: the next look starts from what is there then
                _LOG.exception("a look at the plans failed")
            self._stopping.wait(PAUSE_SECONDS)

    def round(self, now: float) -> None:
        """Plan what waits and tell whom it concerns."""
        if not self._leadership.leads():
            if self._led:
                self._plans.let_go()
                self._told.clear()
            self._led = False
            return
        if not self._led:
            for pod in self._plans.rebuild():
                self._withdraw(pod)
            self._led = True
        for pod in self._plans.advance():
            self._counted(
                pod, self._teller.requeue(pod, f"its gang was looked at again at {now:.1f}")
            )
        wishes = {wish.pod.uid: wish for wish in self._plans.wishes()}
        self._each([wish for wish in wishes.values() if self._is_due(wish, now)], now)
        self._clear(wishes)

    def _is_due(self, wish: PendingNomination, now: float) -> bool:
        told = self._told.get(wish.pod.uid)
        if now - wish.answered_at < AGAIN_SECONDS or (
            told is not None and now - told.at < AGAIN_SECONDS
        ):
            # kube-scheduler is busy with it, or it has just been told.
            return told is not None and told.node != wish.node
        return not self._nominate or wish.pod.nominated_node != wish.node

    def _each(self, wishes: list[PendingNomination], now: float) -> None:
        if self._executor is None:
            outcomes = [self._tell(wish, now) for wish in wishes]
        else:
            outcomes = list(self._executor.map(lambda wish: self._tell(wish, now), wishes))
        for wish, outcome in zip(wishes, outcomes, strict=True):
            if isinstance(outcome, Written) or outcome.kind is ErrorKind.TRANSIENT:
                self._told[wish.pod.uid] = _Told(wish.pod, wish.node, now)

    def _tell(self, wish: PendingNomination, now: float) -> Written | Refused:
        if self._nominate:
            outcome = self._teller.nominate(wish.pod, wish.node)
        else:
            outcome = self._teller.requeue(wish.pod, f"planned on {wish.node} at {now:.1f}")
        return self._counted(wish.pod, outcome)

    def _clear(self, wishes: Mapping[str, PendingNomination]) -> None:
        """Take back what is told and no longer planned; forget pods that are bound or gone."""
        for uid, told in list(self._told.items()):
            if uid in wishes:
                continue
            pod = self._plans.waiting(told.pod)
            if pod is None or pod.nominated_node != told.node or self._withdraw(pod):
                del self._told[uid]

    def _withdraw(self, pod: Pod) -> bool:
        """Clear a nomination; false where it has to be tried again."""
        outcome = self._counted(pod, self._teller.nominate(pod, None))
        return isinstance(outcome, Written) or outcome.kind is not ErrorKind.TRANSIENT

    def _counted(self, pod: Pod, outcome: Written | Refused) -> Written | Refused:
        self._count("written" if isinstance(outcome, Written) else str(outcome.kind))
        if isinstance(outcome, Refused):
            # Bound, gone or made anew since it was looked at: nothing is wrong, the watch will
            # tell.
            moved_on = outcome.kind in (ErrorKind.NOT_FOUND, ErrorKind.INVALID, ErrorKind.CONFLICT)
            level = logging.DEBUG if moved_on else logging.WARNING
            _LOG.log(
                level,
                "pod %s/%s is not told its node: %s",
                pod.namespace,
                pod.name,
                outcome.sentence,
            )
        return outcome

"""Binds the rest of a gang while kube-scheduler waits for the answer about its first pod.

kube-scheduler then sees these pods bound and takes them off its queue: it tries one pod of a gang
instead of each. They are bound only where the plan knows everything that decides on them, and where
no binding may be on its way that it does not know (``extender.state.unseen_bindings``). What is not
bound here, for whatever reason, keeps its reservation, and kube-scheduler binds it as it would
without this.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from extender.bindings import Binding
from extender.planner.offers_check import OffersCheck
from extender.state.extender_state import ExtenderState
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.placement.capacity import is_admitted
from optimus.placement.gang import Placement
from optimus.placement.ledger import Reservation
from optimus.placement.queue.order import Instant

_LOG = logging.getLogger(__name__)

BIND_SECONDS: Final = 1.0
"""No binding is sent later than this after the call. It is less than an extender waits before it
plans whose kube-scheduler takes over."""

ANSWER_SECONDS: Final = 1.5
"""How long the API server is waited for: kube-scheduler waits for 5 s in all."""

SEEN_SECONDS: Final = 1.0
"""How long the watch is waited for: kube-scheduler sees the bindings at about the same time."""

PAUSE_SECONDS: Final = 30.0
"""How long nothing of a namespace is bound after a binding there was forbidden, was throttled or
failed: a webhook may be its own. After the watch was late it is as long for every namespace."""

PAUSES: Final = (ErrorKind.FORBIDDEN, ErrorKind.THROTTLED, ErrorKind.TRANSIENT)


class BindAll(Protocol):
    """``extender.bindings.PodBinder.bind``; see there."""

    def __call__(
        self, bindings: Sequence[Binding], why_not: Callable[[Pod, str], str | None]
    ) -> list[Written | Refused]:
        """Bind pods to their nodes."""
        ...


class _Rest(NamedTuple):
    """The pods of a gang that are to be bound, with their reservations."""

    pods: tuple[tuple[Pod, Reservation], ...] = ()
    cause: str = ""
    """Why none is, in one or two words, for a metric."""


class GangBinding:
    """Over one state; takes its lock. Several calls of kube-scheduler may use it at once."""

    def __init__(
        self,
        state: ExtenderState,
        offers_check: OffersCheck,
        bind: BindAll,
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``count`` gets what became of each gang, and of each binding that failed."""
        self._state, self._offers_check = state, offers_check
        self._bind, self._count = bind, count
        self._paused_until: dict[str, float] = {}
        """By namespace, and "" for all (monotonic)."""

    def bind_rest(self, pod: Pod, names: Sequence[str]) -> None:
        """Bind the waiting pods of the gang of a pod for which kube-scheduler is answered its
        planned node, one of ``names``."""
        until = time.monotonic() + BIND_SECONDS
        if pod.replica is None or self._is_paused(pod.namespace):
            return

        # 1. From now on they count as placed, and kube-scheduler gets no answer about them.
        with self._state.locked() as now:
            rest = self._rest(pod, names, now)
            for each, held in rest.pods:
                self._state.assume(each, held, now)
                self._state.unseen.begin(each.uid, held.node, now.monotonic)
        if not rest.pods:
            if rest.cause:
                self._count(rest.cause)
            return

        # 2. They are bound, as long as nothing speaks against it.
        outcomes = self._bind(
            [(each, held.node) for each, held in rest.pods],
            lambda each, node: self._why_not(each, node, until),
        )

        # 3. What is not bound is left to kube-scheduler.
        bound = [
            each
            for (each, held), outcome in zip(rest.pods, outcomes, strict=True)
            if self._end(each, held, outcome)
        ]
        self._count("bound" if len(bound) == len(rest.pods) else "bound in part")

        # 4. kube-scheduler is answered once it may have seen them bound, as the watch here has.
        if bound and not self._are_seen(bound):
            self._pause("", "the watch does not show what was bound")

    def _rest(self, pod: Pod, names: Sequence[str], now: Instant) -> _Rest:
        state = self._state
        assert pod.replica is not None
        job_uid = pod.replica.job_uid
        assumed, ledger = state.reservations.assumed, state.reservations.ledger
        waiting = [
            each
            for each in state.cluster.waiting_pods(job_uid)
            if each.uid != pod.uid and each.replica not in assumed
        ]
        if not waiting:
            return _Rest()
        cause = self._why_none(job_uid, now)
        if cause:
            return _Rest(cause=cause)
        pairs = [
            (each, held)
            for each in waiting
            if each.replica is not None and (held := ledger.get(each.replica)) is not None
        ]
        if len(pairs) < len(waiting) or not self._still_holds(job_uid, pairs):
            return _Rest(cause="plan")
        if not self._are_offered(pod, names, [held.node for _, held in pairs]):
            return _Rest(cause="not offered")
        nodes = {held.node for _, held in pairs}
        if not state.unseen.leave_room_for_passing(nodes, now.monotonic):
            return _Rest(cause="passing pods")
        return _Rest(tuple(pairs))

    def _why_none(self, job_uid: str, now: Instant) -> str:
        """Return why nothing of a gang is bound, whatever is planned for it."""
        state = self._state
        if job_uid in state.cluster.rescales:
            return "rescaling"
        is_late = state.why_too_old() is not None or state.unseen.may_be_late(now.monotonic)
        if is_late or not state.leads:
            return "late"
        if now.monotonic < state.unseen.others_until:
            return "other scheduler"
        return "" if self._offers_check.knows_every_rule(job_uid) else "rules"

    def _still_holds(self, job_uid: str, pairs: Sequence[tuple[Pod, Reservation]]) -> bool:
        """Return whether the gang is as it was planned, and its nodes still admit it and have the
        room."""
        state = self._state
        found = state.queue.find(job_uid)
        if found is None or not found.observed.complete or not state.queue.is_held(found.observed):
            return False
        gang = state.reservations.with_assumed(found.observed.gang)
        nodes = {held.replica: held.node for _, held in pairs}
        if {gang.replica(member) for member in gang.unbound} != nodes.keys():
            return False
        if len(nodes) < len(pairs):
            return False  # labels name a replica twice, and room is reserved for one of them
        enough = all(each.resources.fits_in(held.resources) for each, held in pairs)
        over = any(state.reservations.is_overcommitted(node) for node in {*nodes.values()})
        placement = Placement(job_uid, nodes)
        return enough and not over and state.reservations.still_fits(gang, placement)

    def _are_offered(self, pod: Pod, names: Sequence[str], nodes: Iterable[str]) -> bool:
        """Return whether kube-scheduler offers ``pod`` those of the planned nodes where it would
        fit: its view may be newer, or know of other pods. A probe cannot show it."""
        if len(names) < 2:
            return True
        assert pod.replica is not None
        left, job_uid = self._state.reservations.left, pod.replica.job_uid
        missing = {*nodes} - {*names}
        return not any(
            is_admitted(self._state.cluster.nodes[node], pod.constraints)
            and pod.resources.fits_in(left(node, besides=job_uid))
            for node in missing
        )

    def _why_not(self, pod: Pod, node: str, until: float) -> str | None:
        """Return why a pod is not to be bound any more."""
        if time.monotonic() >= until:
            return "the time to bind the gang is over"
        if self._is_paused(pod.namespace):
            return "bindings are paused"
        with self._state.locked() as now:
            others = now.monotonic < self._state.unseen.others_until
            if others or self._state.reservations.is_overcommitted(node):
                return "others have bound pods meanwhile"
        return None

    def _end(self, pod: Pod, held: Reservation, outcome: Written | Refused) -> bool:
        """Record what became of a binding; returns whether the pod is bound."""
        if isinstance(outcome, Written):
            return True
        if outcome.kind in PAUSES and not self._is_paused(pod.namespace):
            self._pause(pod.namespace, str(outcome))
        self._count(str(outcome.kind))
        _LOG.info("pod %s/%s: not bound here: %s", pod.namespace, pod.name, outcome)
        with self._state.locked() as now:
            if outcome.kind is ErrorKind.TRANSIENT:
                # It may be bound all the same: its room stays taken, and it is answered that node.
                self._state.unseen.end(pod.uid)
            else:
                self._state.not_bound(pod, held.replica, now)
        return False

    def _is_paused(self, namespace: str) -> bool:
        now = time.monotonic()
        return any(now < self._paused_until.get(each, 0.0) for each in ("", namespace))

    def _pause(self, namespace: str, reason: str) -> None:
        now = time.monotonic()
        kept = {name: until for name, until in self._paused_until.items() if until > now}
        self._paused_until = kept | {namespace: now + PAUSE_SECONDS}
        whose = f" of namespace {namespace}" if namespace else ""
        _LOG.warning("no gang%s is bound here for %.0f s: %s", whose, PAUSE_SECONDS, reason)

    def _are_seen(self, pods: Iterable[Pod]) -> bool:
        """Wait until the watch has shown these pods bound, not for long."""
        uids, until = {each.uid for each in pods}, time.monotonic() + SEEN_SECONDS
        while True:
            count, left = self._state.changes.count, until - time.monotonic()
            with self._state.lock:
                if self._state.unseen.being_bound.isdisjoint(uids):
                    return True
            if left <= 0:
                return False
            self._state.changes.wait(count, left)

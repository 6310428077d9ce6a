"""Binds the rest of a gang while kube-scheduler waits for the answer about its first pod.

kube-scheduler then sees these pods bound and takes them off its queue: it tries one pod of a gang
instead of each. What is not bound here, for whatever reason, keeps its reservation, and
kube-scheduler binds it as it would without this.
"""

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

from extender.bindings import Binding
from extender.planner.gang_rests import GangRests, Rest
from optimus.kube.errors import ErrorKind
from optimus.kube.pods import Pod
from optimus.kube.results import Refused, Written
from optimus.placement.ledger import Reservation

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


class GangBinding:
    """Several calls of kube-scheduler may use it at the same time."""

    def __init__(
        self,
        rests: GangRests,
        bind: BindAll,
        *,
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``count`` gets what became of each gang, and of each binding that failed."""
        self._rests, self._bind = rests, bind
        self._count = count
        self._paused_until = float("-inf")
        self._namespaces_paused_until: dict[str, float] = {}

    def bind_rest(self, pod: Pod, names: Sequence[str]) -> None:
        """Bind the waiting pods of the gang of a pod for which kube-scheduler is answered its
        planned node, one of ``names``."""
        began = time.monotonic()
        if pod.replica is None or self._is_paused(pod.namespace):
            return
        rest = self._rests.begin(pod, names)
        if not rest.pods:
            if rest.cause:
                self._count(rest.cause)
            return
        outcomes = self._write_all(rest, began + BIND_SECONDS)
        bound = [
            each
            for (each, held), outcome in zip(rest.pods, outcomes, strict=True)
            if self._end(each, held, outcome)
        ]
        self._count("bound" if len(bound) == len(rest.pods) else "bound in part")
        if bound and not self._are_seen(bound):
            self._pause("the watch does not show what was bound")

    def _write_all(self, rest: Rest, until: float) -> list[Written | Refused]:
        def why_not(pod: Pod, node: str) -> str | None:
            if time.monotonic() >= until:
                return "the time to bind the gang is over"
            if self._is_paused(pod.namespace):
                return "bindings are paused"
            return None if self._rests.has_room(node) else "others have bound pods meanwhile"

        bindings = [(pod, held.node) for pod, held in rest.pods]
        return self._bind(bindings, why_not)

    def _end(self, pod: Pod, held: Reservation, outcome: Written | Refused) -> bool:
        if isinstance(outcome, Refused):
            self._note(pod.namespace, outcome)
            self._count(str(outcome.kind))
            _LOG.info("pod %s/%s: not bound here: %s", pod.namespace, pod.name, outcome)
        return self._rests.end(pod, held, outcome)

    def _note(self, namespace: str, refused: Refused) -> None:
        if refused.kind not in PAUSES or self._is_paused(namespace):
            return
        now = time.monotonic()
        kept = {name: until for name, until in self._namespaces_paused_until.items() if until > now}
        self._namespaces_paused_until = kept | {namespace: now + PAUSE_SECONDS}
        _LOG.warning(
            "no gang of namespace %s is bound here for %.0f s: %s",
            namespace,
            PAUSE_SECONDS,
            refused,
        )

    def _is_paused(self, namespace: str) -> bool:
        until = max(self._paused_until, self._namespaces_paused_until.get(namespace, 0.0))
        return time.monotonic() < until

    def _pause(self, reason: str) -> None:
        self._paused_until = time.monotonic() + PAUSE_SECONDS
        _LOG.warning("no gang is bound here for %.0f s: %s", PAUSE_SECONDS, reason)

    def _are_seen(self, pods: Iterable[Pod]) -> bool:
        until = time.monotonic() + SEEN_SECONDS
        while True:
            count = self._rests.changes.count
            if self._rests.are_seen(pods):
                return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._rests.changes.wait(count, left)

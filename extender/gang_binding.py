"""Binds the rest of a gang while kube-scheduler waits for the answer about its first pod.

kube-scheduler then sees these pods bound and takes them off its queue: it tries one pod of a gang
instead of each. What is not bound here, for whatever reason, keeps its reservation, and
kube-scheduler binds it as it would without this.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Final, NamedTuple

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

_PAUSES: Final = (ErrorKind.FORBIDDEN, ErrorKind.THROTTLED, ErrorKind.TRANSIENT)


class BindDeadline:
    """Until when each thread may send bindings; asked for each part of a request that is sent."""

    def __init__(self) -> None:
        self._own = threading.local()

    def set(self, until: float) -> None:
        """This thread may send until then (monotonic)."""
        self._own.until = until

    def why_not(self) -> str | None:
        """Return why this thread may not send now."""
        until = getattr(self._own, "until", float("-inf"))
        return None if time.monotonic() < until else "the time to bind the gang is over"


class BindWrites(NamedTuple):
    """How bindings are written."""

    bind: Callable[[Pod, str], Written | Refused]
    """Binds a pod to a node: ``extender.bindings.PodBinder.bind``."""

    deadline: BindDeadline
    executor: Executor | None = None
    """Without one they are written one after the other."""


class GangBinding:
    """Several calls of kube-scheduler may use it at the same time."""

    def __init__(
        self,
        rests: GangRests,
        writes: BindWrites,
        *,
        count: Callable[[str], None] = lambda _: None,
    ) -> None:
        """``count`` gets what became of each gang, and of each binding that failed."""
        self._rests, self._writes = rests, writes
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
        def write(each: tuple[Pod, Reservation]) -> Written | Refused:
            pod, held = each
            if self._is_paused(pod.namespace):
                return Refused(ErrorKind.NOT_LEADING, "bindings are paused")
            if not self._rests.has_room(held.node):
                return Refused(ErrorKind.CONFLICT, "others have bound pods meanwhile")
            self._writes.deadline.set(until)
            outcome = self._writes.bind(pod, held.node)
            if isinstance(outcome, Refused):
                self._note(pod.namespace, outcome)
            return outcome

        run = map if self._writes.executor is None else self._writes.executor.map
        return list(run(write, rest.pods))

    def _end(self, pod: Pod, held: Reservation, outcome: Written | Refused) -> bool:
        if isinstance(outcome, Refused):
            self._count(str(outcome.kind))
            _LOG.info("pod %s/%s: not bound here: %s", pod.namespace, pod.name, outcome)
        return self._rests.end(pod, held, outcome)

    def _note(self, namespace: str, refused: Refused) -> None:
        if refused.kind not in _PAUSES:
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

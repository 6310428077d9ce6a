"""Bindings that kube-scheduler, or this process, may not have seen yet.

Where the extender binds gangs itself, two processes place pods on the same nodes, and each sees the
bindings of the other by its watch, a moment late. So until both have seen them:

* a pod of no job that kube-scheduler was answered nodes for may go to any node that admits it;
* a node on which a gang was just bound holds less than kube-scheduler knows of;
* while a scheduler binds pods that asks nobody here, nothing is known of its next binding.
"""

import logging
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from extender.state.cluster import Cluster, is_waiting
from extender.state.reservations import Reservations
from optimus.jobs import NodeConstraints
from optimus.kube.pods import Pod
from optimus.placement.capacity import is_admitted
from optimus.resources import NONE, Resources, total

_LOG = logging.getLogger(__name__)

FRESH_SECONDS: Final = 30.0
"""How long after its binding is seen here kube-scheduler may not have seen a pod."""

OTHERS_SECONDS: Final = 10.0
"""How long after a binding by a scheduler that does not ask another one by it is expected."""

QUIET_SECONDS: Final = 10.0
"""How long after the last event of a pod the watch is taken to be late: a gang that is new, or for
which room has appeared, comes with events."""

SOON_SECONDS: Final = 10.0
"""How long no gang is begun on room that a pod of no job may be about to take; one whose binding
takes longer waits for a volume, and kube-scheduler knows its node."""

UNKNOWN_SECONDS: Final = 60.0
"""How long a binding of which the watch shows nothing may still come: no request lasts longer."""


_MOST_CONSTRAINTS: Final = 16
"""Of pods of no job that are on their way, up to which each node is compared with them; with more,
any pod may go to any node."""


class _Passing(NamedTuple):
    """A pod of no job that may go to any node that admits it."""

    resources: Resources
    constraints: NodeConstraints
    until: float
    since: float = float("-inf")  # when this process answered it
    refused: frozenset[str] = frozenset()
    """Nodes that it was refused: what is reserved there was reserved before it was asked about."""

    since_start: bool = False
    """Whether only a process before this one may have answered about it."""


class _Bound(NamedTuple):
    """A pod that this process binds or has bound."""

    node: str
    until: float
    """Until when its node counts as freshly bound."""


_ByConstraints: TypeAlias = Sequence[tuple[NodeConstraints | None, Resources]]
"""What pods ask for that may go to the same nodes; ``None``: to any."""


def _by_constraints(passing: Iterable[_Passing]) -> _ByConstraints:
    alike: dict[int, list[_Passing]] = {}
    for each in passing:  # equal constraints are mostly one object
        alike.setdefault(id(each.constraints), []).append(each)
    if len(alike) > _MOST_CONSTRAINTS:
        return [(None, total(each.resources for found in alike.values() for each in found))]
    return [
        (found[0].constraints, total(each.resources for each in found)) for found in alike.values()
    ]


class UnseenBindings:
    """Over one cluster. Not thread-safe; time is an argument (monotonic, in seconds)."""

    def __init__(self, cluster: Cluster, reservations: Reservations) -> None:
        self._cluster, self._reservations = cluster, reservations
        self._passing: dict[str, _Passing] = {}
        self._bound: dict[str, _Bound] = {}
        self.being_bound: set[str] = set()
        """Pods, by UID, whose bindings are on their way: kube-scheduler is to leave them alone."""
        self.answered: dict[str, str] = {}
        """By UID of a pod of a gang, the node that kube-scheduler was last answered: a slow binding
        may follow after it has asked again."""
        self._nominated: dict[str, tuple[str, Resources]] = {}
        """By UID of a pod of no job, the node on which kube-scheduler keeps room for it."""
        self._event_at = float("-inf")
        self.others_until = float("-inf")
        """Until when pods may be bound here by schedulers that do not ask."""

    def may_be_late(self, now: float) -> bool:
        """Return whether the watch has shown no pod for a while: what others bind may not be
        seen."""
        return now - self._event_at > QUIET_SECONDS

    # --- what kube-scheduler places

    def passed(self, pod: Pod, refused: Iterable[str], now: float, seconds: float) -> None:
        """kube-scheduler was answered nodes for a pod of no job, not those that are ``refused``;
        its binding comes within so many seconds."""
        self._passing[pod.uid] = _Passing(
            pod.resources, pod.constraints, now + seconds, now, frozenset(refused)
        )

    def perhaps_passed(self, pod: Pod, now: float, seconds: float) -> None:
        """The process before this one may have answered nodes for a pod of no job."""
        self._passing[pod.uid] = _Passing(
            pod.resources, pod.constraints, now + seconds, since_start=True
        )

    def not_passed(self, pod_uid: str) -> None:
        """kube-scheduler was answered no node: its attempt has failed, and so had the last."""
        self._passing.pop(pod_uid, None)

    def leave_room_for_passing(
        self,
        nodes: Iterable[str],
        now: float,
        asked: Resources = NONE,
        *,
        besides: str | None = None,
    ) -> bool:
        """Return whether all pods that may be about to go to these nodes, and those that others
        were evicted for there, fit beside ``asked`` and what is reserved for others than
        ``besides``."""
        self._drop_old(now)
        return self._leave_room(nodes, self._passing.values(), asked, besides)

    def may_take(self, nodes: Iterable[str], now: float) -> bool:
        """Return whether pods that were just answered may be about to take what is reserved there:
        it has been reserved since."""
        self._drop_old(now)
        soon = [each for each in self._passing.values() if now < each.since + SOON_SECONDS]
        return bool(soon) and not all(
            self._leave_room((node,), [each for each in soon if node not in each.refused])
            for node in nodes
        )

    def _leave_room(
        self,
        nodes: Iterable[str],
        found: Collection[_Passing],
        asked: Resources = NONE,
        besides: str | None = None,
    ) -> bool:
        if not found and not self._nominated:
            return True
        passing, kept = _by_constraints(found), dict[str, Resources]()
        for uid, (node, resources) in self._nominated.items():
            if uid not in self._passing:
                kept[node] = kept.get(node, NONE) + resources
        return all(
            _fits(
                asked + self._passing_on(name, passing) + kept.get(name, NONE),
                self._reservations.left(name, besides),
                self._offered_by(name),
            )
            for name in nodes
        )

    # --- what this process binds

    def begin(self, pod_uid: str, node: str, now: float) -> None:
        """A pod is about to be bound."""
        self._bound[pod_uid] = _Bound(node, now + UNKNOWN_SECONDS)
        self.being_bound.add(pod_uid)

    def end(self, pod_uid: str) -> None:
        """Whether the pod is bound, the watch will show: kube-scheduler may bind it there."""
        self.being_bound.discard(pod_uid)

    def not_bound(self, pod_uid: str) -> None:
        """The API server has not bound the pod."""
        self._bound.pop(pod_uid, None)
        self.being_bound.discard(pod_uid)

    def full_for(self, pod: Pod, names: Collection[str], now: float) -> set[str]:
        """Return, of these nodes, those on which gangs were just bound and that may lack the room
        for a pod of no job, whatever kube-scheduler knows."""
        self._drop_old(now)
        fresh = {bound.node for bound in self._bound.values()}.intersection(names)
        if not fresh:
            return set()
        assumed: dict[str, Resources] = {}
        for replica, node in self._reservations.assumed.items():
            held = self._reservations.ledger.get(replica)
            if held is not None:
                assumed[node] = assumed.get(node, NONE) + held.resources
        others = _by_constraints(each for uid, each in self._passing.items() if uid != pod.uid)
        return {
            name
            for name in fresh & self._cluster.nodes.keys()
            if not _fits(
                pod.resources + self._passing_on(name, others),
                self._cluster.free(name) - assumed.get(name, NONE),
                self._offered_by(name),
            )
        }

    # --- what the watch shows

    def pod_changed(self, before: Pod | None, after: Pod | None, now: float) -> None:
        """A pod, before and after a change; ``None``: absent."""
        pod = after or before
        assert pod is not None
        self._event_at = now
        self._nominated.pop(pod.uid, None)
        if pod is after and pod.replica is None and pod.nominated_node and is_waiting(pod):
            self._nominated[pod.uid] = pod.nominated_node, pod.resources
        if after is None or after.leaving or after.finished:
            self._passing.pop(pod.uid, None)
            self.answered.pop(pod.uid, None)
            self.not_bound(pod.uid)
        elif after.node is not None and (before is None or before.node is None):
            self._seen_bound(after, now)
        elif after.refused and pod.uid in self._passing and self._passing[pod.uid].since_start:
            del self._passing[pod.uid]  # its first attempt, which began before, has ended

    def _seen_bound(self, pod: Pod, now: float) -> None:
        was_passing = self._passing.pop(pod.uid, None) is not None
        was_answered = self.answered.pop(pod.uid, None) == pod.node
        bound = self._bound.get(pod.uid)
        if bound is not None and bound.node == pod.node:
            self._bound[pod.uid] = _Bound(bound.node, now + FRESH_SECONDS)
            self.being_bound.discard(pod.uid)
            return
        # Those that were bound before this process began count, too: it does not know by whom.
        if not was_passing and not was_answered and pod.node in self._cluster.nodes:
            if self.others_until <= now:
                _LOG.info(
                    "pod %s/%s was bound and nobody asked about it: gangs are bound pod by pod"
                    " until %.0f s after the last such binding",
                    pod.namespace,
                    pod.name,
                    OTHERS_SECONDS,
                )
            self.others_until = now + OTHERS_SECONDS

    def _drop_old(self, now: float) -> None:
        if any(each.until <= now for each in self._passing.values()):
            self._passing = {uid: each for uid, each in self._passing.items() if each.until > now}
        if any(each.until <= now for each in self._bound.values()):
            self._bound = {uid: each for uid, each in self._bound.items() if each.until > now}
            self.being_bound &= self._bound.keys()

    def _passing_on(self, node: str, passing: _ByConstraints) -> Resources:
        known = self._cluster.nodes.get(node)
        if known is None:
            return NONE
        return total(
            resources
            for constraints, resources in passing
            if constraints is None or is_admitted(known, constraints)
        )

    def _offered_by(self, node: str) -> Collection[str]:
        known = self._cluster.nodes.get(node)
        return () if known is None else known.allocatable.keys()


def _fits(asked: Resources, free: Resources, offered: Collection[str]) -> bool:
    """Return whether so much is free of the resources that a node offers; kube-scheduler alone
    knows of the others."""
    return all(amount <= free[name] for name, amount in asked.items() if name in offered)

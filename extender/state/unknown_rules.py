"""Whether kube-scheduler keeps pods from nodes for reasons that a plan does not know.

Volumes and resource claims show in a pod. Rules of the kube-scheduler itself do not: a plugin, the
``addedAffinity`` of its configuration. A plan that does not know of them may be bound by half. So
the first list of nodes that is offered to a pod of some constraints is compared with the nodes that
admit the pod and have the room. Where all of those are offered, gangs with these constraints are
answered as planned. Where one is missing, every pod of such a gang is offered nodes before any is
answered (``extender.state.offers``), until a list is complete. A list is compared again after
``VALID_SECONDS``.

Nodes that a pod has left in the last seconds may be missing: kube-scheduler may not know yet.
"""

from typing import Final, NamedTuple

from cachetools import LRUCache

from optimus.jobs import NodeConstraints

VALID_SECONDS: Final = 600.0
"""How long lists are taken to be complete after one that was."""

RECHECK_SECONDS: Final = 1.0
"""Where a node was missing, lists are compared at most this often."""

LAG_SECONDS: Final = 4.0
"""kube-scheduler has seen by then that a pod has left a node."""

_MOST: Final = 1024
"""Constraints that are remembered; those that were compared longest ago go first."""


class Compared(NamedTuple):
    """The result of the last comparison."""

    is_complete: bool
    recheck_at: float
    """When to compare again."""


class UnknownRules:
    """Kept by constraints of pods. Not thread-safe; time is an argument (monotonic, in seconds)."""

    def __init__(self) -> None:
        self.last: LRUCache[NodeConstraints, Compared] = LRUCache(_MOST)
        self.any_missing = False
        """Whether a node has ever been missing: otherwise nothing applies."""
        self.by_score = False
        """Whether kube-scheduler asks for scores alone, so that no call of it is refused."""

    def record(self, constraints: NodeConstraints, now: float, *, is_complete: bool) -> bool:
        """Record the result of comparing a list; returns whether it differs from the last."""
        last = self.last.get(constraints)
        wait = VALID_SECONDS if is_complete else RECHECK_SECONDS
        self.any_missing |= not is_complete
        self.last[constraints] = Compared(is_complete, now + wait)
        return last is None or last.is_complete != is_complete

    def may_apply(self, constraints: NodeConstraints) -> bool:
        """Return whether a node was missing from the last list."""
        last = self.last.get(constraints)
        return last is not None and not last.is_complete

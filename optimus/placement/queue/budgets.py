"""Bounds the planner's time that changes of each namespace take: a token bucket for each.

Anybody who may create pods can make the planner look at a gang again, by a label, as often as the
API server takes the change. What that costs is charged to the gang's namespace. A namespace that is
over its budget waits for its own gangs alone: they are looked at less often, and the gangs of other
namespaces are planned meanwhile."""

from typing import Final, NamedTuple

SHARE: Final = 0.1
"""The part of the time that a namespace may take in the long run."""

BURST_SECONDS: Final = 1.0
"""The seconds that it may take at once: enough to look at a hundred thousand replicas."""

SECONDS_PER_REPLICA: Final = 1e-5
"""Looking at one replica costs about this."""


class _Spent(NamedTuple):
    seconds: float
    at: float


class NamespaceBudgets:
    """The budgets by namespace. Not thread-safe; time is monotonic, in seconds."""

    def __init__(self) -> None:
        self.spent: dict[str, _Spent] = {}
        """The namespaces that have spent something that is not made up for yet."""

    def charge(self, namespace: str, seconds: float, now: float) -> None:
        """Something has been done for a namespace that took so long."""
        left = self._left_of(namespace, now) + seconds
        if left > 0:
            self.spent[namespace] = _Spent(left, now)
        else:
            self.spent.pop(namespace, None)

    def is_over(self, namespace: str, now: float) -> bool:
        """Return whether the namespace has spent more than it may."""
        return namespace in self.spent and self._left_of(namespace, now) > BURST_SECONDS

    def _left_of(self, namespace: str, now: float) -> float:
        spent = self.spent.get(namespace)
        return 0.0 if spent is None else max(spent.seconds - SHARE * (now - spent.at), 0.0)

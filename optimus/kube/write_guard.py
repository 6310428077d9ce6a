"""Asks before each write whether this process may still write, at the last moment that there is.

A process may be stopped between a decision and its request for as long as it takes to make another
one the leader. So the question is asked in the connection itself: after it is made, and before each
part of the request is handed to the system. What has left the process then is refused by the API
server where the object has changed: patches carry the resource version that was decided on.
"""

from collections.abc import Callable
from typing import Any, Final

import urllib3

from optimus.kube.errors import NotLeading

_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})

Guard = Callable[[], str | None]
"""Why this process may not write now, as a sentence; ``None`` if it may."""


def guard_writes(manager: urllib3.PoolManager, why_not: Guard) -> None:
    """Let every connection that the manager opens ask ``why_not`` before it sends a write.

    A refused write raises ``NotLeading``, and its connection is closed."""
    pools: Any = manager.pool_classes_by_scheme
    manager.pool_classes_by_scheme = {
        scheme: type(
            pool.__name__, (pool,), {"ConnectionCls": _guarded(pool.ConnectionCls, why_not)}
        )
        for scheme, pool in pools.items()
    }


def _guarded(connection: type[Any], why_not: Guard) -> type[Any]:
    class Guarded(connection):  # type: ignore[misc]  # http or https, by way of a proxy or not
        _is_write = False

        def putrequest(self, method: str, *arguments: Any, **options: Any) -> None:
            self._is_write = method.upper() not in _READS
            super().putrequest(method, *arguments, **options)

        def request(self, *arguments: Any, **options: Any) -> None:
            try:
                super().request(*arguments, **options)
            finally:
                self._is_write = False

        def send(self, data: Any) -> None:
            if self._is_write:
                if self.sock is None:
                    self.connect()  # takes its time: the question comes after it
                reason = why_not()
                if reason is not None:
                    raise NotLeading(reason)
            super().send(data)

    return Guarded

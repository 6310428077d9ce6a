"""Reads on which kinds of nodes new jobs are to start, from the autoscaler's Lease.

The Lease is renewed every second, so that it is read now and then and not watched. One that is not
renewed any more says nothing.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from extender.state.extender_state import ExtenderState
from optimus.kube.kind_orders import kind_orders_of
from optimus.kube.leases import Lease
from optimus.kube.results import Refused
from optimus.placement.first_kind import NO_ORDERS, KindOrders

_LOG = logging.getLogger(__name__)

READ_SECONDS: Final = 10.0
"""Between two looks. An order changes once in an interval of the autoscaler at most."""

STALE_SECONDS: Final = 60.0
"""A Lease that has not changed for longer, and for longer than its own duration, says nothing."""


class KindOrdersReader:
    """``look`` is called by one thread."""

    def __init__(
        self,
        read: Callable[[], Lease | Refused | None],
        state: ExtenderState,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        """``read`` gives the autoscaler's Lease; ``None`` where there is none."""
        self._read, self._state, self._timer = read, state, timer
        self._seen, self._changed_at = Lease(), timer()
        self._refusal = ""

    def look(self) -> None:
        """Take over what the Lease says now; while it cannot be read, what it said last."""
        found, now = self._read(), self._timer()
        refusal = str(found) if isinstance(found, Refused) else ""
        if refusal and refusal != self._refusal:
            _LOG.warning("new jobs start on any kind of nodes after a minute: %s", refusal)
        self._refusal = refusal
        lease = self._seen if isinstance(found, Refused) else found or Lease()
        if lease != self._seen:
            self._seen, self._changed_at = lease, now
        lasts = max(STALE_SECONDS, lease.duration_seconds)
        orders = kind_orders_of(lease) if now - self._changed_at <= lasts else NO_ORDERS
        self._set(orders)

    def _set(self, orders: KindOrders) -> None:
        with self._state.lock:
            changed = self._state.cluster.kind_orders != orders
            self._state.cluster.kind_orders = orders
        if changed:
            _LOG.info(
                "new jobs start on nodes of the kinds %s, if these hold them",
                ", ".join(orders.usual) or "(any)",
            )

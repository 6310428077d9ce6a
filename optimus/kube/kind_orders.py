"""The order of the kinds of nodes on the leader's Lease: written by the autoscaler, read by the
extender.

Only its holder can write the Lease, and tenants cannot. What another instance wrote, what is too
long or what cannot be read counts as nothing.
"""

import logging
from typing import Final

import msgspec

from optimus.kube.errors import Malformed, decode
from optimus.kube.leases import Lease
from optimus.placement.first_kind import NO_ORDERS, KindOrders

_LOG = logging.getLogger(__name__)

_MOST_KINDS: Final = 8
"""The extender looks for a place once for each."""

_LONGEST_ORDERS: Final = 32 * 1024
"""Characters; the orders of workloads are left out where they take more."""


class _Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    by: str
    """The identity that held the Lease when it was written."""

    label: str
    usual: tuple[str, ...] = ()
    workloads: dict[str, tuple[str, ...]] = {}
    """The kinds by NAMESPACE/NAME."""


_DECODER: Final = msgspec.json.Decoder(_Stored)


def encode_kind_orders(orders: KindOrders, holder: str) -> str:
    """The orders as text, written by this identity; empty where there is nothing to say."""
    workloads = {"/".join(key): kinds[:_MOST_KINDS] for key, kinds in orders.workloads.items()}
    if not (orders.usual or workloads):
        return ""
    stored = _Stored(holder, orders.label, orders.usual[:_MOST_KINDS], workloads)
    text = msgspec.json.encode(stored).decode()
    if len(text) <= _LONGEST_ORDERS:
        return text
    return msgspec.json.encode(msgspec.structs.replace(stored, workloads={})).decode()


def kind_orders_of(lease: Lease) -> KindOrders:
    """Return what the holder of a Lease has written."""
    text = lease.kind_orders
    if not text or len(text) > _LONGEST_ORDERS:
        return NO_ORDERS
    try:
        stored = decode(_DECODER, text.encode(), "an order of kinds of nodes")
    except Malformed as error:
        _LOG.warning("the Lease of the autoscaler: %s", error)
        return NO_ORDERS
    if stored.by != lease.holder:
        return NO_ORDERS
    workloads = dict[tuple[str, str], tuple[str, ...]]()
    for key, kinds in stored.workloads.items():
        namespace, _, name = key.partition("/")
        workloads[namespace, name] = kinds[:_MOST_KINDS]
    return KindOrders(stored.label, stored.usual[:_MOST_KINDS], workloads)

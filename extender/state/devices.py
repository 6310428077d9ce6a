"""Devices of dynamic resource allocation, counted as a resource of nodes and pods.

A device class is a resource: a node offers so many, a pod takes what its claims request. Where one
class selects no more than another does, its devices count for both. The devices of a pod's own
claims are taken by the pod: from its reservation on, and until it has ended. All others that are
allocated are taken by a pod that stands for the claim: those of claims that pods share, those of
pods that have ended, and what a pod has got beyond its requests.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias, TypeVar

import msgspec

from optimus.jobs import NodeConstraints
from optimus.kube.devices import (
    ClaimTemplate,
    Device,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    PoolName,
    ResourceSlice,
)
from optimus.kube.pods import Pod
from optimus.kube.podspec import PodClaim
from optimus.nodes import Node
from optimus.resources import NONE, Resources

Name: TypeAlias = tuple[str, str]
"""Namespace and name of a claim or a template."""

_ANYWHERE: Final = NodeConstraints()


def resource_of(device_class: str) -> str:
    """The resource that a device class is; quotas call it so, too."""
    return f"{device_class}.deviceclass.resource.k8s.io/devices"


class Devices:
    """Nodes, pods, claims and their devices. Not thread-safe."""

    def __init__(self) -> None:
        self._classes: dict[str, DeviceClass] = {}
        self._templates: dict[Name, ClaimTemplate] = {}
        self._claims: dict[Name, DeviceClaim] = {}
        self._claims_of_pod: dict[str, dict[str, DeviceClaim]] = {}
        self._claims_of_pool: dict[PoolName, set[Name]] = {}
        self._pools: dict[PoolName, dict[str, ResourceSlice]] = {}
        self._pools_of_node: dict[str, set[PoolName]] = {}
        self._nodes: dict[str, Node] = {}
        """Nodes as the watch shows them."""
        self._pods: dict[str, tuple[Pod, Pod]] = {}
        """Pods with claims, by UID: as the watch shows them, and with what they take."""
        self._takers: set[str] = set()
        """The UIDs of those that take the devices of their own claims."""
        self._holders: dict[Name, Pod] = {}
        """What stands for claims on their nodes."""
        self._not_counted = Counter[str]()
        """By driver, how many slices hold devices that cannot be counted."""

    # --- what has changed

    def set_slice(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        """Record a slice; ``None`` on either side: absent."""
        for found, is_there in ((before, False), (after, True)):
            if found is not None:
                of_pool = self._pools.setdefault(found.pool, {})
                _set(of_pool, found.name, found, is_there=is_there)
                if not of_pool:
                    del self._pools[found.pool]
                if not found.is_countable:
                    self._not_counted[found.pool[0]] += 1 if is_there else -1
        for found in (before, after):
            if found is not None and found.node:
                pools = self._pools_of_node.setdefault(found.node, set())
                is_there = found.node in self.nodes_of(found.pool)
                (pools.add if is_there else pools.discard)(found.pool)
                if not pools:
                    del self._pools_of_node[found.node]

    @property
    def not_counted(self) -> frozenset[str]:
        """The drivers with devices that cannot be counted."""
        return frozenset(+self._not_counted)

    def set_class(self, before: DeviceClass | None, after: DeviceClass | None) -> None:
        """Record a device class, likewise."""
        if before is not None:
            self._classes.pop(before.name, None)
        if after is not None:
            self._classes[after.name] = after

    def set_template(self, before: ClaimTemplate | None, after: ClaimTemplate | None) -> None:
        """Record a template, likewise."""
        if before is not None:
            self._templates.pop((before.namespace, before.name), None)
        if after is not None:
            self._templates[after.namespace, after.name] = after

    def set_claim(self, before: DeviceClaim | None, after: DeviceClaim | None) -> None:
        """Record a claim, likewise."""
        for found, is_there in ((before, False), (after, True)):
            if found is None:
                continue
            name = found.namespace, found.name
            _set(self._claims, name, found, is_there=is_there)
            for pool in {each.pool for each in found.allocated}:
                names = self._claims_of_pool.setdefault(pool, set())
                (names.add if is_there else names.discard)(name)
                if not names:
                    del self._claims_of_pool[pool]
            if found.pod_uid:
                of_pod = self._claims_of_pod.setdefault(found.pod_uid, {})
                _set(of_pod, found.pod_claim, found, is_there=is_there)
                if not of_pod:
                    del self._claims_of_pod[found.pod_uid]

    def set_taker(self, pod: Pod, *, takes: bool) -> list[Name]:
        """A pod takes what it claims, or does not any more; the claims that this concerns."""
        if takes == (pod.uid in self._takers):
            return []
        (self._takers.add if takes else self._takers.discard)(pod.uid)
        of_pod = self._claims_of_pod.get(pod.uid, {}).values()
        return [(each.namespace, each.name) for each in of_pod]

    # --- nodes

    def node(self, name: str, node: Node | None) -> Node | None:
        """Record a node; returns it with its devices."""
        if node is None:
            self._nodes.pop(name, None)
            return None
        self._nodes[name] = node
        return self._with_devices(node)

    def known_node(self, name: str) -> Node | None:
        """A node as it was recorded."""
        return self._nodes.get(name)

    def nodes_of(self, pool: PoolName) -> set[str]:
        """The nodes to which devices of a pool belong."""
        return {each.node for each in self._pools.get(pool, {}).values() if each.node}

    def all_nodes(self) -> tuple[str, ...]:
        """The nodes that have devices."""
        return tuple(self._pools_of_node)

    def _with_devices(self, node: Node) -> Node:
        offered = NONE
        for pool in self._pools_of_node.get(node.name, ()):
            for found in self._current(pool):
                if found.node == node.name:
                    offered += self._counted(each for each in found.devices if not each.is_tainted)
        if not offered:
            return node
        return Node(node.name, node.allocatable + offered, node.labels, node.taints, node.cordoned)

    def _current(self, pool: PoolName) -> list[ResourceSlice]:
        """The slices that are in force: those of the newest generation, once all are there."""
        of_pool = self._pools.get(pool, {}).values()
        newest = max((each.generation for each in of_pool), default=0)
        found = [each for each in of_pool if each.generation == newest]
        return found if found and len(found) == found[0].slices else []

    def _counted(self, devices: Iterable[Device]) -> Resources:
        """So many devices of each class."""
        counts: dict[str, int] = {}
        for device in devices:
            for each in self._classes.values():
                if each.values <= device.values:
                    resource = resource_of(each.name)
                    counts[resource] = counts.get(resource, 0) + 1
        return Resources(counts)

    # --- pods

    def with_claimed(self, pod: Pod) -> Pod:
        """The pod with the devices that it takes."""
        known = self._pods.get(pod.uid)
        if not pod.device_claims or (known is not None and known[1] is pod):
            return pod
        taken, beyond_plan = NONE, pod.beyond_plan
        for claim in pod.device_claims:
            amounts, is_exact = self._requested(pod, claim)
            taken += amounts
            beyond_plan |= not is_exact
        return msgspec.structs.replace(
            pod, resources=pod.resources + taken, beyond_plan=beyond_plan
        )

    def _requested(self, pod: Pod, claim: PodClaim) -> tuple[Resources, bool]:
        """Return what one claim of a pod takes, and whether nothing else decides on it.

        Where the API server does not serve devices, nothing is known of them."""
        if not claim.resource_claim_template_name or not (self._classes or self._pools):
            return NONE, False
        found: DeviceClaim | ClaimTemplate | None
        found = self._claims_of_pod.get(pod.uid, {}).get(claim.name)
        if found is None:
            found = self._templates.get((pod.namespace, claim.resource_claim_template_name))
        if found is not None:
            return self._demand(found.requests)
        if pod.node is not None:
            return NONE, True
        # No node offers this: the gang waits, and why is shown.
        return Resources({f"resource claim template {claim.resource_claim_template_name}": 1}), True

    def _demand(self, requests: Iterable[DeviceRequest]) -> tuple[Resources, bool]:
        """Return what is taken of each class, and whether any devices of the classes will do."""
        amounts, every_exact = dict[str, int](), True
        for device_class, number, is_exact in requests:
            own = self._classes.get(device_class)
            if own is None and number:
                amounts[resource_of(device_class)] = number  # no node offers it
            if own is None or self._may_not_be_counted(own):
                every_exact &= own is None and number > 0
                continue
            every_exact &= is_exact and own.is_exact
            for each in self._classes.values():
                if each.values <= own.values:
                    resource = resource_of(each.name)
                    amounts[resource] = amounts.get(resource, 0) + number
        return Resources(amounts), every_exact

    def _may_not_be_counted(self, device_class: DeviceClass) -> bool:
        """Return whether the class may select devices that cannot be counted."""
        drivers = {each.value for each in device_class.values if not each.attribute}
        return bool(self._not_counted) and (
            not drivers or not drivers.isdisjoint(self._not_counted)
        )

    def record(self, pod: Pod) -> Pod:
        """A pod as the watch shows it now; returns it with the devices that it takes."""
        if not pod.device_claims:
            return pod
        found = self.with_claimed(pod)
        self._pods[pod.uid] = pod, found
        return found

    def recorded(self, pod: Pod) -> Pod:
        """The pod as it was recorded."""
        known = self._pods.get(pod.uid)
        return pod if known is None else known[1]

    def forget(self, pod: Pod) -> None:
        """A pod is gone."""
        self._pods.pop(pod.uid, None)

    def outdated(self) -> list[Pod]:
        """The pods, as the watch shows them, that take something else now."""
        return [shown for shown, _ in self._pods.values() if self.is_outdated(shown.uid)]

    def is_outdated(self, pod_uid: str) -> bool:
        """Return whether a pod takes something else now."""
        known = self._pods.get(pod_uid)
        return known is not None and self.with_claimed(known[0]) != known[1]

    def shown(self, pod_uid: str) -> Pod:
        """A pod as the watch shows it."""
        return self._pods[pod_uid][0]

    # --- claims

    def claims_of(self, pool: PoolName) -> tuple[Name, ...]:
        """The claims that have got devices of a pool."""
        return tuple(self._claims_of_pool.get(pool, ()))

    def all_claims(self) -> tuple[Name, ...]:
        """Every claim that has got devices."""
        return tuple(name for name, claim in self._claims.items() if claim.allocated)

    def settle(self, name: Name) -> tuple[Pod | None, Pod | None]:
        """Return what stands for a claim on its node, before and from now on: a pod that takes what
        no other pod takes of its devices."""
        before, after = self._holders.pop(name, None), self._holder(name)
        if after is not None:
            self._holders[name] = after
        return before, after

    def _holder(self, name: Name) -> Pod | None:
        claim = self._claims.get(name)
        if claim is None or not claim.allocated:
            return None
        found = list(self._allocated(claim))
        taken = self._counted(device for _, device in found)
        if claim.pod_uid in self._takers:
            taken = taken.beyond(self._demand(claim.requests)[0])
        if not taken:
            return None
        return Pod(
            uid=f"claim {claim.namespace}/{claim.name}",
            namespace=claim.namespace,
            name=claim.name,
            created_at=0.0,
            node=found[0][0],
            phase="Running",
            resources=taken,
            constraints=_ANYWHERE,
        )

    def _allocated(self, claim: DeviceClaim) -> Iterator[tuple[str, Device]]:
        """The devices that a claim has got, as far as nodes offer them, each with its node."""
        for pool in {each.pool for each in claim.allocated}:
            names = {each.device for each in claim.allocated if each.pool == pool}
            for found in self._current(pool):
                for device in found.devices:
                    if found.node and device.name in names and not device.is_tainted:
                        yield found.node, device


_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def _set(there: dict[_Key, _Value], key: _Key, value: _Value, *, is_there: bool) -> None:
    if is_there:
        there[key] = value
    else:
        there.pop(key, None)

"""Each event of the watches on devices changes the planner's state."""

from collections.abc import Callable, Iterable

from extender.state.devices import Name
from extender.state.extender_state import ExtenderState
from optimus.kube.devices import ClaimTemplate, DeviceClaim, DeviceClass, ResourceSlice
from optimus.kube.pods import Pod
from optimus.nodes import Node


class DeviceEvents:
    """Observers of the watches; each gets an object before and after, ``None`` where absent."""

    def __init__(
        self,
        state: ExtenderState,
        set_node: Callable[[str, Node | None], None],
        set_pod: Callable[[Pod, Pod], None],
    ) -> None:
        """``set_node`` and ``set_pod`` take what the watches have shown before once more: it has
        other devices now."""
        self._state, self._set_node, self._set_pod = state, set_node, set_pod

    def slice(self, before: ResourceSlice | None, after: ResourceSlice | None) -> None:
        """A slice of devices."""
        if before == after:
            return
        state, devices = self._state, self._state.devices
        pools = {each.pool for each in (before, after) if each is not None}
        with state.lock:
            not_counted = devices.not_counted
            nodes = {node for pool in pools for node in devices.nodes_of(pool)}
            devices.set_slice(before, after)
            nodes |= {node for pool in pools for node in devices.nodes_of(pool)}
            claims = {name for pool in pools for name in devices.claims_of(pool)}
            outdated = devices.outdated() if devices.not_counted != not_counted else ()
        self._show_again(nodes, outdated, claims)

    def device_class(self, before: DeviceClass | None, after: DeviceClass | None) -> None:
        """A device class."""
        if before == after:
            return
        state, devices = self._state, self._state.devices
        with state.lock:
            devices.set_class(before, after)
            nodes, outdated, claims = (
                devices.all_nodes(),
                devices.outdated(),
                devices.all_claims(),
            )
        self._show_again(nodes, outdated, claims)

    def template(self, before: ClaimTemplate | None, after: ClaimTemplate | None) -> None:
        """A resource claim template."""
        if before == after:
            return
        with self._state.lock:
            self._state.devices.set_template(before, after)
            outdated = self._state.devices.outdated()
        self._show_again((), outdated, ())

    def claim(self, before: DeviceClaim | None, after: DeviceClaim | None) -> None:
        """A resource claim."""
        if before == after:
            return
        state, devices = self._state, self._state.devices
        with state.lock:
            devices.set_claim(before, after)
            found = [each for each in (before, after) if each is not None]
            outdated = {each.pod_uid for each in found if devices.is_outdated(each.pod_uid)}
            state.settle_claims({(each.namespace, each.name) for each in found})
            pods = [devices.shown(uid) for uid in outdated]
        self._show_again((), pods, ())

    def _show_again(
        self, nodes: Iterable[str], pods: Iterable[Pod], claims: Iterable[Name]
    ) -> None:
        for name in sorted(nodes):
            with self._state.lock:
                node = self._state.devices.known_node(name)
            if node is not None:
                self._set_node(name, node)
        for pod in pods:
            self._set_pod(pod, pod)
        with self._state.lock:
            self._state.settle_claims(claims)
        self._state.changes.notify()
